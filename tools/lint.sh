# shellcheck shell=bash
# Checks that run nothing of Sqluice: formatting, clippy, rules of the house, docs, dependencies.

failures=0
refuse() {
    printf 'refused: %s\n' "$*" >&2
    failures=$((failures + 1))
}

lint_lockfile() {
    cargo tree --locked --workspace >/dev/null || refuse "Cargo.lock does not fit the Cargo.toml files: build once and commit it"
}

# Rules that no other tool knows: crates/house.
lint_house() {
    cargo run --quiet --package sqluice-house || refuse "rules of the house: see above"
    lint_lockfile
}

command_lint() {
    need_compiler
    install_packages
    need_rust
    need_rust_tools
    say "Formatting"
    cargo fmt --all --check || refuse "formatting: run 'cargo fmt --all'"
    say "Rules of the house"
    lint_house
    say "Clippy"
    SQLUICE_BUILD=${SQLUICE_BUILD:---workspace} whole clippy --all-targets -- -D warnings || refuse "clippy: see above"
    [ "$failures" = 0 ] || die "$failures finding(s), see the lines that say 'refused'."
    say "Nothing to complain about."
}

command_docs() {
    need_compiler
    install_packages
    need_rust
    # Links to private items are for those who read the source.
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --locked || die "the documentation has warnings: see above."
}

readonly DENY_VERSION=0.20.2

# cargo-deny from crates.io, into target/tools; deny.toml says what it asks.
command_dependencies() {
    need_build
    local tools=$TARGET/tools
    if [ "$("$tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $DENY_VERSION" ]; then
        say "Building cargo-deny $DENY_VERSION: it reads the licences and sources of all packages (a minute or two)"
        cargo install --quiet --locked --debug --root "$tools" --target-dir "$tools/build" "cargo-deny@$DENY_VERSION"
        rm -rf "$tools/build"
    fi
    "$tools/bin/cargo-deny" --locked check licenses bans sources || die "packages are refused: see above, and deny.toml."
    local log=$tools/advisories.log
    if "$tools/bin/cargo-deny" --locked check advisories >"$log" 2>&1; then
        say "No advisory against any package."
    elif grep -q 'failed to fetch advisory database' "$log"; then
        warn "advisories were NOT looked at: their database at github.com cannot be reached from here."
    else
        cat "$log" >&2
        die "there are advisories against packages: see above."
    fi
}

# rust-version in Cargo.toml is a promise: all crates compile with it, and with nothing newer.
command_rust_version() {
    need_build
    local version=1.$RUST_MINOR_MIN
    grep -q "^rust-version = \"$version\"" Cargo.toml || die "Cargo.toml names another rust-version than RUST_MINOR_MIN in $0."
    if ! has rustup || ! rustup run "$version" rustc --version >/dev/null 2>&1 &&
        ! rustup toolchain install "$version" --profile minimal >&2; then
        warn "NOT compiled with Rust $version: no rustup, or it cannot fetch that version from here."
        return
    fi
    say "Compiling with Rust $version"
    rustup run "$version" cargo check --workspace --all-targets --locked --target-dir "$TARGET/rust-$version" ||
        die "it does not compile with Rust $version, which Cargo.toml promises."
}
