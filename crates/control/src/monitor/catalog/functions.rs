//! The access of stored functions and procedures, from the declaration and the body.
//!
//! The declaration alone proves little: `CONTAINS SQL` is what a function gets that declares nothing, and the servers
//! let any function write whatever it declares. So the words of the body count: a function whose body has a word that
//! can write, or the name of a function that writes, is taken to write.

use std::collections::{HashMap, HashSet};

use facts::catalog::{RoutineAccess, names, words};
use net::query::ResultSet;
use sql::{Asks, Leaves};

use super::settings::sets_session;

/// By (schema, name), in lower case.
pub(crate) type Functions = HashMap<(String, String), RoutineAccess>;

/// All routines.
#[derive(Debug, Default)]
pub(crate) struct Routines {
    pub(crate) functions: Functions,
    /// Of those functions that may leave anything.
    pub(crate) function_leaves: HashMap<(String, String), Leaves>,
    /// Of all procedures.
    pub(crate) procedure_leaves: HashMap<(String, String), Leaves>,
    /// Of routines that may ask for results of earlier statements.
    pub(crate) asks: AsksOfNames,
    /// The names of MariaDB's packages, in lower case. Their variables keep their values for the session.
    pub(crate) packages: HashSet<String>,
    /// Routines that may set user variables, by (schema, name) in lower case: their bodies, or bodies that those name, or nobody knows.
    setters: HashSet<(String, String)>,
    /// Of routines.
    bodies: Vec<Body>,
}

/// The words of a routine's body.
#[derive(Debug)]
struct Body {
    key: (String, String),
    procedure: bool,
    words: HashSet<String>,
}

/// State that is left by routines, tables and views.
pub(crate) type LeavesOfNames = HashMap<(String, String), Leaves>;

/// The results of earlier statements that routines, tables and views may ask for, by (schema, name) in lower case.
pub(crate) type AsksOfNames = HashMap<(String, String), Asks>;

/// All state that is left by those that a body in this schema with these words may name.
pub(crate) fn leaves_of_named(leaving: &LeavesOfNames, schema: &str, words: &HashSet<String>) -> Leaves {
    let named = leaving.iter().filter(|(key, _)| names(words, schema, key));
    named.fold(Leaves::empty(), |all, (_, leaves)| all | *leaves)
}

/// Words without which a body cannot change anything that a replica would have to know. Some are harmless in most places
/// (`replace`, `insert` are string functions too); a wrong guess only sends a read to the primary.
const WRITING: [&str; 24] = [
    "insert",
    "update",
    "delete",
    "replace",
    "merge",
    "truncate",
    "create",
    "drop",
    "alter",
    "rename",
    "call",
    "load",
    "execute",
    "prepare",
    "lock",
    "grant",
    "revoke",
    "nextval",
    "setval",
    "nextvalue",
    "get_lock",
    "release_lock",
    "outfile",
    "next",
];

/// All results of earlier statements that a body may ask for, and user variables.
pub(crate) const ALL_RESULTS: Asks =
    Asks::LAST_INSERT_ID.union(Asks::ROW_COUNT).union(Asks::FOUND_ROWS).union(Asks::USER_VARIABLES);

/// Words of a body that asks for a result; a prepared text may ask for any.
const ASKING: [(&str, Asks); 5] = [
    ("last_insert_id", Asks::LAST_INSERT_ID),
    ("identity", Asks::LAST_INSERT_ID),
    ("row_count", Asks::ROW_COUNT),
    ("found_rows", Asks::FOUND_ROWS),
    ("execute", ALL_RESULTS),
];

/// The results that a body in this schema with these words may ask for, itself or by one of `asking` that it names.
pub(crate) fn asks_of_body(asking: &AsksOfNames, schema: &str, body: &HashSet<String>) -> Asks {
    let by_itself = ASKING.iter().filter(|(word, _)| body.contains(*word)).map(|(_, asks)| *asks);
    let by_others = asking.iter().filter(|(key, _)| names(body, schema, key)).map(|(_, asks)| *asks);
    by_itself.chain(by_others).fold(Asks::empty(), Asks::union)
}

/// One of these asks for this. Gives whether that is news.
pub(crate) fn note_asks(asking: &mut AsksOfNames, key: &(String, String), asks: Asks) -> bool {
    if asking.get(key).copied().unwrap_or_default().contains(asks) {
        return false;
    }
    *asking.entry(key.clone()).or_default() |= asks;
    true
}

/// Reads rows of schema, name, type, declared access and body; `variables` are those that a session may set.
pub(crate) fn read(answer: &ResultSet, variables: &HashSet<String>) -> Routines {
    let mut routines = Routines { functions: read_functions(answer, variables), ..Routines::default() };
    for row in 0..answer.rows.len() {
        routines.read(answer, row);
    }
    while routines.spread(&routines.leaving()) {}
    while routines.spread_setters() {}
    routines
}

