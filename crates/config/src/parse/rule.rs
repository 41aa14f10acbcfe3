//! `[[rule]]`

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{name_good, or_empty};
use crate::checks::Places;
use crate::read::{Reader, Table, quote};
use crate::settings::{Setting, rule as keys};
use crate::{
    CacheFreshness, CacheMode, Consistency, LogMode, Matchers, Network, Pipelines, Rule, RuleAccess, RuleCache,
    RuleLog, RuleRoute, patterns,
};

pub(super) fn read_all(reader: &mut Reader, root: &Table, has_tier: bool, places: &mut Places) -> Arc<[Rule]> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut names = BTreeSet::new();
    let mut seen = Seen::default();
    let mut bytes = 0;
    for table in reader.list(root, &keys::RULE, keys::RULES_MAX) {
        let rule = read(reader, &table, has_tier, &mut bytes);
        if !rule.name.is_empty() && !names.insert(rule.name.clone()) {
            let message = format!("another rule has the name {}", quote(&rule.name));
            reader.problem(table.place(&keys::NAME), table.key(&keys::NAME), message);
        }
        if rule.enabled && rule.matchers.given() != 0 {
            check_reachable(reader, &table, &rule, &seen);
            seen.add(&rule);
        }
        let place = |key: &Setting| (table.place(key), table.key(key));
        places.rules.push([place(&keys::LISTENER), place(&keys::CLUSTER), place(&keys::ROUTE)]);
        rules.push(rule);
    }
    if let (Err(message), Some(last)) = (patterns::check_all(bytes), places.rules.last()) {
        let (place, _) = last[0].clone();
        reader.problem(place, keys::RULE.key, message);
    }
    rules.into()
}

fn read_cache(reader: &mut Reader, table: &Table, has_tier: bool) -> Option<RuleCache> {
    let mode = reader.choice(table, &keys::CACHE, CacheMode::ALL, CacheMode::word);
    let freshness = reader.choice(table, &keys::CACHE_FRESHNESS, CacheFreshness::ALL, CacheFreshness::word);
    let freshness = freshness.unwrap_or(CacheFreshness::Ttl);
    let (ttl, stale) = (reader.duration(table, &keys::CACHE_TTL), reader.duration(table, &keys::CACHE_STALE));
    let ttl = match freshness {
        CacheFreshness::Follow if !table.has(&keys::CACHE_TTL) => keys::FOLLOWED_TTL,
        _ => ttl,
    };
    let shared = reader.flag(table, &keys::CACHE_SHARED);
    let tier = reader.flag(table, &keys::CACHE_TIER);
    let of_cache =
        [&keys::CACHE_FRESHNESS, &keys::CACHE_TTL, &keys::CACHE_STALE, &keys::CACHE_SHARED, &keys::CACHE_TIER];
    if let Some(setting) = of_cache.into_iter().find(|setting| table.has(setting)).filter(|_| !table.has(&keys::CACHE))
    {
        let message = "it has no effect without `cache`, as in cache = \"on\"";
        reader.problem(table.place(setting), table.key(setting), message);
    }
    if tier && !has_tier && reader.whole_document() {
        let message = "it needs `address` in [cache.tier]: without it there is nothing to share";
        reader.problem(table.place(&keys::CACHE_TIER), table.key(&keys::CACHE_TIER), message);
    }
    mode.map(|mode| RuleCache { mode, freshness, ttl, stale, shared, tier })
}

