//! `sqluice check`: reads the configuration and says what it means, or all that is wrong with it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use config::{Address, Config, Credential, Loaded};

use crate::out;

/// Arguments of `sqluice check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE", default_value = "sqluice.toml")]
    pub(crate) config: PathBuf,
    /// List every setting with its value, and whether the file sets it.
    #[arg(long)]
    pub(crate) all: bool,
}

/// Checks the file: a summary on standard output, or every mistake on standard error and exit code 1.
///
/// # Errors
/// Only when the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match config::load(&args.config) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                out::say(format_args!("warning: {warning}"));
            }
            let problems = file_problems(&loaded.config);
            if !problems.is_empty() {
                let name = args.config.display();
                problems.iter().for_each(|problem| out::say(format_args!("{name}: {problem}")));
                out::say(format_args!("{} in {name}", counted(problems.len(), "mistake")));
                return Ok(ExitCode::FAILURE);
            }
            let name = args.config.display().to_string();
            let mut summary = Vec::new();
            report(&name, &loaded, args.all, &mut summary).context("cannot write the summary")?;
            out::print(&String::from_utf8_lossy(&summary))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            let count = errors.0.len();
            out::say(errors);
            out::say(format_args!("{count} mistake{} in {}", plural(count), args.config.display()));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Files that cannot be written by the user who checks: journals with the state beside them, the files of events and of history.
fn file_problems(config: &Config) -> Vec<String> {
    let journal = |(name, cluster): (&Arc<str>, &config::Cluster)| {
        Some((format!("cluster.{name}.promotion.journal"), cluster.promotion.journal.clone()?))
    };
    let event_files = config.events.files().map(|(key, file)| (key, file.path.clone()));
    // Sqluice makes the spool's folder; one that is there must take files.
    let spool = config.events.spool.iter().map(|spool| {
        let path = if spool.path.is_dir() { spool.path.join("lock") } else { spool.path.clone() };
        ("events.spool.path".to_owned(), path)
    });
    let history = config.history.iter().map(|history| ("history.path".to_owned(), history.path.clone()));
    let problem = |(key, path): (String, PathBuf)| {
        let error = can_append(&path).err()?;
        Some(format!("{key}: {} cannot be written: {error}", path.display()))
    };
    let kafka = config.events.sinks.iter().filter(|(_, sink)| matches!(sink.target, config::EventTarget::Kafka(_)));
    let without =
        kafka.filter(|_| !events::HAS_KAFKA).map(|(name, _)| format!("events.{name}: this build is without Kafka"));
    let without: Vec<String> = without.collect();
    config
        .clusters
        .iter()
        .filter_map(journal)
        .chain(event_files)
        .chain(spool)
        .chain(history)
        .filter_map(problem)
        .chain(without)
        .collect()
}

/// Tries to open a file for appending, and whether its folder takes new files. Nothing is left behind.
fn can_append(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The file itself may be new; a journal's state is replaced by a new file each time, and events go on in a new one.
    let mut trial = path.as_os_str().to_owned();
    trial.push(format!(".check-{}", std::process::id()));
    let trial = PathBuf::from(trial);
    OpenOptions::new().write(true).create_new(true).open(&trial)?;
    fs::remove_file(&trial)
}