#[cfg(test)]
pub(super) fn read_rows(answer: &ResultSet) -> Routines {
    read(answer, &super::settings::names_of(&["time_zone".to_owned()]))
}

impl Routines {
    fn read(&mut self, answer: &ResultSet, row: usize) {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        let key = (text("SCHEMA_NAME").to_lowercase(), text("NAME").to_lowercase());
        let body = answer.text(row, "BODY");
        let procedure = text("TYPE").eq_ignore_ascii_case("procedure");
        if is_package(&text("TYPE")) {
            self.packages.insert(key.1.clone());
            // Bodies that name it may call what is in it.
            self.asks.insert(key.clone(), ALL_RESULTS);
            self.setters.insert(key.clone());
            self.procedure_leaves.insert(key, Leaves::OF_UNKNOWN_CODE);
            return;
        }
        // A body that the monitor user is not shown may hold anything, unless a function declares that it only reads.
        let unseen = if procedure || !is_believed(&text("ACCESS")) { Leaves::OF_UNKNOWN_CODE } else { Leaves::empty() };
        if procedure {
            self.procedure_leaves.insert(key.clone(), Leaves::empty());
        }
        if body.is_none() {
            self.asks.insert(key.clone(), ALL_RESULTS);
        }
        if body.as_deref().is_none_or(sets_user_variables) {
            self.setters.insert(key.clone());
        }
        if body.as_deref().is_some_and(|body| sql::text::names_user_variable(body.as_bytes())) {
            note_asks(&mut self.asks, &key, Asks::USER_VARIABLES);
        }
        self.add(&key, procedure, body.as_deref().map_or(unseen, Leaves::of_body));
        self.bodies.extend(body.map(|body| Body { key, procedure, words: words(&body) }));
    }

    /// A routine leaves this. Gives whether that is news.
    fn add(&mut self, key: &(String, String), procedure: bool, leaves: Leaves) -> bool {
        let all = if procedure { &mut self.procedure_leaves } else { &mut self.function_leaves };
        if all.get(key).copied().unwrap_or_default().contains(leaves) {
            return false;
        }
        *all.entry(key.clone()).or_default() |= leaves;
        if !procedure {
            // The state that it leaves must be found again on the same connection.
            self.functions.insert(key.clone(), RoutineAccess::Writes);
        }
        true
    }

    /// A routine that names one which may set user variables may set them. Gives whether that is news of any.
    fn spread_setters(&mut self) -> bool {
        let named = |body: &&Body| !self.setters.contains(&body.key) && self.may_set(&body.key.0, &body.words);
        let news: Vec<_> = self.bodies.iter().filter(named).map(|body| body.key.clone()).collect();
        let any = !news.is_empty();
        self.setters.extend(news);
        any
    }

    /// A routine that names one of these tables may set user variables by their triggers. Gives whether that is news of any.
    pub(crate) fn set_by_tables(&mut self, tables: &[(String, String)]) -> bool {
        let named = |body: &&Body| {
            !self.setters.contains(&body.key) && tables.iter().any(|table| names(&body.words, &body.key.0, table))
        };
        let news: Vec<_> = self.bodies.iter().filter(named).map(|body| body.key.clone()).collect();
        let any = !news.is_empty();
        self.setters.extend(news);
        while self.spread_setters() {}
        any
    }

    /// Whether a body in this schema with these words may name a routine that may set user variables.
    pub(crate) fn may_set(&self, schema: &str, words: &HashSet<String>) -> bool {
        self.setters.iter().any(|key| names(words, schema, key))
    }

    /// State that routines leave.
    pub(crate) fn leaving(&self) -> LeavesOfNames {
        let mut leaving = LeavesOfNames::new();
        let all = self.function_leaves.iter().chain(&self.procedure_leaves);
        for (key, leaves) in all.filter(|(_, leaves)| !leaves.is_empty()) {
            *leaving.entry(key.clone()).or_default() |= *leaves;
        }
        leaving
    }

    /// Adds the results that routines may ask for to those that are known. Gives whether that is news.
    pub(crate) fn add_asking(&self, asking: &mut AsksOfNames) -> bool {
        let mut news = false;
        for Body { key, words, .. } in &self.bodies {
            let asks = asks_of_body(asking, &key.0, words);
            news |= note_asks(asking, key, asks);
        }
        news
    }

    /// Keeps the results that routines may ask for out of these, which also are of tables and views.
    pub(crate) fn keep_asking(&mut self, asking: AsksOfNames) {
        let is_routine = |key: &(String, String)| {
            self.functions.contains_key(key) || self.procedure_leaves.contains_key(key) || self.asks.contains_key(key)
        };
        self.asks = asking.into_iter().filter(|(key, _)| is_routine(key)).collect();
    }

