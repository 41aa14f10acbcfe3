//! The catalog: collations and stored functions, which the servers know and the data plane must know too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use sql::{Asks, Leaves};

/// Values of system variables by their names, in lower case. Each new state of a session looks some up.
pub type Globals = HashMap<String, String, RandomState>;

/// The data access that a stored function declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineAccess {
    /// NO SQL, CONTAINS SQL, READS SQL DATA.
    Reads,
    /// MODIFIES SQL DATA.
    Writes,
}

/// The effects of a table or a view that the text of a statement with it does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Reading it writes, locks, or changes the session.
    pub writes: bool,
    /// Reading it calls stored functions, which may change the session.
    pub calls: bool,
    /// State that any statement with it may leave on its connection.
    pub leaves: Leaves,
    /// State that a statement leaves if it writes: that of triggers and of columns' defaults.
    pub leaves_of_writes: Leaves,
    /// Writing it fires triggers that may set user variables. A reply that is an error does not report that.
    pub sets_variables: bool,
    /// Reading it runs functions that may set user variables.
    pub reads_set_variables: bool,
    /// Writing it fires triggers that may set session variables, of which a reply that is an error does not tell.
    pub sets_settings: bool,
    /// The results of earlier statements that code behind it may ask for: LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS().
    pub asks: Asks,
    /// The monitor may not read the view: whether reading it writes is not known.
    pub unread: bool,
}

impl Hidden {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Hidden) -> Hidden {
        Hidden {
            writes: self.writes || other.writes,
            calls: self.calls || other.calls,
            leaves: self.leaves | other.leaves,
            leaves_of_writes: self.leaves_of_writes | other.leaves_of_writes,
            sets_variables: self.sets_variables || other.sets_variables,
            reads_set_variables: self.reads_set_variables || other.reads_set_variables,
            sets_settings: self.sets_settings || other.sets_settings,
            asks: self.asks | other.asks,
            unread: self.unread || other.unread,
        }
    }

    /// Whether code behind it may ask for LAST_INSERT_ID(), or set it.
    pub fn may_ask_insert_id(&self) -> bool {
        self.asks.contains(Asks::LAST_INSERT_ID) || self.writes || self.unread
    }

    /// The results of earlier statements that code behind it may ask for; of an unread view that may be all.
    pub fn may_ask(&self) -> Asks {
        if self.unread { Asks::all() } else { self.asks }
    }

    /// Whether reading it runs code that may change the session, or may do so.
    pub fn runs_code(&self) -> bool {
        self.calls || self.writes || self.unread
    }

    /// The effects on a statement that only reads: it fires no trigger. `None` if there are none.
    pub fn of_reads(self) -> Option<Hidden> {
        let none = Leaves::empty();
        let rest = Hidden { leaves_of_writes: none, sets_variables: false, sets_settings: false, ..self };
        (rest != Hidden::default()).then_some(rest)
    }

    /// State that is left by reads or by writes.
    pub fn all_leaves(self) -> Leaves {
        self.leaves | self.leaves_of_writes
    }
}

/// A character set and collation, as the numeric id of the handshake names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    /// Character set, for example `utf8mb4`.
    pub charset: Arc<str>,
    /// Collation, for example `utf8mb4_general_ci`.
    pub name: Arc<str>,
    /// It is the character set's built-in default: what `SET character_set_results = CHARSET` gives. MariaDB's
    /// `character_set_collations` does not change that.
    pub is_default: bool,
}

/// More collations of a schema are not kept.
const COLLATIONS_MAX: usize = 32;

