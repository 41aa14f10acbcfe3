//! What a session believes of its state, and what a backend connection really has: the same map on both sides.
//!
//! The map is typed by key and the last writer wins; it is no log. Each value is kept as the assignment that makes it
//! (`sql_mode='ANSI'`), so that the difference of two maps is one `SET` statement. A fingerprint, equal for equal maps
//! whatever the order of writing, lets the pool find a connection that needs no difference at all.

use std::hash::BuildHasher;
use std::sync::Arc;

use cluster::catalog::{Catalog, Collation};
use foldhash::fast::FixedState;
use sql::{Dialect, Encoding, Family, Modes};

const HASHER: FixedState = FixedState::with_seed(0x5173_1ce5);

/// Key under which the connection's character set and collation are kept, whichever of the two was set last: each of
/// them changes the other.
const CONNECTION_COLLATION: &str = "collation_connection";

/// What results are converted to.
const RESULTS: &str = "character_set_results";

/// How an assignment begins that sets a collation for results, and with it the client's character set and the connection's
/// collation.
const NAMES: &str = "NAMES ";

/// Variables that `SET … = DEFAULT` cannot bring back: a connection that has one is reset as a whole.
const WITHOUT_DEFAULT: [&str; 7] = [
    "gtid_next",
    "gtid_seq_no",
    "insert_id",
    "last_insert_id",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "pseudo_thread_id",
];

/// How a variable gets its global value again. DEFAULT switches two of MySQL's off, whatever their global value says (seen
/// with 9.7).
fn back_to_global(name: &str) -> &'static str {
    match name {
        "foreign_key_checks" => "=@@global.foreign_key_checks",
        "unique_checks" => "=@@global.unique_checks",
        _ => "=DEFAULT",
    }
}

/// Whether `SET … = DEFAULT` takes a variable back to where it was after the login.
pub fn has_default(name: &str) -> bool {
    !WITHOUT_DEFAULT.contains(&name)
}

/// Variables that choosing a schema sets; of the state only when the client has set one itself.
pub const OF_SCHEMA: [&str; 2] = ["character_set_database", "collation_database"];

/// What, besides the schema, makes the same text prepare to another statement.
const PREPARE_CONTEXT: [&str; 3] = ["character_set_client", CONNECTION_COLLATION, "sql_mode"];

/// What takes a user variable's value and type away: NULL has the type of the value before, and on MySQL the collation too,
/// whatever it is cast to.
const NO_VALUE: [&str; 2] = ["=X''", "=NULL"];

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

/// What follows from a state for each statement, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct StateFacts {
    /// Of the state: for another one these facts are no good.
    pub fingerprint: u64,
    /// How servers read the client's text.
    pub dialect: Dialect,
    /// Whether autocommit is on.
    pub autocommit: bool,
    /// Whether transactions are READ ONLY unless they say otherwise.
    pub reads_only: bool,
    /// Of the schema's name: tells digests of different schemas apart.
    pub schema_hash: u64,
}

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
}

impl Difference {
    /// Nothing has to be done.
    pub fn is_empty(&self) -> bool {
        !self.reset && self.schema.is_none() && self.set.is_empty() && self.set_user.is_empty()
    }
}

impl StateMap {
    /// What a session begins with after a login with this handshake collation. Variables that connections may begin with
    /// different values of are part of it, others are left to the connection.
    pub fn of_session(catalog: &Catalog, collation: u16, schema: Option<&str>) -> StateMap {
        let mut state = StateMap::after_login(catalog, collation, schema);
        for (name, value) in &catalog.uneven {
            state.set_variable(name, value);
        }
        state
    }

