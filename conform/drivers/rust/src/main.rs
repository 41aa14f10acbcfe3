//! The driver matrix by Rust's driver mysql_async.

mod tools;

use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use mysql_async::prelude::*;
use mysql_async::{
    ChangeUserOpts, Compression, Conn, Error, IsolationLevel, Params, Pool, PoolConstraints, PoolOpts, Row, SslOpts,
    Statement, TxOpts, Value, WhiteListFsHandler,
};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use tools::*;

async fn connect() -> Seen {
    let init = vec!["SET sql_mode = 'STRICT_TRANS_TABLES', group_concat_max_len = 4096"];
    let mut connection = Conn::new(options().init(init)).await?;
    connection.ping().await?;
    let query = "SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@group_concat_max_len, @@version, ";
    let seen = rows(&mut connection, &format!("{query}{}", isolation_variable())).await?;
    ensure(one(&mut connection, "SELECT CONNECTION_ID()").await? == connection.id().to_string(), "the greeting's id")?;
    let version = json!(connection.server_version());
    let wrong = failed(Conn::new(options().pass(Some("wrong"))).await, "a wrong password")?;
    let nowhere = failed(Conn::new(options().db_name(Some("no_such_schema"))).await, "no schema")?;
    connection.disconnect().await?;
    Ok(json!([seen, version, wrong[0], wrong[1], nowhere]))
}

async fn metadata() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_types", TYPES).await?;
    let mut seen = Vec::new();
    for query in [
        &format!("SELECT {COLUMNS} FROM t_types"),
        "SELECT t.id AS number, COUNT(*) c, MAX(v) FROM t_types AS t GROUP BY t.id",
        "SELECT 1 AS one, 'ü' AS `ä b`",
        "SHOW COLUMNS FROM t_types",
    ] {
        let found = connection.query_iter(query).await?;
        seen.push(columns_of(found.columns_ref()));
        found.drop_result().await?;
        let statement = connection.prep(query).await?;
        seen.push(columns_of(&statement.columns()));
        let found = connection.exec_iter(&statement, ()).await?;
        seen.push(columns_of(found.columns_ref()));
        found.drop_result().await?;
    }
    let statement = connection.prep("SELECT ? + 1, v FROM t_types WHERE id = ? AND v = ?").await?;
    ensure(statement.num_params() == 3 && statement.num_columns() == 2, "the statement's counts")?;
    seen.push(columns_of(statement.params()));
    Ok(json!(seen))
}

async fn prepared_many() -> Seen {
    // As many as the driver keeps; those beyond it would be closed.
    let mut connection = Conn::new(options().stmt_cache_size(400)).await?;
    let mut statements: Vec<Statement> = Vec::new();
    for number in 0..300 {
        statements.push(connection.prep(format!("SELECT ? AS a{number}, {number} AS n")).await?);
    }
    for number in (0..300).rev().step_by(7) {
        for value in [Value::Int(number), Value::NULL, Value::from("text"), Value::Double(5.5)] {
            let found: Option<Row> = connection.exec_first(&statements[number as usize], (value.clone(),)).await?;
            let found = found.ok_or_else(|| Trouble::Fail("no row".to_owned()))?;
            // MySQL keeps the type of the first execution.
            if mariadb() || value != Value::from("text") {
                ensure(
                    found.as_ref(0).map(loose) == Some(loose(&value)),
                    &format!("echo of {value:?}: {:?}", found.as_ref(0)),
                )?;
            }
            ensure(found.as_ref(1) == Some(&Value::Int(number)), "the statement's number")?;
        }
    }
    table(&mut connection, "t_many", "id INT PRIMARY KEY, v VARCHAR(40)").await?;
    run_with(&mut connection, "INSERT INTO t_many VALUES (?, ?)", (7, "v7")).await?;
    let statement = connection.prep("SELECT * FROM t_many WHERE id = ?").await?;
    let mut seen = Vec::new();
    for change in ["SELECT 1", "ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7", "ALTER TABLE t_many DROP COLUMN v"] {
        connection.query_drop(change).await?;
        seen.push(sets(connection.exec_iter(&statement, (7,)).await?).await?);
    }
    for statement in statements {
        connection.close(statement).await?;
    }
    equal(&rows(&mut connection, "SELECT 1").await?, json!([["1"]]), "after")?;
    Ok(json!(seen))
}

async fn sql_prepare() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "PREPARE twice FROM 'SELECT ? * 2'").await?;
    run(&mut connection, "SET @n = 21").await?;
    let twice = rows(&mut connection, "EXECUTE twice USING @n").await?;
    run(&mut connection, "SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')").await?;
    run(&mut connection, "PREPARE other FROM @text").await?;
    let other = rows(&mut connection, "EXECUTE other").await?;
    run(&mut connection, "DEALLOCATE PREPARE twice").await?;
    equal(&json!([twice, other]), json!([[["42"]], [["2"]]]), "values")?;
    Ok(json!([twice, other, refused(&mut connection, "EXECUTE twice USING @n").await?]))
}

