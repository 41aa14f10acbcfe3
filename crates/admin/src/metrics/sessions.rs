//! Sessions: the thing that they do, and the limits of their listeners.

use std::time::Duration;

use facts::sessions::{SessionFacts, SessionState};

use super::names::*;
use super::{Page, Shared, family};

/// The figures of sessions; all 0 without a data plane.
pub(super) fn render(page: &mut Page, shared: &Shared) {
    let sessions = shared.sessions.as_ref().map(|sessions| sessions.glance()).unwrap_or_default();
    let limits = shared.listeners();
    let mut by_state = family(page, SESSIONS_BY_STATE);
    for state in SessionState::ALL {
        let count = sessions.iter().filter(|session| session.state == state).count();
        by_state.sample(&[state.word()], count);
    }
    let mut by_listener = family(page, LISTENER_SESSIONS);
    for limit in limits.iter() {
        let is_here = |session: &&SessionFacts| session.listener.as_ref() == Some(&limit.listener);
        by_listener.sample(&[&limit.listener], sessions.iter().filter(is_here).count());
    }
    let mut most = family(page, LISTENER_SESSIONS_MAX);
    limits.iter().for_each(|limit| most.sample(&[&limit.listener], limit.sessions_max));
    super::listeners::render(page, &shared.workers);
    let oldest = |age: fn(&SessionFacts) -> Option<Duration>| {
        sessions.iter().filter_map(age).max().unwrap_or_default().as_secs_f64()
    };
    let query_age = |session: &SessionFacts| session.state.is_busy().then_some(session.state_for);
    family(page, OLDEST_QUERY).sample(&[], oldest(query_age));
    family(page, OLDEST_TRANSACTION).sample(&[], oldest(|session| session.transaction));
    let mut certificates = family(page, CERTIFICATE_END);
    for limit in limits.iter() {
        if let Some(ends_at_s) = limit.certificate_ends_at_s {
            certificates.sample(&[&limit.listener], ends_at_s);
        }
    }
    let mut of_admin = family(page, ADMIN_CERTIFICATE_END);
    shared.admin_certificate_end().iter().for_each(|ends_at_s| of_admin.sample(&[], ends_at_s));
}
