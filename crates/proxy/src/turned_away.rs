//! Clients that were refused before their login: a flood of them is counted exactly, and makes few events.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use events::{Body, Client, Event};

/// Kinds that are counted apart. Beyond that, addresses are not told apart any more.
const KINDS_MAX: usize = 64;

/// A client that was refused.
#[derive(Debug)]
pub struct TurnedAway {
    /// The reason's place in [`stats::REFUSED_CLIENTS`].
    pub reason: usize,
    /// The code of its error.
    pub code: u16,
    /// The message of its error.
    pub message: String,
    /// The listener that it came to.
    pub listener: Arc<str>,
    /// The cluster behind that.
    pub cluster: Arc<str>,
    /// Its address, if it has one.
    pub address: Option<IpAddr>,
}

/// The clients that are told in one event.
type Kind = (Arc<str>, usize, Option<IpAddr>);

/// The refused clients of each kind since its last event.
#[derive(Debug, Default)]
pub struct TurnedAwayCounts(HashMap<Kind, Counted>);

#[derive(Debug)]
struct Counted {
    client: Arc<Client>,
    code: u16,
    reason: Arc<str>,
    count: u64,
}

impl Counted {
    fn event(&mut self) -> Event {
        let count = std::mem::take(&mut self.count);
        let body = Body::TurnedAway(events::TurnedAway { code: self.code, reason: self.reason.clone(), count });
        Event { at: SystemTime::now(), session: 0, client: self.client.clone(), body }
    }
}

impl TurnedAwayCounts {
    /// Counts a client. Gives an event if there was none of its kind a moment ago; the others wait for [`TurnedAwayCounts::take`].
    pub fn count(&mut self, client: TurnedAway) -> Option<Event> {
        let TurnedAway { reason, code, message, listener, cluster, address } = client;
        let mut kind = (listener.clone(), reason, address);
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&kind) {
            kind.2 = None;
        }
        if let Some(counted) = self.0.get_mut(&kind) {
            counted.count += 1;
            return None;
        }
        let address = kind.2.map(|address| address.to_string()).unwrap_or_default();
        let client = Client { address, listener, cluster, ..Client::default() };
        let mut counted = Counted { client: Arc::new(client), code, reason: message.into(), count: 1 };
        let event = counted.event();
        self.0.insert(kind, counted);
        Some(event)
    }

    /// Gives an event for each kind of which clients came since its last one. The other kinds are forgotten.
    pub fn take(&mut self, mut give: impl FnMut(Event)) {
        self.0.retain(|_, counted| {
            let is_new = counted.count > 0;
            if is_new {
                give(counted.event());
            }
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: u8) -> TurnedAway {
        TurnedAway {
            reason: 0,
            code: 1040,
            message: "full".to_owned(),
            listener: "app".into(),
            cluster: "main".into(),
            address: Some([10, 0, 0, address].into()),
        }
    }

    fn count(event: &Event) -> u64 {
        match &event.body {
            Body::TurnedAway(turned) => turned.count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_flood_is_counted_exactly_in_few_events() {
        let (mut counts, mut reported) = (TurnedAwayCounts::default(), Vec::new());
        for round in 0..10_u32 {
            for address in 0..=255 {
                reported.extend(counts.count(refused(address)));
                assert!(counts.0.len() <= KINDS_MAX + 1);
            }
            if round == 4 {
                counts.take(|event| reported.push(event));
            }
        }
        counts.take(|event| reported.push(event));
        assert_eq!(reported.iter().map(count).sum::<u64>(), 2560);
        assert!(reported.len() <= 3 * (KINDS_MAX + 1), "{}", reported.len());
        assert!(reported.iter().any(|event| event.client.address.is_empty()), "the rest has no address");
        // A quiet moment, and the next one is told at once.
        counts.take(|event| panic!("{event:?}"));
        assert_eq!(counts.count(refused(7)).map(|event| count(&event)), Some(1));
    }
}
