//! The types that MySQL has given a prepared statement's parameters where their places show none, as in `SELECT ?`.
//!
//! The first execution gives a parameter the type of its value. A later one converts to that type or gives another one
//! (seen with MySQL 9.7):
//!
//! | type | stays for values of these types |
//! |---|---|
//! | any | NULL, strings |
//! | string, or only NULLs so far | strings |
//! | integer | integers with the same sign |
//! | DECIMAL | integers |
//! | DOUBLE | numbers |
//! | DATE | numbers |
//! | TIME | numbers, DATETIME |
//! | DATETIME | numbers, DATE, TIME |
//!
//! When the type of one parameter does not stay, all are given anew: a NULL gives none, and a value for which the type of before stays is
//! converted to that (a string only if it is a number). A connection that has not seen the execution that gave
//! the types runs it ahead, with `sql_select_limit = 0`.

use std::sync::Arc;

use sql::{Access, Asks, Kind, Statement, Why};
use wire::codec::Reader;
use wire::command::Execute;
use wire::exchange::Expect;

use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::Connection;

/// Executions with more bytes of values are not kept.
const VALUES_BYTES_MAX: usize = 4096;
const LIMIT: &str = "sql_select_limit";

/// More executions than these are not run again.
const EXECUTIONS_MAX: usize = 4;

/// The executions that gave a statement's parameters their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    executions: Vec<Execution>,
    /// The types that the parameters have.
    classes: Vec<Class>,
}

/// An execution, as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Execution {
    types: Box<[u8]>,
    nulls: Box<[u8]>,
    values: Box<[u8]>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Null,
    Text,
    Integer { unsigned: bool },
    Decimal,
    Double,
    Date,
    Time,
    DateTime,
    Other(u8),
}

impl Class {
    fn of(types: &[u8], at: usize, is_null: bool) -> Class {
        if is_null {
            return Class::Null;
        }
        let unsigned = types.get(2 * at + 1).is_some_and(|flags| flags & 0x80 != 0);
        match types.get(2 * at).copied().unwrap_or(6) {
            6 => Class::Null,
            15 | 249..=254 => Class::Text,
            1 | 2 | 3 | 8 | 9 | 13 => Class::Integer { unsigned },
            0 | 246 => Class::Decimal,
            4 | 5 => Class::Double,
            10 | 14 => Class::Date,
            11 => Class::Time,
            7 | 12 => Class::DateTime,
            other => Class::Other(other),
        }
    }

    /// Whether this type stays for a value of another one.
    fn stays_for(self, value: Class) -> bool {
        let number = matches!(value, Class::Integer { .. } | Class::Decimal | Class::Double);
        let in_number = matches!(value, Class::Integer { .. }) && self == Class::Decimal;
        match self {
            _ if matches!(value, Class::Null | Class::Text) || self == value => true,
            Class::Decimal => in_number,
            Class::Double | Class::Date => number,
            Class::Time => number || value == Class::DateTime,
            Class::DateTime => number || matches!(value, Class::Date | Class::Time),
            Class::Null | Class::Text | Class::Integer { .. } | Class::Other(_) => false,
        }
    }
}

/// The values of an execution with these types; `None` for NULL.
fn values<'a>(execute: &Execute<'a>, types: &[u8]) -> Option<Vec<Option<&'a [u8]>>> {
    let mut reader = Reader::new(execute.values);
    let mut values = Vec::with_capacity(types.len() / 2);
    for at in 0..types.len() / 2 {
        if is_null(execute, at) {
            values.push(None);
            continue;
        }
        let (all, left) = (reader.rest(), reader.rest().len());
        match types[2 * at] {
            6 => {}
            1 => drop(reader.bytes(1, "value").ok()?),
            2 | 13 => drop(reader.bytes(2, "value").ok()?),
            3 | 4 | 9 => drop(reader.bytes(4, "value").ok()?),
            5 | 8 => drop(reader.bytes(8, "value").ok()?),
            _ => drop(reader.lenenc_bytes("value").ok()?),
        }
        values.push(Some(&all[..left - reader.rest().len()]));
    }
    Some(values)
}

