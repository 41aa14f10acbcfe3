//! State of the moment: pools, sessions, workers, waits, events; and of the past.

use std::collections::BTreeMap;
use std::sync::Arc;

use events::Condition;
use facts::sessions::SessionFacts;
use serde_json::Value as Json;
use stats::ServerStats;

use super::{Need, Rows, Schema, View};
use crate::cells::{Row, Value, row};
use crate::columns::{int, real, text};
use crate::views::gather::Gathered;

/// Events that are shown: the newest.
const EVENTS_MAX: usize = 10_000;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "pools",
        schema: Schema::Main,
        about: "Backend connections and statements of each server.",
        columns: &[
            text("cluster"),
            text("server"),
            int("used"),
            int("idle"),
            int("opened"),
            int("open_failures"),
            int("relogins"),
            int("closed"),
            int("reads"),
            int("writes"),
            int("errors"),
            int("retries"),
            int("sent_bytes"),
            int("received_bytes"),
            int("statements"),
            int("time_us"),
            int("time_us_p50"),
            int("time_us_p95"),
            int("time_us_p99"),
        ],
        needs: &[],
        rows: Rows::Of(pools),
    },
    View {
        name: "sessions",
        schema: Schema::Main,
        about: "Sessions of clients, and the state of each.",
        columns: &[
            int("id"),
            text("listener"),
            text("cluster"),
            text("user"),
            text("client"),
            text("program"),
            text("schema"),
            int("tls"),
            real("connected_ms"),
            text("state"),
            real("ms"),
            text("digest"),
            text("form"),
            text("server"),
            int("server_thread"),
            real("transaction_ms"),
            text("pins"),
            int("worker"),
            int("received_bytes"),
            int("sent_bytes"),
            int("waits"),
            real("waited_ms"),
            real("waits_ms"),
        ],
        needs: &[Need::Sessions],
        rows: Rows::Of(|gathered| gathered.sessions.iter().map(session).collect()),
    },
    View {
        name: "workers",
        schema: Schema::Main,
        about: "Workers, with their sessions and requests.",
        columns: &[
            int("worker"),
            int("sessions"),
            int("accepted"),
            int("logins"),
            int("login_failures"),
            int("requests"),
            int("local_answers"),
            int("own_errors"),
            int("holding"),
            int("waiting"),
            int("moved"),
            int("digests"),
            real("busy"),
            int("sessions_given"),
            int("sessions_taken"),
        ],
        needs: &[],
        rows: Rows::Of(workers),
    },
    View {
        name: "waits",
        schema: Schema::Main,
        about: "Waits of statements now, ever, and in vain; those for a user's limit count as connection, too.",
        columns: &[text("wait"), int("now"), int("total"), int("timeouts")],
        needs: &[],
        rows: Rows::Of(waits),
    },
    View {
        name: "events",
        schema: Schema::Main,
        about: "The last events of queries and logins, as the query log has them.",
        columns: &[
            int("seq"),
            text("ts"),
            text("kind"),
            int("session"),
            text("client"),
            text("user"),
            text("program"),
            text("listener"),
            text("cluster"),
            text("schema"),
            text("command"),
            text("digest"),
            text("form"),
            text("text"),
            text("answered_by"),
            text("server"),
            text("role"),
            text("route_reason"),
            text("rule"),
            int("error_code"),
            int("rows_sent"),
            int("rows_affected"),
            int("warnings"),
            int("wait_us"),
            int("first_us"),
            int("total_us"),
            int("ok"),
            text("reason"),
            int("statement"),
            text("trx"),
            text("account"),
            text("pins"),
            int("rewritten"),
            int("bytes_in"),
            int("bytes_out"),
            text("gtid"),
            int("bulk_rows"),
        ],
        needs: &[],
        rows: Rows::Of(events),
    },
    View {
        name: "history",
        schema: Schema::Main,
        about: "Figures of the past: give conditions on series, at (seconds since 1970) and step_s.",
        columns: &[text("series"), int("at"), int("step_s"), real("value")],
        needs: &[],
        rows: Rows::History,
    },
    View {
        name: "history_digests",
        schema: Schema::Main,
        about: "The digests that took the most time in each minute of the past.",
        columns: &[
            int("at"),
            text("digest"),
            text("text"),
            text("user"),
            text("schema"),
            int("statements"),
            int("errors"),
            int("rows"),
            int("time_us"),
        ],
        needs: &[],
        rows: Rows::History,
    },
    View {
        name: "marks",
        schema: Schema::Main,
        about: "Marks in the history, such as deploys.",
        columns: &[int("id"), int("at"), text("author"), text("text")],
        needs: &[],
        rows: Rows::History,
    },
];

