//! State that a session has on the server without a word in its text stays its own over shared connections.

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits};

use crate::follow::direct;
use crate::login::accounts;
use crate::statements::{start, within};
use crate::support::{Front, SOON, all, app, blocking, calm, error, families, value};

#[tokio::test]
async fn what_lives_on_one_connection_stays_there() {
    let (front, _) =
        start(Family::MariaDb, "e2e_kept", "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await;
    let (mut client, mut other) = (within(&front, "e2e_kept").await, within(&front, "e2e_kept").await);
    // Locks by name.
    assert_eq!(value(&mut client, "SELECT GET_LOCK('e2e', 0)").await, "1");
    assert_eq!(value(&mut other, "SELECT GET_LOCK('e2e', 0)").await, "0");
    assert_eq!(value(&mut client, "SELECT RELEASE_LOCK('e2e')").await, "1");
    assert_eq!(value(&mut other, "SELECT GET_LOCK('e2e', 0), RELEASE_LOCK('e2e')").await, "1");
    // Temporary tables.
    all(&mut client, "CREATE TEMPORARY TABLE own AS SELECT 5 AS n").await;
    assert_eq!(value(&mut client, "SELECT n FROM own").await, "5");
    assert_eq!(error(&mut other, "SELECT n FROM own").await.0, 1146);
    all(&mut client, "DROP TEMPORARY TABLE own").await;
    // Statements prepared as text.
    all(&mut client, "PREPARE p FROM 'SELECT ? + 1'").await;
    all(&mut client, "SET @five = 5").await;
    assert_eq!(value(&mut client, "EXECUTE p USING @five").await, "6");
    assert_eq!(error(&mut other, "EXECUTE p USING @five").await.0, 1243);
    all(&mut client, "DEALLOCATE PREPARE p").await;
    assert_eq!(value(&mut client, "EXECUTE IMMEDIATE 'SELECT 8'").await, "8");
    // Handlers.
    all(&mut client, "HANDLER t OPEN").await;
    assert_eq!(value(&mut client, "HANDLER t READ FIRST").await, "1");
    assert_eq!(value(&mut client, "HANDLER t READ NEXT").await, "2");
    all(&mut client, "HANDLER t CLOSE").await;
    // Table locks.
    all(&mut client, "LOCK TABLES t WRITE").await;
    let blocked = tokio::spawn(async move {
        let result = other.query("SET STATEMENT lock_wait_timeout = 1 FOR DELETE FROM t").await;
        (other, result.unwrap_err().code())
    });
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM t").await, "2");
    let (mut other, reported) = blocked.await.unwrap();
    assert_eq!(reported, Some(1205));
    all(&mut client, "UNLOCK TABLES").await;
    // XA.
    for text in ["XA START 'e2e'", "INSERT INTO t VALUES (3)", "XA END 'e2e'", "XA PREPARE 'e2e'"] {
        all(&mut client, text).await;
    }
    all(&mut client, "XA COMMIT 'e2e'").await;
    assert_eq!(value(&mut other, "/* sqluice: primary */ SELECT COUNT(*) FROM t").await, "3");
    for client in [&mut client, &mut other] {
        assert_eq!(value(client, "SELECT 1").await, "1");
    }
    let metrics = front.metrics().await;
    front.is_pinned_by(&[]).await;
    assert_eq!(metrics.sum("sqluice_own_errors_total", &[]), 0.0);
}

#[tokio::test]
async fn what_the_last_statement_left_belongs_to_its_client() {
    let (front, servers) =
        start(Family::MariaDb, "e2e_past", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TINYINT)").await;
    drop(front);
    let front = Front::start(servers, |setup| setup.pool = "max_connections_per_server = 2".into()).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(within(&front, "e2e_past").await);
    }
    let mut ids = Vec::new();
    for client in &mut clients {
        ids.push(client.query_one("INSERT INTO t (v) VALUES (1), (2)").await.unwrap().last_insert_id);
    }
    for (client, id) in clients.iter_mut().zip(&ids) {
        assert_eq!(value(client, "SELECT LAST_INSERT_ID()").await, id.to_string());
        all(client, &format!("INSERT INTO t (v) SELECT LAST_INSERT_ID() = {id}")).await;
    }
    assert_eq!(value(&mut clients[0], "/* sqluice: primary */ SELECT SUM(v) FROM t").await, (8 * 3 + 8).to_string());
    for client in &mut clients[..4] {
        all(client, "SELECT CAST('12x' AS SIGNED)").await;
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let rows = client.query_one("SHOW WARNINGS").await.unwrap().rows;
        assert_eq!(rows.len(), usize::from(number < 4), "{number}: {rows:?}");
    }
    let prepared = clients[0].prepare("SELECT LAST_INSERT_ID()").await.unwrap();
    all(&mut clients[1], "INSERT INTO t (v) VALUES (3)").await;
    all(&mut clients[0], "INSERT INTO t (v) VALUES (4)").await;
    let own = value(&mut clients[0], "SELECT LAST_INSERT_ID()").await;
    all(&mut clients[1], "INSERT INTO t (v) VALUES (5)").await;
    let result = clients[0].execute(&prepared, &[]).await.unwrap();
    assert_eq!(result[0].scalar().as_deref(), Some(&*own), "prepared");
    let updated = clients[2].query_one("UPDATE t SET v = 9 WHERE v = 4").await.unwrap();
    assert_eq!((updated.affected, &*updated.info), (1, "Rows matched: 1  Changed: 1  Warnings: 0"));
}

