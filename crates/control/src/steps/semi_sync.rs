//! Semi-synchronous replication: a server's part in it follows its role.

use super::{Failed, Hand};
use crate::monitor::dialect::is_on;

/// The variables under their old and new names; `None` where the server does not have that part.
struct Parts {
    source: Option<(String, bool)>,
    replica: Option<(String, bool)>,
}

/// A server that is about to take writes waits for acknowledgements if it gave them before.
pub(super) async fn become_source(hand: &mut Hand<'_>) -> Result<(), Failed> {
    let Parts { source, replica } = read(hand).await?;
    if let (Some((source, false)), Some((_, true))) = (&source, &replica) {
        hand.run("turn semi-synchronous replication on as source", format!("SET GLOBAL {source} = 1")).await?;
    }
    Ok(())
}

/// A server that is about to follow gives acknowledgements if it waited for them before.
pub(super) async fn become_replica(hand: &mut Hand<'_>) -> Result<(), Failed> {
    let Parts { source, replica } = read(hand).await?;
    let Some((source, true)) = &source else { return Ok(()) };
    if let Some((replica, false)) = &replica {
        hand.run("turn semi-synchronous replication on as replica", format!("SET GLOBAL {replica} = 1")).await?;
    }
    hand.run("turn semi-synchronous replication off as source", format!("SET GLOBAL {source} = 0")).await?;
    Ok(())
}

/// Stops replication with this statement. A semi-synchronous replica of MariaDB asks its source over a new connection to end
/// the old one, and waits for that up to `rpl_semi_sync_slave_kill_conn_timeout`, several seconds: too long when the source is
/// frozen. One second is the least that it knows; 0 is for ever.
pub(super) async fn stop_quickly(hand: &mut Hand<'_>, stop: String) -> Result<(), Failed> {
    let what = "stop replication";
    if !hand.dialect.mariadb {
        return hand.run(what, stop).await.map(drop);
    }
    let variable = "rpl_semi_sync_slave_kill_conn_timeout";
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name = '{variable}' AND Value <> 1");
    let answer = hand.run(what, sql).await?;
    let Some(seconds) = answer.text(0, "Value").and_then(|value| value.parse::<u32>().ok()) else {
        return hand.run(what, stop).await.map(drop);
    };
    hand.run(what, format!("SET GLOBAL {variable} = 1")).await?;
    let stopped = hand.run(what, stop).await.map(drop);
    if stopped.is_ok() {
        hand.run(what, format!("SET GLOBAL {variable} = {seconds}")).await?;
    }
    stopped
}

async fn read(hand: &mut Hand<'_>) -> Result<Parts, Failed> {
    let sql = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%\\_enabled'";
    let answer = hand.run("look at semi-synchronous replication", sql).await?;
    let find = |names: [&str; 2]| {
        (0..answer.rows.len()).find_map(|row| {
            let name = answer.text(row, "Variable_name")?;
            let on = is_on(&answer.text(row, "Value")?);
            names.contains(&&*name).then(|| (name.into_owned(), on))
        })
    };
    Ok(Parts {
        source: find(["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"]),
        replica: find(["rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled"]),
    })
}
