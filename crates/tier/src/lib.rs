//! The shared cache: a Valkey or Redis server that several Sqluice processes use. They find each other's cached results there, and
//! learn of each other's writes.
//!
//! **The promise.** No cached result that [`Tier::ask`] gives, or calls good, is older than a write that was confirmed to a client of
//! any member before the call. This needs two things of the caller: a member reports its writes by [`Tier::report`] before it confirms
//! them, and reads the results that it [puts](Tier::put) from a server that has every write from before it asked for the tags. The
//! promise rests on:
//!
//! - **Tags.** Each table has a random tag in the shared cache that never comes again. A cached result has the tags of its tables
//!   from before it was read. A write removes the tag. A result whose tags are not the present ones is not used. Lost data is a
//!   missing tag, and so a result that is not used.
//! - **[Membership](membership).** A process that cannot reach the shared cache cannot remove tags. So results are used only while
//!   all members have reported lately, and a member that cannot report waits until its own membership is over.
//!
//! Names in the tier begin with the run of the server that answers: a server that was started again, or that took over from another, may have
//! old tags beside old answers. They are never looked at.
//!
//! One connection, on a thread of its own, serves all workers: commands of many go out together, and the order in which writes are told and
//! answers are asked for is the order in which they were handed over.

mod link;
mod membership;
mod reports;
mod resp;
mod scripts;
mod settings;
mod status;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stats::Histogram;
use tokio::sync::{mpsc, oneshot, watch};

use link::{Ask, Order, Put};
use reports::Reports;
pub use settings::Settings;
pub use status::{Counted, Counts, State, Status};

/// The version of the data in the shared cache, a part of all its names. Processes of different versions do not see each other's
/// data. The format of a cached result has a version of its own.
const FORM: u32 = 2;
/// Requests that wait for the connection; a session beyond them reads from a server.
const ORDERS_MAX: usize = 4096;
/// Bytes of answers that wait to be put into the tier; those beyond are not.
const PUT_BYTES_MAX: usize = 32 << 20;
/// The largest question with its tags beside a result. Larger ones are not put into the tier.
const BESIDE: usize = 64 << 10;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 24;
/// A tag.
pub type TableTag = [u8; TAG_BYTES];

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierWrite<'a> {
    /// These tables, by their keys.
    Tables(&'a [u64]),
    /// It is unknown what.
    Anything,
    /// It is unknown what, and names may mean other tables from now on.
    Definition,
}

/// A question to the tier.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Of which cluster.
    pub cluster: &'a str,
    /// The keys of the tables that are read.
    pub tables: &'a [u64],
    /// The tags at which an answer was read that the asker has.
    pub have: &'a [u8],
    /// The key of the cached result, if this process has none.
    pub key: Option<ResultKey>,
}

/// The key of a cached result: a hash of the whole question, which the result repeats.
pub type ResultKey = [u8; 16];

/// The tier's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierReply {
    /// Nothing: it cannot be asked, or has not answered in time, or a member is missing.
    Nothing,
    /// The answer that the asker has is good.
    Good,
    /// The tier's time in milliseconds, the tags as they are now, and the answer if there is a good one.
    Tags {
        /// The time when it was asked.
        now_ms: u64,
        /// One for all tables, one for definitions, and each table's.
        tags: Box<[u8]>,
        /// The cached result.
        answer: Option<Box<[u8]>>,
    },
}

/// The tag for definitions among these.
pub fn definitions_tag(tags: &[u8]) -> Option<TableTag> {
    tags.get(TAG_BYTES..2 * TAG_BYTES)?.try_into().ok()
}

/// The primary of a cluster and the tag of its definitions, as this process last had them.
#[derive(Debug, Default)]
struct ClusterInTier {
    primary: String,
    definitions: Option<TableTag>,
}

/// The tier as all workers see it.
#[derive(Debug)]
pub struct Tier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// This process among the members.
    member: Box<[u8]>,
    orders: mpsc::Sender<Order>,
    put_bytes: AtomicUsize,
    reports: Reports,
    /// Up to which number writes were reported.
    reported: watch::Sender<u64>,
    began: Instant,
    /// Until when others may be given answers that this process has not ended, in microseconds since the beginning. It only grows.
    promised_us: AtomicU64,
    state: AtomicU8,
    stopping: AtomicBool,
    counts: Counts,
    latency_us: Histogram,
    words: Mutex<Words>,
    clusters: Mutex<HashMap<Box<str>, ClusterInTier>>,
    /// The random part of this process's tags, and the number of tags made.
    nonce: [u8; 16],
    tags: AtomicU64,
}

