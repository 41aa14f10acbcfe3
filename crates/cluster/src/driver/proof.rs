//! Whether enough servers are reached, and the writes with an OK that these may lack.
//!
//! With semi-sync a client gets an OK once the primary and so many others have the write. If fewer servers can have a write,
//! those that are not reached counted in, no client has got its OK.

use std::time::Instant;

use facts::view::ServerId;

use super::Driver;
use super::server::Server;
use crate::history::Extra;

/// The settings of semi-sync speak for a primary that was never seen only if it would wait at least so long.
const PATIENT_MS: u64 = 3_600_000;

impl Driver {
    /// Whether enough servers are reached: more than half of all, or one of two.
    pub(super) fn enough(&self, now: Instant, with: Option<&[ServerId]>) -> Result<(), String> {
        if !self.settings.failover.majority_required {
            return Ok(());
        }
        let all = self.servers.iter().filter(|server| !server.resting()).count();
        let counts = |index: &usize| match with {
            Some(with) => with.contains(&self.servers[*index].id),
            None => self.reached(*index, now),
        };
        let reached = (0..self.servers.len()).filter(counts).count();
        let enough = if all == 2 { reached >= 1 } else { reached * 2 > all };
        if enough {
            Ok(())
        } else {
            Err(format!("only {reached} of {all} servers are reached; more than half is needed"))
        }
    }

    /// Whether no acknowledged write can be missing on all servers that are reached. `old` was the primary.
    pub(super) fn lossless(&self, old: Option<ServerId>, reached: &dyn Fn(ServerId) -> bool) -> Result<(), String> {
        let needed = self.acks_needed(old)?;
        // A write is acknowledged once the primary and so many others have it: it can be missing only if all of these are.
        let missing = self.missing(old, reached, true);
        if missing <= needed as usize {
            return Ok(());
        }
        Err(format!(
            "{missing} servers are not reached, and a write needs only {} to be acknowledged: those may have some that \
             no other server has",
            needed + 1
        ))
    }

    /// How many servers may have what no server that is reached has. A primary that was started anew counts too: of what it
    /// wrote itself something may be gone.
    fn missing(&self, old: Option<ServerId>, reached: &dyn Fn(ServerId) -> bool, own: bool) -> usize {
        let counts = |server: &&Server| {
            if Some(server.id) == old && server.restarted && own {
                return true;
            }
            let replies = server.reported().and_then(|facts| facts.details.semi_sync.replica_enabled);
            !reached(server.id) && (Some(server.id) == old || replies != Some(false))
        };
        self.servers.iter().filter(counts).count()
    }

    /// Whether a client may have got an OK for this write. Without semi-sync this is unknown.
    pub(super) fn may_be_acknowledged(
        &self,
        old: Option<ServerId>,
        reached: &dyn Fn(ServerId) -> bool,
        extra: &Extra,
    ) -> bool {
        if !self.settings.failover.semi_sync_required {
            return true;
        }
        let Ok(needed) = self.acks_needed(old) else { return true };
        // A server that wrote it had it, also when a crash has taken it away since.
        let had = |server: &&Server| {
            let history = server.history.as_ref().filter(|_| reached(server.id));
            history.is_some_and(|history| extra.is_partly_in(history) || !history.split(extra.clone()).0.is_empty())
        };
        let holders = self.servers.iter().filter(had).count();
        holders + self.missing(old, reached, false) > needed as usize
    }

    fn acks_needed(&self, old: Option<ServerId>) -> Result<u32, String> {
        let old = old.and_then(|id| self.index(id)).map(|index| &self.servers[index]);
        if let Some((server, facts)) = old.and_then(|old| Some((old, old.reported()?))) {
            let semi_sync = &facts.details.semi_sync;
            // A root that is read-only now, or was just started, waits for no replica.
            let idle = !server.takes_writes() || server.restarted;
            if let Some(acks) = self.acks_seen.filter(|_| idle) {
                return Ok(acks);
            }
            if semi_sync.source_active != Some(true) && !(idle && semi_sync.source_enabled == Some(true)) {
                return Err(format!("semi-sync was not active on {} when it was last seen", server.name()));
            }
            if semi_sync.after_sync != Some(true) {
                return Err(format!("{} does not wait before others see a write (AFTER_SYNC)", server.name()));
            }
            return Ok(semi_sync.acks_needed.unwrap_or(1));
        }
        if let Some(acks) = self.acks_seen {
            return Ok(acks);
        }
        // It was never seen: the settings of the others have to speak for it.
        let mut least = None;
        for server in &self.servers {
            let Some(facts) = server.reported() else { continue };
            let semi_sync = &facts.details.semi_sync;
            let part = semi_sync.source_enabled == Some(true) || semi_sync.replica_enabled == Some(true);
            let good = part
                && semi_sync.after_sync == Some(true)
                && semi_sync.timeout_ms.is_some_and(|timeout| timeout >= PATIENT_MS);
            if !good {
                return Err("the primary was never seen, and not all others are set up for lossless semi-sync".into());
            }
            let acks = semi_sync.acks_needed.unwrap_or(1);
            least = Some(least.map_or(acks, |least: u32| least.min(acks)));
        }
        least.ok_or_else(|| "no server has reported anything".to_owned())
    }
}
