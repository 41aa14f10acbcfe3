//! Looks at the plans of the digests that changed, and of the heaviest ones, if the operator wants that: one EXPLAIN on a replica at a
//! time, so that a regression can be told from another plan.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use history::{DigestKey, Limits, Range, RegressionKind, Regressions};
use stats::digests::{DigestRow, Order, merge_by_cluster};

use crate::digests::ask_digests;
use crate::explain::{Explain, KeptPlan};
use crate::shared::Shared;

/// The moment that digests are compared at is so long ago, unless there is a newer mark.
const SINCE_S: u64 = 3600;
/// The bounds of the API without parameters.
const LIMITS: Limits = Limits { factor: 3.0, samples: 20, limit: 20 };
/// A digest that changed is explained again after so long.
const AGAIN_S: u64 = 600;
/// Heaviest digests whose plans are known before they change, and how old these may be.
const USUAL_MAX: usize = 20;
const USUAL_S: u64 = 24 * 3600;
/// A digest that could not be explained is tried again after so long.
const FAILED_S: u64 = 1800;
/// Digests whose last tries are remembered.
const TRIED_MAX: usize = 1_000;

/// Explains digests, one of each cluster in `every`, until the process ends.
pub(crate) async fn run(shared: Arc<Shared>, every: Duration) {
    let mut watch = Watch { shared, tried: HashMap::new(), trouble: HashMap::new() };
    loop {
        tokio::time::sleep(every).await;
        let clusters: Vec<Arc<str>> = watch.shared.clusters().keys().cloned().collect();
        watch.trouble.retain(|cluster, _| clusters.contains(cluster));
        for cluster in clusters {
            let looked = watch.look(&cluster, now_s()).await;
            watch.report(cluster, looked);
        }
    }
}

struct Watch {
    shared: Arc<Shared>,
    /// When digests of clusters were tried last.
    tried: HashMap<(Arc<str>, DigestKey), u64>,
    /// The words of the last failure of each cluster.
    trouble: HashMap<Arc<str>, String>,
}

impl Watch {
    /// Has a replica of a cluster explain one of its digests; gives whether there was one.
    async fn look(&mut self, cluster: &Arc<str>, now_s: u64) -> Result<bool, String> {
        let shared = self.shared.clone();
        let (Some(keeper), Some(explainer)) = (shared.history.get(), &shared.explainer) else { return Ok(false) };
        let grown = keeper.grown().await?;
        let history = keeper.history();
        let name = cluster.clone();
        let read = move || {
            let hour_ago_s = now_s.saturating_sub(SINCE_S);
            let marks = history.marks(Range { from_s: hour_ago_s, until_s: now_s + 1 }, 1)?;
            let since_s = marks.first().map_or(hour_ago_s, |mark| mark.at_s);
            Ok((history.regressions(since_s, &grown, LIMITS)?, history.plan_times(&name)?))
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
        let (found, seen) = read.map_err(|error: history::HistoryError| error.to_string())?;
        let seen: HashMap<DigestKey, u64> = seen.into_iter().collect();
        let mut report = merge_by_cluster(ask_digests(&*shared.digests, false).await, Order::Time);
        report.rows.retain(|row| row.name.cluster == *cluster);
        let tried = |key: &DigestKey| self.tried.get(&(cluster.clone(), key.clone())).copied();
        let chosen = choose(&found, &report.rows, &seen, tried, now_s);
        let Some((row, sample)) = chosen.and_then(|row| Some((row, row.sample.clone()?))) else { return Ok(false) };
        if self.tried.len() >= TRIED_MAX {
            self.tried.clear();
        }
        self.tried.insert((cluster.clone(), key_of(row)), now_s);
        let (user, schema) = (row.name.user.to_string(), row.name.schema.to_string());
        let wanted = Explain { cluster: cluster.to_string(), server: None, schema: schema.clone(), sample };
        let plan = explainer.explain(wanted).await?;
        let digest = (row.name.hash, user, schema);
        shared.keep_plan(KeptPlan { digest, cluster: cluster.to_string(), at: SystemTime::now(), plan });
        Ok(true)
    }

    /// Writes into the log that a cluster cannot explain, or can again; nothing if it is as it was.
    fn report(&mut self, cluster: Arc<str>, looked: Result<bool, String>) {
        match looked {
            Ok(true) if self.trouble.remove(&cluster).is_some() => {
                tracing::info!(cluster = &*cluster, "plans of digests are explained again");
            }
            Ok(_) => {}
            Err(words) => {
                if self.trouble.get(&cluster) != Some(&words) {
                    tracing::warn!(cluster = &*cluster, reason = words, "the plan of a digest could not be looked at");
                    self.trouble.insert(cluster, words);
                }
            }
        }
    }
}

/// The digest to explain next: one that has changed and whose plan was not seen since, or else a heavy one whose plan is not known.
fn choose<'r>(
    found: &Regressions,
    rows: &'r [DigestRow],
    seen: &HashMap<DigestKey, u64>,
    tried: impl Fn(&DigestKey) -> Option<u64>,
    now_s: u64,
) -> Option<&'r DigestRow> {
    let may_try = |key: &DigestKey| {
        let failed = |tried: &u64| seen.get(key).is_none_or(|seen| seen < tried);
        tried(key).filter(|tried| failed(tried)).is_none_or(|tried| tried + FAILED_S <= now_s)
    };
    let is_due = |key: &DigestKey, since_s: u64, again_s: u64| {
        seen.get(key).is_none_or(|seen| *seen <= since_s || seen + again_s <= now_s)
    };
    let sampled = |key: &DigestKey| rows.iter().find(|row| row.sample.is_some() && key_of(row) == *key);
    let slower = found.digests.iter().filter(|digest| {
        let only_errors = digest.kinds.iter().all(|(kind, _)| *kind == RegressionKind::Errors);
        !only_errors && may_try(&digest.key) && is_due(&digest.key, found.after.0, AGAIN_S)
    });
    let usual = rows.iter().take(USUAL_MAX).filter(|row| {
        let key = key_of(row);
        row.sample.is_some() && may_try(&key) && is_due(&key, 0, USUAL_S)
    });
    slower.filter_map(|digest| sampled(&digest.key)).chain(usual).next()
}