async fn unbuffered() -> Seen {
    let mut connection = single().await?;
    numbers(&mut connection, 20_000, "t_numbers").await?;
    let mut total = 0_u64;
    let mut found = connection.query_iter("SELECT id, v FROM t_numbers ORDER BY id").await?;
    while let Some(next) = found.next().await? {
        let (id, _): (u64, String) = mysql_async::from_row(next);
        total += id;
        if id % 5000 == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    found.drop_result().await?;
    ensure(total == 20_000 * 20_001 / 2, "the sum")?;
    // Left halfway: the next statement reads the rest.
    let mut found = connection.query_iter("SELECT id, v FROM t_numbers ORDER BY id").await?;
    found.next().await?;
    drop(found);
    let last = one(&mut connection, "SELECT MAX(id) FROM t_numbers").await?;
    let mut found = connection.exec_iter("SELECT id, v FROM t_numbers WHERE id > ? ORDER BY id", (1,)).await?;
    found.next().await?;
    drop(found);
    // Left halfway and closed.
    drop(connection);
    Ok(json!([total, last]))
}

async fn batch() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_batch", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB")
        .await?;
    let bytes = all_bytes();
    let lines = |from: usize, to: usize| -> Vec<Params> {
        (from..to)
            .map(|number| {
                let v = if number % 10 == 0 { Value::NULL } else { Value::from(format!("v{number}")) };
                Params::Positional(vec![Value::from(number), v, Value::from(&bytes[..number % 100])])
            })
            .collect()
    };
    let insert = "INSERT INTO t_batch (u, v, b) VALUES (?, ?, ?)";
    // On MariaDB one bulk execution, on MySQL an execution for each row.
    let mut work = connection.start_transaction(TxOpts::default()).await?;
    work.exec_batch(insert, lines(0, 1000)).await?;
    let counted = json!([work.affected_rows(), work.last_insert_id(), work.get_warnings(), work.info()]);
    work.commit().await?;
    let many =
        rows(&mut connection, "SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), MIN(id), MAX(u) FROM t_batch").await?;
    let mut again = lines(1000, 1010);
    again.extend(lines(5, 6));
    again.extend(lines(1010, 1020));
    let doubled = failed(connection.exec_batch(insert, again).await, "a doubled key")?;
    let after = rows(&mut connection, "SELECT COUNT(*), MAX(u) FROM t_batch").await?;
    connection.exec_batch("UPDATE t_batch SET v = ? WHERE u = ?", (0..50_u32).map(|number| ("new", number))).await?;
    connection.exec_batch("DELETE FROM t_batch WHERE u = ?", (0..10_u32).map(|number| (number,))).await?;
    let changed = rows(&mut connection, "SELECT SUM(v = 'new'), COUNT(*) FROM t_batch").await?;
    equal(&changed[0][0], json!("40"), "changed rows")?;
    Ok(json!([counted, many, doubled, after, changed]))
}

async fn local_infile() -> Seen {
    let file = std::path::Path::new(&env("SCRATCH")).join("load-rust.csv");
    let content: String = (0..20_000).map(|number| format!("{number},value ü {number} {}\n", "x".repeat(60))).collect();
    std::fs::write(&file, content)?;
    let handler = WhiteListFsHandler::new([file.as_path(), std::path::Path::new("/no/such/file")]);
    let mut connection = Conn::new(options().local_infile_handler(Some(handler.clone()))).await?;
    table(&mut connection, "t_load", "id INT PRIMARY KEY, v VARCHAR(100)").await?;
    let load = |file: &str| {
        format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE t_load CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','")
    };
    let count = run(&mut connection, &load(&file.display().to_string())).await?;
    equal(&count[0], json!(20_000), "rows")?;
    let seen = rows(&mut connection, "SELECT COUNT(*), SUM(id), MAX(v) FROM t_load").await?;
    // The driver gives the session up when it cannot read a file.
    let mut faults = Vec::new();
    for file in ["/no/such/file", "/etc/hostname"] {
        let mut own = Conn::new(options().local_infile_handler(Some(handler.clone()))).await?;
        faults.push(refused(&mut own, &load(file)).await?);
    }
    Ok(json!([count, seen, faults, one(&mut connection, "SELECT COUNT(*) FROM t_load").await?]))
}

async fn kill_query() -> Seen {
    let (mut connection, mut killer) = (single().await?, single().await?);
    let sleep = killed(&mut connection, &mut killer, "SELECT SLEEP(20)").await?;
    numbers(&mut connection, 3000, "t_kill").await?;
    let work = killed(
        &mut connection,
        &mut killer,
        "SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id)",
    )
    .await?;
    let write =
        killed(&mut connection, &mut killer, "UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1").await?;
    equal(&json!([work[0], write[0]]), json!([1317, 1317]), "errors")?;
    equal(&rows(&mut connection, "SELECT 1").await?, json!([["1"]]), "after")?;
    Ok(json!([sleep, work, write, refused(&mut killer, "KILL QUERY 999999999").await?]))
}

