//! The messages of a session's last statement, made again on a connection that does not know them.
//!
//! One error is raised again by SIGNAL. On MariaDB a block without a routine makes several messages: each RESIGNAL in a handler adds
//! one. Notes become warnings there. Elsewhere others stand in for several messages, so that their number is right.

use sql::{Asks, Kind, Modes};
use wire::command::Command;
use wire::exchange::Expect;
use wire::{Capabilities, errno, sqlstate};

use super::read_back::Row;
use crate::error::Refusal;
use crate::outgoing::{Outgoing, Purpose};
use crate::pool::Connection;
use crate::session::belief::Belief;
use crate::session::query::Query;

/// Adds an error to the messages that are there; the variable is left as it was (seen with MariaDB 10.11 and MySQL 9.7).
const ONE_MORE_ERROR: &str = "GET DIAGNOSTICS CONDITION 65535 @sqluice_no_condition=MESSAGE_TEXT";
/// An option of COM_SET_OPTION that MySQL does not know: it takes that for a command that it does not know.
const NO_OPTION: [u8; 2] = [2, 0];
/// More errors of one statement are not counted.
pub(super) const ERRORS_MAX: usize = 64;
/// More messages than these are made by statements that stand in for theirs: each is a block within another.
const NESTED_MAX: usize = 16;
/// Most characters of MESSAGE_TEXT: the rest of a longer message is lost when its error is raised again.
pub(super) const MESSAGE_TEXT_CHARS_MAX: usize = 128;
/// A block adds a note about itself to an error that leaves it.
const NOTES_OFF: &str = "SET sql_notes=0";

impl Belief {
    /// A block that makes several messages. With `max_error_count` servers count more messages than they keep: then there is none.
    fn messages_by_block(&self, kept: &[Row]) -> Option<Vec<String>> {
        let all_kept = self.past.error.is_some() || usize::from(self.past.warning_count) == kept.len();
        if !all_kept || !(2..=NESTED_MAX).contains(&kept.len()) {
            return None;
        }
        let conditions: Option<Vec<String>> = kept.iter().map(|row| Some(condition(&self.message_of(row)?))).collect();
        let block = block(&conditions?);
        if !kept.last().is_some_and(is_error) {
            return Some(vec![block]);
        }
        let notes = self.state.variable("sql_notes").unwrap_or("DEFAULT");
        Some(vec![NOTES_OFF.to_owned(), block, format!("SET sql_notes={notes}")])
    }

    /// Whether the messages that are made again are the same as those that were kept: no notes, which become warnings, and none whose text
    /// is cut.
    pub(super) fn makes_same_messages(&self, capabilities: Capabilities) -> bool {
        let Some(kept) = self.kept_messages(capabilities) else { return false };
        let is_same = |row: &Row| {
            let [Some(level), _, Some(message)] = &row[..] else { return false };
            level != b"Note" && message.is_ascii() && message.len() <= MESSAGE_TEXT_CHARS_MAX
        };
        let fits = |error: &Refusal| error.message.chars().count() <= MESSAGE_TEXT_CHARS_MAX;
        let counted = if self.past.error.is_some() { kept.len() } else { usize::from(self.past.warning_count) };
        match kept.len() {
            1 if self.past.error.is_some() => self.past.error.as_ref().is_some_and(fits),
            1 => counted == 1 && kept.iter().all(is_same),
            2..=NESTED_MAX => self.is_mariadb() && counted == kept.len() && kept.iter().all(is_same),
            _ => false,
        }
    }

    /// A row of SHOW WARNINGS as an error with a SQLSTATE that makes it one, or a warning.
    fn message_of(&self, row: &Row) -> Option<Refusal> {
        let [_, Some(code), Some(message)] = &row[..] else { return None };
        let code: u16 = std::str::from_utf8(code).ok()?.parse().ok().filter(|code| *code > 0)?;
        let message = String::from_utf8_lossy(message).into_owned();
        let reported = self.past.error.as_ref().filter(|error| error.code == code && error.message == message);
        let state = match reported {
            _ if !is_error(row) => *b"01000",
            Some(error) => error.sqlstate,
            None => sqlstate::sqlstate(code, self.is_mariadb()),
        };
        let state = if is_error(row) { as_error(state) } else { state };
        Some(Refusal::like_server(code, &state, message))
    }

