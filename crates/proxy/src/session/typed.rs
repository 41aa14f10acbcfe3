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
//! When the type of one parameter does not stay, all are given anew: a NULL gives none, a string that of before. A connection that has not seen the execution that gave
//! the types runs it ahead, with `sql_select_limit = 0`.

use std::sync::Arc;

use sql::{Access, Asks, Kind, Statement};
use wire::codec::Reader;
use wire::command::Execute;
use wire::exchange::Expect;

use super::outgoing::Outgoing;
use super::relay::Purpose;
use crate::pool::Connection;

/// Executions with more bytes of values are not kept.
const VALUES_BYTES_MAX: usize = 4096;
const LIMIT: &str = "sql_select_limit";

/// The execution that gave a statement's parameters their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The types, as clients send them.
    pub types: Box<[u8]>,
    /// A value for each; nothing for NULL.
    values: Vec<Option<Box<[u8]>>>,
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

fn is_null(execute: &Execute<'_>, at: usize) -> bool {
    execute.null_bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

impl Typed {
    /// What gives the parameters their types behind this execution, if that is any that a later value may be converted to, and can
    /// be run again. A string is converted to the type of `before`.
    pub fn by(execute: &Execute<'_>, types: &[u8], before: Option<&Typed>) -> Option<Box<Typed>> {
        if execute.count.is_some() || execute.values.len() > VALUES_BYTES_MAX {
            return None;
        }
        let mut typed = Typed { types: types.into(), values: Vec::with_capacity(types.len() / 2) };
        for (at, value) in values(execute, types)?.into_iter().enumerate() {
            let converted = before.filter(|_| Class::of(types, at, value.is_none()) == Class::Text);
            match converted.filter(|before| !matches!(before.class(at), Class::Null | Class::Text)) {
                Some(before) => {
                    typed.types[2 * at..2 * at + 2].copy_from_slice(&before.types[2 * at..2 * at + 2]);
                    typed.values.push(before.values[at].clone());
                }
                None => typed.values.push(value.map(Box::from)),
            }
        }
        let gives = (0..typed.values.len()).any(|at| !matches!(typed.class(at), Class::Null | Class::Text));
        gives.then(|| Box::new(typed))
    }

    fn class(&self, at: usize) -> Class {
        Class::of(&self.types, at, self.values.get(at).is_none_or(Option::is_none))
    }

    /// Whether the types stay for an execution with these.
    pub fn stays_for(&self, execute: &Execute<'_>, types: &[u8]) -> bool {
        let stays = |at| self.class(at).stays_for(Class::of(types, at, is_null(execute, at)));
        self.types.len() == types.len() && (0..types.len() / 2).all(stays)
    }

    /// Whether an execution gives the same types by itself.
    pub fn is_given_by(&self, execute: &Execute<'_>, types: &[u8]) -> bool {
        let same = |at| self.class(at) == Class::of(types, at, is_null(execute, at));
        self.types.len() == types.len() && (0..types.len() / 2).all(same)
    }

    /// Has a connection give the types, ahead of the statement. Its `sql_select_limit` is the session's again with the next fix-up.
    pub fn give(&self, connection: &mut Connection, server_id: u32, out: &mut Outgoing) {
        let set = format!("SET {LIMIT}=0");
        out.command(connection, wire::command::Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        Arc::make_mut(&mut connection.origin.state).set_variable(LIMIT, "0");
        let mut nulls = vec![0; self.values.len().div_ceil(8)];
        for (at, _) in self.values.iter().enumerate().filter(|(_, value)| value.is_none()) {
            nulls[at / 8] |= 1 << (at % 8);
        }
        let values: Vec<u8> = self.values.iter().flatten().flat_map(|value| value.iter().copied()).collect();
        let execute =
            Execute { statement: server_id, flags: 0, count: None, null_bitmap: &nulls, types: None, values: &values };
        out.packet(|bytes| execute.write(bytes, server_id, Some(&self.types)));
        // It fails as the client's own may.
        out.expect(connection, Expect::Results, Purpose::Signal);
    }
}

/// Whether a statement may be run once more without anybody seeing it.
pub fn may_run_again(statement: &Statement) -> bool {
    statement.kind == Kind::Select
        && statement.access == Access::Read
        && statement.effects.is_empty()
        && !statement.asks.contains(Asks::STORED_FUNCTIONS)
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
    fn strings_take_the_type_of_before_where_types_are_given_anew() {
        let (int, text) = ([3, 0], [253, 0]);
        let first = Typed::by(&execute(&[1], b"1234"), &[int, int].concat(), None).unwrap();
        let second = execute(&[0], b"5678\x018");
        assert!(!first.stays_for(&second, &[int, text].concat()));
        let typed = Typed::by(&second, &[int, text].concat(), Some(&first)).unwrap();
        assert_eq!(*typed.types, [int, int].concat());
        assert_eq!(typed.values.iter().flatten().map(|value| &**value).collect::<Vec<_>>(), [b"5678", b"1234"]);
    }
}
