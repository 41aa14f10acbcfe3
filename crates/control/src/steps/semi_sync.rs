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
