# shellcheck shell=bash
# Servers that this release of the system does not carry.

# Debian's stable releases carry no MySQL server; its development branch does. A newer MariaDB than this system's is in
# a newer release of Debian. Both need a newer C library than this system may have, so all libraries are unpacked beside
# them, and the programs are started through the loader that came with them.
command_mysql() {
    fetch_debian "$MYSQL_FOLDER" sid "MySQL's server" "mysql-server-core mysql-client-core" ""
    local options="--basedir=\$root/usr --lc-messages-dir=\$root/usr/share/mysql --plugin-dir=\$root/usr/lib/mysql/plugin"
    local charsets="--character-sets-dir=\$root/usr/share/mysql/charsets"
    wrapper "$MYSQL_FOLDER" mysqld usr/sbin/mysqld "$options $charsets"
    wrapper "$MYSQL_FOLDER" mysql usr/bin/mysql "$charsets"
    local version
    version=$("$MYSQL_FOLDER/mysqld" --no-defaults --version) || die "the server that was fetched does not run."
    say "$version"
    note "Use it:  SQLUICE_MYSQLD=$MYSQL_FOLDER/mysqld ./dev test"
}

command_mysqlrouter() {
    fetch_debian "$ROUTER_FOLDER" sid "MySQL Router" "mysql-router" ""
    # Its own libraries go where the loader looks, and it would look for its plugins beside the loader.
    cp -a "$ROUTER_FOLDER"/root/usr/lib/mysql-router/. "$(dirname "$(find "$ROUTER_FOLDER/root/usr/lib" -name libc.so.6)")"
    wrapper "$ROUTER_FOLDER" mysqlrouter usr/bin/mysqlrouter \
        "--DEFAULT.plugin_folder=\$root/usr/lib/mysqlrouter/plugin"
    local version
    version=$("$ROUTER_FOLDER/mysqlrouter" --version) || die "the router that was fetched does not run."
    say "$version"
    note "Use it:  MYSQLROUTER_BIN=$ROUTER_FOLDER/mysqlrouter ./dev bench"
}

command_mariadb11() {
    # The packages mariadb-server and mariadb-test have the plugins, and dependencies that only a system service needs.
    fetch_debian "$MARIADB_FOLDER" trixie "MariaDB's server" "mariadb-server-core mariadb-client-core libpam0g" \
        "mariadb-server mariadb-test"
    local options="--basedir=\$root/usr --lc-messages-dir=\$root/usr/share/mysql --plugin-dir=\$root/usr/lib/mysql/plugin"
    local charsets="--character-sets-dir=\$root/usr/share/mysql/charsets"
    wrapper "$MARIADB_FOLDER" mariadbd usr/sbin/mariadbd "$options $charsets"
    wrapper "$MARIADB_FOLDER" mariadb usr/bin/mariadb "$charsets \
--plugin-dir=\$(echo \"\$root\"/usr/lib/*/libmariadb3/plugin)"
    wrapper "$MARIADB_FOLDER" mariadb-binlog usr/bin/mariadb-binlog "$charsets"
    # The programs that the script which makes a datadir calls, where it looks for them.
    wrapper "$MARIADB_FOLDER" my_print_defaults usr/bin/my_print_defaults ""
    wrapper "$MARIADB_FOLDER" resolveip usr/bin/resolveip ""
    ln -sfn . "$MARIADB_FOLDER/bin"
    ln -sfn . "$MARIADB_FOLDER/sbin"
    ln -sfn root/usr/share "$MARIADB_FOLDER/share"
    cat >"$MARIADB_FOLDER/mariadb-install-db" <<'WRAPPER'
#!/bin/sh
# Makes a datadir with the programs of the folder beside this file.
folder=$(dirname "$(readlink -f "$0")")
exec sh "$folder/root/usr/bin/mariadb-install-db" "$@" "--basedir=$folder"
WRAPPER
    chmod +x "$MARIADB_FOLDER/mariadb-install-db"
    local version
    version=$("$MARIADB_FOLDER/mariadbd" --no-defaults --version) || die "the server that was fetched does not run."
    say "$version"
    note "Use it:  SQLUICE_MARIADBD=$MARIADB_FOLDER/mariadbd ./dev test"
}

