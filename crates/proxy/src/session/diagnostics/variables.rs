//! System variables that a statement set: what is known of their values, and what must be asked.

use std::sync::Arc;

use facts::catalog::Catalog;
use sql::Value;

use super::literals::is_word;
use super::read_back::{Row, rows};
use crate::session::belief::Belief;
use crate::session::environment::Environment;
use crate::session::relay::{Outcome, RelayError};
use crate::session::reset::ask;
use crate::session::tracking::is_tracking_variable;
use crate::session::{Doubt, Held, Past, Session};
use route::Pin;
use route::state::has_default;

/// The list of tracked variables that Sqluice sets on connections: the client's is not there any more.
const OWN_LIST: &str = "*";

/// Tracked names that are no state to carry to another connection: they report, or are meant for one statement.
pub(in crate::session) const REPORTS: [&str; 8] = [
    "error_count",
    "identity",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "statement_id",
    "timestamp",
    "warning_count",
];

/// Their values are used up or moved on by the statements that follow, and nothing shows how far: each RAND() moves its seeds,
/// each transaction uses up its GTID, version and time.
const MOVES: [&str; 7] = [
    "gtid_next",
    "gtid_seq_no",
    "immediate_server_version",
    "original_commit_timestamp",
    "original_server_version",
    "rand_seed1",
    "rand_seed2",
];

/// Whether a session that gives a variable this value keeps its connection, because the value may be another one later.
pub(in crate::session) fn moves(name: &str, value: Option<&str>) -> bool {
    // It is what each connection begins with.
    let is_own = name == "gtid_next" && value.is_some_and(|value| value.eq_ignore_ascii_case("AUTOMATIC"));
    MOVES.contains(&name) && !is_own
}

/// The same of a value in a text.
pub(in crate::session) fn moves_to(name: &str, value: &Value) -> bool {
    match value {
        Value::Literal(literal) => moves(name, Some(literal.trim_matches('\''))),
        _ => moves(name, None),
    }
}

/// The variables whose values change when this one is set. Servers tell nothing of them (seen with MariaDB 10.11 and MySQL
/// 9.7).
fn changed_along(set: &str) -> &'static [&'static str] {
    match set {
        "character_set_database" => &["collation_database"],
        "character_set_server" => &["collation_server"],
        "log_queries_not_using_indexes" => &["log_slow_filter"],
        "log_slow_admin_statements" | "log_slow_slave_statements" => &["log_slow_disabled_statements"],
        "log_slow_disabled_statements" => &["log_slow_admin_statements", "log_slow_slave_statements"],
        "log_slow_filter" => &["log_queries_not_using_indexes"],
        "max_join_size" => &["sql_big_selects"],
        "old" => &["old_mode"],
        "wsrep_causal_reads" => &["wsrep_sync_wait"],
        "wsrep_sync_wait" => &["wsrep_causal_reads"],
        _ => &[],
    }
}

/// Whether a value is the global one, which each connection has: a SET that failed has given the session none of its own. To set
/// it all the same could be refused, as the SET was.
fn is_global(catalog: &Catalog, name: &str, value: &str) -> bool {
    // SELECT shows switches as numbers, SHOW VARIABLES and the tracker as words.
    let shown = |value: &str| match value {
        "ON" => Some("1"),
        "OFF" => Some("0"),
        _ => None,
    };
    catalog.globals.get(name).is_some_and(|global| global == value || shown(global) == Some(value))
}

/// Values beyond this stay on their connection.
const VALUE_BYTES_MAX: usize = 4096;

/// Variables whose values stay on their connection if more are in doubt.
const VARIABLES_MAX: usize = 16;

impl Past {
    /// The value of a system variable is asked for before its connection goes.
    pub(in crate::session) fn doubt_variable(&mut self, name: &str) {
        if !self.variables.iter().any(|known| **known == *name) {
            self.variables.push(name.into());
        }
    }
}