async fn kill_connection() -> Seen {
    let (mut connection, mut killer) = (single().await?, single().await?);
    let id = connection.id().to_string();
    run(&mut killer, &format!("KILL {id}")).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let gone = rows_of(&mut connection, "SELECT 1").await.is_err();
    ensure(gone, "the killed session answered")?;
    let again = refused(&mut killer, &format!("KILL {id}")).await?.to_string().replace(&id, "ID");
    Ok(json!([gone, again]))
}

async fn timeout() -> Seen {
    let pool = Pool::new(options());
    // The driver's way is a future that is dropped; its connection does not come back to the pool as it is.
    let mut connection = pool.get_conn().await?;
    let id = connection.id();
    let started = Instant::now();
    let late = tokio::time::timeout(Duration::from_millis(700), connection.query_drop("DO SLEEP(6)")).await.is_err();
    ensure(late && started.elapsed() < Duration::from_secs(4), "the deadline was not kept")?;
    let mut other = pool.get_conn().await?;
    let sleeping = one(&mut other, "SELECT 1").await?;
    run(&mut other, &format!("KILL QUERY {id}")).await?;
    let after = one(&mut connection, "SELECT 2").await.is_ok();
    drop((connection, other));
    // The server's own limits.
    let mut connection = pool.get_conn().await?;
    let limited = if mariadb() {
        "SET STATEMENT max_statement_time = 0.5 FOR SELECT SLEEP(9)"
    } else {
        "SELECT /*+ MAX_EXECUTION_TIME(500) */ SLEEP(9)"
    };
    let limited = match rows_of(&mut connection, limited).await {
        Ok(value) => value,
        Err(error) => fault(&error),
    };
    let seen = json!([late, sleeping, after, limited, one(&mut connection, "SELECT 3").await?]);
    drop(connection);
    pool.disconnect().await?;
    Ok(seen)
}

async fn tls() -> Seen {
    let authority = std::path::PathBuf::from(env("CA"));
    let verified = SslOpts::default().with_root_certs(vec![authority.into()]).with_disable_built_in_roots(true);
    let mut connection = Conn::new(options().ssl_opts(verified)).await?;
    ensure(one(&mut connection, "SELECT SHA2(REPEAT('tls', 100000), 256)").await?.len() == 64, "a short value")?;
    let long: Option<String> = connection.query_first("SELECT REPEAT('tls', 100000)").await?;
    ensure(long.is_some_and(|long| long == "tls".repeat(100_000)), "the value")?;
    let unknown = failed(Conn::new(options().ssl_opts(SslOpts::default())).await, "an unknown authority")?;
    Ok(json!([true, unknown]))
}

async fn compression() -> Seen {
    let mut connection = Conn::new(options().compression(Compression::default())).await?;
    let long = "compressible ".repeat(80_000);
    let back: Option<String> = connection.exec_first("SELECT ?", (&long,)).await?;
    ensure(back.is_some_and(|back| back == long), "the value")?;
    // Bytes without a pattern: a chain of digests.
    let mut noise = Vec::new();
    let mut link = Sha256::digest(b"noise");
    while noise.len() < 1 << 19 {
        noise.extend_from_slice(&link);
        link = Sha256::digest(link);
    }
    let back: Option<(Vec<u8>, String)> = connection.exec_first("SELECT ?, HEX(?)", (&noise, &noise)).await?;
    let wanted: String = noise.iter().map(|byte| format!("{byte:02X}")).collect();
    ensure(back.is_some_and(|(bytes, hex)| bytes == noise && hex == wanted), "noise")?;
    numbers(&mut connection, 3000, "t_numbers").await?;
    rows(&mut connection, "SELECT COUNT(*), MAX(id) FROM t_numbers").await
}

async fn change_user() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "SET @mine = 1, SESSION group_concat_max_len = 2048").await?;
    run(&mut connection, "CREATE TEMPORARY TABLE t_gone (id INT)").await?;
    let other = ChangeUserOpts::new()
        .with_user(Some(env("OTHER_USER")))
        .with_pass(Some(env("OTHER_PASSWORD")))
        .with_db_name(Some(env("OTHER_DATABASE")));
    let query = "SELECT CURRENT_USER(), DATABASE(), @mine, @@group_concat_max_len";
    connection.change_user(other).await?;
    let mut seen = vec![rows(&mut connection, query).await?, refused(&mut connection, "SELECT * FROM t_gone").await?];
    equal(&seen[0][0][2], Json::Null, "a variable of the old user")?;
    // The old user with the new one's password.
    let wrong =
        failed(connection.change_user(ChangeUserOpts::new().with_user(Some(env("USER")))).await, "a wrong password")?;
    seen.push(json!([wrong[0], wrong[1]]));
    seen.push(match rows_of(&mut connection, query).await {
        Ok(value) => value,
        Err(_) => json!("the session has ended"),
    });
    // To the same user, by the driver's default.
    let mut same = single().await?;
    run(&mut same, "SET @mine = 2").await?;
    same.change_user(ChangeUserOpts::default()).await?;
    seen.push(rows(&mut same, query).await?);
    Ok(json!(seen))
}

