# shellcheck shell=bash
# Applications' drivers, directly and through Sqluice.

readonly CONFORM=$TARGET/conform
readonly GO_MINOR_MIN=21 # fetches the toolchain that conform/drivers/go/go.mod names by itself

# Runs a step of an installation, unless the files it was made from are as they were. Its output is shown when it fails.
step() {
    local name=$1 what=$2 why=$3 work=$4
    shift 4
    local stamp=$CONFORM/$name.stamp sum
    sum=$(cat "$@" | sha256sum)
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$sum" ]; then return 0; fi
    say "$what: $why"
    local started=$SECONDS
    if ! "$work" >"$CONFORM/$name.log" 2>&1; then
        tail -n 30 "$CONFORM/$name.log" >&2
        die "$what failed: see above." "Is its registry reachable from here? A driver can be left out: ./dev conform --skip-driver NAME"
    fi
    echo "$sum" >"$stamp"
    note "$((SECONDS - started)) s"
}

# True unless every driver that is named is left out.
wanted_driver() {
    local name
    for name in "$@"; do
        if [[ " $skipped_drivers " != *" $name "* ]] && [[ -z $named_drivers || " $named_drivers " == *" $name "* ]]; then return 0; fi
    done
    return 1
}

install_python() {
    rm -rf "$CONFORM/venv"
    python3 -m venv "$CONFORM/venv" && "$CONFORM/venv/bin/pip" install --quiet --disable-pip-version-check --requirement conform/drivers/python/requirements.txt
}
install_node() {
    mkdir -p "$CONFORM/node" && cp conform/drivers/node/package.json conform/drivers/node/package-lock.json "$CONFORM/node" &&
        npm ci --prefix "$CONFORM/node" --no-audit --no-fund --ignore-scripts
}
install_java() {
    rm -rf "$CONFORM/java"
    mkdir -p "$CONFORM/java/lib" "$CONFORM/java/classes"
    # Fails when a file's checksum is not the one that the repository tells.
    mvn --quiet --batch-mode --strict-checksums --file conform/drivers/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$CONFORM/java/lib" &&
        javac -Xlint:all -d "$CONFORM/java/classes" -cp "$CONFORM/java/lib/*" conform/drivers/java/Program.java
}
install_go() { mkdir -p "$CONFORM/go" && (cd conform/drivers/go && go build -o "$CONFORM/go/driver" .); }
install_rust() { cargo build --locked --manifest-path conform/drivers/rust/Cargo.toml --target-dir "$CONFORM/rust"; }

go_is_new_enough() {
    local version
    version=$(go env GOVERSION 2>/dev/null) || return 1
    [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= GO_MINOR_MIN))
}

need_go() {
    if has go && go_is_new_enough; then return 0; fi
    want golang-go "builds the program for go-sql-driver/mysql"
    install_packages
    go_is_new_enough || die "this machine's Go is $(go env GOVERSION 2>/dev/null || echo none), and go-sql-driver needs 1.$GO_MINOR_MIN or newer." \
        "Install a newer one from https://go.dev/dl or your distribution's backports, or: ./dev conform --skip-driver go-sql-driver"
}

conform_tools() {
    has python3 || want python3 "runs the driver matrix"
    if wanted_driver pymysql mysqlclient mysql-connector-python mysql-connector-python-c mariadb-connector-python; then
        python3 -c 'import venv, ensurepip' 2>/dev/null || want python3-venv "a folder of its own for Python's drivers"
        [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h" ] || want python3-dev "builds mysqlclient and MariaDB Connector/Python"
        has mariadb_config || want libmariadb-dev "the C library that mysqlclient and MariaDB Connector/Python stand on"
        has pkg-config || want pkg-config "tells mysqlclient where that library is"
    fi
    if wanted_driver mysql2 node-mariadb; then
        has node || want nodejs "runs Node's drivers"
        has npm || want npm "fetches Node's drivers"
    fi
    if wanted_driver connector-j mariadb-connector-j; then
        has javac || want default-jdk-headless "runs the JDBC drivers"
        has mvn || want maven "fetches the JDBC drivers"
    fi
    if wanted_driver php-mysqli php-pdo; then
        has php || want php-cli "runs PHP's drivers"
        php -m 2>/dev/null | grep -qx mysqli || want php-mysql "mysqli and PDO"
    fi
    install_packages
    if wanted_driver go-sql-driver; then need_go; fi
}

conform_drivers() {
    mkdir -p "$CONFORM"
    if wanted_driver pymysql mysqlclient mysql-connector-python mysql-connector-python-c mariadb-connector-python; then
        step python "Installing Python's drivers with pip" "in $CONFORM/venv" install_python conform/drivers/python/requirements.txt
    fi
    if wanted_driver mysql2 node-mariadb; then
        step node "Installing Node's drivers with npm" "in $CONFORM/node" install_node conform/drivers/node/package-lock.json
    fi
    if wanted_driver connector-j mariadb-connector-j; then
        step java "Installing the JDBC drivers with Maven" "in $CONFORM/java" install_java conform/drivers/java/pom.xml conform/drivers/java/Program.java
    fi
    if wanted_driver go-sql-driver; then
        step go "Building the program of Go's driver" "in $CONFORM/go" install_go conform/drivers/go/go.sum conform/drivers/go/main.go
    fi
    if wanted_driver rust-mysql-async; then
        step rust "Building the program of Rust's driver" "in $CONFORM/rust" install_rust conform/drivers/rust/Cargo.lock conform/drivers/rust/src/main.rs
    fi
}

command_conform() {
    named_drivers="" skipped_drivers=""
    local options=("$@")
    while [ $# -gt 0 ]; do
        case $1 in
        --driver) named_drivers="$named_drivers ${2:-}" && shift ;;
        --driver=*) named_drivers="$named_drivers ${1#*=}" ;;
        --skip-driver) skipped_drivers="$skipped_drivers ${2:-}" && shift ;;
        --skip-driver=*) skipped_drivers="$skipped_drivers ${1#*=}" ;;
        esac
        shift
    done
    need_lab
    need_mysql_for "${options[@]}"
    local started=$SECONDS
    conform_tools
    conform_drivers
    say "The drivers are there after $((SECONDS - started)) s; building Sqluice and the servers' lab"
    started=$SECONDS
    # With the profile of the tests, whose build may be there already.
    build --package sqluice --bin sqluice
    build --package sqluice-lab --example cluster
    say "Built in $((SECONDS - started)) s"
    python3 conform/run.py "${options[@]}"
}

# MariaDB's own test files, directly and through Sqluice.
command_suite() {
    need_lab
    has mysqltest || want mariadb-test "MariaDB's own tests, and the program that runs them"
    install_packages
    need_rust
    case " $* " in
    *" --sqluice"* | *" -h "* | *" --help "*) ;;
    *) cargo build --release --package sqluice --bin sqluice ;;
    esac
    exec python3 conform/suite.py "$@"
}
