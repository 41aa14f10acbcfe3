//! Asking the cache for a statement. The cache answers it, has it wait for the session that asks a server the same, or has a server
//! answer and keeps that.

use crate::session::cluster_session::ClusterSession;
use crate::session::environment::Environment;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{Answer, AnswerParts, Filling, Follow, Freshness, Lookup, Refusal, Stamp, Summary, Ticket, WriteCounters};
use config::{CacheFreshness, CacheMode};
use facts::tables::TableScope;
use stats::digests::CacheSaid;
use tier::Tier;

use super::super::Session;
use super::super::cached::refused;
use super::super::query::Query;
use super::hit::count_hit;
use super::in_tier::{Looked, Marked, TierLookup};
use super::keep::Fill;
use super::question::AskedFor;
use crate::error::SessionEnd;
use crate::shared::ClusterShared;
use policy::CacheRule;

/// So often the tier is looked into for a statement, while others write what it asks for.
const TRIES_MAX: u32 = 2;

/// The cache's decision on a statement.
#[derive(Debug)]
pub(in crate::session) enum CacheDecision {
    /// The client has its answer.
    Answered,
    /// A server answers, and that is kept.
    Fill(Box<Fill>),
    /// A server answers; what the digest's counts hear of that.
    No(Option<CacheSaid>),
}

/// One look of a query into the cache.
struct Look<'a> {
    query: &'a Query<'a>,
    rule: &'a Arc<str>,
    cache: &'a CacheRule,
    /// The question.
    asked: AskedFor,
    /// It is asked for this user alone: its rights do not do.
    is_own: bool,
    /// Nothing is answered: the rule only wants to know what the cache would be worth.
    advises: bool,
    /// The result's life, as the rule and the comment have it.
    freshness: Freshness,
    /// A comment wants the answer of a server.
    anew: bool,
    shared: Arc<ClusterShared>,
    follow: Option<Arc<Follow>>,
    tier: Option<Arc<Tier>>,
    /// When it began.
    came: Instant,
    /// When the cache is asked.
    at: Instant,
    /// It has waited for another session's fill.
    has_waited: bool,
    /// How often the tier's answer was of no use.
    tries: u32,
}

impl Look<'_> {
    fn epochs(&self) -> &WriteCounters {
        self.shared.epochs.get_or_init(WriteCounters::default)
    }

    /// The log that ends results, if the rule goes by it.
    fn followed(&self) -> Option<&Follow> {
        self.follow.as_deref()
    }

    /// The fill that its look has found.
    fn fill(self, to_keep: ToKeep) -> Fill {
        let Look { asked, at, rule, cache, .. } = self;
        let ToKeep { ticket, stamp, reads, tier } = to_keep;
        Fill { ticket, stamp, reads, asked, at, rule: rule.clone(), cache: cache.clone(), tier }
    }
}

/// The cache has no part in a statement: counts why.
fn refuse(cache: &CacheRule, refusal: Refusal) -> CacheDecision {
    if let Some(count) = cache.counts.refused.get(refusal as usize) {
        count.add_one();
    }
    CacheDecision::No(Some(refused(refusal)))
}

/// The consequence of one answer of the store.
enum Next {
    /// The store is asked again.
    Again,
    /// The look is over.
    Over(CacheDecision),
    /// A server answers, and that is kept.
    Fill(ToKeep),
    /// The cache has no part in it.
    Refused(Refusal),
}

/// The parts of a [`Fill`] that the look for it has found.
struct ToKeep {
    ticket: Ticket,
    stamp: Stamp,
    reads: TableScope,
    tier: Option<Box<Marked>>,
}

impl Session {
    /// Asks the cache for a statement of which a rule says so: asks the store until it is clear who answers.
    pub(in crate::session) async fn ask_cache(
        &mut self,
        query: &Query<'_>,
        rule: &Arc<str>,
        cache: &CacheRule,
    ) -> Result<CacheDecision, SessionEnd> {
        let mut look = match self.begin_look(query, rule, cache) {
            Ok(look) => look,
            Err(refusal) => return Ok(refuse(cache, refusal)),
        };
        loop {
            let next = match self.env.ask_store(&mut look) {
                Lookup::Hit(answer) => self.give(&mut look, answer, false).await?,
                Lookup::Stale(answer) => self.give(&mut look, answer, true).await?,
                Lookup::Fill(ticket) => self.fill(&mut look, ticket).await.unwrap_or_else(Next::Refused),
                Lookup::Wait(filling) => self.env.wait_for_fill(&mut look, &filling).await,
                Lookup::Pass(Refusal::Rights) if !look.is_own => self.ask_for_itself(&mut look),
                Lookup::Pass(refusal) => Next::Refused(refusal),
            };
            match next {
                Next::Again => {}
                Next::Over(asked) => return Ok(asked),
                Next::Fill(to_keep) => return Ok(CacheDecision::Fill(Box::new(look.fill(to_keep)))),
                Next::Refused(refusal) => return Ok(refuse(cache, refusal)),
            }
        }
    }

