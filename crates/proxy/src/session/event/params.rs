//! The parameters of executions in events, and the account of their client.

use std::sync::Arc;

use events::{Param, Params};
use wire::command::{BulkExecute, Command};
use wire::parameters::{BulkValue, Date, Time, Value};

use super::super::Session;
use super::super::count::Finished;
use super::super::long_data::LongValue;

impl Session {
    /// The values of an execution's parameters, and how many rows of them there are in a bulk execution. No values if the
    /// execution has none, if they are not known, or if nobody wants them.
    pub(super) fn params(&self, query: &impl Finished, wanted: bool) -> (Option<Box<Params>>, Option<u64>) {
        let Some((command, arguments)) = query.request().payload().split_first() else { return (None, None) };
        match Command::from_byte(*command) {
            Some(Command::StmtExecute) if wanted => (self.params_of_one(query, arguments), None),
            Some(Command::StmtBulkExecute) => self.params_of_bulk(arguments, wanted),
            _ => (None, None),
        }
    }

    fn params_of_one(&self, query: &impl Finished, arguments: &[u8]) -> Option<Box<Params>> {
        let id = self.belief.statements.named_in(arguments)?.id;
        let ahead = match self.belief.pins.has_long_data(id) {
            true => self.belief.long_data.of(id)?,
            false => &[],
        };
        let values = self.parameters_of(id, query.request())?;
        if values.is_empty() {
            return None;
        }
        let mut params = Params::default();
        for (at, value) in values.iter().enumerate() {
            let sent_ahead = ahead.iter().find(|ahead| usize::from(ahead.parameter) == at);
            params.push(sent_ahead.map_or_else(|| shown(value), long));
        }
        Some(Box::new(params))
    }

    fn params_of_bulk(&self, arguments: &[u8], wanted: bool) -> (Option<Box<Params>>, Option<u64>) {
        let known = self.belief.statements.named_in(arguments);
        let Some(known) = known else { return (None, None) };
        let Ok(bulk) = BulkExecute::parse(arguments, known.parameters) else { return (None, None) };
        let remembered = || known.types.as_ref().filter(|(of, _)| *of == u64::from(known.parameters));
        let types = bulk.types.or_else(|| remembered().map(|(_, types)| &**types));
        let mut params = Params::of_rows(known.parameters);
        let see = |value: BulkValue<'_>| {
            if wanted && params.has_room() {
                params.push(match value {
                    BulkValue::Value(value) => shown(&value),
                    BulkValue::Default => Param::Default,
                    BulkValue::Ignore => Param::Ignore,
                });
            }
        };
        match types.map(|types| bulk.see_rows(types, see)) {
            Some(Ok(rows)) => (wanted.then(|| Box::new(params)), Some(rows)),
            Some(Err(_)) | None => (None, None),
        }
    }

    /// The account of the servers that the client is, as far as they may be read.
    pub(super) fn account(&self) -> Option<Arc<str>> {
        let accounts = self.here.cluster.shared.published.accounts.load();
        let account = accounts.find(&self.who.identity.user, self.env.handle.client_ip())?;
        Some(format!("{}@{}", account.user, account.host).into())
    }
}

/// A value that was sent ahead: all of it is known only if it is short.
fn long(value: &LongValue) -> Param {
    let begin = value.begin.as_slice().into();
    if value.bytes == value.begin.len() as u64 {
        Param::Bytes(begin)
    } else {
        Param::Long { bytes: value.bytes, begin }
    }
}

fn shown(value: &Value<'_>) -> Param {
    let text = |text: String| Param::Bytes(text.into_bytes().into());
    match value {
        Value::Null | Value::Other => Param::Null,
        Value::Int(number) => Param::Int(*number),
        Value::Double(number) => Param::Float(*number),
        Value::Decimal(bytes) | Value::Bytes(bytes) => Param::Bytes((*bytes).into()),
        Value::Date(date) => text(date_text(date)),
        Value::DateTime(date, time) => text(format!("{} {}", date_text(date), time_text(time))),
        Value::Time(negative, time) => text(format!("{}{}", if *negative { "-" } else { "" }, time_text(time))),
    }
}

fn date_text(date: &Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn time_text(time: &Time) -> String {
    let Time { hours, minutes, seconds, micros } = time;
    let fraction = if *micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_sql_has_them() {
        let (date, time) =
            (Date { year: 2026, month: 11, day: 28 }, Time { hours: 51, minutes: 4, seconds: 5, micros: 7 });
        let text = |text: &str| Param::Bytes(text.as_bytes().into());
        for (value, expected) in [
            (Value::Null, Param::Null),
            (Value::Other, Param::Null),
            (Value::Int(-7), Param::Int(-7)),
            (Value::Double(0.5), Param::Float(0.5)),
            (Value::Decimal(b"1.50"), text("1.50")),
            (Value::Date(date), text("2026-11-28")),
            (Value::DateTime(date, Time { micros: 0, hours: 1, ..time }), text("2026-11-28 01:04:05")),
            (Value::Time(true, time), text("-51:04:05.000007")),
        ] {
            assert_eq!(shown(&value), expected);
        }
    }
}