command_valkey() {
    fetch_debian "$VALKEY_FOLDER" trixie "Valkey" "valkey-server" "" "15 MB; it takes 50 MB"
    wrapper "$VALKEY_FOLDER" valkey-server usr/bin/valkey-server ""
    local version
    version=$("$VALKEY_FOLDER/valkey-server" --version) || die "the server that was fetched does not run."
    say "$version"
    note "Use it:  SQLUICE_VALKEY=$VALKEY_FOLDER/valkey-server ./dev test"
}

# Kafka's jars from Maven Central, each with the checksum that it had when it was chosen.
fetch_kafka() {
    need_kafka_build
    if [ ! -f "$KAFKA_FOLDER/complete" ]; then
        has java || want default-jre-headless "runs the Kafka broker of the tests"
        has mvn || want maven "fetches Kafka's jars from Maven Central"
        install_packages
        say "Fetching Kafka from Maven Central into $KAFKA_FOLDER (40 MB)"
        rm -rf "$KAFKA_FOLDER"
        mvn --quiet --batch-mode --file tools/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
            -DoutputDirectory="$KAFKA_FOLDER" || die "Kafka could not be fetched: see above."
        (cd "$KAFKA_FOLDER" && sha256sum --check --quiet --strict "$ROOT/tools/kafka/sha256sums") ||
            die "what was fetched is not the Kafka that was chosen: see above."
        touch "$KAFKA_FOLDER/complete"
    fi
}

# The Go that compiles the collector: the machine's own if it can fetch the one that go.mod names, or that one from Go's module
# proxy, with the checksum that it had when it was chosen.
find_go() {
    local candidate minor
    for candidate in go /usr/local/go/bin/go "$GO_FOLDER/bin/go"; do
        # One that is missing is none.
        minor=$({ GOTOOLCHAIN=local "$candidate" env GOVERSION 2>/dev/null || true; } | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
        if [ "${minor:-0}" -ge 21 ]; then
            go=$candidate
            return 0
        fi
    done
    local version arch sum
    version=$(sed -n 's/^go //p' tools/otelcol/go.mod)
    case $(uname -s)-$(uname -m) in
    Linux-x86_64) arch=amd64 ;;
    Linux-aarch64) arch=arm64 ;;
    *) die "./dev otelcol compiles the OpenTelemetry collector and needs Go 1.21 or newer (https://go.dev/dl)." ;;
    esac
    sum=$(sed -n "s/^\([0-9a-f]*\)  go$version.linux-$arch.zip\$/\1/p" tools/otelcol/go-sha256sums)
    [ -n "$sum" ] || die "tools/otelcol/go-sha256sums has no checksum of Go $version for $arch."
    has curl || want curl "fetches Go"
    has unzip || want unzip "unpacks Go"
    install_packages
    say "Fetching Go $version into $GO_FOLDER (70 MB; it takes 230 MB)"
    local name=golang.org/toolchain/@v/v0.0.1-go$version.linux-$arch.zip zip=$TARGET/go.zip
    mkdir -p "$TARGET"
    curl --fail --silent --show-error --location --retry 3 --output "$zip" "https://proxy.golang.org/$name" ||
        die "Go could not be fetched: see above. Or install Go 1.21 or newer (https://go.dev/dl)."
    echo "$sum  $zip" | sha256sum --check --quiet --strict || die "what was fetched is not the Go that was chosen: see above."
    rm -rf "$GO_FOLDER" "$TARGET/go.new"
    unzip -q "$zip" -d "$TARGET/go.new"
    mv "$TARGET/go.new/golang.org/toolchain@v0.0.1-go$version.linux-$arch" "$GO_FOLDER"
    rm -rf "$zip" "$TARGET/go.new"
    # Modules have no executable files.
    chmod +x "$GO_FOLDER"/bin/* "$GO_FOLDER"/pkg/tool/*/*
    go=$GO_FOLDER/bin/go
}