    /// A routine leaves all that is left by those that it names. Gives whether that is news of any.
    pub(crate) fn spread(&mut self, leaving: &LeavesOfNames) -> bool {
        let bodies = std::mem::take(&mut self.bodies);
        let mut news = false;
        for Body { key, procedure, words } in &bodies {
            news |= self.add(key, *procedure, leaves_of_named(leaving, &key.0, words));
        }
        self.bodies = bodies;
        news
    }
}

fn read_functions(answer: &ResultSet, variables: &HashSet<String>) -> Functions {
    let mut functions = Functions::new();
    let mut bodies: Vec<((String, String), HashSet<String>)> = Vec::new();
    for row in 0..answer.rows.len() {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        if text("TYPE").eq_ignore_ascii_case("procedure") || is_package(&text("TYPE")) {
            continue;
        }
        let key = (text("SCHEMA_NAME").to_lowercase(), text("NAME").to_lowercase());
        let declared = text("ACCESS").replace('_', " ").to_uppercase();
        let body = answer.text(row, "BODY");
        // A session that runs it on a replica would have to stay there, where it cannot write.
        let sets = |body: &str| sets_user_variables(body) || sets_session(body, variables);
        let sets_variables = body.as_deref().is_some_and(sets);
        let body = body.map(|body| words(&body));
        let writes = match &body {
            _ if declared == "MODIFIES SQL DATA" || sets_variables => true,
            Some(words) => WRITING.iter().any(|word| words.contains(*word)),
            // Not shown to the monitor user: what was declared on purpose is believed, the default is not.
            None => !is_believed(&declared),
        };
        functions.insert(key.clone(), if writes { RoutineAccess::Writes } else { RoutineAccess::Reads });
        bodies.extend(body.map(|words| (key, words)));
    }
    spread(&mut functions, &bodies);
    functions
}

fn is_package(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("package body")
}

/// Whether a declaration says on purpose that a function does not write.
fn is_believed(declared: &str) -> bool {
    matches!(&*declared.replace('_', " ").to_uppercase(), "READS SQL DATA" | "NO SQL")
}

/// Whether a body may set user variables. Servers tell only of `SET @x`, and for a function of another schema not even that
/// can be seen from the change of the schema.
fn sets_user_variables(body: &str) -> bool {
    let named = body.split("@@").any(|part| part.contains('@'));
    let lower = body.to_lowercase();
    named && [":=", "set", "into", "diagnostics"].iter().any(|word| lower.contains(word))
}

