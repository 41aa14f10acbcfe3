# shellcheck shell=bash
# How ./dev talks, and the small things that all of it uses.

say() { if [ -t 2 ]; then printf '\033[1m==> %s\033[0m\n' "$*" >&2; else printf '==> %s\n' "$*" >&2; fi; }
note() { printf '    %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    local line
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}
# A program; functions of this script do not count.
has() { type -P "$1" >/dev/null; }


free_mb() {
    local folder=$1
    while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
    df -Pm "$folder" | awk 'NR == 2 { print $4 }'
}

# A build from nothing takes about 3 GB; the servers of the tests up to 1 GB.
need_disk() {
    local build=4000 servers=1000 temporary=${TMPDIR:-/tmp} free
    [ -d "$TARGET/debug/deps" ] || [ -d "$TARGET/release/deps" ] && build=1000
    free=$(free_mb "$TARGET")
    [ "$free" -ge "$build" ] || die "only $free MB free for the build in $TARGET; it needs about $build MB." \
        "Free some, or set CARGO_TARGET_DIR to a folder on another disk."
    free=$(free_mb "$temporary")
    [ "$free" -ge "$servers" ] || die "only $free MB free for the servers in $temporary; they need about $servers MB." \
        "Free some, or set TMPDIR to a folder on another disk (at most 60 characters: socket paths are short)."
}

# Tests run in the folders of their crates, where a relative path means something else.
absolute_variable() {
    local value=${!1:-}
    [ -n "$value" ] || return 0
    [ -x "$value" ] || die "$1 names $value, which is not a program."
    export "$1=$(readlink -f "$value")"
}
