//! A replica of MySQL whose source died in the middle of sending a transaction.
//!
//! Appliers that work side by side and have begun a transaction wait for its rest when they are stopped, up to a minute, and nobody hears
//! anything of the channel meanwhile (`SLAVE_WAIT_GROUP_DONE` in the server's source, seen with 9.7). From a dead source no rest will come.
//! So the thread that hands out work to them is ended first, by KILL: it drops what was begun, of which nothing is committed.

use std::time::Duration;

use net::query::ResultSet;

use super::{Failed, FailedKind, Hand};

/// The beginning of the thread's state, behind `Replica` or `Slave`, when it waits for more.
const IDLE: &str = "has read all relay log";
/// Looks whether the thread is gone, and the time between them.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(10);

/// Has a channel that receives no more drop the transaction of which it has a part only. With several channels nothing tells which thread
/// is whose, and they are left alone.
pub(super) async fn drop_transaction(hand: &mut Hand<'_>, channel: &str) -> Result<(), Failed> {
    let what = "drop a transaction of which only a part was received";
    let status = hand.run(what, hand.dialect.replication()).await?;
    if !is_cut(&status, channel) {
        return Ok(());
    }
    let list = hand.run(what, "SHOW PROCESSLIST").await?;
    let [id] = coordinators(&list)[..] else { return Ok(()) };
    match hand.run(what, format!("KILL {id}")).await {
        Ok(_) => {}
        Err(failed) if matches!(failed.kind, FailedKind::Denied | FailedKind::Refused) => {
            tracing::warn!("{failed}; without it the server stops replication after a minute only");
            return Ok(());
        }
        Err(failed) => return Err(failed),
    }
    for _ in 0..LOOKS {
        let list = hand.run(what, "SHOW PROCESSLIST").await?;
        if !coordinators(&list).contains(&id) {
            break;
        }
        hand.pause(what, LOOK).await?;
    }
    Ok(())
}

/// Whether a channel has received more than it has applied, and waits.
fn is_cut(status: &ResultSet, channel: &str) -> bool {
    let is_ours = |row: &usize| status.text(*row, "Channel_Name").is_none_or(|name| *name == *channel);
    let Some(row) = (0..status.rows.len()).find(is_ours) else { return false };
    let column = |names: [&str; 2]| names.into_iter().find_map(|name| status.text(row, name)).unwrap_or_default();
    let received =
        [column(["Source_Log_File", "Master_Log_File"]), column(["Read_Source_Log_Pos", "Read_Master_Log_Pos"])];
    let applied = [
        column(["Relay_Source_Log_File", "Relay_Master_Log_File"]),
        column(["Exec_Source_Log_Pos", "Exec_Master_Log_Pos"]),
    ];
    column(["Replica_SQL_Running_State", "Slave_SQL_Running_State"]).contains(IDLE) && received != applied
}

/// The threads that hand out work and wait for more.
fn coordinators(list: &ResultSet) -> Vec<u64> {
    let is = |row: usize, column: &str, part: &str| list.text(row, column).is_some_and(|text| text.contains(part));
    let found = (0..list.rows.len()).filter(|row| is(*row, "User", "system user") && is(*row, "State", IDLE));
    found.filter_map(|row| list.text(row, "Id")?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    fn status(state: &str, received: &str, applied: &str) -> ResultSet {
        let names = "Channel_Name|Source_Log_File|Read_Source_Log_Pos|Relay_Source_Log_File|Exec_Source_Log_Pos|Replica_SQL_Running_State";
        table(&format!("{names}\nother|b.1|7|b.1|7|{state}\nmain|{received}|{applied}|{state}"))
    }

    #[test]
    fn what_is_received_and_not_applied_while_nobody_works_was_cut() {
        let idle = "Replica has read all relay log; waiting for more updates";
        assert!(is_cut(&status(idle, "b.1|900", "b.1|400"), "main"));
        assert!(is_cut(&status(idle, "b.2|400", "b.1|400"), "main"));
        assert!(!is_cut(&status(idle, "b.1|400", "b.1|400"), "main"));
        assert!(!is_cut(&status(idle, "b.1|900", "b.1|400"), "other"), "another channel's");
        assert!(!is_cut(&status(idle, "b.1|900", "b.1|400"), "gone"));
        assert!(!is_cut(&status("Waiting for dependent transaction to commit", "b.1|900", "b.1|400"), "main"));
        let old =
            "Master_Log_File|Read_Master_Log_Pos|Relay_Master_Log_File|Exec_Master_Log_Pos|Slave_SQL_Running_State";
        let old = |read: u32| {
            table(&format!("{old}\nb.1|{read}|b.1|400|Slave has read all relay log; waiting for more updates"))
        };
        assert!(is_cut(&old(500), "") && !is_cut(&old(400), ""));
    }

    #[test]
    fn the_thread_that_waits_is_found() {
        let list = table(
            "Id|User|State\n5|event_scheduler|Waiting on empty queue\n12|system user|Replica has read all relay log; waiting for more updates\n\
             13|system user|Waiting for an event from Coordinator\n20|app|Replica has read all relay log",
        );
        assert_eq!(coordinators(&list), [12]);
    }
}
