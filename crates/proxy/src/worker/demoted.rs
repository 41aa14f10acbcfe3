//! Servers that were the primary: the change of the primary ends their clients' connections.

use std::collections::HashMap;
use std::time::Instant;

use facts::view::{ServerId, View};

/// When servers were the primary last.
///
/// A switchover ends the connections that the old primary has then. That takes the server seconds at times: MariaDB waits for each
/// session that it ends, one after the other. By then it may serve reads as a replica on the same connections.
#[derive(Debug, Default)]
pub(super) struct Demoted(HashMap<ServerId, Instant>);

impl Demoted {
    /// Takes note of another view.
    pub(super) fn note(&mut self, before: &View, after: &View, now: Instant) {
        // Members of a group keep their connections when another one becomes the primary.
        if before.primary == after.primary || after.group.is_some() {
            return;
        }
        self.0.retain(|server, _| Some(*server) != after.primary);
        self.0.extend(before.primary.map(|server| (server, now)));
    }

    /// Whether the change of the primary ends a connection to this server that was opened at this time.
    pub(super) fn ends(&self, server: ServerId, opened: Instant) -> bool {
        self.0.get(&server).is_some_and(|demoted| opened <= *demoted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn view(primary: Option<u16>) -> View {
        View { primary: primary.map(ServerId), ..View::empty("main") }
    }

    #[test]
    fn older_connections_to_a_former_primary_are_ended() {
        let (mut demoted, start) = (Demoted::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        demoted.note(&view(Some(1)), &view(Some(1)), at(1));
        assert!(!demoted.ends(ServerId(1), at(0)));
        // There is none for a while, as in a failover.
        demoted.note(&view(Some(1)), &view(None), at(2));
        demoted.note(&view(None), &view(Some(2)), at(3));
        assert!(demoted.ends(ServerId(1), at(0)) && demoted.ends(ServerId(1), at(2)));
        assert!(!demoted.ends(ServerId(1), at(3)) && !demoted.ends(ServerId(2), at(0)));
    }
}
