//! `init_connect` runs in each session, as it does on a server, and leaves nothing on connections that others get.

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits};
use wire::Capabilities;
use wire::auth::Credential;

use crate::follow::direct;
use crate::support::{Failing, Front, SOON, all, error, failing, families, until, value};

/// Statements for the variable, and what a session shows behind them.
const CASES: [(&str, &[&str]); 6] = [
    ("SET @begun = 5, sql_mode = ''ANSI_QUOTES'', sort_buffer_size = 40000", &["SELECT @begun, @@sql_mode"]),
    ("SET NAMES latin1; SET autocommit = 0", &["SELECT @@character_set_client, @@autocommit", "COMMIT"]),
    ("SELECT LAST_INSERT_ID(77)", &["SELECT LAST_INSERT_ID()"]),
    (
        "CREATE TEMPORARY TABLE e2e_begin.own (a INT); INSERT INTO e2e_begin.own VALUES (4)",
        &["SELECT a FROM e2e_begin.own"],
    ),
    ("SELECT a FROM e2e_begin.rows INTO @row", &["SELECT @row", "SELECT 1; SELECT 2"]),
    ("DO 1 / 0", &["SHOW WARNINGS"]),
];

/// Sessions that fail in a short time: more than the log has lines for.
const FAILURES: usize = 40;

const ROOT: (&str, &str) = ("e2e_begin_root", "e2e-Begin-1");

struct Stand {
    servers: Failing,
    front: Front,
    /// A client who may do all.
    root: Client,
}

impl Stand {
    /// One worker with one connection to each server, so that sessions share it.
    async fn start(family: Family) -> Stand {
        let servers = failing(family).await;
        let (user, password) = ROOT;
        let sql = format!(
            "DROP DATABASE IF EXISTS e2e_begin; CREATE DATABASE e2e_begin;
             CREATE TABLE e2e_begin.rows (a INT PRIMARY KEY); INSERT INTO e2e_begin.rows VALUES (31);
             DROP USER IF EXISTS {user}@'%'; CREATE USER {user}@'%' IDENTIFIED BY '{password}';
             GRANT ALL ON *.* TO {user}@'%' WITH GRANT OPTION"
        );
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        let front = Front::start(&servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = "max_connections_per_server = 2".into();
        })
        .await;
        let root = front.login(user, password).await.unwrap();
        Stand { servers, front, root }
    }

    /// Sets the variable on all servers. Sqluice hears of it as of each change of a default.
    async fn set(&mut self, statements: &str) {
        let set = format!("SET GLOBAL init_connect = '{statements}'");
        self.servers.servers().iter().for_each(|server| drop(server.sql(&set).unwrap()));
        all(&mut self.root, &set).await;
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Other tests use these servers, also when this one failed.
        self.servers.servers().iter().for_each(|server| drop(server.sql("SET GLOBAL init_connect = ''")));
    }
}

async fn seen(client: &mut Client, statements: &[&str]) -> Vec<String> {
    let mut seen = Vec::new();
    for statement in statements {
        seen.push(match client.query(*statement).await {
            Ok(results) => format!("{:?}", results.iter().map(|result| result.rows.clone()).collect::<Vec<_>>()),
            Err(error) => error.to_string(),
        });
    }
    seen
}

async fn check_sessions(family: Family) {
    let mut stand = Stand::start(family).await;
    for (statements, shown) in CASES {
        stand.set(statements).await;
        let expected = seen(&mut direct(&stand.servers).await, shown).await;
        for round in 0..3 {
            let mut client = stand.front.client().await;
            assert_eq!(seen(&mut client, shown).await, expected, "{family:?} {statements} {round}");
            // Another one finds nothing of this one's.
            all(&mut client, "SET @begun = 9, sql_mode = ''").await;
            client.reset_connection().await.unwrap();
            assert_eq!(value(&mut client, "SELECT COALESCE(@begun, 'none')").await, "none", "not behind a reset");
        }
    }
}

#[tokio::test]
async fn each_session_begins_with_it() {
    for family in families() {
        check_sessions(family).await;
    }
}

