//! Paths, values and what may stand, in words.

use toml::de::DeValue;

use crate::settings::{Form, Kind, Section, Setting, Unit};

/// The allowed values of a setting, in words.
pub(super) fn allowed(setting: &Setting) -> Option<String> {
    match setting.kind {
        Kind::Whole { unit, min, max, .. } => Some(match unit {
            Unit::Count => format!("{min} to {max}"),
            Unit::Millis => format!("{min} to {max} milliseconds"),
            Unit::Seconds => format!("{min} to {max} seconds"),
        }),
        Kind::Size { min, max, .. } => {
            Some(format!("{} to {}, as bytes or with KiB, MiB or GiB in quotes", size_text(min), size_text(max)))
        }
        Kind::Flag { .. } => Some("true, false".into()),
        Kind::Choice { words, .. } => {
            Some(words.iter().map(|word| format!("\"{}\"", word.word)).collect::<Vec<_>>().join(", "))
        }
        Kind::Address { .. } => Some("\"host:port\", \"[ipv6]:port\", \"unix:/path\"".into()),
        Kind::Addresses => Some("a list, as in [\"10.0.0.1:2379\", \"[::1]:2379\"]".into()),
        Kind::Networks => Some("addresses and networks, as in [\"10.0.0.0/8\", \"::1\"]".into()),
        Kind::Texts { .. } => Some("texts in quotes, as in [\"one\", \"two\"]".into()),
        Kind::Command => Some("a program and its arguments, as in [\"/usr/local/bin/hook\", \"--now\"]".into()),
        Kind::Text { .. } | Kind::Secret | Kind::Path | Kind::Variable => None,
    }
}

/// Where a key that was not found is known, when that is one place.
pub(super) fn section_of(key: &str) -> Option<String> {
    fn search(section: &'static Section, path: &str, key: &str, homes: &mut Vec<String>) {
        if section.settings.iter().any(|setting| setting.key == key) {
            homes.push(path.to_owned());
        }
        for below in section.sections {
            let path = join(path, below.key);
            let path = match below.form {
                Form::Single => path,
                Form::Named => format!("{path}.NAME"),
                Form::List => format!("[{path}]"),
            };
            search(below, &path, key, homes);
        }
    }
    let mut homes = Vec::new();
    search(&crate::settings::ROOT, "", key, &mut homes);
    match homes.len() {
        1 => homes.pop(),
        _ => None,
    }
}

/// A path and a key, quoted where TOML needs quotes.
pub(crate) fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let key = if bare { key.to_owned() } else { quote(key) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Text as a TOML string, shortened where it is longer than anything sensible.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for (at, c) in text.chars().enumerate() {
        if at == 256 {
            out.push('…');
            break;
        }
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn kind_of(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let factor: u64 = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// A number of bytes with the largest unit that leaves no fraction.
pub(crate) fn size_text(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    fits.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}