async fn reset() -> Seen {
    let mut connection = Conn::new(options().setup(vec!["SET @setup = 'again'"])).await?;
    table(&mut connection, "t_reset", "id INT PRIMARY KEY").await?;
    run(&mut connection, "SET @mine = 1, SESSION group_concat_max_len = 2048, time_zone = '+03:00'").await?;
    run(&mut connection, "CREATE TEMPORARY TABLE t_gone (id INT)").await?;
    run(&mut connection, "START TRANSACTION").await?;
    run(&mut connection, "INSERT INTO t_reset VALUES (1)").await?;
    rows_with(&mut connection, "SELECT ?", (1,)).await?;
    ensure(connection.reset().await?, "the server takes no reset")?;
    let seen =
        rows(&mut connection, "SELECT @mine, @@group_concat_max_len, @@time_zone, @setup, CURRENT_USER(), DATABASE()")
            .await?;
    equal(&json!([seen[0][0], seen[0][3]]), json!([null, "again"]), "variables")?;
    let gone = refused(&mut connection, "SELECT * FROM t_gone").await?;
    let left = one(&mut connection, "SELECT COUNT(*) FROM t_reset").await?;
    ensure(left == "0", "the transaction is still there")?;
    Ok(json!([seen, gone, left, rows_with(&mut connection, "SELECT ?", (2,)).await?]))
}

async fn multi_statements() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_multi", "id INT PRIMARY KEY, v INT").await?;
    let text = "INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x";
    let found = sets(connection.query_iter(text).await?).await?;
    equal(&json!(found), json!([[], [["1", "1"], ["2", "2"]], [], [["6"]], [], [["4"]]]), "results")?;
    let mut partly = connection.query_iter("SELECT 1; SELECT * FROM no_such_table; SELECT 3").await?;
    let begun: Result<Vec<Row>, Error> = partly.collect().await;
    let begun = match begun {
        Ok(rows) => json!([rows.iter().map(row).collect::<Json>(), failed(partly.collect::<Row>().await, "no table")?]),
        Err(error) => fault(&error),
    };
    drop(partly);
    let after = rows(&mut connection, "SELECT @x, COUNT(*) FROM t_multi").await?;
    // Left after the first result: the driver reads the rest.
    let mut left = connection.query_iter("SELECT 1; SELECT 2; SELECT 3").await?;
    left.next().await?;
    drop(left);
    Ok(json!([found, begun, after, one(&mut connection, "SELECT 4").await?]))
}

async fn procedures() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_calls", "n INT").await?;
    run(&mut connection, "DROP PROCEDURE IF EXISTS p_results").await?;
    run(&mut connection, "CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END").await?;
    let mut seen = vec![json!(sets(connection.query_iter("CALL p_results(5)").await?).await?)];
    equal(&seen[0], json!([[["5"]], [["6", "text"]], [["1"]]]), "results")?;
    for number in [6, 7] {
        seen.push(json!(sets(connection.exec_iter("CALL p_results(?)", (number,)).await?).await?));
    }
    run(&mut connection, "DROP PROCEDURE IF EXISTS p_fails").await?;
    run(
        &mut connection,
        "CREATE PROCEDURE p_fails() BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END",
    )
    .await?;
    seen.push(refused(&mut connection, "CALL p_fails()").await?);
    run(&mut connection, "DROP PROCEDURE IF EXISTS p_warns").await?;
    run(
        &mut connection,
        "CREATE PROCEDURE p_warns() BEGIN SELECT 1; SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'careful'; END",
    )
    .await?;
    seen.push(json!(sets(connection.query_iter("CALL p_warns()").await?).await?));
    seen.push(json!(connection.get_warnings()));
    seen.push(rows(&mut connection, "SHOW WARNINGS").await?);
    seen.push(json!(one(&mut connection, "SELECT COUNT(*) FROM t_calls").await?));
    Ok(json!(seen))
}

async fn out_params() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "DROP PROCEDURE IF EXISTS p_out").await?;
    run(&mut connection, "CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END").await?;
    run(&mut connection, "SET @c = 'x'").await?;
    run_with(&mut connection, "CALL p_out(?, @b, @c)", (4,)).await?;
    let seen = rows(&mut connection, "SELECT @b, @c").await?;
    equal(&seen, json!([["8", "x!"]]), "values")?;
    // With parameters for all three the values come as a result of the call.
    let called = sets(connection.exec_iter("CALL p_out(?, ?, ?)", (5, Value::NULL, "y")).await?).await?;
    equal(&called[0], json!([[10, "y!"]]), "the values of the call")?;
    Ok(json!([seen, called]))
}

