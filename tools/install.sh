# shellcheck shell=bash
# Packages that are missing: what they are for, and their installation.

# Runs a command as root: directly, with sudo, or not at all but with words that help.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo "$@"
    else
        die "this needs root, and sudo is not usable here. Ask an administrator to run:" "$*" "and start again."
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" >&2
}

# A version of a package that can be installed, or nothing.
candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

# The newest package of a name that some releases write with a version: mariadb-server-core[-10.11]
package_named() {
    if [ -n "$(candidate "$1")" ]; then
        echo "$1"
    else
        apt-cache search --names-only "^$1-[0-9.]+\$" 2>/dev/null | awk '{ print $1 }' | sort -V | tail -n 1
    fi
}

missing_packages=()
missing_reasons=()
want() {
    missing_packages+=("$1")
    missing_reasons+=("$1: $2")
}

has_c_compiler() { has cc && echo '#include <stdlib.h>' | cc -E -x c - >/dev/null 2>&1; }
has_program() { has "$1" || [ -x "/usr/sbin/$1" ]; }

install_packages() {
    [ ${#missing_packages[@]} -gt 0 ] || return 0
    has apt-get || die "these are missing, and this machine has no apt-get to install them with:" \
        "${missing_reasons[@]}" "Install them with your system's package manager and start again."
    say "Installing packages that are missing:"
    local reason package name packages=()
    for reason in "${missing_reasons[@]}"; do note "$reason"; done
    local refreshed=no
    for name in "${missing_packages[@]}"; do
        package=$(package_named "$name")
        if [ -z "$package" ] && [ "$refreshed" = no ]; then
            refresh_lists
            refreshed=yes
            package=$(package_named "$name")
        fi
        [ -n "$package" ] || die "no package $name in this machine's apt sources." \
            "Add your distribution's main (on Ubuntu also universe) section, run apt-get update, and start again."
        packages+=("$package")
    done
    # --no-remove: another database of this machine must not go because its packages conflict.
    if ! apt install --yes --no-remove --no-install-recommends "${packages[@]}"; then
        # Lists that are older than the mirror name files that are gone.
        [ "$refreshed" = no ] || packages_failed "${packages[@]}"
        refresh_lists
        apt install --yes --no-remove --no-install-recommends "${packages[@]}" || packages_failed "${packages[@]}"
    fi
    local service
    for service in mariadb mysql; do
        if has systemctl && systemctl is-active --quiet "$service" 2>/dev/null; then
            note "The system's own service '$service' is running. Sqluice does not use it; it stays as it is."
        fi
    done
    missing_packages=()
    missing_reasons=()
}

refresh_lists() {
    note "apt-get update"
    apt update || die "apt-get update failed: see above." \
        "Without a network, install the packages named above by hand and start again."
}

packages_failed() {
    die "apt-get could not install: $*" "See its message above: no network, no disk space, or a package that conflicts."
}

need_compiler() { has_c_compiler || { want gcc "links Rust programs and compiles the cryptography library" && want libc6-dev "the C headers for that"; }; }
need_servers() {
    has_program mariadbd || [ -n "${SQLUICE_MARIADBD:-}" ] ||
        want mariadb-server-core "the servers that demo and tests start (programs only, no system service)"
    has mariadb || has mysql || want mariadb-client-core "the client that sets those servers up"
}
need_galera() {
    local library
    for library in /usr/lib/galera/libgalera_smm.so /usr/lib/libgalera_smm.so /usr/lib64/galera*/libgalera_smm.so; do
        [ ! -e "$library" ] || return 0
    done
    want galera-4 "the library that makes MariaDB servers a Galera group, for the tests of kind = \"galera\""
}
need_binlog_reader() { has mariadb-binlog || want mariadb-client "its mariadb-binlog reads a binary log through Sqluice in the tests"; }
need_etcd() { has etcd || want etcd-server "keeps the lease in the tests of lease = \"etcd\" (its package starts a service of its own; the tests do not use it)"; }
need_valkey() { [ -n "${SQLUICE_VALKEY:-}" ] || has valkey-server || has redis-server || want redis-server "the shared tier in the tests of the result cache (its package starts a service of its own; the tests do not use it)"; }
need_sysbench() { has sysbench || want sysbench "the load of the end-to-end tests"; }
need_browser() {
    has chromium || [ -n "${SQLUICE_CHROMIUM:-}" ] || want chromium "the browser of the tests of the operator's page"
    has chromedriver || want chromium-driver "drives that browser"
}
need_promtool() { has promtool || want prometheus "its promtool checks the metrics and the alarm rules (its package starts a service of its own; the tests do not use it)"; }
need_haproxy() { has_program haproxy || want haproxy "stands in front of Sqluice in the tests of PROXY headers (its package starts a service of its own; the tests do not use it)"; }
need_corpus() { [ -d /usr/share/mysql/mysql-test/main ] || want mariadb-test-data "MariaDB's own tests, whose statements the classifier is tried with"; }
# Debian's package belongs to Debian's Python, which may not be the first one in PATH.
need_pymysql() {
    local python
    for python in ${SQLUICE_PYTHON:-} python3 /usr/bin/python3; do
        if "$python" -c 'import pymysql' 2>/dev/null; then
            export SQLUICE_PYTHON=$python
            return 0
        fi
    done
    want python3-pymysql "a driver of the end-to-end tests"
    export SQLUICE_PYTHON=/usr/bin/python3
}
# Packages that tests need besides those of a build and the lab.
want_for_tests() {
    need_galera
    need_etcd
    need_valkey
    need_sysbench
    need_haproxy
    need_promtool
    need_corpus
    need_binlog_reader
    need_pymysql
    need_browser
    need_node
}
# MySQL's server is fetched unless one is named, or `none`.
need_mysql() {
    if [ "${SQLUICE_MYSQLD:-}" = none ]; then
        unset SQLUICE_MYSQLD
    elif [ -z "${SQLUICE_MYSQLD:-}" ]; then
        [ -x "$MYSQL_FOLDER/mysqld" ] || command_mysql
        export SQLUICE_MYSQLD=$MYSQL_FOLDER/mysqld
    fi
    absolute_variable SQLUICE_MYSQLD
}
# The same, if these options ask for `--server mysql`.
need_mysql_for() {
    case " $* " in
    *" --server mysql "* | *" --server=mysql "*) need_mysql ;;
    *) absolute_variable SQLUICE_MYSQLD ;;
    esac
}
# All that a build needs, with the packages that are missing so far.
need_kafka_build() {
    has perl || want perl "configures OpenSSL, which is compiled for Kafka's client"
    has make || want make "compiles Kafka's client, librdkafka"
    has g++ || want g++ "the same"
    install_packages
}
need_build() {
    need_disk
    need_compiler
    install_packages
    need_rust
}
# The same, and the servers of the lab.
need_lab() {
    need_servers
    need_build
    absolute_variable SQLUICE_MARIADBD
}
