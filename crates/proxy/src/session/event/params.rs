//! The parameters of executions in events, and the account of their client.

use std::sync::Arc;

use events::{Param, Params};
use wire::command::Command;
use wire::parameters::{Date, Time, Value};

use super::super::Session;
use super::super::count::Finished;
use super::super::request::statement_id;

impl Session {
    /// The values of an execution's parameters. `None` if it has none, or if they are not known: parts of them were sent ahead
    /// of it.
    pub(super) fn params(&self, query: &impl Finished) -> Option<Box<Params>> {
        let (command, arguments) = query.request().payload().split_first()?;
        if *command != Command::StmtExecute.byte() {
            return None;
        }
        let id = statement_id(arguments)?;
        if self.belief.pins.has_long_data(id) {
            return None;
        }
        let values = self.parameters_of(id, query.request())?;
        if values.is_empty() {
            return None;
        }
        let mut params = Params::default();
        values.iter().for_each(|value| params.push(shown(value)));
        Some(Box::new(params))
    }

    /// The account of the servers that the client is, as far as they may be read.
    pub(super) fn account(&self) -> Option<Arc<str>> {
        let accounts = self.here.cluster.shared.published.accounts.load();
        let account = accounts.find(&self.who.identity.user, self.env.handle.client_ip())?;
        Some(format!("{}@{}", account.user, account.host).into())
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