async fn charset() -> Seen {
    let mut connection = Conn::new(options().setup(vec!["SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci"])).await?;
    table(
        &mut connection,
        "t_chars",
        "id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)",
    )
    .await?;
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    run_with(&mut connection, "INSERT INTO t_chars VALUES (1, ?, ?, ?)", ("ü🦀漢字", "äöüÿ", bytes(&[255, 0, 128])))
        .await?;
    let query = "SELECT u, l, b, HEX(u), HEX(l), HEX(b), @@collation_connection FROM t_chars WHERE u = ?";
    let seen = rows_with(&mut connection, query, ("ü🦀漢字",)).await?;
    equal(&seen[0][3], json!("C3BCF09FA680E6BCA2E5AD97"), "bytes")?;
    let mut latin = Conn::new(options().setup(vec!["SET NAMES latin1"])).await?;
    run_with(
        &mut latin,
        "INSERT INTO t_chars VALUES (2, ?, ?, ?)",
        (bytes(b"\xe4\xf6\xfc"), bytes(b"\xc4\xd6\xdc"), bytes(b"\xe4")),
    )
    .await?;
    let query = "SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2";
    let back = rows(&mut latin, query).await?;
    equal(&back[0][2], json!("C3A4C3B6C3BC"), "bytes of latin1")?;
    Ok(json!([seen, back, rows(&mut connection, "SELECT u, l, b FROM t_chars ORDER BY id").await?]))
}

async fn transactions() -> Seen {
    let (mut connection, mut observer) = (single().await?, single().await?);
    table(&mut connection, "t_trx", "id INT PRIMARY KEY, v INT").await?;
    let count = "SELECT COUNT(*) FROM t_trx";
    let mut work = connection.start_transaction(TxOpts::default()).await?;
    run_with(&mut work, "INSERT INTO t_trx VALUES (?, 1)", (1,)).await?;
    let mut seen = vec![one(&mut work, count).await?, one(&mut observer, count).await?];
    work.rollback().await?;
    seen.push(one(&mut connection, count).await?);
    let mut work = connection.start_transaction(TxOpts::default()).await?;
    run_with(&mut work, "INSERT INTO t_trx VALUES (?, 2)", (2,)).await?;
    run(&mut work, "SAVEPOINT a").await?;
    run_with(&mut work, "INSERT INTO t_trx VALUES (?, 3)", (3,)).await?;
    run(&mut work, "ROLLBACK TO SAVEPOINT a").await?;
    run(&mut work, "INSERT INTO t_trx VALUES (4, 4)").await?;
    let doubled = refused_with(&mut work, "INSERT INTO t_trx VALUES (?, 2)", (2,)).await?;
    work.commit().await?;
    equal(&json!(seen), json!(["1", "0", "0"]), "counts")?;
    // Dropped without an end: the driver rolls back with the next statement.
    let mut work = connection.start_transaction(TxOpts::default()).await?;
    run(&mut work, "DELETE FROM t_trx").await?;
    drop(work);
    Ok(json!([seen, doubled, rows(&mut connection, "SELECT id FROM t_trx ORDER BY id FOR UPDATE").await?]))
}

async fn isolation() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_iso", "id INT PRIMARY KEY, v INT").await?;
    run(&mut connection, "INSERT INTO t_iso VALUES (1, 1)").await?;
    let mut seen = Vec::new();
    for level in [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ] {
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        let mut work = connection.start_transaction(options).await?;
        run(&mut work, "UPDATE t_iso SET v = v + 1").await?;
        seen.push(one(&mut work, "SELECT v FROM t_iso").await?);
        work.commit().await?;
    }
    equal(&json!(seen), json!(["2", "3", "4", "5"]), "values")?;
    let mut options = TxOpts::default();
    options.with_readonly(true).with_consistent_snapshot(true);
    let mut work = connection.start_transaction(options).await?;
    let denied = refused(&mut work, "UPDATE t_iso SET v = 9").await?;
    let read = one(&mut work, "SELECT v FROM t_iso").await?;
    work.rollback().await?;
    Ok(json!([seen, denied, read, one(&mut connection, &format!("SELECT {}", isolation_variable())).await?]))
}

async fn autocommit() -> Seen {
    let mut connection = Conn::new(options().setup(vec!["SET autocommit = 0"])).await?;
    let mut observer = single().await?;
    table(&mut connection, "t_auto", "id INT PRIMARY KEY").await?;
    let count = "SELECT COUNT(*) FROM t_auto";
    let mut seen = vec![one(&mut connection, count).await?];
    let flags = |connection: &Conn| connection.last_ok_packet().map(|packet| format!("{:?}", packet.status_flags()));
    let mut status = vec![flags(&connection)];
    run(&mut observer, "INSERT INTO t_auto VALUES (1)").await?;
    seen.push(one(&mut connection, count).await?);
    run(&mut connection, "COMMIT").await?;
    status.push(flags(&connection));
    seen.push(one(&mut connection, "SELECT COUNT(*) FROM t_auto FOR UPDATE").await?);
    run(&mut connection, "INSERT INTO t_auto VALUES (2)").await?;
    status.push(flags(&connection));
    run(&mut connection, "ROLLBACK").await?;
    run(&mut connection, "SET autocommit = 1").await?;
    status.push(flags(&connection));
    seen.push(one(&mut connection, count).await?);
    equal(&json!(seen), json!(["0", "0", "1", "1"]), "counts")?;
    Ok(json!([seen, status]))
}