    /// What is known of a backend connection right after a login with this handshake collation.
    pub fn after_login(catalog: &Catalog, collation: u16, schema: Option<&str>) -> StateMap {
        let mut state = StateMap::default();
        state.set_schema(schema);
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

    /// A number that is equal for equal states.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The schema, if one is chosen.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
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
        let assignment = format!("{name}={}", value_literal(name, value));
        self.set(canonical(name), assignment);
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

    /// Whether what this session writes goes to the binary log, if the server has one.
    pub fn logs_writes(&self) -> bool {
        !self.variable("sql_log_bin").is_some_and(is_off)
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

    /// This state without the variables that connections begin with different values of; `None` if it has none of them.
    pub fn without_uneven(&self, catalog: &Catalog) -> Option<StateMap> {
        let mut without = self.clone();
        catalog.uneven.keys().for_each(|name| without.remove_variable(name));
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

    /// Whether autocommit is on.
    pub fn autocommit(&self, catalog: &Catalog) -> bool {
        let value = self.variable("autocommit").or_else(|| catalog.globals.get("autocommit").map(String::as_str));
        !value.is_some_and(is_off)
    }

    /// Whether transactions of this session are READ ONLY unless they say otherwise.
    pub fn reads_only(&self, catalog: &Catalog) -> bool {
        let global = |name: &str| catalog.globals.get(name).map(String::as_str);
        let value = self.variable("tx_read_only").or_else(|| global("tx_read_only"));
        value.or_else(|| global("transaction_read_only")).is_some_and(|value| !is_off(value))
    }

    /// Whether the server keeps, for this connection, how its statements went: `profiling` or `optimizer_trace` is on.
    pub fn is_traced(&self) -> bool {
        self.variable("profiling").is_some_and(|value| !is_off(value))
            || self.variable("optimizer_trace").is_some_and(|value| value.contains("enabled=on"))
    }

    /// How a server of this family and version would read text in this state.
    pub fn dialect(&self, catalog: &Catalog, family: Family, version: u32) -> Dialect {
        let value = |name: &str| {
            self.variable(name).or_else(|| catalog.globals.get(name).map(String::as_str)).unwrap_or_default()
        };
        let modes =
            if value("sql_mode").is_empty() { Modes::empty() } else { sql::modes_from_sql_mode(value("sql_mode")) };
        let encoding = match value("character_set_client") {
            "" => Encoding::AsciiSafe,
            charset => sql::encoding_of_charset(charset),
        };
        Dialect { family, version, modes, encoding }
    }

    /// What statements must know of this state.
    pub fn facts(&self, catalog: &Catalog, family: Family, version: u32) -> StateFacts {
        StateFacts {
            fingerprint: self.fingerprint,
            dialect: self.dialect(catalog, family, version),
            autocommit: self.autocommit(catalog),
            reads_only: self.reads_only(catalog),
            schema_hash: schema_hash(self.schema.as_deref()),
        }
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

    /// Whether a connection in this state can be brought to `wanted`: a schema, once chosen, can only be exchanged.
    pub fn can_become(&self, wanted: &StateMap) -> bool {
        self.schema.is_none() || wanted.schema.is_some()
    }

    /// Whether nothing but a reset brings a connection from this state to `wanted`.
    pub fn needs_reset(&self, wanted: &StateMap) -> bool {
        let stuck = |entry: &Entry| WITHOUT_DEFAULT.contains(&&*entry.key) && wanted.position(&entry.key).is_err();
        self.entries.iter().any(stuck)
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

    /// What brings a connection from this state to `wanted`.
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
        let (mut set, mut set_user) = (String::new(), String::new());
        let mut assign = |assignment: &str, suffix: &str| {
            let set = if assignment.starts_with('@') { &mut set_user } else { &mut set };
            set.push_str(if set.is_empty() { "SET " } else { "," });
            set.push_str(assignment);
            set.push_str(suffix);
        };
        let results = |entries: &Vec<Entry>| entries.iter().find(|entry| &*entry.key == RESULTS).cloned();
        let names = results(&wanted.entries).filter(|entry| entry.assignment.starts_with(NAMES));
        let names = names.filter(|entry| results(have).as_ref() != Some(entry));
        if let Some(names) = &names {
            // First, so that what it sets along has its own value afterwards.
            assign(&names.assignment, "");
            for key in ["character_set_client", CONNECTION_COLLATION] {
                if wanted.position(key).is_err() && have.iter().all(|entry| &*entry.key != key) {
                    assign(key, "=DEFAULT");
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
                    if old.key.starts_with('@') {
                        NO_VALUE.iter().for_each(|suffix| assign(name, suffix));
                    } else {
                        assign(name, back_to_global(name));
                    }
                    have.next();
                }
                (old, Some(new)) => {
                    let same_key = old.is_some_and(|old| old.key == new.key);
                    // Choosing a schema sets these as it likes.
                    let overwritten = difference.schema.is_some() && OF_SCHEMA.contains(&&*new.key);
                    let same = same_key && !overwritten && old.is_some_and(|old| old.assignment == new.assignment);
                    if set_along(new) {
                        if &*new.key != RESULTS {
                            assign(&new.assignment, "");
                        }
                    } else if !same {
                        assign(&new.assignment, "");
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
        (difference.set, difference.set_user) = (set, set_user);
        difference
    }

    /// The state of a connection behind COM_RESET_CONNECTION: the schema stays, of the rest only defaults are known.
    pub fn after_reset(&self) -> StateMap {
        let mut state = StateMap::default();
        state.set_schema(self.schema.as_deref());
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

/// Of a user's name: tells digests of different users apart.
pub fn user_hash(user: &str) -> u64 {
    HASHER.hash_one(("user", user))
}

fn schema_hash(schema: Option<&str>) -> u64 {
    schema.map_or(0, |name| HASHER.hash_one(("schema", name)))
}

fn is_off(value: &str) -> bool {
    matches!(value, "0" | "OFF" | "off" | "FALSE" | "false")
}

/// One key for names that mean the same variable.
fn canonical(name: &str) -> &str {
    match name {
        "character_set_connection" => CONNECTION_COLLATION,
        "transaction_isolation" => "tx_isolation",
        "transaction_read_only" => "tx_read_only",
        name => name,
    }
}

/// A value as a tracker tells it, as SQL: numbers bare (a quoted number is refused by numeric variables), all else
/// quoted so that no sql_mode reads it otherwise.
fn value_literal(name: &str, value: &str) -> String {
    if name == RESULTS && value.is_empty() {
        return "NULL".into();
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1;
    if is_number {
        return value.into();
    }
    let plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\');
    if plain { format!("'{value}'") } else { sql::text::hexadecimal(value.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(variables: &[(&str, &str)]) -> StateMap {
        let mut state = StateMap::default();
        for (name, value) in variables {
            state.set_variable(name, value);
        }
        state
    }

    #[test]
    fn equal_maps_have_equal_fingerprints_whatever_the_way_there() {
        let a = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00")]);
        let mut b = state(&[("time_zone", "SYSTEM"), ("autocommit", "OFF"), ("sql_mode", "ANSI")]);
        assert_ne!(a.fingerprint(), b.fingerprint());
        b.remove_variable("autocommit");
        b.set_variable("time_zone", "+02:00");
        assert_eq!((&a, a.fingerprint()), (&b, b.fingerprint()));
        b.set_schema(Some("shop"));
        assert_ne!(a.fingerprint(), b.fingerprint());
        b.set_schema(None);
        assert_eq!(a, b);
    }

    #[test]
    fn a_difference_sets_what_differs_and_defaults_what_is_gone() {
        let mut from = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00"), ("wait_timeout", "100")]);
        from.set_user_variable("old", "1");
        let mut to = state(&[("time_zone", "+03:00"), ("wait_timeout", "100")]);
        to.set_user_variable("x", "'a'");
        to.set_schema(Some("shop"));
        let difference = from.difference(&to);
        assert_eq!(difference.set, "SET sql_mode=DEFAULT,time_zone='+03:00'");
        assert_eq!(difference.set_user, "SET @`old`=X'',@`old`=NULL,@`x`='a'");
        assert_eq!(difference.schema.as_deref(), Some("shop"));
        assert!(to.difference(&to).is_empty());
        assert_eq!(StateMap::default().difference(&state(&[("a", "1"), ("b", "x")])).set, "SET a=1,b='x'");
        assert_eq!(state(&[("a", "1"), ("b", "x")]).difference(&StateMap::default()).set, "SET a=DEFAULT,b=DEFAULT");
        let checks = state(&[("unique_checks", "OFF")]);
        assert_eq!(checks.difference(&StateMap::default()).set, "SET unique_checks=@@global.unique_checks");
    }

    #[test]
    fn a_user_variable_that_is_null_keeps_its_type() {
        let mut state = StateMap::default();
        state.set_user_variable("x", "NULL");
        assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=X'',@`x`=NULL");
        state.set_user_variable("x", "1.5");
        state.set_user_variable("x", "NULL");
        state.set_user_variable("x", "NULL");
        assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=1.5,@`x`=NULL");
        state.set_user_variable("x", "2");
        assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=2");
    }

    #[test]
    fn charset_and_collation_of_the_connection_are_one_thing() {
        let mut session = state(&[("collation_connection", "utf8mb4_bin")]);
        session.set_variable("character_set_connection", "latin1");
        assert_eq!(session.entries.len(), 1);
        let difference = state(&[("collation_connection", "utf8mb4_bin")]).difference(&session);
        assert_eq!(difference.set, "SET character_set_connection='latin1'");
    }

    #[test]
    fn statements_are_prepared_in_their_own_context_and_nothing_else_of_it() {
        let mut now = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00")]);
        now.set_schema(Some("shop"));
        let then = state(&[("collation_connection", "latin1_bin"), ("gtid_seq_no", "5")]);
        let there = now.to_prepare_as_in(&then);
        assert_eq!(there.prepare_context(), then.prepare_context());
        assert_eq!((there.variable("time_zone"), there.variable("gtid_seq_no")), (Some("+02:00"), None));
        assert!(then.needs_reset(&there) && !there.needs_reset(&now));
    }

    #[test]
    fn the_collation_of_literals_is_that_of_the_connection() {
        let mut catalog = Catalog::default();
        for (id, name, is_default) in [(8, "latin1_swedish_ci", true), (47, "latin1_bin", false)] {
            catalog.collations.insert(id, Collation { charset: "latin1".into(), name: name.into(), is_default });
        }
        let of = |name: &str, value: &str| state(&[(name, value)]).connection_collation(&catalog).map(str::to_owned);
        assert_eq!(of("character_set_connection", "latin1").as_deref(), Some("latin1_swedish_ci"));
        assert_eq!(of("collation_connection", "latin1_bin").as_deref(), Some("latin1_bin"));
        assert_eq!(of("time_zone", "SYSTEM"), None);
    }

    #[test]
    fn choosing_a_schema_takes_its_character_set_away() {
        let mut from = state(&[("collation_database", "latin1_swedish_ci")]);
        let mut to = from.clone();
        from.set_schema(Some("a"));
        from.set_variable("collation_database", "latin1_swedish_ci");
        to.set_schema(Some("b"));
        to.set_variable("collation_database", "latin1_swedish_ci");
        assert_eq!(from.difference(&to).set, "SET collation_database='latin1_swedish_ci'");
    }

    #[test]
    fn what_has_no_default_resets_the_connection() {
        let from = state(&[("gtid_seq_no", "5"), ("sql_mode", "ANSI")]);
        let to = state(&[("sql_mode", "ANSI")]);
        let difference = from.difference(&to);
        assert!(difference.reset);
        assert_eq!(difference.set, "SET sql_mode='ANSI'");
    }

    #[test]
    fn values_are_written_so_that_every_mode_reads_them_alike() {
        for (name, value, literal) in [
            ("wait_timeout", "100", "100"),
            ("max_statement_time", "1.500000", "1.500000"),
            ("time_zone", "-03:00", "'-03:00'"),
            ("sql_mode", "", "''"),
            ("character_set_results", "", "NULL"),
            ("init_connect", "it's", "X'69742773'"),
            ("x", "1.2.3", "'1.2.3'"),
        ] {
            assert_eq!(value_literal(name, value), literal);
        }
    }

    #[test]
    fn a_collation_for_results_is_set_by_its_name_before_what_it_sets_along() {
        let collation = |charset: &str, name: &str, is_default| Collation {
            charset: charset.into(),
            name: name.into(),
            is_default,
        };
        let (plain, special) =
            (collation("utf8mb4", "utf8mb4_general_ci", true), collation("utf8mb4", "utf8mb4_unicode_ci", false));
        let mut to = state(&[("character_set_client", "latin1"), ("collation_connection", "latin1_swedish_ci")]);
        let mut from = to.clone();
        to.set_results_collation(&special);
        assert_eq!(
            from.difference(&to).set,
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci,character_set_client='latin1',\
             collation_connection='latin1_swedish_ci'"
        );
        assert_eq!(to.difference(&from).set, "SET character_set_results=DEFAULT");
        from.set_results_collation(&plain);
        assert_eq!(to.difference(&from).set, "SET character_set_results='utf8mb4'");
        assert!(to.difference(&to).is_empty());
        let mut alone = StateMap::default();
        alone.set_results_collation(&special);
        assert_eq!(
            StateMap::default().difference(&alone).set,
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci,character_set_client=DEFAULT,collation_connection=DEFAULT"
        );
    }

    #[test]
    fn ignore_space_asked_for_at_login_is_a_mode_that_a_fix_up_brings_back() {
        let mut catalog = Catalog::default();
        catalog.globals.insert("sql_mode".into(), "ANSI".into());
        let plain = StateMap::after_login(&catalog, 0, None).ignoring_space(false, &catalog);
        let asked = StateMap::after_login(&catalog, 0, None).ignoring_space(true, &catalog);
        assert_eq!(plain.variable("sql_mode"), None);
        assert_eq!(plain.difference(&asked).set, "SET sql_mode='IGNORE_SPACE,ANSI'");
    }

    #[test]
    fn the_charset_of_the_schema_comes_back_with_the_schema() {
        let plain = {
            let mut plain = StateMap::default();
            plain.set_schema(Some("shop"));
            plain
        };
        let mut own = plain.clone();
        own.set_variable("collation_database", "latin1_bin");
        assert_eq!(plain.difference(&own).set, "SET collation_database='latin1_bin'");
        let back = own.difference(&plain);
        assert_eq!((back.schema.as_deref(), back.set.as_str()), (Some("shop"), ""));
        own.set_schema(Some("shop"));
        assert_eq!(own, plain);
    }

    #[test]
    fn a_schema_once_chosen_can_only_be_exchanged() {
        let (mut with, without) = (StateMap::default(), StateMap::default());
        with.set_schema(Some("shop"));
        assert!(without.can_become(&with) && with.can_become(&with) && !with.can_become(&without));
    }

    #[test]
    fn a_session_keeps_what_it_began_with_when_servers_get_other_defaults() {
        let catalog = |mode: &str, uneven: bool| {
            let mut catalog = Catalog::default();
            catalog.globals.insert("sql_mode".into(), mode.into());
            if uneven {
                catalog.uneven.insert("sql_mode".into(), mode.into());
            }
            catalog
        };
        let (began, changed) = (catalog("ANSI", false), catalog("TRADITIONAL", true));
        let old = StateMap::of_session(&began, 0, None);
        assert_eq!((old.variable("sql_mode"), old.keep_beginning(&began, &began)), (None, None));
        let kept = old.keep_beginning(&began, &changed).unwrap();
        assert_eq!(kept.variable("sql_mode"), Some("ANSI"));
        assert_eq!(StateMap::of_session(&changed, 0, None).variable("sql_mode"), Some("TRADITIONAL"));
        let own = state(&[("sql_mode", "ORACLE")]);
        assert_eq!(own.keep_beginning(&began, &changed), None, "what the session set itself stays");
        assert_eq!(kept.without_uneven(&changed), Some(old.clone()));
        assert_eq!(old.without_uneven(&changed), None);
        let fresh = StateMap::after_login(&changed, 0, None);
        assert_eq!(fresh.difference(&kept).set, "SET sql_mode='ANSI'");
    }
}
