//! Changes that are logged and that sessions do not see yet: nobody is told that they do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::changes::{ChangeMessage, ChangeScope};
use lab::{Family, Replication, ReplicationOptions};

use super::changes::{Heard, more};
use super::{SOON, families};
use crate::watch::Watch;

/// How long a commit waits for a replica that never confirms it.
const STALL: Duration = Duration::from_secs(5);

/// How many changes were told before the first one of this table and with it, and how many were told to be visible.
fn reported_and_visible(reported: &[ChangeMessage], table: &str) -> (Option<usize>, usize) {
    let (mut changes, mut of_table, mut visible) = (0, None, 0);
    for reported in reported {
        match reported {
            ChangeMessage::Change(change) => {
                changes += 1;
                let names = |what: &ChangeScope| matches!(what, ChangeScope::Tables(tables) if tables.iter().any(|one| &*one.table == table));
                of_table = of_table.or_else(|| names(&change.what).then_some(changes));
            }
            ChangeMessage::Visible(more) => visible += more,
            ChangeMessage::CaughtUp { .. } => {}
            // Changes that were not visible are told again.
            ChangeMessage::Lost { .. } => (changes, of_table, visible) = (0, None, 0),
        }
    }
    (of_table, visible)
}

#[test]
fn a_change_that_waits_for_a_replica_is_reported_but_not_called_visible() {
    for family in families() {
        let init_sql = "CREATE TABLE app.a (id INT PRIMARY KEY); CREATE TABLE app.b (id INT PRIMARY KEY)".to_owned();
        let servers =
            Replication::start(ReplicationOptions { init_sql, ..ReplicationOptions::new(family, 0) }).unwrap();
        let primary = servers.primary();
        let watch = Watch::start(&servers, &more());
        watch.until("there is a primary", SOON, |view| view.primary.is_some());
        let heard = Arc::new(Heard::default());
        watch.link.published.follow_changes(heard.clone());
        heard.until_now(0);
        let stall = STALL.as_millis();
        let stalled = match family {
            Family::MariaDb => format!(
                "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; SET GLOBAL rpl_semi_sync_master_timeout = {stall}; \
                 SET GLOBAL rpl_semi_sync_master_enabled = ON"
            ),
            Family::MySql => format!(
                "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; \
                 SET GLOBAL rpl_semi_sync_source_timeout = {stall}; SET GLOBAL rpl_semi_sync_source_enabled = ON"
            ),
        };
        primary.sql(&stalled).unwrap();
        let count = |table: &str| primary.sql(&format!("SELECT COUNT(*) FROM app.{table}")).unwrap().trim().to_owned();
        std::thread::scope(|scope| {
            scope.spawn(|| primary.sql("INSERT INTO app.a VALUES (1)").unwrap());
            let reported = |table: &str| reported_and_visible(&heard.all(), table);
            let deadline = Instant::now() + SOON;
            while reported("a").0.is_none() {
                assert!(Instant::now() < deadline, "{:?}", heard.all());
                std::thread::sleep(Duration::from_millis(2));
            }
            let (needs, visible) = reported("a");
            assert_eq!(count("a"), "0", "{family:?}: the test comes too late");
            assert!(needs.is_some_and(|needs| visible < needs), "{family:?}: nobody sees it");
            // The log goes on in another file meanwhile. MySQL lets that wait.
            if family == Family::MariaDb {
                primary.sql("FLUSH BINARY LOGS").unwrap();
            }
            scope.spawn(|| primary.sql("INSERT INTO app.b VALUES (1)").unwrap());
            for table in ["a", "b"] {
                loop {
                    let (needs, visible) = reported(table);
                    if needs.is_some_and(|needs| visible >= needs) {
                        break;
                    }
                    assert!(Instant::now() < deadline, "{table}: {:?}", heard.all());
                    std::thread::sleep(Duration::from_millis(2));
                }
                assert_eq!(count(table), "1", "{family:?}: {table} was called visible");
            }
        });
        let reported = heard.until_now(0);
        let lost = reported.iter().filter(|reported| matches!(reported, ChangeMessage::Lost { .. })).count();
        assert_eq!(lost, 0, "{reported:?}");
    }
}