async fn pool() -> Seen {
    let limits = PoolConstraints::new(1, 6).ok_or_else(|| Trouble::Fail("the pool's limits".to_owned()))?;
    let pool = Pool::new(options().pool_opts(PoolOpts::default().with_constraints(limits)));
    let mut connection = pool.get_conn().await?;
    table(&mut connection, "t_pool", "id INT AUTO_INCREMENT PRIMARY KEY, worker INT, n INT").await?;
    drop(connection);
    try_join_all((0..8_i64).map(|worker| {
        let pool = pool.clone();
        async move {
            for number in 0..25 {
                let mut connection = pool.get_conn().await?;
                // The driver resets a session that comes back.
                equal(&rows(&mut connection, "SELECT @mine").await?, json!([[null]]), "another's variable")?;
                run(&mut connection, &format!("SET @mine = {}", worker * 1000 + number)).await?;
                run_with(&mut connection, "INSERT INTO t_pool (worker, n) VALUES (?, ?)", (worker, number)).await?;
                ensure(
                    one(&mut connection, "SELECT @mine").await? == (worker * 1000 + number).to_string(),
                    "the own variable",
                )?;
                let count =
                    one_with(&mut connection, "SELECT COUNT(*) FROM t_pool WHERE worker = ?", (worker,)).await?;
                ensure(
                    count == (number + 1).to_string(),
                    &format!("worker {worker} sees {count} rows after {number}"),
                )?;
            }
            Seen::Ok(())
        }
    }))
    .await?;
    let mut connection = pool.get_conn().await?;
    let count = one(&mut connection, "SELECT COUNT(*) FROM t_pool FOR UPDATE").await?;
    ensure(count == "200", "rows")?;
    drop(connection);
    pool.disconnect().await?;
    Ok(json!(count))
}

async fn session_state() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')").await?;
    run(&mut connection, "SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')").await?;
    run(
        &mut connection,
        "SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5",
    )
    .await?;
    let mut seen =
        vec![rows(&mut connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode").await?];
    for number in 0..20 {
        ensure(one_with(&mut connection, "SELECT ? + 0", (number,)).await? == number.to_string(), "echo")?;
    }
    seen.push(rows_with(&mut connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, ?", (1,)).await?);
    run_with(&mut connection, "SET @e = ?", ("by parameter",)).await?;
    run(&mut connection, "SELECT 7, 8 INTO @x, @y").await?;
    seen.push(rows(&mut connection, "SELECT @x + @y, @e").await?);
    equal(&seen[2], json!([["15", "by parameter"]]), "variables")?;
    run(&mut connection, &format!("USE {}", env("OTHER_DATABASE"))).await?;
    seen.push(rows(&mut connection, "SELECT DATABASE()").await?);
    run(&mut connection, &format!("USE {}", env("DATABASE"))).await?;
    seen.push(rows(&mut connection, "SELECT DATABASE()").await?);
    equal(&json!([seen[3], seen[4]]), json!([[["OTHER"]], [["DATABASE"]]]), "schemas")?;
    Ok(json!(seen))
}

async fn temp_tables() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))").await?;
    run_with(&mut connection, "INSERT INTO t_temp VALUES (?, ?), (2, ?)", (1, "a", "b")).await?;
    let count = one(&mut connection, "SELECT COUNT(*) FROM t_temp").await?;
    ensure(count == "2", "rows")?;
    let value = rows_with(&mut connection, "SELECT v FROM t_temp WHERE id = ?", (2,)).await?;
    let doubled = refused_with(&mut connection, "INSERT INTO t_temp VALUES (?, 'dup')", (1,)).await?;
    run(&mut connection, "DROP TEMPORARY TABLE t_temp").await?;
    Ok(json!([count, value, doubled, refused(&mut connection, "SELECT * FROM t_temp").await?]))
}

async fn own_writes() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_own", "id INT PRIMARY KEY, v INT").await?;
    for number in 0..200 {
        run_with(&mut connection, "INSERT INTO t_own VALUES (?, 0)", (number,)).await?;
        ensure(
            one(&mut connection, "SELECT COUNT(*) FROM t_own").await? == (number + 1).to_string(),
            "rows after an insert",
        )?;
        run_with(&mut connection, "UPDATE t_own SET v = v + 1 WHERE id = ?", (number,)).await?;
        ensure(
            one_with(&mut connection, "SELECT v FROM t_own WHERE id = ?", (number,)).await? == "1",
            "a value after its update",
        )?;
    }
    Ok(json!(200))
}

