//! Clients by the address that they come from: how many there are, and how often their logins fail.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Addresses of which only failures are remembered; beyond that all failures are forgotten.
const FAILING_MAX: usize = 65_536;
/// Failures are forgotten after so long without another one.
const FORGET: Duration = Duration::from_secs(60);
/// The first delay; each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// All addresses that matter now. Those of version 6 count by their /64 network, which is what one customer gets.
#[derive(Debug, Default)]
pub struct Addresses {
    known: Mutex<HashMap<IpAddr, AddressRecord>>,
}

#[derive(Debug, Default)]
struct AddressRecord {
    /// Connections that are not logged in yet, and those that are.
    logins: u32,
    sessions: u32,
    /// Failed logins since the last good one.
    failures: u32,
    last_failure: Option<Instant>,
}

impl AddressRecord {
    fn is_remembered(&self, now: Instant) -> bool {
        self.logins > 0
            || self.sessions > 0
            || self.last_failure.is_some_and(|last| now.saturating_duration_since(last) < FORGET)
    }
}

/// One connection of an address, for as long as it lives.
#[derive(Debug)]
pub struct FromAddress {
    addresses: Arc<Addresses>,
    address: IpAddr,
    is_session: bool,
}

impl Addresses {
    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client connects; `None` if `logins_max` of its address are not logged in yet, or `sessions_max` are. 0 is no limit.
    pub fn connect(self: &Arc<Addresses>, from: IpAddr, logins_max: u32, sessions_max: u32) -> Option<FromAddress> {
        let address = network(from);
        let mut known = self.known();
        let entry = known.entry(address).or_default();
        if is_full(entry.logins, logins_max) || is_full(entry.sessions, sessions_max) {
            return None;
        }
        entry.logins += 1;
        Some(FromAddress { addresses: self.clone(), address, is_session: false })
    }

    /// A login failed: how many have, one after the other.
    pub fn failed(&self, from: IpAddr, now: Instant) -> u32 {
        let mut known = self.known();
        if known.len() >= FAILING_MAX {
            known.retain(|_, entry| entry.logins > 0 || entry.sessions > 0);
        }
        let entry = known.entry(network(from)).or_default();
        if entry.last_failure.is_none_or(|last| now.saturating_duration_since(last) >= FORGET) {
            entry.failures = 0;
        }
        entry.failures = entry.failures.saturating_add(1);
        entry.last_failure = Some(now);
        entry.failures
    }

    /// A login was good.
    pub fn succeeded(&self, from: IpAddr) {
        if let Some(entry) = self.known().get_mut(&network(from)) {
            (entry.failures, entry.last_failure) = (0, None);
        }
    }

    /// How long a login from there waits before it is looked at: not at all below `after` failures, then longer with each, up to
    /// `max`.
    pub fn delay(&self, from: IpAddr, now: Instant, after: u32, max: Duration) -> Duration {
        let known = self.known();
        let Some(entry) = known.get(&network(from)) else { return Duration::ZERO };
        if after == 0 || entry.failures < after || !entry.is_remembered(now) {
            return Duration::ZERO;
        }
        let doubled = 2u32.saturating_pow(entry.failures - after);
        FIRST_DELAY.saturating_mul(doubled).min(max)
    }

    /// Forgets what is over.
    pub fn tidy(&self, now: Instant) {
        self.known().retain(|_, entry| entry.is_remembered(now));
    }

    /// How many addresses are known.
    pub fn count(&self) -> usize {
        self.known().len()
    }
}

impl FromAddress {
    /// The client has logged in; false if as many sessions of its address are there as may be.
    pub fn log_in(&mut self, sessions_max: u32) -> bool {
        let mut known = self.addresses.known();
        let entry = known.entry(self.address).or_default();
        if is_full(entry.sessions, sessions_max) {
            return false;
        }
        if !self.is_session {
            entry.logins = entry.logins.saturating_sub(1);
            entry.sessions += 1;
            self.is_session = true;
        }
        true
    }
}

impl Drop for FromAddress {
    fn drop(&mut self) {
        let mut known = self.addresses.known();
        let Some(entry) = known.get_mut(&self.address) else { return };
        let count = if self.is_session { &mut entry.sessions } else { &mut entry.logins };
        *count = count.saturating_sub(1);
        if entry.logins == 0 && entry.sessions == 0 && entry.last_failure.is_none() {
            known.remove(&self.address);
        }
    }
}

fn is_full(count: u32, max: u32) -> bool {
    max > 0 && count >= max
}

/// The address, or the network, that counts as one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn connections_count_before_and_after_the_login_and_leave_nothing() {
        let addresses = Arc::new(Addresses::default());
        let mut first = addresses.connect(HERE, 2, 1).unwrap();
        let mut second = addresses.connect(HERE, 2, 1).unwrap();
        assert!(addresses.connect(HERE, 2, 1).is_none());
        assert!(addresses.connect("192.0.2.2".parse().unwrap(), 2, 1).is_some(), "another address");
        assert!(first.log_in(1));
        assert!(!second.log_in(1), "one session is there already");
        assert!(addresses.connect(HERE, 2, 1).is_none(), "no login could succeed");
        drop(first);
        assert!(second.log_in(1));
        drop(second);
        assert_eq!(addresses.count(), 0);
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let addresses = Arc::new(Addresses::default());
        let one = addresses.connect("2001:db8::1".parse().unwrap(), 1, 0);
        assert!(one.is_some() && addresses.connect("2001:db8::ffff".parse().unwrap(), 1, 0).is_none());
        assert!(addresses.connect("2001:db8:0:1::1".parse().unwrap(), 1, 0).is_some());
        assert!(addresses.connect("::ffff:192.0.2.1".parse().unwrap(), 1, 0).is_some());
    }

    #[test]
    fn delays_grow_with_failures_and_end_with_a_good_login_or_with_time() {
        let (addresses, now, max) = (Addresses::default(), Instant::now(), Duration::from_secs(2));
        let delay = |now| addresses.delay(HERE, now, 3, max).as_millis();
        let delays: Vec<u128> = (0..9)
            .map(|_| {
                addresses.failed(HERE, now);
                delay(now)
            })
            .collect();
        assert_eq!(delays, [0, 0, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(addresses.delay(HERE, now, 0, max), Duration::ZERO, "0 is never");
        assert_eq!(delay(now + FORGET), 0);
        addresses.tidy(now + FORGET);
        assert_eq!(addresses.count(), 0);
        (0..5).for_each(|_| _ = addresses.failed(HERE, now));
        addresses.succeeded(HERE);
        assert_eq!(delay(now), 0);
    }

    #[test]
    fn failures_of_many_addresses_are_bounded() {
        let (addresses, now) = (Addresses::default(), Instant::now());
        for number in 0..FAILING_MAX as u32 + 10 {
            addresses.failed(IpAddr::V4(std::net::Ipv4Addr::from_bits(number)), now);
        }
        assert!(addresses.count() <= FAILING_MAX);
    }
}
