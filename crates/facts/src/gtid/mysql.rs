//! MySQL's sets of GTIDs: `uuid:1-5:7,uuid:tag:1-3`.
//!
//! Source: MySQL's reference manual, "GTID Format and Storage"; tags are of 8.3 and later.

mod text;

use text::parse_uuid;

/// Intervals of one server that a session keeps of its own writes. The last one alone would do with replicas that commit in
/// order, the default; without that a few transactions of a session may overtake one another.
pub const WRITTEN_MAX: usize = 8;

/// The server, and the tag, that numbered a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    uuid: u128,
    /// Lower case, empty when none.
    tag: Box<str>,
}

/// First and last number, both included.
type Interval = (u64, u64);

/// A set of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSet {
    /// By source, each with intervals in ascending order that neither touch nor overlap; none is empty.
    sources: Vec<(Source, Vec<Interval>)>,
}

impl GtidSet {
    /// Whether all of another set is in this one.
    pub fn contains(&self, other: &GtidSet) -> bool {
        other.sources.iter().all(|(source, intervals)| match self.of(source) {
            Some(known) => intervals.iter().all(|interval| covers(known, *interval)),
            None => false,
        })
    }

    /// The same, for those sources alone that this set has something of.
    pub(super) fn contains_of_shared_sources(&self, other: &GtidSet) -> bool {
        other.sources.iter().all(|(source, intervals)| match self.of(source) {
            Some(known) => intervals.iter().all(|interval| covers(known, *interval)),
            None => true,
        })
    }

    /// Takes all of another set in.
    pub fn add(&mut self, other: &GtidSet) {
        other.sources.iter().for_each(|(source, intervals)| self.put(source.clone(), intervals.clone()));
    }

    /// Forgets all but `max` intervals of each source: those with the greatest numbers, and what has just come. In a replication
    /// group another member may go on with smaller numbers than the one before it.
    pub(super) fn keep_newest(&mut self, max: usize, latest: &GtidSet) {
        for (source, intervals) in &mut self.sources {
            let mut too_many = intervals.len().saturating_sub(max);
            if too_many == 0 {
                continue;
            }
            let latest = latest.of(source).unwrap_or_default();
            intervals.retain(|interval| {
                let is_old = too_many > 0 && !latest.iter().any(|last| covers(&[*interval], *last));
                too_many -= usize::from(is_old);
                !is_old
            });
        }
    }

    /// The transactions that this set has and the other lacks.
    pub fn without(&self, other: &GtidSet) -> GtidSet {
        let mut rest = GtidSet::default();
        for (source, intervals) in &self.sources {
            let gone = other.of(source).unwrap_or_default();
            let left: Vec<Interval> = intervals.iter().flat_map(|interval| cut(*interval, gone)).collect();
            if !left.is_empty() {
                rest.sources.push((source.clone(), left));
            }
        }
        rest
    }

    /// The part that began on the server with this `server_uuid`, and the rest.
    pub fn split_by_origin(&self, uuid: &str) -> (GtidSet, GtidSet) {
        let uuid = parse_uuid(uuid);
        let (own, others) = self.sources.iter().cloned().partition(|(source, _)| Some(source.uuid) == uuid);
        (GtidSet { sources: own }, GtidSet { sources: others })
    }

    /// How many transactions are in it.
    pub fn count(&self) -> u64 {
        let each = self.sources.iter().flat_map(|(_, intervals)| intervals);
        each.fold(0, |sum: u64, (first, last)| sum.saturating_add((last - first).saturating_add(1)))
    }

    /// The last transaction of the last server: the only one, of a set that holds one. `None` if that has a tag.
    pub fn last(&self) -> Option<(u128, u64)> {
        let (source, intervals) = self.sources.last()?;
        let (_, last) = intervals.last()?;
        source.tag.is_empty().then_some((source.uuid, *last))
    }

