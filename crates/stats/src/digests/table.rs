//! One worker's table.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::{
    CacheSaid, CachedFigures, Counted, DigestFigures, DigestName, DigestReport, DigestRow, Questions, Ran, RanBy,
    SAMPLE_BYTES_MAX, Sample, Spread,
};

/// Of this many entries, the lightest is looked for as one of many: finding them takes a walk through the whole table.
const VICTIMS_SHARE: usize = 16;
/// Forms that had one statement are remembered for each entry.
const SEEN_SHARE: usize = 4;

/// A bounded table of digests, by a key that stands for digest, user and schema.
#[derive(Debug)]
pub struct DigestTable {
    index: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    entries: Vec<DigestEntry>,
    entries_max: usize,
    others: DigestFigures,
    others_cached: CachedFigures,
    /// Keys that had a statement while there was no room, each at its place; 0 is none.
    seen: Box<[u64]>,
    /// Entries that may make room, the lightest last, and what the heaviest of them weighed.
    victims: Vec<u32>,
    victim_weight_max: u64,
    /// An instant and what the calendar said then.
    began: (Instant, SystemTime),
    /// Seconds since a moment that all workers have in common.
    second: u64,
    /// A text of each entry is kept.
    keeps_samples: bool,
}

#[derive(Debug)]
struct DigestEntry {
    key: u64,
    /// Microseconds, and the weight of what it replaced.
    weight: u64,
    figures: DigestFigures,
    first: Instant,
    last: Instant,
    name: Arc<DigestName>,
    /// Most forms have neither.
    cached: Option<Box<CachedFigures>>,
    questions: Option<Box<Questions>>,
    spread: Box<Spread>,
    sample: Option<Sample>,
    /// A statement that takes longer than this becomes the sample.
    sample_above_us: u64,
}

impl DigestEntry {
    #[inline]
    fn count(&mut self, ran: &Ran, second: u64) {
        if self.figures.count(ran) {
            self.spread.time(ran.time_us);
        }
        self.last = ran.at;
        if let Some(code) = ran.error {
            self.spread.error(code);
        }
        match ran.by {
            RanBy::Cache { saved_us, bytes } => self.say(CacheSaid::Hit { saved_us, bytes }),
            _ if ran.question != 0 => {
                self.questions.get_or_insert_default().ask(ran.question, second);
            }
            _ => {}
        }
    }

    fn say(&mut self, said: CacheSaid) {
        self.cached.get_or_insert_default().count(said);
    }
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The weight of a statement. One that takes no time has a weight, too.
fn weight(ran: &Ran) -> u64 {
    match ran.by {
        // The time that a server would have taken.
        RanBy::Cache { saved_us, .. } => saved_us.saturating_add(1),
        _ => ran.time_us + 1,
    }
}

impl DigestFigures {
    /// Gives whether a server ran it, which took time.
    #[inline]
    fn count(&mut self, ran: &Ran) -> bool {
        self.statements += 1;
        self.errors += u64::from(ran.error.is_some());
        self.rows_sent = self.rows_sent.saturating_add(ran.rows_sent);
        self.rows_affected = self.rows_affected.saturating_add(ran.rows_affected);
        self.reply_bytes = self.reply_bytes.saturating_add(ran.reply_bytes);
        self.wait_us += ran.wait_us;
        match ran.by {
            RanBy::Primary => self.on_primary += 1,
            RanBy::Replica => self.on_replicas += 1,
            RanBy::Nobody | RanBy::Cache { .. } => return false,
        }
        self.pipelined += u64::from(ran.pipelined);
        self.time_us += ran.time_us;
        self.server_us += ran.server_us;
        self.time_us_min = Some(self.time_us_min.map_or(ran.time_us, |least| least.min(ran.time_us)));
        self.time_us_max = self.time_us_max.max(ran.time_us);
        true
    }
}

impl DigestTable {
    /// An empty table that holds at most so many entries; none at all switches it off. `now` is one moment, told by both
    /// clocks.
    pub fn new(entries_max: usize, now: (Instant, SystemTime)) -> DigestTable {
        let mut table = DigestTable {
            index: HashMap::default(),
            entries: Vec::new(),
            entries_max: 0,
            others: DigestFigures::default(),
            others_cached: CachedFigures::default(),
            seen: Box::default(),
            victims: Vec::new(),
            victim_weight_max: 0,
            began: now,
            second: 0,
            keeps_samples: true,
        };
        table.set_max(entries_max);
        table
    }