/// Whether a string is converted to a number without a rest.
fn is_number(value: &[u8]) -> bool {
    let digits = Reader::new(value).lenenc_bytes("value").unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_null(execute: &Execute<'_>, at: usize) -> bool {
    execute.null_bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

impl Typed {
    /// The values that gave the parameters their types in this execution, if a later value may be converted to these types,
    /// and if it can be run again. A value is converted to the type of `before` where that stays for it.
    pub fn by(execute: &Execute<'_>, types: &[u8], before: Option<&Typed>) -> Option<Box<Typed>> {
        if execute.count.is_some() || execute.values.len() > VALUES_BYTES_MAX {
            return None;
        }
        let class = |(at, value): (usize, Option<&[u8]>)| {
            let own = Class::of(types, at, value.is_none());
            let stays = |before: &Class| {
                let gives = !matches!(before, Class::Null | Class::Text) && own != Class::Null;
                gives && before.stays_for(own) && (own != Class::Text || value.is_some_and(is_number))
            };
            let before = before.and_then(|before| before.classes.get(at));
            before.copied().filter(stays).unwrap_or(own)
        };
        let classes: Vec<Class> = values(execute, types)?.into_iter().enumerate().map(class).collect();
        if classes.iter().all(|class| matches!(class, Class::Null | Class::Text)) {
            return None;
        }
        let (nulls, values) = (execute.null_bitmap.into(), execute.values.into());
        let mut executions = before.map_or_else(Vec::new, |before| before.executions.clone());
        if executions.len() >= EXECUTIONS_MAX {
            executions.clear();
        }
        executions.push(Execution { types: types.into(), nulls, values });
        Some(Box::new(Typed { executions, classes }))
    }

    /// Tells the types from others.
    pub fn types(&self) -> Box<[u8]> {
        self.executions.iter().flat_map(|execution| execution.types.iter().copied()).collect()
    }

    /// Whether the types stay for an execution with these.
    pub fn stays_for(&self, execute: &Execute<'_>, types: &[u8]) -> bool {
        let stays = |(at, class): (usize, &Class)| class.stays_for(Class::of(types, at, is_null(execute, at)));
        2 * self.classes.len() == types.len() && self.classes.iter().enumerate().all(stays)
    }

    /// Whether an execution gives the same types by itself.
    pub fn is_given_by(&self, execute: &Execute<'_>, types: &[u8]) -> bool {
        let same = |(at, class): (usize, &Class)| *class == Class::of(types, at, is_null(execute, at));
        self.executions.len() == 1 && 2 * self.classes.len() == types.len() && self.classes.iter().enumerate().all(same)
    }

    /// Has a connection give the types, ahead of the statement. Its `sql_select_limit` is the session's again with the next fix-up.
    pub fn give(&self, connection: &mut Connection, server_id: u32, out: &mut Outgoing) {
        let set = format!("SET {LIMIT}=0");
        out.command(connection, wire::command::Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        Arc::make_mut(&mut connection.origin.state).set_variable(LIMIT, "0");
        for Execution { types, nulls, values } in &self.executions {
            let statement = server_id;
            let execute = Execute { statement, flags: 0, count: None, null_bitmap: nulls, types: None, values };
            out.packet(|bytes| execute.write(bytes, server_id, Some(types)));
            // It fails as the client's own may.
            out.expect(connection, Expect::Results, Purpose::Signal);
        }
    }
}

/// Whether all values of an execution are strings or NULL, for which each type stays.
pub fn are_texts(execute: &Execute<'_>, types: &[u8]) -> bool {
    let is_text = |at| matches!(Class::of(types, at, is_null(execute, at)), Class::Null | Class::Text);
    (0..types.len() / 2).all(is_text)
}

/// Whether a statement may be run once more without anybody seeing it. One that asks what the statement before has left
/// ([`asks_for_past`]) would see itself, unless that is put into its text.
pub fn may_run_again(statement: &Statement) -> bool {
    statement.kind == Kind::Select
        && (statement.access == Access::Read || asks_for_past(statement))
        && statement.effects.is_empty()
        && !statement.asks.contains(Asks::STORED_FUNCTIONS)
}

/// Whether a statement reads what the one before has left on the connection: ROW_COUNT() and the like.
pub fn asks_for_past(statement: &Statement) -> bool {
    statement.access == Access::Primary(Why::SessionState)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execute(nulls: &'static [u8], values: &'static [u8]) -> Execute<'static> {
        Execute { statement: 1, flags: 0, count: None, null_bitmap: nulls, types: None, values }
    }

    #[test]
    fn types_stay_for_values_that_are_converted() {
        let (int, unsigned, text, double, date) = ([3, 0], [8, 0x80], [253, 0], [5, 0], [10, 0]);
        let (value, null, word) = (execute(&[0], b"1234"), execute(&[1], b""), execute(&[0], b"\x01a"));
        assert_eq!(Typed::by(&word, &text, None), None, "others give types of their own behind it");
        assert_eq!(Typed::by(&null, &int, None), None, "NULL gives none");
        let typed = Typed::by(&value, &int, None).unwrap();
        assert!(typed.stays_for(&word, &text) && typed.stays_for(&null, &double));
        assert!(typed.is_given_by(&value, &[1, 0]) && !typed.is_given_by(&null, &int));
        assert!(!typed.stays_for(&value, &unsigned) && !typed.stays_for(&value, &double));
        let typed = Typed::by(&execute(&[0], b"\0"), &date, None).unwrap();
        assert!(typed.stays_for(&value, &double) && !typed.stays_for(&value, &[12, 0]));
        let long = vec![0; VALUES_BYTES_MAX + 1];
        assert_eq!(Typed::by(&Execute { values: &long, ..value }, &int, None), None);
        assert_eq!(Typed::by(&execute(&[0], b"12"), &int, None), None, "cut off");
    }

    #[test]
    fn values_take_the_type_of_before_where_types_are_given_anew() {
        let (int, text) = ([3, 0], [253, 0]);
        let first = Typed::by(&execute(&[1], b"1234"), &[int, int].concat(), None).unwrap();
        let second = execute(&[0], b"5678\x018");
        assert!(!first.stays_for(&second, &[int, text].concat()));
        let typed = Typed::by(&second, &[int, text].concat(), Some(&first)).unwrap();
        assert_eq!(typed.classes, [Class::Integer { unsigned: false }; 2]);
        assert_eq!(typed.executions.len(), 2);
        assert!(!typed.is_given_by(&execute(&[0], b"12345678"), &[int, int].concat()), "both have to be run");
        let mut last = typed;
        for double in [true, false, true] {
            let types = [if double { [5, 0] } else { [10, 0] }, int].concat();
            let value: &[u8] = if double { b"123456781234" } else { b"\x001234" };
            last = Typed::by(&execute(&[0], value), &types, Some(&last)).unwrap();
        }
        assert_eq!(last.executions.len(), 1, "not more and more");
    }
}
