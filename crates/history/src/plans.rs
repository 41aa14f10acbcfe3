//! Plans of digests, as servers explained them: the one that a digest has, and those that it had before.

use rusqlite::{Connection, OptionalExtension, params};

use crate::record::DigestKey;
use crate::{History, HistoryError, file};

/// Plans that are kept of each digest: the newest.
const PLANS_OF_DIGEST_MAX: u32 = 4;
/// Plans that are kept of all digests: those that were seen last.
const PLANS_MAX: u32 = 2_000;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS plans (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL, user TEXT NOT NULL, schema TEXT NOT NULL, cluster TEXT NOT NULL,
    hash TEXT NOT NULL, server TEXT NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, plan TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS plans_by_digest ON plans (digest, user, schema, id);
";

/// A plan that a server has explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPlan {
    /// The digest.
    pub key: DigestKey,
    /// The cluster.
    pub cluster: String,
    /// The server.
    pub server: String,
    /// The hash of what makes it another plan.
    pub hash: String,
    /// The plan, as JSON. It has no literals.
    pub plan: String,
}

/// A plan of a digest, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPlan {
    /// Its hash.
    pub hash: String,
    /// The cluster.
    pub cluster: String,
    /// The server that explained it last.
    pub server: String,
    /// When it was seen first, in seconds since 1970.
    pub first_s: u64,
    /// When it was seen last.
    pub last_s: u64,
    /// The plan, as JSON.
    pub plan: String,
}

/// The plan of a digest at a moment, and since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// The plan before, if another one was seen then.
    pub before: Option<KeptPlan>,
    /// The plan since.
    pub after: KeptPlan,
    /// Whether it is another plan than before; `None` if none was seen before.
    pub changed: Option<bool>,
}

