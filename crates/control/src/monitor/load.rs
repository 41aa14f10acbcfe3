//! When accounts and dictionaries are read, and what becomes of them.

mod read;

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::accounts::Accounts;
use facts::published::Published;
use facts::view::ServerId;
use tokio::sync::mpsc;

use super::link::ServerAccess;
use super::{accounts, catalog, grants, tables};
use crate::status::ClusterStatus;
use crate::task::{Owned, own};
use read::{read_accounts, read_catalog, read_grants, read_tables};

/// Time between the beginnings of two readings that logins asked for, at least and at most: a storm of wrong passwords
/// costs the server a tenth of one connection. Clients that wait a second for a login still hear that theirs was refused.
const ACCOUNTS_REST_MIN: Duration = Duration::from_millis(200);
const ACCOUNTS_REST_MAX: Duration = Duration::from_secs(1);
/// A rest is this many times as long as the last reading took.
const ACCOUNTS_REST_PER_READING: u32 = 10;
/// Wait after a reading that failed.
const RETRY: Duration = Duration::from_secs(5);
/// How long a process that has just begun waits for a primary: sessions begin with its global values, not with a replica's.
const PRIMARY_WAIT: Duration = Duration::from_secs(2);
/// Time between two readings of the catalog that a change asked for.
const CATALOG_THROTTLE: Duration = Duration::from_millis(50);

/// A reading's outcome; the error is in words.
pub(crate) enum Done {
    Accounts(Result<accounts::Loaded, String>),
    Catalog(Result<Box<catalog::Loaded>, String>),
    Tables(Result<tables::Loaded, String>),
    Grants(Result<grants::Loaded, String>),
}

/// One kind of reading.
#[derive(Default)]
struct Job {
    task: Option<Owned>,
    started: Option<Instant>,
    /// How long the last one took.
    took: Duration,
    /// `None` is at once.
    due: Option<Instant>,
    /// The complaint that was logged last.
    reported: String,
}

impl Job {
    fn is_due(&self, now: Instant) -> bool {
        self.task.is_none() && self.due.is_none_or(|due| now >= due)
    }

    /// Whether this time has passed since the last reading began.
    fn has_rested(&self, now: Instant, rest: Duration) -> bool {
        self.started.is_none_or(|started| now >= started + rest)
    }

    /// The reading under way has ended.
    fn end(&mut self, now: Instant) {
        self.task = None;
        self.took = self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
    }
}

/// The readings of a cluster.
pub(crate) struct Loads {
    cluster: Arc<str>,
    published: Arc<Published>,
    status: Arc<ClusterStatus>,
    accounts: Job,
    catalog: Job,
    tables: Job,
    grants: Job,
    /// A login waits for accounts that are read after it asked.
    wanted: bool,
    accounts_every: Duration,
    catalog_every: Duration,
    /// The request for a catalog that the reading under way answers.
    catalog_request: u64,
    /// The change of accounts that the reading under way knows.
    accounts_change: u64,
    /// The server whose dictionaries are to be read: the primary, as long as one is known.
    catalog_of: Option<ServerId>,
    /// The same when the last reading began.
    catalog_from: Option<ServerId>,
    /// Until when a primary is waited for before a replica's dictionaries are read.
    catalog_patience: Instant,
    /// The request for the tables that the reading under way answers.
    tables_request: u64,
    /// The request for the users' rights that the reading under way answers.
    grants_request: u64,
    done: (mpsc::Sender<Done>, mpsc::Receiver<Done>),
}

impl Loads {
    pub(crate) fn new(cluster: Arc<str>, published: Arc<Published>, status: Arc<ClusterStatus>) -> Loads {
        Loads {
            cluster,
            published,
            status,
            accounts: Job::default(),
            catalog: Job::default(),
            tables: Job::default(),
            grants: Job::default(),
            wanted: false,
            accounts_every: Duration::ZERO,
            catalog_every: Duration::ZERO,
            catalog_request: 0,
            accounts_change: 0,
            catalog_of: None,
            catalog_from: None,
            catalog_patience: Instant::now() + PRIMARY_WAIT,
            tables_request: 0,
            grants_request: 0,
            done: mpsc::channel(4),
        }
    }

