//! Answers in memory, never more than a bound, found by their questions.
//!
//! The store is split by the question's hash, so that workers seldom meet. A result without a hit since the queue last came by it
//! is evicted first (a queue with a second chance). A hit sets a flag; it changes no order.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;
use foldhash::quality::RandomState;

use crate::answer::{Answer, AnswerParts, Summary};
use crate::fill::{Filling, Ticket};
use crate::judge::Refusal;
use crate::key::{Context, Contexts, Question};
use crate::write_counters::{Stamp, WriteCounters};

/// Most parts.
const SHARDS_MAX: usize = 16;
/// So many of the largest answers fit into a part at least.
const LARGEST_IN_SHARD: usize = 4;
/// The memory of a result besides its own: its place in the map, of which up to half is empty, and in the queue.
const PLACES_BYTES: usize = 2 * (size_of::<(u64, Answer)>() + 1) + 2 * size_of::<u64>() + 32;

/// Replies up to so many bytes are copied for who finds them.
const COPIED_MAX: usize = 4_096;

/// So long it is remembered that an answer cannot be kept: it may have come with what the next one has not.
const REFUSED_MAX: Duration = Duration::from_secs(1);

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all answers, with their keys and all that keeping them takes.
    pub memory_max: usize,
    /// Bytes of one reply.
    pub entry_max: usize,
}

/// How old an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Up to this age it is given out.
    pub ttl: Duration,
    /// For so much longer it is given out while somebody else asks the database anew.
    pub stale: Duration,
}

/// The outcome of a lookup in the cache.
#[derive(Debug)]
pub enum Lookup {
    /// A cached result that is young enough.
    Hit(Answer),
    /// A cached result past its `ttl`; another session refreshes it.
    Stale(Answer),
    /// There is none: the session reads it from a server, and keeps the result.
    Fill(Ticket),
    /// Another session fills it.
    Wait(Arc<Filling>),
    /// The result cannot be kept.
    Pass(Refusal),
}

/// A cached result that was found.
#[derive(Debug)]
pub enum Hit {
    /// Its bytes were copied.
    Copied(Summary),
    /// A longer one, or one of which the shared tier has more to say.
    Kept(Answer),
}

impl Hit {
    /// The facts that its reader needs besides the bytes.
    #[inline]
    pub fn summary(&self) -> &Summary {
        match self {
            Hit::Copied(summary) => summary,
            Hit::Kept(answer) => answer.summary(),
        }
    }
}

/// The number of removed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Answers.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Shard {
    answers: HashMap<u64, Answer, FixedState>,
    /// The hashes of answers, the next to go first; some may be gone already.
    queue: VecDeque<u64>,
    bytes: usize,
    fills: HashMap<u64, Arc<Filling>, FixedState>,
}

/// The answers of all clusters.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Mutex<Shard>]>,
    bounds: Bounds,
    shard_max: usize,
    state: RandomState,
    contexts: Contexts,
    /// How often something was wiped: what was asked before that is not kept.
    wipes: AtomicU64,
    evicted: AtomicU64,
}