    /// Statements that leave as many warnings as the last one did: the very one, if there was one. Errors of a statement
    /// that did not fail are those that GET DIAGNOSTICS has added.
    fn warn_again(&self, kept: &[Row]) -> Vec<String> {
        let errors = kept.iter().filter(|row| is_error(row)).count().min(ERRORS_MAX);
        // With `max_error_count` servers count more messages than they keep.
        let count = usize::from(self.past.warning_count).saturating_sub(errors);
        if count == 1
            && let [row] = kept
            && let Some(message) = self.message_of(row)
        {
            return vec![format!("SIGNAL {}", condition(&Refusal { sqlstate: *b"01000", ..message }))];
        }
        let mut texts = vec![match count {
            // Messages go with the next statement that names a table; this one computes no query, which FOUND_ROWS() would show.
            0 => "DO IF(1,1,(SELECT 1 FROM (SELECT 1) AS d))".into(),
            // SET STATEMENT may have had fewer kept than there were.
            count if self.is_mariadb() && self.past.warnings.is_some() && kept.len() < count + errors => {
                let limit = kept.len().saturating_sub(errors);
                format!("SET STATEMENT max_error_count={limit} FOR DO {}", warnings(count))
            }
            count => format!("DO {}", warnings(count)),
        }];
        texts.extend(std::iter::repeat_n(ONE_MORE_ERROR.to_owned(), errors));
        texts
    }

    /// Statements that leave the messages of the session's last statement, or as many others, ahead of a query.
    pub(super) fn messages_again(&self, connection: &Connection, query: &Query<'_>) -> Vec<String> {
        let past = &self.past;
        if let Some(signal) = past.signal.as_deref().filter(|_| past.has_messages()) {
            return vec![signal.to_owned()];
        }
        let kept = self.kept_messages(connection.origin.capabilities).unwrap_or_default();
        let has_blocks = connection.origin.mariadb && !self.facts().dialect.modes.contains(Modes::ORACLE);
        if has_blocks && let Some(texts) = self.messages_by_block(&kept) {
            return texts;
        }
        let Some(error) = past.errors_before().first().or(past.error.as_ref()) else { return self.warn_again(&kept) };
        if kept.len() <= 1 || !may_count(query) {
            // MariaDB has errors with the SQLSTATE of a warning, of which SIGNAL makes one: it would count as such.
            let shows_level = may_count(query) || query.statement.kind == Kind::Show;
            let state = if shows_level { as_error(error.sqlstate) } else { error.sqlstate };
            return vec![format!("SIGNAL {}", condition(&Refusal { sqlstate: state, ..error.clone() }))];
        }
        let more_errors = kept.iter().filter(|row| is_error(row)).count().saturating_sub(1).min(ERRORS_MAX);
        let mut texts = vec![many_messages(kept.len() - more_errors)];
        texts.extend(std::iter::repeat_n(ONE_MORE_ERROR.to_owned(), more_errors));
        texts
    }

    /// Adds the errors behind the first of several: a command about an unknown statement fails again, and so do one that is not known
    /// and one that is cut. Each adds its error.
    pub(super) fn add_errors(&self, connection: &Connection, out: &mut Outgoing) {
        let behind = self.past.errors_before().iter().skip(1);
        let last = self.past.error.iter().filter(|_| !self.past.errors_before().is_empty());
        for error in behind.chain(last) {
            let (command, arguments) = match unknown_statement(error) {
                _ if error.code == errno::ER_UNKNOWN_COM_ERROR => (Command::SetOption, NO_OPTION.to_vec()),
                _ if error.code == errno::ER_MALFORMED_PACKET => (Command::SetOption, Vec::new()),
                Some(id) if !connection.origin.statements.has_id(id) => (Command::StmtReset, id.to_le_bytes().to_vec()),
                _ => (Command::Query, ONE_MORE_ERROR.into()),
            };
            out.command(connection, command, &arguments, Purpose::Signal, Expect::Results);
        }
    }
}