async fn insert_id() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_ids", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT").await?;
    let mut seen =
        vec![run_with(&mut connection, "INSERT INTO t_ids (u, v) VALUES (1, ?), (2, 2), (3, 3)", (1,)).await?];
    equal(&json!([seen[0][0], seen[0][1]]), json!([3, 1]), "rows and id")?;
    seen.push(rows(&mut connection, "SELECT LAST_INSERT_ID(), 1").await?);
    seen.push(rows(&mut connection, "SELECT LAST_INSERT_ID()").await?);
    seen.push(run(&mut connection, "INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9").await?);
    seen.push(rows(&mut connection, "SELECT ROW_COUNT()").await?);
    seen.push(run_with(&mut connection, "UPDATE t_ids SET v = 9 WHERE u = ?", (2,)).await?);
    seen.push(run(&mut connection, "REPLACE INTO t_ids (u, v) VALUES (3, 1)").await?);
    rows(&mut connection, "SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1").await?;
    seen.push(rows(&mut connection, "SELECT FOUND_ROWS()").await?);
    let mut found = Conn::new(options().client_found_rows(true)).await?;
    seen.push(run(&mut found, "UPDATE t_ids SET v = 9 WHERE u = 2").await?);
    equal(&json!([seen[7], seen[8][0]]), json!([[["3"]], 1]), "found rows")?;
    Ok(json!(seen))
}

async fn locks() -> Seen {
    let (mut connection, mut second) = (single().await?, single().await?);
    let name = format!("lock_{}", env("DATABASE"));
    table(&mut connection, "t_types", "id INT PRIMARY KEY").await?;
    table(&mut connection, "t_lock", "id INT PRIMARY KEY").await?;
    let mut seen = vec![
        one_with(&mut connection, "SELECT GET_LOCK(?, 5)", (&name,)).await?,
        one_with(&mut second, "SELECT GET_LOCK(?, 0)", (&name,)).await?,
        one_with(&mut connection, "SELECT RELEASE_LOCK(?)", (&name,)).await?,
        one_with(&mut second, "SELECT GET_LOCK(?, 5)", (&name,)).await?,
    ];
    second.disconnect().await?;
    seen.push(one_with(&mut connection, "SELECT GET_LOCK(?, 5)", (&name,)).await?);
    equal(&json!(seen), json!(["1", "0", "1", "1", "1"]), "locks")?;
    run(&mut connection, "LOCK TABLES t_lock WRITE").await?;
    let denied = refused(&mut connection, "SELECT * FROM t_types").await?;
    run_with(&mut connection, "INSERT INTO t_lock VALUES (?)", (1,)).await?;
    let count = one(&mut connection, "SELECT COUNT(*) FROM t_lock").await?;
    run(&mut connection, "UNLOCK TABLES").await?;
    Ok(json!([seen, denied, count]))
}

async fn errors() -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_err", "id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT").await?;
    run(&mut connection, "INSERT INTO t_err VALUES (1, 'a', 1)").await?;
    let mut seen = Vec::new();
    for query in [
        "INSERT INTO t_err VALUES (1, 'b', 1)",
        "SELEC 1",
        "SELECT * FROM no_such_table",
        "SELECT no_such_column FROM t_err",
        "INSERT INTO t_err VALUES (2, NULL, 1)",
        "INSERT INTO t_err VALUES (2, 'too long', 1)",
        "INSERT INTO t_err VALUES (2, 'a', 1000)",
        "SELECT no_such_function(1)",
        "CALL no_such_procedure()",
        "USE no_such_schema",
        "SET no_such_variable = 1",
        "CREATE TABLE t_err (id INT)",
        "DROP TABLE no_such_table",
        "SELECT 'ü' + no_such_column",
        "",
    ] {
        seen.push(refused(&mut connection, query).await?);
    }
    for query in ["INSERT INTO t_err VALUES (?, 'b', 1)", "SELECT * FROM no_such_table WHERE id = ?", "SELEC ?"] {
        seen.push(refused_with(&mut connection, query, (1,)).await?);
    }
    equal(&seen[0][0], json!(1062), "the first error")?;
    Ok(json!([seen, rows(&mut connection, "SELECT COUNT(*), DATABASE() FROM t_err").await?]))
}

async fn warnings() -> Seen {
    let mut connection = single().await?;
    run(&mut connection, "SET sql_mode = ''").await?;
    table(&mut connection, "t_warn", "id INT PRIMARY KEY, v VARCHAR(3), n TINYINT").await?;
    let mut seen = vec![run(&mut connection, "INSERT INTO t_warn VALUES (1, 'too long', 1000)").await?];
    equal(&seen[0][2], json!(2), "warnings")?;
    seen.push(rows(&mut connection, "SHOW WARNINGS").await?);
    seen.push(run_with(&mut connection, "INSERT INTO t_warn VALUES (2, ?, ?)", ("too long", 1000)).await?);
    seen.push(rows(&mut connection, "SHOW WARNINGS").await?);
    seen.push(rows(&mut connection, "SELECT CAST('1x' AS SIGNED)").await?);
    seen.push(json!(connection.get_warnings()));
    seen.push(rows(&mut connection, "SHOW WARNINGS").await?);
    seen.push(run(&mut connection, "DROP TABLE IF EXISTS no_such_table").await?);
    seen.push(rows(&mut connection, "SHOW WARNINGS").await?);
    Ok(json!(seen))
}

