# shellcheck shell=bash
# The operator's page: ui/ becomes ui/dist, which the next build of the binary embeds.

need_node() {
    has node || want nodejs "builds the operator's page"
    has npm || want npm "fetches what that needs, as ui/package-lock.json says"
}

command_ui() {
    need_node
    install_packages
    local modules=ui/node_modules
    # Nothing that comes from there runs a script when it is installed.
    if [ ! -e "$modules/.package-lock.json" ] || [ ui/package-lock.json -nt "$modules/.package-lock.json" ]; then
        say "Fetching what the page's build needs"
        (cd ui && npm ci --ignore-scripts --no-audit --no-fund) >&2 ||
            die "npm could not fetch the packages of ui/package-lock.json: see above."
        touch "$modules/.package-lock.json"
    fi
    (cd ui && npm run --silent check) || die "the page has wrong types: see above."
    (cd ui && npm run --silent build) || die "the page cannot be built: see above."
}
