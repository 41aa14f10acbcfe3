//! Everything a client may say, through the program, on servers that replicate.

use std::time::Duration;

use lab::{Family, Replication, ReplicationOptions};
use net::query::{Client, Parameter};
use wire::command::Command;

use crate::support::{Front, SOON, all, blocking, calm, client_program, error, families, run, until, value};

/// A database of a test's own on all servers, and the program in front of them.
pub async fn start(family: Family, database: &str, sql: &str) -> (Front, &'static Replication) {
    let servers = calm(family).await;
    let script = format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database};\n{sql}");
    blocking(move || {
        servers.primary().sql(&script).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
    (Front::start(servers, |setup| setup.cluster += "\ncatalog_refresh_s = 1").await, servers)
}

/// A client in that database.
pub async fn within(front: &Front, database: &str) -> Client {
    let mut client = front.client().await;
    client.init_db(database).await.unwrap();
    client
}

/// A plugin could not be uninstalled while a statement of one of its tables is prepared.
#[tokio::test]
async fn definitions_do_not_stay_prepared_behind_their_execution() {
    let servers = blocking(|| Replication::start(ReplicationOptions::new(Family::MariaDb, 0)).unwrap()).await;
    let front = Front::start(&servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "max_connections_per_server = 1".into();
    })
    .await;
    let prepared = || {
        let shown = servers.primary().sql("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").unwrap();
        shown.split_whitespace().last().unwrap().parse::<u32>().unwrap()
    };
    let mut client = front.client().await;
    let create = client.prepare("CREATE OR REPLACE TABLE app.e2e_defined (a INT)").await.unwrap();
    let read = client.prepare("SELECT a FROM app.e2e_defined").await.err();
    assert!(read.is_some() && prepared() == 1);
    for _ in 0..2 {
        client.execute(&create, &[]).await.unwrap();
        assert_eq!(value(&mut client, "SELECT 7").await, "7");
        assert_eq!(prepared(), 0);
    }
    client.close(create).await.unwrap();
    let read = client.prepare("SELECT a FROM app.e2e_defined").await.unwrap();
    client.execute(&read, &[]).await.unwrap();
    assert_eq!(value(&mut client, "SELECT 7").await, "7");
    assert_eq!(prepared(), 1, "reads stay prepared");
}

/// The expected ids are those of the servers themselves.
#[tokio::test]
async fn texts_prepared_by_name_take_ids_as_on_servers() {
    for family in families() {
        let servers = crate::parity::lone(family).await;
        let front = Front::start(servers, |setup| setup.proxy = "workers = 1".into()).await;
        let mut client = front.client().await;
        assert_eq!(client.prepare("SELECT 1").await.unwrap().id, 1, "{family:?}");
        all(&mut client, "PREPARE p FROM 'SELECT 1'").await;
        error(&mut client, "PREPARE p FROM 'SELEC'").await;
        all(&mut client, "DO 1; PREPARE p FROM 'SELECT 2'").await;
        let immediate = family == Family::MariaDb;
        if immediate {
            all(&mut client, "EXECUTE IMMEDIATE 'SELECT 1'").await;
        }
        let expected = 5 + u32::from(immediate);
        assert_eq!(client.prepare("SELECT 1").await.unwrap().id, expected, "{family:?}");
    }
}

#[tokio::test]
async fn local_infile_works_unless_it_is_switched_off() {
    let (allowed, servers) = start(Family::MariaDb, "e2e_infile", "CREATE TABLE loaded (n INT, t TEXT)").await;
    let front = Front::start(servers, |setup| setup.listener = "local_infile = false".into()).await;
    let file = front.folder().join("lines.tsv");
    let content: String = (0..20_000).map(|n| format!("{n}\tline number {n}\n")).collect();
    std::fs::write(&file, content).unwrap();
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE e2e_infile.loaded;", file.display());
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.arg("--local-infile");
    let refused = run(command, &load).await;
    assert!(!refused.good, "{}", refused.out);
    assert!(refused.err.contains("local infile"), "{}", refused.err);
    for round in 1..=2 {
        let mut command = allowed.cli(&client_program(Family::MariaDb));
        command.arg("--local-infile");
        let count = "SELECT ROW_COUNT();";
        let out =
            run(command, &format!("{load}\n{count}\n/* sqluice: primary */ SELECT COUNT(*) FROM e2e_infile.loaded;"))
                .await;
        assert_eq!(out.output(), format!("20000\n{}\n", 20_000 * round));
    }
    // A file that is not there: the client's error, and the connection goes on.
    let mut command = allowed.cli(&client_program(Family::MariaDb));
    command.args(["--local-infile", "--force"]);
    let out =
        run(command, "LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE e2e_infile.loaded;\nSELECT 'still here';")
            .await;
    assert!(out.out.contains("still here"), "{} {}", out.out, out.err);
    let mut command = allowed.cli(&client_program(Family::MariaDb));
    command.arg("--skip-local-infile");
    assert!(!run(command, &load).await.good, "a client that does not allow it");
    allowed.is_pinned_by(&[]).await;
}

