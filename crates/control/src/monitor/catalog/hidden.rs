//! Tables and views that do more than their names tell: views that write or lock, triggers that lock, columns whose default asks a
//! sequence. Objects that the monitor user may not see are not found.

use std::collections::{HashMap, HashSet};

use facts::catalog::{Hidden, RoutineAccess, is_same_name, names, words};
use net::query::{Client, QueryError, ResultSet};
use sql::Leaves;

use super::functions::{Routines, asks_of_body, leaves_of_named, note_asks};
use super::settings::sets_settings;
use crate::monitor::dialect::Dialect;

/// By (schema, name), in lower case.
pub(crate) type HiddenIn = HashMap<(String, String), Hidden>;

/// More views, triggers or columns than this are not looked at.
const ROWS_MAX: usize = 10_000;

const OWN_SCHEMAS: &str = "('information_schema', 'performance_schema', 'mysql', 'sys')";

/// Built-in functions of a view that change something, as servers show them.
const WRITING: [&str; 8] = [
    "nextval(",
    "lastval(",
    "setval(",
    "get_lock(",
    "release_lock(",
    "release_all_locks(",
    "last_insert_id(",
    "default(",
];

/// The words of a view's or a trigger's body.
struct Body {
    key: (String, String),
    words: HashSet<String>,
}

/// Reads all of them. Routines learn of the tables and views that they name.
///
/// # Errors
/// The connection broke.
pub(crate) async fn load(
    client: &mut Client,
    dialect: Dialect,
    routines: &mut Routines,
    complete: bool,
) -> Result<HiddenIn, QueryError> {
    let views = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION AS BODY FROM information_schema.VIEWS \
         WHERE TABLE_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {ROWS_MAX}"
    );
    let views = client.query_one(views).await?;
    let mut hidden = of_views(&views, routines, complete);
    let triggers = format!(
        "SELECT EVENT_OBJECT_SCHEMA AS TABLE_SCHEMA, EVENT_OBJECT_TABLE AS TABLE_NAME, ACTION_STATEMENT AS BODY \
         FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {ROWS_MAX}"
    );
    let triggers = client.query_one(triggers).await?;
    note_triggers(&triggers, &mut hidden);
    // Columns are read table by table: not without need.
    let sequences = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_TYPE = 'SEQUENCE' LIMIT 1";
    if dialect.mariadb && dialect.number >= 100_300 && !client.query_one(sequences).await?.rows.is_empty() {
        let columns = format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA NOT IN {OWN_SCHEMAS} AND COLUMN_DEFAULT LIKE '%nextval(%' LIMIT {ROWS_MAX}"
        );
        let answer = client.query_one(columns).await?;
        for row in 0..answer.rows.len() {
            hidden.entry(name(&answer, row)).or_default().leaves_of_writes |= Leaves::SEQUENCES;
        }
    }
    let bodies = bodies(&views, &triggers);
    spread(&bodies, routines, &mut hidden);
    note_setting(&triggers, &bodies, routines, &mut hidden);
    note_setting_by_reading(&views, &triggers, &bodies, routines, &mut hidden);
    note_asking(&bodies, routines, &mut hidden);
    Ok(hidden)
}

fn name(answer: &ResultSet, row: usize) -> (String, String) {
    let text = |column: &str| answer.text(row, column).unwrap_or_default().to_lowercase();
    (text("TABLE_SCHEMA"), text("TABLE_NAME"))
}

fn of_views(answer: &ResultSet, routines: &Routines, complete: bool) -> HiddenIn {
    let views: Vec<((String, String), String)> = (0..answer.rows.len())
        .map(|row| (name(answer, row), answer.text(row, "BODY").unwrap_or_default().to_lowercase()))
        .collect();
    let mut hidden = HiddenIn::new();
    for (key, body) in &views {
        let mut found = of_view(body, routines, complete);
        found.reads_set_variables = found.calls && routines.may_set(&key.0, &words(body));
        if found != Hidden::default() {
            hidden.insert(key.clone(), found);
        }
    }
    // A view does what those do that it reads.
    loop {
        let reads = |body: &str, (schema, name): &(String, String)| body.contains(&format!("`{schema}`.`{name}`"));
        let mut grown = false;
        for (key, body) in &views {
            let before = hidden.get(key).copied().unwrap_or_default();
            let inner = hidden.iter().filter(|(inner, _)| *inner != key && reads(body, inner));
            let after = inner.fold(before, |all, (_, hidden)| all.and(*hidden));
            if after != before {
                hidden.insert(key.clone(), after);
                grown = true;
            }
        }
        if !grown {
            return hidden;
        }
    }
}

