//! Queries that take the place of tables that list connections.

use std::fmt::Write as _;

use proof::mark;
use sql::connections::IdTable;

use super::super::Session;
use super::super::processes::{IdleRow, Shown};
use super::IDLE_ROWS_MAX;

/// A query that takes the place of a table that lists connections.
pub(super) struct Listing<'a> {
    pub shown: &'a Shown,
    pub table: &'static IdTable,
    pub columns: &'a [String],
    pub session: &'a Session,
    pub sees_others: bool,
    /// The client's text, which the list shows as what its own session runs.
    pub text: &'a [u8],
}

impl Listing<'_> {
    pub(super) fn sql(&self, own_thread: u64) -> String {
        let Listing { table, columns, shown, .. } = self;
        let name = format!("{}.{}", table.schema, sql::text::quote_identifier(table.name));
        let mut sql = String::from("(SELECT ");
        for (index, column) in columns.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let _ =
                write!(sql, "{comma}{} AS {}", self.column(column, own_thread), sql::text::quote_identifier(column));
        }
        let _ = write!(sql, " FROM {name}");
        if let ([id], false) = (table.ids, shown.hidden.is_empty()) {
            let mut hidden: Vec<String> = shown.hidden.iter().map(u64::to_string).collect();
            hidden.sort();
            let _ = write!(sql, " WHERE COALESCE({id} NOT IN ({}), TRUE)", hidden.join(","));
        }
        if table.is_process_list {
            let user = &self.session.who.identity.user;
            let mut rows = 0;
            for session in &shown.elsewhere {
                let row = shown.idle_row(session);
                if rows < IDLE_ROWS_MAX && (self.sees_others || row.user == *user) {
                    rows += 1;
                    let values: Vec<String> = columns.iter().map(|column| self.idle_value(&row, column)).collect();
                    let _ = write!(sql, " UNION ALL SELECT {}", values.join(", "));
                }
            }
        }
        sql.push(')');
        sql
    }

    /// The value of this column for a session without a backend connection.
    fn idle_value(&self, row: &IdleRow, column: &str) -> String {
        match column.to_ascii_lowercase().as_str() {
            "id" => self.as_id(&row.id.to_string()),
            "user" => text_literal(row.user.as_bytes()),
            "host" => text_literal(row.host.as_bytes()),
            "db" => row.schema.as_ref().map_or("NULL".into(), |schema| text_literal(schema.as_bytes())),
            "command" => text_literal(row.command.as_bytes()),
            "time" => row.idle_s.to_string(),
            "time_ms" => format!("{}.000", u64::from(row.idle_s) * 1000),
            "state" => "''".into(),
            "info" | "info_binary" => "NULL".into(),
            "execution_engine" => "'PRIMARY'".into(),
            _ => "0".into(),
        }
    }

    /// An id, of the type that the table's own are.
    fn as_id(&self, id: &str) -> String {
        let is_signed = self.session.belief.is_mariadb() && self.table.schema == "information_schema";
        format!("CAST({id} AS {})", if is_signed { "SIGNED" } else { "UNSIGNED" })
    }

    /// The text of a column without the mark in front of it.
    fn without_mark(&self, column: &str) -> String {
        if !self.session.here.cluster.shared.settings.load().mark_writes {
            return column.to_owned();
        }
        let (marked, end) = (text_literal(&[mark::BEGIN, b"%"].concat()), text_literal(mark::END));
        let behind = format!("SUBSTRING({column}, LOCATE({end}, {column}) + {})", mark::END.len());
        format!("IF({column} LIKE {marked}, {behind}, {column})")
    }

    fn column(&self, column: &str, own_thread: u64) -> String {
        let (quoted, shown) = (sql::text::quote_identifier(column), self.shown);
        let is = |name: &str| column.eq_ignore_ascii_case(name);
        if self.table.ids.iter().any(|id| is(id)) {
            return self.as_id(&shown.as_clients_know(&quoted));
        }
        if !self.table.is_process_list {
            return quoted;
        }
        if is("host") && !shown.in_use.is_empty() {
            let mut sql = "CASE ID".to_owned();
            for (thread_id, session) in shown.sorted() {
                let _ = write!(sql, " WHEN {thread_id} THEN {}", text_literal(session.client().as_bytes()));
            }
            let _ = write!(sql, " ELSE {quoted} END");
            return sql;
        }
        if is("info") {
            let others = self.without_mark(&quoted);
            return format!("CASE ID WHEN {own_thread} THEN {} ELSE {others} END", text_literal(self.text));
        }
        quoted
    }
}

/// A string that is read alike in every mode and character set.
fn text_literal(text: &[u8]) -> String {
    if text.is_empty() { "''".into() } else { format!("_utf8mb4 {}", sql::text::hexadecimal(text)) }
}
