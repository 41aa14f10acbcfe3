//! The state that a session believes it has, and that a backend connection really has: the same map on both sides.
//!
//! The map is typed by key and the last writer wins; it is no log. Each value is kept as the assignment that makes it
//! (`sql_mode='ANSI'`), so that the difference of two maps is one `SET` statement. A fingerprint, equal for equal maps
//! whatever the order of writing, lets the pool find a connection that needs no difference at all.

mod difference;
mod facts;
mod schema;

use std::hash::BuildHasher;
use std::sync::Arc;

use ::facts::catalog::{Catalog, Collation};
pub use difference::Difference;
pub use facts::StateFacts;
use foldhash::fast::FixedState;

const HASHER: FixedState = FixedState::with_seed(0x5173_1ce5);

/// Key under which the connection's character set and collation are kept, whichever of the two was set last: each of
/// them changes the other.
const CONNECTION_COLLATION: &str = "collation_connection";

/// The variable with the character set that results are converted to.
const RESULTS: &str = "character_set_results";

/// The variables that can be NULL, which trackers and SHOW VARIABLES tell as the empty string, and that refuse this string.
const NULL_IF_EMPTY: [&str; 6] = [
    RESULTS,
    "default_tmp_storage_engine",
    "enforce_storage_engine",
    "innodb_ft_user_stopword_table",
    "innodb_tmpdir",
    "external_table_storage_engine",
];

/// How an assignment begins that sets a collation for results, and with it the client's character set and the connection's
/// collation.
const NAMES: &str = "NAMES ";

/// Variables that `SET … = DEFAULT` cannot bring back: a connection that has one is reset as a whole. Every user of MySQL may
/// turn `require_row_format` on, but only those with a privilege may turn it off.
const WITHOUT_DEFAULT: [&str; 8] = [
    "gtid_next",
    "gtid_seq_no",
    "insert_id",
    "last_insert_id",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "pseudo_thread_id",
    "require_row_format",
];

/// Whether `SET … = DEFAULT` takes a variable back to where it was after the login.
pub fn has_default(name: &str) -> bool {
    !WITHOUT_DEFAULT.contains(&name)
}

/// Variables that choosing a schema sets; of the state only when the client has set one itself.
pub const OF_SCHEMA: [&str; 2] = ["character_set_database", "collation_database"];

/// Variables that change no answer of a statement that only reads, with autocommit.
const WITHOUT_ANSWER: [&str; 9] = [
    "autocommit",
    "foreign_key_checks",
    "interactive_timeout",
    "lock_wait_timeout",
    "net_read_timeout",
    "net_write_timeout",
    "sql_log_bin",
    "unique_checks",
    "wait_timeout",
];

/// The variables that, besides the schema, make the same text prepare to another statement.
const PREPARE_CONTEXT: [&str; 3] = ["character_set_client", CONNECTION_COLLATION, "sql_mode"];

/// One value: its key (a system variable's canonical name, or `@name`) and the assignment that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Arc<str>,
    assignment: Arc<str>,
}

impl Entry {
    fn hash(&self) -> u64 {
        HASHER.hash_one((&*self.key, &*self.assignment))
    }
}

/// The state of a session or of a backend connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateMap {
    schema: Option<Arc<str>>,
    /// Sorted by key.
    entries: Vec<Entry>,
    fingerprint: u64,
}

impl StateMap {
    /// The state of a session after a login with this handshake collation. Variables that connections may begin with different
    /// values of are part of it, others are left to the connection.
    pub fn of_session(catalog: &Catalog, collation: u16, schema: Option<&str>) -> StateMap {
        let mut state = StateMap::after_login(catalog, collation, schema);
        for (name, value) in &catalog.uneven {
            state.set_variable(name, value);
        }
        state
    }