/// A snapshot of the servers' dictionaries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Grows with each change, so that remembered classifications can be dropped.
    pub number: u64,
    /// By handshake id.
    pub collations: HashMap<u16, Collation>,
    /// Stored functions by (schema, name), both in lower case.
    pub functions: HashMap<(String, String), RoutineAccess>,
    /// The names of stored functions, of any schema, that are words of the servers' own, in lower case.
    pub own_words: HashSet<String>,
    /// State that stored functions may leave on the connection that calls them, where that is any; named as those.
    pub function_leaves: HashMap<(String, String), Leaves>,
    /// The same of all procedures.
    pub procedure_leaves: HashMap<(String, String), Leaves>,
    /// The results of earlier statements that functions and procedures may ask for, where there are any; named as those.
    pub routine_asks: HashMap<(String, String), Asks>,
    /// The names of MariaDB's packages of any schema, in lower case.
    pub packages: HashSet<String>,
    /// Tables and views that do more than their names tell; named as functions are.
    pub hidden: HashMap<(String, String), Hidden>,
    /// Whether `functions` could be read completely; if not, every unknown function means the primary.
    pub functions_complete: bool,
    /// Global values of system variables that a fresh connection starts with, names in lower case
    /// (`sql_mode`, `character_set_server`, `autocommit`, `init_connect`, `transaction_isolation`, `time_zone`, …).
    pub globals: Globals,
    /// `globals` are those of a primary: a replica's never take their place.
    pub of_primary: bool,
    /// Session variables that backend connections may begin with different values of, because the servers' global values
    /// differ or have been changed since Sqluice began to watch; with the value that a new session begins with. A name
    /// that is here once stays.
    pub uneven: BTreeMap<String, String>,
    /// The default collations of schemas, as far as the monitor sees them.
    pub schemas: HashMap<String, String>,
    /// Schemas whose default collation was changed since Sqluice began to watch, with all that they had; the last one is that of
    /// now. A session keeps the one that it found when it chose the schema, so connections in the same schema differ. A name that
    /// is here once stays.
    pub recollated: BTreeMap<String, Vec<String>>,
}

impl Catalog {
    /// The statements that servers run in each session before its first command, unless there are none.
    pub fn init_connect(&self) -> Option<&str> {
        self.globals.get("init_connect").map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The collation of a session whose login asks for this one. If that is a character set's built-in default, MariaDB takes the
    /// character set alone, and `character_set_collations` has its collation (since 11.5 utf8mb4_uca1400_ai_ci for
    /// utf8mb4_general_ci; <https://mariadb.com/docs/server/reference/system-variables/character_set_collations>).
    pub fn login_collation(&self, id: u16) -> Option<&Collation> {
        let asked = self.collations.get(&id)?;
        let mapping = self.globals.get("character_set_collations").filter(|_| asked.is_default);
        let mapped = mapping.and_then(|mapping| self.mapped_collation(mapping, &asked.charset));
        Some(mapped.unwrap_or(asked))
    }

    /// The default collation of a character set by this value of MariaDB's `character_set_collations`, if it names one.
    pub fn mapped_collation(&self, mapping: &str, charset: &str) -> Option<&Collation> {
        let mut pairs = mapping.split(',').filter_map(|pair| pair.trim().split_once('='));
        let (_, name) = pairs.find(|(of, _)| *of == charset)?;
        self.collation(charset, name)
    }

    /// A collation by its name, which may lack the character set as those of MariaDB's that fit several.
    pub fn collation(&self, charset: &str, name: &str) -> Option<&Collation> {
        let short = |known: &Collation| {
            let rest = known.name.strip_prefix(charset).and_then(|rest| rest.strip_prefix('_'));
            *known.charset == *charset && rest == Some(name)
        };
        self.collations.values().find(|known| *known.name == *name || short(known))
    }

    /// Takes note of the session variables, out of `session_variables`, that connections cannot be trusted to begin with
    /// as `self.globals` says: those that were uneven `before`, that had another value then, or that one of the `others`,
    /// the other servers' global variables, has otherwise. A variable that one of the servers does not know is left out.
    pub fn find_uneven<'a>(
        &mut self,
        before: &Catalog,
        others: &[Globals],
        session_variables: impl Iterator<Item = &'a str>,
    ) {
        for name in session_variables {
            let Some(value) = self.globals.get(name) else { continue };
            let differs = |globals: &Globals| globals.get(name).is_some_and(|other| other != value);
            if others.iter().any(|other| !other.contains_key(name)) {
                continue;
            }
            if before.uneven.contains_key(name) || differs(&before.globals) || others.iter().any(differs) {
                self.uneven.insert(name.to_owned(), value.clone());
            }
        }
    }

    /// Takes note of the schemas that have another default collation than `before`.
    pub fn find_recollated(&mut self, before: &Catalog) {
        self.recollated.clone_from(&before.recollated);
        for (name, collation) in &self.schemas {
            let Some(other) = before.schemas.get(name).filter(|other| *other != collation) else { continue };
            let all = self.recollated.entry(name.clone()).or_insert_with(|| vec![other.clone()]);
            if all.len() >= COLLATIONS_MAX {
                all.pop();
            }
            all.push(collation.clone());
        }
    }

