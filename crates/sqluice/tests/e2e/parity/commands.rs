//! Old and rare commands, several commands in one write, several statements in one command.

use lab::Family;

use super::*;

const SETUP: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, t VARCHAR(20) DEFAULT 'x'); \
    INSERT INTO t (v) VALUES (1), (2), (3);";

async fn rare(family: Family) {
    let case = Case { family, database: "par_rare", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.command(Expect::Columns, b"\x04t\0%").await;
        wire.command(Expect::Columns, b"\x04t\0v").await;
        wire.command(Expect::Columns, b"\x04nowhere\0%").await;
        wire.send(&[b"\x09"]).await;
        let (sequence, text) = wire.packet().await.unwrap();
        wire.note(format!("{sequence} {}", String::from_utf8_lossy(&text[..8])));
        wire.query("SELECT 1").await;
        wire.command(Expect::Results, b"\x0e").await;
        wire.command(Expect::Results, b"\x05par_made").await;
        wire.command(Expect::Results, b"\x06par_made").await;
        wire.command(Expect::Results, b"\x06par_made").await;
        wire.command(Expect::Results, b"\x07\x01").await;
        wire.command(Expect::Results, b"\x0d").await;
        wire.query("SELECT nothing").await;
        wire.command(Expect::Results, b"\x0d").await;
        for unknown in [0x00, 0x0b, 0x0f, 0x10, 0x13, 0x14, 0x1d, 0x4f, 0x7f, 0xfe] {
            wire.command(Expect::Results, &[unknown]).await;
        }
        wire.query("SELECT 1").await;
        wire.command(Expect::Results, b"\x1b\x01\0").await;
        wire.query("SELECT 1; SELECT 2").await;
        wire.query("SELECT 1").await;
        wire.command(Expect::Results, b"\x1b\x00\0").await;
        wire.query("SELECT 1; SELECT 2").await;
        wire.command(Expect::Results, b"\x1b\x07\0").await;
        wire.command(Expect::Results, b"\x02nowhere").await;
        wire.query("SELECT DATABASE()").await;
        wire.query("").await;
        wire.query(" ").await;
        wire.query("-- nothing").await;
        wire.query(";").await;
        wire.query("SELECT 1;").await;
        wire.query("SELECT 1;;").await;
        wire.query("SELECT 'a\0b'").await;
        wire.command(Expect::Results, b"").await;
    })
    .await;
}

async fn rare_with_eof(family: Family) {
    let case = Case { family, database: "par_rare_eof", setup: SETUP, capabilities: OLD };
    case.run(async |wire| {
        wire.command(Expect::Columns, b"\x04t\0%").await;
        wire.command(Expect::Results, b"\x0d").await;
        wire.query("SELECT nothing").await;
        wire.command(Expect::Results, b"\x0d").await;
        wire.query("SELECT 1").await;
        wire.command(Expect::Results, b"\x1b\x01\0").await;
        wire.query("BEGIN").await;
        wire.query("SELECT 1").await;
        wire.command(Expect::Results, b"\x1b\x00\0").await;
        wire.query("SELECT 1; SELECT 2").await;
        wire.query("COMMIT").await;
        wire.query("SELECT 1; SELECT 2").await;
    })
    .await;
}

/// The server's knowledge of its own connection, in values and in types.
async fn identity(family: Family) {
    let case = Case { family, database: "par_identity", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        // MySQL derives types of literals from their values.
        let typed = wire.family == Family::MariaDb;
        let reply = wire.query("UPDATE t SET v = 5").await;
        assert_eq!(reply[0][..2], [0, 3]);
        let (_, rows) = wire.values("SELECT ROW_COUNT()", typed).await;
        assert_eq!(rows, ["3"]);
        wire.values("SELECT ROW_COUNT()", typed).await;
        wire.query("SELECT v FROM t LIMIT 2").await;
        wire.values("SELECT FOUND_ROWS()", typed).await;
        let (_, rows) = wire.values("SELECT CONNECTION_ID()", false).await;
        assert_eq!(rows, [wire.id.to_string()]);
        wire.query("CREATE VIEW who AS SELECT CONNECTION_ID() AS id").await;
        wire.query("INSERT INTO t (v) VALUES (1)").await;
        wire.query("SELECT LAST_INSERT_ID()").await;
        wire.query("SELECT @@identity, @@last_insert_id").await;
        wire.query("SELECT CURRENT_USER(), SCHEMA(), DATABASE()").await;
    })
    .await;
}

