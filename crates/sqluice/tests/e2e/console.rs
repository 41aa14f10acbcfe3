//! The SQL console: clients, views with real data, and the limits.

mod clients;

use std::path::Path;
use std::time::{Duration, Instant};

use lab::Family;
use net::client::{ConnectError, Target};
use net::packets;
use net::query::{self, Client, Limits};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::auth::Credential;

use crate::support::{Front, SOON, all, any_certificate, calm, error, http_with, until, value};

const KEY: &str = "open sesame 'quoted'";

/// A console in front of servers that no test hurts.
async fn start(family: Family, more: &str) -> Front {
    let servers = calm(family).await;
    Front::start(servers, |setup| {
        setup.admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"");
        setup.more = more.into();
    })
    .await
}

fn target(front: &Front) -> Target {
    Target::plain(front.address_of("console").parse().unwrap(), SOON)
}

async fn login(front: &Front, user: &str, key: &str) -> Result<Client, ConnectError> {
    let login = query::login(user, Credential::password(key));
    Client::connect(&target(front), login, Limits { timeout: SOON, ..Limits::default() }).await
}

async fn console(front: &Front) -> Client {
    admin(front, KEY).await
}

/// The console of a program with this key.
pub async fn admin(front: &Front, key: &str) -> Client {
    login(front, "admin", key).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The figures of a listener are those of the metrics.
async fn listeners(front: &Front, sql: &mut Client) {
    let row = sql.query_one("SELECT * FROM listeners").await.unwrap();
    let names: Vec<&str> = row.columns.iter().map(|column| column.name.as_str()).collect();
    let of = |name: &str| {
        let place = names.iter().position(|known| *known == name).unwrap();
        row.rows[0][place].as_deref().map(|value| String::from_utf8_lossy(value).into_owned()).unwrap()
    };
    let is = (row.rows.len(), of("listener"), of("cluster"), of("address"), of("sessions"));
    assert_eq!(is, (1, "app".into(), "main".into(), "127.0.0.1:0".into(), "1".into()));
    let page = http_with(&front.admin, "GET", "/metrics", None).await.1;
    for (column, metric) in [
        ("logins", "sqluice_listener_logins_total{cluster=\"main\",listener=\"app\"}"),
        ("login_failures", "sqluice_listener_login_failures_total{cluster=\"main\",listener=\"app\"}"),
        ("received_bytes", "sqluice_listener_received_bytes_total{cluster=\"main\",listener=\"app\"}"),
        ("sent_bytes", "sqluice_listener_sent_bytes_total{cluster=\"main\",listener=\"app\"}"),
        ("reads", "sqluice_listener_queries_total{cluster=\"main\",listener=\"app\",kind=\"read\"}"),
        ("writes", "sqluice_listener_queries_total{cluster=\"main\",listener=\"app\",kind=\"write\"}"),
        ("cached", "sqluice_listener_queries_total{cluster=\"main\",listener=\"app\",kind=\"cached\"}"),
        ("errors", "sqluice_listener_errors_total{cluster=\"main\",listener=\"app\"}"),
        ("sessions_max", "sqluice_listener_sessions_max{listener=\"app\"}"),
    ] {
        let line = format!("{metric} {}", of(column));
        assert!(page.lines().any(|known| known == line), "{line}");
    }
    assert!(of("reads") == "6" && of("writes") == "2" && of("errors") == "1", "{row:?}");
    let shown = sql.query_one("SHOW TABLES LIKE 'listeners'").await.unwrap();
    assert_eq!(shown.rows.len(), 1);
}

/// A number that a statement gives.
async fn number(client: &mut Client, sql: &str) -> i64 {
    let text = value(client, sql).await;
    text.parse().unwrap_or_else(|_| panic!("{sql}: {text}"))
}

#[tokio::test]
async fn views_show_what_really_happens() {
    for family in crate::support::families() {
        views(family).await;
    }
}

async fn views(family: Family) {
    let rule = "[events]\nqueries = \"all\"\n[[rule]]\nname = \"mine\"\ntable = \"console_t\"\nroute = \"primary\"\n";
    let (front, database) = (start(family, rule).await, "e2e_console");
    let mut sql = console(&front).await;
    let mut client = front.client().await;
    all(&mut client, &format!("CREATE DATABASE IF NOT EXISTS {database}")).await;
    client.init_db(database).await.unwrap();
    all(&mut client, "CREATE TABLE IF NOT EXISTS console_t (id INT)").await;
    for n in 0..5 {
        all(&mut client, &format!("SELECT {n}, 'console_marker' FROM console_t")).await;
    }
    assert_eq!(error(&mut client, "SELECT * FROM console_nothing").await.0, 1146);
    let digest = "text LIKE 'SELECT ?, ? FROM console\\_t'";
    let counted = format!("SELECT sum(statements) FROM digests WHERE {digest}");
    assert_eq!(number(&mut sql, &counted).await, 5);
    let counted =
        "SELECT sum(count_star) FROM stats.stats_mysql_query_digest WHERE digest_text LIKE '%FROM console\\_t'";
    assert_eq!(number(&mut sql, counted).await, 5);
    let hostgroup = format!("SELECT hostgroup FROM stats_mysql_query_digest WHERE digest_{digest}");
    assert_eq!(number(&mut sql, &hostgroup).await, 0, "the rule sends it to the primary");
    assert_eq!(number(&mut sql, "SELECT sum(errors) FROM errors WHERE code = 1146").await, 1);
    assert_eq!(number(&mut sql, "SELECT count_star FROM stats_mysql_errors WHERE errno = 1146").await, 1);
    assert_eq!(number(&mut sql, "SELECT hits FROM rules WHERE rule = 'mine'").await, 6);
    assert_eq!(number(&mut sql, "SELECT hits FROM stats_mysql_query_rules WHERE rule_id = 1").await, 6);
    assert_eq!(number(&mut sql, "SELECT destination_hostgroup FROM runtime_mysql_query_rules").await, 0);
    // Servers and pools, joined: each server is the one of its row.
    let joined =
        "SELECT count(*) FROM servers s JOIN pools p USING (cluster, server) WHERE s.role = 'primary' AND p.writes > 0";
    assert_eq!(number(&mut sql, joined).await, 1);
    let grouped = "SELECT role, count(*) AS n FROM servers WHERE health = 'up' GROUP BY role ORDER BY n DESC LIMIT 1";
    assert_eq!(value(&mut sql, &format!("SELECT role FROM ({grouped})")).await, "replica");
    assert_eq!(number(&mut sql, "SELECT count(*) FROM main.mysql_servers WHERE status = 'ONLINE'").await, 3);
    let pool = "SELECT sum(ConnUsed + ConnFree) FROM stats_mysql_connection_pool WHERE hostgroup IN (0, 1)";
    assert!(number(&mut sql, pool).await >= 1);
    let queries = "SELECT Queries FROM stats_mysql_connection_pool WHERE hostgroup = 0";
    assert!(number(&mut sql, queries).await >= 6);
    assert_eq!(value(&mut sql, "SELECT primary_server FROM clusters").await, "db1");
    listeners(&front, &mut sql).await;
    let questions = "SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name = 'Questions'";
    assert!(number(&mut sql, questions).await >= 7);
    let selects = "SELECT Total_cnt, cnt_100us + cnt_500us + cnt_1ms + cnt_5ms + cnt_10ms + cnt_50ms + cnt_100ms + cnt_500ms + cnt_1s \
                   + cnt_5s + cnt_10s + cnt_INFs AS sized FROM stats_mysql_commands_counters WHERE Command = 'SELECT'";
    assert!(number(&mut sql, &format!("SELECT sized FROM ({selects})")).await >= 5);
    assert_eq!(number(&mut sql, "SELECT frontend_connections FROM stats_mysql_users").await, 1);
    assert_eq!(value(&mut sql, "SELECT value FROM settings WHERE setting = 'admin.key'").await, "(hidden)");
    assert!(number(&mut sql, "SELECT sum(sessions) FROM workers").await >= 1);
    let marked = "SELECT count(*) FROM events WHERE kind = 'query' AND form LIKE '%FROM console\\_t'";
    until("the events", async || (number(&mut sql, marked).await == 5).then_some(())).await;
    let failed = "SELECT count(*) FROM events WHERE form LIKE '%console\\_nothing' AND error_code = 1146";
    until("the event of the error", async || (number(&mut sql, failed).await == 1).then_some(())).await;
    kills(&front, &mut sql, client).await;
}

/// The statements of `proxysql_exporter`, which reads each value as a text or a number and none as NULL.
#[tokio::test]
async fn an_exporter_for_proxysql_gets_a_value_for_each_metric() {
    let (front, database) = (start(Family::MariaDb, "").await, "e2e_console_exporter");
    let mut sql = console(&front).await;
    let mut client = front.client().await;
    all(&mut client, &format!("CREATE DATABASE IF NOT EXISTS {database}")).await;
    let received = "SELECT sum(Bytes_data_recv) FROM stats_mysql_connection_pool";
    let before = number(&mut sql, received).await;
    all(&mut client, "SELECT REPEAT('x', 50000)").await;
    client.ping().await.unwrap();
    let grown = number(&mut sql, received).await - before;
    assert!((50_000..60_000).contains(&grown), "{grown}");
    let pool = "SELECT hostgroup, srv_host, srv_port, * FROM stats_mysql_connection_pool";
    let clients = "SELECT COUNT(cli_host) as connection_count, cli_host FROM stats_mysql_processlist GROUP BY cli_host";
    let detailed = "SELECT user, db, cli_host, hostgroup, COUNT(*) as count from stats_mysql_processlist group by user, \
                    db, cli_host, hostgroup";
    for (text, columns, rows) in [
        ("SELECT Variable_Name, Variable_Value FROM stats_mysql_global", 2, 20..100),
        (pool, 17, 3..4),
        (clients, 2, 1..2),
        ("SELECT username, frontend_connections FROM stats_mysql_users", 2, 1..2),
        (detailed, 5, 1..2),
        ("select Variable_Name, Variable_Value  from stats_memory_metrics", 2, 3..100),
    ] {
        let result = sql.query_one(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(result.columns.len(), columns, "{text}");
        assert!(rows.contains(&result.rows.len()), "{text}: {} rows", result.rows.len());
        let nulls = result.rows.iter().flatten().filter(|value| value.is_none()).count();
        assert_eq!(nulls, 0, "{text}");
    }
    let known = "'Active_Transactions', 'Client_Connections_aborted', 'Client_Connections_connected', \
                 'Client_Connections_created', 'Client_Connections_non_idle', 'ProxySQL_Uptime', 'Questions', 'Slow_queries'";
    let counted = format!("SELECT count(*) FROM stats_mysql_global WHERE Variable_Name IN ({known})");
    assert_eq!(number(&mut sql, &counted).await, 8);
}

/// Drivers may prepare statements, with parameters of their own types.
#[tokio::test]
async fn statements_are_prepared_and_executed_with_parameters() {
    use net::query::Parameter::{Int, Null};

    let front = start(Family::MariaDb, "").await;
    let mut sql = console(&front).await;
    let servers = sql.prepare("SELECT server, role, ? AS number FROM servers WHERE server = ?").await.unwrap();
    assert_eq!((servers.columns, servers.parameters), (3, 2));
    for (name, number) in [("db2", 7), ("db1", -1)] {
        let results = sql.execute(&servers, &[Int(number), name.into()]).await.unwrap();
        let [result] = &results[..] else { panic!("{results:?}") };
        assert_eq!(result.rows.len(), 1, "{name}");
        assert_eq!(result.text(0, "server").unwrap(), name);
        assert_eq!(result.text(0, "number").unwrap(), number.to_string());
    }
    // The same in both protocols: numbers, doubles, texts, NULL.
    let text =
        "SELECT worker, sessions, busy, NULL AS missing, 'ü' AS letter, 1.5 AS real FROM workers ORDER BY worker";
    let plain = sql.query_one(text).await.unwrap();
    let prepared = sql.prepare(text).await.unwrap();
    assert_eq!((prepared.columns, prepared.parameters), (6, 0));
    let binary = &sql.execute(&prepared, &[]).await.unwrap()[0];
    assert_eq!(plain.rows.len(), 2);
    for row in 0..2 {
        for column in ["worker", "missing", "letter", "real"] {
            assert_eq!(binary.value(row, column), plain.value(row, column), "{column} of {row}");
        }
    }
    let null = sql.prepare("SELECT ? IS NULL, DATABASE()").await.unwrap();
    assert_eq!(sql.execute(&null, &[Null]).await.unwrap()[0].rows[0][0].as_deref(), Some(&b"1"[..]));
    sql.close(null).await.unwrap();
    let gone = sql.execute(&null, &[Null]).await.unwrap_err();
    assert_eq!(gone.code(), Some(1243));
    assert_eq!(sql.prepare("SELECT * FROM nowhere").await.unwrap_err().code(), Some(1146));
    assert_eq!(sql.prepare("DELETE FROM digests").await.unwrap_err().code(), Some(1290));
    // A driver may prepare its first statements, too.
    let set = sql.prepare("SET NAMES utf8mb4").await.unwrap();
    sql.execute(&set, &[]).await.unwrap();
    sql.reset_connection().await.unwrap();
    assert_eq!(sql.execute(&set, &[]).await.unwrap_err().code(), Some(1243));
    assert_eq!(value(&mut sql, "SELECT 7").await, "7");
}

/// A statement that runs for long is seen and ended, and so is its session.
async fn kills(front: &Front, sql: &mut Client, mut client: Client) {
    const LONG_S: u64 = 40;
    let id: u32 = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let running = tokio::spawn(async move {
        let begun = Instant::now();
        // Servers of one family end it with an error, of the other with a row.
        let _ = client.query(format!("SELECT SLEEP({LONG_S}) AS console_long")).await;
        (begun.elapsed(), client)
    });
    let shown = format!(
        "SELECT count(*) FROM stats_mysql_processlist WHERE SessionID = {id} AND command = 'Query' AND info LIKE '%console\\_long'"
    );
    until("the statement runs", async || (number(sql, &shown).await == 1).then_some(())).await;
    let listed = all(sql, "SHOW FULL PROCESSLIST").await;
    let row = listed[0].rows.iter().find(|row| row[0].as_deref() == Some(id.to_string().as_bytes())).unwrap();
    assert_eq!(row[7].as_deref(), Some(&b"SELECT SLEEP(?) AS console_long"[..]));
    assert_eq!(error(sql, "KILL 3").await.0, 1094);
    all(sql, &format!("KILL QUERY {id}")).await;
    let (took, mut client) = running.await.unwrap();
    assert!(took < Duration::from_secs(LONG_S - 5), "{took:?}");
    assert_eq!(value(&mut client, "SELECT 7").await, "7");
    all(sql, &format!("KILL {id}")).await;
    until("the session is over", async || client.ping().await.is_err().then_some(())).await;
    assert!(front.log().contains("KILL on the SQL console"), "an operator's act is in the log");
}

#[tokio::test]
async fn history_is_read_with_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a history.sqlite");
    let more = format!("[history]\npath = \"{}\"\nsize_max = \"8MiB\"\n", path.display());
    let front = start(Family::MariaDb, &more).await;
    let mut sql = console(&front).await;
    let points = "SELECT count(*) FROM history WHERE series = 'sqluice_sessions' AND step_s = 10 AND at > UNIX_TIMESTAMP() - 600";
    until("a point", async || (number(&mut sql, points).await > 0).then_some(())).await;
    let body = "{\"text\": \"deploy 7\", \"author\": \"ann\"}";
    let (status, page) = crate::support::http_send(&front.admin, "POST", "/api/v1/marks", Some(KEY), body).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(value(&mut sql, "SELECT text FROM marks WHERE author = 'ann'").await, "deploy 7");
    let (code, words) = error(&mut sql, "DELETE FROM marks").await;
    assert_eq!(code, 1290, "{words}");
}

#[tokio::test]
async fn only_keys_open_and_roles_count() {
    let mut front = start(Family::MariaDb, "").await;
    for (user, key) in [("admin", "wrong"), ("admin", ""), ("operate", KEY), ("view", ""), ("root", KEY), ("", "")] {
        let begun = Instant::now();
        let refused = login(&front, user, key).await.map(drop).unwrap_err();
        let reported = refused.server_error().unwrap_or_else(|| panic!("{user}: {refused}"));
        assert_eq!(reported.code, 1045, "{user}: {reported}");
        assert!(begun.elapsed() >= Duration::from_millis(900), "guessing takes time");
    }
    let log = front.log();
    assert!(log.contains("a login to the SQL console was refused") && log.contains("wrong password"), "{log}");
    assert!(!log.contains(KEY), "no key is in the log");
    // A reload takes another key; sessions go on.
    let mut old = console(&front).await;
    front.reload(|setup| setup.admin = setup.admin.replace("open sesame", "another"));
    until("the new key", async || login(&front, "admin", "another 'quoted'").await.ok()).await;
    assert!(login(&front, "admin", KEY).await.is_err());
    assert_eq!(value(&mut old, "SELECT 1").await, "1");
    front.reload(|setup| setup.admin = "sql_address = \"127.0.0.1:0\"".into());
    until("the console is closed", async || login(&front, "admin", "another 'quoted'").await.is_err().then_some(()))
        .await;
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/sessions", None).await.0, 403);
}

#[tokio::test]
async fn limits_hold_and_nothing_is_written() {
    let front = start(Family::MariaDb, "").await;
    let mut sql = console(&front).await;
    for text in ["DELETE FROM digests", "UPDATE mysql_servers SET weight = 0", "SAVE MYSQL VARIABLES TO DISK"] {
        let (code, words) = error(&mut sql, text).await;
        assert!(code == 1290 && words.contains("the SQL console is read-only"), "{text}: {code} {words}");
    }
    let (code, words) = error(&mut sql, "SELECT * FROM stats_mysql_query_digest_reset").await;
    assert!(code == 1235 && words.contains("DELETE /api/v1/digests"), "{code} {words}");
    assert_eq!(error(&mut sql, "SELECT * FROM no_such").await.0, 1146);
    assert_eq!(error(&mut sql, "SELECT 1; SELECT 2").await.0, 1064);
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    let begun = Instant::now();
    assert_eq!(error(&mut sql, endless).await.0, 3024);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(value(&mut sql, "SELECT count(*) FROM clusters").await, "1", "the session goes on");
    // A statement that another console ends.
    let id = value(&mut sql, "SELECT CONNECTION_ID()").await;
    let running = tokio::spawn(async move { (error(&mut sql, endless).await.0, sql) });
    let mut other = console(&front).await;
    let (code, mut sql) = loop {
        all(&mut other, &format!("KILL QUERY {id}")).await;
        if running.is_finished() {
            break running.await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(code == 1317 || code == 3024, "{code}");
    // The text itself has a limit, and goes on behind it for the next session only.
    let longest = format!("SELECT length('{}')", "x".repeat(60_000));
    assert_eq!(value(&mut sql, &longest).await, "60000");
    let too_long = format!("SELECT length('{}')", "x".repeat(70_000));
    assert_eq!(error(&mut sql, &too_long).await.0, 1153);
    drop((sql, other));
    many_sessions(&front).await;
}

async fn many_sessions(front: &Front) {
    let mut sessions = Vec::new();
    let refused = loop {
        match login(front, "admin", KEY).await {
            Ok(session) => sessions.push(session),
            Err(error) if sessions.len() >= 30 => break error,
            // A place of the test's beginning is free in a moment.
            Err(error) => panic!("{} sessions: {error}", sessions.len()),
        }
        assert!(sessions.len() <= 32);
    };
    let reported = refused.server_error().unwrap();
    assert!(reported.code == 1040 && reported.message.contains("32 sessions"), "{reported}");
    assert_eq!(value(&mut sessions[0], "SELECT 1").await, "1");
    sessions.pop();
    until("a place is free again", async || login(front, "admin", KEY).await.ok()).await;
}

#[tokio::test]
async fn hostile_bytes_before_login_end_their_own_connection_only() {
    let front = start(Family::MariaDb, "").await;
    let address = front.address_of("console");
    let inputs: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        vec![0; 4096],
        [&[0xff, 0xff, 0xff, 1][..], &[7; 1000]].concat(),
        vec![32, 0, 0, 1, 1, 2, 3],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        Vec::new(),
    ];
    for input in inputs {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let greeting = timeout(SOON, packets::read(&mut stream, 1 << 16)).await.unwrap().unwrap();
        assert_eq!(greeting.payload[0], 10);
        let _ = stream.write_all(&input).await;
        let _ = stream.shutdown().await;
        // It is told something or nothing, and closed.
        timeout(SOON, async { while packets::read(&mut stream, 1 << 16).await.is_ok() {} }).await.unwrap();
    }
    // Clients that say nothing keep others out for the time of a login at most, and those that are in stay.
    let mut inside = console(&front).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    let full =
        until("all places of logins are taken", async || login(&front, "admin", KEY).await.map(drop).err()).await;
    assert_eq!(full.server_error().map(|reported| reported.code), Some(1040), "{full}");
    assert_eq!(value(&mut inside, "SELECT 1").await, "1");
    until("silent clients are closed", async || login(&front, "admin", KEY).await.ok()).await;
}

#[tokio::test]
async fn tls_is_there_for_clients_that_ask() {
    let front = start(Family::MariaDb, "").await;
    let target = Target { tls: any_certificate(), ..target(&front) };
    let login = query::login("admin", Credential::password(KEY));
    let mut client = Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap();
    assert_eq!(value(&mut client, "SELECT count(*) FROM servers").await, "3");
}

/// Where a client finds the console: host and port.
fn port(front: &Front) -> String {
    front.address_of("console").rsplit(':').next().unwrap().to_owned()
}

/// The arguments of a client program.
fn command(front: &Front, program: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=admin", "--table"]);
    command.arg(format!("--port={}", port(front)));
    command.env("MYSQL_PWD", KEY);
    command
}
