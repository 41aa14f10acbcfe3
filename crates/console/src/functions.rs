//! Functions that clients of MySQL ask for and SQLite does not have, or has with another meaning.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};
use time::OffsetDateTime;

use crate::variables::VERSION;

/// The longest pattern of LIKE.
const PATTERN_BYTES_MAX: usize = 256;

/// The session that asks.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// `DATABASE()`.
    pub(crate) schema: &'static str,
    /// `USER()`.
    pub(crate) user: String,
    /// `CONNECTION_ID()`.
    pub(crate) id: u32,
}

/// Gives them to a connection.
pub(crate) fn add(connection: &Connection, asker: &Asker) -> Result<()> {
    let constant = |name: &'static str, value: Value| {
        connection.create_scalar_function(name, 0, FLAGS, move |_: &mut Context<'_>| Ok(value.clone()))
    };
    constant("version", Value::Text(VERSION.to_owned()))?;
    for name in ["database", "schema"] {
        constant(name, Value::Text(asker.schema.to_owned()))?;
    }
    for name in ["user", "current_user", "session_user", "system_user"] {
        constant(name, Value::Text(asker.user.clone()))?;
    }
    constant("connection_id", Value::Integer(asker.id.into()))?;
    let now = SystemTime::now();
    let now_s = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    for name in ["now", "sysdate", "utc_timestamp"] {
        constant(name, shown_time(now_s))?;
    }
    constant("unix_timestamp", Value::Integer(now_s))?;
    constant("last_insert_id", Value::Integer(0))?;
    constant("found_rows", Value::Integer(0))?;
    connection.create_scalar_function("from_unixtime", 1, FLAGS, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Integer(seconds) => shown_time(seconds),
            ValueRef::Real(seconds) => shown_time(seconds as i64),
            _ => Value::Null,
        })
    })?;
    connection.create_scalar_function("concat", -1, FLAGS, |context| Ok(concat(context)))?;
    connection.create_scalar_function("locate", 2, FLAGS, |context| Ok(locate(context)))?;
    connection.create_scalar_function("ucase", 1, FLAGS, |context| {
        Ok(words(context.get_raw(0)).map(|text| text.to_uppercase()))
    })?;
    connection.create_scalar_function("lcase", 1, FLAGS, |context| {
        Ok(words(context.get_raw(0)).map(|text| text.to_lowercase()))
    })?;
    connection.create_scalar_function("left", 2, FLAGS, |context| Ok(part(context, false)))?;
    connection.create_scalar_function("right", 2, FLAGS, |context| Ok(part(context, true)))?;
    connection.create_scalar_function("like", 2, FLAGS, |context| like(context, Some('\\')))?;
    connection.create_scalar_function("like", 3, FLAGS, |context| {
        let escape = words(context.get_raw(2)).and_then(|escape| escape.chars().next());
        like(context, escape)
    })
}

const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// `2026-01-31 12:00:00`, in UTC.
fn shown_time(seconds: i64) -> Value {
    let Ok(at) = OffsetDateTime::from_unix_timestamp(seconds) else { return Value::Null };
    let (date, hour, minute, second) = (at.date(), at.hour(), at.minute(), at.second());
    let month = u8::from(date.month());
    Value::Text(format!("{:04}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", date.year(), date.day()))
}

fn words(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// MySQL's CONCAT is NULL if one of its values is, SQLite's leaves that one out.
fn concat(context: &Context<'_>) -> Value {
    let parts: Option<String> = (0..context.len()).map(|index| words(context.get_raw(index))).collect();
    parts.map_or(Value::Null, Value::Text)
}

/// The place of the first text in the second one, counted from 1; 0 if it is not there.
fn locate(context: &Context<'_>) -> Option<i64> {
    let (sought, text) = (words(context.get_raw(0))?.to_lowercase(), words(context.get_raw(1))?.to_lowercase());
    let place = text.find(&sought).map_or(0, |at| text[..at].chars().count() + 1);
    i64::try_from(place).ok()
}

fn part(context: &Context<'_>, from_end: bool) -> Value {
    let (Some(text), ValueRef::Integer(count)) = (words(context.get_raw(0)), context.get_raw(1)) else {
        return Value::Null;
    };
    let count = usize::try_from(count).unwrap_or(0);
    let skipped = if from_end { text.chars().count().saturating_sub(count) } else { 0 };
    Value::Text(text.chars().skip(skipped).take(count).collect())
}

/// LIKE with MySQL's escape, in a time that grows with the product of both lengths at most: SQLite's own tries all ways.
fn like(context: &Context<'_>, escape: Option<char>) -> Result<Value> {
    match (words(context.get_raw(0)), words(context.get_raw(1))) {
        (Some(pattern), _) if pattern.len() > PATTERN_BYTES_MAX => Err(rusqlite::Error::UserFunctionError(
            format!("LIKE takes patterns of up to {PATTERN_BYTES_MAX} bytes").into(),
        )),
        (Some(pattern), Some(text)) => Ok(Value::Integer(is_like(&pattern, &text, escape).into())),
        _ => Ok(Value::Null),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Char(char),
}

fn is_like(pattern: &str, text: &str, escape: Option<char>) -> bool {
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(match c {
            c if Some(c) == escape => Part::Char(fold(chars.next().unwrap_or(c))),
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Char(fold(c)),
        });
    }
    let text: Vec<char> = text.chars().map(fold).collect();
    let (mut at, mut part, mut last_any) = (0, 0, None);
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                last_any = Some((part, at));
                part += 1;
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Char(c)) if *c == text[at] => (at, part) = (at + 1, part + 1),
            _ => match last_any {
                // The last `%` takes one more.
                Some((any, from)) => {
                    last_any = Some((any, from + 1));
                    (at, part) = (from + 1, any + 1);
                }
                None => return false,
            },
        }
    }
    parts[part..].iter().all(|part| *part == Part::Any)
}

fn fold(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hold_as_in_mysql() {
        for (pattern, text, holds) in [
            ("%", "", true),
            ("", "", true),
            ("", "a", false),
            ("a%c", "abbc", true),
            ("a_c", "abc", true),
            ("a_c", "ac", false),
            ("MAX\\_%", "max_connections", true),
            ("max\\_%", "maximum", false),
            ("%b%d%", "abcd", true),
            ("%b%d", "abcdx", false),
            ("%ab", "aab", true),
            ("%Ü_", "aüx", true),
            ("\\", "\\", true),
            ("100\\%", "100%", true),
        ] {
            assert_eq!(is_like(pattern, text, Some('\\')), holds, "{pattern} {text}");
        }
        let begun = std::time::Instant::now();
        assert!(
            !is_like(&"%a".repeat(200), &"a".repeat(20_000).replace("aa", "ab"), Some('\\'))
                || begun.elapsed().as_secs() < 5
        );
        assert!(!is_like(&format!("{}b", "%a".repeat(100)), &"a".repeat(20_000), Some('\\')));
        assert!(begun.elapsed().as_secs() < 5, "no pattern takes long");
    }

    #[test]
    fn times_are_those_of_utc() {
        assert_eq!(shown_time(0), Value::Text("1970-01-01 00:00:00".into()));
        assert_eq!(shown_time(1_769_860_799), Value::Text("2026-01-31 11:59:59".into()));
        assert_eq!(shown_time(i64::MAX), Value::Null);
    }
}