/// 20 MB there and back.
pub async fn check_big_packets(family: Family) {
    let (front, _) = start(family, "e2e_big", "CREATE TABLE blobs (id INT PRIMARY KEY, b LONGBLOB)").await;
    let mut client = within(&front, "e2e_big").await;
    let blob: Vec<u8> = (0..20_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hex: String = blob.iter().take(9_000_000).map(|byte| format!("{byte:02x}")).collect();
    all(&mut client, &format!("INSERT INTO blobs VALUES (1, x'{hex}')")).await;
    let insert = client.prepare("INSERT INTO blobs VALUES (?, ?)").await.unwrap();
    client.execute(&insert, &[Parameter::Int(2), Parameter::Bytes(blob.clone())]).await.unwrap();
    // Exactly at the border of one packet, and one byte to each side.
    for (id, length) in [(3, (1 << 24) - 1), (4, 1 << 24), (5, (1 << 24) - 60)] {
        let parameters = [Parameter::Int(id), Parameter::Bytes(blob[..length].to_vec())];
        client.execute(&insert, &parameters).await.unwrap();
    }
    let select = client.prepare("/* sqluice: primary */ SELECT b FROM blobs WHERE id = ?").await.unwrap();
    for (id, length) in [(1, 9_000_000), (2, blob.len()), (3, (1 << 24) - 1), (4, 1 << 24), (5, (1 << 24) - 60)] {
        let text =
            client.query_one(format!("/* sqluice: primary */ SELECT b FROM blobs WHERE id = {id}")).await.unwrap();
        assert!(text.rows[0][0].as_deref() == Some(&blob[..length]), "text {id}");
        let binary = client.execute(&select, &[Parameter::Int(id)]).await.unwrap();
        assert!(binary[0].rows[0][0].as_deref() == Some(&blob[..length]), "binary {id}");
    }
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
}

#[tokio::test]
async fn packets_of_twenty_megabytes_pass_both_ways() {
    check_big_packets(Family::MariaDb).await;
}

#[tokio::test]
async fn a_statement_longer_than_allowed_is_refused() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.listener = "max_packet = \"64KiB\"".into()).await;
    let mut client = front.client().await;
    assert_eq!(value(&mut client, &format!("SELECT LENGTH('{}')", "x".repeat(60_000))).await, "60000");
    let refused = client.query(format!("SELECT '{}'", "x".repeat(100_000))).await.unwrap_err();
    assert_eq!(refused.code(), Some(1153), "{refused}");
    assert_eq!(value(&mut front.client().await, "SELECT 1").await, "1");
}

#[tokio::test]
async fn calls_give_all_results_and_functions_go_where_they_must() {
    let (front, _) = start(
        Family::MariaDb,
        "e2e_routines",
        "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2);
         DELIMITER //
         CREATE PROCEDURE several(IN a INT, OUT b INT) BEGIN SELECT a; SELECT n FROM t ORDER BY n; SET b = a * 2; SELECT 'end'; END//
         CREATE FUNCTION reading() RETURNS INT READS SQL DATA BEGIN RETURN (SELECT COUNT(*) FROM t); END//
         CREATE FUNCTION writing(x INT) RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO t VALUES (x); RETURN x; END//
         CREATE FUNCTION who() RETURNS TEXT READS SQL DATA BEGIN RETURN @@server_id; END//
         DELIMITER ;",
    )
    .await;
    let mut client = within(&front, "e2e_routines").await;
    let results = all(&mut client, "CALL several(7, @out)").await;
    assert_eq!(results.len(), 4, "{results:?}");
    assert_eq!(results[1].rows.len(), 2);
    assert_eq!(results[2].scalar().as_deref(), Some("end"));
    assert_eq!(value(&mut client, "SELECT @out").await, "14");
    let call = client.prepare("CALL several(?, @out2)").await.unwrap();
    for a in [3, 4] {
        let results = client.execute(&call, &[Parameter::Int(a)]).await.unwrap();
        assert_eq!(results[0].scalar().as_deref(), Some(&*a.to_string()));
        assert_eq!(value(&mut client, "SELECT @out2").await, (a * 2).to_string());
    }
    let mut fresh = within(&front, "e2e_routines").await;
    until("the functions to be known", async || (value(&mut fresh, "SELECT who()").await != "1").then_some(())).await;
    let before = front.metrics().await;
    for _ in 0..10 {
        assert_eq!(value(&mut fresh, "SELECT reading()").await, "2");
        assert_ne!(value(&mut fresh, "SELECT e2e_routines.who()").await, "1");
    }
    let after = front.metrics().await;
    assert_eq!(after.reads("db1") - before.reads("db1"), 0.0);
    assert_eq!(value(&mut fresh, "SELECT writing(9)").await, "9");
    let prepared = fresh.prepare("SELECT writing(?)").await.unwrap();
    fresh.execute(&prepared, &[Parameter::Int(10)]).await.unwrap();
    assert_eq!(value(&mut fresh, "/* sqluice: primary */ SELECT COUNT(*) FROM t").await, "4");
}

