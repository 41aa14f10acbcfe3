//! A script: which session does what, in which order. Written and read as text, one line for each step.
//!
//! ```text
//! # A comment.
//! split primary
//! pool one
//! pipelines always
//! session 2 classic-eof no-tracking
//! 0: CREATE TABLE {a}.x (id INT)
//! 1: SELECT 1
//! 2: !prepare s SELECT ?
//! 2: !execute s int:5
//! ```
//!
//! Session 0 sets up: it speaks to the servers themselves and is not compared. `{a}`, `{b}` and `{lib}` are the schemas
//! of the lane that runs the script; `{admin}`, `{u1}` and `{u2}` its accounts, `{r1}` and `{r2}` its roles. In SQL, `\n`, `\t`, `\\` and `\xHH` stand for bytes.

mod value;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, anyhow, bail};

pub use value::{Value, escape, unescape};

/// One thing that a session does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// COM_QUERY.
    Query(Vec<u8>),
    /// COM_STMT_PREPARE under a name of the script's own.
    Prepare(String, Vec<u8>),
    /// COM_STMT_EXECUTE.
    Execute {
        /// The script's name.
        name: String,
        /// A cursor is asked for.
        cursor: bool,
        /// Parameter types are left out: the server remembers them.
        again: bool,
        /// Values.
        values: Vec<Value>,
    },
    /// COM_STMT_FETCH of so many rows.
    Fetch(String, u32),
    /// COM_STMT_RESET.
    ResetStatement(String),
    /// COM_STMT_CLOSE.
    Close(String),
    /// COM_STMT_SEND_LONG_DATA for a parameter.
    LongData(String, u16, Vec<u8>),
    /// COM_INIT_DB.
    InitDb(Vec<u8>),
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER with this schema, to another account or to the login's own.
    ChangeUser(Option<String>, Option<Account>),
    /// COM_SET_OPTION: multi-statements on or off.
    SetOption(bool),
    /// COM_PING.
    Ping,
    /// COM_FIELD_LIST of a table.
    FieldList(String),
    /// Any other command that has a reply of one packet, as bytes.
    Command(Vec<u8>),
    /// Leaves and connects anew.
    Reconnect,
    /// COM_QUIT. The session's next step connects anew.
    Quit,
    /// The socket is closed without a word. The session's next step connects anew.
    Cut,
}

/// An account of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Account {
    /// The lab's application.
    #[default]
    App,
    /// `{admin}`, which makes accounts and gives rights.
    Admin,
    /// `{u1}`, which a script makes for itself.
    First,
    /// `{u2}`, which a script makes for itself.
    Second,
}

/// Names of accounts in scripts.
const ACCOUNTS: [(&str, Account); 4] =
    [("app", Account::App), ("admin", Account::Admin), ("u1", Account::First), ("u2", Account::Second)];

impl Account {
    /// Its name in scripts: `{u1}` in SQL is `u1` here.
    pub fn word(self) -> &'static str {
        ACCOUNTS.iter().find(|(_, account)| *account == self).map_or("", |(word, _)| word)
    }

    fn parse(word: &str) -> anyhow::Result<Account> {
        let known = ACCOUNTS.iter().find(|(name, _)| *name == word);
        Ok(known.ok_or_else(|| anyhow!("no account {word}"))?.1)
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The session's number.
    pub session: usize,
    /// The action.
    pub action: Action,
}

/// How a session logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Login {
    /// Without DEPRECATE_EOF.
    pub classic_eof: bool,
    /// Without SESSION_TRACK.
    pub no_tracking: bool,
    /// With FOUND_ROWS.
    pub found_rows: bool,
    /// Without MULTI_STATEMENTS.
    pub single_statements: bool,
    /// With the password that [`OTHER_PASSWORD`] is.
    pub other_password: bool,
    /// Which account.
    pub account: Account,
}

/// The password that scripts give an account that gets another one.
pub const OTHER_PASSWORD: &str = "another-secret";

/// A whole script.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Script {
    /// Its purpose, in lines.
    pub title: Vec<String>,
    /// Everything goes to the primary.
    pub primary_only: bool,
    /// All reads that may share a connection with others do.
    pub pipelined: bool,
    /// All sessions share one connection to each server. Steps that would wait for it are left out.
    pub shared: bool,
    /// How sessions log in that do not do it the usual way.
    pub logins: BTreeMap<usize, Login>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A flag of [`Login`].
type Flag = fn(&mut Login) -> &mut bool;

