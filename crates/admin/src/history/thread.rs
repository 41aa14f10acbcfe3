//! The thread that keeps the history: it looks at `/metrics` every ten seconds, and at the digests every minute.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use history::{DIGESTS_PACE_S, DigestFigures, Figure, FigureKind, HistoryError, Opened, PACE_S, Recorder, Times};
use stats::digests::{DigestReport, Order, ask_each, merge};

use super::{Keeper, KeeperFigures, KeeperOrder};
use crate::digests::ANSWER_WAIT;
use crate::metrics::{self, MetricKind};
use crate::shared::Shared;

/// The metrics that have a history: those that answer where the load, the time and the trouble were.
const KEPT: [&str; 51] = [
    "sqluice_sessions",
    "sqluice_requests_total",
    "sqluice_logins_total",
    "sqluice_login_failures_total",
    "sqluice_clients_accepted_total",
    "sqluice_clients_refused_total",
    "sqluice_local_answers_total",
    "sqluice_routes_total",
    "sqluice_pinned_sessions",
    "sqluice_held_statements",
    "sqluice_holds_total",
    "sqluice_hold_timeouts_total",
    "sqluice_pool_waiting_statements",
    "sqluice_pool_waits_total",
    "sqluice_pool_wait_timeouts_total",
    "sqluice_replays_total",
    "sqluice_statements_in_doubt_total",
    "sqluice_own_errors_total",
    "sqluice_errors_total",
    "sqluice_client_received_bytes_total",
    "sqluice_client_sent_bytes_total",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "sqluice_rule_hits_total",
    "sqluice_cache_results",
    "sqluice_cache_bytes",
    "sqluice_cache_hits_total",
    "sqluice_cache_misses_total",
    "sqluice_cache_saved_seconds_total",
    "sqluice_events_total",
    "sqluice_events_lost_total",
    "sqluice_listener_sessions",
    "sqluice_listener_logins_total",
    "sqluice_listener_login_failures_total",
    "sqluice_listener_received_bytes_total",
    "sqluice_listener_sent_bytes_total",
    "sqluice_listener_queries_total",
    "sqluice_listener_errors_total",
    "sqluice_server_reads_total",
    "sqluice_server_writes_total",
    "sqluice_server_errors_total",
    "sqluice_server_retries_total",
    "sqluice_server_sent_bytes_total",
    "sqluice_server_received_bytes_total",
    "sqluice_server_connections",
    "sqluice_server_latency_seconds_sum",
    "sqluice_server_latency_seconds_count",
    "sqluice_server_lag_seconds",
    "sqluice_server_up",
    "sqluice_cluster_has_primary",
    "sqluice_cluster_epoch",
];

/// Opens the file and starts the thread. A file that cannot be opened is a line in the log: the process goes on without a history.
pub(crate) fn start(settings: &config::History, shared: &Arc<Shared>) -> Option<(Keeper, JoinHandle<()>)> {
    let recorder = match history::open(&settings.path, settings.size_max) {
        Ok((recorder, Opened::Whole)) => recorder,
        Ok((recorder, Opened::SetAside(aside))) => {
            tracing::warn!(path = %settings.path.display(), aside = %aside.display(), "the file of history was damaged; a new one begins");
            recorder
        }
        Err(error) => {
            tracing::error!(path = %settings.path.display(), %error, "there is no history");
            return None;
        }
    };
    let (orders, inbox) = mpsc::channel();
    let figures = Arc::<KeeperFigures>::default();
    let thread = KeeperThread {
        shared: shared.clone(),
        recorder,
        figures: figures.clone(),
        is_failing: false,
        digests_at_s: 0,
        clock: Clock::default(),
    };
    let spawned = std::thread::Builder::new().name("sqluice-history".into()).spawn(move || thread.run(&inbox));
    match spawned {
        Ok(joined) => Some((Keeper { path: settings.path.clone(), orders, figures }, joined)),
        Err(error) => {
            tracing::error!(%error, "there is no history: its thread could not be made");
            None
        }
    }
}