    /// The default collation of a schema now, if another one was there before.
    pub fn new_collation(&self, schema: &str) -> Option<&str> {
        self.recollated.get(schema)?.last().map(String::as_str)
    }

    /// The default collation that a schema had in this catalog, if it has had another one by `now`.
    pub fn former_collation<'a>(&self, schema: &str, now: &'a Catalog) -> Option<&'a str> {
        let all = now.recollated.get(schema)?;
        let known = self.recollated.get(schema).map_or(1, Vec::len);
        all.get(known - 1).filter(|_| known < all.len()).map(String::as_str)
    }

    /// The hidden effects of all tables and views that a text in this schema may name, which is not understood.
    pub fn hidden_in(&self, text: &[u8], schema: Option<&str>) -> Option<Hidden> {
        let words = std::str::from_utf8(text).ok().map(words);
        let schema = schema.unwrap_or_default().to_lowercase();
        let is_named = |key: &(String, String)| words.as_ref().is_none_or(|words| names(words, &schema, key));
        let named = self.hidden.iter().filter(|(key, _)| is_named(key));
        named.map(|(_, hidden)| *hidden).reduce(Hidden::and)
    }

    /// Whether a text, such as a definition, may name a function, a table or a view that does more than it tells: in any schema.
    pub fn names_code_that_stays(&self, text: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return true };
        let words = words(text);
        let writing = self.functions.iter().filter(|(_, access)| **access == RoutineAccess::Writes).map(|(key, _)| key);
        let leaving = self.procedure_leaves.iter().filter(|(_, leaves)| !leaves.is_empty()).map(|(key, _)| key);
        let mut all = writing.chain(leaving).chain(self.hidden.keys());
        all.any(|(_, name)| has_name(&words, name))
    }

    /// The effects that a table or view hides.
    pub fn hidden(&self, schema: &str, name: &str) -> Option<Hidden> {
        self.hidden.get(&(schema.to_lowercase(), name.to_lowercase())).copied()
    }

    /// State that a stored function that writes may leave on its connection.
    /// A function in a package may set the package's variables, which keep their values for the session.
    pub fn function_leaves(&self, schema: Option<&str>, name: &str) -> Leaves {
        if schema.is_some_and(|package| self.packages.contains(&package.to_lowercase())) {
            return Leaves::OF_UNKNOWN_CODE;
        }
        named(&self.function_leaves, schema, name).fold(Leaves::empty(), |all, leaves| all | *leaves)
    }

    /// State that a procedure may leave; one that is not known may leave anything.
    pub fn procedure_leaves(&self, schema: Option<&str>, name: &str) -> Leaves {
        let all = named(&self.procedure_leaves, schema, name).copied().reduce(Leaves::union);
        all.filter(|_| self.functions_complete).unwrap_or(Leaves::OF_UNKNOWN_CODE)
    }

    /// State that routines may leave which a text may call that is not understood: any of its words may be a name.
    pub fn leaves_of_named(&self, text: &str) -> Leaves {
        if !self.functions_complete {
            return Leaves::OF_UNKNOWN_CODE;
        }
        let words = words(text);
        let all = self.function_leaves.iter().chain(&self.procedure_leaves);
        let named = all.filter(|((_, name), leaves)| !leaves.is_empty() && has_name(&words, name));
        named.fold(Leaves::empty(), |all, (_, leaves)| all | *leaves)
    }

    /// The results of earlier statements that a function or procedure may ask for. One that is not known may ask for any, unless
    /// all routines are known: then it is no stored one.
    pub fn routine_asks(&self, schema: Option<&str>, name: &str) -> Asks {
        let of_package = schema.is_some_and(|package| self.packages.contains(&package.to_lowercase()));
        let is_known = || {
            named(&self.functions, schema, name).next().is_some()
                || named(&self.procedure_leaves, schema, name).next().is_some()
        };
        if of_package || !self.functions_complete && !is_known() {
            return Asks::all();
        }
        named(&self.routine_asks, schema, name).fold(Asks::empty(), |all, asks| all | *asks)
    }

    /// The data access of a stored function; an unqualified name is looked up in every schema and must agree.
    pub fn function(&self, schema: Option<&str>, name: &str) -> Option<RoutineAccess> {
        if let Some(schema) = schema
            && let Some(access) = self.functions.get(&(schema.to_lowercase(), name.to_lowercase()))
        {
            return Some(*access);
        }
        let all = named(&self.functions, schema, name).copied();
        all.reduce(|one, other| if one == RoutineAccess::Writes { one } else { other })
    }
}

