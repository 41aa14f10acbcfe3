//! The core of all this with MySQL servers, where one is named.

use lab::Family;

use crate::support::has_mysql;
use crate::{defaults, digests, failures, hostile, login, multiplexing, packet_limit, rules, statements, sysbench};

#[tokio::test]
async fn sysbench_read_write() {
    if has_mysql() {
        sysbench::check(Family::MySql, "oltp_read_write", "auto").await;
    }
}

#[tokio::test]
async fn sysbench_read_only() {
    if has_mysql() {
        sysbench::check(Family::MySql, "oltp_read_only", "auto").await;
    }
}

#[tokio::test]
async fn many_clients_keep_their_own_state() {
    if has_mysql() {
        multiplexing::check(Family::MySql, 200).await;
    }
}

#[tokio::test]
async fn a_killed_replica_costs_no_client_an_error() {
    if has_mysql() {
        failures::check_killed_replica(Family::MySql).await;
    }
}

#[tokio::test]
async fn wrong_passwords_hear_the_servers_own_words() {
    if has_mysql() {
        login::check_refusals(Family::MySql).await;
    }
}

#[tokio::test]
async fn new_and_changed_accounts_are_known_at_once() {
    if has_mysql() {
        login::check_changes(Family::MySql).await;
    }
}

#[tokio::test]
async fn statements_of_every_kind() {
    if has_mysql() {
        statements::check_core(Family::MySql).await;
    }
}

#[tokio::test]
async fn big_packets() {
    if has_mysql() {
        statements::check_big_packets(Family::MySql).await;
    }
}

#[tokio::test]
async fn sessions_keep_the_packet_limit_of_their_login() {
    if has_mysql() {
        packet_limit::check_packet_limit(Family::MySql).await;
    }
}

#[tokio::test]
async fn sessions_begin_with_the_primary_s_defaults_and_keep_them() {
    if has_mysql() {
        defaults::check_defaults(Family::MySql).await;
    }
}

#[tokio::test]
async fn statements_are_counted_without_their_literals() {
    if has_mysql() {
        digests::check(Family::MySql).await;
    }
}

#[tokio::test]
async fn rules_of_every_kind_route() {
    if has_mysql() {
        rules::check_matchers(Family::MySql).await;
    }
}

#[tokio::test]
async fn mysql_transactions_go_on_on_the_new_primary() {
    if has_mysql() {
        crate::replay::check_transactions_go_on(Family::MySql).await;
        crate::replay::check_read_only(Family::MySql).await;
    }
}

#[tokio::test]
async fn mysql_s_binary_log_tells_what_became_of_commits_and_writes() {
    if has_mysql() {
        crate::in_doubt::check(Family::MySql).await;
    }
}

#[tokio::test]
async fn prepared_texts_have_a_bound_for_each_session_and_for_all() {
    if has_mysql() {
        hostile::check_prepared_bytes(Family::MySql).await;
        hostile::check_prepared_count(Family::MySql).await;
    }
}