fn read(reader: &mut Reader, table: &Table, has_tier: bool, bytes: &mut usize) -> Rule {
    let name = or_empty(reader.text(table, &keys::NAME));
    if let Err(reason) = name_good(&name)
        && table.has(&keys::NAME)
    {
        reader.problem(table.place(&keys::NAME), table.key(&keys::NAME), reason);
    }
    let enabled = reader.flag(table, &keys::ENABLED);
    let matchers = Matchers {
        listener: reader.text(table, &keys::LISTENER),
        cluster: reader.text(table, &keys::CLUSTER),
        user: reader.text(table, &keys::USER),
        schema: reader.text(table, &keys::SCHEMA),
        client: read_client(reader, table),
        digest: read_digest(reader, table),
        digest_regex: read_regex(reader, table, &keys::DIGEST_REGEX, bytes),
        text_regex: read_regex(reader, table, &keys::TEXT_REGEX, bytes),
        access: reader.choice(table, &keys::ACCESS, RuleAccess::ALL, RuleAccess::word),
        table: read_table(reader, table),
        comment: read_comment(reader, table),
    };
    let route = read_route(reader, table);
    let consistency = reader.choice(table, &keys::CONSISTENCY, Consistency::ALL, Consistency::word);
    let max_lag = Some(reader.duration(table, &keys::MAX_LAG)).filter(|max| !max.is_zero());
    let cache = read_cache(reader, table, has_tier);
    let pipelines = reader.choice(table, &keys::PIPELINES, Pipelines::ALL, Pipelines::word);
    let refuse = reader.text(table, &keys::REFUSE);
    let log = read_log(reader, table);
    let has_any = |keys: &[&Setting]| keys.iter().any(|key| table.has(key));
    let matching = [
        &keys::LISTENER,
        &keys::CLUSTER,
        &keys::USER,
        &keys::SCHEMA,
        &keys::CLIENT,
        &keys::DIGEST,
        &keys::DIGEST_REGEX,
        &keys::TEXT_REGEX,
        &keys::ACCESS,
        &keys::TABLE,
        &keys::COMMENT,
    ];
    let listed = |keys: &[&Setting]| keys.iter().map(|key| key.key).collect::<Vec<_>>().join(", ");
    let place = table.place(&keys::NAME);
    if !has_any(&matching) {
        let message = "the rule has no matcher, so that it would hold for every statement";
        reader.problem_with(place.clone(), table.path(), message, Some(listed(&matching)), None);
    }
    let acting =
        [&keys::ROUTE, &keys::CONSISTENCY, &keys::MAX_LAG, &keys::CACHE, &keys::PIPELINES, &keys::REFUSE, &keys::LOG];
    if !has_any(&acting) {
        reader.problem_with(place, table.path(), "the rule has no action", Some(listed(&acting)), None);
    } else if table.has(&keys::REFUSE) && has_any(&acting[..5]) {
        let message = "a statement that is refused goes nowhere: `refuse` excludes `route`, `consistency`, `max_lag_ms`, `cache` and `pipelines`";
        reader.problem(table.place(&keys::REFUSE), table.key(&keys::REFUSE), message);
    }
    Rule { name, enabled, matchers, route, consistency, max_lag, cache, pipelines, refuse, log }
}

fn read_log(reader: &mut Reader, table: &Table) -> Option<RuleLog> {
    let mode = reader.choice(table, &keys::LOG, LogMode::ALL, LogMode::word);
    let sample = reader.number(table, &keys::LOG_SAMPLE);
    if table.has(&keys::LOG_SAMPLE) && mode != Some(LogMode::On) {
        let message = "it has no effect without `log = \"on\"`";
        reader.problem(table.place(&keys::LOG_SAMPLE), table.key(&keys::LOG_SAMPLE), message);
    }
    mode.map(|mode| RuleLog { mode, sample })
}

fn read_client(reader: &mut Reader, table: &Table) -> Option<Network> {
    let text = reader.text(table, &keys::CLIENT)?;
    let read = text.parse::<Network>();
    read.map_err(|message| reader.problem(table.place(&keys::CLIENT), table.key(&keys::CLIENT), message)).ok()
}

fn read_digest(reader: &mut Reader, table: &Table) -> Option<u64> {
    let text = reader.text(table, &keys::DIGEST)?;
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = if digits { u64::from_str_radix(&text, 16).ok().filter(|hash| *hash != 0) } else { None };
    if hash.is_none() {
        let message = "a digest's hash is 16 hexadecimal digits, as GET /api/v1/digests shows it";
        reader.problem(table.place(&keys::DIGEST), table.key(&keys::DIGEST), message);
    }
    hash
}

