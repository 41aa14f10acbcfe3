# shellcheck shell=bash
# Tests, and what is checked between commits.

# Everything that tests need besides Rust's own.
need_test_programs() {
    want_for_tests
    need_lab
    need_mysql
    absolute_variable SQLUICE_VALKEY
}

command_test() {
    need_test_programs
    # The binary that the tests start has the page.
    command_ui
    # Built with the sink for Kafka, it is tested with a real broker.
    case " $* " in *features*kafka*)
        fetch_kafka
        export SQLUICE_KAFKA=$KAFKA_FOLDER
        ;;
    esac
    if [ -n "${SQLUICE_MYSQLD:-}" ]; then
        say "Tests run against MariaDB and $("$SQLUICE_MYSQLD" --version | sed 's/.*Ver /MySQL /')"
    else
        say "Tests run against MariaDB only: SQLUICE_MYSQLD says so"
    fi
    # Tests wait for servers most of the time: one more than there are cores. A test may have three servers of 100 to 300 MB: not more
    # of them at a time than that leaves memory for.
    local cores
    cores=$(nproc)
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((cores < 8 ? cores + 1 : 8))}
    # cargo lets --workspace win over the packages that somebody names.
    local scope=(--workspace)
    case " $* " in *" -p "* | *" --package "* | *" --package="*) scope=() ;; esac
    local started=$SECONDS
    cargo test "${scope[@]}" --no-run "$@"
    say "Built in $((SECONDS - started)) s; running the tests, $RUST_TEST_THREADS at a time"
    local log=$TARGET/test.log failed=0
    cargo test "${scope[@]}" --no-fail-fast "$@" 2>&1 | tee "$log" || failed=$?
    if [ "$failed" != 0 ]; then
        say "The tests that failed, once more (all output: $log)"
        tell_failures "$log"
        return "$failed"
    fi
}

# The sink for Kafka, with a real broker. librdkafka and OpenSSL are compiled for it, which takes some minutes.
command_kafka() {
    need_test_programs
    fetch_kafka
    export SQLUICE_KAFKA=$KAFKA_FOLDER
    cargo test -p sqluice-events --features kafka --lib kafka
    cargo test -p sqluice --features kafka --test e2e -- events::kafka
}

# The sink for OpenTelemetry, with a real collector.
command_otelcol() {
    need_test_programs
    build_otelcol
    export SQLUICE_OTELCOL=$OTELCOL_FOLDER/otelcol
    test_package sqluice-events --lib otlp
    test_package sqluice --test e2e -- --include-ignored events::otlp events::otelcol
}

# The words of the tests that failed, without the thousands of lines around them; at the end their beginnings alone, so short
# that a tool which keeps the end of an output keeps all of them.
tell_failures() {
    awk '/^failures:$/ { inside = 1 } inside { print } /^test result:/ { inside = 0 }' "$1"
    awk -v most=450 '
        function told() {
            if (name != "") print "FAILED " name ": " substr(words, 1, most)
            name = words = ""; says = 0
        }
        /^---- .* stdout ----$/ { told(); name = $2; next }
        /^stack backtrace:$|^note: run with|^failures:$/ { says = 0 }
        says { words = words " " $0 }
        / panicked at / && words == "" { says = 1; sub(/.* panicked at /, ""); words = $0 }
        /^test result:/ { told() }
    ' "$1"
    grep -A 20 '^error: [0-9]* targets\? failed' "$1" || true
}

# Plugins that Debian's core package of MariaDB 10.11 lacks, and clients from 11.4 on.
command_plugins() {
    need_test_programs
    [ -x "$MARIADB_FOLDER/mariadbd" ] || command_mariadb11
    export SQLUICE_MARIADBD=$MARIADB_FOLDER/mariadbd
    absolute_variable SQLUICE_MARIADBD
    test_package sqluice-net --test real plugins::
    test_package sqluice --test e2e plugins::
}

# For between two commits.
command_check() {
    need_compiler
    install_packages
    need_rust
    need_rust_tools
    local started=$SECONDS pure crate packages=()
    cargo fmt --all --check || refuse "formatting: run 'cargo fmt --all'"
    lint_house
    cargo check --workspace --all-targets --quiet || die "it does not compile: see above."
    pure=$(cargo run --quiet --package sqluice-house -- pure) || die "crates/house does not run: see above."
    for crate in $pure house; do packages+=(--package "sqluice-$crate"); done
    cargo test --quiet "${packages[@]}" --lib --bins || refuse "tests: see above"
    [ "$failures" = 0 ] || die "$failures finding(s), see the lines that say 'refused'."
    say "Nothing to complain about, in $((SECONDS - started)) s."
}
