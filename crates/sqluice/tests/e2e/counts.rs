//! ROW_COUNT() and FOUND_ROWS() in code that a statement runs, on one connection for two sessions: the counts are those of the
//! session that asks, not those of its neighbour.

use lab::Family;
use net::query::Client;

use crate::locks::{narrow, within};
use crate::support::{Front, all, blocking, families, value};

/// A neighbour changes 7 rows and finds 6.
const SETUP: &str = "CREATE TABLE r (n INT); INSERT INTO r VALUES (1), (2), (3), (4), (5), (6), (7);
    CREATE TABLE few (n INT); INSERT INTO few VALUES (1), (2), (3);
    CREATE TABLE ids (id INT AUTO_INCREMENT PRIMARY KEY); CREATE TABLE t (n INT, counts TEXT); CREATE TABLE u (n INT, counts TEXT);
    INSERT INTO u VALUES (0, ''); CREATE TABLE onto_t (n INT);
    CREATE FUNCTION counts() RETURNS TEXT READS SQL DATA RETURN CONCAT(ROW_COUNT(), ' ', FOUND_ROWS());
    CREATE FUNCTION deeper() RETURNS TEXT READS SQL DATA RETURN counts();
    CREATE PROCEDURE counting() SELECT CONCAT(ROW_COUNT(), ' ', FOUND_ROWS());
    CREATE PROCEDURE calling() SELECT deeper();
    CREATE TRIGGER t_before BEFORE INSERT ON t FOR EACH ROW SET NEW.counts = CONCAT(ROW_COUNT(), ' ', FOUND_ROWS());
    CREATE TRIGGER u_before BEFORE UPDATE ON u FOR EACH ROW SET NEW.counts = deeper();
    CREATE TRIGGER onto_t_before BEFORE INSERT ON onto_t FOR EACH ROW INSERT INTO u VALUES (NEW.n, counts());
    CREATE VIEW plain AS SELECT CONCAT(ROW_COUNT(), ' ', FOUND_ROWS()) AS counts;
    CREATE VIEW called AS SELECT deeper() AS counts; CREATE VIEW twice AS SELECT counts FROM called;
    CREATE VIEW into_t AS SELECT n FROM t;
DELIMITER //
    CREATE PROCEDURE by_diagnostics() BEGIN
        DECLARE c INT;
        GET DIAGNOSTICS c = ROW_COUNT;
        SELECT CONCAT(c, ' ', FOUND_ROWS());
    END//
DELIMITER ;\n";

/// Statements behind which the counts are these; MySQL's connections cannot be given a larger ROW_COUNT() than 0.
const STATES: [(&str, &str, &str); 4] = [
    ("SELECT n FROM r LIMIT 5", "-1 5", "-1 5"),
    ("SELECT n FROM r LIMIT 5; COMMIT", "0 5", "0 5"),
    ("SELECT n FROM r LIMIT 0; INSERT INTO few VALUES (1), (2), (3)", "3 0", "0 0"),
    ("SELECT n FROM r LIMIT 2; DELETE FROM few LIMIT 2", "2 2", "0 2"),
];

/// Statements that give the counts.
const READS: [&str; 8] = [
    "SELECT counts()",
    "SELECT deeper()",
    "CALL counting()",
    "CALL calling()",
    "CALL by_diagnostics()",
    "SELECT counts FROM plain",
    "SELECT counts FROM called",
    "SELECT counts FROM twice",
];

/// The same of MariaDB alone.
const READS_OF_MARIADB: [&str; 4] = [
    "EXECUTE IMMEDIATE 'SELECT CONCAT(ROW_COUNT(), '' '', FOUND_ROWS())'",
    "EXECUTE IMMEDIATE CONCAT('CALL ', 'counting()')",
    "BEGIN NOT ATOMIC SELECT CONCAT(ROW_COUNT(), ' ', FOUND_ROWS()); END",
    "SET STATEMENT max_statement_time = 9 FOR SELECT counts()",
];

/// Statements that write them, and where.
const WRITES: [(&str, &str); 6] = [
    ("INSERT INTO t (n) VALUES (1)", "SELECT MAX(counts) FROM t"),
    ("INSERT INTO t (n) SELECT n FROM r LIMIT 3", "SELECT MAX(counts) FROM t"),
    ("INSERT INTO into_t VALUES (1)", "SELECT MAX(counts) FROM t"),
    ("UPDATE u SET n = n + 1", "SELECT counts FROM u WHERE n = 1"),
    ("INSERT INTO onto_t VALUES (1)", "SELECT counts FROM u WHERE n = 1"),
    ("INSERT INTO t (n) VALUES (LENGTH(deeper()))", "SELECT MAX(counts) FROM t"),
];

async fn run_each(client: &mut Client, texts: &str) {
    for text in texts.split("; ") {
        all(client, text).await;
    }
}

