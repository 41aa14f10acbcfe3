//! The operator's answers, and the configuration from them.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use config::document::sample;
use config::{Address, ClusterKind, Errors, FileContent, Source, SystemSource};

use super::grants::{ClusterKindArg, Family, plain};
use super::{Args, files};
use crate::out;

/// The environment variable that carries the password when no file can.
const PASSWORD_VARIABLE: &str = "SQLUICE_MONITOR_PASSWORD";
/// Stands in the SQL in place of that password.
const PASSWORD_UNKNOWN: &str = "the value of SQLUICE_MONITOR_PASSWORD";

/// The operator's answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) servers: Vec<(String, String)>,
    pub(super) listen: String,
    pub(super) cluster: String,
    pub(super) monitor_user: String,
    pub(super) admin: Option<String>,
    pub(super) family: Family,
    pub(super) kind: ClusterKindArg,
    pub(super) failover: bool,
}

/// The environment variable that carries the API's key when no file can.
const KEY_VARIABLE: &str = "SQLUICE_ADMIN_KEY";

/// The key of the API, which commands like `sqluice switchover` show.
pub(super) enum AdminKey {
    /// In a file beside the configuration, made up if it is not there yet.
    File {
        /// Where to.
        path: PathBuf,
        /// As it stands in the configuration: relative to it.
        name: PathBuf,
        /// The key that is to be written.
        made: Option<String>,
    },
    /// In the environment.
    Variable,
}

impl AdminKey {
    pub(super) fn choose(args: &Args, to_stdout: bool) -> anyhow::Result<Self> {
        if to_stdout {
            return Ok(Self::Variable);
        }
        let stem = args.output.file_stem().context("the output has no file name")?;
        let name = PathBuf::from(format!("{}-admin.key", stem.to_string_lossy()));
        let path = args.output.with_file_name(&name);
        let made = if path.exists() { None } else { Some(files::made_up_password()?) };
        Ok(Self::File { path, name, made })
    }

    fn setting(&self) -> (&'static str, String) {
        match self {
            Self::File { name, .. } => ("key_file", name.display().to_string()),
            Self::Variable => ("key_env", KEY_VARIABLE.to_owned()),
        }
    }

    /// Writes a key that was made up.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        if let Self::File { path, made: Some(key), .. } = self {
            files::write_private(path, format!("{key}\n").as_bytes(), false)?;
            out::say(format_args!("wrote {}", path.display()));
        }
        Ok(())
    }
}

/// The monitor user's password.
pub(super) enum Password {
    /// In a file that is there.
    Kept {
        /// As it stands in the configuration.
        path: PathBuf,
        /// The password, for the SQL.
        password: String,
    },
    /// Made up, to be written to a file.
    Made {
        /// Where to.
        path: PathBuf,
        /// As it stands in the configuration: relative to it.
        name: PathBuf,
        /// The password.
        password: String,
    },
    /// In the environment.
    Variable,
}