#[tokio::test]
async fn the_id_that_a_session_sets_is_the_one_that_it_reads() {
    let (front, _) = start(Family::MariaDb, "e2e_identity", "CREATE TABLE t (id INT)").await;
    let mut client = within(&front, "e2e_identity").await;
    for (set, id) in [("7", "7"), ("-1", "0"), ("TRUE", "1"), ("FALSE", "0"), ("@@identity + 5", "5"), ("0", "0")] {
        all(&mut client, &format!("SET @@session.identity = {set}")).await;
        assert_eq!(value(&mut client, "SELECT @@identity").await, id, "{set}");
        assert_eq!(value(&mut client, "SELECT LAST_INSERT_ID()").await, id, "{set}");
    }
}

#[tokio::test]
async fn completion_type_release_ends_the_session_with_its_transaction() {
    for family in families() {
        let (front, _) = start(family, "e2e_completion", "CREATE TABLE t (id INT)").await;
        for (set, end, ends) in [
            ("'RELEASE'", "COMMIT", true),
            ("2", "ROLLBACK", true),
            ("2", "COMMIT NO RELEASE", false),
            ("DEFAULT", "COMMIT", false),
        ] {
            let mut client = within(&front, "e2e_completion").await;
            all(&mut client, &format!("SET completion_type = {set}")).await;
            all(&mut client, "BEGIN").await;
            all(&mut client, "INSERT INTO t VALUES (1)").await;
            all(&mut client, end).await;
            assert_eq!(client.query_one("SELECT 1").await.is_err(), ends, "{family:?}: {set}, {end}");
        }
    }
}

#[tokio::test]
async fn a_prepared_release_ends_the_session_when_it_is_executed() {
    for family in families() {
        let (front, _) = start(family, "e2e_release", "CREATE TABLE t (id INT)").await;
        let mut client = within(&front, "e2e_release").await;
        all(&mut client, "SET autocommit = 0").await;
        all(&mut client, "SAVEPOINT a").await;
        for end in ["ROLLBACK RELEASE", "COMMIT AND NO CHAIN RELEASE"] {
            let prepared = client.prepare(end).await.unwrap();
            assert_eq!(value(&mut client, "SELECT 7").await, "7", "{family:?}: {end}");
            all(&mut client, "ROLLBACK TO a").await;
            if end.starts_with("COMMIT") {
                all(&mut client, "INSERT INTO t VALUES (8)").await;
                client.execute(&prepared, &[]).await.unwrap();
            }
        }
        assert!(client.query_one("SELECT 1").await.is_err(), "{family:?}");
        // Another session's write: replicas may lack it still.
        let written = "/* sqluice: primary */ SELECT id FROM t";
        assert_eq!(value(&mut within(&front, "e2e_release").await, written).await, "8", "{family:?}");
    }
}

#[tokio::test]
async fn a_profile_has_no_statements_of_sqluice() {
    let schema = "e2e_profiled";
    let function = "CREATE FUNCTION f() RETURNS INT RETURN FOUND_ROWS()";
    let (front, servers) = start(Family::MariaDb, schema, function).await;
    let mut shown = Vec::new();
    let target = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
    for target in [target, front.target()] {
        let mut client = Client::connect(&target, app(), Limits::default()).await.unwrap();
        client.init_db(schema).await.unwrap();
        for statement in
            ["SELECT 1 UNION SELECT 2", "SET @x = (SELECT 5)", "SET profiling = ON", "SELECT f()", "SELECT f()"]
        {
            all(&mut client, statement).await;
        }
        let profiles = client.query_one("SHOW PROFILES").await.unwrap();
        shown.push(
            (0..profiles.rows.len())
                .map(|row| profiles.text(row, "Query").map(Into::into))
                .collect::<Vec<Option<String>>>(),
        );
    }
    assert_eq!(shown[0], shown[1]);
}

