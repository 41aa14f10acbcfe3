//! A value as it stands in a log, compared with the value of a parameter.

use sql::Dialect;
use sql::lexer::{Lexer, TokenKind};
use sql::text::string;
use wire::parameters::{Date, Time, Value};

use super::Likeness;

/// A value as it stands in a log.
#[derive(Debug, PartialEq)]
pub(super) enum Literal<'a> {
    Null,
    Number(&'a str),
    /// A string in quotes or digits; also that of a date or time.
    String(Vec<u8>),
}

impl Literal<'_> {
    /// The value that the text begins with, and where it ends.
    pub(super) fn read<'a>(text: &'a [u8], dialect: &Dialect) -> Option<(Literal<'a>, usize)> {
        let mut lexer = Lexer::new(text, dialect);
        let mut token = lexer.next_token();
        if token.start != 0 {
            return None;
        }
        let is = |word: &[u8], bytes: &[u8]| bytes.eq_ignore_ascii_case(word);
        let bytes = token.bytes(text);
        let is_prefix = match token.kind {
            TokenKind::Word if is(b"NULL", bytes) => return Some((Literal::Null, token.end)),
            TokenKind::Word => [&b"DATE"[..], b"TIME", b"TIMESTAMP"].into_iter().any(|word| is(word, bytes)),
            TokenKind::Introducer => true,
            TokenKind::Operator => bytes == b"-",
            _ => false,
        };
        let is_negative = token.kind == TokenKind::Operator;
        if is_prefix {
            let end = token.end;
            token = lexer.next_token();
            if is_negative && (token.kind != TokenKind::Number || token.start != end) {
                return None;
            }
        }
        let bytes = token.bytes(text);
        let literal = match (token.kind, bytes) {
            (TokenKind::String, [b'\'', ..]) => Literal::String(string(token, text, dialect)),
            (TokenKind::BitString, [b'X' | b'x', b'\'', digits @ .., b'\'']) => Literal::String(hexadecimal(digits)?),
            (TokenKind::Number, [b'0', b'x' | b'X', digits @ ..]) => Literal::String(hexadecimal(digits)?),
            (TokenKind::Number, _) if token.start == usize::from(is_negative) => {
                Literal::Number(std::str::from_utf8(text.get(..token.end)?).ok()?)
            }
            _ => return None,
        };
        Some((literal, token.end))
    }

    pub(super) fn is_like(&self, value: &Value<'_>) -> Likeness {
        let certain = |same: bool| if same { Likeness::Same } else { Likeness::Other };
        // Another form of the same value may be meant.
        let perhaps = |same: bool| if same { Likeness::Same } else { Likeness::Similar };
        match (self, value) {
            (Literal::Null, Value::Null) => Likeness::Same,
            (_, Value::Null) => Likeness::Other,
            (Literal::Number(text), Value::Int(number)) => {
                text.parse::<i128>().map_or(Likeness::Similar, |read| certain(read == *number))
            }
            (Literal::Number(text), Value::Double(number)) => perhaps(text.parse() == Ok(*number)),
            (Literal::Number(text), Value::Decimal(number)) => {
                let number = std::str::from_utf8(number).ok().and_then(decimal);
                perhaps(number.is_some() && number == decimal(text))
            }
            (Literal::String(text), Value::Bytes(bytes)) => certain(text == bytes),
            (Literal::String(text), Value::Date(date)) => perhaps(*text == date_text(*date).into_bytes()),
            (Literal::String(text), Value::DateTime(date, time)) => {
                let clock = clock_text(*time);
                perhaps(without_zeros(text) == without_zeros(format!("{} {clock}", date_text(*date)).as_bytes()))
            }
            (Literal::String(text), Value::Time(negative, time)) => {
                let sign = if *negative { "-" } else { "" };
                perhaps(without_zeros(text) == without_zeros(format!("{sign}{}", clock_text(*time)).as_bytes()))
            }
            _ => Likeness::Similar,
        }
    }
}

fn date_text(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn clock_text(time: Time) -> String {
    format!("{:02}:{:02}:{:02}.{:06}", time.hours, time.minutes, time.seconds, time.micros)
}

/// MySQL writes six digits of a second in any case, MariaDB only if there are any.
fn without_zeros(text: &[u8]) -> &[u8] {
    if !text.contains(&b'.') {
        return text;
    }
    let end = text.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
    text.get(..end).map_or(text, |text| text.strip_suffix(b".").unwrap_or(text))
}

/// Sign, digits without zeros around them, and the exponent of the last one.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0');
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let exponent = exponent.checked_add(i64::try_from(digits.len() - kept.len()).ok()?)?;
    let kept = kept.trim_start_matches('0');
    Some(if kept.is_empty() { (false, String::new(), 0) } else { (negative, kept.to_owned(), exponent) })
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?));
    rest.is_empty().then(|| bytes.collect::<Option<Vec<u8>>>()).flatten()
}
