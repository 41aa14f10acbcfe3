//! Metrics that are pushed: a thread sends the page of metrics to collectors, each at its own pace.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::OtlpSettings;
use super::collector::{Collector, Signal};
use super::metric_message;
use super::metrics::{Times, of_page};
use super::now_ns;
use crate::join::ends_within;
use crate::writer::node_name;

/// How long the end of the process waits for a push.
const STOP_MAX: Duration = Duration::from_secs(2);

/// A collector that gets metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    /// Its name in the log.
    pub name: String,
    /// The time from push to push.
    pub every: Duration,
    /// The name of this process; empty is the machine's.
    pub node: String,
    /// The collector.
    pub otlp: OtlpSettings,
}

/// The thread that pushes.
#[derive(Debug)]
pub struct MetricsPush {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Targets that the thread has not taken yet.
    targets: Option<Vec<PushTarget>>,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetricsPush {
    /// Starts the thread. `page` makes the page of metrics.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(page: impl Fn() -> String + Send + 'static, targets: Vec<PushTarget>) -> io::Result<MetricsPush> {
        let shared = Arc::new(Shared::default());
        shared.lock().targets = Some(targets);
        let pusher = Pusher { shared: shared.clone(), collectors: Vec::new(), start_ns: now_ns() };
        let thread = std::thread::Builder::new().name("otlp-metrics".into()).spawn(move || pusher.run(&page))?;
        Ok(MetricsPush { shared, thread })
    }

    /// Takes other collectors.
    pub fn reload(&self, targets: Vec<PushTarget>) {
        self.shared.lock().targets = Some(targets);
        self.shared.changed.notify_all();
    }

    /// Ends the thread. A collector that hangs does not keep the process.
    pub fn stop(self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        ends_within(self.thread, STOP_MAX, "metrics");
    }
}

struct Pusher {
    shared: Arc<Shared>,
    collectors: Vec<Due>,
    start_ns: u64,
}

/// A collector, and when it gets metrics again.
struct Due {
    target: PushTarget,
    /// `None` if its settings are of no use.
    collector: Option<Collector>,
    at: Instant,
    /// A push has failed and none has succeeded since.
    failing: bool,
}

impl Pusher {
    fn run(mut self, page: &impl Fn() -> String) {
        while self.wait() {
            let now = Instant::now();
            let text = page();
            let metrics = of_page(&text, Times { start: self.start_ns, now: now_ns() });
            for due in self.collectors.iter_mut().filter(|due| due.at <= now) {
                due.at = now + due.target.every;
                let pushed = due.collector.as_mut().map(|collector| {
                    let body = metric_message::metrics(&node_name(&due.target.node), metrics.clone());
                    collector.send(Signal::Metrics, &body)?.map_err(|refused| io::Error::other(refused.to_string()))
                });
                due.note(pushed.unwrap_or(Ok(0)));
            }
        }
    }

    /// Waits for the next push, or for other collectors. Gives whether to go on.
    fn wait(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        loop {
            if state.stopping {
                return false;
            }
            if let Some(targets) = state.targets.take() {
                self.collectors = targets.into_iter().map(Due::new).collect();
            }
            let now = Instant::now();
            let next = self.collectors.iter().map(|due| due.at).min();
            state = match next.map(|at| at.saturating_duration_since(now)) {
                Some(Duration::ZERO) => return true,
                Some(left) => shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Due {
    fn new(target: PushTarget) -> Due {
        let collector = Collector::new(&target.otlp);
        if let Err(error) = &collector {
            tracing::error!(sink = target.name, %error, "no metrics are pushed");
        }
        Due { target, collector: collector.ok(), at: Instant::now(), failing: false }
    }

    fn note(&mut self, pushed: io::Result<u64>) {
        let name = &self.target.name;
        match pushed {
            Ok(_) if std::mem::take(&mut self.failing) => tracing::info!(sink = name, "metrics are pushed again"),
            Ok(_) => {}
            // The next push has all of it.
            Err(error) if !std::mem::replace(&mut self.failing, true) => {
                tracing::warn!(sink = name, %error, "metrics cannot be pushed");
            }
            Err(_) => {}
        }
    }
}
