//! The result cache's shared tier: where answers that other processes have read are found, and where they hear of what was written here.
//!
//! The promise of [`tier`] requires three things of a session. It reports its writes to the tier before its client hears of
//! them, and only then ends answers here for the last time ([`Session::report_to_tier`]). It reads the results that it puts there
//! on the primary, which alone has the writes through other processes. And it looks up tables in a catalogue that was read
//! behind all definitions that were reported to the tier.

use crate::session::cluster_session::ClusterSession;
use crate::session::environment::Environment;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{Answer, AnswerParts, InTier, Packed, Question, Refusal, Stamp, Summary, table_writes};
use config::CacheMode;
use facts::tables::{TableScope, WrittenRows};
use facts::view::ServerId;
use tier::{ResultKey, Tier, TierReply};

use super::super::Session;
use super::super::consistency::may_write;
use super::super::query::Query;
use policy::CacheRule;

/// The tier's result for a question.
pub(super) enum Looked {
    /// Answers are not shared.
    Nowhere,
    /// The answer.
    Answer(Box<AnswerParts>),
    /// None; what is read from now on may be put there.
    Fill(Box<Marked>),
}

/// A question whose answer is to be put into the tier.
#[derive(Debug)]
pub(super) struct Marked {
    in_tier: InTier,
    question: Vec<u8>,
    place: ResultKey,
    /// The tier's time when it was asked, in milliseconds.
    read_ms: u64,
}

/// An answer on its way to the tier.
pub(super) struct ForTier {
    place: ResultKey,
    marks: Box<[u8]>,
    packed: Vec<u8>,
}

/// Where an answer is to be looked for, and how old it may be.
pub(super) struct TierLookup<'a> {
    pub(super) question: &'a Question<'a>,
    pub(super) ttl: Duration,
    /// A known answer is no good.
    pub(super) anew: bool,
    pub(super) rule: &'a Arc<str>,
}

impl Session {
    /// Whether an answer in this process's memory is good for a question that came at this moment: no other process has written since.
    pub(super) async fn is_good_in_tier(&self, tier: &Tier, answer: &Answer, came: Instant) -> Result<bool, Refusal> {
        let Some(in_tier) = answer.tier() else { return Ok(false) };
        if self.env.is_trusted(answer, came) {
            return Ok(true);
        }
        if self.here.shared_primary().ok_or(Refusal::NoTier)? != in_tier.primary {
            return Ok(false);
        }
        let asked = Instant::now();
        let cluster = &*self.here.cluster.shared.name;
        let question = tier::Question { cluster, tables: &in_tier.tables, have: &in_tier.tags, key: None };
        match tier.ask(question).await {
            TierReply::Good => {
                in_tier.is_good(asked);
                Ok(true)
            }
            TierReply::Tags { .. } => Ok(false),
            TierReply::Nothing => Err(Refusal::NoTier),
        }
    }

    /// Tells the tier what was written, before the client hears of it.
    pub(in crate::session) async fn report_to_tier(&self, written: WrittenRows, defines: bool) {
        let Some(tier) = self.env.worker.shared.tier.clone() else { return };
        let cluster = &self.here.cluster.shared;
        match &written.tables {
            _ if defines => tier.report(&cluster.name, tier::TierWrite::Definition).await,
            TableScope::Any => tier.report(&cluster.name, tier::TierWrite::Anything).await,
            TableScope::Tables(keys) => {
                let tables: Vec<u64> = keys.iter().map(|key| key.0).collect();
                tier.report(&cluster.name, tier::TierWrite::Tables(&tables)).await;
            }
        }
        // Results that others have taken from the tier meanwhile may be older.
        if let Some(epochs) = cluster.epochs.get() {
            epochs.written(table_writes(&written).as_deref());
        }
    }

    /// A statement failed with an unknown effect: the tier gets a report of that.
    pub(in crate::session) async fn report_all_to_tier(&self, query: &Query<'_>) {
        if self.env.worker.shared.tier.is_some() && may_write(query) {
            Box::pin(self.report_to_tier(WrittenRows::all(TableScope::Any), false)).await;
        }
    }
}

impl Environment {
    /// The tier, if answers for this rule are shared through it.
    pub(super) fn tier_for(&self, cache: &CacheRule) -> Option<Arc<Tier>> {
        let is_shared = cache.wanted.tier && cache.wanted.mode == CacheMode::On;
        self.worker.shared.tier.clone().filter(|_| is_shared)
    }

    /// Whether an answer in this process's memory may be given without asking the tier again.
    pub(super) fn is_trusted(&self, answer: &Answer, came: Instant) -> bool {
        let tier = self.worker.shared.tier.as_ref().zip(answer.tier());
        tier.is_some_and(|(tier, in_tier)| in_tier.was_good() + tier.trust() >= came)
    }

    /// Puts an answer into the tier that was asked for at this moment.
    pub(super) fn put_into_tier(&self, answer: &ForTier, cache: &CacheRule, at: Instant) {
        if let Some(tier) = self.tier_for(cache) {
            let keep = cache.wanted.ttl.saturating_add(cache.wanted.stale);
            tier.put(answer.place, &answer.marks, &answer.packed, keep.saturating_sub(at.elapsed()));
        }
    }
}

