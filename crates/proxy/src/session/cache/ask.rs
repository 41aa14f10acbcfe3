//! Asking: what the cache says to a statement. It answers it, has it wait for the session that asks a server the same, or has a server
//! answer, and says what is to be kept of that.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{Epochs, Follow, Found, Freshness, Known, Refusal, Stamp, Summary};
use config::{CacheFreshness, CacheMode};
use facts::tables::Scope;
use stats::digests::CacheSaid;

use super::super::Session;
use super::super::cached::refused;
use super::super::query::Query;
use super::hit::{count_hit, micros};
use super::in_tier::{Looked, Wanted};
use super::keep::Fill;
use crate::error::SessionEnd;
use policy::CacheRule;

/// So often the tier is looked into for a statement, while others write what it asks for.
const TRIES_MAX: u32 = 2;

/// The cache's decision on a statement.
#[derive(Debug)]
pub(in crate::session) enum Asked {
    /// The client has its answer.
    Answered,
    /// A server answers, and that is kept.
    Fill(Box<Fill>),
    /// A server answers; what the digest's counts hear of that.
    No(Option<CacheSaid>),
}

impl Session {
    /// Asks the cache for a statement of which a rule says so.
    pub(in crate::session) async fn ask_cache(
        &mut self,
        query: &Query<'_>,
        rule: &Arc<str>,
        cache: &CacheRule,
    ) -> Result<Asked, SessionEnd> {
        let refuse = |refusal: Refusal| {
            if let Some(count) = cache.counts.refused.get(refusal as usize) {
                count.add_one();
            }
            Ok(Asked::No(Some(refused(refusal))))
        };
        if let Err(refusal) = self.may_ask_here().and_then(|()| self.may_ask(query)) {
            return refuse(refusal);
        }
        if let Some(refusal) = self.here.cluster.refused.get(query.statement.digest) {
            return refuse(refusal);
        }
        let mut asked = match self.asked(query, cache) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(refusal),
        };
        let (mut question, comment) = asked.question(query);
        if comment.off {
            return refuse(Refusal::Asked);
        }
        let advises = cache.wanted.mode == CacheMode::Advise;
        let ttl = comment.ttl.map_or(cache.wanted.ttl, |asked| asked.min(cache.wanted.ttl));
        // A comment that limits the age of a result means it.
        let stale = if comment.ttl.is_some() { Duration::ZERO } else { cache.wanted.stale };
        let freshness = Freshness { ttl, stale };
        let (store, shared) = (self.env.worker.shared.cache.clone(), self.here.cluster.shared.clone());
        let epochs = shared.epochs.get_or_init(Epochs::default);
        let mut at = Instant::now();
        let (tier, came) = (self.tier_for(cache), at);
        if tier.is_none() && cache.wanted.tier && !advises {
            // It is configured from the next start on.
            return refuse(Refusal::NoTier);
        }
        let (mut has_waited, mut tries) = (false, 0);
        let followed = shared.follow.load_full();
        let follow = match cache.wanted.freshness {
            CacheFreshness::Ttl => None,
            CacheFreshness::Follow => match &followed {
                Some(follow) => Some(&**follow),
                None => return refuse(Refusal::NotFollowing),
            },
        };
        // The question for this user alone, where its rights do not do.
        let own_context = std::cell::OnceCell::new();
        if tier.is_some() && asked.rights.is_some() {
            // Of rights that were changed through another process nothing may be known here.
            question.context = own_context.get_or_init(|| self.own_context());
        }
        loop {
            if follow.is_some_and(|follow| !follow.serves(at)) {
                return refuse(Refusal::NotFollowing);
            }
            let found = store.ask(&question, epochs, freshness, at, comment.anew);
            let (answer, is_stale) = match found {
                Found::Hit(answer) => (answer, false),
                Found::Stale(answer) => (answer, true),
                Found::Pass(Refusal::Rights) if own_context.get().is_none() => {
                    question.context = own_context.get_or_init(|| self.own_context());
                    continue;
                }
                Found::Pass(refusal) => return refuse(refusal),
                Found::Wait(filling) if !has_waited && !advises => {
                    has_waited = true;
                    cache.counts.waits.add_one();
                    let limit = self.env.worker.shared.config.load().cache.fill_wait;
                    // Whatever became of it, the cache is asked again.
                    let mut place = None;
                    let _ = tokio::time::timeout(limit, poll_fn(|cx| filling.poll_over(&mut place, cx))).await;
                    at = Instant::now();
                    continue;
                }
                Found::Wait(_) => return Ok(Asked::No(None)),
                Found::Fill(ticket) => {
                    let Some(sent) = query.text() else { return refuse(Refusal::Command) };
                    if let Err(refusal) = cache::judge(&query.statement, question.text, &sent.dialect) {
                        self.here.cluster.refused.note(query.statement.digest, refusal);
                        return refuse(refusal);
                    }
                    self.watch_writes();
                    let stamp = || self.stamp(query, epochs, follow, at);
                    let stamped = match &tier {
                        None => stamp().map(|(stamp, reads)| (stamp, reads, Looked::Nowhere)),
                        Some(tier) => {
                            let (question, rule, anew) = (&question, rule, comment.anew);
                            let wanted = Wanted { question, ttl, anew, rule };
                            Box::pin(self.look_in_tier(tier, query, stamp, wanted)).await
                        }
                    };
                    let (stamp, reads, tier) = match stamped {
                        Ok((stamp, reads, Looked::Nowhere)) => (stamp, reads, None),
                        Ok((stamp, reads, Looked::Fill(marked))) => (stamp, reads, Some(marked)),
                        Ok((stamp, _, Looked::Answer(known))) => {
                            tries += 1;
                            // Others take it from here; so does this session, unless something was written.
                            if ticket.keep(&question, stamp, *known, epochs).is_err() || tries > TRIES_MAX {
                                return Ok(Asked::No(None));
                            }
                            continue;
                        }
                        Err(refusal) => return refuse(refusal),
                    };
                    if !self.transaction_has_writes_to(&reads) {
                        return refuse(Refusal::Behind);
                    }
                    if let Some(rights) = asked.rights.filter(|_| own_context.get().is_none())
                        && !self.rights_cover(&rights, query)
                    {
                        // The others with these rights ask for themselves at once.
                        let known = self.nothing_for_others(query, rule, at);
                        let _ = ticket.keep(&question, stamp, known, epochs);
                        question.context = own_context.get_or_init(|| self.own_context());
                        continue;
                    }
                    cache.counts.misses.add_one();
                    let (rule, cache) = (rule.clone(), cache.clone());
                    if let Some(own) = own_context.into_inner() {
                        asked.context = own;
                    }
                    return Ok(Asked::Fill(Box::new(Fill { ticket, stamp, reads, asked, at, rule, cache, tier })));
                }
            };
            if !self.fits_transaction(answer.summary().server) {
                return refuse(Refusal::Behind);
            }
            if let Some(tier) = &tier {
                match Box::pin(self.is_good_in_tier(tier, &answer, came)).await {
                    Ok(true) => {}
                    Ok(false) if tries < TRIES_MAX => {
                        tries += 1;
                        store.forget(&question, &answer);
                        continue;
                    }
                    Ok(false) => return Ok(Asked::No(None)),
                    Err(refusal) => return refuse(refusal),
                }
            }
            cache.counts.stale.add(u64::from(is_stale));
            if advises {
                count_hit(cache, answer.summary());
                let saved_us = micros(answer.summary().took);
                return Ok(Asked::No(Some(CacheSaid::Hit { saved_us, bytes: 0 })));
            }
            let reply = self.reply_here(&answer);
            self.note_answer(query, cache, answer.summary(), reply.len(), at);
            poll_fn(|cx| self.client.poll_answer(cx, &reply)).await.map_err(SessionEnd::ClientLost)?;
            self.log_answer(query, &answer);
            return Ok(Asked::Answered);
        }
    }

    /// The stamp of an answer that is about to be read, and the tables that it is read from.
    fn stamp(
        &self,
        query: &Query<'_>,
        epochs: &Epochs,
        follow: Option<&Follow>,
        at: Instant,
    ) -> Result<(Stamp, Scope), Refusal> {
        let mut scope = Scope::Any;
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

    /// The entry for others with the same privileges: each has to ask for itself.
    fn nothing_for_others(&self, query: &Query<'_>, rule: &Arc<str>, at: Instant) -> Known {
        Known {
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
            cluster: self.here.cluster.shared.name.clone(),
            tier: None,
        }
    }
}