/// The driver keeps prepared statements by their text and closes the oldest; with a reset each session that comes back to the
/// pool loses them, and without it a transaction or a result that was left is ended by the pool.
async fn habits() -> Seen {
    let mut connection = Conn::new(options().stmt_cache_size(4)).await?;
    for number in (0..30).chain(0..30) {
        let found = rows_with(&mut connection, &format!("SELECT ? + {number}"), (1,)).await?;
        equal(&found, json!([[number + 1]]), "a statement that was closed and is prepared again")?;
    }
    let id = connection.id();
    for reset in [true, false] {
        let limits = PoolConstraints::new(1, 1).ok_or_else(|| Trouble::Fail("the pool's limits".to_owned()))?;
        let pool =
            Pool::new(options().pool_opts(PoolOpts::default().with_constraints(limits).with_reset_connection(reset)));
        let mut one_session = pool.get_conn().await?;
        let first = one_session.id();
        table(&mut one_session, "t_habits", "id INT PRIMARY KEY").await?;
        run(&mut one_session, "SET @mine = 7").await?;
        let mut work = one_session.start_transaction(TxOpts::default()).await?;
        run_with(&mut work, "INSERT INTO t_habits VALUES (?)", (1,)).await?;
        drop(work);
        drop(one_session);
        let mut one_session = pool.get_conn().await?;
        ensure(one_session.id() == first, "the pool's only session was replaced")?;
        let found = rows(&mut one_session, "SELECT @mine, COUNT(*) FROM t_habits").await?;
        equal(&found, if reset { json!([[null, "0"]]) } else { json!([["7", "0"]]) }, "after the pool")?;
        let mut left = one_session.query_iter("SELECT 1 UNION ALL SELECT 2; SELECT 3").await?;
        left.next().await?;
        drop(left);
        drop(one_session);
        let mut one_session = pool.get_conn().await?;
        equal(&rows_with(&mut one_session, "SELECT ?", (5,)).await?, json!([[5]]), "after a result that was left")?;
        drop(one_session);
        pool.disconnect().await?;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    ensure(one(&mut connection, "SELECT CONNECTION_ID()").await? == id.to_string(), "the connection after a pause")?;
    Ok(json!(true))
}

fn case(name: &str) -> Option<BoxFuture<'static, Seen>> {
    Some(match name {
        "connect" => connect().boxed(),
        "types_text" => types_by(false).boxed(),
        "types_prepared" => types_by(true).boxed(),
        "metadata" => metadata().boxed(),
        "prepared_many" => prepared_many().boxed(),
        "sql_prepare" => sql_prepare().boxed(),
        "cursor_fetch" => async { Err(Trouble::Skip("the driver has no server-side cursors")) }.boxed(),
        "unbuffered" => unbuffered().boxed(),
        "batch" => batch().boxed(),
        "local_infile" => local_infile().boxed(),
        "kill_query" => kill_query().boxed(),
        "kill_connection" => kill_connection().boxed(),
        "timeout" => timeout().boxed(),
        "tls" => tls().boxed(),
        "compression" => compression().boxed(),
        "change_user" => change_user().boxed(),
        "reset" => reset().boxed(),
        "multi_statements" => multi_statements().boxed(),
        "procedures" => procedures().boxed(),
        "out_params" => out_params().boxed(),
        "large_17mb" => large(17 << 20).boxed(),
        "large_40mb" => large(40 << 20).boxed(),
        "charset" => charset().boxed(),
        "transactions" => transactions().boxed(),
        "isolation" => isolation().boxed(),
        "autocommit" => autocommit().boxed(),
        "pool" => pool().boxed(),
        "session_state" => session_state().boxed(),
        "temp_tables" => temp_tables().boxed(),
        "own_writes" => own_writes().boxed(),
        "insert_id" => insert_id().boxed(),
        "locks" => locks().boxed(),
        "errors" => errors().boxed(),
        "warnings" => warnings().boxed(),
        "habits" => habits().boxed(),
        _ => return None,
    })
}

async fn answer(name: &str) -> Json {
    let started = Instant::now();
    let result = match case(name) {
        None => Err(Trouble::Fail("the driver's program has no such case".to_owned())),
        // A task of its own, so that a panic ends this case only.
        Some(work) => match tokio::time::timeout(LIMIT, tokio::spawn(work)).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(Trouble::Fail(error.to_string())),
            Err(_) => Err(Trouble::Fail(format!("no end within {} s", LIMIT.as_secs()))),
        },
    };
    let ms = started.elapsed().as_millis() as u64;
    match result {
        Ok(seen) => {
            let seen = seen.to_string();
            let short: String = seen.chars().take(4000).collect();
            json!({"case": name, "status": "ok", "digest": digest(seen.as_bytes()), "seen": short, "ms": ms})
        }
        Err(Trouble::Skip(reason)) => json!({"case": name, "status": "skip", "reason": reason, "ms": ms}),
        Err(Trouble::Fail(error)) => json!({"case": name, "status": "fail", "error": error, "ms": ms}),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let list = std::fs::read_to_string(env("CASES"))?;
    let only = env("ONLY");
    for line in list.lines() {
        let Some(name) = line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"')) else { continue };
        if only.is_empty() || only.split(',').any(|wanted| wanted == name) {
            println!("{}", answer(name).await);
        }
    }
    Ok(())
}
