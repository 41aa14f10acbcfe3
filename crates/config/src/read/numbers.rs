//! Values that are a number, a flag or a word.

use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::words::{kind_of, parse_size};
use super::{Reader, Table, quote, size_text};
use crate::settings::{Kind, Setting, Unit};
use crate::suggest;

impl Reader<'_> {
    /// A whole number within its bounds.
    pub(crate) fn whole(&mut self, table: &Table, setting: &'static Setting) -> u64 {
        let Kind::Whole { unit, default, min, max, .. } = setting.kind else { return 0 };
        let value = match self.find(table, setting).map(Spanned::get_ref) {
            None => default,
            Some(DeValue::Integer(integer)) => {
                match i128::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| u64::try_from(n).ok()) {
                    Some(number) if (min..=max).contains(&number) => number,
                    _ => {
                        self.wrong(table, setting, format!("{integer} is out of bounds"), None);
                        default
                    }
                }
            }
            Some(other) => {
                let hint = match (unit, other) {
                    (Unit::Millis, DeValue::String(_)) => Some("write the number alone, in milliseconds".to_owned()),
                    (Unit::Seconds, DeValue::String(_)) => Some("write the number alone, in seconds".to_owned()),
                    (_, DeValue::String(_)) => Some("write the number without quotes".to_owned()),
                    _ => None,
                };
                self.wrong(table, setting, format!("a whole number stands here, not {}", kind_of(other)), hint);
                default
            }
        };
        self.note(table, setting, value.to_string());
        value
    }

    /// A whole number whose bounds fit 32 bits.
    pub(crate) fn number(&mut self, table: &Table, setting: &'static Setting) -> u32 {
        u32::try_from(self.whole(table, setting)).unwrap_or(u32::MAX)
    }

    /// A time, in the setting's unit.
    pub(crate) fn duration(&mut self, table: &Table, setting: &'static Setting) -> Duration {
        let value = self.whole(table, setting);
        match setting.kind {
            Kind::Whole { unit: Unit::Seconds, .. } => Duration::from_secs(value),
            _ => Duration::from_millis(value),
        }
    }

    /// A number of bytes.
    pub(crate) fn size(&mut self, table: &Table, setting: &'static Setting) -> u64 {
        let Kind::Size { default, min, max } = setting.kind else { return 0 };
        let read = match self.find(table, setting).map(Spanned::get_ref) {
            None => Ok(default),
            Some(DeValue::Integer(integer)) => {
                let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
                number.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| format!("{integer} is out of bounds"))
            }
            Some(DeValue::String(text)) => parse_size(text).ok_or_else(|| format!("{} is no size", quote(text))),
            Some(other) => Err(format!("a size stands here, not {}", kind_of(other))),
        };
        let value = read.and_then(|value| match value {
            value if (min..=max).contains(&value) => Ok(value),
            value => Err(format!("{} is out of bounds", size_text(value))),
        });
        let value = value.unwrap_or_else(|message| {
            self.wrong(table, setting, message, None);
            default
        });
        self.note(table, setting, quote(&size_text(value)));
        value
    }

    /// true or false.
    pub(crate) fn flag(&mut self, table: &Table, setting: &'static Setting) -> bool {
        let Kind::Flag { default } = setting.kind else { return false };
        let value = match self.find(table, setting).map(Spanned::get_ref) {
            None => default,
            Some(DeValue::Boolean(value)) => *value,
            Some(other) => {
                self.wrong(table, setting, format!("true or false stands here, not {}", kind_of(other)), None);
                default
            }
        };
        self.note(table, setting, value.to_string());
        value
    }

    /// One of the setting's words as a value of an enum, where `word` gives a value's word; none when the key is absent and has no default.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        table: &Table,
        setting: &'static Setting,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Option<T> {
        let Kind::Choice { default, words } = setting.kind else { return None };
        let by_word = |text: &str| {
            let known = words.iter().find(|known| known.word == text)?;
            all.iter().copied().find(|value| word(*value) == known.word)
        };
        let read = match self.find(table, setting).map(Spanned::get_ref) {
            None => default.and_then(by_word),
            Some(DeValue::String(text)) => {
                let value = by_word(text);
                if value.is_none() {
                    let quoted = quote(text);
                    let near = suggest::nearest(text, words.iter().map(|word| word.word));
                    let hint = near.map(|near| format!("did you mean \"{near}\"?"));
                    self.wrong(table, setting, format!("{quoted} is not one of the words"), hint);
                }
                value
            }
            Some(other) => {
                self.wrong(table, setting, format!("a word in quotes stands here, not {}", kind_of(other)), None);
                None
            }
        };
        self.note(table, setting, read.map_or_else(String::new, |value| quote(word(value))));
        read
    }
}
