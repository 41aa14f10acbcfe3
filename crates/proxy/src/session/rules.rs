//! The operator's rules, asked for each command that needs a server.

use std::rc::Rc;
use std::time::Instant;

use sql::{Dialect, Effect, Kind, Statement};
use wire::command::Command;

use super::Session;
use super::count::End;
use super::query::{Query, QueryText};
use crate::error::{Refusal, SessionEnd};
use policy::rules::{Action, Asked, Asker, FoundRule, RulesHere, Scope, Texts};
use route::state::StateMap;

/// A text within another one.
struct TextsOfPart<'a> {
    text: &'a [u8],
    statement: &'a Statement,
    dialect: &'a Dialect,
}

impl Texts for TextsOfPart<'_> {
    fn sent(&self) -> &[u8] {
        self.text
    }

    fn digest(&self) -> String {
        sql::digest(self.text, self.dialect).text
    }

    fn tables(&self) -> Option<&sql::Tables> {
        self.statement.tables(self.text, self.dialect).as_ref().ok()
    }
}

impl Texts for Query<'_> {
    fn sent(&self) -> &[u8] {
        self.text().map_or(&[], |text| text.bytes)
    }

    fn digest(&self) -> String {
        Query::digest(self).unwrap_or_default()
    }

    fn tables(&self) -> Option<&sql::Tables> {
        Query::tables(self)?.as_ref().ok()
    }
}

impl Session {
    /// The rule that fits the command. Without rules this is one branch.
    #[inline]
    pub(super) fn rule(&self, query: &Query<'_>) -> Option<Rc<Action>> {
        let rules = self.env.worker.rules.get()?;
        self.find_rule(&rules, query)
    }

    #[inline(never)]
    fn find_rule(&self, rules: &RulesHere, query: &Query<'_>) -> Option<Rc<Action>> {
        let asked = self.asked_of_rules(query.statement.digest, query.statement.access.only_reads());
        let searches = &self.env.worker.stats.rule_searches;
        let found = rules.find(self.rule_scope(rules), || self.asker(), asked, query, searches);
        if rules.refuse() && may_hold_texts(&query.statement) && found.as_ref().is_none_or(|rule| rule.refuse.is_none())
        {
            return self.find_refusal(rules, query).or(found);
        }
        found
    }

    /// The rule that refuses a part of the text: one of its statements, or a literal text that it prepares or runs.
    #[cold]
    fn find_refusal(&self, rules: &RulesHere, query: &Query<'_>) -> Option<Rc<Action>> {
        let QueryText { bytes, dialect } = query.text()?;
        let (scope, searches) = (self.rule_scope(rules), &self.env.worker.stats.rule_searches);
        let mut refuses = None;
        sql::parts(bytes, &dialect, &mut |text| {
            let statement = self.here.cluster.classify(text, &dialect);
            let asked = self.asked_of_rules(statement.digest, statement.access.only_reads());
            let texts = TextsOfPart { text, statement: &statement, dialect: &dialect };
            refuses = rules.find_refusal(scope, self.asker(), asked, &texts, searches);
            refuses.is_some()
        });
        refuses
    }

    /// The rule for a text that only reads and has this digest, if it is remembered; it is not counted.
    #[inline]
    pub(super) fn rule_for_read(&self, rules: &RulesHere, digest: u64, text: &[u8]) -> Option<FoundRule> {
        rules.remembered(self.rule_scope(rules), self.asked_of_rules(digest, true), text)
    }

    fn asker(&self) -> Asker<'_> {
        Asker {
            listener: &self.env.listener.name,
            cluster: &self.here.cluster.shared.name,
            user: &self.who.identity.user,
            client: self.env.handle.client_ip(),
        }
    }

    fn asked_of_rules(&self, digest: u64, reads: bool) -> Asked<'_> {
        Asked { schema: self.belief.state.schema(), schema_hash: self.facts().schema_hash, digest, reads }
    }

    #[inline]
    fn rule_scope(&self, rules: &RulesHere) -> Scope {
        let mut scope = self.who.identity.rule_scope.get();
        if !rules.knows(scope) {
            scope = rules.scope(self.asker());
            self.who.identity.rule_scope.set(scope);
        }
        scope
    }

    /// A text that is read in this state, without its literals.
    pub(super) fn digest_text_in(&self, text: &[u8], state: &StateMap) -> String {
        let now = self.facts().dialect;
        sql::digest(text, &state.facts(&self.belief.catalog, now.family, now.version).dialect).text
    }

    /// The error of a rule that refuses the command. Pins and hints are of no matter: nothing is routed.
    pub(super) fn refused_by(rule: &Action, query: &Query<'_>) -> Option<Refusal> {
        let text = rule.refuse.as_ref()?;
        // These have no reply of their own, belong to a statement that runs, or have taken effect already.
        let goes_on = matches!(
            query.command,
            Command::StmtSendLongData | Command::StmtFetch | Command::StmtReset | Command::SetOption
        );
        (!goes_on).then(|| Refusal::by_rule(&rule.name, text))
    }

    /// Answers a command that a rule refuses; the session goes on.
    pub(super) async fn refuse_by_rule(&mut self, query: &Query<'_>, refusal: Refusal) -> Result<(), SessionEnd> {
        self.finish(query, End::Refused(Instant::now()));
        if query.prepares() {
            self.belief.statements.prepare_failed();
        }
        self.answer_error(query.request, &refusal);
        self.client.flush().await.map_err(SessionEnd::ClientLost)
    }
}

/// Whether a statement may hold others that rules are asked about, too.
fn may_hold_texts(statement: &Statement) -> bool {
    statement.parts > 1
        || matches!(statement.kind, Kind::PreparedText | Kind::Compound | Kind::Explain)
        || statement.effects.iter().any(|effect| matches!(effect, Effect::WhileRunning { .. }))
}
