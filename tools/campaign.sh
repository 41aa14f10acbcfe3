# shellcheck shell=bash
# Longer looks: random streams, instructions, failover.

command_streams() {
    need_disk
    need_compiler
    need_servers
    install_packages
    need_rust
    absolute_variable SQLUICE_MARIADBD
    absolute_variable SQLUICE_MYSQLD
    cargo build --package sqluice-conform
    exec "$TARGET/debug/conform" "$@"
}

# Counts, not times: they are the same on a busy machine.
command_instructions() {
    need_disk
    need_compiler
    need_servers
    has valgrind || want valgrind "counts instructions, with its tool callgrind"
    install_packages
    need_rust
    absolute_variable SQLUICE_MARIADBD
    cargo build --package sqluice-instructions
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
    need_disk
    need_compiler
    install_packages
    need_rust
    # Only the crate that plays is optimised; what it stands on is shared with the tests.
    set -- cargo test --config 'profile.dev.package.sqluice-cluster.opt-level=2' --package sqluice-cluster --test failover
    if [ -n "$seed" ]; then
        SQLUICE_SEED=$seed exec "$@" -- --nocapture
    fi
    SQLUICE_SEEDS=$seeds exec "$@"
}

command_failover() {
    local options=("$@") server=mariadb
    while [ $# -gt 0 ]; do
        case $1 in
        --server) [ "${2:-}" != mysql ] || server=mysql && shift ;;
        --server=mysql) server=mysql ;;
        esac
        shift
    done
    need_disk
    need_compiler
    need_servers
    has ip || want iproute2 "cuts a server off, in a network of its own"
    install_packages
    need_rust
    absolute_variable SQLUICE_MARIADBD
    if [ "$server" = mysql ] && [ -z "${SQLUICE_MYSQLD:-}" ]; then
        [ -x "$MYSQL_FOLDER/mysqld" ] || command_mysql
        export SQLUICE_MYSQLD=$MYSQL_FOLDER/mysqld
    fi
    absolute_variable SQLUICE_MYSQLD
    cargo build --package sqluice-failover
    case " ${options[*]} " in *" --sqluice "* | *" --sqluice="* | *" --help "* | *" -h "*) ;; *)
        say "Building a release (a few minutes the first time)"
        cargo build --release --package sqluice
        options+=(--sqluice "$TARGET/release/sqluice")
        ;;
    esac
    exec "$TARGET/debug/failover" ${CARGO_TARGET_DIR:+--output "$TARGET/failover"} "${options[@]}"
}