    /// The known state of a backend connection right after a login with this handshake collation.
    pub fn after_login(catalog: &Catalog, collation: u16, schema: Option<&str>) -> StateMap {
        let mut state = StateMap::default();
        state.choose_schema(schema, catalog, false);
        let global = |name: &str| catalog.globals.get(name).map(String::as_str).unwrap_or_default();
        match catalog.login_collation(collation) {
            Some(known) => {
                state.set_variable("character_set_client", &known.charset);
                state.set_results_collation(known);
                state.set_variable(CONNECTION_COLLATION, &known.name);
            }
            None if !global("collation_connection").is_empty() => {
                state.set_variable("character_set_client", global("character_set_client"));
                state.set_variable("character_set_results", global("character_set_results"));
                state.set_variable(CONNECTION_COLLATION, global("collation_connection"));
            }
            None => {}
        }
        state
    }

    /// The same for a login with the capability IGNORE_SPACE, if `asked`: it is a part of `sql_mode` then, until that is
    /// set or the session is reset.
    pub fn ignoring_space(mut self, asked: bool, catalog: &Catalog) -> StateMap {
        if asked && let Some(modes) = catalog.globals.get("sql_mode") {
            let modes = if modes.is_empty() { "IGNORE_SPACE".to_owned() } else { format!("IGNORE_SPACE,{modes}") };
            self.set_variable("sql_mode", &modes);
        }
        self
    }

    /// The same for an account with a `max_statement_time` of its own, until that is set or the session is reset (MariaDB).
    pub fn with_statement_time(mut self, of_account: Option<&str>) -> StateMap {
        if let Some(seconds) = of_account {
            self.set_variable("max_statement_time", seconds);
        }
        self
    }

    /// A number that is equal for equal states.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The schema, if one is chosen.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The schema's name, to be shared.
    pub fn schema_name(&self) -> Option<&Arc<str>> {
        self.schema.as_ref()
    }

    /// Chooses a schema; `None` or an empty name is none.
    pub fn set_schema(&mut self, schema: Option<&str>) {
        let schema = schema.filter(|name| !name.is_empty());
        OF_SCHEMA.iter().for_each(|name| self.remove(name));
        if self.schema.as_deref() == schema {
            return;
        }
        self.fingerprint ^= schema_hash(self.schema.as_deref()) ^ schema_hash(schema);
        self.schema = schema.map(Arc::from);
    }