async fn pipelined(family: Family) {
    let case = Case { family, database: "par_pipe", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.hide_gtids = true;
        // The commands of .NET's driver for each connection that it takes from its pool.
        wire.send(&[b"\x1f", b"\x03SET NAMES utf8mb4", b"\x02par_pipe"]).await;
        for _ in 0..3 {
            wire.reply(Expect::Results).await;
        }
        wire.send(&[
            b"\x03SELECT 1",
            b"\x0e",
            b"\x03BEGIN",
            b"\x03INSERT INTO t (v) VALUES (9)",
            b"\x03SELECT nothing",
        ])
        .await;
        for _ in 0..5 {
            wire.reply(Expect::Results).await;
        }
        wire.send(&[b"\x03ROLLBACK", b"\x16SELECT COUNT(*) FROM t WHERE v > ?", b"\x03SELECT v FROM t"]).await;
        wire.reply(Expect::Results).await;
        wire.reply(Expect::Prepared).await;
        wire.reply(Expect::Results).await;
        // One byte at a time.
        for byte in b"\x09\0\0\0\x03SELECT 5\x01\0\0\0\x0e" {
            wire.send_bytes(&[*byte]).await;
        }
        wire.reply(Expect::Results).await;
        wire.reply(Expect::Results).await;
        // Many, with results larger than buffers.
        let query = b"\x03SELECT REPEAT('x', 50000)".as_slice();
        wire.send(&[query; 50]).await;
        for _ in 0..50 {
            wire.reply(Expect::Results).await;
        }
        wire.interlude().await;
    })
    .await;
}

async fn several_statements(family: Family) {
    let case = Case { family, database: "par_multi", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        for sql in [
            "SELECT 1; INSERT INTO t (v) VALUES (4); SELECT LAST_INSERT_ID()",
            "SELECT LAST_INSERT_ID(), @@identity",
            "BEGIN; INSERT INTO t (v) VALUES (5); COMMIT",
            "BEGIN; INSERT INTO t (v) VALUES (6)",
            "SELECT COUNT(*) FROM t; ROLLBACK; SELECT COUNT(*) FROM t",
            "SET @a = 1; SET @b = @a + 1; SELECT @a, @b",
            "SELECT @a, @b",
            "SET sql_mode = 'ANSI_QUOTES'; SELECT \"v\" FROM t LIMIT 1; SET sql_mode = ''; SELECT \"v\"",
            "SELECT 1; SELECT nothing; INSERT INTO t (v) VALUES (7)",
            "SELECT COUNT(*) FROM t",
            "SET @c = 5; SELECT nothing; SET @c = 6",
            "SELECT @c",
            "SELECT 1; KILL QUERY CONNECTION_ID()",
            "SET @own = CONNECTION_ID(), @word = 'kill'; SELECT 1 AS `kill`",
            "SELECT @own = CONNECTION_ID() AS same",
            "SELECT 1; kill query connection_id(); SELECT 2",
            "USE mysql; SELECT DATABASE(); USE par_multi; SELECT DATABASE()",
            "CREATE TEMPORARY TABLE tt (a INT); INSERT INTO tt VALUES (1); SELECT * FROM tt",
            "SELECT * FROM tt; DROP TEMPORARY TABLE tt",
            "UPDATE t SET v = v + 1; SELECT ROW_COUNT()",
            "SELECT v FROM t LIMIT 2; SELECT FOUND_ROWS()",
            "SELECT 1; SELECT ';'; SELECT `v` /* ; */ FROM t LIMIT 1; -- ; end",
            "DO RELEASE_LOCK('l'); SELECT GET_LOCK('l', 1); SELECT IS_FREE_LOCK('l')",
            "SELECT IS_FREE_LOCK('l'), RELEASE_LOCK('l')",
            "PREPARE p FROM 'SELECT ? + 1'; SET @x = 41; EXECUTE p USING @x; DEALLOCATE PREPARE p",
            "EXECUTE p USING @x",
            "CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2; END; CALL two(); SELECT 'after'",
            "DROP PROCEDURE two; SELECT 'gone'",
            "SET autocommit = 0; INSERT INTO t (v) VALUES (8); ROLLBACK; SET autocommit = 1; SELECT COUNT(*) FROM t",
            "SELECT 1/0; SHOW WARNINGS",
            "INSERT INTO t (id) VALUES (1); SELECT 'not run'",
            "SHOW ERRORS",
        ] {
            wire.query(sql).await;
        }
    })
    .await;
}

