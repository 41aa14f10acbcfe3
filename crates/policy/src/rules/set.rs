//! The rules of a configuration, put together so that a statement can be tried against all of them.

use std::collections::HashSet;
use std::sync::Arc;

use config::patterns::Patterns;
use config::{Consistency, LogMode, Matchers, Network, Rule, RuleAccess};

use super::comments::Comments;
use super::{Inspect, RuleSession, RuleStatement};

/// The rules as all workers share them.
#[derive(Debug)]
pub struct RuleSet {
    /// Those that count.
    pub(super) rules: Box<[Compiled]>,
    pub(super) digests: Option<Patterns>,
    pub(super) texts: Option<Patterns>,
    /// Comments that rules name.
    pub(super) comments: Comments,
    /// Networks that rules name, each once.
    pub(super) networks: Box<[Network]>,
    pub(super) looks_at: LooksAt,
    /// All rules by name, also those that are switched off.
    pub(super) names: Box<[Arc<str>]>,
    /// A rule wants reads to see what their session has written.
    pub(super) asks_consistency: bool,
    /// A rule refuses.
    pub(super) refuses: bool,
    /// The rules that decide whether a query becomes an event. They are asked on their own, so that they take no query from
    /// the other rules.
    pub(super) log: Option<Arc<RuleSet>>,
}

/// A rule that counts.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    /// The number of its expressions among all.
    pub(super) digest_pattern: Option<u32>,
    pub(super) text_pattern: Option<u32>,
    /// Schema and name of its table.
    pub(super) table: Option<(Option<Box<str>>, Box<str>)>,
    /// The number of its comment.
    pub(super) comment: Option<u32>,
    /// Its place among all rules.
    pub(super) place: u32,
}

/// The values that any rule looks at; no others tell outcomes apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LooksAt {
    pub(super) listener: bool,
    pub(super) cluster: bool,
    pub(super) user: bool,
    pub(super) schema: bool,
    pub(super) digest: bool,
    pub(super) access: bool,
}

impl RuleSet {
    /// Takes the rules of a configuration; `None` when none of them counts.
    ///
    /// # Errors
    /// Their regular expressions cannot be put together, which the configuration's own checks should have found.
    pub fn new(rules: &[Rule]) -> Result<Option<RuleSet>, String> {
        let log = RuleSet::of(rules, |rule| rule.log.is_some())?;
        let others = RuleSet::of(rules, Rule::decides_more_than_log)?;
        let log = if log.rules.is_empty() { None } else { Some(Arc::new(log)) };
        let is_empty = others.rules.is_empty() && log.is_none();
        Ok((!is_empty).then(|| RuleSet { log, ..others }))
    }