impl Session {
    /// Asks for the variables that are in doubt. Gives whether the connection is still good; a value without a report pins.
    pub(in crate::session) async fn read_variables(&mut self, held: &mut Held) -> bool {
        let names = std::mem::take(&mut self.belief.past.variables);
        if names.len() > VARIABLES_MAX {
            self.keep_opaque();
            return true;
        }
        let mut reported = Vec::new();
        match self.env.ask_variables(held, &names).await {
            Ok(Some(row)) => reported.extend(names.iter().zip(row)),
            // A global one is among them: its SET was refused, and the session has no value of its own.
            Ok(None) => {
                for name in &names {
                    match self.env.ask_variables(held, std::slice::from_ref(name)).await {
                        Ok(row) => reported.extend(std::iter::once(name).zip(row.unwrap_or_default())),
                        Err(_) => return false,
                    }
                }
            }
            Err(_) => return false,
        }
        let plain =
            |value: &[u8]| value.len() <= VALUE_BYTES_MAX && value.iter().all(|byte| (b' '..=b'~').contains(byte));
        if !reported.iter().filter_map(|(_, value)| value.as_deref()).all(plain) {
            self.keep_opaque();
            return true;
        }
        let state = Arc::make_mut(&mut self.belief.state);
        for (name, value) in reported {
            let value = String::from_utf8_lossy(value.as_deref().unwrap_or_default());
            if is_tracking_variable(name) {
                if value != OWN_LIST {
                    self.belief.tracking.set(name, &value);
                }
            } else if state.variable(name).is_some() || !is_global(&self.belief.catalog, name, &value) {
                state.set_variable(name, &value);
            }
        }
        held.lease.origin.state = self.belief.state.clone();
        true
    }

    fn keep_opaque(&mut self) {
        self.belief.pins.put(Pin::Opaque, true);
        self.env.show_pins(self.belief.pins.bits());
    }
}

impl Belief {
    /// A variable was set: the values of those that it changes are asked for.
    pub(in crate::session) fn doubt_changed_along(&mut self, set: &str) {
        for other in changed_along(set).iter().filter(|other| self.catalog.globals.contains_key(**other)) {
            self.past.doubt_variable(other);
        }
    }

    /// A statement has set a system variable of the session. The tracker knows best; MariaDB's tells nothing of
    /// `SET @@x = …` without a scope (seen with 10.11).
    pub(in crate::session) fn learn_variable(
        &mut self,
        held: &mut Held,
        name: &str,
        value: &Value,
        tracked: bool,
        outcome: &Outcome,
    ) {
        self.doubt_changed_along(name);
        let state = Arc::make_mut(&mut self.state);
        match value {
            Value::Default => {
                if matches!(name, "collation_connection" | "character_set_connection") {
                    self.past.doubt_variable("collation_connection");
                }
                // A connection's login would set another one.
                if name.starts_with("character_set_") || name.starts_with("collation_") {
                    if !tracked {
                        self.past.doubt_variable(name);
                    }
                } else if let Some(value) = self.catalog.uneven.get(name) {
                    state.set_variable(name, value);
                } else if !tracked
                    || REPORTS.contains(&name)
                    || state.variable(name) == self.catalog.globals.get(name).map(String::as_str)
                {
                    // The reported value is not the global one: MySQL switches foreign_key_checks and unique_checks off.
                    state.remove_variable(name);
                }
            }
            Value::Literal(literal) => {
                if !REPORTS.contains(&name) && !tracked || name == "timestamp" {
                    state.set_variable_literal(name, literal);
                    if (outcome.warnings > 0 || outcome.warned_before) && has_default(name) && is_word(name) {
                        // Another value may have been taken, and each connection would warn again.
                        self.past.doubt_variable(name);
                    }
                }
                if matches!(name, "last_insert_id" | "identity") {
                    let given = literal.parse().ok();
                    self.past.insert_id = given.unwrap_or(self.past.insert_id);
                    // TRUE, FALSE and numbers below 0 are literals, too.
                    self.past.doubt = given.is_none().then_some(Doubt::Any);
                    held.lease.origin.insert_id = given;
                }
            }
            Value::Unknown if name == "last_insert_id" || name == "identity" => {
                (self.past.doubt, held.lease.origin.insert_id) = (Some(Doubt::Any), None);
            }
            Value::Unknown if tracked && name != "timestamp" => {}
            Value::Unknown if REPORTS.contains(&name) || !has_default(name) || !is_word(name) => {
                self.pins.put(Pin::Opaque, true);
            }
            Value::Unknown => self.past.doubt_variable(name),
        }
    }
}

impl Environment {
    /// The session's values of these variables; `None` when the server refuses to tell one of them.
    async fn ask_variables(&self, held: &mut Held, names: &[Box<str>]) -> Result<Option<Row>, RelayError> {
        let capabilities = held.lease.origin.capabilities;
        let columns: Vec<_> = names.iter().map(|name| format!("@@session.`{name}`")).collect();
        let reply = ask(&mut held.lease, &format!("SELECT {}", columns.join(",")), &self.worker).await?;
        let row = reply.and_then(|reply| rows(&reply, names.len(), capabilities).ok()?.pop());
        Ok(row.filter(|row| row.len() == names.len()))
    }
}