impl Answers {
    /// Takes the arguments, and `ask(question, default)` for what they do not say.
    pub(super) fn from_args(
        args: &Args,
        mut ask: impl FnMut(&str, Option<&str>) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<Self> {
        let mut servers = args.servers.clone();
        if servers.is_empty() {
            let answer = ask("Servers, as HOST:PORT or NAME=HOST:PORT, separated by spaces", None)?;
            let Some(answer) = answer else { bail!("no server is given; name each with --server NAME=HOST:PORT") };
            servers = answer.split([' ', ',']).filter(|part| !part.is_empty()).map(str::to_owned).collect();
        }
        let servers: Vec<_> = servers.iter().enumerate().map(|(at, server)| name_and_address(at, server)).collect();
        for (at, (name, _)) in servers.iter().enumerate() {
            if servers[..at].iter().any(|(other, _)| other == name) {
                bail!("two servers are called {name}");
            }
        }
        let mut or_ask = |given: &Option<String>, question: &str, default: &str| match given {
            Some(given) => Ok(given.clone()),
            None => Ok::<_, anyhow::Error>(ask(question, Some(default))?.unwrap_or_else(|| default.to_owned())),
        };
        let listen = or_ask(&args.listen, "Where clients connect", default_listen(&servers))?;
        let monitor_user = or_ask(&args.monitor_user, "User that watches the servers", "sqluice")?;
        let admin = or_ask(&args.admin, "Where metrics and health are served, or none", "127.0.0.1:9104")?;
        let kind = args.kind.unwrap_or(if servers.len() == 1 {
            ClusterKindArg::Standalone
        } else {
            ClusterKindArg::Replication
        });
        let family = match kind.family(args.family)? {
            Some(family) => family,
            None => match or_ask(&None, "What the servers are, mariadb or mysql", "mariadb")?.as_str() {
                "mariadb" => Family::Mariadb,
                "mysql" => Family::Mysql,
                other => bail!("{other:?} is neither mariadb nor mysql"),
            },
        };
        for name in [&monitor_user, &args.monitor_host] {
            if !plain(name) {
                bail!("{name:?} has a backslash or a control character");
            }
        }
        let admin = Some(admin).filter(|admin| admin != "none");
        let failover = args.failover;
        if failover && kind != ClusterKindArg::Replication {
            match kind {
                ClusterKindArg::Standalone => bail!("--failover needs at least two servers"),
                _ => bail!(
                    "--failover has no use with --kind {}: who belongs to it decides the group",
                    kind.config().word()
                ),
            }
        }
        if kind == ClusterKindArg::Standalone && servers.len() > 1 {
            bail!("--kind standalone is for one server");
        }
        Ok(Self { servers, listen, cluster: args.cluster.clone(), monitor_user, admin, family, kind, failover })
    }

    /// The configuration's text.
    pub(super) fn render(&self, password: &Password, admin_key: Option<&AdminKey>) -> String {
        let mut values: Vec<(Vec<String>, String)> = Vec::new();
        let mut set = |path: &[&str], value: &str| {
            values.push((path.iter().map(|&key| key.to_owned()).collect(), literal(value)));
        };
        let cluster = self.cluster.as_str();
        set(&["cluster", cluster, "kind"], self.kind.config().word());
        for (name, address) in &self.servers {
            set(&["cluster", cluster, "servers", name, "address"], address);
        }
        set(&["cluster", cluster, "monitor", "user"], &self.monitor_user);
        let (key, value) = password.setting();
        set(&["cluster", cluster, "monitor", key], &value);
        if self.failover {
            set(&["cluster", cluster, "failover"], config::Failover::Auto.word());
            set(&["cluster", cluster, "replication", "user"], &self.monitor_user);
            set(&["cluster", cluster, "replication", key], &value);
        }
        set(&["listener", "app", "address"], &self.listen);
        set(&["listener", "app", "cluster"], cluster);
        if let Some(admin) = &self.admin {
            set(&["admin", "address"], admin);
            if let Some((key, value)) = admin_key.map(AdminKey::setting) {
                set(&["admin", key], &value);
            }
        }
        format!(
            "# Sqluice's configuration. A value behind # is the default, or an example where it says so.\n\
             # `sqluice check` checks it; SIGHUP makes a running Sqluice read it again.\n{}",
            sample(&values)
        )
    }
}

impl Family {
    /// The word of the argument.
    pub(super) fn word(self) -> &'static str {
        match self {
            Family::Mariadb => "mariadb",
            Family::Mysql => "mysql",
        }
    }
}

impl ClusterKindArg {
    /// The family, if it was given or follows from the kind.
    ///
    /// # Errors
    /// The family that was given has no such kind.
    pub(super) fn family(self, given: Option<Family>) -> anyhow::Result<Option<Family>> {
        let only_mysql = matches!(self, ClusterKindArg::GroupReplication | ClusterKindArg::Ndb);
        match given {
            Some(Family::Mariadb) if only_mysql => {
                bail!("MariaDB has no {}: --family mysql", self.config().word())
            }
            None if only_mysql => Ok(Some(Family::Mysql)),
            given => Ok(given),
        }
    }

    /// From the configuration.
    pub(super) fn of(kind: ClusterKind) -> Self {
        match kind {
            ClusterKind::Standalone => ClusterKindArg::Standalone,
            ClusterKind::Replication => ClusterKindArg::Replication,
            ClusterKind::Galera => ClusterKindArg::Galera,
            ClusterKind::GroupReplication => ClusterKindArg::GroupReplication,
            ClusterKind::Ndb => ClusterKindArg::Ndb,
        }
    }

    /// As the configuration has it.
    fn config(self) -> ClusterKind {
        match self {
            ClusterKindArg::Standalone => ClusterKind::Standalone,
            ClusterKindArg::Replication => ClusterKind::Replication,
            ClusterKindArg::Galera => ClusterKind::Galera,
            ClusterKindArg::GroupReplication => ClusterKind::GroupReplication,
            ClusterKindArg::Ndb => ClusterKind::Ndb,
        }
    }
}