fn of_view(body: &str, routines: &Routines, complete: bool) -> Hidden {
    let writes = WRITING.iter().any(|word| body.contains(word));
    let leaves = if writes { Leaves::of_body(body) } else { Leaves::empty() };
    let mut hidden = Hidden { writes, leaves, unread: body.is_empty(), ..Hidden::default() };
    if routines.packages.iter().any(|package| body.contains(&format!("`{package}`.`"))) {
        hidden = Hidden { writes: true, calls: true, leaves: Leaves::OF_UNKNOWN_CODE, ..hidden };
    }
    for called in calls(body) {
        let known =
            |((_, name), access): (&(String, String), &RoutineAccess)| is_same_name(name, &called).then_some(*access);
        let mut access = routines.functions.iter().filter_map(known).peekable();
        let is_known = access.peek().is_some();
        hidden.writes |= !is_known && !complete;
        hidden.calls |= is_known;
        hidden.writes |= access.any(|access| access == RoutineAccess::Writes);
        let leaving = routines.function_leaves.iter().filter(|((_, name), _)| is_same_name(name, &called));
        hidden.leaves = leaving.fold(hidden.leaves, |all, (_, leaves)| all | *leaves);
    }
    hidden
}

/// The names of stored functions, as servers show calls of them: `` `schema`.`name`( ``, and `` `name`( `` of one in the view's own
/// schema (seen with MariaDB 10.11 and MySQL 9.7).
fn calls(body: &str) -> impl Iterator<Item = String> {
    body.match_indices("`(").filter_map(|(end, _)| {
        let mut start = body[..end].rfind('`')?;
        // A backtick in a name stands there twice.
        while body[..start].ends_with('`') {
            start = body[..start - 1].rfind('`')?;
        }
        Some(body[start + 1..end].replace("``", "`"))
    })
}

fn note_triggers(answer: &ResultSet, hidden: &mut HiddenIn) {
    for row in 0..answer.rows.len() {
        let leaves = Leaves::of_body(&answer.text(row, "BODY").unwrap_or_default());
        if !leaves.is_empty() {
            hidden.entry(name(answer, row)).or_default().leaves_of_writes |= leaves;
        }
    }
}

/// Notes the tables whose triggers may set user or session variables: themselves, by routines, or by the triggers of tables that they
/// write; and views of such tables.
fn note_setting(triggers: &ResultSet, bodies: &[Body], routines: &Routines, hidden: &mut HiddenIn) {
    let calls = |words: &HashSet<String>| {
        // The Oracle mode calls procedures by their names alone.
        let mut routines = routines.functions.keys().chain(routines.procedure_leaves.keys());
        words.contains("call") || routines.any(|(_, routine)| words.contains(routine))
    };
    for row in 0..triggers.rows.len() {
        let body = triggers.text(row, "BODY").unwrap_or_default();
        let words = words(&body);
        let table = name(triggers, row);
        if sql::text::names_user_variable(body.as_bytes()) || routines.may_set(&table.0, &words) {
            hidden.entry(table.clone()).or_default().sets_variables = true;
        }
        if sets_settings(&body) || calls(&words) {
            hidden.entry(table).or_default().sets_settings = true;
        }
    }
    spread_flag(bodies, hidden, |hidden| &mut hidden.sets_variables);
    spread_flag(bodies, hidden, |hidden| &mut hidden.sets_settings);
}

/// Functions write tables whose triggers set user variables: these may set them, and so may views and triggers that call them.
fn note_setting_by_reading(
    views: &ResultSet,
    triggers: &ResultSet,
    bodies: &[Body],
    routines: &mut Routines,
    hidden: &mut HiddenIn,
) {
    let setting = |hidden: &HiddenIn| -> Vec<_> {
        hidden.iter().filter(|(_, hidden)| hidden.sets_variables).map(|(key, _)| key.clone()).collect()
    };
    while routines.set_by_tables(&setting(hidden)) {
        note_setting(triggers, bodies, routines, hidden);
        for row in 0..views.rows.len() {
            let (key, words) = (name(views, row), words(&views.text(row, "BODY").unwrap_or_default()));
            if let Some(view) = hidden.get_mut(&key) {
                view.reads_set_variables |= view.calls && routines.may_set(&key.0, &words);
            }
        }
        let views_alone = &bodies[..views.rows.len()];
        spread_flag(views_alone, hidden, |hidden| &mut hidden.reads_set_variables);
    }
}

