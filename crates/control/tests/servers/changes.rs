//! The stream of changes, compared with what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use facts::changes::{ChangeListener, ChangeMessage, ChangeScope, KeyPart, TableChange};
use lab::{Family, Replication, ReplicationOptions};

use super::{SOON, families, settled};
use crate::watch::Watch;

/// Keeps what it hears.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<ChangeMessage>>);

impl ChangeListener for Heard {
    fn receive(&self, message: ChangeMessage) {
        self.all().push(message);
    }
}

impl Heard {
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<ChangeMessage>> {
        self.0.lock().unwrap()
    }

    /// Waits until all that was committed by now has been told, and gives what was told from `from` on.
    pub(crate) fn until_now(&self, from: usize) -> Vec<ChangeMessage> {
        let now = Instant::now();
        let deadline = now + SOON;
        loop {
            let reported = self.all();
            let caught_up =
                |reported: &ChangeMessage| matches!(reported, ChangeMessage::CaughtUp { as_of } if *as_of >= now);
            if reported.iter().any(caught_up) {
                return reported[from..].to_vec();
            }
            assert!(Instant::now() < deadline, "not caught up: {:?}", &reported[reported.len().saturating_sub(5)..]);
            drop(reported);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Heard {
    /// Waits until the monitor has made its schema and writes into it.
    fn until_heartbeats(&self) {
        let deadline = Instant::now() + SOON;
        let is_heartbeat = |reported: &ChangeMessage| match reported {
            ChangeMessage::Change(change) => matches!(&change.what, ChangeScope::Tables(tables)
                if tables.iter().any(|table| &*table.table == "heartbeat" && !table.defined)),
            _ => false,
        };
        while !self.all().iter().any(is_heartbeat) {
            assert!(Instant::now() < deadline, "no heartbeat was told: {:?}", self.all());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn start(family: Family) -> Replication {
    let mut config = vec!["binlog_row_metadata=FULL".to_owned()];
    if family == Family::MariaDb {
        config.push("log_bin_compress=ON".into());
    }
    Replication::start(ReplicationOptions { config, ..ReplicationOptions::new(family, 2) }).unwrap()
}

pub(crate) fn more() -> String {
    format!("replication = {{ user = \"{}\", password = \"{}\" }}", lab::REPL_USER, lab::REPL_PASSWORD)
}

/// The changes of transactions, but for the monitor's heartbeats: `table`, `table=keys`, `table!` when it was defined.
fn words(reported: &[ChangeMessage]) -> Vec<String> {
    let table = |change: &TableChange| {
        let part = |part: &KeyPart| match part {
            KeyPart::Integer(number) => number.to_string(),
            KeyPart::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        let key = |key: &Vec<KeyPart>| key.iter().map(part).collect::<Vec<_>>().join("/");
        let keys = change.keys.as_ref().map(|keys| format!("={}", keys.iter().map(key).collect::<Vec<_>>().join(",")));
        let (table, defined) = (&change.table, if change.defined { "!" } else { "" });
        format!("{table}{}{defined}", keys.unwrap_or_default())
    };
    let changes = reported.iter().filter_map(|reported| match reported {
        ChangeMessage::Change(change) => Some(&change.what),
        ChangeMessage::Visible(_) | ChangeMessage::CaughtUp { .. } | ChangeMessage::Lost { .. } => None,
    });
    let one = |what: &ChangeScope| match what {
        ChangeScope::Everything(_) => Some("everything".to_owned()),
        ChangeScope::Tables(tables) => {
            let ours: Vec<String> = tables.iter().filter(|table| &*table.schema == "app").map(table).collect();
            (!ours.is_empty()).then(|| ours.join(" "))
        }
    };
    changes.filter_map(one).collect()
}

/// Checks a family's statements against the changes that its log tells.
fn check(cluster: &Replication, heard: &Heard, cases: &[(&str, &[&str])]) {
    for (sql, expected) in cases {
        let from = heard.all().len();
        cluster.primary().sql(&format!("USE app; {sql}")).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(words(&heard.until_now(from)), *expected, "{sql}");
    }
}

#[test]
fn changes_are_reported_by_table_and_key() {
    for family in families() {
        let cluster = start(family);
        let watch = Watch::start(&cluster, &more());
        watch.until("all is well", SOON, settled);
        let heard = Arc::new(Heard::default());
        watch.link.published.follow_changes(heard.clone());
        let reported = heard.until_now(0);
        assert_eq!(words(&reported).first().map(String::as_str), Some("everything"), "{reported:?}");
        heard.until_heartbeats();
        check(
            &cluster,
            &heard,
            &[
                ("CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v TEXT)", &["t!"]),
                ("INSERT INTO t VALUES (4000000000, 'a'), (2, NULL)", &["t=2,4000000000"]),
                ("UPDATE t SET v = 'b' WHERE id = 2", &["t=2"]),
                ("UPDATE t SET id = 3 WHERE id = 2", &["t=2,3"]),
                ("DELETE FROM t WHERE id = 3", &["t=3"]),
                ("INSERT INTO t VALUES (5, REPEAT('long ', 1000))", &["t=5"]),
                ("BEGIN; INSERT INTO t VALUES (6, ''); UPDATE t SET v = 'c' WHERE id = 5; COMMIT", &["t=5,6"]),
                ("BEGIN; INSERT INTO t VALUES (7, ''); ROLLBACK", &[]),
                ("SET SESSION binlog_row_image = 'MINIMAL'; UPDATE t SET v = 'd' WHERE id = 5", &["t=5"]),
                ("SET SESSION binlog_row_image = 'MINIMAL'; UPDATE t SET id = 8 WHERE id = 5", &["t=5,8"]),
                // Values of all kinds in front of the key.
                (
                    "CREATE TABLE k (y YEAR, u TINYINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,7), b BIT(11), \
                     c CHAR(10), w CHAR(200) CHARACTER SET utf8mb4, vc VARCHAR(300), bl LONGBLOB, e ENUM('a','b'), \
                     s SET('x','y'), da DATE, ti TIME(3), dt DATETIME(6), ts TIMESTAMP(2) NULL, j JSON, p POINT, \
                     m MEDIUMINT, x BIGINT, z VARCHAR(20), PRIMARY KEY (z, x))",
                    &["k!"],
                ),
                (
                    "INSERT INTO k VALUES (2026, 200, 1.5, 2.5, 12345.678, b'101', 'c', 'ä', REPEAT('v', 290), REPEAT('b', 70000), \
                     'b', 'x,y', '2026-11-22', '12:00:00.5', '2026-11-22 12:00:00.5', '2026-11-22 12:00:00', '{\"a\": 1}', \
                     POINT(1, 2), -5, -9000000000, 'key')",
                    &["k=key/-9000000000"],
                ),
                ("INSERT INTO k (x, z) VALUES (1, 'b')", &["k=b/1"]),
                ("CREATE TABLE y (y YEAR, s INT, id INT UNSIGNED PRIMARY KEY)", &["y!"]),
                // Behind a YEAR it may not be known whether a number has a sign.
                ("INSERT INTO y VALUES (2026, -1, 4000000000)", &["y"]),
                ("CREATE TABLE nokey (a INT)", &["nokey!"]),
                ("INSERT INTO nokey VALUES (1)", &["nokey"]),
                ("SET SESSION binlog_format = 'STATEMENT'; INSERT INTO t VALUES (20, 'x')", &["t"]),
                ("ALTER TABLE nokey ADD b INT", &["nokey!"]),
                ("RENAME TABLE nokey TO other", &["nokey! other!"]),
                ("TRUNCATE TABLE other", &["other"]),
                ("CREATE VIEW view_of_t AS SELECT * FROM t", &["everything"]),
                ("INSERT INTO t SELECT seq, 'm' FROM (SELECT 30 seq UNION SELECT 31) q", &["t=30,31"]),
            ],
        );
        let from = heard.all().len();
        let sql = "XA START 'a'; INSERT INTO t VALUES (40, 'x'); XA END 'a'; XA PREPARE 'a'; XA COMMIT 'a'";
        cluster.primary().sql(&format!("USE app; {sql}")).unwrap();
        let reported = words(&heard.until_now(from));
        assert!(reported.last().is_some_and(|last| last == "everything"), "{reported:?}");
        if family == Family::MySql {
            let compressed =
                "SET SESSION binlog_transaction_compression = ON; INSERT INTO t VALUES (50, REPEAT('x', 9000))";
            let tagged = "SET SESSION gtid_next = 'AUTOMATIC:tag'; INSERT INTO t VALUES (51, 'x')";
            let json = "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE k SET j = JSON_SET(j, '$.a', 2)";
            let old = "SET GLOBAL binlog_row_metadata = MINIMAL; INSERT INTO t VALUES (52, 'x')";
            check(&cluster, &heard, &[(compressed, &["t=50"]), (tagged, &["t=51"]), (json, &["k"]), (old, &["t"])]);
        } else {
            check(
                &cluster,
                &heard,
                &[("SET GLOBAL binlog_row_metadata = NO_LOG; INSERT INTO t VALUES (52, 'x')", &["t"])],
            );
        }
        let lost = heard.all().iter().filter(|reported| matches!(reported, ChangeMessage::Lost { .. })).count();
        assert_eq!(lost, 0);
        let (_, page) = watch.api("GET", "/clusters/main", "");
        assert!(page["changes"]["tables"].as_u64() > Some(20) && page["changes"]["age_ms"].is_u64(), "{page}");
        let (_, page) = watch.get("/metrics");
        assert!(page.contains("sqluice_changes_age_seconds{cluster=\"main\"} "), "{page}");
    }
}

/// Which keys of `app.f` were told, each with the place of its last telling, and where everything was told to have changed.
fn reported_keys(reported: &[ChangeMessage]) -> (BTreeMap<i128, usize>, Vec<usize>) {
    let (mut keys, mut everything) = (BTreeMap::new(), Vec::new());
    for (place, reported) in reported.iter().enumerate() {
        let ChangeMessage::Change(change) = reported else { continue };
        match &change.what {
            ChangeScope::Everything(_) => everything.push(place),
            ChangeScope::Tables(tables) => {
                for key in tables.iter().filter(|table| &*table.table == "f").filter_map(|table| table.keys.as_ref()) {
                    keys.extend(key.iter().filter_map(|key| match key[..] {
                        [KeyPart::Integer(number)] => Some((number, place)),
                        _ => None,
                    }));
                }
            }
        }
    }
    (keys, everything)
}

#[test]
fn nothing_is_missed_behind_a_switchover_and_a_broken_stream() {
    for family in families() {
        let cluster = start(family);
        let watch = Watch::start(&cluster, &more());
        watch.until("all is well", SOON, settled);
        cluster.primary().sql("CREATE TABLE app.f (id INT PRIMARY KEY)").unwrap();
        let heard = Arc::new(Heard::default());
        watch.link.published.follow_changes(heard.clone());
        heard.until_heartbeats();
        let begun = heard.all().len();
        let mut written = BTreeSet::new();
        let mut write = |server: usize, ids: std::ops::Range<i128>| {
            for id in ids {
                cluster.server(server).sql(&format!("INSERT INTO app.f VALUES ({id})")).unwrap();
                written.insert(id);
            }
        };
        write(0, 0..20);
        // The stream's own connection is cut on the server; what is written meanwhile comes later.
        let dumps = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND user = 'repl'";
        let mine = format!("{dumps} AND id NOT IN (SELECT MIN(id) FROM information_schema.processlist)");
        for id in cluster.server(0).sql(&mine).unwrap().lines() {
            cluster.server(0).sql(&format!("KILL {id}")).unwrap();
        }
        write(0, 20..40);
        let (status, page) = watch.api("PUT", "/clusters/main/switchover", "{\"to\": \"s2\"}");
        assert!((200..300).contains(&status), "{page}");
        watch.until("s2 is primary", SOON, |view| {
            view.primary.and_then(|id| view.server(id)).is_some_and(|server| &*server.name == "s2")
        });
        write(1, 40..60);
        let reported = heard.until_now(begun);
        let (keys, everything) = reported_keys(&reported);
        let missed: Vec<_> = written.iter().filter(|id| !keys.contains_key(id)).collect();
        assert!(missed.is_empty(), "{family:?} missed {missed:?}");
        // It went on where it was.
        assert_eq!(everything, [0_usize; 0], "{reported:?}");
        assert!(reported.iter().any(|reported| matches!(reported, ChangeMessage::Lost { .. })));

        // The new primary dies; whatever the stream says, nothing that is there is missed.
        let before = heard.all().len();
        cluster.server(1).kill9();
        let killed = Instant::now();
        // Refused until a probe has failed.
        let deadline = killed + SOON;
        loop {
            let (status, page) = watch.api("PUT", "/clusters/main/failover", "{\"to\": \"s3\"}");
            if (200..300).contains(&status) {
                break;
            }
            assert!(Instant::now() < deadline, "{page}");
            std::thread::sleep(Duration::from_millis(20));
        }
        watch.until("s3 is primary", SOON, |view| {
            view.primary.and_then(|id| view.server(id)).is_some_and(|server| &*server.name == "s3")
        });
        for id in 60..80 {
            cluster.server(2).sql(&format!("INSERT INTO app.f VALUES ({id})")).unwrap();
        }
        let reported = heard.until_now(before);
        assert!(
            reported.iter().any(|reported| matches!(reported, ChangeMessage::CaughtUp { as_of } if *as_of > killed))
        );
        let (keys, _) = reported_keys(&reported);
        let missed: Vec<i128> = (60..80).filter(|id| !keys.contains_key(id)).collect();
        assert!(missed.is_empty(), "{family:?} missed {missed:?}");
    }
}