/// Writes what the configuration means.
pub(crate) fn report(name: &str, loaded: &Loaded, all: bool, out: &mut impl Write) -> io::Result<()> {
    let config = &loaded.config;
    let servers: usize = config.clusters.values().map(|cluster| cluster.servers.len()).sum();
    writeln!(
        out,
        "{name} is good: {}, {}, {}",
        counted(config.clusters.len(), "cluster"),
        counted(servers, "server"),
        counted(config.listeners.len(), "listener")
    )?;
    clusters(config, out)?;
    for (name, listener) in &config.listeners {
        writeln!(
            out,
            "listener {name}: {} to cluster {}, split {}, tls {}{}, at most {} sessions",
            listener.address,
            listener.cluster,
            listener.split,
            listener.tls.mode,
            if listener.tls.cert.is_none() && listener.tls.mode != config::TlsMode::Off {
                " with a certificate made at start"
            } else {
                ""
            },
            listener.max_sessions
        )?;
    }
    for (name, user) in &config.users {
        let credential = match user.credential {
            Credential::Servers => "as the servers know it",
            Credential::Password(_) => "password given here",
            Credential::NativeHash(_) => "password hash given here",
        };
        writeln!(out, "user {name}: {credential}")?;
    }
    rules(config, all, out)?;
    match &config.admin {
        Some(admin) => writeln!(
            out,
            "admin: {}://{}/metrics{}",
            crate::api::scheme(admin.tls.mode),
            admin.address,
            match admin.tls.mode {
                config::TlsMode::Required => "",
                config::TlsMode::Optional => ", and http",
                config::TlsMode::Off => ", not encrypted",
            }
        )?,
        None => writeln!(out, "admin: no listener")?,
    }
    if let Some(address) = config.admin.as_ref().and_then(|admin| admin.sql_address.as_ref()) {
        writeln!(out, "SQL console: {address}")?;
    }
    let set = config.given.iter().filter(|given| given.set).count();
    writeln!(out, "{} set here, {} by default", counted(set, "value"), config.given.len() - set)?;
    if !all {
        return writeln!(out, "(--all lists them)");
    }
    for given in &config.given {
        let value = if given.value.is_empty() { "(none)" } else { &given.value };
        writeln!(out, "  {} = {value}{}", given.path, if given.set { "" } else { "  # default" })?;
    }
    Ok(())
}

/// How many rules there are; with `all` what each does. There may be thousands.
fn rules(config: &Config, all: bool, out: &mut impl Write) -> io::Result<()> {
    if config.rules.is_empty() {
        return Ok(());
    }
    let off = config.rules.iter().filter(|rule| !rule.enabled).count();
    let off = if off == 0 { String::new() } else { format!(", {off} of them switched off") };
    writeln!(out, "rules: {}{off}", config.rules.len())?;
    for rule in config.rules.iter().filter(|_| all) {
        let (matchers, off) = (rule.matchers.in_words().join(" and "), if rule.enabled { "" } else { " (off)" });
        writeln!(out, "  {}{off}: if {matchers}: {}", rule.name, rule.action_in_words())?;
    }
    Ok(())
}

