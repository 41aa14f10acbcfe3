//! How long a client may be silent: `wait_timeout`, `interactive_timeout`, and MariaDB's limits of idle transactions, which servers
//! keep on connections of their own.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use sql::Family;
use wire::{Capabilities, Status, errno};

use super::Session;
use super::environment::Environment;
use crate::error::Refusal;
use facts::catalog::Catalog;
use route::state::StateMap;

/// A limit up to this is kept by a timer of the session; longer ones by a look at all sessions, once a second.
const TIMED_S_MAX: u32 = 60;
/// How long a client that is silent may take to read why it is closed.
const TELL_WAIT: Duration = Duration::from_millis(500);
/// MySQL tells a client why it is closed from this version on.
const TELLS_FROM: u32 = 80_024;

/// How long a session may wait for its client, in seconds. 0 is no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IdleLimits {
    /// Anywhere.
    client_s: u32,
    /// In a transaction.
    transaction_s: u32,
    /// In a transaction that has written nothing.
    reading_s: u32,
    /// In a transaction that has written.
    writing_s: u32,
}

impl IdleLimits {
    /// Those that a session begins with; `at_most_s` is the operator's.
    fn of_servers(globals: &Catalog, interactive: bool, at_most_s: u32) -> IdleLimits {
        let global = |name: &str| globals.globals.get(name).and_then(|value| value.parse::<u32>().ok());
        // A login with CLIENT_INTERACTIVE begins with the other variable's value.
        let client_s = global(if interactive { "interactive_timeout" } else { "wait_timeout" });
        IdleLimits {
            client_s: client_s.map_or(at_most_s, |limit| limit.clamp(1, at_most_s)),
            transaction_s: global("idle_transaction_timeout").unwrap_or(0),
            reading_s: global("idle_readonly_transaction_timeout").unwrap_or(0),
            writing_s: global("idle_write_transaction_timeout").unwrap_or(0),
        }
    }

    /// Those of a session that began with these and is in this state.
    fn in_state(self, state: &StateMap, at_most_s: u32) -> IdleLimits {
        let set = |name: &str| state.variable(name).and_then(|value| value.parse::<u32>().ok());
        IdleLimits {
            client_s: set("wait_timeout").map_or(self.client_s, |limit| limit.clamp(1, at_most_s)),
            transaction_s: set("idle_transaction_timeout").unwrap_or(self.transaction_s),
            reading_s: set("idle_readonly_transaction_timeout").unwrap_or(self.reading_s),
            writing_s: set("idle_write_transaction_timeout").unwrap_or(self.writing_s),
        }
    }

    fn is_timed(self) -> bool {
        self.client_s <= TIMED_S_MAX || self.transaction_s | self.reading_s | self.writing_s != 0
    }

    /// The limit that needs a timer. MariaDB's limits of transactions take the place of the client's, also when they are longer.
    fn timer_s(self, in_transaction: bool, has_written: bool) -> Option<u32> {
        let by_kind = if has_written { self.writing_s } else { self.reading_s };
        let of_transaction = [by_kind, self.transaction_s].into_iter().find(|limit| *limit > 0);
        match of_transaction.filter(|_| in_transaction) {
            Some(limit) => Some(limit),
            None => Some(self.client_s).filter(|limit| *limit <= TIMED_S_MAX),
        }
    }
}

/// Ends a wait for the client.
#[derive(Debug)]
pub(super) struct IdleTimer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    limit: Duration,
    /// Since when the client is silent, by the clock of seconds.
    since_s: u32,
}

impl IdleTimer {
    /// Ready when the client was silent for as long as it may; `since_s` moves on when the result cache has answered it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, since_s: u32) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if std::mem::replace(&mut self.since_s, since_s) == since_s {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(tokio::time::Instant::now() + self.limit);
        }
        Poll::Pending
    }
}

impl Session {
    /// The session begins, or begins anew: takes the servers' limits.
    pub(super) fn begin_idle_limits(&self) {
        let interactive = self.who.identity.key.capabilities.contains(Capabilities::INTERACTIVE);
        self.belief.idle_defaults.set(IdleLimits::of_servers(
            &self.belief.catalog_at_login,
            interactive,
            self.env.idle_s_max(),
        ));
        self.renew_idle_limits();
    }

    /// The session's state has changed: takes the limits that it has now.
    pub(super) fn renew_idle_limits(&self) {
        let limits = self.belief.idle_defaults.get().in_state(&self.belief.state, self.env.idle_s_max());
        self.belief.idle_limits.set(limits);
        self.env.handle.idle_s_max.store(limits.client_s, Ordering::Relaxed);
    }

    /// A timer for the wait that begins, if its limit is too short for a look once a second.
    #[inline]
    pub(super) fn idle_timer(&self) -> Option<IdleTimer> {
        if self.belief.idle_limits.get().is_timed() { self.short_idle_timer() } else { None }
    }

    fn short_idle_timer(&self) -> Option<IdleTimer> {
        let limits = self.belief.idle_limits.get();
        let in_transaction = self.belief.is_mariadb() && self.belief.status.contains(Status::IN_TRANSACTION);
        let limit_s = limits.timer_s(in_transaction, self.transaction.writes_open);
        // Where a timer waits, nothing else ends the session.
        self.env.handle.idle_s_max.store(if limit_s.is_some() { u32::MAX } else { limits.client_s }, Ordering::Relaxed);
        let limit = Duration::from_secs(limit_s?.into());
        let since_s = self.env.handle.idle_since_s.load(Ordering::Relaxed);
        Some(IdleTimer { sleep: Box::pin(tokio::time::sleep(limit)), limit, since_s })
    }

    /// Tells the client why it is closed, as far as servers do: MariaDB just closes.
    pub(super) async fn tell_overdue(&mut self) {
        let dialect = self.belief.facts().dialect;
        if dialect.family == Family::MariaDb || dialect.version < TELLS_FROM {
            return;
        }
        let message = "The client was disconnected by the server because of inactivity. See wait_timeout and \
                       interactive_timeout for configuring this behavior.";
        self.client.put_error(0, &Refusal::like_server(errno::ER_CLIENT_INTERACTION_TIMEOUT, b"HY000", message));
        // Whether it arrives changes nothing.
        let _ = tokio::time::timeout(TELL_WAIT, self.client.flush()).await;
    }
}

impl Environment {
    /// The operator's limit, in seconds.
    fn idle_s_max(&self) -> u32 {
        u32::try_from(self.listener.settings.load().idle_timeout.as_secs()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_a_server_keeps() {
        let mut catalog = Catalog::default();
        catalog.globals.insert("wait_timeout".into(), "28800".into());
        catalog.globals.insert("interactive_timeout".into(), "50".into());
        let mut state = StateMap::default();
        let limits = |state: &StateMap, interactive| {
            IdleLimits::of_servers(&catalog, interactive, 28_800).in_state(state, 28_800)
        };
        assert!(!limits(&state, false).is_timed());
        assert_eq!(limits(&state, true).timer_s(false, false), Some(50));
        assert_eq!(IdleLimits::of_servers(&catalog, false, 600).client_s, 600);
        state.set_variable("wait_timeout", "5");
        assert_eq!(limits(&state, true).timer_s(true, true), Some(5));
        state.set_variable("idle_transaction_timeout", "90");
        state.set_variable("idle_write_transaction_timeout", "3");
        let limits = limits(&state, false);
        assert_eq!(limits.timer_s(false, false), Some(5));
        assert_eq!(limits.timer_s(true, false), Some(90));
        assert_eq!(limits.timer_s(true, true), Some(3));
    }
}
