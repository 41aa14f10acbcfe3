//! `/api/v1/cache`: what the result cache keeps and what came of it, and wiping it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use cache::{Answer, Refusal, TableId};
use facts::published::Published;
use facts::tables::TableScope;
use serde_json::{Map, Value, json};
use sql::{TableName, Tables};
use stats::WorkerStats;
use stats::cache::CacheCounts;

use super::clusters::Mistake;
use super::digests::json_page;
use super::query::pairs;
use crate::shared::Shared;
use crate::status::{ClusterStatus, Clusters};

/// GET: its size, and the counts of each rule.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response {
    json_page(&page(&shared))
}

/// DELETE: wipes all, or what `cluster`, `rule`, `digest` and `table` together name. A cluster, rule or table that is not there is a
/// mistake, and wipes nothing.
pub(super) async fn wipe(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Result<Response, Mistake> {
    let filter = WipeFilter::parse(query.as_deref().unwrap_or_default()).map_err(Mistake::request)?;
    filter.must_exist(&shared)?;
    let tables: BTreeMap<Arc<str>, Option<Vec<TableId>>> = match &filter.table {
        Some((schema, name)) => shared
            .clusters()
            .iter()
            .map(|(cluster, status)| (cluster.clone(), ids(status.published(), schema, name)))
            .collect(),
        None => BTreeMap::new(),
    };
    let has_read = |answer: &Answer| match tables.get(answer.cluster()) {
        Some(Some(ids)) => ids.iter().any(|id| answer.may_have_read(*id)),
        // It is not known what the table is, or none is named.
        _ => true,
    };
    // Rules and digests do not distinguish the cached results of the shared cache.
    super::tier::wipe(&shared, filter.cluster.as_deref());
    let removed = shared
        .cache
        .as_ref()
        .map(|cache| cache.store.wipe(|answer| filter.names(answer) && has_read(answer)))
        .unwrap_or_default();
    Ok(json_page(&json!({ "answers": removed.entries, "bytes": removed.bytes })))
}

/// Ids of a table or view, as cached results carry them; `None` while no tables are known. No read used a table that is
/// missing.
fn ids(published: &Published, schema: &str, name: &str) -> Option<Vec<TableId>> {
    let catalog = published.tables.current()?;
    let name = TableName { schema: Some(schema.into()), name: name.into() };
    let named = Ok(Tables { read: vec![name], ..Tables::default() });
    match catalog.read_by(&named, None) {
        TableScope::Tables(keys) => Some(keys.iter().map(|key| TableId::of(key.0)).collect()),
        TableScope::Any => Some(Vec::new()),
    }
}

/// The cached results that a request removes.
#[derive(Debug, Default, PartialEq, Eq)]
struct WipeFilter {
    cluster: Option<String>,
    rule: Option<String>,
    digest: Option<u64>,
    /// Schema and name.
    table: Option<(String, String)>,
}

impl WipeFilter {
    fn parse(query: &str) -> Result<WipeFilter, String> {
        let mut filter = WipeFilter::default();
        for (key, value) in pairs(query) {
            match &*key {
                "cluster" => filter.cluster = Some(value),
                "rule" => filter.rule = Some(value),
                "digest" if value.len() == 16 => {
                    let hash = u64::from_str_radix(&value, 16).map_err(|_| "digest is 16 hexadecimal digits")?;
                    filter.digest = Some(hash);
                }
                "table" => {
                    let named = value.split_once('.').filter(|(schema, name)| !schema.is_empty() && !name.is_empty());
                    let (schema, name) = named.ok_or("table is SCHEMA.NAME")?;
                    filter.table = Some((schema.to_owned(), name.to_owned()));
                }
                "digest" => return Err("digest is 16 hexadecimal digits".to_owned()),
                _ => return Err("there are cluster, rule, digest and table only".to_owned()),
            }
        }
        Ok(filter)
    }

    /// Clusters, rules and tables that are named must be there: a name that is written wrong would wipe nothing, and look as if it had.
    fn must_exist(&self, shared: &Shared) -> Result<(), Mistake> {
        let clusters = shared.clusters();
        if let Some(name) = self.cluster.as_ref().filter(|name| !clusters.contains_key(name.as_str())) {
            let known = clusters.keys().map(|name| name.to_string());
            return Err(Mistake::unknown(format!("there is no cluster {name:?}"), known));
        }
        if let Some(name) = &self.rule {
            let rules = shared.rules();
            // Answers of a rule that a reload took away may be there still.
            let mut known: BTreeSet<Arc<str>> = counts(&shared.workers).into_keys().collect();
            known.extend(rules.iter().filter(|rule| rule.cache.is_some()).map(|rule| rule.name.clone()));
            if !known.contains(name.as_str()) {
                let words = match rules.iter().any(|rule| *rule.name == **name) {
                    true => format!("rule {name:?} keeps no answers"),
                    false => format!("there is no rule {name:?}"),
                };
                return Err(Mistake::unknown(words, known.iter().map(|name| name.to_string())));
            }
        }
        if let Some((schema, table)) = &self.table {
            let mut meant =
                clusters.iter().filter(|(name, _)| self.cluster.as_ref().is_none_or(|one| **one == ***name));
            // While a cluster's tables are being read it may be there. Where nobody wants them read no answer is kept.
            let may_be_there = |status: &dyn ClusterStatus| {
                let tables = &status.published().tables;
                tables.is_watched() && tables.current().is_none_or(|catalog| catalog.contains(schema, table))
            };
            if !meant.any(|(_, status)| may_be_there(&**status)) {
                let words = format!("no cluster whose answers are kept has a table or view {schema}.{table}");
                return Err(Mistake::unknown(words, std::iter::empty()));
            }
        }
        Ok(())
    }

    fn names(&self, answer: &Answer) -> bool {
        self.cluster.as_ref().is_none_or(|name| **name == *answer.cluster())
            && self.rule.as_ref().is_none_or(|name| **name == *answer.rule())
            && self.digest.is_none_or(|digest| digest == answer.summary().digest)
    }
}

fn page(shared: &Shared) -> Value {
    let store = shared.cache.as_ref().map(|cache| &cache.store);
    let size = store.map(|store| store.size()).unwrap_or_default();
    let bounds = store.map(|store| store.bounds());
    let rules: Vec<Value> = counts(&shared.workers).iter().map(|(rule, counts)| of_rule(rule, counts)).collect();
    json!({
        "answers": size.entries,
        "bytes": size.bytes,
        "memory_max": bounds.map(|bounds| bounds.memory_max),
        "entry_max": bounds.map(|bounds| bounds.entry_max),
        "evicted": store.map_or(0, |store| store.evicted()),
        "ends": ends(shared),
        "follow": followed(shared),
        "rights": rights(shared),
        "tier": super::tier::page(shared),
        "rules": rules,
    })
}

/// The writes of each cluster, by what they end.
fn ends(shared: &Shared) -> Value {
    let one = |(name, writes): (Arc<str>, cache::Writes)| {
        let cache::Writes { by_row, by_table, to_any } = writes;
        (name.to_string(), json!({ "by_row": by_row, "by_table": by_table, "all": to_any }))
    };
    Value::Object(shared.cache_writes().into_iter().map(one).collect())
}

/// How old what is answered may be of each cluster whose log is followed.
fn followed(shared: &Shared) -> Value {
    let one = |(name, status): (&Arc<str>, &Arc<dyn ClusterStatus>)| {
        let changes = status.figures().changes?;
        // Rounded up: it is a bound.
        let delay_ms = changes.as_of.map(|as_of| as_of.elapsed().as_micros().div_ceil(1_000) as u64);
        let delay_max_ms = changes.delay_max.map(|max| u64::try_from(max.as_millis()).unwrap_or(u64::MAX));
        let serves = delay_ms.zip(delay_max_ms).is_some_and(|(delay, max)| delay <= max);
        let position = &changes.position;
        let followed =
            json!({ "delay_ms": delay_ms, "delay_max_ms": delay_max_ms, "serves": serves, "position": position });
        Some((name.to_string(), followed))
    };
    Value::Object(shared.clusters().iter().filter_map(one).collect())
}

/// Whether the privileges of users are known, of each cluster where that counts.
fn rights(shared: &Shared) -> Value {
    Value::Object(known_rights(&shared.clusters()).map(|(name, known)| (name.to_string(), known.into())).collect())
}

/// The clusters where users may share cached results if their privileges are known, and whether they are.
pub(crate) fn known_rights(clusters: &Clusters) -> impl Iterator<Item = (&Arc<str>, bool)> {
    clusters.iter().filter_map(|(name, status)| {
        let grants = &status.published().grants;
        grants.is_watched().then(|| (name, grants.current().is_some_and(|grants| grants.is_known())))
    })
}

fn of_rule(rule: &str, counts: &CacheCounts) -> Value {
    let refused: Map<String, Value> = Refusal::WORDS
        .iter()
        .zip(&counts.refused)
        .filter(|(_, count)| count.get() > 0)
        .map(|(word, count)| ((*word).to_owned(), count.get().into()))
        .collect();
    json!({
        "rule": rule,
        "hits": counts.hits.get(),
        "stale": counts.stale.get(),
        "misses": counts.misses.get(),
        "waits": counts.waits.get(),
        "kept": counts.kept.get(),
        "bytes": counts.bytes.get(),
        "saved_us": counts.saved_us.get(),
        "refused": refused,
    })
}

/// The counts of each rule that uses the cache, of all workers together.
pub(crate) fn counts(workers: &[Arc<WorkerStats>]) -> BTreeMap<Arc<str>, CacheCounts> {
    let mut sums: BTreeMap<Arc<str>, CacheCounts> = BTreeMap::new();
    for (rule, counts) in workers.iter().flat_map(|worker| worker.caches.get()) {
        sums.entry(rule).or_insert_with(|| counts.empty()).add(&counts);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Sources;
    use crate::testing::{FixedStatus, OneCluster, config, result_cache, sources};

    #[test]
    fn rules_are_reported_with_the_counts_of_all_workers() {
        let workers: stats::Workers = (0..2).map(|_| Arc::new(WorkerStats::new(&[], &[]))).collect();
        for worker in workers.iter() {
            let counts = worker.caches.of(&"r".into(), Refusal::ALL.len());
            counts.hits.add(3);
            counts.refused[Refusal::Pinned as usize].add_one();
        }
        let shared = Shared::new(&config(""), Sources { cache: Some(result_cache()), ..sources(workers) });
        let page = page(&shared);
        assert_eq!((page["answers"].as_u64(), page["memory_max"].as_u64()), (Some(0), Some(1 << 20)));
        assert_eq!(page["rules"][0]["hits"], 6);
        assert_eq!(page["rules"][0]["refused"], json!({"pinned": 2}));
    }

    #[test]
    fn what_is_not_there_cannot_be_wiped() {
        let workers: stats::Workers = vec![Arc::new(WorkerStats::new(&[], &[]))].into();
        workers[0].caches.of(&"before".into(), Refusal::ALL.len());
        let status = FixedStatus::one(Arc::new(OneCluster::new("main")));
        let shared = Shared::new(&config(""), Sources { status, ..sources(workers) });
        let said = |query: &str| WipeFilter::parse(query).unwrap().must_exist(&shared).err();
        assert!(said("").is_none() && said("cluster=main").is_none());
        assert!(said("rule=before").is_none(), "a rule that was taken away may have left answers");
        for (query, words) in [
            ("cluster=other", "there is no cluster \"other\""),
            ("rule=other", "there is no rule \"other\""),
            ("table=s.t", "has a table or view s.t"),
        ] {
            let mistake = format!("{:?}", said(query).unwrap());
            assert!(mistake.contains("404") && mistake.contains(&words.replace('"', "\\\"")), "{query}: {mistake}");
        }
    }

    #[test]
    fn what_is_to_be_wiped_is_said_by_name() {
        let filter = WipeFilter::parse("rule=r&digest=00000000000000ff").unwrap();
        assert_eq!(filter, WipeFilter { rule: Some("r".into()), digest: Some(255), ..WipeFilter::default() });
        assert_eq!(WipeFilter::parse("table=a%20x.b").unwrap().table, Some(("a x".into(), "b".into())));
        assert_eq!(WipeFilter::parse(""), Ok(WipeFilter::default()));
        for bad in ["table=t", "table=.t", "table=s.", "colour=red", "digest=ff", "digest=zzzzzzzzzzzzzzzz", "x"] {
            assert!(WipeFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