impl Password {
    /// The given file, the environment when nothing is written, else a file beside the configuration: the one that an
    /// earlier `init` wrote, or a new one.
    pub(super) fn choose(args: &Args, to_stdout: bool) -> anyhow::Result<Self> {
        if let Some(path) = &args.monitor_password_file {
            let path = std::path::absolute(path)?;
            let password = read_password(&path)?;
            return Ok(Self::Kept { path, password });
        }
        if to_stdout {
            return Ok(Self::Variable);
        }
        let stem = args.output.file_stem().context("the output has no file name")?;
        let name = PathBuf::from(format!("{}-monitor.pw", stem.to_string_lossy()));
        let path = args.output.with_file_name(&name);
        if path.exists() {
            let password = read_password(&path)?;
            return Ok(Self::Kept { path: name, password });
        }
        Ok(Self::Made { path, name, password: files::made_up_password()? })
    }

    /// The key and value that stand in the configuration.
    fn setting(&self) -> (&'static str, String) {
        match self {
            Self::Kept { path: name, .. } | Self::Made { name, .. } => ("password_file", name.display().to_string()),
            Self::Variable => ("password_env", PASSWORD_VARIABLE.to_owned()),
        }
    }

    /// The password as the SQL has it.
    pub(super) fn for_sql(&self) -> &str {
        match self {
            Self::Kept { password, .. } | Self::Made { password, .. } => password,
            Self::Variable => PASSWORD_UNKNOWN,
        }
    }

    /// Writes a password that was made up.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        if let Self::Made { path, password, .. } = self {
            files::write_private(path, format!("{password}\n").as_bytes(), false)?;
            out::say(format_args!("wrote {}", path.display()));
        }
        Ok(())
    }
}

/// Checks the text as `sqluice check` will when all is written.
pub(super) fn check(
    output: &Path,
    text: &str,
    password: &Password,
    admin_key: Option<&AdminKey>,
) -> Result<(), Errors> {
    let name = output.display().to_string();
    config::parse(&name, text, &SourceAfterInit { password, admin_key }).map(|_| ())
}

/// The machine as it will be: with the password file that is still to be written, and the variable still to be set.
struct SourceAfterInit<'a> {
    password: &'a Password,
    admin_key: Option<&'a AdminKey>,
}

impl Source for SourceAfterInit<'_> {
    fn file(&self, path: &Path) -> io::Result<FileContent> {
        let content = |text: &str| FileContent { bytes: text.to_owned().into_bytes().into(), mode: Some(0o600) };
        match (self.password, self.admin_key) {
            (Password::Made { path: made, password, .. }, _) if made == path => Ok(content(password)),
            (_, Some(AdminKey::File { path: made, made: Some(key), .. })) if made == path => Ok(content(key)),
            _ => SystemSource.file(path),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        SystemSource
            .variable(name)
            .or_else(|| (name == PASSWORD_VARIABLE || name == KEY_VARIABLE).then(|| "to be set".to_owned()))
    }
}

pub(super) fn read_password(path: &Path) -> anyhow::Result<String> {
    let content = SystemSource.file(path).with_context(|| format!("cannot read {}", path.display()))?;
    let password = std::str::from_utf8(&content.bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    match password {
        Some(password) if !password.is_empty() && plain(password) => Ok(password.to_owned()),
        _ => bail!("{}: the password is empty, or has a backslash or a control character", path.display()),
    }
}

/// `db1=10.0.0.1:3306`, or an address, which gets the name `db` and its number.
fn name_and_address(at: usize, server: &str) -> (String, String) {
    let (name, address) = match server.split_once('=') {
        Some((name, address)) => (name.to_owned(), address),
        None => (format!("db{}", at + 1), server),
    };
    let bare = !address.contains(':') && !address.is_empty() || address.ends_with(']');
    (name, if bare { format!("{address}:3306") } else { address.to_owned() })
}

/// The usual port, unless a server on this machine has it.
fn default_listen(servers: &[(String, String)]) -> &'static str {
    let taken = servers.iter().any(|(_, address)| match Address::parse(address) {
        Ok(Address::Tcp { host, port: 3306 }) => matches!(&*host, "127.0.0.1" | "localhost" | "::1"),
        _ => false,
    });
    if taken { "0.0.0.0:3307" } else { "0.0.0.0:3306" }
}

/// A TOML string.
fn literal(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