/// A table has this if its triggers name one that has it, and so has a view that names it.
fn spread_flag(bodies: &[Body], hidden: &mut HiddenIn, flag: fn(&mut Hidden) -> &mut bool) {
    let has = |hidden: &Hidden| *flag(&mut hidden.clone());
    loop {
        let setting: Vec<_> = hidden.iter().filter(|(_, hidden)| has(hidden)).map(|(key, _)| key.clone()).collect();
        let names_one = |body: &Body| setting.iter().any(|table| names(&body.words, &body.key.0, table));
        let news = bodies.iter().filter(|body| names_one(body) && !hidden.get(&body.key).is_some_and(has));
        let news: Vec<_> = news.map(|body| body.key.clone()).collect();
        if news.is_empty() {
            return;
        }
        for key in news {
            *flag(hidden.entry(key).or_default()) = true;
        }
    }
}

fn bodies(views: &ResultSet, triggers: &ResultSet) -> Vec<Body> {
    let of = |answer: &ResultSet, row| Body {
        key: name(answer, row),
        words: words(&answer.text(row, "BODY").unwrap_or_default()),
    };
    let of_all = |answer: &ResultSet| (0..answer.rows.len()).map(|row| of(answer, row)).collect::<Vec<_>>();
    let mut bodies = of_all(views);
    bodies.extend(of_all(triggers));
    bodies
}

/// A routine, a trigger, and a write to a view leave all that is left by those that their bodies name.
fn spread(bodies: &[Body], routines: &mut Routines, hidden: &mut HiddenIn) {
    loop {
        let mut leaving = routines.leaving();
        for (key, hidden) in hidden.iter().filter(|(_, hidden)| !hidden.all_leaves().is_empty()) {
            *leaving.entry(key.clone()).or_default() |= hidden.all_leaves();
        }
        let mut news = routines.spread(&leaving);
        for Body { key, words } in bodies {
            let leaves = leaves_of_named(&leaving, &key.0, words);
            if !hidden.get(key).copied().unwrap_or_default().all_leaves().contains(leaves) {
                hidden.entry(key.clone()).or_default().leaves_of_writes |= leaves;
                news = true;
            }
        }
        if !news {
            return;
        }
    }
}

/// Notes the results of earlier statements that routines, triggers and views may ask for.
fn note_asking(bodies: &[Body], routines: &mut Routines, hidden: &mut HiddenIn) {
    let mut asking = routines.asks.clone();
    loop {
        let mut news = routines.add_asking(&mut asking);
        for Body { key, words } in bodies {
            let asks = asks_of_body(&asking, &key.0, words);
            news |= note_asks(&mut asking, key, asks);
            if !asks.is_empty() {
                hidden.entry(key.clone()).or_default().asks |= asks;
            }
        }
        if !news {
            break;
        }
    }
    routines.keep_asking(asking);
}

#[cfg(test)]
mod tests {
    use super::super::functions::{self, ALL_RESULTS};
    use super::*;
    use crate::monitor::dialect::tests::table;
    use sql::Asks;

    #[test]
    fn called_functions_are_found_whatever_their_names() {
        let called: Vec<_> = calls("select `app`.`f``x`(1) AS `a`,`g`() AS `b`,(1) AS `c`").collect();
        assert_eq!(called, ["f`x", "g"]);
    }