/// The id in the error of a command about an unknown statement.
fn unknown_statement(error: &Refusal) -> Option<u32> {
    let is_so = error.code == errno::ER_UNKNOWN_STMT_HANDLER;
    error.message.split(['(', ')']).nth(1).filter(|_| is_so)?.parse().ok()
}

/// Whether a statement may count the messages, or ask for that number.
fn may_count(query: &Query<'_>) -> bool {
    let statement = &query.statement;
    let names_condition =
        || memchr::memmem::find(&query.request.payload().to_ascii_lowercase(), b"condition").is_some();
    statement.kind == Kind::Select
        || statement.kind == Kind::Diagnostics && !names_condition()
        || statement.asks.contains(Asks::MESSAGE_COUNT)
        || query.command == Command::FieldList
}

/// Whether a row of SHOW WARNINGS is an error.
fn is_error(row: &Row) -> bool {
    row.first().is_some_and(|level| level.as_deref() == Some(b"Error"))
}

/// A SQLSTATE of which SIGNAL makes an error: this one, if it does.
fn as_error(state: [u8; 5]) -> [u8; 5] {
    if matches!(&state[..2], b"00" | b"01" | b"02") { *b"HY000" } else { state }
}

/// The condition of SIGNAL and RESIGNAL that makes this message.
fn condition(error: &Refusal) -> String {
    let message: String = error.message.chars().take(MESSAGE_TEXT_CHARS_MAX).collect();
    let message = sql::text::literal(message.as_bytes(), sql::Encoding::Utf8).unwrap_or_else(|| "''".into());
    let state = String::from_utf8_lossy(&error.sqlstate);
    format!("SQLSTATE '{state}' SET MYSQL_ERRNO={}, MESSAGE_TEXT={message}", error.code)
}

/// A block that leaves messages with these conditions, in this order.
fn block(conditions: &[String]) -> String {
    let mut conditions = conditions.iter();
    let mut text = conditions.next().map(|first| format!("SIGNAL {first}; ")).unwrap_or_default();
    for condition in conditions {
        let handler = "DECLARE EXIT HANDLER FOR SQLEXCEPTION, SQLWARNING, NOT FOUND";
        text = format!("BEGIN {handler} RESIGNAL {condition}; {text}END; ");
    }
    format!("BEGIN NOT ATOMIC {text}END")
}

/// Expressions that warn, each once.
fn warnings(count: usize) -> String {
    /// More need not be counted.
    const WARNINGS_MAX: usize = 1024;
    vec!["CAST('' AS SIGNED)"; count.min(WARNINGS_MAX)].join(",")
}

/// A statement that leaves so many messages, the last of them an error.
fn many_messages(count: usize) -> String {
    let before = warnings(count.saturating_sub(1));
    let comma = if before.is_empty() { "" } else { "," };
    format!("DO {before}{comma}(SELECT 1 UNION SELECT 2)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_makes_messages_in_their_order() {
        let made = block(&["A".into(), "B".into(), "C".into()]);
        let handler = "DECLARE EXIT HANDLER FOR SQLEXCEPTION, SQLWARNING, NOT FOUND";
        let inner = format!("BEGIN {handler} RESIGNAL B; SIGNAL A; END; ");
        assert_eq!(made, format!("BEGIN NOT ATOMIC BEGIN {handler} RESIGNAL C; {inner}END; END"));
    }

    #[test]
    fn messages_that_stand_in_are_as_many() {
        assert_eq!(many_messages(1), "DO (SELECT 1 UNION SELECT 2)");
        assert_eq!(many_messages(2), "DO CAST('' AS SIGNED),(SELECT 1 UNION SELECT 2)");
    }

    #[test]
    fn a_message_is_quoted_and_cut() {
        let error = Refusal::like_server(1054, b"42S22", format!("it's {}", "x".repeat(200)));
        let made = condition(&error);
        assert!(made.starts_with("SQLSTATE '42S22' SET MYSQL_ERRNO=1054, MESSAGE_TEXT='it''s x"));
        assert_eq!(made.matches('x').count(), MESSAGE_TEXT_CHARS_MAX - 5);
    }
}