#[tokio::test]
async fn what_routines_do_to_the_session_is_kept() {
    let (front, servers) = start(
        Family::MariaDb,
        "e2e_inside",
        "CREATE TABLE t (n INT); INSERT INTO t VALUES (1);
         DELIMITER //
         CREATE PROCEDURE variable() BEGIN SET @inside = 5; END//
         CREATE PROCEDURE temporary() BEGIN CREATE TEMPORARY TABLE own AS SELECT 6 AS n; END//
         CREATE PROCEDURE mode() BEGIN SET SESSION sql_mode = 'ANSI_QUOTES', SESSION lock_wait_timeout = 77; END//
         CREATE PROCEDURE begins() BEGIN START TRANSACTION; INSERT INTO t VALUES (2); END//
         CREATE PROCEDURE locks() BEGIN DO GET_LOCK('e2e_inside', 0); END//
         CREATE FUNCTION sets() RETURNS INT BEGIN SET @by_function = 8; RETURN 1; END//
         CREATE TABLE triggering (n INT)//
         CREATE TRIGGER tr BEFORE INSERT ON triggering FOR EACH ROW SET @by_trigger = 7//
         DELIMITER ;",
    )
    .await;
    let mut wrong = Vec::new();
    for (change, question) in [
        ("CALL variable()", "SELECT @inside"),
        ("CALL temporary()", "SELECT n FROM own"),
        ("CALL mode()", "SELECT @@sql_mode, @@lock_wait_timeout"),
        ("CALL begins()", "SELECT COUNT(*) FROM t"),
        ("CALL locks()", "SELECT IS_USED_LOCK('e2e_inside') > 0"),
        ("SELECT sets()", "SELECT @by_function"),
        ("INSERT INTO triggering VALUES (1)", "SELECT @by_trigger"),
        ("PREPARE p FROM 'CALL variable()'; EXECUTE p; DEALLOCATE PREPARE p", "SELECT @inside"),
        ("BEGIN NOT ATOMIC SET @compound = 9; END", "SELECT @compound"),
        ("SELECT n FROM t WHERE (@assigned := n) > 0 LIMIT 1", "SELECT @assigned"),
        ("SELECT MAX(n) FROM t INTO @into", "SELECT @into"),
    ] {
        // The server's own reply is right.
        let script = format!("USE e2e_inside\nDELIMITER //\n{change}//\n{question}//\n");
        let right = blocking(move || servers.primary().sql(&script)).await.unwrap();
        let right = right.lines().last().unwrap_or_default().to_owned();
        let mut client = within(&front, "e2e_inside").await;
        all(&mut client, change).await;
        let reported = match client.query_one(question).await {
            Ok(result) => {
                let text = |value: &Option<Vec<u8>>| {
                    value.as_deref().map_or("NULL".into(), |value| String::from_utf8_lossy(value).into_owned())
                };
                result.rows[0].iter().map(text).collect::<Vec<_>>().join("\t")
            }
            Err(error) => error.to_string(),
        };
        if reported != right {
            wrong.push(format!("{change}; {question}: {reported}, not {right}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn prepared_statements_notice_changed_tables() {
    let (front, _) = start(Family::MariaDb, "e2e_ddl", "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    let (mut client, mut other) = (within(&front, "e2e_ddl").await, within(&front, "e2e_ddl").await);
    let statement = client.prepare("/* sqluice: primary */ SELECT * FROM t").await.unwrap();
    for columns in 1..5 {
        let result = &client.execute(&statement, &[]).await.unwrap()[0];
        assert_eq!(result.columns.len(), columns);
        assert_eq!(result.rows[0].len(), columns);
        all(&mut other, &format!("ALTER TABLE t ADD COLUMN c{columns} VARCHAR(20) DEFAULT 'new'")).await;
    }
    all(&mut other, "DROP TABLE t").await;
    assert_eq!(client.execute(&statement, &[]).await.unwrap_err().code(), Some(1146));
    all(&mut other, "CREATE TABLE t (z TEXT)").await;
    assert_eq!(client.execute(&statement, &[]).await.unwrap()[0].columns[0].name, "z");
}

#[tokio::test]
async fn what_a_connection_counts_is_the_session_s_own() {
    let (front, _) = start(Family::MariaDb, "e2e_counts", "CREATE TABLE t (id INT PRIMARY KEY)").await;
    let (mut client, mut other) = (within(&front, "e2e_counts").await, within(&front, "e2e_counts").await);
    let questions = async |client: &mut Client| {
        let reported = client.query_one("SHOW STATUS LIKE 'Questions'").await.unwrap();
        reported.text(0, "Value").unwrap().parse::<u32>().unwrap()
    };
    all(&mut client, "FLUSH STATUS").await;
    let before = questions(&mut client).await;
    for n in 0..5 {
        all(&mut client, &format!("INSERT INTO t VALUES ({n})")).await;
        all(&mut other, "SELECT COUNT(*) FROM t").await;
    }
    assert_eq!(questions(&mut client).await, before + 6);
    front.is_pinned_by(&["status_counters"]).await;
    client.reset_connection().await.unwrap();
    front.is_pinned_by(&[]).await;
    // The trace has this session's statements.
    all(&mut client, "SET profiling = 1").await;
    all(&mut client, "SELECT COUNT(*) AS traced FROM t").await;
    all(&mut other, "SELECT COUNT(*) AS other FROM t").await;
    let profiles = client.query_one("SHOW PROFILES").await.unwrap();
    let queries: Vec<_> = (0..profiles.rows.len()).filter_map(|row| profiles.text(row, "Query")).collect();
    assert!(queries.last().unwrap().contains("traced"), "{queries:?}");
    front.is_pinned_by(&["tracing"]).await;
    // The list outlives the variable.
    all(&mut client, "SET profiling = 0").await;
    all(&mut other, "SELECT COUNT(*) AS other FROM t").await;
    front.is_pinned_by(&["tracing"]).await;
    let profiles = client.query_one("SHOW PROFILES").await.unwrap();
    let queries: Vec<_> = (0..profiles.rows.len()).filter_map(|row| profiles.text(row, "Query")).collect();
    assert!(queries.iter().any(|query| query.contains("traced")), "{queries:?}");
    client.reset_connection().await.unwrap();
    front.is_pinned_by(&[]).await;
}

/// Variables that change others, in an order that is not that of their names; the session then comes to another connection.
#[tokio::test]
async fn a_variable_that_another_one_has_changed_is_carried_along() {
    for family in families() {
        let servers = calm(family).await;
        let routine = "CREATE PROCEDURE app.e2e_joins() SET SESSION max_join_size = 1000";
        accounts(servers, &format!("DROP PROCEDURE IF EXISTS app.e2e_joins; {routine}")).await;
        let front = Front::start(servers, |setup| {
            setup.listener = "split = \"primary\"".into();
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
        })
        .await;
        let mut columns = "@@max_join_size, @@sql_big_selects, @@character_set_server, @@collation_server, \
                           @@character_set_database, @@collation_database"
            .to_owned();
        let mut cases = vec![
            ["SET sql_big_selects = 1", "SET max_join_size = 1000"],
            ["SET max_join_size = 1000", "SET sql_big_selects = 1"],
            ["SET max_join_size = 1000", "SET max_join_size = DEFAULT"],
            ["SET sql_big_selects = 1", "CALL app.e2e_joins()"],
            ["SET collation_server = latin1_bin", "SET character_set_server = utf8mb4"],
            ["SET character_set_server = utf8mb4", "SET collation_server = latin1_bin"],
        ];
        if family == Family::MariaDb {
            columns += ", @@log_slow_filter, @@log_queries_not_using_indexes, @@log_slow_disabled_statements, \
                        @@log_slow_admin_statements, @@log_slow_slave_statements, @@old, @@old_mode";
            cases.extend([
                ["SET collation_database = latin1_bin", "SET character_set_database = utf8mb4"],
                ["SET character_set_database = utf8mb4", "SET collation_database = latin1_bin"],
                ["SET log_slow_filter = 'admin'", "SET log_queries_not_using_indexes = 1"],
                ["SET log_queries_not_using_indexes = 1", "SET log_slow_filter = 'admin'"],
                ["SET @@log_queries_not_using_indexes = 1", "SET @@log_slow_filter = ''"],
                ["SET log_slow_disabled_statements = 'admin,slave'", "SET log_slow_slave_statements = 1"],
                ["SET log_slow_admin_statements = 0", "SET log_slow_disabled_statements = 'call'"],
                ["SET old_mode = ''", "SET old = 1"],
            ]);
        }
        for case in cases {
            let (mut directly, mut client) = (direct(servers).await, front.client().await);
            for set in case {
                all(&mut directly, set).await;
                all(&mut client, set).await;
            }
            // It takes the connection that was used last.
            let mut other = front.client().await;
            all(&mut other, "BEGIN").await;
            all(&mut other, "SELECT 1").await;
            let read = format!("SELECT CONCAT_WS('|', {columns})");
            assert_eq!(value(&mut client, &read).await, value(&mut directly, &read).await, "{family:?}: {case:?}");
            all(&mut other, "ROLLBACK").await;
        }
    }
}
