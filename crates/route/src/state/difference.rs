//! The difference of two states, as statements that bring a connection from one to the other.

use std::sync::Arc;

use super::{CONNECTION_COLLATION, Entry, NAMES, OF_SCHEMA, RESULTS, StateMap, WITHOUT_DEFAULT};

/// How a variable gets its global value again. DEFAULT switches two of MySQL's off, whatever their global value says (seen
/// with 9.7).
fn back_to_global(name: &str) -> &'static str {
    match name {
        "foreign_key_checks" => "=@@global.foreign_key_checks",
        "unique_checks" => "=@@global.unique_checks",
        _ => "=DEFAULT",
    }
}

/// The assignments that take a user variable's value and type away: NULL has the type of the value before, and on MySQL the
/// collation too, whatever it is cast to.
const NO_VALUE: [&str; 2] = ["=X''", "=NULL"];

/// How to bring a connection from one state to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The connection must be reset first; `set` then starts from the state behind a reset.
    pub reset: bool,
    /// The schema to change to.
    pub schema: Option<Arc<str>>,
    /// A `SET` statement, empty when no system variable differs.
    pub set: String,
    /// Another one behind it, for user variables: their literals are read in the character set and `sql_mode` of the first.
    pub set_user: String,
    /// `set` has a variable that a server may refuse: it asks for a privilege, or for a value that not every server has.
    pub may_be_refused: bool,
}

/// Variables that any user may set, to values that one server of a cluster takes as another does, in order. All others may be
/// refused: a `sql_mode` or `optimizer_switch` of another version, a time zone or an engine that a server has not got.
const TAKEN: [&str; 36] = [
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "character_set_server",
    "collation_connection",
    "collation_server",
    "completion_type",
    "default_week_format",
    "div_precision_increment",
    "foreign_key_checks",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "join_buffer_size",
    "last_insert_id",
    "lock_wait_timeout",
    "long_query_time",
    "max_error_count",
    "max_execution_time",
    "max_heap_table_size",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_safe_updates",
    "sql_select_limit",
    "tmp_table_size",
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
    "unique_checks",
    "wait_timeout",
];

impl Difference {
    /// Nothing has to be done.
    pub fn is_empty(&self) -> bool {
        !self.reset && self.schema.is_none() && self.set.is_empty() && self.set_user.is_empty()
    }

    /// Adds an assignment, in up to two pieces.
    #[inline]
    fn assign(&mut self, begin: &str, end: &str) {
        let is_user = begin.starts_with('@');
        let name = begin.split_once('=').map_or(begin, |(name, _)| name);
        self.may_be_refused |= !is_user && !begin.starts_with(NAMES) && TAKEN.binary_search(&name).is_err();
        let set = if is_user { &mut self.set_user } else { &mut self.set };
        set.push_str(if set.is_empty() { "SET " } else { "," });
        set.push_str(begin);
        set.push_str(end);
    }

    /// Adds the assignment that gives a variable its global value again, or takes a user variable's value away.
    #[inline]
    fn unset(&mut self, entry: &Entry, name: &str) {
        if entry.key.starts_with('@') {
            NO_VALUE.iter().for_each(|suffix| self.assign(name, suffix));
        } else {
            self.assign(name, back_to_global(name));
        }
    }
}

impl StateMap {
    /// Whether a connection in this state can be brought to `wanted`: a schema, once chosen, can only be exchanged.
    pub fn can_become(&self, wanted: &StateMap) -> bool {
        self.schema.is_none() || wanted.schema.is_some()
    }

    /// Whether nothing but a reset brings a connection from this state to `wanted`.
    pub fn needs_reset(&self, wanted: &StateMap) -> bool {
        if self.fingerprint() == wanted.fingerprint() {
            return false;
        }
        let stuck = |entry: &Entry| WITHOUT_DEFAULT.contains(&&*entry.key) && wanted.position(&entry.key).is_err();
        self.entries.iter().any(stuck) || self.has_wide_literals() && self.entries != wanted.entries
    }

