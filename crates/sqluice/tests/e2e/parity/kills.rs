//! KILL of oneself and of others, and packets that are too long.

use lab::Family;

use super::*;

const SETUP: &str = "CREATE TABLE t (v INT);";

async fn killing_oneself(family: Family) {
    for form in ["KILL {}", "KILL CONNECTION {}", "KILL CONNECTION_ID()"] {
        let case = Case { family, database: "par_suicide", setup: SETUP, capabilities: MODERN };
        case.run(async |wire| {
            let sql = form.replace("{}", &wire.id.to_string());
            wire.unsaid(&[&[3], sql.as_bytes()].concat()).await;
            wire.reply(Expect::Results).await;
            wire.packet().await;
        })
        .await;
    }
}

async fn killing_ones_query(family: Family) {
    let case = Case { family, database: "par_kill_query", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.unsaid(format!("\x03KILL QUERY {}", wire.id).as_bytes()).await;
        wire.reply(Expect::Results).await;
        wire.query("SELECT 1").await;
        wire.query("SET @me = CONNECTION_ID()").await;
        wire.query("KILL QUERY @me").await;
        wire.query("SELECT 1").await;
    })
    .await;
}

async fn packets_beyond_what_is_allowed(family: Family) {
    let case = Case { family, database: "par_too_big", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        for length in [(1 << 24) - 2, (1 << 24) - 1, 1 << 24, 2 * ((1 << 24) - 1)] {
            let rest = length - b"\x03SELECT LENGTH('')".len();
            let sql = format!("SELECT LENGTH('{}')", "x".repeat(rest));
            wire.query(&sql).await;
        }
        let sql = format!("\x03SELECT LENGTH('{}')", "x".repeat(70 << 20));
        wire.unsaid(sql.as_bytes()).await;
        // A server may close before it has read everything; then its words may be lost on the way.
        if let Some((_, packet)) = wire.packet().await {
            assert_eq!(packet[..3], [0xff, 0x81, 0x04], "{}", packet.escape_ascii());
        }
    })
    .await;
}

/// Drivers send KILL as a prepared statement, too, with the id as a number or as a string.
async fn prepared_kills(family: Family) {
    let case = Case { family, database: "par_prepared_kill", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        if family == Family::MySql {
            // It prepares no KILL.
            wire.prepare("KILL QUERY ?").await;
            return;
        }
        for (sql, text) in [("KILL QUERY ?", false), ("KILL ?", false), ("KILL CONNECTION ?", true)] {
            let mut victim = wire.again().await;
            let id = wire.prepare(sql).await;
            let parameter = if text { short(&victim.id.to_string()) } else { long(i64::from(victim.id)) };
            wire.send(&[&execute(id, 0, &[parameter], true)]).await;
            wire.reply(Expect::Results).await;
            if sql == "KILL QUERY ?" {
                victim.query("SELECT 1").await;
                victim.close().await;
            } else {
                while victim.packet().await.is_some() {}
            }
            let id = wire.prepare(&sql.replace('?', "3999999999")).await;
            wire.statement(::wire::command::Command::StmtExecute, Expect::Results, id, &[0, 1, 0, 0, 0]).await;
        }
    })
    .await;
}

/// The ids of a list of processes, as a prepared statement gives it.
fn binary_ids(reply: &[Vec<u8>]) -> Vec<u32> {
    let columns = usize::from(reply[0][0]);
    let at = 1 + (columns + 2).div_ceil(8);
    let rows = &reply[1 + columns..reply.len() - 1];
    rows.iter().map(|row| u32::from_le_bytes(row[at..at + 4].try_into().unwrap())).collect()
}

/// The ids of a list of processes.
fn ids(reply: &[Vec<u8>]) -> Vec<u32> {
    let columns = usize::from(reply[0][0]);
    let rows = &reply[1 + columns..reply.len() - 1];
    let id = |row: &Vec<u8>| String::from_utf8_lossy(&row[1..=usize::from(row[0])]).parse().unwrap();
    rows.iter().map(id).collect()
}

/// KILL takes the ids of SHOW PROCESSLIST.
async fn lists_show_ids_that_can_be_killed(family: Family) {
    let servers = lone(family).await;
    let front = Front::start(servers, |_| {}).await;
    let mut wire = Wire::open(&front.address, "app", MODERN).await;
    let mut pinned = Wire::open(&front.address, "app", MODERN).await;
    pinned.query("BEGIN").await;
    pinned.query("SELECT 1").await;
    let mut sleeper = Wire::open(&front.address, "app", MODERN).await;
    sleeper.send(&[b"\x03SELECT SLEEP(60)"]).await;
    for list in [&b"\x03SHOW PROCESSLIST"[..], b"\x03show full processlist", b"\x0a"] {
        // MySQL 9 has no COM_PROCESS_INFO any more.
        if family == Family::MySql && list == b"\x0a" {
            continue;
        }
        crate::support::until("all sessions in the list", async || {
            let shown = ids(&wire.command(Expect::Results, list).await);
            [&wire, &pinned, &sleeper].iter().all(|session| shown.contains(&session.id)).then_some(())
        })
        .await;
    }
    let list = wire.prepare("SHOW PROCESSLIST").await;
    let mut idle = Wire::open(&front.address, "app", MODERN).await;
    idle.query("SELECT 1").await;
    crate::support::until("all sessions in the prepared list", async || {
        let shown = binary_ids(&wire.command(Expect::Results, &execute(list, 0, &[], true)).await);
        [&wire, &pinned, &sleeper, &idle].iter().all(|session| shown.contains(&session.id)).then_some(())
    })
    .await;
    idle.close().await;
    let killed = wire.query(&format!("KILL {}", sleeper.id)).await;
    assert_eq!(killed[0][0], 0);
    while sleeper.packet().await.is_some() {}
    pinned.query("ROLLBACK").await;
    pinned.close().await;
    wire.close().await;
}

both!(lists_show_ids_that_can_be_killed prepared_kills killing_oneself killing_ones_query packets_beyond_what_is_allowed);
