//! Values that are text, a list of texts, or what a text names: an address, a file, a variable.

use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeValue;

use super::words::{allowed, kind_of};
use super::{Reader, Table, quote};
use crate::settings::{Kind, Setting};
use crate::{Address, FileContent, Network};

/// How a secret shows among the effective settings.
pub(crate) const HIDDEN: &str = "(hidden)";

impl Reader<'_> {
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

    /// A list of texts of so many bytes, none of them empty.
    pub(crate) fn texts(&mut self, table: &Table, setting: &'static Setting) -> Vec<Arc<str>> {
        let Kind::Texts { count, max } = setting.kind else { return Vec::new() };
        let texts = self.parsed_list(table, setting, |text| match text.len() {
            0 => Err("an empty text means nothing".into()),
            bytes if bytes > max => Err(format!("a text has at most {max} bytes")),
            _ => Ok(Arc::from(text)),
        });
        if texts.len() > count {
            self.wrong(table, setting, format!("there are more than {count}"), None);
        }
        texts
    }

    /// A program with its arguments; empty when there is none.
    pub(crate) fn command(&mut self, table: &Table, setting: &'static Setting) -> Vec<Arc<str>> {
        let words = self.parsed_list(table, setting, |text| match text.contains('\0') {
            true => Err("the text has a zero byte".into()),
            false => Ok(Arc::from(text)),
        });
        if words.first().is_some_and(|program: &Arc<str>| program.is_empty()) {
            self.wrong(table, setting, "the program's name is empty", None);
        }
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
        self.note(table, setting, HIDDEN.into());
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
