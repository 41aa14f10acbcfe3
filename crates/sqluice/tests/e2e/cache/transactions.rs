//! The cache in transactions: asked where each statement sees what is committed by then, and nothing was written or locked.

use net::query::Parameter;
use wire::Status;

use super::*;

const RULE: &str = "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000";
const NEWEST: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
const FLAGS: Status = Status::IN_TRANSACTION.union(Status::AUTOCOMMIT);

/// The value that a read gives, and whether the cache gave it.
async fn read(front: &Front, client: &mut Client, sql: &str) -> (String, bool) {
    let before = hits(front, "all").await;
    let value = value(client, sql).await;
    (value, hits(front, "all").await > before)
}

/// Keeps the answer to a read, and gives the number in it.
async fn keep(front: &Front, client: &mut Client, sql: &str) -> String {
    until("an answer that is kept", async || {
        let (value, is_hit) = read(front, client, sql).await;
        is_hit.then_some(value)
    })
    .await
}

fn said(value: &str, is_hit: bool) -> (String, bool) {
    (value.to_owned(), is_hit)
}

#[tokio::test]
async fn transactions_that_see_what_is_committed_are_answered_until_they_write() {
    for family in families() {
        let table = "cache_in_transaction";
        let front = start(family, table, &rule("all", RULE)).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        all(&mut one, NEWEST).await;
        all(&mut two, NEWEST).await;
        let first = &*format!("SELECT n FROM {table} WHERE id = 1");
        let second = &*format!("SELECT n FROM {table} WHERE id = 2");
        assert_eq!(keep(&front, &mut two, first).await, "10");

        // A result of the transaction's own read on a server is kept for all, and has their flags.
        all(&mut one, "BEGIN").await;
        assert_eq!(read(&front, &mut one, first).await, said("10", true));
        assert_eq!(one.status() & FLAGS, FLAGS);
        assert_eq!(read(&front, &mut one, second).await, said("20", false));
        assert_eq!(read(&front, &mut two, second).await, said("20", true));
        assert_eq!(two.status() & FLAGS, Status::AUTOCOMMIT);
        let answer = all(&mut one, second).await.remove(0);
        assert_eq!(answer.status & FLAGS, FLAGS);

        // A commit of another session is seen at once.
        all(&mut two, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
        assert_eq!(read(&front, &mut one, first).await, said("11", false));
        assert_eq!(read(&front, &mut one, first).await, said("11", true));

        // The state for the next statement is the same as after a server's reply.
        let rows = &*format!("SELECT id FROM {table} ORDER BY id LIMIT 2");
        keep(&front, &mut two, rows).await;
        all(&mut one, "SELECT CAST('x' AS SIGNED)").await;
        assert!(is_hit(&front, &mut one, rows).await, "{}", of_rule(&front, "all").await);
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "2");
        all(&mut one, "SAVEPOINT here").await;
        assert!(is_hit(&front, &mut one, rows).await, "{}", of_rule(&front, "all").await);
        assert_eq!(value(&mut one, "SELECT ROW_COUNT()").await, "-1");
        all(&mut one, "SELECT CAST('x' AS SIGNED)").await;
        assert!(is_hit(&front, &mut one, rows).await, "{}", of_rule(&front, "all").await);
        assert_eq!(all(&mut one, "SHOW WARNINGS").await[0].rows.len(), 0);
        let statement = one.prepare(&format!("SELECT n FROM {table} WHERE id = ?")).await.unwrap();
        let before = hits(&front, "all").await;
        for _ in 0..2 {
            let answer = one.execute(&statement, &[Parameter::Int(3)]).await.unwrap().remove(0);
            assert_eq!(answer.scalar().unwrap(), "30");
            assert_eq!(answer.status & FLAGS, FLAGS);
        }
        assert_eq!(hits(&front, "all").await, before + 1);

        // Its own write, and all behind it, are for servers.
        keep(&front, &mut two, first).await;
        keep(&front, &mut two, second).await;
        all(&mut one, &format!("UPDATE {table} SET n = 12 WHERE id = 1")).await;
        let before = refused(&front, "all", "pinned").await;
        assert_eq!(read(&front, &mut one, first).await, said("12", false));
        assert_eq!(read(&front, &mut one, second).await, said("20", false));
        assert_eq!(refused(&front, "all", "pinned").await, before + 2);
        assert_eq!(read(&front, &mut two, second).await, said("20", true));
        assert_eq!(read(&front, &mut two, first).await, said("11", true));
        all(&mut one, "COMMIT AND CHAIN").await;
        assert_eq!(keep(&front, &mut one, first).await, "12");
        assert_eq!(read(&front, &mut two, first).await, said("12", true));

        // So are those behind a lock.
        all(&mut one, "COMMIT").await;
        keep(&front, &mut one, first).await;
        all(&mut one, "BEGIN").await;
        all(&mut one, &format!("SELECT n FROM {table} WHERE id = 3 FOR UPDATE")).await;
        assert_eq!(read(&front, &mut one, first).await, said("12", false));
        all(&mut one, "ROLLBACK").await;
        assert_eq!(read(&front, &mut one, first).await, said("12", true));
        assert_eq!(one.status() & FLAGS, Status::AUTOCOMMIT);
    }
}

