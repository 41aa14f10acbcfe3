//! Sqluice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail};

use super::{CACHE_MB, CACHE_TTL_MS, Cache, READY_LIMIT, Setup, Started, folder, greets, write};
use crate::process::Daemon;
use crate::world::World;

/// A build of Sqluice, with what its configuration has beside the usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    /// Its name in tables.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: PathBuf,
    /// Keys with their section, such as `proxy.workers`, and their values as TOML.
    pub(crate) settings: Vec<(String, String)>,
}

impl FromStr for Build {
    type Err = anyhow::Error;

    /// `NAME=PROGRAM[,KEY=VALUE…]`, or `PROGRAM` alone.
    fn from_str(text: &str) -> anyhow::Result<Build> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, program) = first.split_once('=').unwrap_or(("sqluice", first));
        let setting = |part: &str| {
            let (key, value) = part.split_once('=').with_context(|| format!("'{part}' is not KEY=VALUE"))?;
            if !key.contains('.') {
                bail!("'{key}' has no section; write it like proxy.workers=2");
            }
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        let settings = parts.map(setting).collect::<anyhow::Result<_>>()?;
        let program = std::fs::canonicalize(program).with_context(|| format!("there is no program {program}"))?;
        Ok(Build { name: name.to_owned(), program, settings })
    }
}

pub(super) fn start(build: &Build, world: &World, setup: &Setup) -> anyhow::Result<Started> {
    let folder = folder()?;
    let (config, ready) = (folder.path().join("sqluice.toml"), folder.path().join("ready"));
    write(&config, &text(build, world, setup, folder.path()))?;
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600))?;
    let mut command = Command::new(&build.program);
    command.args(["run", "--config"]).arg(&config).arg("--ready-file").arg(&ready);
    let mut daemon = Daemon::start(command, folder)?;
    let address = daemon.wait(READY_LIMIT, |_| {
        let reported = std::fs::read_to_string(&ready).ok()?;
        reported.lines().find_map(|line| line.strip_prefix("app ")?.parse().ok())
    })?;
    // It lets clients in when it knows the servers.
    daemon.wait(READY_LIMIT, |_| greets(address).then_some(()))?;
    Ok((address, Some(daemon)))
}

/// The configuration: defaults, read/write split, session consistency, metrics; and room for many clients.
fn text(build: &Build, world: &World, setup: &Setup, folder: &Path) -> String {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut set = |key: &str, value: String| {
        let (section, name) = key.rsplit_once('.').unwrap_or(("proxy", key));
        sections.entry(section.to_owned()).or_default().insert(name.to_owned(), value);
    };
    let quoted = |text: &str| format!("\"{text}\"");
    set("proxy.workers", setup.workers.to_string());
    set("admin.address", quoted("127.0.0.1:0"));
    set("cluster.main.kind", quoted("replication"));
    set("cluster.main.slow_start_s", "0".to_owned());
    for (index, address) in world.addresses().iter().enumerate() {
        set(&format!("cluster.main.servers.db{}.address", index + 1), quoted(&address.to_string()));
    }
    set("cluster.main.monitor.user", quoted(lab::MONITOR_USER));
    set("cluster.main.monitor.password", quoted(lab::MONITOR_PASSWORD));
    if let Some(connections) = setup.server_connections {
        set("cluster.main.pool.max_connections_per_server", connections.to_string());
    }
    let tls = if setup.tls { "required" } else { "disabled" };
    set("cluster.main.tls.mode", quoted(tls));
    set("listener.app.address", quoted("127.0.0.1:0"));
    set("listener.app.cluster", quoted("main"));
    set("listener.app.max_sessions", "30000".to_owned());
    if setup.can_be_watched {
        set("admin.key", quoted(crate::watch::KEY));
        set("history.path", quoted(&folder.join("history.db").display().to_string()));
    }
    if setup.cache == Some(Cache::Follow) {
        set("cluster.main.replication.user", quoted(lab::REPL_USER));
        set("cluster.main.replication.password", quoted(lab::REPL_PASSWORD));
    }
    if setup.cache.is_some() {
        set("cache.memory_max", (u64::from(CACHE_MB) << 20).to_string());
    }
    for (key, value) in &build.settings {
        set(key, value.clone());
    }
    let mut text = String::new();
    for (section, keys) in &sections {
        let _ = writeln!(text, "[{section}]");
        for (key, value) in keys {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    text + &rules(setup.rules) + &setup.cache.map(cache).unwrap_or_default() + &setup.more
}

/// A rule by which the cache answers all that it can, and nothing else.
fn cache(cache: Cache) -> String {
    let freshness = match cache {
        Cache::Ttl => format!("cache_ttl_ms = {CACHE_TTL_MS}"),
        Cache::Follow => "cache_freshness = \"follow\"".to_owned(),
        Cache::Tier => format!("cache_ttl_ms = {CACHE_TTL_MS}\ncache_tier = true"),
    };
    format!("[[rule]]\nname = \"cached\"\ncluster = \"main\"\ncache = \"on\"\n{freshness}\n")
}

/// So many rules of several kinds, none of which fits the load's statements but the last one.
fn rules(count: u32) -> String {
    let mut text = String::new();
    for number in 1..=count {
        let _ = writeln!(text, "[[rule]]\nname = \"r{number}\"\nroute = \"replica\"");
        let _ = match number {
            number if number == count => writeln!(text, "digest_regex = '^SELECT c FROM sbtest[0-9]+ WHERE id'"),
            number if number % 10 == 7 => writeln!(text, "user = \"somebody{number}\""),
            number if number % 10 == 8 => writeln!(text, "digest = \"{number:016x}\""),
            number if number % 10 == 9 => writeln!(text, "schema = \"schema{number}\"\naccess = \"read\""),
            number => writeln!(text, "digest_regex = '^SELECT .* FROM other_{number} WHERE'"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_rule_fits() {
        assert_eq!(rules(0), "");
        let text = rules(1_000);
        assert_eq!((text.matches("[[rule]]").count(), text.matches("sbtest").count()), (1_000, 1));
        assert!(text.ends_with("digest_regex = '^SELECT c FROM sbtest[0-9]+ WHERE id'\n"), "{text}");
    }

    #[test]
    fn builds_are_named_and_set() {
        let program = std::env::current_exe().unwrap();
        let text = format!("b={},proxy.busy_us=50,cluster.main.pool.min_idle=4", program.display());
        let build: Build = text.parse().unwrap();
        assert_eq!(build.name, "b");
        assert_eq!(build.settings[1], ("cluster.main.pool.min_idle".to_owned(), "4".to_owned()));
        let plain: Build = program.display().to_string().parse().unwrap();
        assert_eq!((plain.name.as_str(), plain.settings.len()), ("sqluice", 0));
        assert!("a=/no/such/program".parse::<Build>().unwrap_err().to_string().contains("/no/such/program"));
        let error = format!("a={},workers=2", program.display()).parse::<Build>().unwrap_err();
        assert!(error.to_string().contains("section"), "{error}");
    }
}
