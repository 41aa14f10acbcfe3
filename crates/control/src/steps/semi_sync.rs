//! Semi-synchronous replication: a server's part in it follows its role.

use std::time::Duration;

use super::{Failed, FailedKind, Hand};
use crate::monitor::dialect::is_on;

/// Looks whether a receiver that was ended is gone, and the time between them. One that is not gone by then waits for its source;
/// it gets there within a few milliseconds.
const RECEIVER_LOOKS: u32 = 6;
const RECEIVER_LOOK: Duration = Duration::from_millis(5);

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

/// The state of a source whose replica is to stop receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceIs {
    /// It answers, or its connection is gone already.
    Well,
    /// The replica takes it for connected, and it may get no data any more.
    PerhapsFrozen,
}

/// Stops replication with this statement. A semi-synchronous replica of MariaDB asks its source over a new connection to end
/// the old one, and waits for that up to `rpl_semi_sync_slave_kill_conn_timeout`, several seconds: too long when the source is
/// frozen. One second is the least that it knows; 0 is for ever. STOP SLAVE interrupts this wait when it finds the receiver in
/// it, so the receiver of a source that may be frozen is ended first, by KILL, which leads it there. The variable
/// `rpl_semi_sync_slave_enabled` is no help: the receiver goes by its value when it was started.
pub(super) async fn stop_quickly(hand: &mut Hand<'_>, stop: String, source: SourceIs) -> Result<(), Failed> {
    let what = "stop replication";
    if !hand.dialect.mariadb {
        return hand.run(what, stop).await.map(drop);
    }
    let (enabled, limit) = ("rpl_semi_sync_slave_enabled", "rpl_semi_sync_slave_kill_conn_timeout");
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{enabled}', '{limit}')");
    let answer = hand.run(what, sql).await?;
    let value = |name: &str| {
        let row = (0..answer.rows.len()).find(|row| answer.text(*row, "Variable_name").is_some_and(|n| n == name))?;
        answer.text(row, "Value")
    };
    let acknowledges = value(enabled).is_some_and(|value| is_on(&value));
    let seconds = value(limit).and_then(|value| value.parse::<u32>().ok()).filter(|seconds| *seconds != 1);
    if seconds.is_some() {
        hand.run(what, format!("SET GLOBAL {limit} = 1")).await?;
    }
    if acknowledges && source == SourceIs::PerhapsFrozen {
        end_receiver(hand).await?;
    }
    let stopped = hand.run(what, stop).await.map(drop);
    if let Some(seconds) = seconds.filter(|_| stopped.is_ok()) {
        hand.run(what, format!("SET GLOBAL {limit} = {seconds}")).await?;
    }
    stopped
}

/// Ends the receiving thread, and gives it the time that it needs to begin to wait for its source. With several channels nothing
/// tells which thread is whose, and they are left alone.
async fn end_receiver(hand: &mut Hand<'_>) -> Result<(), Failed> {
    let what = "end the receiving thread";
    let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Slave_IO'";
    let answer = hand.run(what, list).await?;
    let [row] = &answer.rows[..] else { return Ok(()) };
    let id = row.first().and_then(|cell| String::from_utf8_lossy(cell.as_deref()?).parse::<u64>().ok());
    let Some(id) = id else { return Ok(()) };
    match hand.run(what, format!("KILL {id}")).await {
        Ok(_) => {}
        Err(failed) if matches!(failed.kind, FailedKind::Denied | FailedKind::Refused) => {
            tracing::warn!("{failed}; without it stopping takes a second when the source is frozen");
            return Ok(());
        }
        Err(failed) => return Err(failed),
    }
    let still = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
    for _ in 0..RECEIVER_LOOKS {
        hand.pause(what, RECEIVER_LOOK).await?;
        if hand.run(what, &still).await?.scalar().is_some_and(|count| count == "0") {
            break;
        }
    }
    Ok(())
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