    /// Has everything read anew.
    pub(crate) fn all_is_due(&mut self) {
        (self.accounts.due, self.catalog.due, self.tables.due, self.grants.due) = (None, None, None, None);
    }

    /// The next outcome.
    pub(crate) async fn finished(&mut self) -> Option<Done> {
        self.done.1.recv().await
    }

    /// Starts readings whose time has come, from the first of `sources` that answers.
    pub(crate) fn start_what_is_due(
        &mut self,
        config: &config::Cluster,
        sources: &[ServerAccess],
        primary: Option<ServerId>,
    ) {
        let now = Instant::now();
        (self.accounts_every, self.catalog_every) = (config.accounts_refresh, config.catalog_refresh);
        self.wanted |= self.published.take_accounts_request();
        let changed = !self.published.accounts_are_fresh();
        self.wanted |= changed;
        let rest = if changed { CATALOG_THROTTLE } else { accounts_rest(&self.accounts) };
        let rested = self.accounts.has_rested(now, rest);
        if rested && (self.accounts.is_due(now) || (self.wanted && self.accounts.task.is_none())) {
            self.accounts_change = self.published.accounts_change();
            if sources.is_empty() {
                if std::mem::take(&mut self.wanted) {
                    self.accounts.started = Some(now);
                    self.answer_without_reading();
                }
            } else {
                self.wanted = false;
                let (sources, done) = (sources.to_vec(), self.done.0.clone());
                let number = self.published.accounts.load().number + 1;
                self.accounts.started = Some(now);
                self.accounts.task = Some(own(async move {
                    let _ = done.send(Done::Accounts(read_accounts(&sources, number).await)).await;
                }));
            }
        }
        if primary.is_some() && primary != self.catalog_of {
            self.catalog_of = primary;
            self.catalog.due = None;
            // The last definitions of the former primary may be lost.
            self.published.tables.forget();
            self.published.grants.forget();
        }
        self.start_tables(sources.first().filter(|_| primary.is_some()), now);
        self.start_grants(sources.first().filter(|_| primary.is_some()), now);
        let wanted = !self.published.catalog_is_fresh() && self.catalog.task.is_none();
        let rested = self.catalog.has_rested(now, CATALOG_THROTTLE);
        let patient = self.catalog_of.is_none() && now < self.catalog_patience;
        if (self.catalog.is_due(now) || wanted && rested) && !sources.is_empty() && !patient {
            self.catalog_from = self.catalog_of;
            let knows_primary = primary.is_some();
            let (sources, done) = (sources.to_vec(), self.done.0.clone());
            let before = self.published.catalog.load_full();
            self.catalog_request = self.published.catalog_request();
            self.catalog.started = Some(now);
            self.catalog.task = Some(own(async move {
                let read = read_catalog(&sources, &before, knows_primary).await;
                let _ = done.send(Done::Catalog(read.map(Box::new))).await;
            }));
        } else if wanted && !rested {
            self.catalog.due = self.catalog.started.map(|started| started + CATALOG_THROTTLE);
        }
    }

    /// Starts reading the tables of the primary, if anybody wants them.
    fn start_tables(&mut self, primary: Option<&ServerAccess>, now: Instant) {
        let published = &self.published.tables;
        let rested = self.tables.has_rested(now, CATALOG_THROTTLE);
        let wanted = published.is_wanted() && self.tables.task.is_none() && rested;
        let Some(primary) = primary.filter(|_| published.is_watched() && (wanted || self.tables.is_due(now))) else {
            return;
        };
        self.tables_request = published.request();
        self.tables.started = Some(now);
        let (source, done) = (primary.clone(), self.done.0.clone());
        self.tables.task = Some(own(async move {
            let _ = done.send(Done::Tables(read_tables(&source).await)).await;
        }));
    }

