# shellcheck shell=bash
# Bytes that break a rule.

readonly FUZZ_LENGTH_MAX=4096
# The flags that cargo-fuzz would set on a stable toolchain: LLVM counts edges and comparisons for libFuzzer. No sanitizer: there is
# no unsafe code of ours to watch. Bounds, overflows and the targets' own assertions are what can fail.
readonly FUZZ_FLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"

command_fuzz() {
    local seconds=10 targets=() inputs=()
    while [ $# -gt 0 ]; do
        case $1 in
        --seconds)
            [[ ${2:-} =~ ^[0-9]+$ ]] || die "--seconds needs a number."
            seconds=$2
            shift 2
            ;;
        -*) die "./dev fuzz has no option $1." ;;
        *) if [ -e "$1" ]; then inputs+=("$1"); else targets+=("$1"); fi && shift ;;
        esac
    done
    has c++ || want g++ "compiles libFuzzer, which looks for inputs"
    need_build
    local host program target known
    known=$(awk -F'"' '/Target \{ name: / { print $2 }' fuzz/src/lib.rs)
    [ ${#targets[@]} -gt 0 ] || mapfile -t targets <<<"$known"
    for target in "${targets[@]}"; do
        grep -qx "$target" <<<"$known" || die "there is no target '$target'; there are:" "$known"
    done
    host=$(rustc -vV | awk '$1 == "host:" { print $2 }')
    say "Building the targets for libFuzzer"
    # --target keeps the flags away from build scripts.
    RUSTFLAGS=$FUZZ_FLAGS CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        CARGO_PROFILE_RELEASE_LTO=off cargo build --release --package sqluice-fuzz --features libfuzzer --bin fuzz \
        --target "$host" --target-dir "$TARGET/fuzz"
    program=$TARGET/fuzz/$host/release/fuzz
    if [ ${#inputs[@]} -gt 0 ]; then
        SQLUICE_FUZZ_TARGET=${targets[0]} "$program" "${inputs[@]}" || die "${targets[0]} fails: see above."
        return
    fi
    say "${#targets[@]} target(s), $seconds s each"
    export -f fuzz_one
    export SECONDS_EACH=$seconds FUZZ_PROGRAM=$program FUZZ_FOLDER=$TARGET/fuzz FUZZ_LENGTH_MAX
    printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}' ||
        die "found something: see above. Keep the file in fuzz/found/TARGET, so that it is tried in every test."
}

# Runs one target; new inputs go to its folder below target/, those kept in the tree are only read.
fuzz_one() {
    local name=$1 work=$FUZZ_FOLDER/work/$1 begun=$SECONDS
    mkdir -p "$work/corpus" "$work/artifacts" "fuzz/corpus/$name"
    local kept=("fuzz/corpus/$name")
    [ ! -d "fuzz/found/$name" ] || kept+=("fuzz/found/$name")
    rm -f "$work"/artifacts/*
    local given=0
    if SQLUICE_FUZZ_TARGET=$name "$FUZZ_PROGRAM" -max_total_time="$SECONDS_EACH" -max_len="$FUZZ_LENGTH_MAX" -timeout=10 \
        -rss_limit_mb=1500 -print_final_stats=1 -artifact_prefix="$work/artifacts/" "$work/corpus" "${kept[@]}" \
        >"$work/log" 2>&1; then
        printf '%-14s %9s runs, %5s edges, nothing found\n' "$name" \
            "$(awk '/number_of_executed_units/ { print $2 }' "$work/log")" \
            "$(awk '/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) } END { print edges }' "$work/log")"
        return
    fi
    grep -E 'panicked|^ +left:|^ +right:|ERROR|SUMMARY' -A2 "$work/log" | head -n 20 >&2 || tail -n 20 "$work/log" >&2
    for given in "$work"/artifacts/*; do
        printf 'error: target %s fails with %s\n       alone: ./dev fuzz %s %s\n' "$name" "$given" "$name" "$given" >&2
    done
    # 255 would make xargs stop.
    return 1
}
