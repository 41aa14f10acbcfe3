//! A reply's packets as lines that can be compared and read.

use std::cell::RefCell;
use std::fmt::Write as _;

use wire::codec::{Malformed, Reader};
use wire::reply::{self, Change, Eof};
use wire::{Capabilities, Status};

use crate::differences::{Differences, Fate};
use crate::script::escape;

/// The facts that are needed to write packets down.
pub(crate) struct Observer<'a> {
    pub(crate) differences: &'a Differences,
    pub(crate) capabilities: Capabilities,
    /// The id that the greeting gave.
    pub(crate) own_id: u64,
    /// The schema that the session is in.
    pub(crate) schema: RefCell<String>,
    /// The action chooses a schema.
    pub(crate) chooses: bool,
    /// The action runs a prepared statement.
    pub(crate) executes: bool,
}

/// Of a column's flags: it is not compared by a character set's rules.
const BINARY_FLAG: u16 = 128;

/// A column, as far as its rows need it.
pub(crate) struct Seen {
    fate: Option<Fate>,
    /// SHOW CREATE TABLE's.
    definition: bool,
}

impl Observer<'_> {
    fn status(&self, status: Status) -> String {
        let shown = self.differences.status(status) - Status::SESSION_STATE_CHANGED;
        shown.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|")
    }

    pub(crate) fn ok(&self, payload: &[u8], word: &str) -> Result<(String, Status), Malformed> {
        let ok = reply::Ok::parse(payload, self.capabilities)?;
        let mut line = format!("{word} [{}] warnings={}", self.status(ok.status), ok.warnings);
        if ok.affected_rows != 0 || ok.insert_id != 0 || word == "ok" {
            let _ = write!(line, " affected={} id={}", ok.affected_rows, ok.insert_id);
        }
        if !ok.info.is_empty() {
            let _ = write!(line, " info={:?}", escape(ok.info));
        }
        let mut plain = Vec::new();
        ok.write(&mut plain, payload.first().copied().unwrap_or_default(), self.capabilities);
        if !self.capabilities.contains(Capabilities::SESSION_TRACK) && plain.len() != payload.len() {
            line += " and more bytes";
        }
        if ok.empty_report {
            line += " empty-report";
        }
        // Variables of one packet come in the order of a hash table.
        let mut variables = Vec::new();
        for change in ok.changes() {
            match change? {
                Change::Variable { name, value } => {
                    let masked = self.differences.tracked(&String::from_utf8_lossy(name)).is_some();
                    let value = if masked { "*".into() } else { escape(value) };
                    variables.push(format!(" {}={value:?}", escape(name)));
                }
                Change::Schema(name) => {
                    let name = escape(name);
                    let again = !self.chooses && *self.schema.borrow() == name;
                    if again && self.differences.habit("schema-told-again") {
                        continue;
                    }
                    let _ = write!(line, " schema={name:?}");
                    // While more results follow it may be that of a routine that runs.
                    if self.chooses || !ok.status.contains(Status::MORE_RESULTS) {
                        self.schema.replace(name);
                    }
                }
                other => drop(write!(line, " {other:?}")),
            }
        }
        variables.sort();
        line.extend(variables);
        Ok((line, ok.status))
    }

    pub(crate) fn eof(&self, payload: &[u8], word: &str) -> Result<(String, Status), Malformed> {
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            return self.ok(payload, word);
        }
        let eof = Eof::parse(payload)?;
        Ok((format!("{word} [{}] warnings={}", self.status(eof.status), eof.warnings), eof.status))
    }

    pub(crate) fn error(&self, payload: &[u8]) -> Result<(String, u16), Malformed> {
        let error = reply::ServerError::parse(payload)?;
        let message = match self.differences.error(error.code) {
            Some(_) => "*".into(),
            None => self.without_ids(escape(error.message)),
        };
        Ok((format!("error {} {} {message}", error.code, escape(&error.sqlstate)), error.code))
    }

    pub(crate) fn column(&self, payload: &[u8]) -> Result<(String, Seen), Malformed> {
        let mut reader = Reader::new(payload);
        let mut names = Vec::with_capacity(6);
        for _ in 0..6 {
            names.push(escape(reader.lenenc_bytes("column: name")?));
        }
        let mut fixed = Reader::new(reader.lenenc_bytes("column: fixed part")?);
        let (charset, length) = (fixed.u16("charset")?, fixed.u32("length")?);
        let fate = self.differences.column(&names[4]);
        let (kind, flags, decimals) = (fixed.u8("type")?, fixed.u16("flags")?, fixed.u8("decimals")?);
        let is_parameter = self.executes && names[2].is_empty() && self.differences.habit("parameter-of-before");
        let flags = if is_parameter { flags & !BINARY_FLAG } else { flags };
        // How long an id is printed depends on the id.
        let length = match length {
            _ if fate == Some(Fate::Mask) => "*".into(),
            _ => length.to_string(),
        };
        let mut line = match fate {
            Some(Fate::OwnId) if names[4].starts_with("@@") => format!("column {}", names.join("|")),
            _ => format!(
                "column {} charset={charset} length={length} type={kind} flags={flags} decimals={decimals}",
                names.join("|")
            ),
        };
        if !reader.is_empty() {
            let _ = write!(line, " more={}", escape(reader.remaining()));
        }
        let definition = names[4] == "Create Table" && self.differences.habit("next-id-of-replica");
        Ok((line, Seen { fate, definition }))
    }

    /// A message without the number of the prepared statement that it is about.
    fn without_ids(&self, text: String) -> String {
        for (before, after) in [("The statement (", ") has no open cursor"), ("statement handler (", ") given to ")] {
            if let Some((start, rest)) = text.split_once(before)
                && let Some((id, end)) = rest.split_once(after)
                && id.bytes().all(|byte| byte.is_ascii_digit())
                && self.differences.habit("statement-ids")
            {
                return format!("{start}{before}*{after}{end}");
            }
        }
        text
    }

    pub(crate) fn text_row(&self, payload: &[u8], columns: &[Seen]) -> Result<String, Malformed> {
        let mut reader = Reader::new(payload);
        let mut line = String::from("row");
        for column in columns {
            line.push(' ');
            match (reader.text_value("value")?, column.fate) {
                (_, Some(Fate::Mask)) => line.push('*'),
                (Some(value), Some(Fate::OwnId)) if value == self.own_id.to_string().as_bytes() => line += "(own id)",
                (Some(value), _) if column.definition => {
                    let _ = write!(line, "{:?}", without_next_id(&escape(value)));
                }
                (Some(value), _) => drop(write!(line, "{:?}", self.without_ids(escape(value)))),
                (None, _) => line += "NULL",
            }
        }
        if !reader.is_empty() {
            line += " and more bytes";
        }
        Ok(line)
    }

    /// Values of binary rows are compared as the bytes that they are.
    pub(crate) fn binary_row(&self, payload: &[u8], columns: &[Seen]) -> String {
        let of = |fate| columns.iter().any(|column| column.fate == Some(fate));
        if of(Fate::OwnId) {
            let id = (self.own_id as u32).to_le_bytes();
            let found = payload.windows(id.len()).any(|bytes| bytes == id);
            return format!("binary row {} own id", if found { "with its" } else { "without its" });
        }
        if of(Fate::Mask) { "binary row *".into() } else { format!("binary row {}", escape(payload)) }
    }
}

/// A table's definition without ` AUTO_INCREMENT=5`.
fn without_next_id(definition: &str) -> String {
    match definition.split_once(" AUTO_INCREMENT=") {
        Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => definition.to_owned(),
    }
}