async fn procedures(family: Family) {
    let setup = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT);
         DELIMITER //
         CREATE PROCEDURE several(IN a INT, OUT b INT, INOUT c INT) BEGIN SELECT a; SELECT 1 WHERE 0; SET b = a * 2; SET c = c + 1; SELECT 'end'; END//
         CREATE PROCEDURE silent() BEGIN INSERT INTO t (v) VALUES (1); END//
         CREATE PROCEDURE fails() BEGIN SELECT 'first'; SELECT * FROM nowhere; END//
         CREATE PROCEDURE sets() BEGIN SET @hidden = 5; SET SESSION sql_mode = 'ANSI'; END//
         CREATE PROCEDURE opens() BEGIN START TRANSACTION; INSERT INTO t (v) VALUES (2); END//
         CREATE PROCEDURE signals() BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 30001; END//
         CREATE PROCEDURE holds() BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; SELECT 'held'; END//
         DELIMITER ;";
    let case = Case { family, database: "par_proc", setup, capabilities: MODERN };
    case.run(async |wire| {
        wire.query("SET @c = 10").await;
        wire.query("CALL several(7, @b, @c)").await;
        wire.query("SELECT @b, @c").await;
        wire.query("CALL silent()").await;
        wire.query("CALL holds()").await;
        wire.query("CALL fails()").await;
        wire.query("CALL nowhere()").await;
        wire.query("CALL several(1)").await;
        let call = wire.prepare("CALL several(?, ?, ?)").await;
        for a in [3, 4] {
            wire.command(Expect::Results, &execute(call, 0, &[long(a), long(0), long(5)], true)).await;
        }
        wire.command(Expect::Results, &execute(call, 1, &[long(6), long(0), long(5)], true)).await;
        let call = wire.prepare("CALL silent()").await;
        wire.command(Expect::Results, &execute(call, 0, &[], true)).await;
        let call = wire.prepare("CALL fails()").await;
        wire.command(Expect::Results, &execute(call, 0, &[], true)).await;
        wire.query("CALL signals()").await;
        wire.query("CALL opens()").await;
        wire.query("SELECT COUNT(*) FROM t").await;
        wire.query("ROLLBACK").await;
        wire.query("SELECT COUNT(*) FROM t").await;
        wire.query("CALL sets()").await;
        wire.query("SELECT @hidden, @@sql_mode").await;
        wire.command(Expect::Results, b"\x1f").await;
    })
    .await;
}

async fn text_prepare(family: Family) {
    let case = Case { family, database: "par_text_ps", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        for sql in [
            "PREPARE a FROM 'SELECT v FROM t WHERE v > ? ORDER BY v'",
            "SET @from = 1",
            "EXECUTE a USING @from",
            "SET @text = 'INSERT INTO t (v) VALUES (77)'",
            "PREPARE b FROM @text",
            "EXECUTE b",
            "EXECUTE a USING @from",
            "EXECUTE nobody",
            "PREPARE a FROM 'SELEC'",
            "EXECUTE a USING @from",
            "DEALLOCATE PREPARE b",
            "PREPARE c FROM 'BEGIN'",
            "PREPARE c FROM 'SET @z = 5'",
            "EXECUTE c",
            "SELECT @z",
            "DROP PREPARE c",
            "DROP PREPARE c",
        ] {
            wire.query(sql).await;
        }
        if wire.family == Family::MariaDb {
            for sql in [
                "EXECUTE IMMEDIATE 'SELECT ? + 1' USING 41",
                "EXECUTE IMMEDIATE CONCAT('SELECT ', '5')",
                "BEGIN NOT ATOMIC DECLARE x INT DEFAULT 5; SELECT x; SET x = x + 1; SELECT x; END",
                "IF 1 = 1 THEN SELECT 'yes'; ELSE SELECT 'no'; END IF",
                "FOR i IN 1..2 DO SELECT i; END FOR",
            ] {
                wire.query(sql).await;
            }
        }
        // A statement of either protocol may have the other's name.
        let id = wire.prepare("EXECUTE a USING @from").await;
        wire.command(Expect::Results, &execute(id, 0, &[], true)).await;
        wire.prepare("PREPARE d FROM 'SELECT 1'").await;
        wire.command(Expect::Results, b"\x1f").await;
        wire.query("EXECUTE a USING @from").await;
    })
    .await;
}