    /// Those that are chosen, of the rules that count.
    fn of(rules: &[Rule], chosen: impl Fn(&Rule) -> bool) -> Result<RuleSet, String> {
        let (mut digests, mut texts) = (Vec::new(), Vec::new());
        let number = |patterns: &mut Vec<Arc<str>>, pattern: &Option<Arc<str>>| {
            let pattern = pattern.as_ref()?;
            patterns.push(pattern.clone());
            u32::try_from(patterns.len() - 1).ok()
        };
        let mut comments = Comments::default();
        let counting = rules.iter().zip(0..).filter(|(rule, _)| rule.enabled && chosen(rule));
        let compiled: Box<[Compiled]> = counting
            .map(|(rule, place)| Compiled {
                digest_pattern: number(&mut digests, &rule.matchers.digest_regex),
                text_pattern: number(&mut texts, &rule.matchers.text_regex),
                table: rule.matchers.table.as_deref().map(|text| match text.split_once('.') {
                    Some((schema, name)) => (Some(schema.into()), name.into()),
                    None => (None, text.into()),
                }),
                comment: rule.matchers.comment.as_deref().map(|text| comments.add(text)),
                place,
                rule: rule.clone(),
            })
            .collect();
        let together = |patterns: &[Arc<str>]| {
            let patterns: Vec<&str> = patterns.iter().map(|pattern| &**pattern).collect();
            if patterns.is_empty() { Ok(None) } else { Patterns::new(&patterns).map(Some) }
        };
        let mut networks: Vec<Network> = Vec::new();
        let mut known = HashSet::new();
        networks.extend(compiled.iter().filter_map(|rule| rule.rule.matchers.client).filter(|one| known.insert(*one)));
        let any = |looks: fn(&Matchers) -> bool| compiled.iter().any(|rule| looks(&rule.rule.matchers));
        Ok(RuleSet {
            digests: together(&digests)?,
            texts: together(&texts)?,
            comments,
            networks: networks.into(),
            looks_at: LooksAt {
                listener: any(|matchers| matchers.listener.is_some()),
                cluster: any(|matchers| matchers.cluster.is_some()),
                user: any(|matchers| matchers.user.is_some()),
                // A name without a schema is in the session's.
                schema: any(|matchers| matchers.schema.is_some() || matchers.table.is_some()),
                // Statements of one digest name the same tables.
                digest: any(|matchers| {
                    matchers.digest.is_some() || matchers.digest_regex.is_some() || matchers.table.is_some()
                }),
                access: any(|matchers| matchers.access.is_some()),
            },
            refuses: compiled.iter().any(|rule| rule.rule.refuse.is_some()),
            names: rules.iter().map(|rule| rule.name.clone()).collect(),
            asks_consistency: compiled
                .iter()
                .any(|rule| rule.rule.consistency.is_some_and(|asked| asked != Consistency::None)),
            rules: compiled,
            log: None,
        })
    }

    /// The rules that decide whether a query becomes an event.
    pub(crate) fn log(&self) -> Option<&Arc<RuleSet>> {
        self.log.as_ref()
    }

    /// Whether no rule decides anything else.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// A rule has queries become events that else may be none.
    pub fn logs(&self) -> bool {
        let logs = |rule: &Compiled| rule.rule.log.is_some_and(|log| log.mode == LogMode::On);
        self.log.as_ref().is_some_and(|set| set.rules.iter().any(logs))
    }

    /// A rule wants reads to see what their session has written.
    pub(crate) fn asks_consistency(&self) -> bool {
        self.asks_consistency
    }

    /// All rules by name, in order.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

impl Compiled {
    /// Whether all holds but for regular expressions.
    pub(super) fn fits(&self, session: RuleSession<'_>, statement: RuleStatement<'_>) -> bool {
        let Matchers { listener, cluster, user, schema, client, digest, access, .. } = &self.rule.matchers;
        let is = |wanted: &Option<Arc<str>>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        is(user, session.user)
            && schema.as_deref().is_none_or(|wanted| statement.schema == Some(wanted))
            && digest.is_none_or(|wanted| wanted == statement.digest)
            && is(listener, session.listener)
            && is(cluster, session.cluster)
            && access.is_none_or(|wanted| (wanted == RuleAccess::Read) == statement.reads)
            && client.is_none_or(|network| session.client.is_some_and(|client| network.contains(client)))
    }

    /// Whether the rule's table is among those that the statement names. For a rule that refuses, a statement whose tables nobody can
    /// tell names all whose names its text has: else EXPLAIN or HANDLER would be a way around the rule.
    pub(super) fn names_table(&self, statement: RuleStatement<'_>, query: &(impl Inspect + ?Sized)) -> bool {
        let Some((schema, name)) = &self.table else { return true };
        // A command without a text names none.
        if statement.digest == 0 {
            return false;
        }
        let Some(tables) = query.tables() else {
            return self.rule.refuse.is_some() && query.mentions(schema.as_deref(), name);
        };
        tables.read.iter().chain(&tables.written).any(|named| {
            let is_in = named.schema.as_deref().or(statement.schema);
            named.name == *name && schema.as_deref().is_none_or(|wanted| is_in == Some(wanted))
        })
    }
}
