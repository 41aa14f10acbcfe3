//! Reads values out of a parsed TOML document by what [`crate::settings`] says about them, and collects what is wrong.
//!
//! Every function returns a value even after a mistake, so that one run finds all mistakes; the caller throws the
//! result away when [`Reader::problems`] is not empty.

mod words;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::settings::{Form, Kind, Section, Setting, Unit};
use crate::{Address, FileContent, Given, Network, Problem, Source, Warning, suggest};
use words::{allowed, home, kind_of, parse_size};
pub(crate) use words::{join, quote, size_text};

/// The document, and what was found in it so far.
pub(crate) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    line_starts: Vec<usize>,
    base: &'a Path,
    source: &'a dyn Source,
    /// Whether the document was only read in part, so that what is missing says nothing.
    partial: bool,
    /// The lines with mistakes in the form of the document.
    syntax_lines: BTreeSet<usize>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) given: Vec<Given>,
}

/// One table of the document, or the absence of it, with what may be in it.
pub(crate) struct Table<'t, 'i> {
    section: &'static Section,
    path: String,
    span: Range<usize>,
    entries: Option<&'t DeTable<'i>>,
    /// Something else stands where the table should be, which is reported: what it lacks is not reported as well.
    broken: bool,
}

/// A value with the place where it stands.
type Found<'t, 'i> = &'t Spanned<DeValue<'i>>;

impl Table<'_, '_> {
    /// The path of a key in this table.
    pub(crate) fn key(&self, setting: &Setting) -> String {
        join(&self.path, setting.key)
    }

    /// The table's own path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the file has this key.
    pub(crate) fn has(&self, setting: &Setting) -> bool {
        self.entries.is_some_and(|entries| entries.contains_key(setting.key))
    }

