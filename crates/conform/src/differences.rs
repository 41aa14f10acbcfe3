//! Differences that are allowed, each with its reason: the data file `differences`.

use anyhow::{Context as _, bail};
use wire::Status;

/// The treatment of a value that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not compared.
    Mask,
    /// It must be the connection's own id.
    OwnId,
}

/// One permitted difference.
#[derive(Clone, Debug)]
pub struct Entry {
    what: What,
    fate: Fate,
    /// Why it is permitted.
    pub reason: String,
}

#[derive(Clone, Debug)]
enum What {
    Column(String),
    Tracked(String),
    Error(u16),
    Status(Status),
    Habit(String),
}

/// The list.
#[derive(Clone, Debug)]
pub struct Differences {
    entries: Vec<Entry>,
}

impl Differences {
    /// The project's own list.
    ///
    /// # Errors
    /// It cannot be read: the line is named.
    pub fn load() -> anyhow::Result<Differences> {
        Differences::parse(include_str!("../differences"))
    }

    fn parse(text: &str) -> anyhow::Result<Differences> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entries = lines.map(|line| entry(line).with_context(|| line.to_owned()));
        Ok(Differences { entries: entries.collect::<anyhow::Result<_>>()? })
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The treatment of values of a result column.
    pub fn column(&self, name: &str) -> Option<Fate> {
        self.find(|what| matches!(what, What::Column(pattern) if matches(pattern, name)))
    }

    /// The treatment of a tracked variable's value.
    pub fn tracked(&self, name: &str) -> Option<Fate> {
        self.find(|what| matches!(what, What::Tracked(pattern) if matches(pattern, name)))
    }

    /// The treatment of an error's message.
    pub fn error(&self, code: u16) -> Option<Fate> {
        self.find(|what| matches!(what, What::Error(known) if *known == code))
    }

    /// Whether this habit of servers is passed over.
    pub fn habit(&self, name: &str) -> bool {
        self.find(|what| matches!(what, What::Habit(known) if known == name)).is_some()
    }

    /// The flags that are compared.
    pub fn status(&self, status: Status) -> Status {
        let masked = self.entries.iter().filter_map(|entry| match entry.what {
            What::Status(flag) => Some(flag),
            _ => None,
        });
        masked.fold(status, |left, flag| left - flag)
    }

    fn find(&self, wanted: impl Fn(&What) -> bool) -> Option<Fate> {
        self.entries.iter().find(|entry| wanted(&entry.what)).map(|entry| entry.fate)
    }
}

fn entry(line: &str) -> anyhow::Result<Entry> {
    let (rule, reason) = line.split_once(": ").context("no `: REASON`")?;
    if reason.trim().is_empty() {
        bail!("no reason");
    }
    let [kind, name, fate] = rule.split_whitespace().collect::<Vec<_>>()[..] else { bail!("not three words") };
    let fate = match fate {
        "mask" => Fate::Mask,
        "own-id" => Fate::OwnId,
        _ => bail!("no fate {fate}"),
    };
    let what = match kind {
        "column" => What::Column(name.to_lowercase()),
        "tracked" => What::Tracked(name.to_lowercase()),
        "error" => What::Error(name.parse()?),
        "habit" => What::Habit(name.to_owned()),
        "status" => What::Status(Status::from_name(name).context("no such status flag")?),
        _ => bail!("nothing is called {kind}"),
    };
    Ok(Entry { what, fate, reason: reason.to_owned() })
}

/// `pattern` is in lower case.
fn matches(pattern: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    let mut rest = name.as_str();
    let mut parts = pattern.split('*');
    let Some(after) = rest.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    rest = after;
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read_and_every_entry_has_a_reason() {
        let list = Differences::load().unwrap();
        assert!(list.entries().iter().all(|entry| entry.reason.len() > 5));
        assert_eq!(list.column("connection_id()"), Some(Fate::OwnId));
        assert_eq!(list.column("@@gtid_binlog_pos"), Some(Fate::Mask));
        assert_eq!(list.column("a"), None);
        assert_eq!(list.status(Status::QUERY_WAS_SLOW | Status::AUTOCOMMIT), Status::AUTOCOMMIT);
        assert!(Differences::parse("column x mask: ").is_err());
    }

    #[test]
    fn stars_stand_for_any_text() {
        assert!(matches("@@gtid_*", "@@GTID_x") && matches("*x*y", "axbxy") && matches("a", "A"));
        assert!(!matches("@@gtid_*", "@@gti") && !matches("a", "ab") && !matches("a*c", "ab"));
    }
}