    /// A system variable has this value, in the server's own words.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.set(canonical(name), assignment(name, value));
    }

    /// A system variable was set to this SQL literal.
    pub fn set_variable_literal(&mut self, name: &str, literal: &str) {
        self.set(canonical(name), format!("{name}={literal}"));
    }

    /// Results have this collation's character set. Columns are announced with the collation. No name gives
    /// `character_set_results` another collation than the character set's default, and by number MariaDB refuses all
    /// others (1115): only SET NAMES does it, with the rest of the trio.
    pub fn set_results_collation(&mut self, collation: &Collation) {
        if collation.is_default {
            self.set_variable(RESULTS, &collation.charset);
        } else {
            self.set(RESULTS, format!("{NAMES}{} COLLATE {}", collation.charset, collation.name));
        }
    }

    /// A system variable has its default again.
    pub fn remove_variable(&mut self, name: &str) {
        self.remove(canonical(name));
    }

    /// Keeps what the session began with, as `began` says, where it is not sure any more that a connection has it: `now`
    /// tells. Gives whether anything had to be kept.
    pub fn keep_beginning(&self, began: &Catalog, now: &Catalog) -> Option<StateMap> {
        let mut kept: Option<StateMap> = None;
        for name in now.uneven.keys().filter(|name| !began.uneven.contains_key(*name)) {
            if let (None, Some(value)) = (self.variable(name), began.globals.get(name)) {
                kept.get_or_insert_with(|| self.clone()).set_variable(name, value);
            }
        }
        kept
    }

    /// This state without a variable that connections begin with different values of, which a server did not take, as its
    /// `refusal` says. Where that names none of them, all go. The values that the session has set itself stay: it began with others, those
    /// of `began`. `None` if nothing goes.
    pub fn without_uneven(&self, began: &Catalog, now: &Catalog, refusal: &str) -> Option<StateMap> {
        let is_given = |name: &&String| {
            let given = began.globals.get(*name).map(|value| assignment(name, value));
            self.position(canonical(name))
                .is_ok_and(|at| given.is_some_and(|given| *self.entries[at].assignment == given))
        };
        let given: Vec<&String> = now.uneven.keys().filter(is_given).collect();
        let is_named = |name: &&&String| refusal.contains(&format!("'{name}'"));
        let named: Vec<&String> = given.iter().filter(is_named).copied().collect();
        let mut without = self.clone();
        (if named.is_empty() { &given } else { &named }).iter().for_each(|name| without.remove_variable(name));
        (without.entries.len() < self.entries.len()).then_some(without)
    }

    /// A user variable has the value of this SQL literal.
    pub fn set_user_variable(&mut self, name: &str, literal: &str) {
        let key = format!("@{name}");
        let assignment = format!("@{}={literal}", sql::text::quote_identifier(name));
        if !literal.eq_ignore_ascii_case("null") {
            return self.set(&key, assignment);
        }
        // A variable that is NULL has the type of the value before; one that had none is binary.
        let before = self.position(&key).ok().map(|at| self.entries[at].assignment.clone());
        let before = before.unwrap_or_else(|| format!("@{}=X''", sql::text::quote_identifier(name)).into());
        if !before.ends_with("=NULL") {
            self.set(&key, format!("{before},{assignment}"));
        }
    }

    /// The session has no user variables any more.
    pub fn remove_user_variables(&mut self) {
        let names: Vec<String> = self.user_variables_beyond(&StateMap::default()).map(str::to_owned).collect();
        names.iter().for_each(|name| self.remove_user_variable(name));
    }

    /// A user variable's value is not known here (any more).
    pub fn remove_user_variable(&mut self, name: &str) {
        self.remove(&format!("@{name}"));
    }

    /// The value of a system variable as it stands in its assignment, without quotes.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let at = self.position(canonical(name)).ok()?;
        let (_, value) = self.entries[at].assignment.split_once('=')?;
        Some(value.trim_matches('\''))
    }

    /// The same; of a variable that the session has not set, the global value.
    pub fn variable_or_global<'a>(&'a self, name: &str, catalog: &'a Catalog) -> Option<&'a str> {
        self.variable(name).or_else(|| catalog.globals.get(name).map(String::as_str))
    }

    /// Whether servers tell of transactions (`session_track_transaction_info`), as far as the session has said so.
    pub fn tells_transactions(&self) -> bool {
        let tells = self.variable("session_track_transaction_info");
        tells.is_some_and(|tells| !tells.eq_ignore_ascii_case("OFF"))
    }

    /// The collation of the connection's string literals, if it is known.
    pub fn connection_collation<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a str> {
        let at = self.position(CONNECTION_COLLATION).ok()?;
        let (name, value) = self.entries[at].assignment.split_once('=')?;
        let value = value.trim_matches('\'');
        if name == CONNECTION_COLLATION {
            return Some(value);
        }
        let mut known = catalog.collations.values();
        known.find(|known| known.is_default && *known.charset == *value).map(|known| &*known.name)
    }

    /// The literal that a user variable was set to, if it is known; its name is lower case.
    pub fn user_variable(&self, name: &str) -> Option<&str> {
        let at = self.position(&format!("@{name}")).ok()?;
        self.entries[at].assignment.split_once('=').map(|(_, literal)| literal)
    }

    /// The names of the user variables whose values are known.
    pub fn user_variables(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.key.strip_prefix('@'))
    }

    /// The user variables that have a value in this state and none in `wanted`.
    pub fn user_variables_beyond<'a>(&'a self, wanted: &'a StateMap) -> impl Iterator<Item = &'a str> {
        let beyond = |entry: &&Entry| entry.key.starts_with('@') && wanted.position(&entry.key).is_err();
        self.entries.iter().filter(beyond).filter_map(|entry| entry.key.strip_prefix('@'))
    }

    /// Whether a user variable has a known value; its name is lower case.
    pub fn has_user_variable(&self, name: &str) -> bool {
        self.position(&format!("@{name}")).is_ok()
    }

    /// A number that is equal for states in which the same text prepares to the same statement.
    pub fn prepare_context(&self) -> u64 {
        let mut hash = schema_hash(self.schema.as_deref());
        for key in PREPARE_CONTEXT {
            if let Ok(at) = self.position(key) {
                hash ^= self.entries[at].hash();
            }
        }
        hash
    }

    /// The assignments that may change what a statement without variables of its own answers: all but those that are known not
    /// to.
    pub fn answer_context(&self) -> impl Iterator<Item = &[u8]> {
        let counts = |entry: &&Entry| !entry.key.starts_with('@') && !WITHOUT_ANSWER.contains(&&*entry.key);
        self.entries.iter().filter(counts).map(|entry| entry.assignment.as_bytes())
    }

    /// This state with what shapes a prepared statement as in `context`.
    pub fn to_prepare_as_in(&self, context: &StateMap) -> StateMap {
        let mut state = self.clone();
        state.set_schema(context.schema());
        for key in PREPARE_CONTEXT {
            match context.position(key) {
                Ok(at) => state.set(key, context.entries[at].assignment.to_string()),
                Err(_) => state.remove(key),
            }
        }
        state
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| (*entry.key).cmp(key))
    }

    fn set(&mut self, key: &str, assignment: String) {
        let at = self.position(key);
        if let Ok(at) = at {
            if *self.entries[at].assignment == *assignment {
                return;
            }
            self.fingerprint ^= self.entries[at].hash();
            self.entries[at].assignment = assignment.into();
            self.fingerprint ^= self.entries[at].hash();
        } else if let Err(at) = at {
            let entry = Entry { key: key.into(), assignment: assignment.into() };
            self.fingerprint ^= entry.hash();
            self.entries.insert(at, entry);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Ok(at) = self.position(key) {
            self.fingerprint ^= self.entries.remove(at).hash();
        }
    }
}