/// A function that names a function that writes, writes. Each round marks at least one more function or is the last.
fn spread(functions: &mut Functions, bodies: &[((String, String), HashSet<String>)]) {
    loop {
        let writers = || functions.iter().filter(|(_, access)| **access == RoutineAccess::Writes).map(|(key, _)| key);
        let names_of_writers: HashSet<&str> = writers().map(|(_, name)| name.as_str()).collect();
        // Names that are no plain words, and all where words may mean names that are spelt otherwise.
        let is_other = |name: &String| !name.is_ascii() || !words(name).contains(name);
        let others: Vec<_> = writers().filter(|(_, name)| is_other(name)).collect();
        let is_plain = |words: &HashSet<String>| words.iter().all(|word| word.is_ascii());
        let new: Vec<(String, String)> = bodies
            .iter()
            .filter(|(key, words)| {
                functions.get(key) == Some(&RoutineAccess::Reads)
                    && (words.iter().any(|word| names_of_writers.contains(word.as_str()))
                        || others.iter().any(|writer| names(words, &key.0, writer))
                        || !is_plain(words) && writers().any(|writer| names(words, &key.0, writer)))
            })
            .map(|(key, _)| key.clone())
            .collect();
        if new.is_empty() {
            return;
        }
        functions.extend(new.into_iter().map(|key| (key, RoutineAccess::Writes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    fn writes(rows: &str) -> Vec<String> {
        let functions = read_rows(&table(&format!("SCHEMA_NAME|NAME|ACCESS|BODY\n{rows}"))).functions;
        let mut names: Vec<String> = functions
            .into_iter()
            .filter(|(_, access)| *access == RoutineAccess::Writes)
            .map(|((schema, name), _)| format!("{schema}.{name}"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn declarations() {
        let rows = "app|W|MODIFIES_SQL_DATA|RETURN 1
                    app|w2|MODIFIES SQL DATA|NULL
                    app|r|READS_SQL_DATA|RETURN (SELECT COUNT(*) FROM t)
                    app|n|NO SQL|NULL
                    app|hidden|CONTAINS SQL|NULL";
        assert_eq!(writes(rows), ["app.hidden", "app.w", "app.w2"]);
    }

    #[test]
    fn the_body_counts_more_than_the_declaration() {
        let rows = "app|log|CONTAINS_SQL|BEGIN INSERT INTO log VALUES (1); RETURN 1; END
                    app|liar|NO_SQL|BEGIN Delete FROM t; RETURN 1; END
                    app|pure|CONTAINS_SQL|RETURN CONCAT('a', updated_at, inserted)";
        assert_eq!(writes(rows), ["app.liar", "app.log"]);
    }

    #[test]
    fn what_servers_do_not_tell_needs_the_primary() {
        let rows = "app|reads_into|NO_SQL|BEGIN SELECT 1 INTO @x; RETURN 1; END
                    app|assigns|NO_SQL|RETURN @x := 1
                    app|told|NO_SQL|BEGIN SET @x = 1; RETURN 1; END
                    app|asks|NO_SQL|RETURN @x + 1
                    app|sets-it|NO_SQL|BEGIN SET @x = 1; RETURN 1; END
                    app|calls_it|NO_SQL|RETURN `sets-it`()
                    app|local|NO_SQL|BEGIN DECLARE i INT; SELECT @@sql_mode INTO i; RETURN i; END";
        assert_eq!(writes(rows), ["app.assigns", "app.calls_it", "app.reads_into", "app.sets-it", "app.told"]);
    }

    #[test]
    fn changes_of_the_session_need_the_primary() {
        let rows = "app|sets|NO_SQL|BEGIN SET time_zone = '+03:00'; RETURN 1; END
                    app|calls|NO_SQL|RETURN sets() + 1
                    app|zone|NO_SQL|BEGIN DECLARE x TEXT; SET x = @@time_zone; RETURN x; END";
        assert_eq!(writes(rows), ["app.calls", "app.sets"]);
    }

    #[test]
    fn what_routines_leave_spreads_to_callers() {
        let rows = "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
                    app|F|FUNCTION|CONTAINS_SQL|RETURN GET_LOCK('a', 1)
                    app|p|PROCEDURE|CONTAINS_SQL|BEGIN SELECT app.f(); END
                    app|q|PROCEDURE|CONTAINS_SQL|BEGIN CALL p(); SELECT NEXT VALUE FOR s; END
                    app|plain|PROCEDURE|CONTAINS_SQL|BEGIN INSERT INTO t VALUES (1); END
                    app|uses|PROCEDURE|CONTAINS_SQL|BEGIN CALL pkg.q(); END
                    app|Pkg|PACKAGE BODY|CONTAINS_SQL|AS a INT := 1; PROCEDURE q AS BEGIN a := a + 1; END; END
                    app|hidden|PROCEDURE|CONTAINS_SQL|NULL";
        let routines = read_rows(&table(rows));
        assert!(routines.packages.contains("pkg") && !routines.functions.contains_key(&("app".into(), "pkg".into())));
        let of = |name: &str| routines.procedure_leaves[&("app".to_owned(), name.to_owned())];
        assert_eq!(of("p"), Leaves::USER_LOCKS);
        assert_eq!(of("q"), Leaves::USER_LOCKS | Leaves::SEQUENCES);
        assert_eq!(
            (of("plain"), of("hidden"), of("uses")),
            (Leaves::empty(), Leaves::OF_UNKNOWN_CODE, Leaves::OF_UNKNOWN_CODE)
        );
        let f = ("app".to_owned(), "f".to_owned());
        assert_eq!(routines.functions[&f], RoutineAccess::Writes);
        assert_eq!(routines.function_leaves[&f], Leaves::USER_LOCKS);
    }

    #[test]
    fn functions_that_ask_for_user_variables_are_found() {
        let rows = "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
                    app|reads|FUNCTION|NO_SQL|RETURN COALESCE(@x, 1)
                    app|over|FUNCTION|NO_SQL|RETURN reads() + 1
                    app|system|FUNCTION|NO_SQL|RETURN @@sql_mode
                    app|none|FUNCTION|NO_SQL|RETURN 1";
        let mut routines = read_rows(&table(rows));
        let mut asking = routines.asks.clone();
        while routines.add_asking(&mut asking) {}
        routines.keep_asking(asking);
        let asks = |name: &str| routines.asks.get(&("app".to_owned(), name.to_owned())).copied().unwrap_or_default();
        assert_eq!((asks("reads"), asks("over")), (Asks::USER_VARIABLES, Asks::USER_VARIABLES));
        assert_eq!((asks("system"), asks("none")), (Asks::empty(), Asks::empty()));
    }

    #[test]
    fn writing_spreads_to_callers() {
        let rows = "app|a|CONTAINS_SQL|RETURN b()
                    app|b|CONTAINS_SQL|RETURN other.C(1)
                    other|c|MODIFIES_SQL_DATA|RETURN 1
                    app|d|CONTAINS_SQL|RETURN d(1)";
        assert_eq!(writes(rows), ["app.a", "app.b", "other.c"]);
    }
}