/// All words of a text in lower case, those in strings and comments too.
pub fn words(text: &str) -> HashSet<String> {
    text.split(is_no_word).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a text with these words may name this in a schema; names are in lower case. From another schema it is named with its own.
pub fn names(words: &HashSet<String>, schema: &str, (of, name): &(String, String)) -> bool {
    has_name(words, name) && (of == schema || has_name(words, of))
}

/// Whether a server may take two names of routines, in lower case, for one: accents count for nothing in them (`utf8mb3_general_ci` of
/// MariaDB's mysql.proc and MySQL's dictionary). Any letter beyond ASCII may be any other here.
pub fn is_same_name(one: &str, other: &str) -> bool {
    let may_be = |(one, other): (char, char)| one == other || !(one.is_ascii() && other.is_ascii());
    one == other
        || !(one.is_ascii() && other.is_ascii())
            && one.chars().count() == other.chars().count()
            && one.chars().zip(other.chars()).all(may_be)
}

fn has_name(words: &HashSet<String>, name: &str) -> bool {
    let beyond_ascii = || words.iter().any(|word| !(word.is_ascii() && name.is_ascii()) && is_same_name(word, name));
    words.contains(name)
        || beyond_ascii()
        || name.contains(is_no_word) && name.split(is_no_word).all(|word| word.is_empty() || words.contains(word))
}

fn is_no_word(c: char) -> bool {
    !c.is_alphanumeric() && c != '_' && c != '$'
}

/// All that is known under a name, in one schema or in any.
fn named<'a, T>(
    known: &'a HashMap<(String, String), T>,
    schema: Option<&str>,
    name: &str,
) -> impl Iterator<Item = &'a T> {
    let (schema, name) = (schema.map(str::to_lowercase), name.to_lowercase());
    let is = move |(at, called): &(String, String)| {
        is_same_name(called, &name) && schema.as_ref().is_none_or(|schema| at == schema)
    };
    known.iter().filter(move |(key, _)| is(key)).map(|(_, fact)| fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globals(values: &[(&str, &str)]) -> Globals {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn uneven(now: &Catalog) -> Vec<(&str, &str)> {
        now.uneven.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn a_text_that_is_not_understood_has_the_effects_of_what_it_may_name() {
        let of = |leaves| Hidden { leaves, ..Hidden::default() };
        let mut catalog = Catalog::default();
        catalog.hidden.insert(("app".into(), "my-view".into()), of(Leaves::USER_LOCKS));
        catalog.hidden.insert(("app".into(), "v".into()), of(Leaves::SEQUENCES));
        assert_eq!(catalog.hidden_in(b"EXECUTE IMMEDIATE 'SELECT * FROM V'", Some("App")), Some(of(Leaves::SEQUENCES)));
        assert_eq!(catalog.hidden_in(b"SELECT * FROM app.`My-View`", None), Some(of(Leaves::USER_LOCKS)));
        for (text, schema) in [("SELECT my_view FROM vv", "app"), ("SELECT 1 FROM v", "other")] {
            assert_eq!(catalog.hidden_in(text.as_bytes(), Some(schema)), None, "{text}");
        }
        let both = Some(of(Leaves::USER_LOCKS | Leaves::SEQUENCES));
        assert_eq!(catalog.hidden_in(b"SELECT \xff", None), both, "any name may stand in another encoding");
    }

    #[test]
    fn routines_that_are_not_known_may_ask_for_anything() {
        let key = |name: &str| ("app".to_owned(), name.to_owned());
        let mut catalog = Catalog { functions_complete: true, ..Catalog::default() };
        catalog.functions.insert(key("f"), RoutineAccess::Reads);
        catalog.procedure_leaves.insert(key("p"), Leaves::empty());
        catalog.routine_asks.insert(key("p"), Asks::ROW_COUNT);
        catalog.packages.insert("pkg".into());
        let of = |catalog: &Catalog| {
            [(None, "F"), (Some("App"), "P"), (Some("x"), "p"), (Some("PKG"), "f"), (None, "udf")]
                .map(|(schema, name)| catalog.routine_asks(schema, name))
        };
        let (none, all) = (Asks::empty(), Asks::all());
        assert_eq!(of(&catalog), [none, Asks::ROW_COUNT, none, all, none]);
        catalog.functions_complete = false;
        assert_eq!(of(&catalog), [none, Asks::ROW_COUNT, all, all, all]);
    }

    #[test]
    fn a_text_that_names_routines_leaves_what_they_leave() {
        let key = |name: &str| ("app".to_owned(), name.to_owned());
        let mut catalog = Catalog { functions_complete: true, ..Catalog::default() };
        catalog.function_leaves.insert(key("nexts"), Leaves::SEQUENCES);
        catalog.procedure_leaves.insert(key("locks"), Leaves::USER_LOCKS);
        catalog.procedure_leaves.insert(key("nothing"), Leaves::empty());
        let of = |text: &str| catalog.leaves_of_named(text);
        assert_eq!(
            of("BEGIN NOT ATOMIC CALL `App`.Locks(); SELECT nexts(); END"),
            Leaves::SEQUENCES | Leaves::USER_LOCKS
        );
        assert_eq!(of("BEGIN NOT ATOMIC CALL nothing(); SELECT nextsx; END"), Leaves::empty());
        catalog.functions_complete = false;
        assert_eq!(catalog.leaves_of_named("BEGIN NOT ATOMIC DO 1; END"), Leaves::OF_UNKNOWN_CODE);
    }

    #[test]
    fn a_login_with_a_default_collation_gets_what_the_server_makes_of_it() {
        let mut catalog = Catalog::default();
        for (id, charset, name, is_default) in [
            (45, "utf8mb4", "utf8mb4_general_ci", true),
            (46, "utf8mb4", "utf8mb4_bin", false),
            (2304, "utf8mb4", "utf8mb4_uca1400_ai_ci", false),
            (8, "latin1", "latin1_swedish_ci", true),
        ] {
            catalog.collations.insert(id, Collation { charset: charset.into(), name: name.into(), is_default });
        }
        let login = |catalog: &Catalog, id| catalog.login_collation(id).map(|known| known.name.to_string());
        assert_eq!(login(&catalog, 45).unwrap(), "utf8mb4_general_ci");
        catalog.globals = globals(&[("character_set_collations", "utf8mb3=gone,utf8mb4=utf8mb4_uca1400_ai_ci")]);
        assert_eq!(login(&catalog, 45).unwrap(), "utf8mb4_uca1400_ai_ci");
        assert_eq!(login(&catalog, 46).unwrap(), "utf8mb4_bin");
        assert_eq!(login(&catalog, 8).unwrap(), "latin1_swedish_ci");
        assert_eq!(login(&catalog, 9), None);
        assert_eq!(&*catalog.collation("utf8mb4", "uca1400_ai_ci").unwrap().name, "utf8mb4_uca1400_ai_ci");
        assert_eq!(catalog.collation("latin1", "uca1400_ai_ci"), None);
    }

    #[test]
    fn what_differs_among_servers_or_was_changed_is_uneven_and_stays_so() {
        let names = ["sql_mode", "time_zone", "only_here", "autocommit"];
        let read = |values: &[(&str, &str)], before: &Catalog, other: &[(&str, &str)]| {
            let mut catalog = Catalog { globals: globals(values), ..Catalog::default() };
            catalog.find_uneven(before, &[globals(other)], names.into_iter());
            catalog
        };
        let same = [("sql_mode", "A"), ("time_zone", "SYSTEM"), ("only_here", "1"), ("port", "1")];
        let other = [("sql_mode", "A"), ("time_zone", "SYSTEM"), ("port", "2")];
        let first = read(&same, &Catalog::default(), &other);
        assert!(first.uneven.is_empty(), "the port is nothing that a session has");
        let changed = [("sql_mode", "B"), ("time_zone", "SYSTEM"), ("only_here", "2")];
        let second = read(&changed, &first, &other);
        assert_eq!(uneven(&second), [("sql_mode", "B")], "no server is given a variable that it does not have");
        let third = read(&same, &second, &[("sql_mode", "A"), ("time_zone", "+02:00")]);
        assert_eq!(uneven(&third), [("sql_mode", "A"), ("time_zone", "SYSTEM")]);
    }

    #[test]
    fn spaces_alone_are_no_statements() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.init_connect(), None);
        for (text, expected) in [("", None), (" \n", None), ("SET @a = 1", Some("SET @a = 1"))] {
            catalog.globals.insert("init_connect".into(), text.into());
            assert_eq!(catalog.init_connect(), expected);
        }
    }
}
