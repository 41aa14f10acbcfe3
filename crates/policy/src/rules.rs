//! Rules that an operator wrote: the first one that fits a statement decides.
//!
//! Many statements look the same to rules: in listener, cluster, user, schema, the client's network, the digest and whether it
//! reads. Each worker remembers the outcome for the values that it has seen ([`memo`]), so that a statement costs one look
//! into a small table, however many rules there are; only for values that are not remembered the worker goes through the
//! rules. Rules with a `text_regex` cannot be remembered: those that fit in all else, and come before the rule that is
//! remembered, are tried with one search of the text for each statement.

mod comments;
mod memo;
mod set;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use config::patterns::{PatternMatches, Patterns};
use stats::Counter;
use stats::cache::RuleCaches;

use crate::plan::{Action, Plan, Verdict};
use memo::{Memo, Outcome, Waiting};
pub use set::RuleSet;

/// Bytes of a statement that `text_regex` looks at.
pub const TEXT_LOOKED_AT: usize = 64 * 1024;

/// The session as rules see it: the same for all of its statements.
#[derive(Clone, Copy, Debug)]
pub struct RuleSession<'a> {
    /// The listener.
    pub listener: &'a str,
    /// The cluster.
    pub cluster: &'a str,
    /// The user.
    pub user: &'a str,
    /// Where the client is; `None` on a local socket.
    pub client: Option<IpAddr>,
}

/// The statement, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct RuleStatement<'a> {
    /// The session's schema.
    pub schema: Option<&'a str>,
    /// Of the schema's name.
    pub schema_hash: u64,
    /// The hash of the digest; 0 is a command without a text.
    pub digest: u64,
    /// It only reads.
    pub reads: bool,
}

/// A query, as it is asked about.
#[derive(Clone, Copy, Debug)]
pub struct RuleQuery<'a> {
    /// The session values that rules look at.
    pub scope: RuleScope,
    /// The statement.
    pub statement: RuleStatement<'a>,
    /// The client can get an error: the command has a reply of its own, and has not taken effect already.
    pub may_refuse: bool,
    /// Counts the queries for which all rules were gone through.
    pub searches: &'a Counter,
}

/// The parts of a query that a step looks at only when it must: each is worked out when it is asked for.
pub trait Inspect {
    /// The session.
    fn rule_session(&self) -> RuleSession<'_>;
    /// The statement as it was sent.
    fn sent(&self) -> &[u8];
    /// The statement without its literals.
    fn digest(&self) -> String;
    /// The tables that it names; `None` when it may touch others.
    fn tables(&self) -> Option<&sql::Tables>;
    /// Whether its text has this table's name as an identifier, whatever that stands for there.
    fn mentions(&self, schema: Option<&str>, name: &str) -> bool;
    /// Shows each text within this one, until `see` gives true: a statement of several, a literal text that is prepared or run.
    fn parts(&self, see: &mut dyn FnMut(RuleStatement<'_>, &dyn Inspect) -> bool);
}

/// The hash of all session values that rules look at. A session computes it once.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleScope {
    /// Of which chain; 0 is none.
    pub(crate) number: u64,
    pub(crate) hash: u64,
}

/// A rule that decides, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundRule(u32);

/// Rules as one worker has them, with what it remembers.
#[derive(Debug)]
pub struct RulesHere {
    set: Arc<RuleSet>,
    /// In the order of the rules that count.
    actions: Box<[Rc<Action>]>,
    hits: Arc<[Counter]>,
    memo: RefCell<Memo>,
    digest_matches: RefCell<Option<PatternMatches>>,
    text_matches: RefCell<Option<PatternMatches>>,
}

/// Both halves of a product: each bit of either factor changes half of it.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

const READS: u64 = 0x9e37_79b9_7f4a_7c15;
const WRITES: u64 = 0xb7e1_5162_8aed_2a6b;

impl RulesHere {
    pub(crate) fn new(set: Arc<RuleSet>, hits: Arc<[Counter]>, caches: &RuleCaches) -> RulesHere {
        RulesHere {
            actions: set.rules.iter().map(|rule| Rc::new(Action::of(&rule.rule, caches))).collect(),
            hits,
            memo: RefCell::default(),
            digest_matches: RefCell::new(set.digests.as_ref().map(Patterns::matches)),
            text_matches: RefCell::new(set.texts.as_ref().map(Patterns::matches)),
            set,
        }
    }