#[tokio::test]
async fn who_sees_what_is_not_committed_or_its_last_id_asks_servers() {
    for family in families() {
        let table = "cache_uncommitted";
        let front = start(family, table, &rule("all", RULE)).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        let read = &*format!("SELECT n FROM {table} WHERE id = 1");
        keep(&front, &mut two, read).await;
        let variable = if family == Family::MariaDb { "tx_isolation" } else { "transaction_isolation" };
        for (set, unset, reason) in [
            ("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED".to_owned(), NEWEST.to_owned(), "uncommitted"),
            (
                format!("SET {variable} = 'READ-UNCOMMITTED'"),
                format!("SET {variable} = 'READ-COMMITTED'"),
                "uncommitted",
            ),
            ("SET sql_auto_is_null = 1".into(), "SET sql_auto_is_null = 0".into(), "session"),
        ] {
            all(&mut one, &set).await;
            let before = refused(&front, "all", reason).await;
            for _ in 0..3 {
                assert!(!is_hit(&front, &mut one, read).await, "{set}");
            }
            assert_eq!(refused(&front, "all", reason).await, before + 3, "{set}");
            all(&mut one, &unset).await;
            keep(&front, &mut one, read).await;
            assert!(is_hit(&front, &mut two, read).await, "{unset}");
        }
    }
}

#[tokio::test]
async fn a_snapshot_is_left_to_servers() {
    for family in families() {
        let table = "cache_snapshot";
        let front = start(family, table, &rule("all", RULE)).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        let sql = &*format!("SELECT n FROM {table} WHERE id = 1");
        keep(&front, &mut one, sql).await;
        let word = if family == Family::MariaDb { "tx_isolation" } else { "transaction_isolation" };
        for (set, begin, is_hit) in [
            ("DO 1", "BEGIN", false),
            ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", true),
            // That was for one transaction.
            ("DO 1", "START TRANSACTION", false),
            (&*format!("SET @@{word} = 'READ-COMMITTED'"), "START TRANSACTION READ WRITE", true),
            ("DO 1", "BEGIN", false),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", false),
            ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION WITH CONSISTENT SNAPSHOT", false),
        ] {
            all(&mut one, set).await;
            all(&mut one, begin).await;
            let before = refused(&front, "all", "snapshot").await;
            let (seen, was_hit) = read(&front, &mut one, sql).await;
            assert_eq!(was_hit, is_hit, "{set}; {begin}: {}", of_rule(&front, "all").await);
            assert_eq!(refused(&front, "all", "snapshot").await, before + u64::from(!is_hit));
            // The transaction reads the same again, unless it wants to see committed changes. SERIALIZABLE keeps others
            // from writing it.
            if !set.contains("SERIALIZABLE") {
                all(&mut two, &format!("UPDATE {table} SET n = n + 1 WHERE id = 1")).await;
                let again = value(&mut one, sql).await;
                assert_eq!(again == seen, !set.contains("COMMITTED"), "{set}; {begin}");
            }
            all(&mut one, "COMMIT").await;
            keep(&front, &mut one, sql).await;
        }
        // A level that is set in between is the next transaction's.
        all(&mut one, "BEGIN").await;
        let seen = value(&mut one, sql).await;
        all(&mut one, NEWEST).await;
        all(&mut two, &format!("UPDATE {table} SET n = n + 1 WHERE id = 1")).await;
        assert_eq!(read(&front, &mut one, sql).await, (seen, false));
        all(&mut one, "COMMIT").await;
        keep(&front, &mut one, sql).await;
        all(&mut one, "BEGIN").await;
        assert!(read(&front, &mut one, sql).await.1);
    }
}