/// Sessions that all keep a connection: each is opened for one of them.
#[tokio::test]
async fn it_runs_once_for_each_session_and_for_no_connection() {
    for family in families() {
        let mut stand = Stand::start(family).await;
        let sql = "CREATE TABLE e2e_begin.logins (id INT AUTO_INCREMENT PRIMARY KEY, name TEXT)";
        stand.servers.primary().sql(sql).unwrap();
        stand.set("INSERT INTO e2e_begin.logins (name) VALUES (CURRENT_USER())").await;
        let front = Front::start(&stand.servers, |setup| setup.proxy = "workers = 1\ndrain_ms = 200".into()).await;
        let mut clients = Vec::new();
        for number in 1..=5 {
            let mut client = front.client().await;
            all(&mut client, "BEGIN").await;
            assert_eq!(value(&mut client, "SELECT LAST_INSERT_ID()").await, number.to_string(), "{family:?}");
            clients.push(client);
        }
        let count = "SELECT GROUP_CONCAT(DISTINCT name), COUNT(*) FROM e2e_begin.logins";
        let counted = stand.servers.primary().sql(count).unwrap();
        assert!(counted.trim().ends_with("app@%\t5"), "{family:?}: {counted}");
    }
}

#[tokio::test]
async fn a_session_ends_when_it_fails() {
    for family in families() {
        let mut stand = Stand::start(family).await;
        // Replicas and others go on.
        stand.set("SET @a = 1; SELECT IF(USER() LIKE ''app@%'', (SELECT 1 UNION SELECT 2), 1)").await;
        let words = |message: String| message.split_once(" to db").unwrap().1.to_owned();
        let (code, message) = error(&mut direct(&stand.servers).await, "SELECT 1").await;
        assert_eq!(code, 1184);
        let expected = words(message);
        for _ in 0..FAILURES {
            let mut client = stand.front.client().await;
            let (code, message) = error(&mut client, "SELECT 1").await;
            assert_eq!((code, words(message)), (1184, expected.clone()));
            assert!(client.query("SELECT 1").await.is_err(), "the session is over");
        }
        let lines = || stand.front.log().matches("init_connect failed, so the session ends").count();
        until("the first line of the log", async || (lines() > 0).then_some(())).await;
        assert!(lines() < FAILURES, "{family:?}: a storm does not fill the log");
        stand.set("").await;
        assert_eq!(value(&mut stand.front.client().await, "SELECT 1").await, "1");
    }
}

#[tokio::test]
async fn administrators_of_connections_go_without_it() {
    for family in families() {
        let mut stand = Stand::start(family).await;
        let (user, password) = ("e2e_begin_admin", "e2e-Begin-2");
        let privilege = if family == Family::MariaDb { "CONNECTION ADMIN" } else { "CONNECTION_ADMIN" };
        stand.set("SET @begun = 5").await;
        all(&mut stand.root, &format!("DROP USER IF EXISTS {user}@'%'")).await;
        all(&mut stand.root, &format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'")).await;
        for (change, expected) in [("", "5"), ("GRANT", "none"), ("REVOKE", "5")] {
            if !change.is_empty() {
                let word = if change == "GRANT" { "TO" } else { "FROM" };
                all(&mut stand.root, &format!("{change} {privilege} ON *.* {word} {user}@'%'")).await;
            }
            let mut client = stand.front.login(user, password).await.unwrap();
            let begun = value(&mut client, "SELECT COALESCE(@begun, 'none')").await;
            assert_eq!(begun, expected, "{family:?} behind {change}");
        }
        all(&mut stand.root, &format!("DROP USER {user}@'%'")).await;
    }
}

/// A client that may only change its password.
#[tokio::test]
async fn an_expired_password_can_be_changed() {
    for family in families() {
        let mut stand = Stand::start(family).await;
        stand.set("SET @begun = 5").await;
        let server = Target::plain(stand.servers.primary().address().to_string().parse().unwrap(), SOON);
        let user = "e2e_begin_expired";
        let mut seen = Vec::new();
        for target in [server, stand.front.target()] {
            all(&mut stand.root, &format!("DROP USER IF EXISTS {user}@'%'")).await;
            all(&mut stand.root, &format!("CREATE USER {user}@'%' IDENTIFIED BY 'old' PASSWORD EXPIRE")).await;
            let mut able = net::query::login(user, Credential::password("old"));
            able.capabilities |= Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
            let mut client = Client::connect(&target, able, Limits::default()).await.unwrap();
            assert_eq!(error(&mut client, "SELECT 1").await.0, 1820, "{family:?}");
            let change = match family {
                Family::MariaDb => "SET PASSWORD = PASSWORD('new')",
                Family::MySql => "ALTER USER USER() IDENTIFIED BY 'new'",
            };
            all(&mut client, change).await;
            seen.push(value(&mut client, "SELECT COALESCE(@begun, 'none')").await);
            let mut later = stand.front.login(user, "new").await.unwrap();
            assert_eq!(value(&mut later, "SELECT COALESCE(@begun, 'none')").await, "5", "{family:?}");
        }
        all(&mut stand.root, &format!("DROP USER {user}@'%'")).await;
        assert_eq!(seen[0], seen[1], "{family:?}");
    }
}