    /// Stands for the values of a session that tell outcomes apart.
    pub(crate) fn scope(&self, session: RuleSession<'_>) -> u64 {
        let looks = &self.set.looks_at;
        let seen = |looks: bool, name| if looks { Some(name) } else { None };
        let names = (
            seen(looks.listener, session.listener),
            seen(looks.cluster, session.cluster),
            seen(looks.user, session.user),
        );
        let mut hash = route::state::hash_of(names);
        for (network, place) in self.set.networks.iter().zip(0_u64..) {
            if session.client.is_some_and(|client| network.contains(client)) {
                hash = route::state::hash_of((hash, place));
            }
        }
        hash.max(1)
    }

    /// The rule that decides is counted, and its actions are the plan. A rule that refuses decides for a whole text also when it
    /// fits one of the texts within it.
    #[inline]
    pub(crate) fn ask(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &mut Plan) -> Verdict {
        if let Some(found) = self.seek(ask.scope, ask.statement, query, ask.searches) {
            self.count(found);
            if let Some(action) = self.actions.get(found.0 as usize) {
                plan.take(action.clone());
            }
        }
        if self.set.refuses && ask.may_refuse { self.verdict(ask, query, plan) } else { Verdict::Pass }
    }

    /// The rule that decides about the log takes its place in the plan, and is counted unless it has decided all the rest, too.
    #[inline(never)]
    pub(crate) fn ask_log(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &mut Plan) {
        let found = self.seek(ask.scope, ask.statement, query, ask.searches);
        let Some((found, action)) = found.and_then(|found| Some((found, self.action(found)?))) else { return };
        if let Some(log) = action.log {
            plan.take_log(log);
        }
        if plan.rule().is_none_or(|rule| rule.name != action.name) {
            self.count(found);
        }
    }

    /// The verdict where any rule refuses.
    #[inline(never)]
    fn verdict(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &Plan) -> Verdict {
        match plan.rule().map(Action::verdict) {
            None | Some(Verdict::Pass) => self.ask_of_parts(ask, query),
            Some(refused) => refused,
        }
    }

    /// The verdict of the first text within the query that is refused.
    fn ask_of_parts(&self, ask: &RuleQuery<'_>, query: &impl Inspect) -> Verdict {
        let mut verdict = Verdict::Pass;
        query.parts(&mut |statement, part| {
            if let Some(found) = self.seek(ask.scope, statement, part, ask.searches)
                && let Some(action) = self.action(found).filter(|action| action.refuse.is_some())
            {
                self.count(found);
                verdict = action.verdict();
            }
            !verdict.is_pass()
        });
        verdict
    }

    #[inline]
    fn seek(
        &self,
        scope: RuleScope,
        statement: RuleStatement<'_>,
        query: &(impl Inspect + ?Sized),
        searches: &Counter,
    ) -> Option<FoundRule> {
        let comment = self.comment(|| query.sent());
        let key = self.key(scope, statement, comment);
        let remembered = self.memo.borrow().find(key);
        let outcome = remembered.unwrap_or_else(|| {
            searches.add_one();
            let (rule, waiting) = self.judge(statement, comment, query);
            self.memo.borrow_mut().insert(key, rule, &waiting)
        });
        self.decide(outcome, || query.sent())
    }

    /// The rule that decides, not counted yet, or that none fits; `None` when that is not remembered.
    #[inline]
    pub(crate) fn remembered(
        &self,
        scope: RuleScope,
        statement: RuleStatement<'_>,
        text: &[u8],
    ) -> Option<Option<FoundRule>> {
        let outcome = self.memo.borrow().find(self.key(scope, statement, self.comment(|| text)))?;
        Some(self.decide(outcome, || text))
    }

