//! A statement of MySQL's dialect as one of SQLite's, with the views that it names.
//!
//! The dialects are near each other: what differs and clients use is the escapes of texts, `@@variables`, a few words, and the names of
//! schemas. All else is left to SQLite, whose errors the client gets.

use wire::errno;

use crate::error::SqlError;
use crate::tokens::{Token, TokenKind};
use crate::variables;
use crate::views::{self, INFORMATION, SCHEMAS, View};

/// SQL for SQLite.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub(crate) sql: String,
    /// The views that it names; no view twice.
    pub(crate) views: Vec<&'static View>,
}

/// Words behind SELECT that mean nothing here.
const HINTS: [&str; 6] =
    ["SQL_NO_CACHE", "SQL_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_BUFFER_RESULT", "HIGH_PRIORITY", "STRAIGHT_JOIN"];
/// ProxySQL's tables that count anew when they are read end so.
const RESET: &str = "_reset";

/// Rewrites a statement; `schema` is the one that the session is in.
///
/// # Errors
/// It names a system variable that is not there, or a table that would count anew.
pub(crate) fn rewrite(tokens: &[Token<'_>], schema: &str) -> Result<Rewritten, SqlError> {
    let mut rewritten = Rewritten::default();
    let mut list = SelectList::default();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        list.step(token);
        let taken = table(tokens, index, schema, &mut rewritten)?;
        if taken > 0 {
            index += taken;
            continue;
        }
        if let Some((words, taken)) = conversion(&tokens[index..]) {
            rewritten.sql.push_str(words);
            index += taken;
            continue;
        }
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        rewritten.space(token);
        match token.kind {
            TokenKind::Text => rewritten.text(&token.value()),
            TokenKind::Variable => {
                let value = variables::value(&token.text[2..]).ok_or_else(|| unknown_variable(token.text))?;
                rewritten.value(value);
                // Its column has the name that the client gave.
                let is_item =
                    list.is_open() && before.is_some_and(|before| before.is_word("SELECT") || before.is_symbol(","));
                let ends = tokens.get(index + 1).is_none_or(|next| next.is_symbol(",") || list.ends_at(next));
                if is_item && ends {
                    rewritten.sql.push_str(&format!(" AS \"{}\"", token.text));
                }
            }
            // No user variable was ever set.
            TokenKind::UserVariable => rewritten.sql.push_str("NULL"),
            TokenKind::Word if before.is_some_and(|before| before.is_word("SELECT")) && is_hint(token.text) => {}
            TokenKind::Symbol if token.text == "&&" => rewritten.sql.push_str(" AND "),
            TokenKind::Symbol if token.text == "<=>" => rewritten.sql.push_str(" IS "),
            _ => rewritten.sql.push_str(token.text),
        }
        index += 1;
    }
    Ok(rewritten)
}