    #[test]
    fn views_that_do_more_than_read_are_found() {
        let of_reads = |leaves| Hidden { writes: true, leaves, ..Hidden::default() };
        let mut routines = functions::read_rows(&table(
            "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
             app|writes|FUNCTION|MODIFIES_SQL_DATA|BEGIN INSERT INTO t VALUES (1); RETURN 1; END
             app|reads|FUNCTION|READS_SQL_DATA|RETURN 1
             app|inserts|PROCEDURE|CONTAINS_SQL|INSERT INTO plain VALUES (1)
             app|locks|PROCEDURE|CONTAINS_SQL|DO GET_LOCK('a', 1)",
        ));
        let views = table(
            "TABLE_SCHEMA|TABLE_NAME|BODY
             app|plain|select `app`.`t`.`a` AS `nextval`,`app`.`reads`(1) AS `b` from `app`.`t`
             app|Next|select nextval(`app`.`s`) AS `n`
             app|calls|select `app`.`writes`() AS `n`
             app|own|select `writes`() AS `n`
             app|named|with `c`(`n`) as (select 1) select `c`.`n` AS `n` from `c`
             app|over|select `app`.`next`.`n` AS `n` from `app`.`next`
             app|unknown|select `app`.`not_known`(1) AS `n`
             app|locks|select get_lock('a',1) AS `n`
             app|unread|",
        );
        let mut hidden = of_views(&views, &routines, true);
        let of = |hidden: &HiddenIn, name: &str| hidden.get(&("app".to_owned(), name.to_owned())).copied();
        assert_eq!(of(&hidden, "plain"), Some(Hidden { calls: true, ..Hidden::default() }));
        assert_eq!(of(&hidden, "unknown"), None, "no stored function of that name");
        assert_eq!(of(&hidden, "unread"), Some(Hidden { unread: true, ..Hidden::default() }));
        for name in ["next", "over"] {
            assert_eq!(of(&hidden, name), Some(of_reads(Leaves::SEQUENCES)), "{name}");
        }
        assert_eq!(of(&hidden, "named"), None);
        assert_eq!(of(&hidden, "own"), of(&hidden, "calls"));
        assert_eq!(of(&hidden, "calls"), Some(Hidden { calls: true, ..of_reads(Leaves::empty()) }));
        assert_eq!(of(&hidden, "locks"), Some(of_reads(Leaves::USER_LOCKS)));
        assert_eq!(of(&of_views(&views, &routines, false), "unknown").map(|hidden| hidden.writes), Some(true));
        let triggers = table("TABLE_SCHEMA|TABLE_NAME|BODY\napp|t|BEGIN CALL locks(); END\napp|u|SET NEW.a = 1");
        note_triggers(&triggers, &mut hidden);
        assert_eq!(of(&hidden, "t"), None);
        spread(&bodies(&views, &triggers), &mut routines, &mut hidden);
        let of_writes = Hidden { leaves_of_writes: Leaves::USER_LOCKS, ..Hidden::default() };
        assert_eq!((of(&hidden, "t"), of(&hidden, "u")), (Some(of_writes), None));
        assert_eq!(
            of(&hidden, "plain"),
            Some(Hidden { calls: true, ..of_writes }),
            "a write to the view is one to its table"
        );
        let inserts = ("app".to_owned(), "inserts".to_owned());
        assert_eq!(routines.procedure_leaves[&inserts], Leaves::USER_LOCKS);
    }

    #[test]
    fn views_whose_functions_set_user_variables_are_found() {
        let routines = functions::read_rows(&table(
            "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
             app|sets|FUNCTION|CONTAINS_SQL|BEGIN SET @x = 1; RETURN 1; END
             app|f|FUNCTION|CONTAINS_SQL|RETURN 1
             other|f|FUNCTION|CONTAINS_SQL|BEGIN SET @x = 1; RETURN 1; END",
        ));
        let views = table(
            "TABLE_SCHEMA|TABLE_NAME|BODY
             app|own|select `sets`() AS `x`
             app|above|select `own`.`x` AS `x` from `app`.`own`
             app|elsewhere|select `other`.`f`() AS `x`
             app|none|select `f`() AS `x`",
        );
        let hidden = of_views(&views, &routines, true);
        for (name, sets) in [("own", true), ("above", true), ("elsewhere", true), ("none", false)] {
            let key = ("app".to_owned(), name.to_owned());
            assert_eq!(hidden.get(&key).is_some_and(|hidden| hidden.reads_set_variables), sets, "{name}");
        }
    }

