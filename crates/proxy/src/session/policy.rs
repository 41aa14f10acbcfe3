//! The operator's policy: each command that needs a server goes through the chain of its worker.

use std::time::Instant;

use sql::{Dialect, Effect, Kind, Statement};
use wire::command::Command;

use super::Session;
use super::belief::Belief;
use super::count::End;
use super::query::{Query, QueryText};
use crate::error::{Refusal, SessionEnd};
use policy::rules::{Inspect, RuleQuery, RuleScope, RuleSession, RuleStatement};
use policy::{Chain, Verdict};
use route::state::StateMap;

/// A query of a session, as steps inspect it.
struct Inspected<'a> {
    session: &'a Session,
    query: &'a Query<'a>,
}

/// A text within another one.
struct Part<'a> {
    session: &'a Session,
    text: &'a [u8],
    statement: &'a Statement,
    dialect: &'a Dialect,
}

impl Inspect for Part<'_> {
    fn rule_session(&self) -> RuleSession<'_> {
        self.session.rule_session()
    }

    fn sent(&self) -> &[u8] {
        self.text
    }

    fn digest(&self) -> String {
        sql::digest(self.text, self.dialect).text
    }

    fn tables(&self) -> Option<&sql::Tables> {
        self.statement.tables(self.text, self.dialect).as_ref().ok()
    }

    fn mentions(&self, schema: Option<&str>, name: &str) -> bool {
        sql::text::mentions(self.text, self.dialect, schema, name)
    }

    /// All texts within the outer one are shown.
    fn parts(&self, _: &mut dyn FnMut(RuleStatement<'_>, &dyn Inspect) -> bool) {}
}

impl Inspect for Inspected<'_> {
    fn rule_session(&self) -> RuleSession<'_> {
        self.session.rule_session()
    }

    fn sent(&self) -> &[u8] {
        self.query.text().map_or(&[], |text| text.bytes)
    }

    fn digest(&self) -> String {
        self.query.digest().unwrap_or_default()
    }

    fn tables(&self) -> Option<&sql::Tables> {
        self.query.tables()?.as_ref().ok()
    }

    fn mentions(&self, schema: Option<&str>, name: &str) -> bool {
        self.query.text().is_some_and(|text| sql::text::mentions(text.bytes, &text.dialect, schema, name))
    }

    fn parts(&self, see: &mut dyn FnMut(RuleStatement<'_>, &dyn Inspect) -> bool) {
        if may_hold_texts(&self.query.statement) {
            self.session.show_parts(self.query, see);
        }
    }
}

impl Session {
    /// Takes the query through the chain: the plan is the query's from then on. Without policy this is one branch.
    #[inline]
    pub(super) fn ask_policy(&self, query: &mut Query<'_>) -> Verdict {
        match self.env.worker.chain.get() {
            Some(chain) => self.ask_chain(&chain, query),
            None => Verdict::Pass,
        }
    }

    #[inline(never)]
    fn ask_chain(&self, chain: &Chain, query: &mut Query<'_>) -> Verdict {
        let ask = RuleQuery {
            scope: self.policy_scope(chain),
            statement: self.belief.asked_of_policy(query.statement.digest, query.statement.access.only_reads()),
            may_refuse: may_be_refused(query.command),
            searches: &self.env.worker.stats.rule_searches,
        };
        let mut plan = std::mem::take(&mut query.plan);
        let verdict = chain.ask(&ask, &Inspected { session: self, query }, &mut plan);
        query.plan = plan;
        verdict
    }

    /// Shows the texts within a query: its statements, and each literal text that it prepares or runs.
    #[cold]
    fn show_parts(&self, query: &Query<'_>, see: &mut dyn FnMut(RuleStatement<'_>, &dyn Inspect) -> bool) {
        let Some(QueryText { bytes, dialect }) = query.text() else { return };
        let mut enough = false;
        sql::parts(bytes, &dialect, &mut |text| {
            let statement = self.here.cluster.classify(text, &dialect);
            let asked = self.belief.asked_of_policy(statement.digest, statement.access.only_reads());
            enough = see(asked, &Part { session: self, text, statement: &statement, dialect: &dialect });
            enough
        });
    }

    fn rule_session(&self) -> RuleSession<'_> {
        RuleSession {
            listener: &self.env.listener.name,
            cluster: &self.here.cluster.shared.name,
            user: &self.who.identity.user,
            client: self.env.handle.client_ip(),
        }
    }

    #[inline]
    pub(super) fn policy_scope(&self, chain: &Chain) -> RuleScope {
        let mut scope = self.who.identity.policy_scope.get();
        if !chain.knows(scope) {
            scope = chain.scope(self.rule_session());
            self.who.identity.policy_scope.set(scope);
        }
        scope
    }

    /// Answers a command that policy refuses; the session goes on.
    pub(super) async fn refuse_by_policy(&mut self, query: &Query<'_>, refusal: Refusal) -> Result<(), SessionEnd> {
        self.finish(query, End::Refused(Instant::now(), &refusal));
        if query.prepares() {
            self.belief.statements.forget_last();
        }
        self.answer_error(query.request, &refusal);
        self.client.flush().await.map_err(SessionEnd::ClientLost)
    }
}

impl Belief {
    #[inline]
    pub(super) fn asked_of_policy(&self, digest: u64, reads: bool) -> RuleStatement<'_> {
        RuleStatement { schema: self.state.schema(), schema_hash: self.facts().schema_hash, digest, reads }
    }

    /// The way to read texts in this state.
    pub(super) fn dialect_in(&self, state: &StateMap) -> Dialect {
        let now = self.facts().dialect;
        state.facts(&self.catalog, now.family, now.version).dialect
    }

    /// A text that is read in this state, without its literals.
    pub(super) fn digest_text_in(&self, text: &[u8], state: &StateMap) -> String {
        sql::digest(text, &self.dialect_in(state)).text
    }
}

/// Whether a command can be refused. Pins and hints are of no matter: nothing is routed.
fn may_be_refused(command: Command) -> bool {
    // These have no reply of their own, belong to a statement that runs, or have taken effect already.
    !matches!(command, Command::StmtSendLongData | Command::StmtFetch | Command::StmtReset | Command::SetOption)
}

/// Whether a statement may hold others that rules are asked about, too.
fn may_hold_texts(statement: &Statement) -> bool {
    statement.parts > 1
        || matches!(statement.kind, Kind::PreparedText | Kind::Compound | Kind::Explain)
        || statement.effects.iter().any(|effect| matches!(effect, Effect::WhileRunning { .. }))
}