    /// Where a key's value stands, or the table when it is absent.
    pub(crate) fn place(&self, setting: &Setting) -> Range<usize> {
        let value = self.entries.and_then(|entries| entries.get(setting.key));
        value.map_or_else(|| self.span.clone(), Spanned::span)
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str, base: &'a Path, source: &'a dyn Source) -> Self {
        let line_starts = std::iter::once(0).chain(line_starts_after(text)).collect();
        let (problems, warnings, given) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            file,
            text,
            line_starts,
            base,
            source,
            partial: false,
            syntax_lines: BTreeSet::new(),
            problems,
            warnings,
            given,
        }
    }

    /// Takes a mistake in the form of the document itself.
    pub(crate) fn syntax(&mut self, error: &toml::de::Error) {
        self.partial = true;
        let problem = self.at(error.span().unwrap_or(0..0), String::new(), error.message().replace('\n', ", "));
        self.syntax_lines.insert(problem.line);
        self.problems.push(problem);
    }

    /// Whether what is missing can be reported.
    pub(crate) fn whole_document(&self) -> bool {
        !self.partial
    }

    fn at(&self, span: Range<usize>, key: String, message: String) -> Problem {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let line = self.line_starts.partition_point(|&begin| begin <= start);
        let begin = self.line_starts.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = self.text[begin..start].chars().count() + 1;
        Problem { file: self.file.to_owned(), line, column, key, message, allowed: None, hint: None }
    }

    /// Reports a mistake.
    pub(crate) fn problem(&mut self, span: Range<usize>, key: impl Into<String>, message: impl Into<String>) {
        self.problem_with(span, key, message, None, None);
    }

    /// Reports a mistake, with what may stand there and what was probably meant.
    pub(crate) fn problem_with(
        &mut self,
        span: Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        allowed: Option<String>,
        hint: Option<String>,
    ) {
        let problem = self.at(span.clone(), key.into(), message.into());
        // The TOML reader recovers from a mistake with a value that nobody wrote, which has no place or stands where
        // the mistake is: what is wrong with that value says nothing.
        if self.partial && (span.is_empty() || self.syntax_lines.contains(&problem.line)) {
            return;
        }
        self.problems.push(Problem { allowed, hint, ..problem });
    }

    /// Reports a mistake at a value, with what may stand there.
    fn wrong(&mut self, table: &Table, setting: &Setting, message: impl Into<String>, hint: Option<String>) {
        self.problem_with(table.place(setting), table.key(setting), message, allowed(setting), hint);
    }

    /// Reports what works but is probably not wanted.
    pub(crate) fn warn(&mut self, span: Range<usize>, key: impl Into<String>, message: impl Into<String>) {
        let problem = self.at(span, key.into(), message.into());
        self.warnings.push(Warning(problem));
    }

    /// The document as a table.
    pub(crate) fn root<'t, 'i>(&mut self, section: &'static Section, root: &'t DeTable<'i>) -> Table<'t, 'i> {
        let table = Table { section, path: String::new(), span: 0..0, entries: Some(root), broken: false };
        self.refuse_unknown(&table);
        table
    }

    /// A table in a table; absent is like empty.
    pub(crate) fn table<'t, 'i>(&mut self, parent: &Table<'t, 'i>, section: &'static Section) -> Table<'t, 'i> {
        let path = join(&parent.path, section.key);
        let found = parent.entries.and_then(|entries| entries.get_key_value(section.key));
        let table = match found {
            Some((key, value)) => self.enter(section, path, key.span(), value),
            None => Table { section, path, span: parent.span.clone(), entries: None, broken: parent.broken },
        };
        self.refuse_unknown(&table);
        table
    }

    /// The tables in a table of tables, by name, in the order of the names.
    pub(crate) fn named<'t, 'i>(
        &mut self,
        parent: &Table<'t, 'i>,
        section: &'static Section,
        name_good: fn(&str) -> Result<(), &'static str>,
    ) -> Vec<(Arc<str>, Table<'t, 'i>)> {
        let path = join(&parent.path, section.key);
        let Some((key, value)) = parent.entries.and_then(|entries| entries.get_key_value(section.key)) else {
            return Vec::new();
        };
        let holder = self.enter(section, path, key.span(), value);
        let mut tables = Vec::new();
        for (key, value) in holder.entries.into_iter().flatten() {
            let name: &str = key.get_ref();
            let path = join(&holder.path, name);
            if let Err(reason) = name_good(name) {
                self.problem(key.span(), path.clone(), reason);
            }
            if !matches!(value.get_ref(), DeValue::Table(_)) && section.settings.iter().any(|s| s.key == name) {
                let message = format!("the name is missing: this key belongs into [{}.NAME]", holder.path);
                self.problem(key.span(), path, message);
                continue;
            }
            let table = self.enter(section, path, key.span(), value);
            self.refuse_unknown(&table);
            tables.push((Arc::from(name), table));
        }
        tables
    }

    /// The tables of a list of tables, in order; those beyond `max` are reported and left out.
    pub(crate) fn list<'t, 'i>(
        &mut self,
        parent: &Table<'t, 'i>,
        section: &'static Section,
        max: usize,
    ) -> Vec<Table<'t, 'i>> {
        let path = join(&parent.path, section.key);
        let Some(value) = parent.entries.and_then(|entries| entries.get(section.key)) else { return Vec::new() };
        let DeValue::Array(entries) = value.get_ref() else {
            let message = format!("a list of tables stands here, as in [[{path}]], not {}", kind_of(value.get_ref()));
            self.problem(value.span(), path, message);
            return Vec::new();
        };
        if let Some(first) = entries.get(max) {
            self.problem(first.span(), path.clone(), format!("there are more than {max} of them"));
        }
        let mut tables = Vec::new();
        for (index, entry) in entries.iter().take(max).enumerate() {
            let table = self.enter(section, format!("{path}[{}]", index + 1), entry.span(), entry);
            self.refuse_unknown(&table);
            tables.push(table);
        }
        tables
    }

    fn enter<'t, 'i>(
        &mut self,
        section: &'static Section,
        path: String,
        key_span: Range<usize>,
        value: Found<'t, 'i>,
    ) -> Table<'t, 'i> {
        match value.get_ref() {
            DeValue::Table(entries) => Table { section, path, span: key_span, entries: Some(entries), broken: false },
            other => {
                let message = format!("a table stands here, not {}", kind_of(other));
                self.problem(value.span(), path.clone(), message);
                Table { section, path, span: key_span, entries: None, broken: true }
            }
        }
    }

    /// Reports keys that the section does not know.
    fn refuse_unknown(&mut self, table: &Table) {
        let section = table.section;
        let known = || section.settings.iter().map(|s| s.key).chain(section.sections.iter().map(|s| s.key));
        for key in table.entries.into_iter().flatten().map(|(key, _)| key) {
            let name: &str = key.get_ref();
            if known().any(|known| known == name) {
                continue;
            }
            let hint = match (suggest::nearest(name, known()), home(name)) {
                (Some(near), _) => Some(format!("did you mean `{near}`?")),
                (None, Some(home)) => Some(format!("`{name}` belongs into [{home}]")),
                (None, None) => None,
            };
            let allowed = known().collect::<Vec<_>>().join(", ");
            self.problem_with(key.span(), join(&table.path, name), "there is no such key", Some(allowed), hint);
        }
    }

    /// Looks a key up, and reports its absence when it is required.
    fn find<'t, 'i>(&mut self, table: &Table<'t, 'i>, setting: &'static Setting) -> Option<Found<'t, 'i>> {
        let found = table.entries.and_then(|entries| entries.get(setting.key));
        if found.is_none() && setting.required && !table.broken && self.whole_document() {
            let hint = Some(format!("for example {} = {}", setting.key, setting.example));
            self.problem_with(table.span.clone(), table.key(setting), "this key is missing", allowed(setting), hint);
        }
        found
    }

    fn note(&mut self, table: &Table, setting: &Setting, value: String) {
        // There may be thousands of them.
        if table.section.form == Form::List && !table.has(setting) {
            return;
        }
        let path = table.key(setting);
        self.given.push(Given { path, value, set: table.has(setting), apply: setting.apply });
    }

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

    /// One of the words of an enum, where `word` gives a value's word; none when the key is absent and has no default.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        table: &Table,
        setting: &'static Setting,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Option<T> {
        let Kind::Choice { default, words } = setting.kind else { return None };
        let by_word = |text: &str| all.iter().copied().find(|value| word(*value) == text);
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

    /// Text without control characters; none when the key is absent and has no default.
    pub(crate) fn text(&mut self, table: &Table, setting: &'static Setting) -> Option<Arc<str>> {
        let Kind::Text { default, max } = setting.kind else { return None };
        let read = match self.raw_text(table, setting) {
            None => default.map(str::to_owned),
            Some(text) => {
                if text.len() > max {
                    self.wrong(table, setting, format!("the text is longer than {max} bytes"), None);
                } else if text.chars().any(char::is_control) {
                    self.wrong(table, setting, "the text has a control character", None);
                } else if text.is_empty() && default != Some("") {
                    self.wrong(table, setting, "the text is empty", None);
                }
                Some(text)
            }
        };
        self.note(table, setting, read.as_deref().map_or_else(String::new, quote));
        read.map(Arc::from)
    }

    /// An address; none when the key is absent or wrong.
    pub(crate) fn address(&mut self, table: &Table, setting: &'static Setting) -> Option<Address> {
        let Kind::Address { port_zero } = setting.kind else { return None };
        let read = self.raw_text(table, setting);
        let address = read.and_then(|text| {
            let address = Address::parse(&text).and_then(|address| match address.port() {
                Some(0) if !port_zero => Err("port 0 is nowhere to connect to".to_owned()),
                _ => Ok(address),
            });
            address.map_err(|message| self.wrong(table, setting, message, None)).ok()
        });
        self.note(table, setting, address.as_ref().map_or_else(String::new, |address| quote(&address.to_string())));
        address
    }

    /// A list of addresses to connect to.
    pub(crate) fn addresses(&mut self, table: &Table, setting: &'static Setting) -> Vec<Address> {
        self.parsed_list(table, setting, |text| match Address::parse(text)? {
            Address::Unix(_) => Err("a host and a port stand here".into()),
            Address::Tcp { port: 0, .. } => Err("port 0 is nowhere to connect to".into()),
            address => Ok(address),
        })
    }

    /// A list of networks.
    pub(crate) fn networks(&mut self, table: &Table, setting: &'static Setting) -> Vec<Network> {
        self.parsed_list(table, setting, str::parse)
    }

    /// A list of texts that each mean something.
    fn parsed_list<T: std::fmt::Display>(
        &mut self,
        table: &Table,
        setting: &'static Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut list = Vec::new();
        match self.find(table, setting).map(Spanned::get_ref) {
            None => {}
            Some(DeValue::Array(entries)) => {
                for entry in entries {
                    let read = match entry.get_ref() {
                        DeValue::String(text) => parse(text),
                        other => Err(format!("text in quotes stands here, not {}", kind_of(other))),
                    };
                    match read {
                        Ok(value) => list.push(value),
                        Err(message) => {
                            self.problem_with(entry.span(), table.key(setting), message, allowed(setting), None);
                        }
                    }
                }
            }
            Some(other) => self.wrong(table, setting, format!("a list stands here, not {}", kind_of(other)), None),
        }
        let shown: Vec<String> = list.iter().map(|value| quote(&value.to_string())).collect();
        self.note(table, setting, format!("[{}]", shown.join(", ")));
        list
    }

    /// A program with its arguments; empty when there is none.
    pub(crate) fn command(&mut self, table: &Table, setting: &'static Setting) -> Vec<Arc<str>> {
        let mut words: Vec<Arc<str>> = Vec::new();
        match self.find(table, setting).map(Spanned::get_ref) {
            None => {}
            Some(DeValue::Array(entries)) => {
                for entry in entries {
                    match entry.get_ref() {
                        DeValue::String(text) if !text.contains('\0') => words.push(Arc::from(&**text)),
                        DeValue::String(_) => self.wrong(table, setting, "the text has a zero byte", None),
                        other => {
                            let message = format!("text in quotes stands here, not {}", kind_of(other));
                            self.problem_with(entry.span(), table.key(setting), message, allowed(setting), None);
                        }
                    }
                }
                if words.first().is_some_and(|program| program.is_empty()) {
                    self.wrong(table, setting, "the program's name is empty", None);
                }
            }
            Some(other) => self.wrong(table, setting, format!("a list stands here, not {}", kind_of(other)), None),
        }
        let shown: Vec<String> = words.iter().map(|word| quote(word)).collect();
        self.note(table, setting, format!("[{}]", shown.join(", ")));
        words
    }

    /// A path that is written to later; none when the key is absent.
    pub(crate) fn path(&mut self, table: &Table, setting: &'static Setting) -> Option<PathBuf> {
        let text = self.raw_text(table, setting);
        self.note(table, setting, text.as_deref().map_or_else(String::new, quote));
        let text = text?;
        if text.is_empty() || text.contains('\0') {
            self.wrong(table, setting, "the path is empty or has a zero byte", None);
            return None;
        }
        Some(self.base.join(text))
    }

    /// A secret that stands in the file itself.
    pub(crate) fn secret(&mut self, table: &Table, setting: &'static Setting) -> Option<Vec<u8>> {
        let text = self.raw_text(table, setting)?;
        self.note(table, setting, "(hidden)".into());
        Some(text.into_bytes())
    }

    /// A secret from the environment.
    pub(crate) fn variable(&mut self, table: &Table, setting: &'static Setting) -> Option<Vec<u8>> {
        let name = self.raw_text(table, setting)?;
        self.note(table, setting, quote(&name));
        let value = if name.is_empty() || name.contains(['=', '\0']) { None } else { self.source.variable(&name) };
        if value.is_none() {
            self.wrong(table, setting, format!("the environment variable {} is not set", quote(&name)), None);
        }
        value.map(String::into_bytes)
    }

    /// A file that a key names, with the path it was read from.
    pub(crate) fn file(&mut self, table: &Table, setting: &'static Setting) -> Option<(PathBuf, FileContent)> {
        let text = self.raw_text(table, setting)?;
        self.note(table, setting, quote(&text));
        if text.is_empty() || text.contains('\0') {
            self.wrong(table, setting, "the path is empty or has a zero byte", None);
            return None;
        }
        let path = self.base.join(text);
        match self.source.file(&path) {
            Ok(content) => Some((path, content)),
            Err(error) => {
                self.wrong(table, setting, format!("{} cannot be read: {error}", path.display()), None);
                None
            }
        }
    }

    fn raw_text(&mut self, table: &Table, setting: &'static Setting) -> Option<String> {
        match self.find(table, setting)?.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            other => {
                self.wrong(table, setting, format!("text in quotes stands here, not {}", kind_of(other)), None);
                None
            }
        }
    }
}

/// The positions after each line end.
fn line_starts_after(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1)
}