#[tokio::test]
async fn a_slow_client_stops_its_server_and_fills_no_memory() {
    let (front, servers) = start(Family::MariaDb, "e2e_slow", "CREATE TABLE t (n INT)").await;
    let mut slow = front.client().await;
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", front.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    };
    let before = resident();
    let mut payload = vec![Command::Query.byte()];
    payload.extend_from_slice(b"SELECT REPEAT('x', 1000000) FROM seq_1_to_300 /* e2e_slow */");
    slow.send_raw(&payload).await.unwrap();
    until("the server to wait for the client", async || {
        blocking(move || {
            let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                       WHERE INFO LIKE '%e2e_slow %' AND STATE LIKE 'Writing to net%' AND TIME_MS > 500 \
                       AND ID <> CONNECTION_ID()";
            servers.servers().iter().any(|server| server.sql(sql).unwrap().trim() == "1").then_some(())
        })
        .await
    })
    .await;
    let grown = resident() - before;
    assert!(grown < 20, "{grown} MiB for a client that does not read");
    // Others are served meanwhile, and the slow one gets every byte when it reads.
    assert_eq!(value(&mut front.client().await, "SELECT 1").await, "1");
    let mut bytes = 0;
    loop {
        let (_, packet) = slow.read_raw().await.unwrap();
        bytes += packet.len();
        if packet.first() == Some(&0xfe) && packet.len() < 100 && bytes > 1000 {
            break;
        }
    }
    assert!(bytes > 300_000_000, "{bytes}");
    assert_eq!(value(&mut slow, "SELECT 2").await, "2");
    assert!(resident() - before < 20);
}

#[tokio::test]
async fn several_statements_at_once_see_each_other() {
    let (front, _) =
        start(Family::MariaDb, "e2e_multi", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)").await;
    let mut client = within(&front, "e2e_multi").await;
    let results =
        all(&mut client, "INSERT INTO t (v) VALUES (5); SELECT v FROM t; SET @a = 4; SELECT @a, LAST_INSERT_ID()")
            .await;
    assert_eq!(results[1].scalar().as_deref(), Some("5"), "what was written is read in the same packet");
    assert_eq!(results[3].rows[0][1].as_deref(), Some(&b"1"[..]));
    let failed = client.query("SELECT 1; SELECT nothing_here; INSERT INTO t (v) VALUES (6)").await.unwrap_err();
    assert_eq!(failed.code(), Some(1054));
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) FROM t").await, "1");
    let results = all(&mut client, "BEGIN; INSERT INTO t (v) VALUES (7)").await;
    assert_eq!(results.len(), 2);
    front.is_pinned_by(&["transaction"]).await;
    all(&mut client, "ROLLBACK; SELECT 1").await;
    front.is_pinned_by(&[]).await;
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) FROM t").await, "1");
}

#[tokio::test]
async fn old_commands_are_answered() {
    let (front, _) = start(Family::MariaDb, "e2e_old", "CREATE TABLE wide (a INT, b TEXT, c DATE)").await;
    let mut client = within(&front, "e2e_old").await;
    let mut payload = vec![Command::FieldList.byte()];
    payload.extend_from_slice(b"wide\0%");
    client.send_raw(&payload).await.unwrap();
    let mut columns = 0;
    // Columns as they are, then an EOF (0xfe, at most 8 bytes).
    loop {
        let (_, packet) = client.read_raw().await.unwrap();
        assert_ne!(packet.first(), Some(&0xff), "{}", String::from_utf8_lossy(&packet));
        if packet.first() == Some(&0xfe) && packet.len() < 9 {
            break;
        }
        columns += 1;
    }
    assert_eq!(columns, 3);
    client.send_raw(&[Command::Statistics.byte()]).await.unwrap();
    let (_, text) = client.read_raw().await.unwrap();
    assert!(String::from_utf8_lossy(&text).starts_with("Uptime"), "{}", String::from_utf8_lossy(&text));
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
    // The ordinary client completes names with COM_FIELD_LIST and shows COM_STATISTICS.
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.arg("--auto-rehash");
    let out = run(command, "\\u e2e_old\n\\s\nSELECT 'done';\n").await.output();
    assert!(out.contains("Uptime:") && out.contains("done"), "{out}");
    client.send_raw(&[0x4f]).await.unwrap();
    let (_, packet) = client.read_raw().await.unwrap();
    assert_eq!(packet[..3], [0xff, 0x17, 0x04], "1047 for a command that nobody knows");
    assert_eq!(value(&mut client, "SELECT 2").await, "2");
}

