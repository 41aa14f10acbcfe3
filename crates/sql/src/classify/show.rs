//! SHOW, DESCRIBE, EXPLAIN, ANALYZE and USE.

use super::Classifier;
use crate::effect::{Effect, Value};
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Why};
use crate::words::W;

/// Verbs that EXPLAIN and ANALYZE take.
const EXPLAINABLE: [W; 8] = [W::Select, W::With, W::Values, W::Table, W::Insert, W::Replace, W::Update, W::Delete];

/// Beginnings of the names of status variables that each connection counts for itself.
const COUNTERS: [&str; 27] = [
    "access_",
    "binlog_",
    "busy_",
    "bytes_",
    "column_",
    "com_",
    "cpu_",
    "created_tmp",
    "delete_",
    "empty_",
    "executed_",
    "feature_",
    "handler",
    "last_query",
    "max_statement",
    "memory_used",
    "open",
    "queries",
    "questions",
    "rows_",
    "select_",
    "slow_queries",
    "sort",
    "subquery_",
    "table_",
    "tc_",
    "update_",
];

impl Classifier<'_> {
    /// SHOW: what every server answers alike is a read; what speaks of one server or of the connection is not.
    pub(super) fn show(&mut self) {
        self.kind(Kind::Show);
        self.cursor.bump();
        let mut global = false;
        while self.cursor.at_any(&[W::Full, W::Extended, W::Global, W::Session, W::Local]) {
            global |= self.cursor.at(W::Global);
            self.cursor.bump();
        }
        self.counting.shows(self.is_list());
        self.shown(global);
        // A WHERE clause may call functions; a name before it is no call.
        self.skip_to(&[W::Where]);
        self.scan();
    }

    /// The object that is shown: the parts of the past that it tells of, and the servers that can tell.
    fn shown(&mut self, global: bool) {
        match self.cursor.word {
            W::Tables
            | W::Columns
            | W::Fields
            | W::Create
            | W::Databases
            | W::Schemas
            | W::Triggers
            | W::Character
            | W::Charset
            | W::Collation
            | W::Grants
            | W::Privileges
            | W::Engines
            | W::Package
            | W::Contributors
            | W::Authors
            | W::Storage => {}
            W::Procedure | W::Function if self.cursor.ahead().at(W::Status) => {}
            W::Warnings | W::Errors => {
                self.asks |= Asks::DIAGNOSTICS;
                self.primary(Why::SessionState);
            }
            // COUNT(*) WARNINGS
            W::Count => {
                self.asks |= Asks::DIAGNOSTICS | Asks::MESSAGE_COUNT;
                self.primary(Why::SessionState);
            }
            W::Profile | W::Profiles => {
                self.asks |= Asks::CONNECTION;
                self.primary(Why::SessionState);
            }
            W::Status if !global => {
                if self.shows_counters() {
                    self.effect(Effect::CountsConnection);
                }
                self.asks |= Asks::CONNECTION;
                self.primary(Why::SessionState);
            }
            W::Variables => {
                self.asks |= Asks::SYSTEM_VARIABLES;
                if !global && self.shows_insert_id() {
                    self.asks |= Asks::LAST_INSERT_ID;
                }
                self.primary(Why::ServerState);
            }
            // Events are disabled on replicas; what is told of a table and of its indexes are each server's estimates.
            W::Events | W::Table | W::Index | W::Indexes | W::Keys => self.primary(Why::ServerState),
            W::Processlist => {
                self.asks |= Asks::PROCESSES;
                self.primary(Why::Administration);
            }
            // SHOW ENGINE INNODB STATUS tells ids of connections.
            _ if self.cursor.bytes().eq_ignore_ascii_case(b"engine") => {
                self.asks |= Asks::PROCESSES;
                self.primary(Why::Administration);
            }
            _ => self.primary(Why::Administration),
        }
    }

    /// Whether servers count the rows of what is shown: they make tables of some, which they read as a SELECT does.
    fn is_list(&self) -> bool {
        match self.cursor.word {
            W::Tables | W::Columns | W::Fields | W::Index | W::Indexes | W::Keys | W::Databases | W::Schemas => true,
            W::Variables | W::Status | W::Triggers | W::Character | W::Charset | W::Collation | W::Table => true,
            W::Engines | W::Storage | W::Events | W::Count | W::Profile => true,
            W::Procedure | W::Function | W::Package => {
                let ahead = self.cursor.ahead();
                ahead.at(W::Status) || ahead.bytes().eq_ignore_ascii_case(b"body")
            }
            _ => {
                let lists = [&b"plugins"[..], b"open", b"locales", b"query_response_time"];
                let word = self.cursor.bytes().to_ascii_lowercase();
                lists.contains(&&*word) || word.ends_with(b"_statistics")
            }
        }
    }

    /// SHOW STATUS that may show what this connection did, and not only what the server does.
    fn shows_counters(&self) -> bool {
        let like = self.cursor.ahead();
        if !like.bytes().eq_ignore_ascii_case(b"like") {
            return true;
        }
        let pattern = like.ahead().bytes().to_ascii_lowercase();
        let pattern = pattern.strip_prefix(b"'").or(pattern.strip_prefix(b"\"")).unwrap_or(&pattern);
        matches!(pattern, [b'%' | b'_', ..]) || COUNTERS.iter().any(|begin| pattern.starts_with(begin.as_bytes()))
    }

    /// Whether SHOW VARIABLES may show `last_insert_id` or `identity`: without LIKE, or with a pattern that begins as they do.
    fn shows_insert_id(&self) -> bool {
        let like = self.cursor.ahead();
        if !like.bytes().eq_ignore_ascii_case(b"like") {
            return true;
        }
        let pattern = like.ahead().bytes().to_ascii_lowercase();
        let pattern = pattern.strip_prefix(b"'").or(pattern.strip_prefix(b"\"")).unwrap_or(&pattern);
        let fixed = pattern.iter().position(|byte| matches!(byte, b'%' | b'_' | b'\\' | b'\'' | b'"'));
        let fixed = &pattern[..fixed.unwrap_or(pattern.len())];
        ["last_insert_id", "identity"].iter().any(|name| name.as_bytes().starts_with(fixed))
    }

    pub(super) fn use_schema(&mut self) {
        self.kind(Kind::Use);
        self.primary(Why::SessionChange);
        self.cursor.bump();
        match self.identifier() {
            Some(name) if self.cursor.at_end() => self.effect(Effect::Schema(name)),
            _ => self.unknown(),
        }
    }

    /// EXPLAIN, DESCRIBE and DESC: of a table, a statement or a connection.
    pub(super) fn explain(&mut self) {
        self.cursor.bump();
        self.explained(false);
    }

    /// ANALYZE: TABLE statistics, or MariaDB's way to run a statement and show how it went.
    pub(super) fn analyze(&mut self) {
        self.cursor.bump();
        let target =
            if self.cursor.at_any(&[W::Local, W::NoWriteToBinlog]) { self.cursor.ahead() } else { self.cursor };
        if target.at_any(&[W::Table, W::Tables]) {
            self.committing();
            return self.plain(Kind::Administration, Why::Administration);
        }
        self.explained(true);
    }

    fn explained(&mut self, executes: bool) {
        let mut executes = executes;
        let mut options = false;
        while !self.cursor.at_end() {
            match self.cursor.word {
                W::Analyze => executes = true,
                W::Into => self.explain_into(),
                // FOR CONNECTION n, or FOR SCHEMA name before a statement.
                W::For => {
                    if !self.cursor.ahead().at_any(&[W::Schema, W::Database]) {
                        return self.plain(Kind::Explain, Why::Administration);
                    }
                    self.cursor.bump();
                    self.cursor.bump();
                }
                W::Extended | W::Partitions => {}
                W::Format => {
                    self.cursor.bump();
                    self.cursor.bump();
                }
                word if EXPLAINABLE.contains(&word) => return self.explained_statement(executes),
                _ if self.cursor.kind() == TokenKind::Open => return self.explained_statement(executes),
                // The name of a table, perhaps of a column; the scan catches what is more than that.
                _ if !options && !executes => {
                    self.kind(Kind::Show);
                    return self.scan();
                }
                _ => break,
            }
            options = true;
            self.cursor.bump();
        }
        self.kind(Kind::Explain);
        self.primary(Why::Unknown);
        self.skip();
    }

    /// MySQL 8.3 and later: EXPLAIN FORMAT=JSON INTO @variable.
    fn explain_into(&mut self) {
        self.primary(Why::Into);
        if self.cursor.ahead().kind() == TokenKind::UserVariable {
            self.cursor.bump();
            let name = self.user_variable();
            self.assigned(name, Value::Unknown);
        }
    }

    /// The statement itself. A plan tells of one server: it is made from that server's own estimates. And a change that is
    /// only explained may be refused by a read-only server.
    fn explained_statement(&mut self, executes: bool) {
        self.kind(Kind::Explain);
        self.counting.explains(executes);
        let effects = self.effects.len();
        self.primary(Why::ServerState);
        self.statement();
        // The reply is that of a query, which tells nothing of the rows that were inserted.
        self.insert_id_unsure |= executes;
        if !executes {
            // Nothing ran: what the statement would have done to the session did not happen, except what the
            // optimizer may have evaluated.
            let kept: Vec<Effect> = self.effects.drain(effects..).filter(survives_explain).collect();
            self.effects.extend(kept);
        }
    }
}

/// Effects that stay when a statement is only explained: the optimizer evaluates constant calls, and MariaDB runs derived tables of
/// one row.
fn survives_explain(effect: &Effect) -> bool {
    use Effect::{Leaves, MayChangeSession, TakeUserLock, UserVariable};
    matches!(effect, MayChangeSession | Leaves(_) | TakeUserLock(_) | UserVariable { .. })
}
