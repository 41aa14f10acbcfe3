//! The documentation and the commented sample, from [`crate::settings`].

use std::fmt::Write as _;

use crate::read::{join, quote, size_text};
use crate::settings::{Apply, Form, Kind, ROOT, Section, Setting, Unit};

/// `docs/reference/configuration.md`: every table and key.
pub fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    tables(&ROOT, "", &mut |section, path| markdown_section(section, path, &mut out));
    out
}

const INTRODUCTION: &str = "\
# Configuration

This page lists all keys of the configuration: value, default, and when a change takes effect. `sqluice init` writes a
first file. `sqluice check --config FILE` checks a file. It shows every mistake at once, with line, key, the allowed
values and the probable meaning. A key that is not on this page is a mistake; Sqluice ignores none. Most defaults fit
most installations.

- Times are whole numbers; the end of the key is the unit (`_ms` milliseconds, `_s` seconds).
- Sizes are bytes, or text like `\"64MiB\"` (KiB, MiB, GiB).
- Addresses are `host:port`, `[ipv6]:port` or `unix:/path`.
- Paths are relative to the configuration file's folder.
- Secrets come from this file, from a file of their own or from the environment. Sqluice never logs them.
- `NAME` is your choice: 1 to 64 letters, digits, `-` and `_`. The name of a user is the name on the servers.

Each key has its value, its default, and when a change takes effect:

| change | meaning |
|---|---|
| reload | takes effect when the process gets SIGHUP; no session is dropped |
| restart | takes effect at the next start; the reload logs that |

If the file has a mistake, a reload changes nothing and logs the mistakes. Each reload also reads the files of
passwords and certificates again.

The smallest file:

```toml
[cluster.main]
kind = \"replication\"
monitor = { user = \"sqluice\", password_file = \"/etc/sqluice/monitor.pw\" }
servers.db1 = { address = \"10.0.0.1:3306\" }
servers.db2 = { address = \"10.0.0.2:3306\" }

[listener.app]
address = \"0.0.0.0:3306\"
cluster = \"main\"
```

This page is generated from `crates/config/src/settings.rs`.
";

/// Visits the sections below `section` with their paths, parents first.
fn tables(section: &'static Section, path: &str, visit: &mut impl FnMut(&'static Section, &str)) {
    for below in section.sections {
        let path = join(path, below.key);
        let path = if below.form == Form::Named { format!("{path}.NAME") } else { path };
        visit(below, &path);
        tables(below, &path, visit);
    }
}

/// The header of a table with this path.
fn header(section: &Section, path: &str) -> String {
    if section.form == Form::List { format!("[[{path}]]") } else { format!("[{path}]") }
}

fn markdown_section(section: &Section, path: &str, out: &mut String) {
    let header = header(section, path);
    let _ = write!(out, "\n## `{header}`\n\n");
    wrapped("", section.doc, out);
    out.push('\n');
    for setting in section.settings {
        let apply = match setting.apply {
            Apply::Live => "reload",
            Apply::Restart => "restart",
        };
        let default = match (default_text(setting), setting.required) {
            (Some(default), _) => format!("default `{default}`"),
            (None, true) => "**required**".into(),
            (None, false) => "no default".into(),
        };
        wrapped("- ", &format!("**`{}`** · {} · {default} · {apply}<br>", setting.key, value_text(setting)), out);
        wrapped("  ", setting.doc, out);
        if let Kind::Choice { words, .. } = setting.kind {
            for word in words {
                wrapped("  - ", &format!("`{}`: {}.", word.word, word.doc), out);
            }
        }
    }
}

/// Writes lines of Markdown below 120 characters. The first begins with `start`, and the others with as many blanks.
fn wrapped(start: &str, text: &str, out: &mut String) {
    let mut line = start.to_owned();
    let mut width = start.len();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        // A line that began with one of these would be an item of a list.
        let sign = matches!(word, "-" | "+" | "*");
        if width > start.len() && width + 1 + length >= 120 && !sign {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(start.len());
            width = start.len();
        }
        if width > start.len() {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += length;
    }
    let _ = writeln!(out, "{line}");
}

/// The allowed values, for a reader.
fn value_text(setting: &Setting) -> String {
    match setting.kind {
        Kind::Whole { unit, min, max, zero, .. } => {
            let unit = match unit {
                Unit::Count => "",
                Unit::Millis => " ms",
                Unit::Seconds => " s",
            };
            let zero = zero.map_or_else(String::new, |zero| format!("; 0: {zero}"));
            format!("{} to {}{unit}{zero}", grouped(min), grouped(max))
        }
        Kind::Size { min, max, .. } => format!("size, {} to {}", size_text(min), size_text(max)),
        Kind::Flag { .. } => "`true`, `false`".into(),
        Kind::Choice { words, .. } => {
            words.iter().map(|word| format!("`\"{}\"`", word.word)).collect::<Vec<_>>().join(", ")
        }
        Kind::Text { max, .. } => format!("text, at most {max} bytes"),
        Kind::Address { .. } => "address".into(),
        Kind::Addresses => "list of addresses".into(),
        Kind::Networks => "list of networks".into(),
        Kind::Command => "list: program and arguments".into(),
        Kind::Texts { count, .. } => format!("list of texts, at most {count}"),
        Kind::Secret => "text".into(),
        Kind::Path => "path".into(),
        Kind::Variable => "name of a variable".into(),
    }
}

