//! Which tables the session's statements read and write, for reads that must find the last writes of their tables
//! (`consistency = "table"`).

use crate::session::belief::Belief;
use crate::session::cluster_session::ClusterSession;
use crate::session::who::Who;
use config::Consistency;
use facts::published::Defining;
use facts::tables::{TableCatalog, TableScope};
use sql::{Effect, Kind, Tables, Unread, Value};
use wire::errno;

use super::super::Session;
use super::super::query::Query;
use super::super::relay::Outcome;
use super::writes::may_have_written;
use crate::error::Refusal;

/// A client sets this user variable to say what its session's reads must see.
const VARIABLE: &str = "sqluice_consistency";

impl Session {
    /// The tables whose last writes a read must find.
    pub(in crate::session) fn read_scope(&self, query: &Query<'_>) -> TableScope {
        self.here.cluster.shared.published.watch_tables();
        let statement = &*query.statement;
        // Reads of other tables may follow a statement that opens a transaction, or stays on its connection.
        let alone = statement.transaction.is_none() && self.belief.facts().autocommit && !query.will_pin();
        if !alone || !statement.access.only_reads() {
            return TableScope::Any;
        }
        self.scope_of(query, TableCatalog::read_by)
    }

    /// Notes what a statement may have written; nothing of it counts before it is committed.
    pub(in crate::session) fn add_written(&mut self, query: &Query<'_>, outcome: &Outcome) {
        // Triggers may have written although no row was changed.
        let changes = matches!(query.statement.kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Load);
        if !changes && !may_have_written(query, outcome) {
            return;
        }
        let scope = match self.here.cluster.shared.writes.are_watched_by_table() {
            true => self.scope_of(query, TableCatalog::written_by),
            false => TableScope::Any,
        };
        self.transaction.written = Some(match &self.transaction.written {
            Some(before) => before.and(&scope),
            None => scope,
        });
    }

    /// The tables that a statement touches, by the catalogue of tables as it is now.
    pub(in crate::session) fn scope_of(
        &self,
        query: &Query<'_>,
        part: fn(&TableCatalog, &Result<Tables, Unread>, Option<&str>) -> TableScope,
    ) -> TableScope {
        let Some(catalog) = self.here.cluster.shared.published.tables.current() else { return TableScope::Any };
        let Some(named) = query.tables() else { return TableScope::Any };
        part(&catalog, named, self.belief.schema_of(query))
    }
}

impl ClusterSession {
    /// For as long as a statement runs that may define tables, views, triggers and the like, and until the catalogue was
    /// read after it, the catalogue is not believed.
    #[inline]
    pub(in crate::session) fn defining(&self, query: &Query<'_>) -> Option<Defining> {
        let statement = &*query.statement;
        if matches!(statement.kind, Kind::Select | Kind::Insert | Kind::Update | Kind::Delete) && statement.parts == 1 {
            return None;
        }
        let published = &self.cluster.shared.published;
        (published.tables.is_watched() && may_define(query)).then(|| published.defining())
    }
}

impl Belief {
    /// The schema in which a statement's unqualified names are.
    pub(in crate::session) fn schema_of<'a>(&'a self, query: &'a Query<'_>) -> Option<&'a str> {
        query.prepared().map_or(&self.state, |prepared| &prepared.state).schema()
    }
}

impl Who {
    /// Takes `SET @sqluice_consistency = '…'`; gives the error of a value that means nothing.
    pub(in crate::session) fn take_consistency(&mut self, query: &Query<'_>) -> Option<Refusal> {
        if query.prepares() {
            return None;
        }
        for effect in &query.statement.effects {
            let Effect::UserVariable { name, value } = effect else { continue };
            if name != VARIABLE {
                continue;
            }
            let word = match value {
                Value::Literal(literal) => literal.trim_matches('\''),
                Value::Default | Value::Unknown => "",
            };
            let asked = Consistency::ALL.iter().find(|known| known.word().eq_ignore_ascii_case(word));
            self.identity.consistency = match asked {
                Some(asked) => *asked,
                None if word.eq_ignore_ascii_case("null") => self.identity.configured,
                None => {
                    let words: Vec<&str> = Consistency::ALL.iter().map(|known| known.word()).collect();
                    let why = format_args!("@{VARIABLE} must be NULL or one of '{}', as a literal", words.join("', '"));
                    return Some(Refusal::own(errno::ER_WRONG_VALUE_FOR_VAR, b"42000", why));
                }
            };
        }
        None
    }
}

fn may_define(query: &Query<'_>) -> bool {
    let statement = &*query.statement;
    if query.prepares() || statement.access.only_reads() {
        return false;
    }
    let is_temporary =
        |effect: &Effect| matches!(effect, Effect::CreateTemporaryTable(_) | Effect::DropTable { temporary: true, .. });
    match statement.kind {
        Kind::Definition if statement.parts == 1 => !statement.effects.iter().any(is_temporary),
        Kind::Definition | Kind::PreparedText | Kind::Compound | Kind::Unknown => true,
        _ if statement.parts == 1 => false,
        _ => query.tables().is_none_or(|named| named.as_ref().map_or(true, |named| named.defines)),
    }
}