impl Store {
    /// An empty one.
    pub fn new(bounds: Bounds) -> Store {
        let fits = bounds.memory_max / bounds.entry_max.max(1).saturating_mul(LARGEST_IN_SHARD);
        let shards = 1 << fits.clamp(1, SHARDS_MAX).ilog2();
        Store {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            bounds,
            shard_max: bounds.memory_max / shards,
            state: RandomState::default(),
            contexts: Contexts::default(),
            wipes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// The bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// A context for questions: those that are equal are one.
    pub fn context<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Context {
        self.contexts.share(Context::new(parts))
    }

    /// The answer, of whatever age, if there is one that may still be given. Its asker looks whether it is young enough, and
    /// asks in full ([`Store::ask`]) if not. `reply` is memory for a copy of it.
    pub fn find(&self, question: &Question<'_>, counters: &WriteCounters, reply: &mut Vec<u8>) -> Option<Hit> {
        let hash = question.hash(&self.state);
        let shard = self.shard(hash);
        let answer = shard.answers.get(&hash)?;
        let kept = answer.reply().ok()?;
        if !answer.is_to(question) || !answer.is_current(counters) {
            return None;
        }
        answer.use_it();
        // A short one is copied: a session that holds it writes to its count, now and later, and other workers wait for that.
        if kept.len() > COPIED_MAX || answer.tier().is_some() {
            return Some(Hit::Kept(answer.clone()));
        }
        reply.clear();
        reply.extend_from_slice(kept);
        Some(Hit::Copied(*answer.summary()))
    }

    /// Looks for the answer. `counters` are the cluster's. With `anew` a known answer is no good.
    pub fn ask(
        self: &Arc<Store>,
        question: &Question<'_>,
        counters: &WriteCounters,
        freshness: Freshness,
        now: Instant,
        anew: bool,
    ) -> Lookup {
        let hash = question.hash(&self.state);
        let mut shard = self.shard(hash);
        if let Some(answer) = shard.answers.get(&hash).filter(|answer| answer.is_to(question)) {
            let age = answer.summary().age(now);
            let is_good = !anew && answer.is_current(counters);
            let ttl = match answer.reply() {
                Ok(_) => freshness.ttl,
                Err(_) => freshness.ttl.min(REFUSED_MAX),
            };
            if is_good && age <= ttl {
                answer.use_it();
                return match answer.reply() {
                    Ok(_) => Lookup::Hit(answer.clone()),
                    Err(refusal) => Lookup::Pass(refusal),
                };
            }
            if is_good && age <= freshness.ttl.saturating_add(freshness.stale) && answer.reply().is_ok() {
                if shard.fills.contains_key(&hash) {
                    answer.use_it();
                    return Lookup::Stale(answer.clone());
                }
            } else {
                shard.remove(hash);
            }
        }
        if let Some(filling) = shard.fills.get(&hash).filter(|_| !anew) {
            return Lookup::Wait(filling.clone());
        }
        let filling = Arc::new(Filling::default());
        shard.fills.insert(hash, filling.clone());
        drop(shard);
        Lookup::Fill(Ticket { hash, filling, store: self.clone(), wipes: self.wipes.load(Ordering::SeqCst) })
    }

    /// Removes this answer to the question: it is known elsewhere that it is stale.
    pub fn forget(&self, question: &Question<'_>, answer: &Answer) {
        let hash = question.hash(&self.state);
        let mut shard = self.shard(hash);
        if shard.answers.get(&hash).is_some_and(|known| known.is(answer)) {
            shard.remove(hash);
        }
    }

    /// Removes the answers for which this holds.
    pub fn wipe(&self, which: impl Fn(&Answer) -> bool) -> Removed {
        self.wipes.fetch_add(1, Ordering::SeqCst);
        let mut removed = Removed::default();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let hashes: Vec<u64> =
                shard.answers.iter().filter(|(_, answer)| which(answer)).map(|(hash, _)| *hash).collect();
            let before = shard.bytes;
            removed.entries += hashes.len() as u64;
            hashes.into_iter().for_each(|hash| shard.remove(hash));
            removed.bytes += (before - shard.bytes) as u64;
        }
        removed
    }

    /// How many answers there are, and their bytes with all that keeping them takes.
    pub fn size(&self) -> Removed {
        self.shards.iter().map(lock).fold(Removed::default(), |sum, shard| Removed {
            entries: sum.entries + shard.answers.len() as u64,
            bytes: sum.bytes + shard.bytes as u64,
        })
    }

    /// How many answers were given up for want of room.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(crate) fn end_fill(&self, hash: u64, filling: &Arc<Filling>) {
        let mut shard = self.shard(hash);
        if shard.fills.get(&hash).is_some_and(|known| Arc::ptr_eq(known, filling)) {
            shard.fills.remove(&hash);
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The map uses the bits at both ends.
        lock(&self.shards[(hash >> 32) as usize % self.shards.len()])
    }

    fn insert(&self, ticket: &Ticket, answer: Answer) -> Result<(), Refusal> {
        let (hash, bytes) = (ticket.hash, bytes_of(&answer));
        if bytes > self.shard_max {
            return Err(Refusal::TooLarge);
        }
        let mut shard = self.shard(hash);
        // A wipe counts first and looks at the parts then: either this fill sees the wipe, or the wipe sees this
        // result.
        let is_mine = shard.fills.get(&hash).is_some_and(|known| Arc::ptr_eq(known, &ticket.filling));
        if !is_mine || self.wipes.load(Ordering::SeqCst) != ticket.wipes {
            return Err(Refusal::Raced);
        }
        shard.remove(hash);
        let evicted = shard.make_room(self.shard_max - bytes);
        shard.bytes += bytes;
        shard.answers.insert(hash, answer);
        shard.enqueue(hash);
        drop(shard);
        self.evicted.fetch_add(evicted, Ordering::Relaxed);
        Ok(())
    }
}

impl Ticket {
    /// Keeps what the database answered; the stamp was taken before it was asked. Others may ask for it at once, and the fill is over.
    ///
    /// # Errors
    /// It is stale already, or was wiped meanwhile, or does not fit.
    pub fn keep(
        self,
        question: &Question<'_>,
        stamp: Stamp,
        parts: AnswerParts,
        counters: &WriteCounters,
    ) -> Result<(), Refusal> {
        if !counters.is_current(&stamp) {
            return Err(Refusal::Raced);
        }
        if parts.reply.as_ref().is_ok_and(|reply| reply.len() > self.store.bounds.entry_max) {
            return Err(Refusal::TooLarge);
        }
        self.store.insert(&self, Answer::new(question, stamp, parts))
    }
}

impl Shard {
    fn remove(&mut self, hash: u64) {
        if let Some(answer) = self.answers.remove(&hash) {
            self.bytes -= bytes_of(&answer);
        }
    }

    /// Gives up answers until they take no more than this; gives how many.
    fn make_room(&mut self, bytes_max: usize) -> u64 {
        let mut evicted = 0;
        while self.bytes > bytes_max
            && let Some(hash) = self.queue.pop_front()
        {
            match self.answers.get(&hash) {
                Some(answer) if answer.take_use() => self.queue.push_back(hash),
                Some(_) => {
                    self.remove(hash);
                    evicted += 1;
                }
                None => {}
            }
        }
        evicted
    }

    fn enqueue(&mut self, hash: u64) {
        self.queue.push_back(hash);
        // A removed result stays in the queue until its turn comes. Without pressure its turn never comes.
        if self.queue.len() > 2 * self.answers.len() + 16 {
            let mut seen = std::collections::HashSet::new();
            let answers = &self.answers;
            self.queue.retain(|hash| answers.contains_key(hash) && seen.insert(*hash));
        }
    }
}

fn bytes_of(answer: &Answer) -> usize {
    PLACES_BYTES + answer.bytes()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
