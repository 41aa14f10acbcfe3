//! Operators who watch Sqluice while a load runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use crate::http::{self, Ask, Cookies};

/// The key of the API for those who watch.
pub(crate) const KEY: &str = "a-key-of-the-bench";
/// Longest until a thread sees that it is to end.
const POLL: Duration = Duration::from_millis(200);
/// People who have the page open.
const PEOPLE: usize = 20;
/// The requests of the page's first view, as ui/src/views/now.tsx sends them, and the time between two of a kind.
const PAGE: [(&str, Duration); 4] = [
    ("/api/v1/now", Duration::from_secs(2)),
    (
        "/api/v1/sessions?where=state!%3Didle%20and%20state!%3Didle_in_transaction%20and%20state!%3Dlogin&order=busy\
         &limit=500&max_age_ms=1000",
        Duration::from_secs(2),
    ),
    (
        "/api/v1/history?series=sqluice_requests_total,sqluice_server_reads_total,sqluice_server_writes_total,\
         sqluice_server_errors_total,sqluice_server_latency_seconds_sum,sqluice_server_latency_seconds_count,\
         sqluice_server_lag_seconds,sqluice_sessions&from=-1h",
        Duration::from_secs(10),
    ),
    ("/api/v1/marks?from=-1h&limit=100", Duration::from_secs(30)),
];
/// The requests of a program that asks for the digests ten times a second.
const DIGESTS: [(&str, Duration); 1] = [("/api/v1/digests", Duration::from_millis(100))];

/// Those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// The page is open in twenty browsers.
    Pages,
    /// A program asks for the digests ten times a second.
    Digests,
}

impl Watch {
    /// Their name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Watch::Pages => format!("{PEOPLE} pages"),
            Watch::Digests => "digests".to_owned(),
        }
    }

    fn people(self) -> usize {
        match self {
            Watch::Pages => PEOPLE,
            Watch::Digests => 1,
        }
    }

    fn requests(self) -> &'static [(&'static str, Duration)] {
        match self {
            Watch::Pages => &PAGE,
            Watch::Digests => &DIGESTS,
        }
    }
}

/// They watch until [`Watching::end`].
#[derive(Debug)]
pub(crate) struct Watching {
    stop: Arc<AtomicBool>,
    people: Vec<JoinHandle<anyhow::Result<u64>>>,
}

impl Watching {
    /// Lets them watch the Sqluice whose API is there.
    pub(crate) fn begin(watch: Watch, api: SocketAddr) -> Watching {
        let stop = Arc::new(AtomicBool::new(false));
        let person = |number: usize| {
            let stop = stop.clone();
            thread::spawn(move || look(watch, number, api, &stop))
        };
        Watching { people: (0..watch.people()).map(person).collect(), stop }
    }

    /// They leave.
    ///
    /// # Errors
    /// One of them got no answer, or none has asked.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for person in self.people.drain(..) {
            let asked = person.join().map_err(|_| anyhow!("a thread that watches has ended"))??;
            if asked == 0 {
                bail!("nobody has watched");
            }
        }
        Ok(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Asks at its pace until it is to stop. People do not begin at the same moment. Gives how often it has asked.
fn look(watch: Watch, number: usize, api: SocketAddr, stop: &AtomicBool) -> anyhow::Result<u64> {
    let authorization = format!("Bearer {KEY}");
    let headers = [("Authorization", &*authorization)];
    let begun = Instant::now();
    let late = |pace: Duration| pace * u32::try_from(number).unwrap_or(0) / u32::try_from(watch.people()).unwrap_or(1);
    let mut due: Vec<Instant> = watch.requests().iter().map(|(_, pace)| begun + late(*pace)).collect();
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        for ((path, pace), due) in watch.requests().iter().zip(&mut due) {
            if Instant::now() < *due {
                continue;
            }
            *due += *pace;
            let ask = Ask { path, headers: &headers, ..Ask::default() };
            let page = http::ask(api, &ask, &mut Cookies::new()).with_context(|| format!("watching {path}"))?;
            if page.status != 200 {
                bail!("{path}: status {}, {}", page.status, page.body);
            }
            asked += 1;
        }
        let next = due.iter().min().map_or(POLL, |next| next.saturating_duration_since(Instant::now()));
        thread::sleep(next.min(POLL));
    }
    Ok(asked)
}