    /// Changes the bound. Entries beyond it, the lightest ones, join the others; a table that is off forgets all.
    pub fn set_max(&mut self, entries_max: usize) {
        if entries_max == self.entries_max {
            return;
        }
        self.entries_max = entries_max;
        if entries_max == 0 {
            self.reset();
            (self.index, self.entries, self.seen, self.victims) = Default::default();
            return;
        }
        self.seen = vec![0; (entries_max * SEEN_SHARE).next_power_of_two()].into();
        self.victims = Vec::new();
        if self.entries.len() > entries_max {
            self.entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.weight));
            for entry in self.entries.drain(entries_max..) {
                self.others.add(&entry.figures);
                self.others_cached.add(&entry.cached.unwrap_or_default());
            }
            self.index = self.entries.iter().zip(0..).map(|(entry, slot)| (entry.key, slot)).collect();
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Statements without an entry.
    pub fn lost(&self) -> u64 {
        self.others.statements
    }

    /// It is so many seconds since a moment that all workers have in common; to be told once a second.
    pub fn set_second(&mut self, second: u64) {
        self.second = second;
    }

    /// Whether it is of use to tell what is asked ([`Ran::question`]).
    #[inline]
    pub fn looks_at_questions(&self) -> bool {
        self.entries_max > 0 && Questions::are_looked_at(self.second)
    }

    /// Keeps a text of each entry, or none.
    pub fn set_samples(&mut self, keeps_samples: bool) {
        if !keeps_samples && self.keeps_samples {
            self.entries.iter_mut().for_each(|entry| (entry.sample, entry.sample_above_us) = (None, 0));
        }
        self.keeps_samples = keeps_samples;
    }

    /// Counts a statement, if it has an entry.
    #[inline]
    pub fn count(&mut self, key: u64, ran: &Ran) -> Counted {
        if self.entries_max == 0 {
            return Counted::Done;
        }
        let Some(entry) = self.index.get(&key).and_then(|slot| self.entries.get_mut(*slot as usize)) else {
            return Counted::Missing;
        };
        entry.weight = entry.weight.saturating_add(weight(ran));
        entry.count(ran, self.second);
        if ran.time_us > entry.sample_above_us && self.keeps_samples { Counted::Slower } else { Counted::Done }
    }

    /// Takes a statement as the sample of its entry, if it has one. A statement without a text leaves the sample as it is, and so
    /// does one that failed: it may have no plan.
    #[cold]
    pub fn sample(&mut self, key: u64, ran: &Ran, text: Option<&[u8]>) {
        if !self.keeps_samples || ran.error.is_some() {
            return;
        }
        let Some(entry) = self.index.get(&key).and_then(|slot| self.entries.get_mut(*slot as usize)) else { return };
        // A fourth more: copies become rare soon.
        entry.sample_above_us = ran.time_us.saturating_add(ran.time_us / 4);
        if let Some(text) = text.filter(|text| text.len() <= SAMPLE_BYTES_MAX) {
            entry.sample = Some(Sample(text.into()));
        }
    }

    /// Whether this key has an entry, or needs none: the table is switched off.
    pub fn has(&self, key: u64) -> bool {
        self.entries_max == 0 || self.index.contains_key(&key)
    }

    /// The name of the entry with this key, if there is one.
    pub fn name(&self, key: u64) -> Option<Arc<DigestName>> {
        let slot = self.index.get(&key)?;
        self.entries.get(*slot as usize).map(|entry| entry.name.clone())
    }