struct KeeperThread {
    shared: Arc<Shared>,
    recorder: Recorder,
    figures: Arc<KeeperFigures>,
    is_failing: bool,
    digests_at_s: u64,
    clock: Clock,
}

impl KeeperThread {
    fn run(mut self, inbox: &Receiver<KeeperOrder>) {
        let mut next = Instant::now();
        loop {
            match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(KeeperOrder::Mark { author, text, answer }) => {
                    // A window ends at a mark: what comes after it can be compared with what came before.
                    let now_s = self.now_s();
                    let looked = self.look_at_digests(now_s);
                    self.note(looked);
                    let marked = self.recorder.mark(now_s, &author, &text).map_err(|error| error.to_string());
                    // The client may have gone.
                    let _ = answer.send(marked);
                }
                Ok(KeeperOrder::Grown { answer }) => {
                    let digests = digest_figures(&digests_of_all(&self.shared));
                    let now_s = self.now_s();
                    // The client may have gone.
                    let _ = answer.send(self.recorder.grown(now_s, &digests));
                }
                Ok(KeeperOrder::Plan(plan)) => {
                    let now_s = self.now_s();
                    let kept = self.recorder.plan(now_s, &plan);
                    self.note(kept);
                }
                Ok(KeeperOrder::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + Duration::from_secs(PACE_S);
                    self.look();
                }
            }
        }
    }

    /// The second since 1970, by a clock that may jump.
    fn now_s(&mut self) -> u64 {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(jump_s) = self.clock.jumped(unix, Instant::now()) {
            let seconds = jump_s.round();
            tracing::warn!(seconds, "the clock jumped: the history goes on at the new time, and keeps what it has");
            self.recorder.clock_jumped();
        }
        unix.as_secs()
    }

    fn look(&mut self) {
        let now_s = self.now_s();
        let figures = kept(&metrics::render(&self.shared));
        let mut written = self.recorder.figures(now_s, &figures);
        // The clock may have been set back.
        if now_s >= self.digests_at_s + DIGESTS_PACE_S || now_s < self.digests_at_s {
            written = written.and(self.look_at_digests(now_s));
        }
        self.note(written);
        self.figures.left_out.store(self.recorder.left_out(), Ordering::Relaxed);
        self.figures.bytes.store(self.recorder.bytes().unwrap_or(0), Ordering::Relaxed);
    }

    fn look_at_digests(&mut self, now_s: u64) -> Result<(), HistoryError> {
        self.digests_at_s = now_s;
        self.recorder.digests(now_s, digest_figures(&digests_of_all(&self.shared)))
    }

    fn note(&mut self, written: Result<(), HistoryError>) {
        match written {
            Ok(()) if self.is_failing => tracing::info!("the history is written again"),
            Err(ref error) if !self.is_failing => tracing::warn!(%error, "the history cannot be written"),
            _ => {}
        }
        self.is_failing = written.is_err();
        self.figures.failures.fetch_add(u64::from(self.is_failing), Ordering::Relaxed);
    }
}

/// The clock of the machine, watched for jumps: a correction by NTP or by hand, or the resume of a machine that was suspended.
#[derive(Debug, Default)]
struct Clock {
    last: Option<(Duration, Instant)>,
}

/// A clock that passes a time longer or shorter by this has jumped.
const JUMP: Duration = Duration::from_secs(5);

impl Clock {
    /// Takes the time since 1970, and a moment that never goes back. Gives the seconds of a jump.
    fn jumped(&mut self, unix: Duration, steady: Instant) -> Option<f64> {
        let (unix_before, steady_before) = self.last.replace((unix, steady))?;
        let passed = steady.saturating_duration_since(steady_before).as_secs_f64();
        let jump_s = unix.as_secs_f64() - unix_before.as_secs_f64() - passed;
        (jump_s.abs() > JUMP.as_secs_f64()).then_some(jump_s)
    }
}

