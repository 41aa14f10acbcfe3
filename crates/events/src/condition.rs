//! Conditions on events: `user=app and ms>100`, for those who look on.

use serde_json::Value;

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
struct Part {
    field: String,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The text of the field contains the value, in any case.
    Contains,
}

/// Longer signs first, so that `>=` is not read as `>`.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::Unequal),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

/// Most parts of a condition.
const PARTS_MAX: usize = 20;

/// A condition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// A part has no operator.
    #[error("'{0}' is no condition; write FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several")]
    NoOperator(String),
    /// A part has no field.
    #[error("'{0}' names no field")]
    NoField(String),
    /// A value has to be a number.
    #[error("'{0}' compares with something that is no number")]
    NoNumber(String),
    /// There are too many parts.
    #[error("more than {PARTS_MAX} conditions")]
    TooMany,
}

impl Condition {
    /// Reads a condition such as `user=app and ms>100 and form~orders`. Fields are those of the lines, with dots for those
    /// within others (`times.total`, `error.code`); `ms` is `times.total` in milliseconds. An empty text is always true.
    ///
    /// # Errors
    /// See [`ConditionError`].
    pub fn parse(text: &str) -> Result<Condition, ConditionError> {
        if text.trim().is_empty() {
            return Ok(Condition::default());
        }
        let parts = text.split(" and ").map(Part::parse).collect::<Result<Vec<_>, _>>()?;
        if parts.len() > PARTS_MAX { Err(ConditionError::TooMany) } else { Ok(Condition(parts)) }
    }

    /// Whether it holds for a line.
    pub fn holds(&self, line: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        serde_json::from_str(line).is_ok_and(|line| self.holds_for(&line))
    }

    /// Whether it holds for an object. `ms` is the field of that name, or else `times.total` in milliseconds.
    pub fn holds_for(&self, object: &Value) -> bool {
        self.0.iter().all(|part| part.holds(object))
    }

    /// Whether it says nothing: it holds for all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Part {
    fn parse(text: &str) -> Result<Part, ConditionError> {
        let text = text.trim();
        let found = text.char_indices().find_map(|(at, _)| {
            let rest = &text[at..];
            OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign)).map(|(sign, operator)| (at, *sign, *operator))
        });
        let Some((at, sign, operator)) = found else { return Err(ConditionError::NoOperator(text.to_owned())) };
        let (field, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        if field.is_empty() {
            return Err(ConditionError::NoField(text.to_owned()));
        }
        let compares = !matches!(operator, Operator::Equal | Operator::Unequal | Operator::Contains);
        if compares && value.parse::<f64>().is_err() {
            return Err(ConditionError::NoNumber(text.to_owned()));
        }
        Ok(Part { field: field.to_owned(), operator, value: value.to_owned() })
    }

    fn holds(&self, line: &Value) -> bool {
        let is_ms = self.field == "ms" && line.get("ms").is_none();
        let field = if is_ms { "times.total" } else { &*self.field };
        let found = field.split('.').try_fold(line, |value, name| value.get(name));
        let Some(found) = found else { return self.operator == Operator::Unequal };
        if self.operator == Operator::Contains {
            return words(found).to_lowercase().contains(&self.value.to_lowercase());
        }
        let number = found.as_f64().map(|number| if is_ms { number / 1000.0 } else { number });
        match (number, self.value.parse::<f64>()) {
            (Some(number), Ok(value)) => match self.operator {
                Operator::Equal => number == value,
                Operator::Unequal => number != value,
                Operator::Less => number < value,
                Operator::LessOrEqual => number <= value,
                Operator::Greater => number > value,
                Operator::GreaterOrEqual => number >= value,
                Operator::Contains => false,
            },
            _ => match self.operator {
                Operator::Equal => words(found) == self.value,
                Operator::Unequal => words(found) != self.value,
                _ => false,
            },
        }
    }
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"query","user":"app","tls":true,"form":"SELECT a FROM Orders","error":{"code":1062},
        "times":{"total":150000}}"#;

    #[test]
    fn all_parts_must_hold() {
        for (text, holds) in [
            ("", true),
            ("user=app", true),
            ("user = app and ms > 100", true),
            ("user=app and ms>150", false),
            ("ms>=150", true),
            ("ms=150 and times.total=150000", true),
            ("form~orders", true),
            ("form~users", false),
            ("error.code=1062", true),
            ("error.code!=1062", false),
            ("tls=true", true),
            ("rule=none", false),
            ("rule!=none", true),
            ("user>5", false),
        ] {
            assert_eq!(Condition::parse(text).unwrap().holds(LINE), holds, "{text}");
        }
        assert!(!Condition::parse("user=app").unwrap().holds("no object"));
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, error) in [
            (
                "user",
                "'user' is no condition; write FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several",
            ),
            (
                "user=a and ",
                "'' is no condition; write FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several",
            ),
            ("=a", "'=a' names no field"),
            ("ms>fast", "'ms>fast' compares with something that is no number"),
        ] {
            assert_eq!(Condition::parse(text).unwrap_err().to_string(), error);
        }
        assert_eq!(Condition::parse(&["a=1"; 21].join(" and ")), Err(ConditionError::TooMany));
    }
}
