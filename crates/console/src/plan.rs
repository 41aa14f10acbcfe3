//! The plan of a statement: what it is, and what it needs.

use wire::errno;

use crate::error::SqlError;
use crate::kill::KillOrder;
use crate::orders::OrderText;
use crate::rewrite::rewrite;
use crate::show;
use crate::tokens::{Token, TokenKind, tokens};
use crate::views::{SCHEMAS, View, find};

/// The answer that a text asks for.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Rows are asked for.
    Rows(Query),
    /// Nothing: the client is told that all is well. So it is with SET, which drivers send when they connect.
    Nothing,
    /// The session enters a schema.
    Use(&'static str),
    /// A session or a statement ends.
    Kill(KillOrder),
    /// The API is to do something.
    Order(OrderText),
    /// The list of statements is asked for.
    Help,
}

/// SQL for SQLite, and the views that it reads.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) views: Vec<&'static View>,
}

/// Reads a statement of a session that is in `schema`.
///
/// # Errors
/// It cannot be read, or it is none that the console runs.
pub(crate) fn plan(text: &str, schema: &str) -> Result<Plan, SqlError> {
    let tokens = tokens(text)?;
    let Some(first) = tokens.iter().find(|token| !token.is_symbol("(")) else {
        return Err(SqlError::new(errno::ER_EMPTY_QUERY, "Query was empty"));
    };
    let verb = first.text.to_ascii_uppercase();
    let rest = tokens.get(1..).unwrap_or_default();
    if let Some(order) = OrderText::read(&verb, rest) {
        return order.map(Plan::Order);
    }
    match &*verb {
        "HELP" if rest.is_empty() => Ok(Plan::Help),
        "SELECT" | "WITH" | "VALUES" => query(&tokens, schema),
        "EXPLAIN" | "DESCRIBE" | "DESC" if rest.iter().any(|token| token.is_word("SELECT")) => explain(rest, schema),
        "EXPLAIN" | "DESCRIBE" | "DESC" => show::columns(rest, schema),
        "SHOW" => show::plan(rest, schema),
        "USE" => Ok(Plan::Use(schema_named(&name(rest.first())?)?)),
        "KILL" => KillOrder::read(rest).map(Plan::Kill),
        "SET" | "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => Ok(Plan::Nothing),
        _ if first.kind == TokenKind::Word => Err(SqlError::read_only(&verb)),
        _ => Err(SqlError::syntax(format!("this is no statement: {verb}"))),
    }
}

/// The schema of this name.
pub(crate) fn schema_named(name: &str) -> Result<&'static str, SqlError> {
    SCHEMAS
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .ok_or_else(|| SqlError::new(errno::ER_BAD_DB_ERROR, format!("Unknown database '{name}'")))
}

/// The view of this name, in this schema.
pub(crate) fn view_named(schema: &str, name: &str) -> Result<&'static View, SqlError> {
    find(schema, name).ok_or_else(|| SqlError::no_table(&format!("{schema}.{name}")))
}

/// The name that a token stands for.
pub(crate) fn name(token: Option<&Token<'_>>) -> Result<String, SqlError> {
    token.and_then(Token::name).ok_or_else(|| SqlError::syntax("a name is missing"))
}

pub(crate) fn query(tokens: &[Token<'_>], schema: &str) -> Result<Plan, SqlError> {
    let rewritten = rewrite(tokens, schema)?;
    Ok(Plan::Rows(Query { sql: rewritten.sql, views: rewritten.views }))
}

/// SQLite's plan of a statement. Words of MySQL in front of it, as `FORMAT = JSON`, mean nothing here.
fn explain(rest: &[Token<'_>], schema: &str) -> Result<Plan, SqlError> {
    let begin = rest.iter().position(|token| token.is_word("SELECT") || token.is_word("WITH")).unwrap_or_default();
    let rewritten = rewrite(&rest[begin..], schema)?;
    Ok(Plan::Rows(Query { sql: format!("EXPLAIN QUERY PLAN {}", rewritten.sql), views: rewritten.views }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> u16 {
        plan(text, "main").unwrap_err().code
    }

    #[test]
    fn statements_that_change_something_are_refused() {
        for text in
            ["DELETE FROM digests", "insert into t values (1)", "LOAD MYSQL USERS TO RUNTIME", "ATTACH 'x' AS y"]
        {
            assert_eq!(refused(text), errno::ER_OPTION_PREVENTS_STATEMENT, "{text}");
        }
        assert_eq!(refused(" ; "), errno::ER_EMPTY_QUERY);
        assert_eq!(refused("'a'"), errno::ER_PARSE_ERROR);
        assert_eq!(refused("SELECT 1; DELETE FROM digests"), errno::ER_PARSE_ERROR);
        assert_eq!(refused("USE nowhere"), errno::ER_BAD_DB_ERROR);
    }

    #[test]
    fn statements_that_drivers_send_are_known() {
        for text in ["SET NAMES utf8mb4", "set autocommit=1", "COMMIT", "START TRANSACTION"] {
            assert!(matches!(plan(text, "main"), Ok(Plan::Nothing)), "{text}");
        }
        assert!(matches!(plan("use `stats`", "main"), Ok(Plan::Use("stats"))));
        let Ok(Plan::Rows(query)) = plan("EXPLAIN FORMAT=JSON SELECT * FROM digests", "main") else { panic!() };
        assert_eq!(query.sql, "EXPLAIN QUERY PLAN SELECT * FROM digests");
    }
}