    #[inline]
    fn decide<'a>(&self, outcome: Outcome, text: impl FnOnce() -> &'a [u8]) -> Option<FoundRule> {
        let index = match outcome.waiting {
            None => outcome.rule?,
            Some(waiting) => self.try_text(waiting, text()).or(outcome.rule)?,
        };
        Some(FoundRule(index))
    }

    /// The number of the comment that a text begins with, if a rule asks for any.
    #[inline]
    fn comment<'a>(&self, text: impl FnOnce() -> &'a [u8]) -> u32 {
        let comments = &self.set.comments;
        if comments.is_empty() { 0 } else { comments.find(text()) }
    }

    /// The actions of a rule that was found.
    #[inline]
    pub(crate) fn action(&self, found: FoundRule) -> Option<&Action> {
        self.actions.get(found.0 as usize).map(|action| &**action)
    }

    /// Counts a rule that was found.
    #[inline]
    pub(crate) fn count(&self, found: FoundRule) {
        if let Some(hits) = self.place(found).and_then(|place| self.hits.get(place)) {
            hits.add_one();
        }
    }

    /// Its place among all rules.
    #[inline]
    pub(crate) fn place(&self, found: FoundRule) -> Option<usize> {
        self.set.rules.get(found.0 as usize).map(|rule| rule.place as usize)
    }

    #[inline]
    fn key(&self, scope: RuleScope, statement: RuleStatement<'_>, comment: u32) -> u64 {
        let looks = &self.set.looks_at;
        // Whether there is a text at all always makes a difference.
        let digest = if looks.digest { statement.digest } else { u64::from(statement.digest != 0) };
        let schema = if looks.schema { statement.schema_hash } else { 0 };
        let access = if looks.access && !statement.reads { WRITES } else { READS };
        fold(digest ^ scope.hash, schema ^ access).wrapping_add(u64::from(comment).wrapping_mul(READS))
    }

    /// Goes through the rules: the first that fits and asks for no text, and those before it that wait for the text.
    #[cold]
    fn judge(&self, statement: RuleStatement<'_>, comment: u32, query: &(impl Inspect + ?Sized)) -> Outcomes {
        let session = query.rule_session();
        let mut matches = self.digest_matches.borrow_mut();
        let (mut searched, mut waiting) = (false, Vec::new());
        for (rule, index) in self.set.rules.iter().zip(0_u32..) {
            if !rule.fits(session, statement)
                || rule.comment.is_some_and(|wanted| wanted != comment)
                || rule.table.is_some() && !rule.names_table(statement, query)
            {
                continue;
            }
            if let Some(pattern) = rule.digest_pattern {
                let (Some(patterns), Some(matches)) = (&self.set.digests, &mut *matches) else { continue };
                if statement.digest != 0 && !std::mem::replace(&mut searched, true) {
                    matches.search(patterns, query.digest().as_bytes());
                }
                if statement.digest == 0 || !matches.has(pattern) {
                    continue;
                }
            }
            match rule.text_pattern {
                None => return (Some(index), waiting),
                Some(_) if statement.digest != 0 => waiting.push(index),
                Some(_) => {}
            }
        }
        (None, waiting)
    }

    /// The first of the rules that wait for the text and find what they want in it.
    fn try_text(&self, waiting: Waiting, text: &[u8]) -> Option<u32> {
        let mut matches = self.text_matches.borrow_mut();
        let (Some(patterns), Some(matches)) = (&self.set.texts, &mut *matches) else { return None };
        matches.search(patterns, text.get(..TEXT_LOOKED_AT).unwrap_or(text));
        let memo = self.memo.borrow();
        let mut rules = memo.waiting(waiting).iter();
        let pattern = |index: u32| self.set.rules.get(index as usize)?.text_pattern;
        rules.find(|index| pattern(**index).is_some_and(|pattern| matches.has(pattern))).copied()
    }
}

/// The rule that fits, and those before it that wait for the text.
type Outcomes = (Option<u32>, Vec<u32>);

#[cfg(test)]
mod tests;
