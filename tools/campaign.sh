# shellcheck shell=bash
# Longer looks: random streams, instructions, failover.

command_streams() {
    need_lab
    absolute_variable SQLUICE_MYSQLD
    build --package sqluice-conform
    exec "$TARGET/debug/conform" "$@"
}

# Counts, not times: they are the same on a busy machine.
command_instructions() {
    has valgrind || want valgrind "counts instructions, with its tool callgrind"
    need_lab
    build --package sqluice-instructions
    case " $* " in *" --program "* | *" --list "* | *" help "* | *" --help "*) ;; *)
        say "Building a release (a few minutes the first time)"
        cargo build --release --package sqluice
        ;;
    esac
    exec "$TARGET/debug/instructions" "$@"
}

command_simulate() {
    local seeds=10000 seed=
    while [ $# -gt 0 ]; do
        case $1 in
        --seeds | --seed)
            [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1 needs a number."
            if [ "$1" = --seed ]; then seed=$2; else seeds=$2; fi
            shift 2
            ;;
        *) die "./dev simulate knows --seeds N and --seed S, not $1." ;;
        esac
    done
    need_build
    # Only the crate that plays is optimised; what it stands on is shared with the tests.
    set -- --config 'profile.dev.package.sqluice-cluster.opt-level=2' --test failover
    if [ -n "$seed" ]; then
        SQLUICE_SEED=$seed test_package sqluice-cluster "$@" -- --nocapture
    else
        SQLUICE_SEEDS=$seeds test_package sqluice-cluster "$@"
    fi
}

command_failover() {
    local options=("$@")
    has ip || want iproute2 "cuts a server off, in a network of its own"
    need_lab
    need_mysql_for "$@"
    build --package sqluice-failover
    case " ${options[*]} " in *" --sqluice "* | *" --sqluice="* | *" --help "* | *" -h "*) ;; *)
        say "Building a release (a few minutes the first time)"
        cargo build --release --package sqluice
        options+=(--sqluice "$TARGET/release/sqluice")
        ;;
    esac
    exec "$TARGET/debug/failover" ${CARGO_TARGET_DIR:+--output "$TARGET/failover"} "${options[@]}"
}