/// A number with commas between the thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The default as it would stand in the file; none when there is none.
pub fn default_text(setting: &Setting) -> Option<String> {
    match setting.kind {
        Kind::Whole { default, .. } => Some(default.to_string()),
        Kind::Size { default, .. } => Some(quote(&size_text(default))),
        Kind::Flag { default } => Some(default.to_string()),
        Kind::Choice { default, .. } | Kind::Text { default, .. } => default.map(quote),
        Kind::Addresses | Kind::Networks | Kind::Command | Kind::Texts { .. } => Some("[]".into()),
        Kind::Address { .. } | Kind::Secret | Kind::Path | Kind::Variable => None,
    }
}

/// A complete configuration file in which `values` stand and all else is there as a comment with its default.
/// A value is the path of its key, one name each, and the value as it stands in the file.
pub fn sample(values: &[(Vec<String>, String)]) -> String {
    let mut out = String::new();
    for section in ROOT.sections {
        sample_section(section, &[], values, &mut out);
    }
    out
}

fn sample_section(section: &Section, above: &[&str], values: &[(Vec<String>, String)], out: &mut String) {
    let path = [above, &[section.key]].concat();
    if section.form == Form::Single {
        sample_table(section, &path, values, true, true, out);
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (value_path, _) in values.iter().filter(|(value_path, _)| starts_with(value_path, &path)) {
        if let Some(name) = value_path.get(path.len())
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    if names.is_empty() {
        sample_table(section, &[&path[..], &["NAME"]].concat(), values, true, false, out);
    }
    for (at, name) in names.iter().enumerate() {
        // The explanation of the first is not repeated for the others.
        sample_table(section, &[&path[..], &[*name]].concat(), values, at == 0, true, out);
    }
}

fn sample_table(
    section: &Section,
    path: &[&str],
    values: &[(Vec<String>, String)],
    talk: bool,
    exists: bool,
    out: &mut String,
) {
    // The last part of a list's path only tells its entries apart.
    let shown = if section.form == Form::List { &path[..path.len() - 1] } else { path };
    let header = header(section, &shown.iter().fold(String::new(), |path, key| join(&path, key)));
    out.push('\n');
    if talk {
        comment(section.doc, out);
    }
    let _ = writeln!(out, "{}{header}", if exists { "" } else { "#" });
    for setting in section.settings {
        let value = values.iter().find(|(value_path, _)| {
            value_path.len() == path.len() + 1
                && starts_with(value_path, path)
                && value_path.last().is_some_and(|key| key == setting.key)
        });
        if talk {
            out.push('\n');
            comment(&format!("{}{}", setting.doc, sample_remark(setting)), out);
        }
        match value {
            Some((_, literal)) => {
                let _ = writeln!(out, "{} = {literal}", setting.key);
            }
            None if talk => {
                let default = default_text(setting).filter(|default| default != "\"\"");
                let _ = match default {
                    Some(default) => writeln!(out, "#{} = {default}", setting.key),
                    None => writeln!(out, "#{} = {}  # an example", setting.key, setting.example),
                };
            }
            None => {}
        }
    }
    for below in section.sections.iter().filter(|_| talk && exists) {
        sample_section(below, path, values, out);
    }
    if !talk && exists {
        for below in section.sections {
            let below_path = [path, &[below.key]].concat();
            if values.iter().any(|(value_path, _)| starts_with(value_path, &below_path)) {
                sample_section(below, path, values, out);
            }
        }
    }
}

/// The remark after a setting's sentence in the sample.
fn sample_remark(setting: &Setting) -> String {
    let restart = if setting.apply == Apply::Restart { " A change needs a restart." } else { "" };
    let values = match setting.kind {
        Kind::Whole { .. } | Kind::Size { .. } => format!(" ({})", value_text(setting)),
        Kind::Choice { words, .. } => {
            let lines = words.iter().map(|word| format!("\n  {}: {}", word.word, word.doc));
            return format!("{restart}{}", lines.collect::<String>());
        }
        _ => String::new(),
    };
    format!("{values}{restart}")
}

fn starts_with(path: &[String], start: &[&str]) -> bool {
    path.len() > start.len() && path.iter().zip(start).all(|(a, b)| a == b)
}

/// Writes comment lines of at most 100 characters.
fn comment(text: &str, out: &mut String) {
    for paragraph in text.lines() {
        let indent = &paragraph[..paragraph.len() - paragraph.trim_start().len()];
        let mut line = format!("#{indent}");
        for word in paragraph.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > 100 {
                let _ = writeln!(out, "{line}");
                line = format!("#{indent}");
            }
            line.push(' ');
            line.push_str(word);
        }
        let _ = writeln!(out, "{line}");
    }
}