# The OpenTelemetry collector, from Go's module proxy, as tools/otelcol/go.sum says.
build_otelcol() {
    local go
    find_go
    say "Building the OpenTelemetry collector into $OTELCOL_FOLDER (some minutes the first time)"
    mkdir -p "$OTELCOL_FOLDER"
    (cd tools/otelcol && "$go" build -mod=readonly -trimpath -ldflags=-s -o "$OTELCOL_FOLDER/otelcol" .) >&2 ||
        die "the collector cannot be built: see above."
}

# fetch_debian FOLDER SUITE WHAT PACKAGES MORE [SIZE]: unpacks packages of a release of Debian, with every library that they
# need, into FOLDER/root; of MORE only the packages themselves. SIZE is for the user.
fetch_debian() {
    local folder=$1 suite=$2 what=$3 packages=$4 more=$5 size=${6:-85 MB; it takes 350 MB}
    has apt-get || die "./dev takes $what from Debian's package archive and needs apt-get." \
        "Elsewhere, unpack it in any way and let SQLUICE_MYSQLD, SQLUICE_MARIADBD or WORDPRESS_FOLDER name it."
    [ "$(free_mb "$TARGET")" -ge 600 ] || die "less than 600 MB free in $TARGET."
    local keyring="" file
    for file in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do [ ! -e "$file" ] || keyring=$file; done
    if [ -z "$keyring" ]; then
        want debian-archive-keyring "to check the signatures of Debian's packages"
        install_packages
        for file in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do [ ! -e "$file" ] || keyring=$file; done
    fi
    # The mirror that this machine uses already, if it is Debian's.
    local mirror
    mirror=$(apt-get indextargets --format "\$(REPO_URI)" 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true)
    mirror=${mirror:-http://deb.debian.org/debian}
    say "Fetching $what from $mirror ($suite): about $size in $folder"

    local apt=$folder/apt new=$folder/root.new
    rm -rf "$new"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$new"
    : >"$apt/status"
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
    # A package system of its own, in which nothing is installed yet: apt then fetches every library as well.
    cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Retries "3";
Acquire::Languages "none";
CONF
    local failed="See apt's message above: is $mirror reachable from here, and is the clock right?"
    note "apt-get update, in a folder of its own"
    APT_CONFIG=$apt/apt.conf apt-get -qq update >&2 || die "could not read Debian's package lists." "$failed"
    if [ -n "$packages" ]; then
        note "apt-get install --download-only $packages"
        # shellcheck disable=SC2086 # Several names.
        APT_CONFIG=$apt/apt.conf apt-get -qq --yes --download-only install $packages >&2 ||
            die "could not fetch the packages." "$failed"
    fi
    if [ -n "$more" ]; then
        # shellcheck disable=SC2086 # Several names.
        (cd "$apt/archives" && APT_CONFIG=$apt/apt.conf apt-get -qq download $more >&2) ||
            die "could not fetch $more." "$failed"
    fi
    local package
    for package in "$apt"/archives/*.deb; do
        # Perl is for the scripts around the server.
        case $(basename "$package") in perl* | libperl* | gcc-*) continue ;; esac
        dpkg-deb --extract "$package" "$new" || die "cannot unpack $package: no disk space?"
    done
    rm -rf "$folder/root" "$apt"
    mv "$new" "$folder/root"
}

# wrapper FOLDER NAME PROGRAM OPTIONS: a script that starts a program of FOLDER/root. Options that say where the server's
# files are come last: `--defaults-file` and its like must be first.
wrapper() {
    local folder=$1 name=$2 program=$3 options=$4 loader libraries
    loader=$(find "$folder/root/usr/lib" -name 'ld-linux*.so.*' | head -n 1)
    [ -n "$loader" ] || die "the C library's package has no ld-linux loader where it was expected."
    libraries=$(basename "$(dirname "$(find "$folder/root/usr/lib" -name 'libc.so.6' | head -n 1)")")
    cat >"$folder/$name" <<WRAPPER
#!/bin/sh
# Starts $name of the folder beside this file with the libraries that came with it.
root=\$(dirname "\$(readlink -f "\$0")")/root
exec "\$root/${loader#"$folder/root/"}" --library-path "\$root/usr/lib/$libraries" "\$root/$program" "\$@" $options
WRAPPER
    chmod +x "$folder/$name"
}
