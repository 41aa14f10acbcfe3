# shellcheck shell=bash
# Figures beside other proxies, and of the hot pieces.

command_microbench() {
    need_build
    local scope=(-p sqluice-sql -p sqluice-wire -p sqluice-proxy)
    case " $* " in *" -p "* | *" --package "* | *" --package="*) scope=() ;; esac
    exec cargo bench "${scope[@]}" "$@"
}

command_bench() {
    need_sysbench
    need_valkey
    has_program haproxy || want haproxy "what Sqluice is compared with"
    has mariadb-slap || has mysqlslap || want mariadb-client "mysqlslap, one of the loads"
    local wordpress=no
    case " $* " in *" --help "* | *" -h "*) ;; *" wordpress "*) wordpress=yes ;; esac
    if [ "$wordpress" = yes ]; then
        has php || want php-cli "runs WordPress, with its own server"
        php -m 2>/dev/null | grep -qx mysqli || want php-mysql "WordPress's way to the database"
    fi
    need_lab
    [ "$wordpress" = no ] || need_wordpress
    local name
    for name in PROXYSQL_BIN MAXSCALE_BIN MYSQLROUTER_BIN; do absolute_variable "$name"; done
    say "Building a release (a few minutes the first time)"
    # One by one: what the bench wants of shared libraries must not get into what it measures.
    case " $* " in *" report "* | *" --help "* | *" -h "*) ;; *) cargo build --release --package sqluice ;; esac
    cargo build --release --package sqluice-bench
    exec "$TARGET/release/bench" ${CARGO_TARGET_DIR:+--output "$TARGET/bench"} "$@"
}

# WordPress's files from its package, unpacked: the package itself would want a web server, and set up things of the system.
need_wordpress() {
    export WORDPRESS_FOLDER=${WORDPRESS_FOLDER:-$WORDPRESS_ROOT/root/usr/share/wordpress}
    [ ! -e "$WORDPRESS_FOLDER/wp-load.php" ] || return 0
    fetch_debian "$WORDPRESS_ROOT" bookworm "WordPress" "" "wordpress wordpress-theme-twentytwentyone" "10 MB; it takes 60 MB"
}
