//! Wrong keys of each address: so many at once, and then one in a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses that are remembered. One more takes the place of the one that may try again first.
const ADDRESSES_MAX: usize = 1_024;

/// How often an address may be wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Wrong keys at once.
    pub(super) burst: u32,
    /// Behind those, milliseconds for each.
    pub(super) each_ms: u64,
}

impl Pace {
    fn each(self) -> Duration {
        Duration::from_millis(self.each_ms)
    }
}

/// For each address, when all its failures are forgotten.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<Option<IpAddr>, Instant>>);

impl Attempts {
    /// Whether this address may show a key.
    pub(super) fn may_try(&self, peer: Option<IpAddr>, pace: Pace, now: Instant) -> bool {
        let forgotten = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&network(peer)).copied();
        let owed = forgotten.map(|at| at.saturating_duration_since(now)).unwrap_or_default();
        owed + pace.each() <= pace.each() * pace.burst
    }

    /// Notes a wrong key.
    pub(super) fn failed(&self, peer: Option<IpAddr>, pace: Pace, now: Instant) {
        let (mut known, peer) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), network(peer));
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&peer) {
            known.retain(|_, forgotten| *forgotten > now);
            let first = known.iter().min_by_key(|(_, forgotten)| **forgotten).map(|(peer, _)| *peer);
            if let Some(first) = first.filter(|_| known.len() >= ADDRESSES_MAX) {
                known.remove(&first);
            }
        }
        let forgotten = known.entry(peer).or_insert(now);
        *forgotten = (*forgotten).max(now) + pace.each();
    }
}

/// Of IPv6 the /64 network: one machine has all of its addresses.
fn network(peer: Option<IpAddr>) -> Option<IpAddr> {
    match peer?.to_canonical() {
        IpAddr::V4(address) => Some(address.into()),
        IpAddr::V6(address) => Some(IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { burst: 2, each_ms: 100 };

    #[test]
    fn the_table_is_bounded_and_networks_count_as_one() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for number in 0..3_000_u32 {
            attempts.failed(Some(IpAddr::from(number.to_be_bytes())), PACE, now);
        }
        assert_eq!(attempts.0.lock().unwrap().len(), ADDRESSES_MAX);
        let of = |text: &str| Some(text.parse().unwrap());
        attempts.failed(of("2001:db8::1"), PACE, now);
        assert!(attempts.may_try(of("2001:db8::2"), PACE, now));
        attempts.failed(of("2001:db8::2"), PACE, now);
        assert!(!attempts.may_try(of("2001:db8::3"), PACE, now));
        assert!(attempts.may_try(of("2001:db8:0:1::3"), PACE, now));
        assert!(attempts.may_try(of("2001:db8::3"), PACE, now + Duration::from_millis(100)));
    }
}
