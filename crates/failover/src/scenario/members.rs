//! Harm to the writer of a Galera group.

use super::faults::{AWAY, LASTS, kill};
use crate::front::is_whole;
use crate::stage::{Stage, primary_of};

pub(super) fn kill_writer(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = kill(stage)?;
    another_writes(stage)?;
    Ok(event)
}

/// Stops it in good order; it comes back, and another member is its donor.
pub(super) fn stop_writer(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.server(0).stop()?;
    another_writes(stage)?;
    stage.watch(AWAY);
    let returns = stage.clock.now_ms();
    stage.parts.push(returns);
    stage.world.group()?.restart(0)?;
    stage.wait_until("all members to serve", is_whole)?;
    let took = stage.clock.now_ms() - returns;
    let donor = donor_in(&stage.world.log(2)?).unwrap_or_else(|| "unknown".into());
    stage.notes.push(format!("the former writer serves again {took:.0} ms after its start; its donor: {donor}"));
    Ok(event)
}

/// Desyncs it, as a donor is.
pub(super) fn desync_writer(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.group()?.set_desync(0, true)?;
    another_writes(stage)?;
    stage.watch(LASTS);
    stage.parts.push(stage.clock.now_ms());
    let group = stage.world.group()?;
    group.set_desync(0, false)?;
    group.wait_synced(0)?;
    stage.wait_until("all members to serve", is_whole)?;
    Ok(event)
}

fn another_writes(stage: &mut Stage) -> anyhow::Result<()> {
    stage.wait_until("another writer", |page| primary_of(page).is_some_and(|index| index != 0)).map(drop)
}

/// Whom the group chose last, as each member has it in its log.
fn donor_in(log: &str) -> Option<String> {
    let (_, chosen) = log.rsplit_once("Selected ")?;
    let (_, name) = chosen.split_once('(')?;
    Some(name.split_once(')')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_donor_is_found() {
        let log = "[Note] WSREP: Member 2.0 (node1) requested state transfer from '*any*'. Selected 1.0 (node3)(SYNCED) as donor.\n";
        assert_eq!(donor_in(log).as_deref(), Some("node3"));
        assert_eq!(donor_in("[Note] WSREP: Shifting OPEN -> PRIMARY"), None);
    }
}