#[tokio::test]
async fn without_autocommit_a_read_of_the_cache_opens_nothing() {
    for family in families() {
        let table = "cache_autocommit";
        let front = start(family, table, &rule("all", RULE)).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        let sql = &*format!("SELECT n FROM {table} WHERE id = 1");
        all(&mut two, NEWEST).await;
        keep(&front, &mut two, sql).await;
        all(&mut one, "SET autocommit = 0").await;
        assert!(!read(&front, &mut one, sql).await.1);
        all(&mut one, "COMMIT").await;
        assert!(refused(&front, "all", "autocommit_off").await > 0);
        all(&mut one, NEWEST).await;
        assert_eq!(read(&front, &mut one, sql).await, said("10", true));
        assert_eq!(one.status() & FLAGS, Status::empty());
        front.is_pinned_by(&[]).await;
        // A server's answer opens one, and is kept for those without.
        let other = &*format!("SELECT n FROM {table} WHERE id = 2");
        assert_eq!(read(&front, &mut one, other).await, said("20", false));
        assert_eq!(one.status() & FLAGS, Status::IN_TRANSACTION);
        assert_eq!(read(&front, &mut one, sql).await, said("10", true));
        assert_eq!(one.status() & FLAGS, Status::IN_TRANSACTION);
        assert_eq!(read(&front, &mut two, other).await, said("20", true));
        assert_eq!(two.status() & FLAGS, Status::AUTOCOMMIT);
        all(&mut two, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
        assert_eq!(value(&mut one, sql).await, "11");
        all(&mut one, &format!("UPDATE {table} SET n = 12 WHERE id = 1")).await;
        assert_eq!(read(&front, &mut one, sql).await, said("12", false));
        all(&mut one, "COMMIT").await;
        assert_eq!(value(&mut two, sql).await, "12");
    }
}

#[tokio::test]
async fn on_a_replica_a_transaction_goes_by_that_replica() {
    for family in families() {
        let table = "cache_on_replica";
        let front = start(family, table, &rule("all", RULE)).await;
        front.knows(2).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        all(&mut one, NEWEST).await;
        all(&mut two, NEWEST).await;
        let sql = &*format!("SELECT n FROM {table} WHERE id = 1");
        // A reply of the primary may be newer than the transaction's next read.
        let from_primary = async |client: &mut Client, n: &str| {
            all(client, "BEGIN").await;
            assert_eq!(keep(&front, client, sql).await, n);
            all(client, "COMMIT").await;
        };
        from_primary(&mut two, "10").await;
        all(&mut one, "START TRANSACTION READ ONLY").await;
        let before = refused(&front, "all", "behind").await;
        assert_eq!(read(&front, &mut one, sql).await, said("10", false));
        assert_eq!(refused(&front, "all", "behind").await, before + 1);
        // A reply of its own is good, as long as nobody writes.
        all(&mut two, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
        until("the replica's own answer", async || {
            let (n, is_hit) = read(&front, &mut one, sql).await;
            (n == "11" && is_hit).then_some(())
        })
        .await;
        let status = one.status();
        assert!(status.contains(Status::IN_TRANSACTION), "{status:?}");
        assert_eq!(
            status.contains(Status::IN_READ_ONLY_TRANSACTION),
            all(&mut one, "SELECT 1").await[0].status.contains(Status::IN_READ_ONLY_TRANSACTION)
        );
        all(&mut one, "COMMIT").await;
    }
}

/// With MariaDB alone, as without a transaction.
#[tokio::test]
async fn sql_calc_found_rows_in_a_transaction() {
    let table = "cache_found_in";
    let front = start(Family::MariaDb, table, &rule("all", RULE)).await;
    let mut one = front.client().await;
    all(&mut one, NEWEST).await;
    let sql = &*format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} ORDER BY id LIMIT 1");
    all(&mut one, "BEGIN").await;
    for hit in [false, true, true] {
        assert_eq!(read(&front, &mut one, sql).await, said("1", hit));
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "3");
    }
    all(&mut one, "COMMIT").await;
    assert_eq!(read(&front, &mut one, sql).await, said("1", true));
}