fn key_of(row: &DigestRow) -> DigestKey {
    (format!("{:016x}", row.name.hash), row.name.user.to_string(), row.name.schema.to_string())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use history::{Change, Compared};
    use stats::digests::{CachedFigures, DigestFigures, DigestName, Sample};

    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn row(hash: u64, sampled: bool) -> DigestRow {
        let name = DigestName {
            hash,
            text: "SELECT ?".into(),
            user: "app".into(),
            schema: "shop".into(),
            cluster: "main".into(),
        };
        DigestRow {
            name: Arc::new(name),
            other_clusters: Vec::new(),
            figures: DigestFigures::default(),
            cached: CachedFigures::default(),
            questions: None,
            spread: Box::default(),
            first_seen: UNIX_EPOCH,
            last_seen: UNIX_EPOCH,
            sample: sampled.then(|| Sample(b"SELECT 1"[..].into())),
        }
    }

    fn key(hash: u64) -> DigestKey {
        key_of(&row(hash, true))
    }

    fn changed(hash: u64, kind: RegressionKind) -> Compared {
        Compared {
            key: key(hash),
            text: String::new(),
            kinds: vec![(kind, Some(4.0))],
            before: None,
            after: Change::default(),
            extra_us: 0,
            plan: None,
        }
    }

    #[test]
    fn changed_digests_come_before_heavy_ones_and_each_has_its_pace() {
        let rows = [row(1, true), row(2, true), row(3, false), row(4, true)];
        let digests = vec![
            changed(3, RegressionKind::Slower),
            changed(4, RegressionKind::Errors),
            changed(2, RegressionKind::Slower),
        ];
        let found = Regressions { after: (NOW_S - 300, NOW_S), digests, ..Regressions::default() };
        let chosen = |seen: &[(u64, u64)], tried: &[(u64, u64)]| {
            let map = |of: &[(u64, u64)]| -> HashMap<DigestKey, u64> {
                of.iter().map(|(hash, ago_s)| (key(*hash), NOW_S - ago_s)).collect()
            };
            let tried = map(tried);
            choose(&found, &rows, &map(seen), |key| tried.get(key).copied(), NOW_S).map(|row| row.name.hash)
        };
        assert_eq!(chosen(&[], &[]), Some(2), "one without a sample cannot be explained, and errors are no plan");
        assert_eq!(chosen(&[(2, 400)], &[]), Some(2), "it was seen before it changed");
        assert_eq!(chosen(&[(2, 200)], &[]), Some(1), "it was seen since; others are heavy");
        assert_eq!(chosen(&[(2, 200), (1, 50)], &[]), Some(4));
        assert_eq!(chosen(&[(2, 200), (1, 50), (4, 50)], &[]), None);
        assert_eq!(chosen(&[(2, 200), (1, USUAL_S), (4, 50)], &[]), Some(1), "a plan grows old");
        assert_eq!(chosen(&[(2, 400)], &[(2, 100)]), Some(1), "the last try failed");
        assert_eq!(chosen(&[(2, 400)], &[(2, 400)]), Some(2), "the last try did not");
        assert_eq!(chosen(&[], &[(2, FAILED_S)]), Some(2), "it failed long ago");
    }
}
