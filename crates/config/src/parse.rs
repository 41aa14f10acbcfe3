//! From the document to the [`Config`].

mod admin;
mod cluster;
mod etcd;
mod events;
mod failover;
mod history;
mod listener;
mod rule;
mod secrets;
mod tier;
mod tls;
mod user;
mod warm;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::de::DeTable;

use crate::read::{HIDDEN, Reader, Table};
use crate::settings::{self, cache as cache_keys, process};
use crate::{Cache, Config, Errors, Log, LogFormat, Problem, Proxy, Source, SystemSource, Warning, checks};

/// A configuration without mistakes.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Probable mistakes, in the order of the lines.
    pub warnings: Vec<Warning>,
}

/// Reads and checks a file, with the secrets and certificates it names.
///
/// # Errors
/// Every mistake in it; a file that cannot be read is one.
pub fn load(path: &Path) -> Result<Loaded, Errors> {
    let name = path.display().to_string();
    let whole_file = |message: String| {
        let (file, key) = (name.clone(), String::new());
        Errors(vec![Problem { file, line: 0, column: 0, key, message, allowed: None, hint: None }])
    };
    let content = SystemSource.file(path).map_err(|error| whole_file(format!("the file cannot be read: {error}")))?;
    let text = std::str::from_utf8(&content.bytes).map_err(|error| {
        let line = content.bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        whole_file(format!("the file is not UTF-8 text (line {line})"))
    })?;
    let mut loaded = parse(&name, text, &SystemSource)?;
    if let Some(mode) = content.mode
        && mode & 0o007 != 0
        && let Some(secret) = loaded.config.given.iter().find(|given| given.value == HIDDEN)
    {
        let message = format!("everybody can read this file (mode {:04o}) and it holds a secret", mode & 0o7777);
        let (file, key, hint) = (name, secret.path.clone(), Some("chmod 600 it, or use password_file".into()));
        let problem = Problem { file, line: 0, column: 0, key, message, allowed: None, hint };
        loaded.warnings.insert(0, Warning(problem));
    }
    Ok(loaded)
}

/// Checks the text of a configuration. `name` is the file's name for messages, and its folder is where relative paths
/// start.
///
/// # Errors
/// Every mistake in it, in the order of the lines.
pub fn parse(name: &str, text: &str, source: &dyn Source) -> Result<Loaded, Errors> {
    let base = Path::new(name).parent().unwrap_or(Path::new(""));
    let mut reader = Reader::new(name, text, base, source);
    let (document, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        reader.syntax(error);
    }
    let root = reader.root(&settings::ROOT, document.get_ref());
    let config = read(&mut reader, &root);
    let (mut problems, mut warnings) = (reader.problems, reader.warnings);
    if problems.is_empty() {
        warnings.sort_by_key(|warning| (warning.0.line, warning.0.column));
        return Ok(Loaded { config: Config { given: reader.given, ..config }, warnings });
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.dedup();
    Err(Errors(problems))
}

fn read(reader: &mut Reader, root: &Table) -> Config {
    let proxy = reader.table(root, &process::PROXY);
    let proxy = Proxy {
        workers: reader.number(&proxy, &process::WORKERS) as usize,
        busy_poll: Duration::from_micros(reader.number(&proxy, &process::BUSY_POLL).into()),
        relieve_above_percent: reader.number(&proxy, &process::RELIEVE_ABOVE),
        digests_max: reader.number(&proxy, &process::DIGESTS_MAX) as usize,
        digest_samples: reader.flag(&proxy, &process::DIGEST_SAMPLES),
        drain: reader.duration(&proxy, &process::DRAIN),
        zone: reader.text(&proxy, &process::ZONE).unwrap_or_default(),
        login_memory_max: reader.size(&proxy, &process::LOGIN_MEMORY_MAX),
        prepared_memory_max: reader.size(&proxy, &process::PREPARED_MEMORY_MAX),
        command_memory_max: reader.size(&proxy, &process::COMMAND_MEMORY_MAX),
    };
    let log = read_log(reader, root);
    let mut places = checks::Places::default();
    let admin = admin::read(reader, root, &mut places);
    let events = events::read(reader, root, admin.is_some());
    let history = history::read(reader, root, admin.is_some());
    let cache = reader.table(root, &cache_keys::CACHE);
    let cache = Cache {
        memory_max: reader.size(&cache, &cache_keys::MEMORY_MAX),
        entry_max: reader.size(&cache, &cache_keys::ENTRY_MAX),
        fill_wait: reader.duration(&cache, &cache_keys::FILL_WAIT),
        follow_delay_max: reader.duration(&cache, &cache_keys::FOLLOW_DELAY_MAX),
        tier: tier::read(reader, &cache),
    };
    let clusters = cluster::read_all(reader, root, &mut places);
    let listeners = listener::read_all(reader, root, &mut places);
    let users = user::read_all(reader, root, &mut places);
    let rules = rule::read_all(reader, root, cache.tier.is_some(), &mut places);
    let warms = warm::read_all(reader, root, &mut places);
    let config = Config {
        proxy,
        log,
        admin,
        events,
        history,
        cache,
        clusters,
        listeners,
        users,
        rules,
        warms,
        given: Vec::new(),
    };
    checks::check(reader, &config, &places);
    config
}

fn read_log(reader: &mut Reader, root: &Table) -> Log {
    let table = reader.table(root, &process::LOG);
    let format = reader.choice(&table, &process::FORMAT, LogFormat::ALL, LogFormat::word).unwrap_or(LogFormat::Human);
    let level = reader.text(&table, &process::LEVEL).unwrap_or_default();
    if !level.is_empty()
        && let Some(wrong) = level.split(',').find(|part| !is_directive(part.trim()))
    {
        let message = format!("{} is no level and no target=level", crate::read::quote(wrong.trim()));
        let levels = LEVELS.join(", ");
        let place = table.place(&process::LEVEL);
        reader.problem(place, table.key(&process::LEVEL), format!("{message}; levels: {levels}"));
    }
    Log { format, level: level.to_string() }
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Whether the text is a level or `target=level`, which is the part of `tracing`'s filters that is of use here.
fn is_directive(part: &str) -> bool {
    let (target, level) = part.split_once('=').unwrap_or(("sqluice", part));
    let target_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    LEVELS.contains(&level) && !target.is_empty() && target.chars().all(target_good)
}

/// The names that a cluster, server or listener may have: they become labels of metrics and parts of paths.
fn name_good(name: &str) -> Result<(), &'static str> {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    match (1..=64).contains(&name.len()) && name.bytes().all(good) {
        true => Ok(()),
        false => Err("a name has 1 to 64 letters, digits, '-' and '_'"),
    }
}

/// Text that is required: its absence is reported elsewhere, so an empty one stands in.
fn or_empty(text: Option<Arc<str>>) -> Arc<str> {
    text.unwrap_or_default()
}
