//! The chain of a worker: the steps of policy that each query goes through before it runs, in order.
//!
//! A worker without steps has no chain: a query costs one branch then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bitflags::bitflags;
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
}

/// A rule that decides for a query whose outcome the chain remembers.
#[derive(Clone, Copy, Debug)]
pub struct Remembered<'a> {
    rules: &'a RulesHere,
    found: FoundRule,
}

impl Chain {
    fn new(set: Arc<RuleSet>, hits: Arc<[Counter]>, caches: &RuleCaches, number: u64) -> Chain {
        let mut needs = Needs::empty();
        needs.set(Needs::OWN_WRITES, set.asks_consistency());
        let rules = RulesHere::new(set, hits, caches);
        Chain { number, needs, steps: Box::new([Step::Rules(rules)]) }
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
        RuleScope { number: self.number, hash }
    }

    /// Asks each step, until one ends the query. `query` shows more of it to the steps that want to see it.
    #[inline]
    pub fn ask(&self, ask: &RuleQuery<'_>, query: &impl Inspect, plan: &mut Plan) -> Verdict {
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
        let mut remembered = None;
        for Step::Rules(rules) in &self.steps {
            remembered = Some(Remembered { found: rules.remembered(scope, statement, text)?, rules });
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

    /// The outcome is used: the rule counts.
    #[inline]
    pub fn count(&self) {
        self.rules.count(self.found);
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