/// If a name of a table begins here, with its schema or without, writes it and notes its view. Gives the tokens that it took.
fn table(tokens: &[Token<'_>], index: usize, schema: &str, out: &mut Rewritten) -> Result<usize, SqlError> {
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    let dot = |at: usize| tokens.get(at).is_some_and(|token| token.is_symbol("."));
    let Some(first) = tokens.get(index).and_then(Token::name) else { return Ok(0) };
    let qualified = if dot(index + 1) { tokens.get(index + 2).and_then(Token::name) } else { None };
    let may_follow = before.is_none_or(|before| {
        let words = ["FROM", "JOIN", "TABLE", "DESCRIBE", "DESC"];
        words.iter().any(|word| before.is_word(word)) || before.is_symbol(",") || before.is_symbol("(")
    });
    // `stats.stats_mysql_global.Variable_Name` may stand anywhere.
    if let Some(name) = qualified.filter(|_| may_follow || dot(index + 3)) {
        let is_schema = SCHEMAS.iter().any(|known| known.eq_ignore_ascii_case(&first));
        refuse_reset(&name)?;
        if is_schema && let Some(view) = views::find(&first, &name) {
            out.space(&tokens[index]);
            out.name(view);
            return Ok(3);
        }
        return Ok(0);
    }
    let is_call = tokens.get(index + 1).is_some_and(|next| next.is_symbol("("));
    if !may_follow || dot(index + 1) || is_call {
        return Ok(0);
    }
    refuse_reset(&first)?;
    let Some(view) = views::find(schema, &first).or_else(|| views::find("main", &first)) else { return Ok(0) };
    // Where it is a column after all, its name is the same in SQLite, too.
    let is_table = before.is_some_and(|before| before.is_word("FROM") || before.is_word("JOIN"));
    if view.is_in(INFORMATION) && !is_table {
        return Ok(0);
    }
    out.note(view);
    if !view.is_in(INFORMATION) {
        return Ok(0);
    }
    out.space(&tokens[index]);
    out.name(view);
    Ok(1)
}

fn refuse_reset(name: &str) -> Result<(), SqlError> {
    let lower = name.to_ascii_lowercase();
    match lower.strip_suffix(RESET).filter(|base| views::find("stats", base).is_some()) {
        Some(base) => {
            let text = format!(
                "{name} would count anew, and the console changes nothing: read {base}; DELETE /api/v1/digests resets"
            );
            Err(SqlError::new(errno::ER_NOT_SUPPORTED_YET, text))
        }
        None => Ok(()),
    }
}

/// The words that SQLite writes in another way, with the tokens that they take: `CONVERT(a, SIGNED INTEGER)`,
/// `CONVERT(a USING utf8mb4)` and `CAST(a AS UNSIGNED)` are `CAST(a AS INTEGER)` and `CAST(a AS TEXT)`; collations are two.
fn conversion(tokens: &[Token<'_>]) -> Option<(&'static str, usize)> {
    let [first, second, rest @ ..] = tokens else { return None };
    let closes = |rest: &[Token<'_>]| rest.first().is_some_and(|token| token.is_symbol(")"));
    for (word, sqlites) in [("CONVERT", " CAST"), ("GREATEST", " max"), ("LEAST", " min")] {
        if first.is_word(word) && second.is_symbol("(") {
            return Some((sqlites, 1));
        }
    }
    if first.is_word("COLLATE") {
        let is_binary = second.text.trim_end_matches(['\'', '`', '"']).ends_with("_bin") || second.is_word("BINARY");
        return Some((if is_binary { " COLLATE BINARY" } else { " COLLATE NOCASE" }, 2));
    }
    if first.is_word("USING") && closes(rest) {
        return Some((" AS TEXT", 2));
    }
    if !(first.is_symbol(",") || first.is_word("AS")) {
        return None;
    }
    match rest {
        [more, rest @ ..] if is_integer(second) && more.is_word("INTEGER") && closes(rest) => Some((" AS INTEGER", 3)),
        _ if is_integer(second) && closes(rest) => Some((" AS INTEGER", 2)),
        _ if second.is_word("CHAR") && closes(rest) => Some((" AS TEXT", 2)),
        _ => None,
    }
}

fn is_integer(token: &Token<'_>) -> bool {
    token.is_word("SIGNED") || token.is_word("UNSIGNED")
}

fn is_hint(word: &str) -> bool {
    HINTS.iter().any(|hint| hint.eq_ignore_ascii_case(word))
}

fn unknown_variable(name: &str) -> SqlError {
    SqlError::new(
        errno::ER_UNKNOWN_SYSTEM_VARIABLE,
        format!("Unknown system variable '{}'", name.trim_start_matches('@')),
    )
}

impl Rewritten {
    fn space(&mut self, token: &Token<'_>) {
        if token.apart && !self.sql.is_empty() {
            self.sql.push(' ');
        }
    }

    fn note(&mut self, view: &'static View) {
        if !self.views.iter().any(|known| std::ptr::eq(*known, view)) {
            self.views.push(view);
        }
    }

    fn name(&mut self, view: &'static View) {
        self.note(view);
        if view.is_in(INFORMATION) {
            self.sql.push_str(INFORMATION);
            self.sql.push('.');
        }
        self.sql.push_str(view.name);
    }

    /// A text as SQLite writes it.
    pub(crate) fn text(&mut self, value: &str) {
        self.sql.push('\'');
        self.sql.push_str(&value.replace('\'', "''"));
        self.sql.push('\'');
    }

    /// A number if it is one, else a text.
    fn value(&mut self, value: &str) {
        match value.parse::<i64>() {
            Ok(_) if !value.starts_with('+') => self.sql.push_str(value),
            _ => self.text(value),
        }
    }
}

/// Whether a token stands in the list of a SELECT, outside all parentheses.
#[derive(Debug, Default)]
struct SelectList {
    is_open: bool,
    depth: usize,
}

impl SelectList {
    fn step(&mut self, token: &Token<'_>) {
        if token.is_symbol("(") {
            self.depth += 1;
        } else if token.is_symbol(")") {
            self.depth = self.depth.saturating_sub(1);
        } else if token.is_word("SELECT") {
            self.is_open = true;
        } else if self.ends_at(token) {
            self.is_open = false;
        }
    }

    fn is_open(&self) -> bool {
        self.is_open && self.depth == 0
    }

    fn ends_at(&self, token: &Token<'_>) -> bool {
        ["FROM", "WHERE", "LIMIT", "ORDER", "GROUP", "UNION", "HAVING"].iter().any(|word| token.is_word(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn reported(text: &str) -> (String, Vec<&'static str>) {
        let rewritten = rewrite(&tokens(text).unwrap(), "main").unwrap();
        (rewritten.sql, rewritten.views.iter().map(|view| view.name).collect())
    }

    #[test]
    fn views_are_found_where_tables_stand() {
        let views = |text: &str| reported(text).1;
        assert_eq!(views("SELECT form FROM sessions s JOIN digests d USING (digest)"), ["sessions", "digests"]);
        assert_eq!(views("SELECT errors FROM `digests`"), ["digests"]);
        assert_eq!(views("SELECT * FROM (SELECT * FROM pools), servers"), ["pools", "servers"]);
        assert_eq!(views("SELECT count(*) FROM nothing WHERE sessions = 1"), Vec::<&str>::new());
    }

    #[test]
    fn schemas_are_taken_off() {
        let name = "stats_mysql_global";
        let (sql, views) = reported("SELECT * FROM stats.STATS_mysql_global WHERE a > 1");
        assert_eq!((&*sql, views), ("SELECT * FROM stats_mysql_global WHERE a > 1", vec![name]));
        assert_eq!(reported("select main.digests.text from main.digests").0, "select digests.text from digests");
        assert_eq!(
            reported("SELECT TABLE_NAME FROM information_schema.tables").0,
            "SELECT TABLE_NAME FROM information_schema.TABLES"
        );
        // No schema of the console: SQLite says that there is no such table.
        assert_eq!(reported("SELECT * FROM monitor.digests").0, "SELECT * FROM monitor.digests");
        let rewritten = rewrite(&tokens("SELECT * FROM tables").unwrap(), INFORMATION).unwrap();
        assert_eq!(rewritten.sql, "SELECT * FROM information_schema.TABLES");
    }

    #[test]
    fn dialects_are_translated() {
        let sql = |text: &str| reported(text).0;
        assert_eq!(
            sql("select @@version_comment limit 1"),
            "select 'Sqluice SQL console' AS \"@@version_comment\" limit 1"
        );
        assert_eq!(sql("SELECT  @@session.autocommit AS a, @@sql_mode"), "SELECT 1 AS a, '' AS \"@@sql_mode\"");
        assert_eq!(sql("SELECT IF(@@autocommit, 'it\\'s', 2)"), "SELECT IF(1, 'it''s', 2)");
        assert_eq!(
            sql("SELECT CAST(a AS unsigned integer), CAST(b AS SIGNED)"),
            "SELECT CAST(a AS INTEGER), CAST(b AS INTEGER)"
        );
        assert_eq!(sql("SELECT SQL_NO_CACHE 1 && @x <=> NULL"), "SELECT  1  AND  NULL  IS  NULL");
        let error = rewrite(&tokens("SELECT @@no_such").unwrap(), "main").unwrap_err();
        assert_eq!((error.code, &*error.text), (1193, "Unknown system variable 'no_such'"));
        let error =
            rewrite(&tokens("SELECT * FROM stats.stats_mysql_query_digest_reset").unwrap(), "main").unwrap_err();
        assert_eq!(error.code, 1235);
    }
}