async fn errors(family: Family) {
    let setup = "CREATE TABLE u (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO u VALUES (1, 1);";
    let case = Case { family, database: "par_errors", setup, capabilities: MODERN };
    case.run(async |wire| {
        for sql in [
            "SELEC",
            "SELECT * FROM nowhere",
            "SELECT nothing",
            "INSERT INTO u VALUES (1, 1)",
            "SHOW WARNINGS",
            "GET DIAGNOSTICS CONDITION 1 @no = MYSQL_ERRNO, @text = MESSAGE_TEXT",
            "SELECT @no, @text",
            "INSERT IGNORE INTO u VALUES (1, 1), (2, NULL)",
            "SHOW WARNINGS",
            "SELECT CAST('x' AS SIGNED)",
            "SHOW WARNINGS",
            "USE nowhere",
            "SELECT DATABASE()",
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'hä'",
            "SET sql_mode = 'nonsense'",
            "SET no_such_variable = 1",
            "SET SESSION max_connections = 1",
            "SET GLOBAL max_connections = 100000000",
            "DROP TABLE nowhere",
            "DROP TABLE IF EXISTS nowhere",
            "SHOW WARNINGS",
            "KILL 4711000",
            "KILL QUERY 4711000",
            "KILL 'x'",
            "SELECT 'end'",
        ] {
            wire.query(sql).await;
        }
        wire.command(Expect::Results, b"\x0c\xff\xff\xff\0").await;
    })
    .await;
}

async fn procedures_with_cursors(family: Family) {
    let setup = "DELIMITER //
         CREATE PROCEDURE holds() BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; SELECT 'held'; END//
         CREATE PROCEDURE gives(IN a INT, OUT b INT) BEGIN SET b = a * 2; END//
         DELIMITER ;";
    let case = Case { family, database: "par_held", setup, capabilities: super::OLD };
    case.run(async |wire| {
        wire.query("CALL holds()").await;
        let call = wire.prepare("CALL holds()").await;
        wire.command(Expect::Results, &execute(call, 0, &[], true)).await;
        wire.command(Expect::Results, &execute(call, 1, &[], true)).await;
        let call = wire.prepare("CALL gives(?, ?)").await;
        wire.command(Expect::Results, &execute(call, 0, &[long(3), long(0)], true)).await;
        wire.query("SELECT 1").await;
    })
    .await;
}

/// The statements of Rails, R2DBC and MySqlConnector at every connect or checkout; none of them may tie a session to
/// its connection.
async fn connect_lines(family: Family) {
    // Servers tell changes in an order of their own.
    let capabilities = MODERN.difference(super::Capabilities::SESSION_TRACK);
    let case = Case { family, database: "par_lines", setup: "", capabilities };
    let isolation = if family == Family::MariaDb { "tx_isolation" } else { "transaction_isolation" };
    case.run(async |wire| {
        wire.query(
            "SET  @@SESSION.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'), \
             @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
        )
        .await;
        wire.query("SELECT @@sql_mode, @@sql_auto_is_null, @@wait_timeout").await;
        wire.query(&format!(
            "SET autocommit=1, {isolation}='READ-COMMITTED', session_track_schema=1, \
             session_track_system_variables = CONCAT(@@session_track_system_variables,',{isolation}')"
        ))
        .await;
        wire.query(&format!("SELECT @@autocommit, @@{isolation}")).await;
        for _ in 0..3 {
            wire.send(&[b"\x1f", b"\x03SET NAMES utf8mb4 COLLATE utf8mb4_bin"]).await;
            wire.reply(Expect::Results).await;
            wire.reply(Expect::Results).await;
            wire.query("SELECT @@collation_connection, @@sql_auto_is_null, @@wait_timeout").await;
        }
    })
    .await;
}

both!(identity rare rare_with_eof pipelined several_statements procedures procedures_with_cursors text_prepare errors connect_lines);