#[derive(Debug, Default)]
struct Words {
    trouble: Option<String>,
    members: Vec<String>,
    server: Option<String>,
}

impl Tier {
    /// Begins to connect, on a thread of its own.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(settings: Settings) -> std::io::Result<Arc<Tier>> {
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let nonce = nonce();
        let name = settings.name.clone().unwrap_or_else(own_name);
        let token: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let membership = settings.membership;
        let shared = Arc::new(Shared {
            member: format!("{name}\0{token}").into_bytes().into(),
            settings,
            orders,
            put_bytes: AtomicUsize::new(0),
            reports: Reports::default(),
            reported: watch::Sender::new(0),
            began: Instant::now(),
            // Before it is a member no other one waits for it: its first writes wait a while for that.
            promised_us: AtomicU64::new(stats::micros(membership)),
            state: AtomicU8::new(State::Away as u8),
            stopping: AtomicBool::new(false),
            counts: Counts::default(),
            latency_us: Histogram::default(),
            words: Mutex::default(),
            clusters: Mutex::default(),
            nonce,
            tags: AtomicU64::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let in_thread = shared.clone();
        let thread = std::thread::Builder::new().name("sqluice-tier".into()).spawn(move || {
            runtime.block_on(link::run(&in_thread, inbox));
            // A name that is being resolved is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Tier { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Leaves the members and ends. After this nothing may be written any more.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.reports.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the tier's thread panicked");
        }
    }

    /// How long answers in a process's memory are believed without asking the tier.
    pub fn trust(&self) -> Duration {
        self.shared.settings.trust
    }

    /// Reports to the tier what was written, before its client hears of that. Returns when nobody can be given an older answer any more: as a rule
    /// after one answer of the tier, else after `lease_ms` at most.
    pub async fn report(&self, cluster: &str, written: TierWrite<'_>) {
        let shared = &*self.shared;
        // First what is to be told, then until when it matters: who promises more takes what is to be told behind that.
        let number = shared.reports.add(fields_of(cluster, written));
        let until = shared.promised() + membership::MARGIN;
        let mut reported = shared.reported.subscribe();
        let is_reported =
            tokio::time::timeout_at(until.into(), reported.wait_for(|reported| *reported >= number)).await;
        if is_reported.is_err() {
            shared.counts.unreported.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has the tier told what was written, before anything that is asked from now on; nobody waits for it.
    pub fn note(&self, cluster: &str, written: TierWrite<'_>) {
        self.shared.reports.add(fields_of(cluster, written));
    }

    /// The data is now at this place, which is the primary's address. If it was elsewhere before, all that was read there ends.
    /// Gives the tag for definitions that was believed when tables were looked up last.
    pub fn at_primary(&self, cluster: &str, primary: &str) -> Option<TableTag> {
        let mut clusters = self.shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        match clusters.get_mut(cluster) {
            Some(known) if known.primary == primary => known.definitions,
            Some(known) => {
                // Told before anybody asks for what is at the new place.
                self.note(cluster, TierWrite::Anything);
                primary.clone_into(&mut known.primary);
                known.definitions
            }
            None => {
                clusters.insert(cluster.into(), ClusterInTier { primary: primary.into(), definitions: None });
                None
            }
        }
    }

    /// Somebody has defined something: from now on tables are looked up in what is read behind that.
    pub fn definitions_are(&self, cluster: &str, tag: TableTag) {
        let mut clusters = self.shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.entry(cluster.into()).or_default().definitions = Some(tag);
    }

    /// Asks the tier; takes no longer than `timeout_ms`.
    pub async fn ask(&self, question: Question<'_>) -> TierReply {
        let shared = &*self.shared;
        if shared.state() != State::Serves {
            shared.counts.unasked.fetch_add(1, Ordering::Relaxed);
            return TierReply::Nothing;
        }
        let (reply, reported) = oneshot::channel();
        let ask = Ask {
            fields: fields(question.cluster, question.tables),
            have: question.have.into(),
            key: question.key,
            reply,
        };
        if shared.orders.try_send(Order::Ask(ask)).is_err() {
            shared.counts.unasked.fetch_add(1, Ordering::Relaxed);
            return TierReply::Nothing;
        }
        match tokio::time::timeout(shared.settings.timeout, reported).await {
            Ok(reported) => reported.unwrap_or(TierReply::Nothing),
            Err(_) => {
                shared.counts.timeouts.fetch_add(1, Ordering::Relaxed);
                TierReply::Nothing
            }
        }
    }

    /// Puts an answer there that was read at these tags, for so long. No session waits for it.
    pub fn put(&self, key: ResultKey, tags: &[u8], answer: &[u8], keep: Duration) {
        let shared = &*self.shared;
        let bytes = tags.len() + answer.len();
        let Some(keep_ms) = u64::try_from(keep.as_millis()).ok().filter(|ms| *ms > 0) else { return };
        if shared.state() != State::Serves || bytes > shared.packed_max() {
            return;
        }
        let fits = shared.put_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= PUT_BYTES_MAX;
        let put = || Put { key, body: [tags, answer].concat(), keep_ms };
        if !fits || shared.orders.try_send(Order::Put(put())).is_err() {
            shared.put_bytes.fetch_sub(bytes, Ordering::Relaxed);
            shared.counts.unput.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The state, for metrics and the API.
    pub fn status(&self) -> Status {
        let shared = &*self.shared;
        let words = shared.words.lock().unwrap_or_else(PoisonError::into_inner);
        let state = shared.state();
        Status {
            state,
            trouble: words.trouble.clone().filter(|_| state != State::Serves),
            members: words.members.clone(),
            server: words.server.clone(),
            counts: shared.counts.read(),
        }
    }

    /// How long the tier took to answer questions, in microseconds.
    pub fn latency_us(&self) -> &Histogram {
        &self.shared.latency_us
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.shared.settings.address.to_string()
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            number if number == State::Serves as u8 => State::Serves,
            number if number == State::Slow as u8 => State::Slow,
            _ => State::Away,
        }
    }

    fn promised(&self) -> Instant {
        self.began + Duration::from_micros(self.promised_us.load(Ordering::SeqCst))
    }

    /// Others may count on this process until then.
    fn promise(&self, until: Instant) {
        self.promised_us.fetch_max(stats::micros(until.saturating_duration_since(self.began)), Ordering::SeqCst);
    }

    /// Bytes of the largest answer with all that stands beside it.
    fn packed_max(&self) -> usize {
        self.settings.entry_max.saturating_add(BESIDE)
    }

    /// A tag that there has never been.
    fn new_tag(&self) -> TableTag {
        let mut tag = [0; TAG_BYTES];
        tag[..16].copy_from_slice(&self.nonce);
        tag[16..].copy_from_slice(&self.tags.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        tag
    }
}

/// Fields of the tags of what a question reads: what ends all answers, what ends all catalogues, and each table's.
fn fields(cluster: &str, tables: &[u64]) -> Vec<Box<[u8]>> {
    let kinds = [field(cluster, b"*"), field(cluster, b"d")];
    kinds.into_iter().chain(tables.iter().map(|table| table_field(cluster, *table))).collect()
}

fn fields_of(cluster: &str, written: TierWrite<'_>) -> Vec<Box<[u8]>> {
    match written {
        TierWrite::Tables(tables) => tables.iter().map(|table| table_field(cluster, *table)).collect(),
        TierWrite::Anything => vec![field(cluster, b"*")],
        TierWrite::Definition => vec![field(cluster, b"*"), field(cluster, b"d")],
    }
}

fn field(cluster: &str, kind: &[u8]) -> Box<[u8]> {
    [cluster.as_bytes(), b"\0", kind].concat().into()
}

fn table_field(cluster: &str, table: u64) -> Box<[u8]> {
    [cluster.as_bytes(), b"\0t", &table.to_be_bytes()].concat().into()
}

/// A name that no other process has.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// Random bytes that no process has had before. Nothing secret hangs on them.
fn nonce() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    // Its keys are the system's random bytes.
    let state = RandomState::new();
    let halves = [0_u8, 1].map(|half| state.hash_one((half, std::process::id(), Instant::now())));
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&halves[0].to_be_bytes());
    nonce[8..].copy_from_slice(&halves[1].to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests;