/// Keeps a plan that was seen now. The same plan as last time is one.
pub(crate) fn keep(connection: &Connection, now_s: u64, seen: &SeenPlan) -> rusqlite::Result<()> {
    let SeenPlan { key: (digest, user, schema), cluster, server, hash, plan } = seen;
    let newest = "SELECT id, hash FROM plans WHERE digest = ? AND user = ? AND schema = ? AND cluster = ? \
                  ORDER BY id DESC LIMIT 1";
    let of_digest = params![digest, user, schema, cluster];
    let newest: Option<(i64, String)> =
        connection.query_row(newest, of_digest, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((id, _)) = newest.filter(|(_, known)| known == hash) {
        connection.execute("UPDATE plans SET last_at = ?, server = ? WHERE id = ?", params![now_s, server, id])?;
        return Ok(());
    }
    connection.execute(
        "INSERT INTO plans (digest, user, schema, cluster, hash, server, first_at, last_at, plan) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![digest, user, schema, cluster, hash, server, now_s, now_s, plan],
    )?;
    connection.execute(
        "DELETE FROM plans WHERE digest = ? AND user = ? AND schema = ? AND cluster = ? AND id NOT IN \
         (SELECT id FROM plans WHERE digest = ? AND user = ? AND schema = ? AND cluster = ? ORDER BY id DESC LIMIT ?)",
        params![digest, user, schema, cluster, digest, user, schema, cluster, PLANS_OF_DIGEST_MAX],
    )?;
    connection.execute(
        // By a clock that was ahead, a plan would be the newest for long.
        "DELETE FROM plans WHERE id NOT IN (SELECT id FROM plans ORDER BY last_at > ?, last_at DESC, id DESC LIMIT ?)",
        params![now_s, PLANS_MAX],
    )?;
    Ok(())
}

/// The plan of a digest since a moment, if it was seen since. Of several clusters it is the one whose plan is another one than
/// before, or else the one that was explained last.
pub(crate) fn change(connection: &Connection, key: &DigestKey, since_s: u64) -> rusqlite::Result<Option<PlanChange>> {
    let mut statement = connection.prepare_cached(
        "SELECT hash, cluster, server, first_at, last_at, plan FROM plans WHERE digest = ? AND user = ? AND schema = ? \
         ORDER BY id DESC",
    )?;
    let rows = statement.query_map(params![key.0, key.1, key.2], |row| {
        Ok(KeptPlan {
            hash: row.get(0)?,
            cluster: row.get(1)?,
            server: row.get(2)?,
            first_s: row.get(3)?,
            last_s: row.get(4)?,
            plan: row.get(5)?,
        })
    })?;
    let mut clusters: Vec<Vec<KeptPlan>> = Vec::new();
    for plan in rows {
        let plan = plan?;
        match clusters.iter_mut().find(|of| of.first().is_some_and(|newest| newest.cluster == plan.cluster)) {
            Some(of) => of.push(plan),
            None => clusters.push(vec![plan]),
        }
    }
    let changes = clusters.into_iter().filter_map(|of| change_in_cluster(of.into_iter(), since_s));
    Ok(changes.max_by_key(|change| (change.changed == Some(true), change.after.last_s)))
}

/// The same of one cluster, whose plans are the newest first.
fn change_in_cluster(mut plans: impl Iterator<Item = KeptPlan>, since_s: u64) -> Option<PlanChange> {
    // The second of the moment itself belongs to the time before: a plan that was seen then says nothing of the time since.
    let after = plans.next().filter(|newest| newest.last_s > since_s)?;
    if after.first_s <= since_s {
        return Some(PlanChange { before: None, after, changed: Some(false) });
    }
    let before = plans.next();
    let changed = before.is_some().then_some(true);
    Some(PlanChange { before, after, changed })
}

impl History {
    /// When the plan of each digest was seen last on a cluster, in seconds since 1970.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn plan_times(&self, cluster: &str) -> Result<Vec<(DigestKey, u64)>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let mut times = connection.prepare(
            "SELECT digest, user, schema, max(last_at) FROM plans WHERE cluster = ? GROUP BY digest, user, schema",
        )?;
        let rows = times.query_map([cluster], |row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;

    fn seen(digest: &str, hash: &str) -> SeenPlan {
        SeenPlan {
            key: (digest.to_owned(), "app".to_owned(), "shop".to_owned()),
            cluster: "main".to_owned(),
            server: "db2".to_owned(),
            hash: hash.to_owned(),
            plan: "{}".to_owned(),
        }
    }

    #[test]
    fn a_plan_is_another_one_by_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (recorder, _) = open(&path, u64::MAX).unwrap();
        let of = |since_s| change(&file::open_to_read(&path).unwrap(), &seen("a", "").key, since_s).unwrap();
        assert_eq!(of(0), None);
        recorder.plan(100, &seen("a", "one")).unwrap();
        recorder.plan(110, &seen("a", "one")).unwrap();
        recorder.plan(105, &seen("b", "two")).unwrap();
        // Since a moment before it was first seen nothing can be said.
        assert_eq!(of(90).unwrap().changed, None);
        let same = of(105).unwrap();
        assert_eq!((same.changed, same.before, same.after.first_s, same.after.last_s), (Some(false), None, 100, 110));
        assert_eq!((of(110), of(111)), (None, None), "it was not seen since");
        assert_eq!(of(100).unwrap().changed, Some(false));
        recorder.plan(120, &seen("a", "two")).unwrap();
        let other = of(115).unwrap();
        assert_eq!((other.changed, &*other.before.unwrap().hash, &*other.after.hash), (Some(true), "one", "two"));
        assert_eq!(of(121), None);
        recorder.plan(130, &seen("a", "two")).unwrap();
        assert_eq!(of(125).unwrap().changed, Some(false), "it is the usual one by now");
        let mut times = History::of(&path).plan_times("main").unwrap();
        times.sort();
        assert_eq!(times, [(seen("a", "").key, 130), (seen("b", "").key, 105)]);
        assert_eq!(History::of(&path).plan_times("other").unwrap(), []);
        // The same plan again is a change as well.
        recorder.plan(140, &seen("a", "one")).unwrap();
        assert_eq!(of(135).unwrap().before.unwrap().hash, "two");
    }

    #[test]
    fn plans_have_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (recorder, _) = open(&path, u64::MAX).unwrap();
        (0..20).for_each(|number| recorder.plan(number, &seen("a", &number.to_string())).unwrap());
        let count = |text: &str| {
            let connection = file::open_to_read(&path).unwrap();
            connection.query_row(text, [], |row| row.get::<_, u32>(0)).unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM plans"), PLANS_OF_DIGEST_MAX);
        assert_eq!(count("SELECT min(first_at) FROM plans"), 20 - PLANS_OF_DIGEST_MAX);
        (0..u64::from(PLANS_MAX))
            .for_each(|number| recorder.plan(100 + number, &seen(&number.to_string(), "x")).unwrap());
        assert_eq!((count("SELECT count(*) FROM plans"), count("SELECT min(first_at) FROM plans")), (PLANS_MAX, 100));
    }

    /// A clock that was ahead for a while: its plans are the newest for long, and go first.
    #[test]
    fn plans_of_a_wrong_time_stop_no_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (recorder, _) = open(&path, u64::MAX).unwrap();
        let year = 365 * 24 * 3600;
        (0..u64::from(PLANS_MAX)).for_each(|number| {
            recorder.plan(year + number, &seen(&format!("{number}"), "one")).unwrap();
        });
        (0..10).for_each(|number| recorder.plan(1_000 + number, &seen(&format!("right{number}"), "one")).unwrap());
        let connection = file::open_to_read(&path).unwrap();
        let count = |text: &str| connection.query_row(text, [], |row| row.get::<_, u32>(0)).unwrap();
        let right = count("SELECT count(*) FROM plans WHERE digest LIKE 'right%'");
        assert_eq!((right, count("SELECT count(*) FROM plans")), (10, PLANS_MAX));
    }

    #[test]
    fn plans_of_another_cluster_are_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (recorder, _) = open(&path, u64::MAX).unwrap();
        let of = |since_s| change(&file::open_to_read(&path).unwrap(), &seen("a", "").key, since_s).unwrap().unwrap();
        let on = |cluster: &str, hash: &str| SeenPlan { cluster: cluster.to_owned(), ..seen("a", hash) };
        for at_s in [100, 110] {
            recorder.plan(at_s, &on("main", "one")).unwrap();
            recorder.plan(at_s + 1, &on("other", "two")).unwrap();
        }
        let same = of(105);
        assert_eq!((same.changed, &*same.after.cluster), (Some(false), "other"), "the last one");
        recorder.plan(120, &on("main", "three")).unwrap();
        recorder.plan(121, &on("other", "two")).unwrap();
        let other = of(115);
        assert_eq!((other.changed, &*other.after.cluster, &*other.before.unwrap().hash), (Some(true), "main", "one"));
    }
}