    /// The set as COM_BINLOG_DUMP_GTID takes it; `None` if something in it has a tag.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = (self.sources.len() as u64).to_le_bytes().to_vec();
        for (source, intervals) in &self.sources {
            if !source.tag.is_empty() {
                return None;
            }
            bytes.extend_from_slice(&source.uuid.to_be_bytes());
            bytes.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
            for (first, last) in intervals {
                bytes.extend_from_slice(&first.to_le_bytes());
                // The end is the first number behind it.
                bytes.extend_from_slice(&last.saturating_add(1).to_le_bytes());
            }
        }
        Some(bytes)
    }

    /// Takes one transaction in, without a tag.
    pub fn add_one(&mut self, uuid: u128, number: u64) {
        self.put(Source { uuid, tag: "".into() }, vec![(number, number)]);
    }

    /// Whether this transaction, which has no tag, is in it.
    pub fn has(&self, uuid: u128, number: u64) -> bool {
        self.of(&Source { uuid, tag: "".into() }).is_some_and(|known| covers(known, (number, number)))
    }

    /// All that have no tag.
    pub fn untagged(&self) -> GtidSet {
        GtidSet { sources: self.sources.iter().filter(|(source, _)| source.tag.is_empty()).cloned().collect() }
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    fn of(&self, source: &Source) -> Option<&[Interval]> {
        let index = self.sources.binary_search_by(|(known, _)| known.cmp(source)).ok()?;
        Some(&self.sources[index].1)
    }

    fn put(&mut self, source: Source, mut intervals: Vec<Interval>) {
        if intervals.is_empty() {
            return;
        }
        match self.sources.binary_search_by(|(known, _)| known.cmp(&source)) {
            Ok(index) => {
                let known = &mut self.sources[index].1;
                known.append(&mut intervals);
                join(known);
            }
            Err(index) => {
                join(&mut intervals);
                self.sources.insert(index, (source, intervals));
            }
        }
    }
}

/// The rest of an interval without those that are given in ascending order.
fn cut((mut first, last): Interval, gone: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    let from = gone.partition_point(|(_, end)| *end < first);
    for (start, end) in gone[from..].iter().take_while(|(start, _)| *start <= last) {
        if *start > first {
            left.push((first, start - 1));
        }
        if *end >= last {
            return left;
        }
        first = end + 1;
    }
    left.push((first, last));
    left
}

/// Whether one of the intervals has all of this one: they do not touch, so no two of them together could.
fn covers(known: &[Interval], (first, last): Interval) -> bool {
    let after = known.partition_point(|(start, _)| *start <= first);
    after.checked_sub(1).is_some_and(|index| known[index].1 >= last)
}