async fn is_disturbed(neighbour: &mut Client) {
    run_each(neighbour, "UPDATE r SET n = n + 1; UPDATE r SET n = n - 1; SELECT n FROM r LIMIT 6; DELETE FROM t").await;
    run_each(neighbour, "DELETE FROM u; INSERT INTO u VALUES (0, ''); UPDATE r SET n = n + 10").await;
    run_each(neighbour, "INSERT INTO ids VALUES (NULL); SELECT n FROM r LIMIT 6; UPDATE r SET n = n - 10").await;
}

/// The tables and code of a test, which the monitor may read.
fn setup(database: &str) -> String {
    format!("{SETUP}GRANT SELECT, TRIGGER, SHOW VIEW ON {database}.* TO {}@'%';", lab::MONITOR_USER)
}

/// The value of the first result, by a statement that is prepared for it if `binary`.
async fn first(client: &mut Client, sql: &str, binary: bool) -> String {
    let results = if binary {
        let statement = client.prepare(sql).await.unwrap();
        client.execute(&statement, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    } else {
        all(client, sql).await
    };
    results[0].scalar().unwrap().into_owned()
}

fn states(family: Family) -> impl Iterator<Item = (&'static str, &'static str)> {
    STATES.into_iter().map(move |(texts, of_mariadb, of_mysql)| match family {
        Family::MariaDb => (texts, of_mariadb),
        _ => (texts, of_mysql),
    })
}

#[tokio::test]
async fn code_that_is_called_finds_the_counts_of_its_session() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_counts", &setup("e2e_counts")).await;
        let mut two = within(&front, "e2e_counts").await;
        let more: &'static [&str] = if family == Family::MariaDb { &READS_OF_MARIADB } else { &[] };
        for (texts, counts) in states(family) {
            // No server prepares those that run a text.
            let texts_only = |read: &str| read.starts_with("BEGIN") || read.starts_with("EXECUTE");
            let all = READS.iter().chain(more).flat_map(|read| [(read, false), (read, true)]);
            for (read, binary) in all.filter(|(read, binary)| !binary || !texts_only(read)) {
                let mut one = within(&front, "e2e_counts").await;
                run_each(&mut one, texts).await;
                is_disturbed(&mut two).await;
                let found = first(&mut one, read, binary).await;
                // A CALL may have pinned it.
                one.quit().await.unwrap();
                front.is_pinned_by(&[]).await;
                assert_eq!(found, counts, "{family:?}, behind {texts}: {read}, {binary}");
            }
        }
    }
}

/// A connection on which a statement was only prepared has the counts of whoever ran the last one there.
#[tokio::test]
async fn code_finds_the_counts_of_its_session_where_it_was_prepared() {
    for family in families() {
        let servers = crate::parity::lone(family).await;
        let database = "e2e_prepared_counts";
        let setup = setup(database);
        let script =
            format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database};\n{setup}");
        blocking(move || servers.primary().sql(&script).unwrap()).await;
        // It begins with a catalog that has the views.
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1".into();
            setup.pool = "max_connections_per_server = 1".into();
        })
        .await;
        let mut two = within(&front, database).await;
        for (texts, counts) in states(family) {
            for read in ["SELECT counts FROM called", "SELECT counts FROM twice"] {
                let mut one = within(&front, database).await;
                run_each(&mut one, texts).await;
                is_disturbed(&mut two).await;
                assert_eq!(first(&mut one, read, true).await, counts, "{family:?}, behind {texts}: {read}");
            }
        }
    }
}

#[tokio::test]
async fn triggers_find_the_counts_of_their_session() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_trigger_counts", &setup("e2e_trigger_counts")).await;
        let mut two = within(&front, "e2e_trigger_counts").await;
        for (texts, counts) in states(family) {
            for (write, read) in WRITES {
                let mut one = within(&front, "e2e_trigger_counts").await;
                run_each(&mut one, texts).await;
                is_disturbed(&mut two).await;
                all(&mut one, write).await;
                assert_eq!(value(&mut one, read).await, counts, "{family:?}, behind {texts}: {write}");
                one.quit().await.unwrap();
                front.is_pinned_by(&[]).await;
            }
        }
    }
}