impl ClusterSession {
    /// Where all processes write to: what is read there has what any of them has written. There is no such place in groups, whose members
    /// may each lack something.
    fn shared_primary(&self) -> Option<Box<str>> {
        let view = self.cluster.view();
        match view.primary.and_then(|id| view.server(id)) {
            _ if view.same_data => Some("".into()),
            Some(primary) if view.group.is_none() => Some((&*primary.address).into()),
            _ => None,
        }
    }

    /// Whether what this server answers may be put into the tier.
    pub(super) fn is_shared_primary(&self, marked: &Marked, server: ServerId) -> bool {
        let view = self.cluster.view();
        (view.same_data || view.primary == Some(server))
            && self.shared_primary().is_some_and(|shared_primary| shared_primary == marked.in_tier.primary)
    }

    /// Looks for an answer in the tier. The stamp, and what is read, is from before.
    pub(super) async fn look_in_tier(
        &self,
        tier: &Tier,
        query: &Query<'_>,
        stamp: impl FnOnce() -> Result<(Stamp, TableScope), Refusal>,
        wanted: TierLookup<'_>,
    ) -> Result<(Stamp, TableScope, Looked), Refusal> {
        let cluster = &*self.cluster.shared.name;
        let shared_primary = self.shared_primary().ok_or(Refusal::NoTier)?;
        // Before tables are looked up.
        let definitions = tier.at_primary(cluster, &shared_primary);
        let (stamp, scope) = stamp()?;
        let TableScope::Tables(keys) = &scope else { return Err(Refusal::UnknownTables) };
        let tables: Box<[u64]> = keys.iter().map(|key| key.0).collect();
        let question = wanted.question.to_bytes(shared_primary.as_bytes());
        let place = place_of(&question);
        let asked = Instant::now();
        let ask = tier::Question { cluster, tables: &tables, have: &[], key: (!wanted.anew).then_some(place) };
        let TierReply::Tags { now_ms, tags: marks, answer } = tier.ask(ask).await else { return Err(Refusal::NoTier) };
        let defined = tier::definitions_tag(&marks);
        if defined != definitions {
            // Somebody has defined something since the catalogue was read: it is not believed until it was read again.
            drop(self.cluster.shared.published.defining());
            defined.into_iter().for_each(|mark| tier.definitions_are(cluster, mark));
            return Err(Refusal::UnknownTables);
        }
        let in_tier = InTier::new(shared_primary, tables, marks, asked);
        let packed = answer.as_deref().and_then(|bytes| Packed::parse(bytes, &question));
        let aged = packed.map(|packed| (packed, Duration::from_millis(now_ms.saturating_sub(packed.read_ms))));
        if let Some((packed, age)) = aged.filter(|(_, age)| *age <= wanted.ttl)
            && let Some(read) = asked.checked_sub(age)
        {
            let known = AnswerParts {
                reply: Ok(packed.reply.into()),
                summary: Summary {
                    rows: packed.rows,
                    found_rows: packed.found_rows,
                    status: packed.status,
                    server: self.cluster.view().primary.unwrap_or(ServerId::NONE).0,
                    took: packed.took,
                    asked: read,
                    digest: query.statement.digest,
                },
                rule: wanted.rule.clone(),
                cluster: self.cluster.shared.name.clone(),
                tier: Some(Box::new(in_tier)),
            };
            return Ok((stamp, scope, Looked::Answer(Box::new(known))));
        }
        Ok((stamp, scope, Looked::Fill(Box::new(Marked { in_tier, question, place, read_ms: now_ms }))))
    }
}

impl Marked {
    /// How it is kept here, and in the tier.
    pub(super) fn pack(self, known: &mut AnswerParts) -> Option<ForTier> {
        let Marked { in_tier, question, place, read_ms } = self;
        let packed = known.reply.as_ref().ok().map(|reply| {
            Packed {
                question: &question,
                reply,
                read_ms,
                took: known.summary.took,
                rows: known.summary.rows,
                found_rows: known.summary.found_rows,
                status: known.summary.status,
            }
            .to_bytes()
        });
        let marks = in_tier.tags.clone();
        known.tier = Some(Box::new(in_tier));
        Some(ForTier { place, marks, packed: packed? })
    }
}

/// Where the answer to a question is, for every process of every version. Two questions with one place displace each other's answers, no more.
fn place_of(question: &[u8]) -> ResultKey {
    let mut place = ResultKey::default();
    place.iter_mut().zip(&wire::auth::fingerprint(question)).for_each(|(byte, digit)| *byte = *digit);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_its_place_in_every_process() {
        // The first bytes of the output of `printf question | sha256sum`.
        let expected = 0x1f50_87db_919c_ed5c_123c_7f50_7d3f_cce8_u128;
        assert_eq!(place_of(b"question"), expected.to_be_bytes());
    }
}
