//! The plan of a query, as far as policy decides it, and the verdict of a step.

use std::rc::Rc;
use std::sync::Arc;

use config::{CacheMode, Pipelines, Rule, RuleCache, RuleLog, RuleRoute};
use route::{Directive, RuleTarget};
use stats::cache::{CacheCounts, RuleCaches};

/// The plan of a query: what the steps of the chain have decided. By default nothing: the query goes its usual way.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    action: Option<Rc<Action>>,
    log: Option<RuleLog>,
}

impl Plan {
    /// Takes the actions of the rule that decides.
    #[inline]
    pub(crate) fn take(&mut self, action: Rc<Action>) {
        self.action = Some(action);
    }

    /// Takes the choice of the rule that decides about the log.
    pub(crate) fn take_log(&mut self, log: RuleLog) {
        self.log = Some(log);
    }

    /// The choice of the rule that decides whether the query becomes an event.
    #[inline]
    pub fn log(&self) -> Option<RuleLog> {
        self.log
    }

    /// The actions of the rule that decides, if one does.
    #[inline]
    pub fn rule(&self) -> Option<&Action> {
        self.action.as_deref()
    }

    /// The part in the query's route.
    #[inline]
    pub fn directive(&self) -> Option<&Directive> {
        self.rule().map(|action| &action.directive)
    }

    /// Whether the read shares a connection with those of other sessions, if a rule says so.
    #[inline]
    pub fn pipelines(&self) -> Option<Pipelines> {
        self.rule()?.pipelines
    }

    /// The use of the result cache.
    #[inline]
    pub fn cache(&self) -> Option<&CacheRule> {
        self.rule()?.cache.as_ref()
    }

    /// The same, with the name of the rule that wants it.
    pub fn cached_by(&self) -> Option<(&Arc<str>, &CacheRule)> {
        let rule = self.rule()?;
        Some((&rule.name, rule.cache.as_ref()?))
    }
}

/// The verdict of a step, and of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The query goes on, by its plan.
    Pass,
    /// The client gets an error instead.
    Refuse {
        /// The name of the rule that refuses.
        rule: Arc<str>,
        /// The text of the error.
        text: Arc<str>,
    },
}

impl Verdict {
    /// The query goes on.
    #[inline]
    pub fn is_pass(&self) -> bool {
        matches!(self, Verdict::Pass)
    }
}

/// The actions of a rule, as one worker keeps them.
#[derive(Debug)]
pub struct Action {
    /// The rule's name.
    pub name: Arc<str>,
    /// Its part in the statement's route.
    pub directive: Directive,
    /// The use of the result cache.
    pub cache: Option<CacheRule>,
    /// Whether the read shares a connection.
    pub pipelines: Option<Pipelines>,
    /// The text of the error that the client gets instead.
    pub refuse: Option<Arc<str>>,
    /// Whether the query becomes an event.
    pub log: Option<RuleLog>,
}

/// The settings of a rule for the result cache, as one worker keeps them.
#[derive(Clone, Debug)]
pub struct CacheRule {
    /// The settings.
    pub wanted: RuleCache,
    /// Counts of their outcomes.
    pub counts: Arc<CacheCounts>,
}

impl Action {
    pub(crate) fn of(rule: &Rule, caches: &RuleCaches) -> Action {
        Action {
            name: rule.name.clone(),
            directive: Directive {
                target: rule.route.as_ref().map(|route| match route {
                    RuleRoute::Primary => RuleTarget::Primary,
                    RuleRoute::Replica => RuleTarget::Replica,
                    RuleRoute::Auto => RuleTarget::Auto,
                    RuleRoute::Server(name) => RuleTarget::Server(Rc::from(&**name)),
                }),
                consistency: rule.consistency,
                max_lag: rule.max_lag,
            },
            cache: rule
                .cache
                .filter(|cache| cache.mode != CacheMode::Off)
                .map(|wanted| CacheRule { wanted, counts: caches.of(&rule.name, cache::Refusal::ALL.len()) }),
            pipelines: rule.pipelines,
            refuse: rule.refuse.clone(),
            log: rule.log,
        }
    }

    /// The verdict of the rule.
    #[inline]
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.refuse {
            Some(text) => Verdict::Refuse { rule: self.name.clone(), text: text.clone() },
            None => Verdict::Pass,
        }
    }
}
