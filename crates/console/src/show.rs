//! `SHOW` and `DESCRIBE`, as statements over the views.

use crate::error::SqlError;
use crate::plan::{Plan, Query, name, query, schema_named, view_named};
use crate::rewrite::{Rewritten, rewrite};
use crate::tokens::{Token, tokens};
use crate::views::{View, find};

/// Reads all behind `SHOW`.
///
/// # Errors
/// It is none that the console has.
pub(crate) fn plan(rest: &[Token<'_>], schema: &str) -> Result<Plan, SqlError> {
    let words: Vec<&Token<'_>> = rest.iter().filter(|token| !is_filler(token)).collect();
    let word = |at: usize| words.get(at).map(|token| token.text.to_ascii_uppercase()).unwrap_or_default();
    let is_full = rest.iter().any(|token| token.is_word("FULL"));
    let (first, second) = (word(0), word(1));
    match (&*first, &*second) {
        ("TABLES", _) => tables(rest, schema, is_full),
        ("DATABASES" | "SCHEMAS", _) => {
            ask(rest, "SELECT SCHEMA_NAME AS \"Database\" FROM information_schema.SCHEMATA", "Database")
        }
        ("COLUMNS" | "FIELDS", _) => columns_of(rest, schema, is_full),
        ("CREATE", "TABLE" | "VIEW") => create(rest, schema),
        ("PROCESSLIST", _) => processlist(rest, is_full),
        ("MYSQL", "STATUS") | ("STATUS", _) => ask(
            rest,
            "SELECT Variable_Name AS Variable_name, Variable_Value AS Value FROM stats_mysql_global ORDER BY 1",
            "Variable_name",
        ),
        ("VARIABLES", _) => ask(
            rest,
            "SELECT VARIABLE_NAME AS Variable_name, VARIABLE_VALUE AS Value FROM information_schema.SESSION_VARIABLES",
            "Variable_name",
        ),
        ("TABLE", "STATUS") => ask(
            &[],
            "SELECT TABLE_NAME AS Name, ENGINE AS Engine, TABLE_COMMENT AS Comment FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = 'main'",
            "Name",
        ),
        ("WARNINGS" | "ERRORS", _) => ask(&[], "SELECT '' AS Level, 0 AS Code, '' AS Message WHERE 0", "Level"),
        ("COLLATION", _) => ask(
            rest,
            "SELECT COLLATION_NAME AS Collation, CHARACTER_SET_NAME AS Charset, ID AS Id, IS_DEFAULT AS \"Default\", \
             IS_COMPILED AS Compiled, SORTLEN AS Sortlen FROM information_schema.COLLATIONS",
            "Collation",
        ),
        ("CHARACTER", "SET") | ("CHARSET", _) => ask(
            rest,
            "SELECT 'utf8mb4' AS Charset, 'UTF-8 Unicode' AS Description, 'utf8mb4_bin' AS \"Default collation\", 4 AS Maxlen",
            "Charset",
        ),
        ("ENGINES" | "STORAGE", _) => ask(
            &[],
            "SELECT ENGINE AS Engine, SUPPORT AS Support, COMMENT AS Comment, TRANSACTIONS AS Transactions \
             FROM information_schema.ENGINES",
            "Engine",
        ),
        ("INDEX" | "INDEXES" | "KEYS", _) => ask(
            &[],
            "SELECT TABLE_NAME AS \"Table\", NON_UNIQUE AS Non_unique, INDEX_NAME AS Key_name FROM information_schema.STATISTICS",
            "Table",
        ),
        ("TRIGGERS" | "EVENTS" | "PLUGINS" | "PROCEDURE" | "FUNCTION", _) => {
            ask(&[], "SELECT '' AS Name, '' AS Comment WHERE 0", "Name")
        }
        _ => Err(SqlError::syntax(format!("the console has no SHOW {first} {second}"))),
    }
}

/// `DESCRIBE t`, and `DESC stats.t 'pattern'`.
pub(crate) fn columns(rest: &[Token<'_>], schema: &str) -> Result<Plan, SqlError> {
    let (view, _) = table(rest, schema)?;
    ask(&[], &described(view, false), "Field")
}

/// Words that change nothing here.
fn is_filler(token: &Token<'_>) -> bool {
    ["FULL", "GLOBAL", "SESSION", "LOCAL", "EXTENDED"].iter().any(|word| token.is_word(word))
}

/// `[schema.]table`, and how many tokens that is.
fn table(rest: &[Token<'_>], schema: &str) -> Result<(&'static View, usize), SqlError> {
    let first = name(rest.first())?;
    if rest.get(1).is_some_and(|token| token.is_symbol(".")) {
        let table = name(rest.get(2))?;
        return Ok((view_named(schema_named(&first)?, &table)?, 3));
    }
    match find("main", &first).filter(|_| find(schema, &first).is_none()) {
        Some(view) => Ok((view, 1)),
        None => Ok((view_named(schema, &first)?, 1)),
    }
}

/// The tokens behind `FROM` or `IN`.
fn behind_from<'a, 't>(rest: &'a [Token<'t>]) -> Option<&'a [Token<'t>]> {
    let at = rest.iter().position(|token| token.is_word("FROM") || token.is_word("IN"))?;
    rest.get(at + 1..)
}

fn tables(rest: &[Token<'_>], schema: &str, is_full: bool) -> Result<Plan, SqlError> {
    let named = behind_from(rest).map(|from| name(from.first())).transpose()?;
    let schema = schema_named(named.as_deref().unwrap_or(schema))?;
    let title = format!("Tables_in_{schema}");
    let kind = if is_full { ", TABLE_TYPE AS \"Table_type\"" } else { "" };
    let sql = format!(
        "SELECT TABLE_NAME AS \"{title}\"{kind} FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}' ORDER BY 1"
    );
    ask(rest, &sql, &title)
}

fn columns_of(rest: &[Token<'_>], schema: &str, is_full: bool) -> Result<Plan, SqlError> {
    let from = behind_from(rest).ok_or_else(|| SqlError::syntax("write SHOW COLUMNS FROM table"))?;
    let (_, taken) = match from.get(1).is_some_and(|token| token.is_symbol(".")) {
        true => ((), 3),
        false => ((), 1),
    };
    let behind = from.get(taken..).unwrap_or_default();
    let named = behind_from(behind).map(|from| name(from.first())).transpose()?;
    let schema = schema_named(named.as_deref().unwrap_or(schema))?;
    let (view, _) = table(from, schema)?;
    ask(behind, &described(view, is_full), "Field")
}

fn described(view: &View, is_full: bool) -> String {
    let more = if is_full {
        ", COLLATION_NAME AS \"Collation\", PRIVILEGES AS \"Privileges\", COLUMN_COMMENT AS \"Comment\""
    } else {
        ""
    };
    let schema = if view.is_in(crate::views::INFORMATION) { crate::views::INFORMATION } else { "main" };
    format!(
        "SELECT COLUMN_NAME AS \"Field\", COLUMN_TYPE AS \"Type\", IS_NULLABLE AS \"Null\", COLUMN_KEY AS \"Key\", \
         COLUMN_DEFAULT AS \"Default\", EXTRA AS \"Extra\"{more} FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{}' ORDER BY ORDINAL_POSITION",
        view.name
    )
}

fn create(rest: &[Token<'_>], schema: &str) -> Result<Plan, SqlError> {
    let (view, _) = table(rest.get(2..).unwrap_or_default(), schema)?;
    let mut sql = Rewritten::default();
    sql.sql.push_str("SELECT ");
    sql.text(view.name);
    sql.sql.push_str(" AS \"Table\", ");
    sql.text(&view.definition());
    sql.sql.push_str(" AS \"Create Table\"");
    Ok(Plan::Rows(Query { sql: sql.sql, views: Vec::new() }))
}

/// As servers show it: whole statements with FULL only.
fn processlist(rest: &[Token<'_>], is_full: bool) -> Result<Plan, SqlError> {
    let info = if is_full { "form" } else { "substr(form, 1, 100)" };
    let sql = format!(
        "SELECT id AS \"Id\", user AS \"User\", client AS \"Host\", schema AS \"db\", \
         CASE WHEN state = 'login' THEN 'Connect' WHEN state LIKE 'idle%' THEN 'Sleep' ELSE 'Query' END AS \"Command\", \
         CAST(ms / 1000 AS INTEGER) AS \"Time\", state AS \"State\", {info} AS \"Info\" FROM sessions ORDER BY id"
    );
    ask(rest, &sql, "Id")
}

/// A statement of ours, with the `LIKE` or `WHERE` of the client around it.
fn ask(rest: &[Token<'_>], sql: &str, like_column: &str) -> Result<Plan, SqlError> {
    let at = rest.iter().position(|token| token.is_word("LIKE") || token.is_word("WHERE"));
    let Some(at) = at else { return query(&tokens(sql)?, "main") };
    let condition = if rest[at].is_word("LIKE") {
        let pattern = rest.get(at + 1).ok_or_else(|| SqlError::syntax("LIKE has no pattern"))?;
        let mut text = Rewritten::default();
        text.text(&pattern.value());
        format!("\"{like_column}\" LIKE {}", text.sql)
    } else {
        rewrite(&rest[at + 1..], "main")?.sql
    };
    let rewritten = rewrite(&tokens(sql)?, "main")?;
    Ok(Plan::Rows(Query {
        sql: format!("SELECT * FROM ({}) WHERE {condition}", rewritten.sql),
        views: rewritten.views,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(text: &str) -> String {
        match plan(&tokens(text).unwrap(), "main").unwrap() {
            Plan::Rows(query) => query.sql,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters_of_clients_are_kept() {
        let shown = sql("SESSION VARIABLES LIKE 'max\\_%'");
        assert!(shown.ends_with("WHERE \"Variable_name\" LIKE 'max\\_%'"), "{shown}");
        let shown = sql("VARIABLES WHERE Variable_name = 'language' OR Value = 'it''s'");
        assert!(shown.ends_with("WHERE Variable_name = 'language' OR Value = 'it''s'"), "{shown}");
        assert!(sql("FULL TABLES FROM `stats` LIKE '%'").contains("TABLE_SCHEMA = 'stats'"));
        assert!(sql("FULL COLUMNS FROM `digests` FROM `main` LIKE '%'").contains("TABLE_NAME = 'digests'"));
        assert!(sql("CREATE TABLE stats.stats_mysql_global").contains("Variable_Name"));
    }

    #[test]
    fn mistakes_are_reported() {
        for text in
            ["", "GRANTS", "TABLES FROM nowhere", "COLUMNS", "COLUMNS FROM nothing", "CREATE TABLE", "TABLES LIKE"]
        {
            assert!(plan(&tokens(text).unwrap(), "main").is_err(), "{text}");
        }
    }
}