const LOGIN_WORDS: [(&str, Flag); 5] = [
    ("classic-eof", |login| &mut login.classic_eof),
    ("no-tracking", |login| &mut login.no_tracking),
    ("found-rows", |login| &mut login.found_rows),
    ("single-statements", |login| &mut login.single_statements),
    ("other-password", |login| &mut login.other_password),
];

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// Names the line that cannot be read.
    pub fn parse(text: &str) -> anyhow::Result<Script> {
        let mut script = Script::default();
        for (number, line) in text.lines().enumerate() {
            script.line(line).with_context(|| format!("line {}: {line}", number + 1))?;
        }
        Ok(script)
    }

    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.title.push(comment.trim().to_owned());
            return Ok(());
        }
        match line {
            "split primary" => self.primary_only = true,
            "split auto" => self.primary_only = false,
            "pool one" => self.shared = true,
            "pipelines always" => self.pipelined = true,
            _ if line.starts_with("session ") => {
                let mut words = line.split_whitespace().skip(1);
                let session = words.next().unwrap_or_default().parse()?;
                let login = self.logins.entry(session).or_default();
                for word in words {
                    if let Some(account) = word.strip_prefix("as-") {
                        login.account = Account::parse(account)?;
                        continue;
                    }
                    let known = LOGIN_WORDS.iter().find(|(name, _)| *name == word);
                    *known.ok_or_else(|| anyhow!("no login word {word}"))?.1(login) = true;
                }
            }
            _ => {
                let (session, action) = line.split_once(": ").ok_or_else(|| anyhow!("no `SESSION: `"))?;
                self.steps.push(Step { session: session.trim().parse()?, action: Action::parse(action)? });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.title {
            writeln!(f, "# {line}")?;
        }
        writeln!(f, "split {}", if self.primary_only { "primary" } else { "auto" })?;
        if self.shared {
            writeln!(f, "pool one")?;
        }
        if self.pipelined {
            writeln!(f, "pipelines always")?;
        }
        for (session, login) in &self.logins {
            let mut login = *login;
            write!(f, "session {session}")?;
            for (word, _) in LOGIN_WORDS.iter().filter(|(_, flag)| *flag(&mut login)) {
                write!(f, " {word}")?;
            }
            match login.account {
                Account::App => writeln!(f)?,
                other => writeln!(f, " as-{}", other.word())?,
            }
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.session, self.action)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Query(sql) => f.write_str(&escape(sql)),
            Action::Prepare(name, sql) => write!(f, "!prepare {name} {}", escape(sql)),
            Action::Execute { name, cursor, again, values } => {
                write!(f, "!execute {name}")?;
                if *cursor {
                    f.write_str(" cursor")?;
                }
                if *again {
                    f.write_str(" again")?;
                }
                values.iter().try_for_each(|value| write!(f, " {value}"))
            }
            Action::Fetch(name, rows) => write!(f, "!fetch {name} {rows}"),
            Action::ResetStatement(name) => write!(f, "!reset-statement {name}"),
            Action::Close(name) => write!(f, "!close {name}"),
            Action::LongData(name, parameter, data) => write!(f, "!long-data {name} {parameter} {}", escape(data)),
            Action::InitDb(schema) => write!(f, "!init-db {}", escape(schema)),
            Action::Reset => f.write_str("!reset"),
            Action::ChangeUser(schema, account) => {
                write!(f, "!change-user {}", schema.as_deref().unwrap_or("-"))?;
                account.map_or(Ok(()), |account| write!(f, " {}", account.word()))
            }
            Action::SetOption(on) => write!(f, "!set-option {}", if *on { "on" } else { "off" }),
            Action::Ping => f.write_str("!ping"),
            Action::FieldList(table) => write!(f, "!field-list {table}"),
            Action::Command(bytes) => write!(f, "!command {}", escape(bytes)),
            Action::Reconnect => f.write_str("!reconnect"),
            Action::Quit => f.write_str("!quit"),
            Action::Cut => f.write_str("!cut"),
        }
    }
}

impl Action {
    fn parse(text: &str) -> anyhow::Result<Action> {
        let Some(command) = text.strip_prefix('!') else { return Ok(Action::Query(unescape(text)?)) };
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = first.to_owned();
        Ok(match verb {
            "prepare" => Action::Prepare(name, unescape(tail)?),
            "execute" => {
                let (mut cursor, mut again, mut values) = (false, false, Vec::new());
                for word in tail.split_whitespace() {
                    match word {
                        "cursor" => cursor = true,
                        "again" => again = true,
                        _ => values.push(Value::parse(word)?),
                    }
                }
                Action::Execute { name, cursor, again, values }
            }
            "fetch" => Action::Fetch(name, tail.parse()?),
            "reset-statement" => Action::ResetStatement(name),
            "close" => Action::Close(name),
            "long-data" => {
                let (parameter, data) = tail.split_once(' ').unwrap_or((tail, ""));
                Action::LongData(name, parameter.parse()?, unescape(data)?)
            }
            "init-db" => Action::InitDb(unescape(rest)?),
            "reset" => Action::Reset,
            "change-user" => {
                let account = if tail.is_empty() { None } else { Some(Account::parse(tail)?) };
                Action::ChangeUser((first != "-").then_some(name), account)
            }
            "set-option" => Action::SetOption(rest == "on"),
            "ping" => Action::Ping,
            "field-list" => Action::FieldList(name),
            "command" => Action::Command(unescape(rest)?),
            "reconnect" => Action::Reconnect,
            "quit" => Action::Quit,
            "cut" => Action::Cut,
            _ => bail!("no action !{verb}"),
        })
    }

    /// The SQL text, if it has one.
    pub fn sql(&self) -> Option<&[u8]> {
        match self {
            Action::Query(sql) | Action::Prepare(_, sql) => Some(sql),
            _ => None,
        }
    }
}