    fn start_grants(&mut self, primary: Option<&ServerAccess>, now: Instant) {
        let published = &self.published.grants;
        let rested = self.grants.has_rested(now, CATALOG_THROTTLE);
        let wanted = published.is_wanted() && self.grants.task.is_none() && rested;
        let Some(primary) = primary.filter(|_| published.is_watched() && (wanted || self.grants.is_due(now))) else {
            return;
        };
        self.grants_request = published.request();
        self.grants.started = Some(now);
        let (source, done) = (primary.clone(), self.done.0.clone());
        self.grants.task = Some(own(async move {
            let _ = done.send(Done::Grants(read_grants(&source).await)).await;
        }));
    }

    /// Publishes an outcome.
    pub(crate) fn take(&mut self, done: Option<Done>) {
        match done {
            Some(Done::Accounts(result)) => self.take_accounts(result),
            Some(Done::Catalog(result)) => self.take_catalog(result),
            Some(Done::Tables(result)) => self.take_tables(result),
            Some(Done::Grants(result)) => self.take_grants(result),
            // The sender lives as long as this does.
            None => {}
        }
    }

    fn take_accounts(&mut self, result: Result<accounts::Loaded, String>) {
        self.accounts.end(Instant::now());
        match result {
            Ok(loaded) => {
                self.accounts.due = Some(Instant::now() + self.accounts_every);
                let what = if loaded.accounts.readable {
                    "accounts that are not understood are left out"
                } else {
                    "the monitor user may not read the accounts, so servers check all logins themselves"
                };
                tell(&self.cluster, &mut self.accounts.reported, what, &loaded.complaints.join("; "));
                self.published.publish_accounts(loaded.accounts);
                self.published.accounts_were_read(self.accounts_change);
            }
            Err(why) => {
                self.accounts.due = Some(Instant::now() + RETRY.min(self.accounts_every));
                self.status.figures().accounts_failures += 1;
                tell(&self.cluster, &mut self.accounts.reported, "the accounts could not be read", &why);
                self.answer_without_reading();
            }
        }
    }

    /// The same accounts under a new number: who waits for a reading has waited long enough.
    fn answer_without_reading(&self) {
        let before = self.published.accounts.load();
        self.published.publish_accounts(Accounts { number: before.number + 1, ..Accounts::clone(&before) });
        self.published.accounts_were_read(self.accounts_change);
    }

    fn take_catalog(&mut self, result: Result<Box<catalog::Loaded>, String>) {
        self.catalog.task = None;
        match result {
            Ok(mut loaded) => {
                // The primary that has turned up meanwhile is read at once.
                let missed = !loaded.of_primary && self.catalog_of.is_some();
                let every = if missed { RETRY.min(self.catalog_every) } else { self.catalog_every };
                self.catalog.due = Some(Instant::now() + every).filter(|_| self.catalog_from == self.catalog_of);
                let why = loaded.incomplete.unwrap_or_default();
                let what = "stored functions are not all known; statements with unknown ones go to the primary";
                tell(&self.cluster, &mut self.catalog.reported, what, &why);
                let before = self.published.catalog.load();
                loaded.catalog.number = before.number;
                if loaded.catalog != **before {
                    loaded.catalog.number += 1;
                    self.published.publish_catalog(loaded.catalog);
                }
            }
            Err(why) => {
                self.catalog.due = Some(Instant::now() + RETRY.min(self.catalog_every));
                self.status.figures().catalog_failures += 1;
                tell(&self.cluster, &mut self.catalog.reported, "the catalog could not be read", &why);
            }
        }
        self.published.catalog_was_read(self.catalog_request);
    }
}

