//! Listeners: the clients of each, with their bytes and queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use stats::ListenerStats;

use super::gather::Gathered;
use super::live::sum;
use super::{Need, Rows, Schema, View};
use crate::cells::{Row, row};
use crate::columns::{int, text};

/// Listener and cluster.
type Key = (Arc<str>, Arc<str>);
/// The counters of a listener, one of each worker.
type Stats = Vec<Arc<ListenerStats>>;

pub(super) const VIEWS: &[View] = &[View {
    name: "listeners",
    schema: Schema::Main,
    about: "Listeners, with the sessions, bytes, queries and errors of their clients.",
    columns: &[
        text("listener"),
        text("cluster"),
        text("address"),
        int("sessions"),
        int("sessions_max"),
        int("logins"),
        int("login_failures"),
        int("received_bytes"),
        int("sent_bytes"),
        int("reads"),
        int("writes"),
        int("cached"),
        int("errors"),
    ],
    needs: &[Need::Sessions],
    rows: Rows::Of(listeners),
}];

/// Those of the configuration, and those that still have counts of before.
fn listeners(gathered: &Gathered) -> Vec<Row> {
    let mut all: BTreeMap<Key, Stats> = BTreeMap::new();
    let configured = &gathered.settings.config.listeners;
    for (name, listener) in configured {
        all.entry((name.clone(), listener.cluster.clone())).or_default();
    }
    for entry in gathered.shared.sources.workers.iter().flat_map(|worker| worker.listeners()) {
        all.entry((entry.listener, entry.cluster)).or_default().push(entry.stats);
    }
    let of = |((listener, cluster), all): (&Key, &Stats)| {
        let sessions = gathered.sessions.iter().filter(|facts| facts.listener.as_ref() == Some(listener)).count();
        let own = configured.get(listener).filter(|own| own.cluster == *cluster);
        row![
            &**listener,
            &**cluster,
            own.map(|own| own.address.to_string()),
            sessions,
            own.map(|own| own.max_sessions),
            sum(all, |l| &l.logins),
            sum(all, |l| &l.login_failures),
            sum(all, |l| &l.received_bytes),
            sum(all, |l| &l.sent_bytes),
            sum(all, |l| &l.reads),
            sum(all, |l| &l.writes),
            sum(all, |l| &l.cached),
            sum(all, |l| &l.errors),
        ]
    };
    all.iter().map(of).collect()
}

#[cfg(test)]
mod tests {

    use facts::sessions::{SessionFacts, SessionState};

    use super::*;

    fn session_of(listener: Option<&str>) -> SessionFacts {
        SessionFacts {
            id: 7,
            listener: listener.map(Arc::from),
            cluster: Some("main".into()),
            user: Some("app".into()),
            client: "10.0.0.7:4711".to_owned(),
            state: SessionState::Idle,
            ..SessionFacts::default()
        }
    }

    /// Each figure has a value of its own, so that none stands in another's place, or comes from another listener.
    #[test]
    fn each_listener_has_its_own_figures() {
        let second = "[listener.second]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nmax_sessions = 70\n";
        let shared = crate::testing::shared(second);
        let worker = &shared.sources.workers[0];
        // The last one is in the configuration no more.
        for (listener, first) in [("app", 10), ("second", 20), ("gone", 30)] {
            let stats = worker.listener(&"main".into(), &listener.into());
            let counters = [
                &stats.logins,
                &stats.login_failures,
                &stats.received_bytes,
                &stats.sent_bytes,
                &stats.reads,
                &stats.writes,
                &stats.cached,
                &stats.errors,
            ];
            counters.into_iter().zip(first..).for_each(|(counter, value)| counter.add(value));
        }
        let mut gathered = Gathered::nothing(&shared);
        gathered.sessions = [Some("app"), Some("second"), Some("second"), None].map(session_of).into();
        let rows = listeners(&gathered);
        let address = Some("127.0.0.1:0".to_owned());
        let default = gathered.settings.config.listeners["app"].max_sessions;
        let row = |name, address: Option<String>, sessions: u64, sessions_max, first: u64| {
            let mut row = row![name, "main", address, sessions, sessions_max];
            (first..first + 8).for_each(|figure| row.extend(row![figure]));
            row
        };
        let expected = [
            row("app", address.clone(), 1, Some(default), 10),
            row("gone", None, 0, None, 30),
            row("second", address, 2, Some(70), 20),
        ];
        assert_eq!(rows, expected);
    }
}