/// The figures of a page that have a history. A line is a name, labels perhaps, and a value.
fn kept(page: &str) -> Vec<Figure> {
    let figure = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split('{').next()?;
        let kept = KEPT.iter().find(|kept| **kept == name)?;
        Some(Figure { series: series.to_owned(), kind: kind(kept), value: value.parse().ok()? })
    };
    page.lines().filter(|line| !line.starts_with('#')).filter_map(figure).collect()
}

fn kind(name: &str) -> FigureKind {
    let metric = metrics::METRICS.iter().find(|metric| metric.name == name);
    match metric.map(|metric| metric.kind) {
        Some(MetricKind::Gauge) => FigureKind::Gauge,
        // The parts of a histogram count up, too.
        _ => FigureKind::Counter,
    }
}

fn digests_of_all(shared: &Shared) -> DigestReport {
    let (sender, answers) = mpsc::channel();
    ask_each(&*shared.digests, false, move |report| {
        // The receiver may have gone.
        let _ = sender.send(report);
    });
    let deadline = Instant::now() + ANSWER_WAIT;
    let next = || answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
    merge(std::iter::from_fn(next), Order::Time)
}

fn digest_figures(report: &DigestReport) -> Vec<DigestFigures> {
    let figures = |row: &stats::digests::DigestRow| DigestFigures {
        hash: format!("{:016x}", row.name.hash),
        text: row.name.text.to_string(),
        user: row.name.user.to_string(),
        schema: row.name.schema.to_string(),
        statements: row.figures.statements,
        errors: row.figures.errors,
        rows: row.figures.rows_sent.saturating_add(row.figures.rows_affected),
        time_us: row.figures.time_us,
        times: Times::of(row.spread.sizes()),
        first_seen_s: row.first_seen.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    report.rows.iter().map(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kept_metric_is_one_of_the_page() {
        for name in KEPT {
            let base = name.trim_end_matches("_sum").trim_end_matches("_count");
            assert!(metrics::METRICS.iter().any(|metric| metric.name == name || metric.name == base), "{name}");
        }
        assert_eq!(
            (kind("sqluice_sessions"), kind("sqluice_requests_total")),
            (FigureKind::Gauge, FigureKind::Counter)
        );
        assert_eq!(kind("sqluice_server_latency_seconds_sum"), FigureKind::Counter);
    }

    #[test]
    fn jumps_of_the_clock_are_noticed_and_small_corrections_are_not() {
        let (mut clock, steady) = (Clock::default(), Instant::now());
        let mut at = |unix_s: u64, steady_s: u64| {
            let jump = clock.jumped(Duration::from_secs(unix_s), steady + Duration::from_secs(steady_s));
            jump.map(|jump_s| jump_s.round() as i64)
        };
        let (start, year) = (1_800_000_000, 365 * 24 * 3600);
        assert_eq!((at(start, 0), at(start + 10, 10), at(start + 23, 20)), (None, None, None));
        assert_eq!((at(start + 30 + year, 30), at(start + 40 + year, 40)), (Some(year as i64 - 3), None));
        assert_eq!((at(start + 50, 50), at(start + 60, 60)), (Some(-(year as i64)), None));
        // A thread that stood still, and a machine that was suspended.
        assert_eq!((at(start + 660, 660), at(start + 4_270, 670)), (None, Some(3_600)));
    }

    #[test]
    fn kept_lines_become_figures() {
        let page = "# HELP sqluice_sessions Client sessions now.\nsqluice_sessions 6\nsqluice_workers 2\n\
                    sqluice_server_up{cluster=\"main\",server=\"a b\"} 1\n";
        let figures = kept(page);
        let shown: Vec<_> = figures.iter().map(|figure| (&*figure.series, figure.value)).collect();
        let up = "sqluice_server_up{cluster=\"main\",server=\"a b\"}";
        assert_eq!(shown, [("sqluice_sessions", 6.0), (up, 1.0)]);
    }
}
