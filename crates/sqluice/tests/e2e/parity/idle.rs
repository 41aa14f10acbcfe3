//! Clients that are silent for longer than their session allows.

use std::time::{Duration, Instant};

use lab::Family;

use super::*;

const SETUP: &str = "CREATE TABLE t (v INT) ENGINE = InnoDB;";
/// The time that this machine may take to notice, beside the limit of a second.
const LATE: Duration = Duration::from_secs(8);

/// Waits for the end of a silent connection: what comes before it is part of the minutes.
async fn is_silent(wire: &mut Wire) {
    let begun = Instant::now();
    while let Some((sequence, packet)) = wire.packet().await {
        wire.note(format!("{sequence}: {}", packet.escape_ascii()));
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(800) && took < LATE, "{took:?}");
}

async fn the_sessions_own_limit(family: Family) {
    for sets in ["SET SESSION wait_timeout = 1", "SET @@wait_timeout = 1", "SET wait_timeout = 0"] {
        let case = Case { family, database: "par_wait_timeout", setup: SETUP, capabilities: MODERN };
        case.run(async |wire| {
            wire.query("SELECT 1").await;
            wire.query(sets).await;
            is_silent(wire).await;
        })
        .await;
    }
}

async fn a_transaction_ends_with_its_silent_client(family: Family) {
    let case = Case { family, database: "par_idle_work", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        let mut second = wire.again().await;
        wire.query("SET wait_timeout = 1").await;
        wire.query("BEGIN").await;
        wire.query("INSERT INTO t VALUES (1)").await;
        wire.query("SELECT GET_LOCK('par_idle', 0)").await;
        is_silent(wire).await;
        let (_, freed) = second.values("SELECT GET_LOCK('par_idle', 10)", false).await;
        let (_, rows) = second.values("SELECT COUNT(*) FROM t", false).await;
        wire.note(format!("{freed:?} {rows:?}"));
        second.close().await;
    })
    .await;
}

/// Interactive clients begin with another variable's value.
async fn interactive_clients_begin_with_their_own_limit(family: Family) {
    let capabilities = MODERN | Capabilities::INTERACTIVE;
    let case = Case { family, database: "par_interactive", setup: SETUP, capabilities };
    case.run(async |wire| {
        wire.query("SELECT @@wait_timeout, @@interactive_timeout").await;
        wire.query("SET interactive_timeout = 5000").await;
        wire.query("SELECT @@wait_timeout, @@interactive_timeout").await;
    })
    .await;
}

async fn limits_of_idle_transactions(family: Family) {
    if family == Family::MySql {
        return;
    }
    for (limit, works) in [
        ("idle_transaction_timeout", "SELECT * FROM t"),
        ("idle_transaction_timeout", "INSERT INTO t VALUES (1)"),
        ("idle_readonly_transaction_timeout", "SELECT * FROM t"),
        ("idle_write_transaction_timeout", "INSERT INTO t VALUES (1)"),
    ] {
        let case = Case { family, database: "par_idle_transaction", setup: SETUP, capabilities: MODERN };
        case.run(async |wire| {
            wire.query(&format!("SET {limit} = 1")).await;
            wire.query("BEGIN").await;
            wire.query(works).await;
            is_silent(wire).await;
        })
        .await;
    }
}

both!(the_sessions_own_limit a_transaction_ends_with_its_silent_client interactive_clients_begin_with_their_own_limit
      limits_of_idle_transactions);