    /// Makes the question, unless the session or the statement is none for the cache.
    fn begin_look<'a>(
        &mut self,
        query: &'a Query<'_>,
        rule: &'a Arc<str>,
        cache: &'a CacheRule,
    ) -> Result<Look<'a>, Refusal> {
        self.may_ask_here()?;
        self.belief.may_ask(query)?;
        if let Some(refusal) = self.here.cluster.refused.get(query.statement.digest) {
            return Err(refusal);
        }
        let asked = self.asked(query, cache)?;
        let (_, comment) = asked.question(query);
        if comment.off {
            return Err(Refusal::Asked);
        }
        let ttl = comment.ttl.map_or(cache.wanted.ttl, |asked| asked.min(cache.wanted.ttl));
        // A comment that limits the age of a result means it.
        let stale = if comment.ttl.is_some() { Duration::ZERO } else { cache.wanted.stale };
        let (anew, advises, at) = (comment.anew, cache.wanted.mode == CacheMode::Advise, Instant::now());
        let tier = self.env.tier_for(cache);
        if tier.is_none() && cache.wanted.tier && !advises {
            // It is configured from the next start on.
            return Err(Refusal::NoTier);
        }
        let shared = self.here.cluster.shared.clone();
        let follow = match cache.wanted.freshness {
            CacheFreshness::Ttl => None,
            CacheFreshness::Follow => Some(shared.follow.load_full().ok_or(Refusal::NotFollowing)?),
        };
        let freshness = Freshness { ttl, stale };
        let (came, is_own, has_waited, tries) = (at, false, false, 0);
        let mut look = Look {
            query,
            rule,
            cache,
            asked,
            is_own,
            advises,
            freshness,
            anew,
            shared,
            follow,
            tier,
            came,
            at,
            has_waited,
            tries,
        };
        if look.tier.is_some() && look.asked.rights.is_some() {
            // Of rights that were changed through another process nothing may be known here.
            self.ask_for_itself(&mut look);
        }
        Ok(look)
    }

    /// From now on the question is this user's alone.
    fn ask_for_itself(&mut self, look: &mut Look<'_>) -> Next {
        (look.asked.context, look.is_own) = (self.own_context(), true);
        Next::Again
    }

    /// This process has no result: the tier has one, or a server is asked and its reply is kept.
    async fn fill(&mut self, look: &mut Look<'_>, ticket: Ticket) -> Result<Next, Refusal> {
        let (question, _) = look.asked.question(look.query);
        let Some(sent) = look.query.text() else { return Err(Refusal::Command) };
        if let Err(refusal) = cache::judge(&look.query.statement, question.text, &sent.dialect) {
            self.here.cluster.refused.note(look.query.statement.digest, refusal);
            return Err(refusal);
        }
        self.watch_writes();
        let stamp = || self.stamp(look.query, look.epochs(), look.followed(), look.at);
        let (stamp, reads, looked) = match &look.tier {
            None => stamp().map(|(stamp, reads)| (stamp, reads, Looked::Nowhere))?,
            Some(tier) => {
                let (ttl, anew, rule) = (look.freshness.ttl, look.anew, look.rule);
                let wanted = TierLookup { question: &question, ttl, anew, rule };
                Box::pin(self.here.look_in_tier(tier, look.query, stamp, wanted)).await?
            }
        };
        let tier = match looked {
            Looked::Nowhere => None,
            Looked::Fill(marked) => Some(marked),
            Looked::Answer(known) => {
                let is_kept = ticket.keep(&question, stamp, *known, look.epochs()).is_ok();
                look.tries += 1;
                // Others take it from here; so does this session, unless something was written.
                let again = is_kept && look.tries <= TRIES_MAX;
                return Ok(if again { Next::Again } else { Next::Over(CacheDecision::No(None)) });
            }
        };
        if !self.transaction_has_writes_to(&reads) {
            return Err(Refusal::Behind);
        }
        if let Some(rights) = look.asked.rights.filter(|_| !look.is_own)
            && !self.rights_cover(&rights, look.query)
        {
            // The others with these rights ask for themselves at once.
            let known = self.here.nothing_for_others(look.query, look.rule, look.at);
            let _ = ticket.keep(&question, stamp, known, look.epochs());
            return Ok(self.ask_for_itself(look));
        }
        look.cache.counts.misses.add_one();
        Ok(Next::Fill(ToKeep { ticket, stamp, reads, tier }))
    }

    /// The store knows an answer: the client gets it, if it is good for this session.
    async fn give(&mut self, look: &mut Look<'_>, answer: Answer, is_stale: bool) -> Result<Next, SessionEnd> {
        let summary = answer.summary();
        if !self.here.fits_transaction(summary.server) {
            return Ok(Next::Refused(Refusal::Behind));
        }
        if let Some(tier) = &look.tier {
            match Box::pin(self.is_good_in_tier(tier, &answer, look.came)).await {
                Ok(true) => {}
                Ok(false) if look.tries < TRIES_MAX => {
                    look.tries += 1;
                    self.env.worker.shared.cache.forget(&look.asked.question(look.query).0, &answer);
                    return Ok(Next::Again);
                }
                Ok(false) => return Ok(Next::Over(CacheDecision::No(None))),
                Err(refusal) => return Ok(Next::Refused(refusal)),
            }
        }
        look.cache.counts.stale.add(u64::from(is_stale));
        if look.advises {
            count_hit(look.cache, summary);
            let saved_us = stats::micros(summary.took);
            return Ok(Next::Over(CacheDecision::No(Some(CacheSaid::Hit { saved_us, bytes: 0 }))));
        }
        let reply = self.belief.reply_here(&answer);
        self.note_answer(look.query, look.cache, summary, reply.len(), look.at);
        poll_fn(|cx| self.client.poll_answer(cx, &reply)).await.map_err(SessionEnd::ClientLost)?;
        self.log_answer(look.query, &answer);
        Ok(Next::Over(CacheDecision::Answered))
    }

    /// The stamp of an answer that is about to be read, and the tables that it is read from.
    fn stamp(
        &self,
        query: &Query<'_>,
        epochs: &WriteCounters,
        follow: Option<&Follow>,
        at: Instant,
    ) -> Result<(Stamp, TableScope), Refusal> {
        let mut scope = TableScope::Any;
        let reads = || {
            let (tables, reads) = self.reads_of(query);
            scope = tables;
            reads
        };
        let stamp = match follow {
            Some(follow) => follow.stamp(epochs, at, reads)?,
            None => epochs.stamp(reads),
        };
        match stamp {
            Stamp::Any(_) => Err(Refusal::UnknownTables),
            stamp => Ok((stamp, scope)),
        }
    }
}