/// Sorts intervals and makes one of those that touch or overlap.
fn join(intervals: &mut Vec<Interval>) {
    if !intervals.is_sorted() {
        intervals.sort_unstable();
    }
    intervals.dedup_by(|(first, last), (_, before)| {
        let touches = *first <= before.saturating_add(1);
        if touches {
            *before = (*before).max(*last);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const A: &str = "6aa342cb-e4ff-11f1-87a0-02fc00000001";
    const B: &str = "6AA342CBE4FF11F187A002FC00000002";

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(&text.replace("A:", &format!("{A}:")).replace("B:", &format!("{B}:")))
            .unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_set_is_encoded_for_a_dump() {
        let set = GtidSet::parse("00000000-0000-0000-0000-000000000001:1-3:7").unwrap();
        let mut bytes = 1_u64.to_le_bytes().to_vec();
        bytes.extend_from_slice(&1_u128.to_be_bytes());
        [2_u64, 1, 4, 7, 8].iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        assert_eq!((set.encode(), set.last()), (Some(bytes), Some((1, 7))));
        let tagged = GtidSet::parse("00000000-0000-0000-0000-000000000001:tag:1-3").unwrap();
        assert_eq!((tagged.encode(), tagged.last()), (None, None));
    }

    #[test]
    fn sets_are_read_in_any_spelling() {
        assert_eq!(set("A:1-5:6:9"), set("A:9,\nA:1-3, A:3-6"));
        assert_eq!(set("A:1-5:Blue:1-3:7,B:4"), set("B:4,A:blue:7:1-3,A:1-5"));
        assert_ne!(set("A:1-5"), set("A:blue:1-5"));
        assert!(GtidSet::parse(" ").unwrap().is_empty());
        for bad in [
            "0-1-1",
            A,
            &format!("{A}:"),
            &format!("{A}:0"),
            &format!("{A}:5-4"),
            &format!("{A}:blue"),
            &format!("{A}:-1"),
            &format!("{A}:1x"),
            &format!("{A}:1:bl ue:2"),
            &format!("{A}:18446744073709551616"),
        ] {
            assert_eq!(GtidSet::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn one_set_in_another() {
        assert!(set("A:1-10,B:1").contains(&set("A:2-3:10")));
        for missing in ["A:11", "A:10-11", "B:2", "A:blue:1"] {
            assert!(!set("A:1-10,B:1").contains(&set(missing)), "{missing}");
        }
        assert!(!set("A:1-4:6-10").contains(&set("A:4-6")));
        assert!(set("A:1").contains_of_shared_sources(&set("A:1,B:9")));
        assert!(!set("A:1").contains_of_shared_sources(&set("A:2,B:9")));
    }

    #[test]
    fn a_session_keeps_its_newest_writes() {
        let mut written = set("A:1");
        let mut add = |text: &str| {
            written.add(&set(text));
            written.keep_newest(WRITTEN_MAX, &set(text));
            written.clone()
        };
        let last = (1..100).map(|number| add(&format!("A:{}", number * 2 + 1))).last().unwrap();
        assert_eq!(last, set("A:185:187:189:191:193:195:197:199"));
        // Another member of a replication group has other numbers.
        assert_eq!(add("A:50"), set("A:50:187:189:191:193:195:197:199"));
        assert_eq!(add("A:53"), set("A:53:187:189:191:193:195:197:199"));
        assert_eq!(add("A:53-54"), set("A:53-54:187:189:191:193:195:197:199"));
    }

    /// The transactions of a set, one at a time.
    type Model = BTreeSet<(u8, u64)>;

    fn sets() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
        prop::collection::vec((0..3u8, 1..60u64, 0..9u64), 0..12)
    }

    fn both(parts: &[(u8, u64, u64)]) -> (GtidSet, Model) {
        let name = |source: u8| ["A:", "A:tag:", "B:"][usize::from(source)];
        let text: Vec<String> =
            parts.iter().map(|(source, first, more)| format!("{}{first}-{}", name(*source), first + more)).collect();
        let each = |(source, first, more): &(u8, u64, u64)| {
            let source = *source;
            (*first..=first + more).map(move |number| (source, number))
        };
        (set(&text.join(",")), parts.iter().flat_map(each).collect())
    }

    proptest! {
        #[test]
        fn sets_behave_like_sets(left in sets(), right in sets()) {
            let ((mut left, mut left_model), (right, right_model)) = (both(&left), both(&right));
            prop_assert_eq!(left.contains(&right), left_model.is_superset(&right_model));
            prop_assert_eq!(left == right, left_model == right_model);
            left.add(&right);
            left_model.extend(right_model);
            prop_assert!(left.contains(&right));
            for source in 0..3u8 {
                for number in 1..75u64 {
                    let (one, _) = both(&[(source, number, 0)]);
                    prop_assert_eq!(left.contains(&one), left_model.contains(&(source, number)));
                }
            }
        }

        #[test]
        fn differences_behave_like_those_of_sets(left in sets(), right in sets()) {
            let ((left, left_model), (right, right_model)) = (both(&left), both(&right));
            let rest = left.without(&right);
            let rest_model: Model = left_model.difference(&right_model).copied().collect();
            prop_assert_eq!(rest.count(), rest_model.len() as u64);
            for (source, number) in &rest_model {
                prop_assert!(rest.contains(&both(&[(*source, *number, 0)]).0));
            }
            prop_assert_eq!(rest.is_empty(), right.contains(&left));
            prop_assert_eq!(GtidSet::parse(&left.to_string()), Some(left.clone()), "what is written is read again");
            let (of_a, others) = left.split_by_origin(A);
            prop_assert_eq!(of_a.count() + others.count(), left.count());
            let tagged = Source { uuid: parse_uuid(A).unwrap(), tag: "tag".into() };
            prop_assert!(others.of(&tagged).is_none());
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f:,\\- tag_]{0,80}") {
            let _ = GtidSet::parse(&text);
            let _ = super::super::mariadb::Gtids::parse(&text);
        }
    }
}
