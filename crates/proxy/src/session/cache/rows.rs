//! The rows that a session's statements read and write, as far as [`cache::rows`](::cache::Catalogued) can tell from its texts, parameters
//! and the catalogue of tables.

use cache::{Catalogued, Reads, WriteFacts};
use facts::tables::{TableCatalog, TableScope, WrittenRows};
use wire::Capabilities;
use wire::command::{Command, Execute};
use wire::parameters::Value;

use super::super::Session;
use super::super::client::Request;
use super::super::long_text::LONG_TEXT_BYTES;
use super::super::query::{Body, Query};
use crate::session::belief::Belief;

impl Session {
    /// The tables that a read reads: of a table one row, where that is certain. `None` if they are not known.
    pub(super) fn reads_of(&self, query: &Query<'_>) -> (TableScope, Option<Reads>) {
        let catalog = self.here.cluster.shared.published.tables.current();
        match catalog.as_ref().and_then(|catalog| self.belief.catalogued(catalog, query)) {
            Some(catalogued) => catalogued.reads(|| self.values(query)),
            None => (TableScope::Any, None),
        }
    }

    /// The tables and rows that a statement has written.
    pub(super) fn written_by(&self, query: &Query<'_>, facts: WriteFacts) -> WrittenRows {
        let catalog = self.here.cluster.shared.published.tables.current();
        let Some(catalogued) = catalog.as_ref().and_then(|catalog| self.belief.catalogued(catalog, query)) else {
            return WrittenRows::all(TableScope::Any);
        };
        let may_be_known =
            catalogued.text.len() <= LONG_TEXT_BYTES && matches!(query.command, Command::Query | Command::StmtExecute);
        catalogued.written(facts, may_be_known, || self.values(query))
    }

    /// The values of an execution's parameters; none of a text. `None` if they are not understood.
    fn values<'a>(&self, query: &Query<'a>) -> Option<Vec<Value<'a>>> {
        match query.body {
            Body::Execute(id) => self.parameters_of(id, query.request),
            _ => Some(Vec::new()),
        }
    }

    /// The values with which a request executes the statement of this id; `None` if they are not understood.
    pub(in crate::session) fn parameters_of<'a>(&self, id: u32, request: &'a Request) -> Option<Vec<Value<'a>>> {
        let known = self.belief.statements.find(id)?;
        let (arguments, capabilities) = (request.payload().get(1..)?, self.client.capabilities);
        let execute = Execute::parse(arguments, known.parameters, capabilities).ok()?;
        let count = execute.count.unwrap_or(u64::from(known.parameters));
        let types = match (execute.types, &known.types) {
            (Some(types), _) => types,
            (None, Some((of, types))) if *of == count => types,
            (None, _) if count == 0 => &[],
            (None, _) => return None,
        };
        let named = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let ahead = |parameter| self.was_sent_ahead(known.id, parameter);
        execute.parameters_but(types, known.parameters, named, ahead).ok()
    }
}

impl Belief {
    fn catalogued<'a>(&'a self, catalog: &'a TableCatalog, query: &'a Query<'_>) -> Option<Catalogued<'a>> {
        let text = query.text()?;
        Some(Catalogued {
            catalog,
            statement: &query.statement,
            text: text.bytes,
            dialect: text.dialect,
            schema: self.schema_of(query),
            is_as_came: matches!(query.body, Body::AsCame | Body::Execute(_)),
        })
    }
}
