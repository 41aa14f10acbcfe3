//! The chain of a worker: the steps of policy that each query goes through before it runs, in order.
//!
//! A worker without steps has no chain: a query costs one branch then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bitflags::bitflags;
use config::RuleLog;
use stats::Counter;
use stats::cache::RuleCaches;

use crate::plan::{Action, Plan, Verdict};
use crate::rules::{FoundRule, Inspect, RuleQuery, RuleScope, RuleSession, RuleSet, RuleStatement, RulesHere};

bitflags! {
    /// The facts about sessions and queries that the steps of a chain need, beyond the query itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Needs: u8 {
        /// The positions of what a session has written: a step may ask that reads see it.
        const OWN_WRITES = 1;
    }
}

/// One step of a chain.
#[derive(Debug)]
pub enum Step {
    /// The operator's rules.
    Rules(RulesHere),
}

/// The steps of a worker, in the order in which a query goes through them.
#[derive(Debug)]
pub struct Chain {
    /// Tells this chain from those before it.
    number: u64,
    needs: Needs,
    steps: Box<[Step]>,
    /// The rules that decide whether a query becomes an event. They follow the steps, also behind a query that one of them ends.
    log: Option<RulesHere>,
}

/// A rule that decides for a query whose outcome the chain remembers.
#[derive(Clone, Copy, Debug)]
pub struct Remembered<'a> {
    rules: &'a RulesHere,
    found: FoundRule,
    /// The same of the rules about the log.
    log: Option<(&'a RulesHere, FoundRule)>,
}

impl Chain {
    fn new(set: Arc<RuleSet>, hits: Arc<[Counter]>, caches: &RuleCaches, number: u64) -> Chain {
        let mut needs = Needs::empty();
        needs.set(Needs::OWN_WRITES, set.asks_consistency());
        let log = set.log().cloned().map(|log| RulesHere::new(log, hits.clone(), caches));
        let steps = match set.is_empty() {
            true => Box::default(),
            false => [Step::Rules(RulesHere::new(set, hits, caches))].into(),
        };
        Chain { number, needs, steps, log }
    }

    /// The facts that its steps need.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether a scope is of this chain.
    #[inline]
    pub fn knows(&self, scope: RuleScope) -> bool {
        scope.number == self.number
    }

    /// The values of a session that tell outcomes apart. Sessions that no step tells apart share the remembered outcomes.
    pub fn scope(&self, session: RuleSession<'_>) -> RuleScope {
        let hash = self.steps.iter().fold(0, |hash, Step::Rules(rules)| hash ^ rules.scope(session));
        // Turned, so that equal values do not cancel out.
        let log = self.log.as_ref().map_or(0, |rules| rules.scope(session).rotate_left(17));
        RuleScope { number: self.number, hash: hash ^ log }
    }

    /// Asks each step, until one ends the query. `query` shows more of it to the steps that want to see it.
    #[inline]
    pub fn ask(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &mut Plan) -> Verdict {
        let verdict = self.ask_steps(ask, query, plan);
        if let Some(log) = &self.log {
            log.ask_log(ask, query, plan);
        }
        verdict
    }

    #[inline]
    fn ask_steps(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &mut Plan) -> Verdict {
        for step in &self.steps {
            let verdict = match step {
                Step::Rules(rules) => rules.ask(ask, query, plan),
            };
            if !verdict.is_pass() {
                return verdict;
            }
        }
        Verdict::Pass
    }

    /// The outcome for a query that the result cache has found by its bytes; `None` when a step has to see the whole query.
    /// Nothing is counted yet.
    #[inline]
    pub fn remembered(&self, scope: RuleScope, statement: RuleStatement<'_>, text: &[u8]) -> Option<Remembered<'_>> {
        let log = match &self.log {
            Some(rules) => rules.remembered(scope, statement, text)?.map(|found| (rules, found)),
            None => None,
        };
        let mut remembered = None;
        for Step::Rules(rules) in &self.steps {
            remembered = Some(Remembered { found: rules.remembered(scope, statement, text)??, rules, log });
        }
        remembered
    }
}

impl<'a> Remembered<'a> {
    /// The actions of the rule.
    #[inline]
    pub fn action(&self) -> Option<&'a Action> {
        self.rules.action(self.found)
    }

    /// The choice of the rule that decides about the log.
    #[inline]
    pub fn log(&self) -> Option<RuleLog> {
        let (rules, found) = self.log?;
        rules.action(found)?.log
    }

    /// The outcome is used: the rules count, each once.
    #[inline]
    pub fn count(&self) {
        self.rules.count(self.found);
        if let Some((rules, found)) = self.log
            && rules.place(found) != self.rules.place(self.found)
        {
            rules.count(found);
        }
    }
}

/// The chain of a worker, if there is any policy.
#[derive(Debug, Default)]
pub struct WorkerChain {
    is_there: Cell<bool>,
    here: RefCell<Option<Rc<Chain>>>,
    /// Of the last one.
    number: Cell<u64>,
}

impl WorkerChain {
    /// The chain; without any policy this is one branch.
    #[inline]
    pub fn get(&self) -> Option<Rc<Chain>> {
        if self.is_there.get() { self.here.borrow().clone() } else { None }
    }

    /// Takes other rules, with their counters in the order of [`RuleSet::names`]; what was remembered is forgotten.
    pub fn take(&self, set: Option<Arc<RuleSet>>, hits: Arc<[Counter]>, caches: &RuleCaches) {
        self.number.set(self.number.get() + 1);
        let here = set.map(|set| Rc::new(Chain::new(set, hits, caches, self.number.get())));
        self.is_there.set(here.is_some());
        *self.here.borrow_mut() = here;
    }
}