impl Environment {
    fn ask_store(&self, look: &mut Look<'_>) -> Lookup {
        if look.followed().is_some_and(|follow| !follow.serves(look.at)) {
            return Lookup::Pass(Refusal::NotFollowing);
        }
        let (question, _) = look.asked.question(look.query);
        self.worker.shared.cache.ask(&question, look.epochs(), look.freshness, look.at, look.anew)
    }

    /// Another session asks a server the same: waits for that once.
    async fn wait_for_fill(&self, look: &mut Look<'_>, filling: &Filling) -> Next {
        if look.has_waited || look.advises {
            return Next::Over(CacheDecision::No(None));
        }
        look.has_waited = true;
        look.cache.counts.waits.add_one();
        let limit = self.worker.shared.config.load().cache.fill_wait;
        // Whatever became of it, the cache is asked again.
        let mut place = None;
        let _ = tokio::time::timeout(limit, poll_fn(|cx| filling.poll_over(&mut place, cx))).await;
        look.at = Instant::now();
        Next::Again
    }
}

impl ClusterSession {
    /// The entry for others with the same privileges: each has to ask for itself.
    fn nothing_for_others(&self, query: &Query<'_>, rule: &Arc<str>, at: Instant) -> AnswerParts {
        AnswerParts {
            reply: Err(Refusal::Rights),
            summary: Summary {
                rows: 0,
                found_rows: None,
                status: 0,
                server: 0,
                took: Duration::ZERO,
                asked: at,
                digest: query.statement.digest,
            },
            rule: rule.clone(),
            cluster: self.cluster.shared.name.clone(),
            tier: None,
        }
    }
}
