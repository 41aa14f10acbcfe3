//! Hears what a cluster's log tells of changes, and ends the answers of the result cache that they make stale, whoever wrote.
//!
//! A fill reads where all noted changes are, so a change is noted before the epochs move, as a write through Sqluice is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cache::{Follow, WriteCounters, table_writes};
use facts::changes::{Change, ChangeListener, ChangeMessage, ChangeScope, Gtid, TableChange};
use facts::gtid::WrittenGtids;
use facts::gtid::mariadb::{self, Gtids};
use facts::gtid::mysql::GtidSet;
use facts::tables::{TableScope, WrittenRows};
use facts::view::ServerId;
use tier::Tier;

use crate::shared::ClusterShared;
use crate::shared::Write;

/// Has the logs followed of the clusters for which a rule asks that, and of no others.
pub(crate) fn begin<'a>(
    config: &config::Config,
    clusters: impl Iterator<Item = &'a Arc<ClusterShared>>,
    tier: Option<&Arc<Tier>>,
) {
    let follows = |rule: &config::Rule| {
        let follows = |cache: config::RuleCache| {
            cache.mode != config::CacheMode::Off && cache.freshness == config::CacheFreshness::Follow
        };
        rule.enabled && rule.cache.is_some_and(follows)
    };
    for shared in clusters {
        let Some(cluster) = config.clusters.get(&shared.name) else { continue };
        let wanted = |rule: &config::Rule| rule.matchers.cluster.as_ref().is_none_or(|name| *name == shared.name);
        // In a group others write than the server whose log would be followed.
        let is_wanted = !cluster.kind.is_group() && config.rules.iter().any(|rule| follows(rule) && wanted(rule));
        if !is_wanted {
            if shared.follow.swap(None).is_some() {
                shared.published.unfollow_changes();
            }
            continue;
        }
        if shared.follow.load().is_some() {
            continue;
        }
        // A new one each time: whoever listened before may still hear something, and it means nothing to this one. Changes that were missed
        // meanwhile come as a change of everything when the stream begins.
        let follow = Arc::new(Follow::new(Instant::now(), config.cache.follow_delay_max));
        shared.published.watch_tables();
        shared.published.follow_changes(Arc::new(Listener {
            cluster: Arc::downgrade(shared),
            follow: follow.clone(),
            delay_max: config.cache.follow_delay_max,
            tier: tier.cloned(),
            heartbeats: cluster.monitor.heartbeat_schema.clone(),
            hidden: Mutex::default(),
        }));
        shared.follow.store(Some(follow));
    }
}

/// The schema of grants.
const GRANTS: &str = "mysql";

/// Hears one cluster's changes.
#[derive(Debug)]
struct Listener {
    cluster: Weak<ClusterShared>,
    follow: Arc<Follow>,
    /// How far the log may be behind for answers to be given.
    delay_max: Duration,
    /// Where answers are shared with other processes, which may not follow, or not so fast.
    tier: Option<Arc<Tier>>,
    /// The schema that the monitor writes to all the time.
    heartbeats: Arc<str>,
    /// Changes that are not visible yet, the oldest first.
    hidden: Mutex<VecDeque<Hidden>>,
}

/// The work that is due when a change is visible.
#[derive(Clone, Debug)]
struct Hidden {
    /// It has no name by which replicas could be asked for it.
    unnamed: bool,
    /// It may have changed what names mean.
    defines: bool,
    /// It may have changed what users may read.
    grants: bool,
    /// The tables that it has changed.
    scope: TableScope,
}

impl ChangeListener for Listener {
    fn receive(&self, message: ChangeMessage) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        match message {
            ChangeMessage::Change(change) => self.changed(&cluster, &change),
            ChangeMessage::Visible(changes) => self.visible(&cluster, changes),
            ChangeMessage::CaughtUp { as_of } => self.follow.caught_up(as_of),
            ChangeMessage::Lost { .. } => {
                self.follow.lost();
                self.hidden().clear();
            }
        }
    }

    fn delay_max(&self) -> Option<Duration> {
        Some(self.delay_max)
    }
}