    /// Literals have two or four bytes a character. MariaDB takes such names of time zones, locales, engines and switches for
    /// unknown ones.
    fn has_wide_literals(&self) -> bool {
        let value = |at: usize| self.entries[at].assignment.split_once('\'').map(|(_, value)| value);
        let value = self.position(CONNECTION_COLLATION).ok().and_then(value);
        value.is_some_and(|value| ["utf16", "utf32", "ucs2"].iter().any(|wide| value.starts_with(wide)))
    }

    /// The difference that brings a connection from this state to `wanted`.
    pub fn difference(&self, wanted: &StateMap) -> Difference {
        let mut difference = Difference::default();
        if self.schema != wanted.schema {
            difference.schema = wanted.schema.clone();
        }
        let gone = |name: &&str| self.position(name).is_ok() && wanted.position(name).is_err();
        let chosen_anew = wanted.schema.is_some() && OF_SCHEMA.iter().any(gone);
        if chosen_anew {
            difference.schema = wanted.schema.clone();
        }
        let nothing = Vec::new();
        difference.reset = self.needs_reset(wanted);
        let have = if difference.reset { &nothing } else { &self.entries };
        let results = |entries: &Vec<Entry>| entries.iter().find(|entry| &*entry.key == RESULTS).cloned();
        let names = results(&wanted.entries).filter(|entry| entry.assignment.starts_with(NAMES));
        let names = names.filter(|entry| results(have).as_ref() != Some(entry));
        if let Some(names) = &names {
            // First, so that what it sets along has its own value afterwards.
            difference.assign(&names.assignment, "");
            for key in ["character_set_client", CONNECTION_COLLATION] {
                if wanted.position(key).is_err() && have.iter().all(|entry| &*entry.key != key) {
                    difference.assign(key, "=DEFAULT");
                }
            }
        }
        let set_along = |entry: &Entry| {
            names.is_some() && matches!(&*entry.key, "character_set_client" | RESULTS | CONNECTION_COLLATION)
        };
        let (mut have, mut want) = (have.iter().peekable(), wanted.entries.iter().peekable());
        loop {
            match (have.peek(), want.peek()) {
                (None, None) => break,
                (Some(old), new) if new.is_none_or(|new| old.key < new.key) => {
                    let name = old.assignment.split_once('=').map_or(&*old.key, |(name, _)| name);
                    if chosen_anew && OF_SCHEMA.contains(&name) {
                        have.next();
                        continue;
                    }
                    difference.unset(old, name);
                    have.next();
                }
                (old, Some(new)) => {
                    let same_key = old.is_some_and(|old| old.key == new.key);
                    // Choosing a schema sets these as it likes.
                    let overwritten = difference.schema.is_some() && OF_SCHEMA.contains(&&*new.key);
                    let same = same_key && !overwritten && old.is_some_and(|old| old.assignment == new.assignment);
                    if set_along(new) {
                        if &*new.key != RESULTS {
                            difference.assign(&new.assignment, "");
                        }
                    } else if !same {
                        difference.assign(&new.assignment, "");
                    }
                    want.next();
                    if same_key {
                        have.next();
                    }
                }
                // The guard above takes every pair with an old entry and no new one.
                (Some(_), None) => break,
            }
        }
        difference
    }

    /// The state of a connection behind COM_RESET_CONNECTION: the schema stays, of the rest only defaults are known. With MySQL a
    /// login that asked for it `ignores_space` again, beside the modes that are the server's default now.
    pub fn after_reset(&self, ignores_space: bool) -> StateMap {
        /// No value of any session, so that each sets its own.
        const OF_LOGIN: &str = "(IGNORE_SPACE,@@global.sql_mode)";
        let mut state = StateMap::default();
        state.set_schema(self.schema.as_deref());
        if ignores_space {
            state.set_variable_literal("sql_mode", OF_LOGIN);
        }
        state
    }
}
