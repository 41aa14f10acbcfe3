//! Reads values out of a parsed TOML document by what [`crate::settings`] says about them, and collects what is wrong.
//!
//! Every function returns a value even after a mistake, so that one run finds all mistakes; the caller throws the
//! result away when [`Reader::problems`] is not empty.

mod numbers;
mod texts;
mod words;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::settings::{Form, Section, Setting};
use crate::{Given, Problem, Source, Warning, suggest};
pub(crate) use texts::HIDDEN;
use words::{allowed, kind_of, section_of};
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
            let hint = match (suggest::nearest(name, known()), section_of(name)) {
                (Some(near), _) => Some(format!("did you mean `{near}`?")),
                (None, Some(section)) => Some(format!("`{name}` belongs into [{section}]")),
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
}

/// The positions after each line end.
fn line_starts_after(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1)
}