    #[test]
    fn triggers_that_set_user_variables_are_found() {
        let routines = functions::read_rows(&table(
            "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
             app|reads|FUNCTION|READS_SQL_DATA|RETURN 1
             app|sets|FUNCTION|CONTAINS_SQL|BEGIN SELECT 1 INTO @x; RETURN 1; END
             app|names|PROCEDURE|CONTAINS_SQL|BEGIN DECLARE a INT; SET a = sets(); END",
        ));
        let views = table("TABLE_SCHEMA|TABLE_NAME|BODY\napp|v|select `app`.`own`.`a` AS `a` from `app`.`own`");
        let triggers = table(
            "TABLE_SCHEMA|TABLE_NAME|BODY
             app|own|SET @x = NEW.a
             app|calls|SET NEW.a = sets()
             app|calls_names|CALL names()
             app|calls_none|SET NEW.a = reads()
             app|writes|INSERT INTO own VALUES (1)
             other|t|SET @x = NEW.a
             app|t|INSERT INTO none VALUES (1)
             app|writes_t|INSERT INTO t VALUES (1)
             app|writes_other|INSERT INTO other.t VALUES (1)
             app|none|SET NEW.a = @@sql_mode",
        );
        let (mut routines, mut hidden) = (routines, HiddenIn::new());
        let bodies = bodies(&views, &triggers);
        spread(&bodies, &mut routines, &mut hidden);
        note_setting(&triggers, &bodies, &routines, &mut hidden);
        for (name, sets, sets_settings) in [
            ("own", true, true),
            ("calls", true, true),
            ("calls_names", true, true),
            ("calls_none", false, true),
            ("writes", true, true),
            ("writes_t", false, false),
            ("writes_other", true, true),
            ("v", true, true),
            ("none", false, false),
        ] {
            let found = hidden.get(&("app".to_owned(), name.to_owned())).copied().unwrap_or_default();
            assert_eq!((found.sets_variables, found.sets_settings), (sets, sets_settings), "{name}");
        }
    }

    #[test]
    fn results_that_code_asks_for_are_found() {
        let mut routines = functions::read_rows(&table(
            "SCHEMA_NAME|NAME|TYPE|ACCESS|BODY
             app|Asks|FUNCTION|CONTAINS_SQL|RETURN LAST_INSERT_ID()
             app|counts|FUNCTION|CONTAINS_SQL|RETURN Row_Count ( )
             app|over|PROCEDURE|CONTAINS_SQL|INSERT INTO t VALUES (asks())
             app|writes|PROCEDURE|CONTAINS_SQL|INSERT INTO by_count VALUES (1)
             app|same|PROCEDURE|CONTAINS_SQL|SELECT FOUND_ROWS()
             app|any|PROCEDURE|CONTAINS_SQL|EXECUTE s
             app|unseen|FUNCTION|READS_SQL_DATA|NULL
             app|pkg|PACKAGE BODY|CONTAINS_SQL|AS a INT := 1; END
             app|other|FUNCTION|CONTAINS_SQL|RETURN 1",
        ));
        let triggers = table(
            "TABLE_SCHEMA|TABLE_NAME|BODY
             app|plain|SET NEW.a = other()
             app|itself|SET NEW.a = @@identity
             app|by_function|SET NEW.a = asks()
             app|by_procedure|CALL over()
             app|by_table|INSERT INTO itself VALUES (1)
             app|by_count|SET NEW.a = counts()
             app|same|SET NEW.a = FOUND_ROWS()
             app|both|SET NEW.a = counts() + @@identity",
        );
        let mut hidden = HiddenIn::new();
        note_asking(&bodies(&table("TABLE_SCHEMA|TABLE_NAME|BODY"), &triggers), &mut routines, &mut hidden);
        let asking = |asks: Asks| {
            let named = hidden.iter().filter(|(_, of)| of.asks == asks).map(|(key, _)| &*key.1);
            let mut named: Vec<&str> = named.collect();
            named.sort_unstable();
            named.join(" ")
        };
        assert_eq!(asking(Asks::LAST_INSERT_ID), "by_function by_procedure by_table itself");
        assert_eq!((asking(Asks::ROW_COUNT), asking(Asks::FOUND_ROWS)), ("by_count".into(), "same".into()));
        assert_eq!(asking(Asks::ROW_COUNT | Asks::LAST_INSERT_ID), "both");
        let of = |name: &str| routines.asks.get(&("app".to_owned(), name.to_owned())).copied().unwrap_or_default();
        assert_eq!((of("asks"), of("counts"), of("writes")), (Asks::LAST_INSERT_ID, Asks::ROW_COUNT, Asks::ROW_COUNT));
        assert_eq!((of("any"), of("unseen"), of("pkg")), (ALL_RESULTS, ALL_RESULTS, ALL_RESULTS));
        assert_eq!((of("same"), of("other"), of("itself")), (Asks::FOUND_ROWS, Asks::empty(), Asks::empty()));
    }
}
