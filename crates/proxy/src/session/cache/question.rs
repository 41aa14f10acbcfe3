//! The question: whether a statement is one for the cache, and what the cache is asked for by it.

use std::sync::Arc;

use cache::{Comment, Context, Question, Refusal};
use facts::grants::Fingerprint;
use sql::{FoundRows, Kind};
use wire::Capabilities;
use wire::command::{Command, Execute, query_text_at};

use super::super::Session;
use super::super::client::Request;
use super::super::diagnostics::found_rows::counts_found_rows;
use super::super::query::{Body, Query};
use crate::session::belief::Belief;
use policy::CacheRule;

/// The question for the cache; a text is that of the request.
#[derive(Debug)]
pub(super) struct AskedFor {
    pub(super) context: Context,
    /// The rights that stand for the user there.
    pub(super) rights: Option<Fingerprint>,
    /// The text of a prepared statement, and its parameters with their types.
    prepared: Option<(Arc<[u8]>, Vec<u8>)>,
}

impl AskedFor {
    pub(super) fn question<'a>(&'a self, query: &'a Query<'_>) -> (Question<'a>, Comment<'a>) {
        let (text, parameters) = match &self.prepared {
            Some((text, parameters)) => (&**text, Some(&**parameters)),
            None => (query.text().map_or(&[][..], |text| text.bytes), None),
        };
        // Tags of the client are no part of the question: each trace would ask another one.
        let comment = cache::comment(sql::without_tags(text));
        (Question { context: &self.context, text: comment.rest, parameters }, comment)
    }
}

impl Session {
    /// The question for the cache.
    pub(super) fn asked(&mut self, query: &Query<'_>, cache: &CacheRule) -> Result<AskedFor, Refusal> {
        let Body::Execute(id) = query.body else {
            let (context, rights) = self.context(cache, None);
            return Ok(AskedFor { context, rights, prepared: None });
        };
        let capabilities = self.client.capabilities;
        // Whether columns are described in a reply depends on what its connection has sent before.
        if capabilities.contains(Capabilities::CACHE_METADATA) {
            return Err(Refusal::Command);
        }
        let known = self.belief.statements.find_mut(id).ok_or(Refusal::Command)?;
        let arguments = query.request.payload().get(1..).unwrap_or_default();
        let execute = Execute::parse(arguments, known.parameters, capabilities).map_err(|_| Refusal::Command)?;
        let count = execute.count.unwrap_or(u64::from(known.parameters));
        let types = known.types_of(count, execute.types).unwrap_or_default();
        let mut parameters = Vec::new();
        write_parameters(&mut parameters, count, types, &execute);
        let (text, prepared_in) = (known.prepared.key.text.clone(), known.prepared.state.clone());
        let (context, rights) = self.context(cache, Some(prepared_in));
        Ok(AskedFor { context, rights, prepared: Some((text, parameters)) })
    }
}

impl Belief {
    /// Whether a session may have this command answered by the cache at all.
    pub(super) fn may_ask(&self, query: &Query<'_>) -> Result<(), Refusal> {
        let statement = &*query.statement;
        match () {
            () if !matches!(query.command, Command::Query | Command::StmtExecute) || query.request.sequence != 0 => {
                Err(Refusal::Command)
            }
            () if query.opens_cursor => Err(Refusal::Command),
            () if statement.hint.is_some() => Err(Refusal::Hint),
            () if !matches!(query.body, Body::AsCame | Body::Execute(_)) => Err(Refusal::Rewritten),
            () if self.facts().in_system_schema => Err(Refusal::ServerTables),
            // Only the server knows what FOUND_ROWS() is behind it, and it is asked for nothing but SQL_CALC_FOUND_ROWS.
            () if !matches!(statement.found_rows, FoundRows::Rows { .. } | FoundRows::Aggregate | FoundRows::Uncut)
                && !counts_found_rows(statement) =>
            {
                Err(Refusal::Session)
            }
            () => Ok(()),
        }
    }
}

/// Whether a command is one that the cache is asked for: a query that is run.
pub(in crate::session) fn is_for_cache(query: &Query<'_>) -> bool {
    query.runs_text() && query.statement.kind == Kind::Select
}

/// Writes the parameters of an execution so that those that differ in anything are other bytes.
pub(super) fn write_parameters(out: &mut Vec<u8>, count: u64, types: &[u8], execute: &Execute<'_>) {
    out.clear();
    out.reserve(16 + types.len() + execute.null_bitmap.len() + execute.values.len());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(types.len() as u64).to_le_bytes());
    for part in [types, execute.null_bitmap, execute.values] {
        out.extend_from_slice(part);
    }
}

/// The text of COM_QUERY.
pub(super) fn text_of(request: &Request, capabilities: Capabilities) -> &[u8] {
    let arguments = request.payload().get(1..).unwrap_or_default();
    &arguments[query_text_at(arguments, capabilities).unwrap_or(arguments.len())..]
}