/// Whether the primary answers this client's reads.
async fn at_primary(front: &Front, client: &mut Client) -> bool {
    let before = front.metrics().await;
    all(client, "SELECT v FROM e2e_core.t").await;
    client.ping().await.unwrap();
    let after = front.metrics().await;
    after.reads("db1") > before.reads("db1")
}

/// Reads elsewhere, transactions at the primary, errors where they belong.
pub async fn check_core(family: Family) {
    let (front, servers) = start(
        family,
        "e2e_core",
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO t (v) VALUES (1)",
    )
    .await;
    let mut client = within(&front, "e2e_core").await;
    assert!(!at_primary(&front, &mut client).await);
    all(&mut client, "BEGIN").await;
    assert!(at_primary(&front, &mut client).await);
    all(&mut client, "INSERT INTO t (v) VALUES (2)").await;
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM t").await, "2");
    all(&mut client, "ROLLBACK").await;
    all(&mut client, "SET autocommit = 0").await;
    assert!(at_primary(&front, &mut client).await);
    all(&mut client, "COMMIT").await;
    all(&mut client, "SET autocommit = 1").await;
    // The replicas must first have the data that it has read on the primary.
    until("replicas to serve the session again", async || (!at_primary(&front, &mut client).await).then_some(())).await;
    let id = client.query_one("INSERT INTO t (v) VALUES (3)").await.unwrap().last_insert_id;
    assert_eq!(value(&mut client, "SELECT LAST_INSERT_ID()").await, id.to_string());
    all(&mut client, "CREATE TEMPORARY TABLE own (n INT)").await;
    all(&mut client, "INSERT INTO own VALUES (4)").await;
    assert_eq!(value(&mut client, "SELECT n FROM own").await, "4");
    all(&mut client, "DROP TEMPORARY TABLE own").await;
    assert_eq!(error(&mut client, "SELECT * FROM nowhere").await.0, 1146);
    assert_eq!(error(&mut client, "SELEC 1").await.0, 1064);
    let results = all(&mut client, "SELECT 1; SELECT 2; SET @a = 3; SELECT @a").await;
    assert_eq!(results[3].scalar().as_deref(), Some("3"));
    let insert = client.prepare("INSERT INTO t (v) VALUES (?)").await.unwrap();
    for n in 10..20 {
        client.execute(&insert, &[Parameter::Int(n)]).await.unwrap();
    }
    let count = client.prepare("/* sqluice: primary */ SELECT COUNT(*) FROM t WHERE v >= ?").await.unwrap();
    assert_eq!(client.execute(&count, &[Parameter::Int(10)]).await.unwrap()[0].scalar().as_deref(), Some("10"));
    client.reset_connection().await.unwrap();
    assert_eq!(value(&mut client, "SELECT @a").await, "NULL");
    let sleeper = front.client().await;
    let id = sleeper.greeting().connection_id;
    let sleeping = tokio::spawn(async move {
        let mut sleeper = sleeper;
        let _ = sleeper.query("SELECT SLEEP(30)").await;
        sleeper
    });
    until("the kill to be felt", async || {
        // It may come before the statement, and once the sleeper has gone there is nobody to kill.
        let reported = client.query(format!("KILL QUERY {id}")).await.map_err(|error| error.code());
        assert!(matches!(reported, Ok(_) | Err(Some(1094))), "{reported:?}");
        sleeping.is_finished().then_some(())
    })
    .await;
    assert_eq!(value(&mut sleeping.await.unwrap(), "SELECT 'awake'").await, "awake");
    front.is_pinned_by(&[]).await;
    let mut out = run(front.cli(&client_program(family)), "SELECT 'from the ordinary client'").await.output();
    assert_eq!(out.split_off(out.len() - 1), "\n");
    blocking(|| servers.wait_in_sync(Duration::from_secs(20)).unwrap()).await;
    all(&mut client, "USE e2e_core").await;
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM t").await, "12");
}

#[tokio::test]
async fn the_core_works() {
    check_core(Family::MariaDb).await;
}