fn read_table(reader: &mut Reader, table: &Table) -> Option<Arc<str>> {
    let text = reader.text(table, &keys::TABLE)?;
    if text.split('.').any(str::is_empty) {
        let message = "a table is TABLE or SCHEMA.TABLE, without quotes";
        reader.problem(table.place(&keys::TABLE), table.key(&keys::TABLE), message);
    }
    Some(text)
}

fn read_comment(reader: &mut Reader, table: &Table) -> Option<Arc<str>> {
    let text = reader.text(table, &keys::COMMENT)?;
    if text.trim().is_empty() || text.contains("*/") || text.starts_with("/*") {
        let message = "a comment is what stands between /* and */";
        reader.problem(table.place(&keys::COMMENT), table.key(&keys::COMMENT), message);
    }
    Some(text.trim().into())
}

fn read_regex(reader: &mut Reader, table: &Table, setting: &'static Setting, bytes: &mut usize) -> Option<Arc<str>> {
    let pattern = reader.text(table, setting)?;
    match patterns::check(&pattern) {
        Ok(takes) => *bytes += takes,
        Err(why) => {
            let message = format!("{} is no regular expression that can be used: {why}", quote(&pattern));
            reader.problem(table.place(setting), table.key(setting), message);
        }
    }
    Some(pattern)
}

fn read_route(reader: &mut Reader, table: &Table) -> Option<RuleRoute> {
    let text = reader.text(table, &keys::ROUTE)?;
    let route = RuleRoute::parse(&text);
    if route.is_none() {
        let near = crate::suggest::nearest(&text, RuleRoute::WORDS.into_iter());
        let hint = near.map(|near| format!("did you mean {}?", quote(near)));
        let allowed = RuleRoute::WORDS.map(quote).join(", ") + ", \"server:NAME\"";
        let message = format!("{} is no route", quote(&text));
        reader.problem_with(table.place(&keys::ROUTE), table.key(&keys::ROUTE), message, Some(allowed), hint);
    }
    route
}

/// The matchers of the rules above, each with the name of the first rule that has them: for the log, and for all other actions.
#[derive(Default)]
struct Seen {
    log: HashMap<Matchers, Arc<str>>,
    others: HashMap<Matchers, Arc<str>>,
}

impl Seen {
    fn add(&mut self, rule: &Rule) {
        let note = |seen: &mut HashMap<Matchers, Arc<str>>| {
            seen.entry(rule.matchers.clone()).or_insert_with(|| rule.name.clone());
        };
        if rule.log.is_some() {
            note(&mut self.log);
        }
        if rule.decides_more_than_log() {
            note(&mut self.others);
        }
    }

    /// The earlier rule with such matchers, if it leaves nothing to decide for this one.
    fn earlier(&self, rule: &Rule, matchers: &Matchers) -> Option<&Arc<str>> {
        let log = self.log.get(matchers);
        let others = self.others.get(matchers);
        match (rule.log.is_some(), rule.decides_more_than_log()) {
            (true, true) => log.and(others),
            (true, false) => log,
            (false, _) => others,
        }
    }
}

/// A rule whose matchers an earlier one has, too, is never asked: with all of them it is a mistake, with some of them
/// perhaps a measure for the time being.
fn check_reachable(reader: &mut Reader, table: &Table, rule: &Rule, seen: &Seen) {
    if let Some(earlier) = seen.earlier(rule, &rule.matchers) {
        let message = format!("the rule never decides: rule {} above it has the same matchers", quote(earlier));
        return reader.problem(table.place(&keys::NAME), table.path(), message);
    }
    let given = rule.matchers.given();
    // Every choice of some of them, counted down within the bits that are set.
    let mut some = given;
    while some != 0 {
        some = (some - 1) & given;
        if some != 0
            && let Some(earlier) = seen.earlier(rule, &rule.matchers.only(some))
        {
            let message = format!("the rule never decides: rule {} above it takes all that fits it", quote(earlier));
            return reader.warn(table.place(&keys::NAME), table.path(), message);
        }
    }
}
