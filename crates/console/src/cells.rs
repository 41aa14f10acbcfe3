//! Values of a view's rows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use rusqlite::types::Value;

/// A row, with a value for each column of its view.
pub(crate) type Row = Vec<Value>;

/// A value that a row takes.
pub(crate) trait Cell {
    fn cell(self) -> Value;
}

impl Cell for &str {
    fn cell(self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl Cell for String {
    fn cell(self) -> Value {
        Value::Text(self)
    }
}

impl Cell for u64 {
    fn cell(self) -> Value {
        Value::Integer(i64::try_from(self).unwrap_or(i64::MAX))
    }
}

impl Cell for i64 {
    fn cell(self) -> Value {
        Value::Integer(self)
    }
}

impl Cell for u32 {
    fn cell(self) -> Value {
        Value::Integer(self.into())
    }
}

impl Cell for u16 {
    fn cell(self) -> Value {
        Value::Integer(self.into())
    }
}

impl Cell for usize {
    fn cell(self) -> Value {
        (self as u64).cell()
    }
}

impl Cell for bool {
    fn cell(self) -> Value {
        Value::Integer(self.into())
    }
}

impl Cell for f64 {
    fn cell(self) -> Value {
        Value::Real(self)
    }
}

/// Milliseconds, with a part of one.
impl Cell for Duration {
    fn cell(self) -> Value {
        Value::Real(stats::micros(self) as f64 / 1000.0)
    }
}

/// Milliseconds since 1970.
impl Cell for SystemTime {
    fn cell(self) -> Value {
        let since = self.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).cell()
    }
}

impl Cell for Value {
    fn cell(self) -> Value {
        self
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(self) -> Value {
        self.map_or(Value::Null, Cell::cell)
    }
}

/// A row of anything.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::cells::Cell::cell($value)),*] };
}
pub(crate) use row;

/// Seconds since 1970.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