    /// Counts what the result cache said to a statement that a server ran; what it answered itself [`DigestTable::count`] counts.
    pub fn cache_said(&mut self, key: u64, said: CacheSaid) {
        if self.entries_max == 0 {
            return;
        }
        match self.index.get(&key).and_then(|slot| self.entries.get_mut(*slot as usize)) {
            Some(entry) => entry.say(said),
            None => self.others_cached.count(said),
        }
    }

    /// Counts a statement that has no entry: as the first one of a new entry, if there is room or somebody makes some, or
    /// among the others. Only then `name` is asked.
    #[cold]
    pub fn admit(&mut self, key: u64, ran: &Ran, name: impl FnOnce() -> DigestName) {
        if self.entries_max == 0 {
            return;
        }
        let second = self.second;
        let entry = |weight: u64| {
            let figures = DigestFigures::default();
            let (first, last) = (ran.at, ran.at);
            let mut entry = DigestEntry {
                key,
                weight,
                figures,
                first,
                last,
                name: Arc::new(name()),
                cached: None,
                questions: None,
                spread: Box::default(),
                sample: None,
                sample_above_us: 0,
            };
            entry.count(ran, second);
            entry
        };
        if self.entries.len() < self.entries_max {
            let slot = self.entries.len() as u32;
            self.entries.push(entry(weight(ran)));
            self.index.insert(key, slot);
            return;
        }
        let slot = self.victim();
        let victim = &mut self.entries[slot];
        let place = key as usize & (self.seen.len() - 1);
        let was_seen = std::mem::replace(&mut self.seen[place], key) == key;
        if !was_seen && weight(ran) <= victim.weight {
            self.others.count(ran);
            if let RanBy::Cache { saved_us, bytes } = ran.by {
                self.others_cached.count(CacheSaid::Hit { saved_us, bytes });
            }
            return;
        }
        let weight = weight(ran).saturating_add(victim.weight);
        let gone = std::mem::replace(victim, entry(weight));
        self.victims.pop();
        self.others.add(&gone.figures);
        self.others_cached.add(&gone.cached.unwrap_or_default());
        self.index.remove(&gone.key);
        self.index.insert(key, slot as u32);
    }

    /// One of the lightest entries. Of those found on the last walk, some may have become heavy.
    fn victim(&mut self) -> usize {
        loop {
            while let Some(slot) = self.victims.last() {
                let slot = *slot as usize;
                if self.entries[slot].weight <= self.victim_weight_max {
                    return slot;
                }
                self.victims.pop();
            }
            let share = self.entries.len().div_ceil(VICTIMS_SHARE);
            let mut slots: Vec<u32> = (0..self.entries.len() as u32).collect();
            let heavy = |slot: &u32| self.entries[*slot as usize].weight;
            slots.select_nth_unstable_by_key(share - 1, heavy);
            slots.truncate(share);
            slots.sort_unstable_by_key(|slot| std::cmp::Reverse(heavy(slot)));
            self.victim_weight_max = slots.first().map_or(0, heavy);
            self.victims = slots;
        }
    }

    /// All entries as they are now.
    pub fn report(&self) -> DigestReport {
        let (began, calendar) = self.began;
        let time = |at: Instant| calendar + at.saturating_duration_since(began);
        let row = |entry: &DigestEntry| DigestRow {
            name: entry.name.clone(),
            other_clusters: Vec::new(),
            figures: entry.figures,
            cached: entry.cached.as_deref().cloned().unwrap_or_default(),
            questions: entry.questions.clone(),
            spread: entry.spread.clone(),
            sample: entry.sample.clone(),
            first_seen: time(entry.first),
            last_seen: time(entry.last),
        };
        DigestReport {
            rows: self.entries.iter().map(row).collect(),
            others: self.others,
            others_cached: self.others_cached.clone(),
        }
    }

    /// Forgets all entries, and what was counted beside them.
    pub fn reset(&mut self) {
        self.index.clear();
        self.entries.clear();
        self.victims.clear();
        self.seen.fill(0);
        self.others = DigestFigures::default();
        self.others_cached = CachedFigures::default();
    }
}

#[cfg(test)]
mod tests;
