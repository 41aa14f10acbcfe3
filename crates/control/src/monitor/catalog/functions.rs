//! What stored functions and procedures may do, from its declaration and its body.
//!
//! The declaration alone proves little: `CONTAINS SQL` is what a function gets that declares nothing, and the servers
//! let any function write whatever it declares. So the words of the body count: a function whose body has a word that
//! can write, or the name of a function that writes, is taken to write.

use std::collections::{HashMap, HashSet};

use cluster::catalog::RoutineAccess;
use net::query::ResultSet;
use sql::Leaves;

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

/// Reads rows of schema, name, type, declared access and body.
pub(crate) fn read(answer: &ResultSet) -> Routines {
    let functions = read_functions(answer);
    let mut all: Vec<Routine> = (0..answer.rows.len()).map(|row| Routine::read(answer, row)).collect();
    spread_leaves(&mut all);
    let mut routines = Routines { functions, ..Routines::default() };
    for Routine { key, procedure, leaves, .. } in all {
        if procedure {
            routines.procedure_leaves.insert(key, leaves);
        } else if !leaves.is_empty() {
            // What leaves anything must find it again on the same connection.
            routines.functions.insert(key.clone(), RoutineAccess::Writes);
            routines.function_leaves.insert(key, leaves);
        }
    }
    routines
}

impl Routines {
    /// What a body leaves that may name any of these.
    pub(crate) fn leaves_of_body(&self, body: &str) -> Leaves {
        let words = words(body);
        let named = self.function_leaves.iter().chain(&self.procedure_leaves);
        let named = named.filter(|((_, name), leaves)| !leaves.is_empty() && words.contains(name));
        named.fold(Leaves::of_body(body), |all, (_, leaves)| all | *leaves)
    }
}

/// What is known of a routine while all of them are read.
struct Routine {
    key: (String, String),
    procedure: bool,
    words: HashSet<String>,
    leaves: Leaves,
}

impl Routine {
    fn read(answer: &ResultSet, row: usize) -> Routine {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        let body = answer.text(row, "BODY");
        let procedure = text("TYPE").eq_ignore_ascii_case("procedure");
        // A body that the monitor user is not shown may hold anything, unless a function declares that it only reads.
        let unseen = if procedure || !is_believed(&text("ACCESS")) { Leaves::all() } else { Leaves::empty() };
        Routine {
            key: (text("SCHEMA_NAME").to_lowercase(), text("NAME").to_lowercase()),
            procedure,
            words: body.as_deref().map(words).unwrap_or_default(),
            leaves: body.as_deref().map_or(unseen, Leaves::of_body),
        }
    }
}

/// A routine leaves what those leave that it names.
fn spread_leaves(all: &mut [Routine]) {
    loop {
        let mut leaving: HashMap<&str, Leaves> = HashMap::new();
        for Routine { key, leaves, .. } in all.iter().filter(|routine| !routine.leaves.is_empty()) {
            *leaving.entry(&key.1).or_default() |= *leaves;
        }
        let of_named = |routine: &Routine| {
            let named = leaving.iter().filter(|(name, _)| routine.words.contains(**name));
            named.fold(routine.leaves, |all, (_, leaves)| all | *leaves)
        };
        let after: Vec<Leaves> = all.iter().map(of_named).collect();
        if all.iter().zip(&after).all(|(routine, after)| routine.leaves == *after) {
            return;
        }
        all.iter_mut().zip(after).for_each(|(routine, after)| routine.leaves = after);
    }
}

fn read_functions(answer: &ResultSet) -> Functions {
    let mut functions = Functions::new();
    let mut bodies: Vec<((String, String), HashSet<String>)> = Vec::new();
    for row in 0..answer.rows.len() {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        if text("TYPE").eq_ignore_ascii_case("procedure") {
            continue;
        }
        let key = (text("SCHEMA_NAME").to_lowercase(), text("NAME").to_lowercase());
        let declared = text("ACCESS").replace('_', " ").to_uppercase();
        let body = answer.text(row, "BODY");
        let sets_variables = body.as_deref().is_some_and(sets_user_variables);
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

/// Whether a declaration says on purpose that a function does not write.
fn is_believed(declared: &str) -> bool {
    matches!(&*declared.replace('_', " ").to_uppercase(), "READS SQL DATA" | "NO SQL")
}

/// Whether a body may set user variables. Servers tell only of `SET @x`, and for a function of another schema not even that
/// can be told from the change of the schema.
fn sets_user_variables(body: &str) -> bool {
    let named = body.split("@@").any(|part| part.contains('@'));
    let lower = body.to_lowercase();
    named && [":=", "set", "into", "diagnostics"].iter().any(|word| lower.contains(word))
}

/// Who names a function that writes, writes. Each round marks at least one more function or is the last.
fn spread(functions: &mut Functions, bodies: &[((String, String), HashSet<String>)]) {
    loop {
        let writers: HashSet<&str> = functions
            .iter()
            .filter(|(_, access)| **access == RoutineAccess::Writes)
            .map(|((_, name), _)| name.as_str())
            .collect();
        let new: Vec<(String, String)> = bodies
            .iter()
            .filter(|(key, words)| {
                functions.get(key) == Some(&RoutineAccess::Reads)
                    && words.iter().any(|word| writers.contains(word.as_str()))
            })
            .map(|(key, _)| key.clone())
            .collect();
        if new.is_empty() {
            return;
        }
        functions.extend(new.into_iter().map(|key| (key, RoutineAccess::Writes)));
    }
}

/// All words of a text in lower case, those in strings and comments too.
fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    fn writes(rows: &str) -> Vec<String> {
        let functions = read(&table(&format!("SCHEMA_NAME|NAME|ACCESS|BODY\n{rows}"))).functions;
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
                    app|local|NO_SQL|BEGIN DECLARE i INT; SELECT @@sql_mode INTO i; RETURN i; END";
        assert_eq!(writes(rows), ["app.assigns", "app.reads_into", "app.told"]);
    }

    #[test]
    fn what_routines_leave_spreads_to_callers() {
        let rows = "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
                    app|F|FUNCTION|CONTAINS_SQL|RETURN GET_LOCK('a', 1)
                    app|p|PROCEDURE|CONTAINS_SQL|BEGIN SELECT app.f(); END
                    app|q|PROCEDURE|CONTAINS_SQL|BEGIN CALL p(); SELECT NEXT VALUE FOR s; END
                    app|plain|PROCEDURE|CONTAINS_SQL|BEGIN INSERT INTO t VALUES (1); END
                    app|hidden|PROCEDURE|CONTAINS_SQL|NULL";
        let routines = read(&table(rows));
        let of = |name: &str| routines.procedure_leaves[&("app".to_owned(), name.to_owned())];
        assert_eq!(of("p"), Leaves::USER_LOCKS);
        assert_eq!(of("q"), Leaves::USER_LOCKS | Leaves::SEQUENCES);
        assert_eq!((of("plain"), of("hidden")), (Leaves::empty(), Leaves::all()));
        let f = ("app".to_owned(), "f".to_owned());
        assert_eq!(routines.functions[&f], RoutineAccess::Writes);
        assert_eq!(routines.function_leaves[&f], Leaves::USER_LOCKS);
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
