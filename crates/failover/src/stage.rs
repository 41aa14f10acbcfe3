//! A round while it is played.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::clock::Clock;
use crate::front::Front;
use crate::load::Load;
use crate::world::World;

/// How often Sqluice is asked what it sees: seldom, since asking costs what clients should have.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Longest wait for something that Sqluice should bring about.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// Servers, Sqluice and clients.
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    pub(crate) world: World,
    /// Dead ones stay.
    pub(crate) fronts: Vec<Front>,
    /// Which of them is asked.
    pub(crate) asked: usize,
    pub(crate) load: Load,
    /// When the harm's next parts began.
    pub(crate) parts: Vec<f64>,
    pub(crate) diagnoses: BTreeSet<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) violations: Vec<String>,
}

impl Stage {
    /// The cluster as Sqluice tells it; its diagnoses are noted.
    pub(crate) fn status(&mut self) -> anyhow::Result<Value> {
        let page = self.fronts.get(self.asked).context("no Sqluice is left")?.status()?;
        let names = page["diagnoses"].as_array().into_iter().flatten();
        self.diagnoses.extend(names.filter_map(|one| one["name"].as_str()).map(str::to_owned));
        Ok(page)
    }

    /// Lets time pass, and looks what Sqluice sees.
    pub(crate) fn watch(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            // Nobody may be there to answer; the end of the round asks again.
            let _ = self.status();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(WATCH_EVERY));
        }
    }

    /// Waits until Sqluice sees what is wanted; gives its page.
    ///
    /// # Errors
    /// It never does.
    pub(crate) fn wait_until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.wait_long_until(SETTLE_LIMIT, what, wanted)
    }

    /// The same with a limit of its own.
    ///
    /// # Errors
    /// As [`Stage::wait_until`].
    pub(crate) fn wait_long_until(
        &mut self,
        limit: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let deadline = Instant::now() + limit;
        loop {
            let page = self.status();
            if let Ok(page) = &page
                && wanted(page)
            {
                return Ok(page.clone());
            }
            if Instant::now() > deadline {
                bail!("{what} does not come: {}", page.map_or_else(|error| format!("{error:#}"), |page| brief(&page)));
            }
            thread::sleep(WATCH_EVERY);
        }
    }
}

/// A page in few words.
fn brief(page: &Value) -> String {
    let server =
        |server: &Value| format!("{} {} {} ({})", server["name"], server["role"], server["health"], server["reason"]);
    let servers: Vec<String> = page["servers"].as_array().into_iter().flatten().map(server).collect();
    format!("primary {}; {}; {}", page["primary"], servers.join("; "), page["diagnoses"])
}

/// The index of the primary, if there is one.
pub(crate) fn primary_of(page: &Value) -> Option<usize> {
    index_of(&page["primary"])
}

/// The indexes of replicas whose replication runs.
pub(crate) fn followers_of(page: &Value) -> Vec<usize> {
    let follows = |server: &&Value| server["role"] == "replica" && server["health"] == "up";
    page["servers"].as_array().into_iter().flatten().filter(follows).filter_map(|one| index_of(&one["name"])).collect()
}

fn index_of(name: &Value) -> Option<usize> {
    name.as_str()?.strip_prefix("db")?.parse::<usize>().ok()?.checked_sub(1)
}