/// The counters of each server by cluster and name, one of each worker.
pub(super) type AllServerStats = BTreeMap<ServerKey, Vec<Arc<ServerStats>>>;

/// Cluster and server.
type ServerKey = (Arc<str>, Arc<str>);

/// The counters of each server.
pub(super) fn server_stats(gathered: &Gathered) -> AllServerStats {
    let mut sums = AllServerStats::new();
    for entry in gathered.shared.sources.workers.iter().flat_map(|worker| worker.servers()) {
        sums.entry((entry.cluster, entry.server)).or_default().push(entry.stats);
    }
    sums
}

/// The sum of a counter over workers.
pub(super) fn sum<T>(all: &[Arc<T>], pick: impl Fn(&T) -> &stats::Counter) -> u64 {
    all.iter().map(|one| pick(one).get()).sum()
}

/// The sum of a gauge over workers.
pub(super) fn level<T>(all: &[Arc<T>], pick: impl Fn(&T) -> &stats::Gauge) -> i64 {
    all.iter().map(|one| pick(one).get()).sum()
}

fn pools(gathered: &Gathered) -> Vec<Row> {
    let of = |((cluster, server), all): (&ServerKey, &Vec<Arc<ServerStats>>)| {
        let mut times = stats::Snapshot::default();
        all.iter().for_each(|stats| times.merge(&stats.latency_us.snapshot()));
        row![
            &**cluster,
            &**server,
            level(all, |s| &s.used),
            level(all, |s| &s.idle),
            sum(all, |s| &s.opened),
            sum(all, |s| &s.open_failures),
            sum(all, |s| &s.relogins),
            sum(all, |s| &s.closed),
            sum(all, |s| &s.reads),
            sum(all, |s| &s.writes),
            sum(all, |s| &s.errors),
            sum(all, |s| &s.retries),
            sum(all, |s| &s.sent_bytes),
            sum(all, |s| &s.received_bytes),
            times.count(),
            times.sum(),
            times.quantile(0.5),
            times.quantile(0.95),
            times.quantile(0.99),
        ]
    };
    server_stats(gathered).iter().map(of).collect()
}

fn session(facts: &SessionFacts) -> Row {
    row![
        facts.id,
        facts.listener.as_deref(),
        facts.cluster.as_deref(),
        facts.user.as_deref(),
        &*facts.client,
        facts.program.as_deref(),
        facts.schema.as_deref(),
        facts.tls,
        facts.connected,
        facts.state.word(),
        facts.state_for,
        (facts.digest != 0).then(|| format!("{:016x}", facts.digest)),
        facts.form.as_deref(),
        facts.server.as_deref(),
        facts.thread_id,
        facts.transaction,
        facts.pins.join(", "),
        facts.worker,
        facts.received_bytes,
        facts.sent_bytes,
        facts.waits,
        facts.waited,
        facts.waits_for,
    ]
}