fn clusters(config: &Config, out: &mut impl Write) -> io::Result<()> {
    for (name, cluster) in &config.clusters {
        let pool = &cluster.pool;
        writeln!(
            out,
            "cluster {name}: {}, failover {}, tls {}, at most {} connections to a server",
            cluster.kind, cluster.failover, cluster.tls.mode, pool.max_connections_per_server
        )?;
        if cluster.kind == config::ClusterKind::Ndb {
            writeln!(out, "  experimental: NDB was tried with scripted servers only, test it with your cluster")?;
        }
        if let Some(open) = open_passwords(cluster) {
            writeln!(out, "  open: {open}")?;
        }
        for (name, server) in &cluster.servers {
            write!(out, "  server {name}: {}, weight {}", server.address, server.weight)?;
            if !server.zone.is_empty() {
                write!(out, ", zone {}", server.zone)?;
            }
            if matches!(server.address, Address::Unix(_)) {
                write!(out, ", on this machine")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Which servers could get passwords that they should not, in words.
pub(crate) fn open_passwords(cluster: &config::Cluster) -> Option<&'static str> {
    use config::{SendPasswords, ServerTlsMode};
    let verifies = matches!(cluster.tls.mode, ServerTlsMode::VerifyCa | ServerTlsMode::VerifyIdentity);
    if verifies || cluster.servers.values().all(|server| matches!(server.address, Address::Unix(_))) {
        return None;
    }
    match cluster.send_passwords {
        SendPasswords::Known => Some(
            "no certificate of a server is verified: passwords go to the server that answers first at an address, and to no other \
             one there afterwards (tls.mode = \"verify_identity\", or send_passwords = \"verified\")",
        ),
        SendPasswords::Any => Some("passwords go to whoever answers at a server's address (send_passwords = \"any\")"),
        SendPasswords::Verified => None,
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", plural(count))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[cluster.main]
kind = "replication"
monitor = { user = "sqluice", password = "hush" }
servers.db1 = { address = "10.0.0.1:3306" }
servers.db2 = { address = "10.0.0.2:3306", zone = "b" }
[listener.app]
address = "0.0.0.0:3306"
cluster = "main"
"#;

    fn summary(all: bool) -> String {
        summary_of(GOOD, all)
    }

    fn summary_of(text: &str, all: bool) -> String {
        let loaded = config::parse("x.toml", text, &config::MemorySource::default()).unwrap();
        let mut out = Vec::new();
        report("x.toml", &loaded, all, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_summary_names_what_there_is() {
        let summary = summary(false);
        assert!(summary.starts_with("x.toml is good: 1 cluster, 2 servers, 1 listener\n"), "{summary}");
        assert!(summary.contains("  server db2: 10.0.0.2:3306, weight 100, zone b\n"), "{summary}");
        assert!(summary.contains("listener app: 0.0.0.0:3306 to cluster main, split auto"), "{summary}");
        assert!(summary.contains("8 values set here"), "{summary}");
        assert!(!summary.contains("wait_ms"), "{summary}");
    }

    #[test]
    fn an_experimental_kind_is_called_so() {
        let said = |text: &str| summary_of(text, false).contains("\n  experimental: NDB was tried");
        assert!(said(&GOOD.replace("\"replication\"", "\"ndb\"")));
        assert!(!said(GOOD));
    }

    #[test]
    fn a_journal_that_cannot_be_written_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let problems = |journal: &str| {
            let text =
                GOOD.replace("[listener.app]", &format!("promotion = {{ journal = \"{journal}\" }}\n[listener.app]"));
            file_problems(&config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config)
        };
        let within = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(problems(&within("journal")), Vec::<String>::new());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
        fs::write(folder.path().join("file"), "").unwrap();
        for wrong in [within("nowhere/journal"), within("file/journal"), within("")] {
            let said = problems(&wrong);
            assert!(said.len() == 1 && said[0].starts_with("cluster.main.promotion.journal: "), "{wrong}: {said:?}");
        }
    }

    #[test]
    fn files_of_events_and_of_history_that_cannot_be_written_are_mistakes() {
        let text = format!(
            "{GOOD}[admin]\naddress = \"127.0.0.1:0\"\n[events.file]\npath = \"/nowhere/events\"\n\
             [events.spool]\npath = \"/nowhere/spool\"\n\
             [history]\npath = \"/nowhere/history\"\n"
        );
        let said = file_problems(&config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config);
        let error = "No such file or directory (os error 2)";
        let expected = [("events.file.path", "events"), ("events.spool.path", "spool"), ("history.path", "history")]
            .map(|(key, file)| format!("{key}: /nowhere/{file} cannot be written: {error}"));
        assert_eq!(said, expected);
    }

    #[test]
    fn rules_are_counted_and_reported() {
        let text = format!(
            "{GOOD}[[rule]]\nname = \"a\"\nuser = \"bob\"\naccess = \"read\"\nroute = \"server:db2\"\n\
             [[rule]]\nname = \"b\"\nenabled = false\nuser = \"bob\"\nrefuse = \"no\"\n"
        );
        let loaded = config::parse("x.toml", &text, &config::MemorySource::default()).unwrap();
        let reported = |all: bool| {
            let mut out = Vec::new();
            report("x.toml", &loaded, all, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(reported(false).contains("rules: 2, 1 of them switched off\nadmin"), "{}", reported(false));
        let all = reported(true);
        assert!(all.contains("  a: if the user is bob and the access is read: route server:db2\n"), "{all}");
        assert!(all.contains("  b (off): if the user is bob: refuse: no\n"), "{all}");
    }

    #[test]
    fn all_lists_values_and_defaults_but_no_secret() {
        let summary = summary(true);
        assert!(summary.contains("  cluster.main.pool.wait_ms = 10000  # default\n"), "{summary}");
        assert!(summary.contains("  cluster.main.kind = \"replication\"\n"), "{summary}");
        assert!(summary.contains("  cluster.main.monitor.password = (hidden)\n"), "{summary}");
        assert!(!summary.contains("hush"), "{summary}");
    }
}