/// Nothing that Sqluice sends ahead of a statement shows in the counts of a session that keeps its connection.
#[tokio::test]
async fn a_session_that_keeps_its_connection_finds_its_counts_there() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_kept_counts", &setup("e2e_kept_counts")).await;
        let mut two = within(&front, "e2e_kept_counts").await;
        let prepare = "PREPARE s FROM 'SELECT CONCAT(ROW_COUNT(), '' '', FOUND_ROWS())'";
        let mut kept = vec![(prepare, "EXECUTE s"), ("BEGIN", "CALL counting()")];
        if family == Family::MariaDb {
            kept.push(("SET autocommit = 0; SELECT n FROM few", READS_OF_MARIADB[0]));
        }
        for (texts, of_mariadb, of_mysql) in STATES {
            for (keep, read) in &kept {
                is_disturbed(&mut two).await;
                let mut one = within(&front, "e2e_kept_counts").await;
                run_each(&mut one, keep).await;
                run_each(&mut one, texts).await;
                let found = first(&mut one, read, false).await;
                // The session's LAST_INSERT_ID() may have to go ahead of a CALL.
                let is_given = family != Family::MariaDb && read.starts_with("CALL") && found == of_mysql;
                assert!(found == of_mariadb || is_given, "{family:?}, {keep}, behind {texts}: {read}: {found}");
                one.quit().await.unwrap();
                front.is_pinned_by(&[]).await;
            }
        }
    }
}

/// A view or a function that has just been made anew is asked like those that are known.
#[tokio::test]
async fn code_of_now_finds_the_counts_of_its_session() {
    for family in families() {
        let sql = "CREATE TABLE r (n INT); INSERT INTO r VALUES (1), (2), (3), (4), (5), (6), (7);
            CREATE FUNCTION late() RETURNS TEXT READS SQL DATA RETURN 'none';
            CREATE VIEW seen AS SELECT 'none' AS counts;";
        let (front, _) = narrow(family, "e2e_late_counts", sql).await;
        let (mut one, mut two) = (within(&front, "e2e_late_counts").await, within(&front, "e2e_late_counts").await);
        // MySQL cannot replace a function, and one that is not known pins.
        let replaces = family == Family::MariaDb;
        let reads = [if replaces { "SELECT late()" } else { "SELECT counts FROM seen" }, "SELECT counts FROM seen"];
        let prepared = [one.prepare(reads[0]).await.unwrap(), one.prepare(reads[1]).await.unwrap()];
        for round in 0..40 {
            for body in ["'none'", "CONCAT(ROW_COUNT(), ' ', FOUND_ROWS())"].iter().filter(|_| round % 4 == 0) {
                all(&mut one, &format!("CREATE OR REPLACE VIEW seen AS SELECT {body} AS counts")).await;
                let function = format!("CREATE OR REPLACE FUNCTION late() RETURNS TEXT READS SQL DATA RETURN {body}");
                run_each(&mut one, if replaces { &function } else { "COMMIT" }).await;
            }
            run_each(&mut one, "SELECT n FROM r LIMIT 5; COMMIT").await;
            run_each(&mut two, "UPDATE r SET n = n + 1; SELECT n FROM r LIMIT 6; UPDATE r SET n = n + 1").await;
            let results = match round % 4 {
                0 | 1 => all(&mut one, reads[round % 2]).await,
                _ => one.execute(&prepared[round % 2], &[]).await.unwrap(),
            };
            assert_eq!(results[0].scalar().unwrap(), "0 5", "{family:?}, round {round}");
        }
    }
}

/// Reads on a pipeline are several sessions' at once: none of them is the last one there.
#[tokio::test]
async fn code_finds_no_counts_of_others_behind_a_pipeline() {
    for family in families() {
        let servers = crate::parity::lone(family).await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1".into();
            setup.pool = "max_connections_per_server = 1".into();
            setup.listener = "pipelines = \"always\"".into();
        })
        .await;
        let mut one = front.client().await;
        all(&mut one, "DROP DATABASE IF EXISTS e2e_piped").await;
        all(&mut one, "CREATE DATABASE e2e_piped").await;
        let mut one = within(&front, "e2e_piped").await;
        run_each(&mut one, "CREATE TABLE r (n INT); INSERT INTO r VALUES (1), (2), (3), (4), (5), (6)").await;
        all(&mut one, "CREATE FUNCTION how_many() RETURNS INT READS SQL DATA RETURN FOUND_ROWS()").await;
        let mut two = within(&front, "e2e_piped").await;
        for _ in 0..3 {
            all(&mut one, "SELECT n FROM r LIMIT 3").await;
            all(&mut two, "SELECT n FROM r LIMIT 5").await;
            assert_eq!(value(&mut one, "SELECT how_many()").await, "3", "{family:?}");
            all(&mut one, "SELECT n FROM r LIMIT 3").await;
            all(&mut two, "SELECT n FROM r LIMIT 5").await;
            all(&mut one, "SELECT n FROM r LIMIT 2").await;
            all(&mut two, "SELECT n FROM r LIMIT 4").await;
            assert_eq!(value(&mut one, "SELECT how_many()").await, "2", "{family:?}");
        }
        let shared = front.metrics().await.sum("sqluice_pipelined_reads_total", &[]);
        assert!(shared >= 18.0, "{family:?}: {shared} reads were on a pipeline");
    }
}