fn workers(gathered: &Gathered) -> Vec<Row> {
    let of = |(number, worker): (usize, &Arc<stats::WorkerStats>)| {
        row![
            number,
            worker.sessions.get(),
            worker.accepted.get(),
            worker.logins.get(),
            worker.login_failures.get(),
            worker.requests.get(),
            worker.local_answers.get(),
            worker.own_errors.get(),
            worker.holding.get(),
            worker.waiting.get(),
            worker.moved.get(),
            worker.digests.get(),
            worker.busy_permille.get() as f64 / 1000.0,
            worker.sessions_given.iter().map(|(_, count)| count.get()).sum::<u64>(),
            worker.sessions_taken.get(),
        ]
    };
    gathered.shared.sources.workers.iter().enumerate().map(of).collect()
}

fn waits(gathered: &Gathered) -> Vec<Row> {
    let all = &gathered.shared.sources.workers[..];
    vec![
        row!["connection", level(all, |w| &w.waiting), sum(all, |w| &w.waited), sum(all, |w| &w.wait_timeouts)],
        row![
            "user_limit",
            level(all, |w| &w.user_waiting),
            sum(all, |w| &w.user_waited),
            sum(all, |w| &w.user_wait_timeouts)
        ],
        row!["server", level(all, |w| &w.holding), sum(all, |w| &w.held), sum(all, |w| &w.hold_timeouts)],
        row!["replica", Value::Null, sum(all, |w| &w.replica_waits), sum(all, |w| &w.replica_wait_timeouts)],
    ]
}

fn events(gathered: &Gathered) -> Vec<Row> {
    let tail = gathered.shared.sources.events.recent().tail(None, EVENTS_MAX, &Condition::default());
    tail.lines.iter().filter_map(|line| serde_json::from_str(line).ok()).map(|event: Json| event_row(&event)).collect()
}

fn event_row(event: &Json) -> Row {
    let text = |name: &str| event[name].as_str();
    let number = |name: &str| event[name].as_u64();
    row![
        number("seq"),
        text("ts"),
        text("kind"),
        number("session"),
        text("client"),
        text("user"),
        text("program"),
        text("listener"),
        text("cluster"),
        text("schema"),
        text("command"),
        text("digest"),
        text("form"),
        text("text"),
        text("answered_by"),
        text("server"),
        text("role"),
        text("route_reason"),
        text("rule"),
        event["error"]["code"].as_u64(),
        number("rows_sent"),
        number("rows_affected"),
        number("warnings"),
        event["times"]["wait"].as_u64(),
        event["times"]["first"].as_u64(),
        event["times"]["total"].as_u64(),
        event["ok"].as_bool(),
        text("reason"),
        number("statement"),
        text("trx"),
        text("account"),
        event["pins"].as_array().map(|pins| pins.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", ")),
        event["rewritten"].as_bool(),
        number("bytes_in"),
        number("bytes_out"),
        text("gtid"),
        number("bulk_rows"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each figure has a value of its own, so that none stands in another's place.
    #[test]
    fn waits_have_the_figures_of_their_kind() {
        let shared = crate::testing::shared("");
        let worker = &shared.sources.workers[0];
        for (gauge, value) in [(&worker.waiting, 1), (&worker.user_waiting, 4), (&worker.holding, 7)] {
            gauge.add(value);
        }
        for (counter, value) in [
            (&worker.waited, 2),
            (&worker.wait_timeouts, 3),
            (&worker.user_waited, 5),
            (&worker.user_wait_timeouts, 6),
            (&worker.held, 8),
            (&worker.hold_timeouts, 9),
            (&worker.replica_waits, 10),
            (&worker.replica_wait_timeouts, 11),
        ] {
            counter.add(value);
        }
        let row = |name, now: Option<u64>, total: u64, timeouts: u64| row![name, now, total, timeouts];
        let expected = [
            row("connection", Some(1), 2, 3),
            row("user_limit", Some(4), 5, 6),
            row("server", Some(7), 8, 9),
            row("replica", None, 10, 11),
        ];
        assert_eq!(waits(&Gathered::nothing(&shared)), expected);
    }
}
