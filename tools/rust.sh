# shellcheck shell=bash
# Rust itself.

# True when this cargo is new enough. RUSTUP_TOOLCHAIN, if set, is honoured by rustup's cargo itself.
cargo_is_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null) || return 1
    [[ $version =~ ^cargo\ ([0-9]+)\.([0-9]+)\. ]] || return 1
    ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= RUST_MINOR_MIN))
}

need_rust() {
    local home=${CARGO_HOME:-$HOME/.cargo}
    if has cargo && cargo_is_new_enough cargo; then return 0; fi
    # A toolchain of an earlier run, or one whose folder is not in this shell's PATH yet.
    if [ -x "$home/bin/cargo" ]; then
        PATH=$home/bin:$PATH
        hash -r
        if cargo_is_new_enough cargo; then return 0; fi
    fi
    local found="no cargo"
    if has cargo; then found=$(cargo --version 2>/dev/null || echo "a cargo that does not run"); fi
    say "Installing Rust: Sqluice needs 1.$RUST_MINOR_MIN or newer, and this machine has $found"
    if has rustup; then
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >&2 || rust_failed
        export RUSTUP_TOOLCHAIN=stable
    else
        install_rustup "$home"
    fi
    hash -r
    cargo_is_new_enough cargo || die "Rust was installed, but $(cargo --version 2>&1) is still what runs." \
        "Put $home/bin first in PATH and start again."
}

install_rustup() {
    has curl || want curl "fetches rustup, Rust's installer"
    [ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates "to check where rustup comes from"
    install_packages
    note "rustup from https://sh.rustup.rs into $1 (your shell's files are left alone)"
    local script
    script=$(mktemp)
    # A file first: a download that breaks off must not be run by half.
    if ! curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --retry 3 --connect-timeout 20 \
        --max-time 120 --output "$script" https://sh.rustup.rs; then
        rm -f "$script"
        rust_failed
    fi
    # --no-modify-path and an explicit PATH here: nothing but these two folders changes.
    if ! RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$script" -y --no-modify-path --profile minimal --default-toolchain stable \
        --component clippy --component rustfmt >&2; then
        rm -f "$script"
        rust_failed
    fi
    rm -f "$script"
    PATH=$1/bin:$PATH
}

rust_failed() {
    die "Rust could not be installed: see above." \
        "It comes from https://sh.rustup.rs and https://static.rust-lang.org; this machine must reach both." \
        "Or install Rust 1.$RUST_MINOR_MIN or newer in any other way, so that 'cargo --version' shows it, and start again."
}

need_rust_tools() {
    if cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1; then return 0; fi
    has rustup || die "cargo-clippy or rustfmt is missing, and there is no rustup to add them." \
        "Install them in the way in which this machine's Rust was installed."
    say "Installing clippy and rustfmt: the linter and the formatter"
    rustup component add clippy rustfmt >&2 || rust_failed
}

# Builds programs, with the arguments of `cargo build`. SQLUICE_BUILD names packages and features for all commands alike, as CI
# does: all that tests need is built once. Other packages have other features, with which cargo builds tokio and more again.
build() {
    if [ -z "${SQLUICE_BUILD:-}" ]; then
        cargo build "$@"
    else
        whole build --tests --bins --examples
    fi
}

# Runs tests of one package: its name, then the arguments of `cargo test`.
test_package() {
    local package=$1
    shift
    if [ -z "${SQLUICE_BUILD:-}" ]; then
        cargo test --package "$package" "$@"
    else
        whole test "$@"
    fi
}

# A command of cargo on what SQLUICE_BUILD names.
whole() {
    local command=$1 selection
    shift
    read -ra selection <<<"$SQLUICE_BUILD"
    case $SQLUICE_BUILD in *kafka*) need_kafka_build ;; esac
    cargo "$command" "${selection[@]}" "$@"
}