impl Loads {
    /// A reading that failed leaves what is known as it is, and what is not believed unbelieved.
    fn take_tables(&mut self, result: Result<tables::Loaded, String>) {
        self.tables.task = None;
        let (every, reported) = (self.catalog_every, &mut self.tables.reported);
        match result {
            Ok(loaded) => {
                self.tables.due = Some(Instant::now() + every);
                tell(&self.cluster, reported, "what statements do to tables is not known in full", &loaded.incomplete);
                self.published.tables.publish(loaded.catalog, self.tables_request);
            }
            Err(why) => {
                self.tables.due = Some(Instant::now() + RETRY.min(every));
                // Not at once again, though it is still wanted.
                self.tables.started = Some(Instant::now() + RETRY.min(every));
                self.status.figures().catalog_failures += 1;
                tell(&self.cluster, reported, "the tables could not be read", &why);
            }
        }
    }
}

impl Loads {
    /// A reading that failed leaves nothing to believe.
    fn take_grants(&mut self, result: Result<grants::Loaded, String>) {
        self.grants.task = None;
        let (every, reported) = (self.accounts_every, &mut self.grants.reported);
        let what = "users' rights are not known, so that no two users share cached answers";
        match result {
            Ok(loaded) => {
                self.grants.due = Some(Instant::now() + every);
                tell(&self.cluster, reported, what, &loaded.unknown);
                self.published.grants.publish(loaded.grants, self.grants_request);
            }
            Err(why) => {
                self.grants.due = Some(Instant::now() + RETRY.min(every));
                // Not at once again, though it is still wanted.
                self.grants.started = Some(Instant::now() + RETRY.min(every));
                self.status.figures().accounts_failures += 1;
                tell(&self.cluster, reported, what, &why);
                // Its age is unknown: a grant may have been revoked since.
                self.published.grants.forget();
            }
        }
    }
}

/// The time between the beginnings of two readings of accounts that logins asked for.
fn accounts_rest(accounts: &Job) -> Duration {
    (accounts.took * ACCOUNTS_REST_PER_READING).clamp(ACCOUNTS_REST_MIN, ACCOUNTS_REST_MAX)
}

/// Tells a complaint once until it changes.
fn tell(cluster: &str, reported: &mut String, what: &str, why: &str) {
    if reported != why {
        if !why.is_empty() {
            tracing::warn!(cluster, "{what}: {why}");
        }
        why.clone_into(reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_link::ClusterLink;

    #[test]
    fn a_waiting_login_is_answered_even_when_no_server_can_be_read() {
        let text = "[cluster.main]\nkind = \"standalone\"\nservers.s1 = { address = \"127.0.0.1:1\" }\n\
                    monitor = { user = \"m\", password = \"\" }\n\
                    [listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n";
        let config = config::parse("test.toml", text, &config::MemorySource::default()).unwrap().config;
        let published = Arc::new(Published::new("main"));
        let tls = net::tls::ClientTls::disabled();
        let link = ClusterLink { published: published.clone(), tls: tls.clone(), etcd_tls: tls };
        let name: Arc<str> = "main".into();
        let (status, _) = ClusterStatus::new(&name, &link);
        let mut loads = Loads::new(name.clone(), published.clone(), status);
        let mut look = || {
            loads.start_what_is_due(&config.clusters[&name], &[], None);
            published.accounts.load().number
        };
        assert_eq!(look(), 0, "nobody asked");
        published.request_accounts_refresh();
        assert_eq!(look(), 1);
        published.request_accounts_refresh();
        assert_eq!(look(), 1, "not at once again");
    }

    #[test]
    fn a_login_waits_for_accounts_shorter_than_any_driver_unless_reading_them_is_slow() {
        let began = Instant::now();
        let rest = |took: u64| {
            let mut job = Job { started: Some(began), ..Job::default() };
            job.end(began + Duration::from_millis(took));
            accounts_rest(&job).as_millis()
        };
        assert_eq!([2, 20, 50, 100, 5_000].map(rest), [200, 200, 500, 1_000, 1_000]);
    }
}