impl Listener {
    fn changed(&self, cluster: &ClusterShared, change: &Change) {
        let (written, defines) = match &change.what {
            ChangeScope::Everything(_) => (WrittenRows::all(TableScope::Any), true),
            ChangeScope::Tables(tables) => {
                let catalog = cluster.published.tables.current();
                let of = |table: &TableChange| match &catalog {
                    // A new definition may give the table another key.
                    Some(catalog) if table.defined => WrittenRows::all(catalog.changed(&table.schema, &table.table)),
                    Some(catalog) => catalog.changed_rows(&table.schema, &table.table, table.keys.as_ref()),
                    None => WrittenRows::all(TableScope::Any),
                };
                let written =
                    tables.iter().fold(WrittenRows::all(TableScope::nothing()), |all, table| of(table).and(&all));
                (written, tables.iter().any(|table| table.defined))
            }
        };
        let is_heartbeat = match &change.what {
            ChangeScope::Tables(tables) => !defines && tables.iter().all(|table| *table.schema == *self.heartbeats),
            ChangeScope::Everything(_) => false,
        };
        // Nothing depends on it, whether or not it is known.
        let is_nothing = is_heartbeat && written.tables == TableScope::Any;
        let written = if is_nothing { WrittenRows::all(TableScope::nothing()) } else { written };
        let scope = &written.tables;
        // A statement about users is one that is not understood.
        let grants = match &change.what {
            ChangeScope::Everything(_) => true,
            ChangeScope::Tables(tables) => tables.iter().any(|table| table.schema.eq_ignore_ascii_case(GRANTS)),
        };
        if defines {
            cluster.published.tables_changed();
        }
        if grants {
            cluster.published.rights_changed();
        }
        let position = position(change.gtid);
        self.hidden().push_back(Hidden { unnamed: position.is_none(), defines, grants, scope: scope.clone() });
        // Else replicas would be behind twice a second, for a table that no client reads.
        if let Some(position) = position.filter(|_| !is_heartbeat) {
            cluster.writes.note(&Write::Reported(position), scope);
        }
        self.note_in_tier(cluster, scope, defines);
        self.follow.changed(cluster.epochs.get_or_init(WriteCounters::default), table_writes(&written));
    }

    fn visible(&self, cluster: &ClusterShared, changes: usize) {
        let now: Vec<Hidden> = {
            let mut hidden = self.hidden();
            let changes = changes.min(hidden.len());
            hidden.drain(..changes).collect()
        };
        // Results that were read since the report may still lack the change.
        now.iter().for_each(|change| self.note_in_tier(cluster, &change.scope, change.defines));
        if now.iter().any(|change| change.defines) {
            cluster.published.tables_changed();
        }
        // Privileges that were read in between may lack it.
        if now.iter().any(|change| change.grants) {
            cluster.published.rights_changed();
        }
        if now.iter().any(|change| change.unnamed) {
            let primary = cluster.published.view.load().primary.unwrap_or(ServerId::NONE);
            cluster.writes.note(&Write::Unreported(primary, Instant::now()), &TableScope::Any);
        }
        self.follow.visible(changes);
    }

    /// Ends what any process has read of this. Behind it this one asks the tier for nothing older.
    fn note_in_tier(&self, cluster: &ClusterShared, scope: &TableScope, defines: bool) {
        let Some(tier) = &self.tier else { return };
        match scope {
            _ if defines => tier.note(&cluster.name, tier::TierWrite::Definition),
            TableScope::Any => tier.note(&cluster.name, tier::TierWrite::Anything),
            TableScope::Tables(keys) if keys.is_empty() => {}
            TableScope::Tables(keys) => {
                let tables: Vec<u64> = keys.iter().map(|key| key.0).collect();
                tier.note(&cluster.name, tier::TierWrite::Tables(&tables));
            }
        }
    }

    fn hidden(&self) -> MutexGuard<'_, VecDeque<Hidden>> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position that a replica must have applied to show a change.
fn position(gtid: Gtid) -> Option<WrittenGtids> {
    match gtid {
        Gtid::MySql(source, number) => {
            let mut set = GtidSet::default();
            set.add_one(u128::from_be_bytes(source), number);
            Some(WrittenGtids::MySql(set))
        }
        Gtid::MariaDb(domain, server, sequence) => {
            let mut gtids = Gtids::default();
            gtids.passed(mariadb::Gtid { domain, server, sequence });
            Some(WrittenGtids::MariaDb(gtids))
        }
        Gtid::Unknown => None,
    }
}