/// Of anything, the same in every worker and process.
pub fn hash_of(value: impl std::hash::Hash) -> u64 {
    HASHER.hash_one(value)
}

/// The variable that bounds the length of commands, which no client can set.
pub const PACKET_MAX: &str = "max_allowed_packet";

/// `max_allowed_packet` that the servers give to those who log in; 0 where that is not known.
pub fn packet_max(catalog: &Catalog) -> u64 {
    catalog.globals.get(PACKET_MAX).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Of a user of a cluster: tells digests of different users and clusters apart.
pub fn user_hash(cluster: &str, user: &str) -> u64 {
    HASHER.hash_one(("user", cluster, user))
}

fn schema_hash(schema: Option<&str>) -> u64 {
    schema.map_or(0, |name| HASHER.hash_one(("schema", name)))
}

/// One key for names that mean the same variable.
fn canonical(name: &str) -> &str {
    match name {
        "alter_algorithm" => "old_alter_table",
        "character_set_connection" => CONNECTION_COLLATION,
        // As with the connection's, each of the two changes the other.
        "character_set_server" => "collation_server",
        "transaction_isolation" => "tx_isolation",
        "log_slow_min_examined_row_limit" => "min_examined_row_limit",
        "log_slow_query" => "slow_query_log",
        "log_slow_query_time" => "long_query_time",
        "pseudo_replica_mode" => "pseudo_slave_mode",
        "storage_engine" => "default_storage_engine",
        "tmp_memory_table_size" => "tmp_table_size",
        "transaction_read_only" => "tx_read_only",
        name => name,
    }
}

/// Gives a variable a value that a server has told, as SQL: numbers bare (a quoted number is refused by numeric variables), all
/// else quoted so that no sql_mode reads it otherwise.
fn assignment(name: &str, value: &str) -> String {
    let is_null = value.is_empty() && NULL_IF_EMPTY.contains(&name);
    // The text that it has without a time is refused.
    let is_word = name == "system_versioning_asof" && value == "DEFAULT";
    let is_plain = || value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\');
    match value {
        _ if is_null => [name, "=NULL"].concat(),
        _ if is_word || is_number(value) => [name, "=", value].concat(),
        _ if is_plain() => [name, "='", value, "'"].concat(),
        _ => [name, "=", &sql::text::hexadecimal(value.as_bytes())].concat(),
    }
}

/// Whether a value is a decimal number without an exponent.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1
}

#[cfg(test)]
mod tests;
