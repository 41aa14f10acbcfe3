//! The statements that the cache answers, and those that it leaves to servers.

use lab::Family;

use super::*;

async fn check_answers(family: Family, table: &str) {
    let front = start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    assert_eq!(value(&mut one, &read).await, "10");
    assert!(is_hit(&front, &mut one, &read).await);
    assert!(is_hit(&front, &mut two, &read).await, "sessions of one user share answers");
    assert_eq!(value(&mut two, &read).await, "10");

    // A write by anybody ends it, before the writer hears of its write.
    all(&mut two, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    assert_eq!(value(&mut one, &read).await, "11");
    assert_eq!(value(&mut two, &read).await, "11");
    assert!(is_hit(&front, &mut two, &read).await);

    // In a transaction servers answer, and nobody sees it before it is committed.
    all(&mut two, "BEGIN").await;
    all(&mut two, &format!("UPDATE {table} SET n = 12 WHERE id = 1")).await;
    assert_eq!(value(&mut two, &read).await, "12");
    assert!(is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &read).await, "11");
    all(&mut two, "COMMIT").await;
    assert_eq!(value(&mut one, &read).await, "12");
    assert!(refused(&front, "all", "pinned").await > 0);

    // A definition, too.
    until_hit(&front, &mut one, &read).await;
    all(&mut two, &format!("ALTER TABLE {table} ADD COLUMN more INT DEFAULT 5")).await;
    assert!(!is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &format!("SELECT more FROM {table} WHERE id = 1")).await, "5");
    until_hit(&front, &mut one, &read).await;

    // The state for the next statement is the same as after a server's reply.
    let rows = format!("SELECT id FROM {table} ORDER BY id LIMIT 2");
    for _ in 0..2 {
        all(&mut one, "SELECT CAST('x' AS SIGNED)").await;
        all(&mut one, &rows).await;
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "2");
        all(&mut one, &format!("UPDATE {table} SET n = n WHERE id = 0")).await;
        all(&mut one, &rows).await;
        assert!(is_hit(&front, &mut one, &rows).await);
        assert_eq!(value(&mut one, "SELECT ROW_COUNT()").await, "-1");
        all(&mut one, &rows).await;
        assert_eq!(all(&mut one, "SHOW WARNINGS").await[0].rows.len(), 0);
    }
}

#[tokio::test]
async fn answers_are_given_until_something_is_written() {
    for family in families() {
        check_answers(family, "cache_answers").await;
    }
}

#[tokio::test]
async fn what_may_not_be_kept_is_answered_by_servers_and_counted() {
    for family in families() {
        let table = "cache_refused";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
        let mut client = front.client().await;
        let known = hits(&front, "all").await;
        for (sql, reason) in [
            (format!("SELECT NOW(6), n FROM {table}"), "volatile_function"),
            (format!("SELECT RAND() FROM {table}"), "volatile_function"),
            (format!("SELECT n FROM {table} FOR UPDATE"), "locks"),
            (format!("SELECT SQL_NO_CACHE n FROM {table}"), "asked"),
            (format!("/* sqluice: primary */ SELECT n FROM {table}"), "hint"),
            ("SELECT 1".to_owned(), "no_table"),
            ("SELECT COUNT(*) FROM information_schema.tables".to_owned(), "server_tables"),
            (format!("SELECT CAST('x' AS SIGNED), n FROM {table}"), "warnings"),
            (format!("SELECT nothing FROM {table}"), "failed"),
        ] {
            let before = refused(&front, "all", reason).await;
            for _ in 0..2 {
                // Whether it fails is the server's affair.
                let _ = client.query(&sql).await;
            }
            // A client has its answer a moment before that is counted.
            until(&sql, async || (refused(&front, "all", reason).await >= before + 2).then_some(())).await;
        }
        assert_eq!(hits(&front, "all").await, known);
        // A session with a user variable asks, one with autocommit off does not.
        all(&mut client, "SET autocommit = 0").await;
        value(&mut client, &format!("SELECT n FROM {table} WHERE id = 1")).await;
        let counts = of_rule(&front, "all").await["refused"].clone();
        assert!(counts["autocommit_off"].as_u64() > Some(0) || counts["pinned"].as_u64() > Some(0), "{counts}");
    }
}

#[tokio::test]
async fn replies_beyond_the_bound_stream_and_are_not_kept() {
    for family in families() {
        let table = "cache_large";
        let front = start(
            family,
            table,
            &format!(
                "[cache]\nentry_max = \"4KiB\"\n{}",
                rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")
            ),
        )
        .await;
        let mut client = front.client().await;
        let large = format!("SELECT REPEAT('x', 100000) FROM {table}");
        for _ in 0..3 {
            assert_eq!(all(&mut client, &large).await[0].rows.len(), 3);
        }
        assert!(refused(&front, "all", "too_large").await >= 3);
        assert!(!is_hit(&front, &mut client, &large).await);
        assert!(page(&front).await["bytes"].as_u64().unwrap() < 4096, "only that it is too large is remembered");
    }
}

/// With MariaDB alone: MySQL warns that this is deprecated, and what came with warnings is not kept.
#[tokio::test]
async fn found_rows_are_kept_with_their_answer() {
    let table = "cache_found";
    let front =
        start(Family::MariaDb, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    let read = format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} ORDER BY id LIMIT 1");
    for (client, hit) in [(&mut one, false), (&mut two, true)] {
        assert_eq!(is_hit(&front, client, &read).await, hit);
        assert_eq!(value(client, "SELECT FOUND_ROWS()").await, "3");
        assert_eq!(value(client, "SELECT FOUND_ROWS()").await, "1", "the rows of the question before");
    }
    // The connection went back: a session that kept it would not ask the cache.
    assert!(is_hit(&front, &mut one, &read).await);
    assert!(is_hit(&front, &mut one, &read).await);

    all(&mut two, &format!("INSERT INTO {table} VALUES (4, 40)")).await;
    for _ in 0..2 {
        assert_eq!(value(&mut one, &read).await, "1");
        assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "4");
    }
    // Others are asked for, and no answer stands in between.
    assert!(is_hit(&front, &mut one, &read).await);
    assert_eq!(value(&mut one, &format!("SELECT COUNT(*) FROM {table}")).await, "4");
    assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, "1");
    // Without a row of its own, and with a union.
    for (read, found) in [
        (format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} LIMIT 1 OFFSET 100"), "4"),
        (format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} UNION ALL SELECT n FROM {table} LIMIT 2"), "8"),
    ] {
        for hit in [false, true] {
            assert_eq!(is_hit(&front, &mut one, &read).await, hit, "{read}");
            assert_eq!(value(&mut one, "SELECT FOUND_ROWS()").await, found, "{read}");
        }
    }
}
