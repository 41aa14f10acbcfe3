//! Rights are the servers' and of now: a client that logs in after a change gets what a direct login gets.

use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::client::Target;
use net::query::{self, Client, Limits};
use wire::auth::Credential;

use crate::consistency::{FOR_LONG, delay};
use crate::login::accounts;
use crate::support::{Front, SOON, all, blocking, calm, error, failing, families, has_mysql, until, value};

/// Where accounts are changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Through,
    Past,
}

/// The outcome of a login and of the statements after it: the error's code, or the answer.
async fn outcome(target: &Target, user: &str, password: &str, schema: Option<&str>) -> String {
    let mut login = query::login(user, Credential::password(password));
    login.schema = schema.map(Into::into);
    let mut client = match Client::connect(target, login, Limits { timeout: SOON, ..Limits::default() }).await {
        Ok(client) => client,
        Err(error) => {
            return format!("login: {}", error.server_error().unwrap_or_else(|| panic!("{user}: {error}")).code);
        }
    };
    let mut answers = Vec::new();
    for sql in ["SELECT COUNT(*) >= 0 FROM app.rights", "INSERT INTO app.rights VALUES (1)", "SELECT CURRENT_ROLE()"] {
        answers.push(match client.query_one(sql).await {
            Ok(result) => result.scalar().map_or("fine".into(), |text| text.replace('1', "fine")),
            Err(error) => error.code().unwrap_or_else(|| panic!("{sql}: {error}")).to_string(),
        });
    }
    answers.join(" ")
}

struct Scene {
    servers: &'static Replication,
    front: Front,
    change: Change,
    admin: Client,
    user: String,
}

impl Scene {
    async fn start(family: Family, change: Change) -> Scene {
        let servers = calm(family).await;
        let user = format!("rights_{change:?}").to_lowercase();
        accounts(
            servers,
            &format!(
                "CREATE USER {user}@'%' IDENTIFIED BY 'one'; CREATE USER {user}_admin@'%' IDENTIFIED BY 'a'; \
                 GRANT ALL ON *.* TO {user}_admin@'%' WITH GRANT OPTION; CREATE TABLE IF NOT EXISTS app.rights (n INT); \
                 GRANT SELECT, INSERT ON app.* TO {user}@'%'"
            ),
        )
        .await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            // Those who change accounts need a connection of their own.
            let connections = if change == Change::Through { 2 } else { 1 };
            setup.pool = format!("max_connections_per_server = {connections}");
            setup.cluster += "\naccounts_refresh_s = 3600";
        })
        .await;
        let admin = front.login(&format!("{user}_admin"), "a").await.unwrap();
        Scene { servers, front, change, admin, user }
    }

    /// Changes accounts, where `U` is the user, and expects what a login without a schema gives then; with one it gives the
    /// same as a direct one.
    async fn after(&mut self, sql: &str, expected: &str, password: &str) {
        let sql = sql.replace("U@", &format!("{}@", self.user)).replace("U_", &format!("{}_", self.user));
        match self.change {
            Change::Through => drop(all(&mut self.admin, &sql).await),
            Change::Past => accounts(self.servers, &sql).await,
        }
        let direct = Target::plain(self.servers.primary().address().to_string().parse().unwrap(), SOON);
        for schema in [None, Some("app")] {
            // Without a free connection, a schema that was entered a moment ago is left to the first statement.
            let alone = async || (self.front.metrics().await.sum("sqluice_sessions", &[]) == 1.0).then_some(());
            until("the session before to end", alone).await;
            let through = outcome(&self.front.target(), &self.user, password, schema).await;
            assert_eq!(through, outcome(&direct, &self.user, password, schema).await, "{schema:?}, after {sql}");
            assert!(schema.is_some() || through.starts_with(expected), "{through}, after {sql}");
        }
    }
}

async fn check(family: Family, change: Change) {
    let mut scene = Scene::start(family, change).await;
    let mariadb = family == Family::MariaDb;
    scene.after("DO 0", "fine fine", "one").await;
    scene.after("REVOKE INSERT ON app.* FROM U@'%'", "fine 1142", "one").await;
    scene.after("REVOKE SELECT ON app.* FROM U@'%'", "1142 1142", "one").await;
    scene.after("GRANT SELECT, INSERT ON *.* TO U@'%'", "fine fine", "one").await;
    scene.after("REVOKE INSERT ON *.* FROM U@'%'", "fine 1142", "one").await;
    scene.after("GRANT INSERT ON *.* TO U@'%'", "fine fine", "one").await;
    scene.after("REVOKE INSERT ON *.* FROM U@'%'", "fine 1142", "one").await;
    let role = "CREATE ROLE U_role; GRANT INSERT ON app.* TO U_role; GRANT U_role TO U@'%'";
    scene.after(role, "fine 1142", "one").await;
    let default = if mariadb { "SET DEFAULT ROLE U_role FOR U@'%'" } else { "SET DEFAULT ROLE U_role TO U@'%'" };
    scene.after(default, "fine fine", "one").await;
    let none = if mariadb { "SET DEFAULT ROLE NONE FOR U@'%'" } else { "SET DEFAULT ROLE NONE TO U@'%'" };
    scene.after(none, "fine 1142", "one").await;
    scene.after(default, "fine fine", "one").await;
    scene.after("REVOKE INSERT ON app.* FROM U_role", "fine 1142", "one").await;
    scene.after("GRANT INSERT ON *.* TO U_role", "fine fine", "one").await;
    scene.after("DROP ROLE U_role", "fine 1142", "one").await;
    scene.after("ALTER USER U@'%' ACCOUNT LOCK", if mariadb { "login: 4151" } else { "login: 3118" }, "one").await;
    scene.after("ALTER USER U@'%' ACCOUNT UNLOCK", "fine 1142", "one").await;
    scene.after("ALTER USER U@'%' IDENTIFIED BY 'two'", "login: 1045", "one").await;
    scene.after("DO 0", "fine 1142", "two").await;
    scene.after("RENAME USER U@'%' TO U@'10.1.1.1'", "login: 1045", "two").await;
    scene.after("RENAME USER U@'10.1.1.1' TO U@'%'", "fine 1142", "two").await;
    scene.after("DROP USER U@'%'", "login: 1045", "two").await;
}

#[tokio::test]
async fn changes_through_sqluice_count_at_the_next_login() {
    check(Family::MariaDb, Change::Through).await;
}

#[tokio::test]
async fn changes_past_sqluice_count_at_the_next_login() {
    check(Family::MariaDb, Change::Past).await;
}

#[tokio::test]
async fn changes_through_sqluice_count_at_the_next_login_on_mysql() {
    if has_mysql() {
        check(Family::MySql, Change::Through).await;
    }
}

#[tokio::test]
async fn changes_past_sqluice_count_at_the_next_login_on_mysql() {
    if has_mysql() {
        check(Family::MySql, Change::Past).await;
    }
}

/// A role that a session has chosen is gone with it: resetting a connection leaves it.
#[tokio::test]
async fn a_role_of_one_session_is_not_the_next_ones() {
    for family in families() {
        let servers = calm(family).await;
        accounts(
            servers,
            "CREATE USER rights_of_role@'%' IDENTIFIED BY 'r'; CREATE ROLE rights_role; GRANT EXECUTE ON app.* TO rights_of_role@'%'; \
             GRANT rights_role TO rights_of_role@'%'; CREATE TABLE IF NOT EXISTS app.rights (n INT); \
             GRANT SELECT, EXECUTE ON app.* TO rights_role; \
             CREATE PROCEDURE app.rights_take_role() SQL SECURITY INVOKER SET ROLE rights_role",
        )
        .await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = "max_connections_per_server = 1".into();
        })
        .await;
        let read = "/* sqluice: primary */ SELECT 'read' FROM DUAL WHERE (SELECT COUNT(*) FROM app.rights) >= 0";
        let mut stays = front.login("rights_of_role", "r").await.unwrap();
        for sql in ["SET ROLE rights_role", "CALL app.rights_take_role()"] {
            let mut takes = front.login("rights_of_role", "r").await.unwrap();
            all(&mut takes, sql).await;
            assert_eq!(value(&mut takes, read).await, "read", "{sql}");
            takes.quit().await.unwrap();
            assert_eq!(error(&mut stays, read).await.0, 1142, "{family:?}, behind {sql}");
        }
    }
}

/// A connection logs in again whatever its plugin and its frames are, and serves the next client: none is opened for it.
#[tokio::test]
async fn a_connection_logs_in_again_with_any_plugin_and_compression() {
    for family in families() {
        let servers = calm(family).await;
        let mut plugins = match family {
            Family::MariaDb => vec!["mysql_native_password"],
            Family::MySql => vec!["caching_sha2_password"],
        };
        let parts = [("auth_ed25519", "ed25519"), ("auth_parsec", "parsec")];
        for (library, plugin) in parts.into_iter().filter(|_| family == Family::MariaDb) {
            if crate::plugins::install(servers, library).await {
                plugins.push(plugin);
            }
        }
        for (number, plugin) in plugins.into_iter().enumerate() {
            let user = format!("rights_again{number}");
            let by = match family {
                Family::MariaDb => format!("VIA {plugin} USING PASSWORD('p')"),
                Family::MySql => format!("WITH {plugin} BY 'p'"),
            };
            accounts(servers, &format!("CREATE USER {user}@'%' IDENTIFIED {by}")).await;
            for compression in ["off", "zlib", "zstd"] {
                let front = Front::start(servers, |setup| {
                    setup.proxy = "workers = 1\ndrain_ms = 200".into();
                    setup.cluster += &format!("\ncompression = \"{compression}\"");
                    setup.server_tls = "mode = \"preferred\"".into();
                    setup.more = format!("[user.{user}]\npassword = \"p\"\n");
                })
                .await;
                let opened = async || front.metrics().await.sum("sqluice_server_connections_opened_total", &[]);
                let read = "/* sqluice: primary */ SELECT 1";
                assert_eq!(
                    value(&mut front.login(&user, "p").await.unwrap(), read).await,
                    "1",
                    "{plugin} {compression}"
                );
                let before = opened().await;
                for _ in 0..3 {
                    assert_eq!(value(&mut front.login(&user, "p").await.unwrap(), read).await, "1");
                }
                let relogins = front.metrics().await.sum("sqluice_server_connection_relogins_total", &[]);
                assert_eq!((opened().await, relogins), (before, 3.0), "{family:?} {plugin} {compression}");
            }
        }
    }
}

/// Clients whose statements may change accounts, without end, make no login wait until they stop.
#[tokio::test]
async fn endless_changes_of_accounts_hold_no_login_up() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE USER rights_endless@'%' IDENTIFIED BY 'p'; CREATE USER rights_waits@'%' IDENTIFIED BY 'p'",
    )
    .await;
    let front = Front::start(servers, |_| {}).await;
    let mut changes = Vec::new();
    for _ in 0..8 {
        let mut endless = front.login("rights_endless", "p").await.unwrap();
        changes.push(tokio::spawn(async move {
            loop {
                endless.query("BEGIN NOT ATOMIC DO 0; END").await.unwrap();
            }
        }));
    }
    let mut waited = Duration::ZERO;
    for _ in 0..10 {
        let begun = Instant::now();
        front.login("rights_waits", "p").await.unwrap();
        waited += begun.elapsed();
    }
    assert!(changes.iter().all(|changes| !changes.is_finished()), "they were refused");
    changes.iter().for_each(|changes| changes.abort());
    // A reading begins 50 ms after the last one; a login that waits until the changes stop waits 1.5 seconds.
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

/// Sessions of an account with a limit of its own share a connection, and each keeps what it began with.
#[tokio::test]
async fn sessions_begin_with_the_statement_time_of_their_account() {
    let servers = calm(Family::MariaDb).await;
    let (user, other) = ("rights_limited", "rights_of_two_hosts");
    accounts(
        servers,
        &format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'one' WITH MAX_STATEMENT_TIME 2; \
             CREATE USER {other}@'127.0.0.1' IDENTIFIED BY 'one' WITH MAX_STATEMENT_TIME 2.5; \
             CREATE USER {other}@'%' IDENTIFIED BY 'one'"
        ),
    )
    .await;
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "max_connections_per_server = 1".into();
    })
    .await;
    let time = "SELECT @@max_statement_time /* sqluice: primary */";
    for (user, expected) in [(user, "2.000000"), (other, "2.500000")] {
        let mut first = front.login(user, "one").await.unwrap();
        let mut second = front.login(user, "one").await.unwrap();
        assert_eq!(value(&mut first, time).await, expected);
        assert_eq!(value(&mut second, time).await, expected);
        all(&mut second, "SET max_statement_time = 7").await;
        assert_eq!(value(&mut second, time).await, "7.000000");
        assert_eq!(value(&mut first, time).await, expected);
        assert_eq!(error(&mut first, "SELECT SLEEP(4) /* sqluice: primary */").await.0, 1969);
        // The default of SET, and that behind a reset, is the server's.
        all(&mut second, "SET max_statement_time = DEFAULT").await;
        assert_eq!(value(&mut second, time).await, "0.000000");
        first.reset_connection().await.unwrap();
        assert_eq!(value(&mut first, time).await, "0.000000");
        let mut third = front.login(user, "one").await.unwrap();
        assert_eq!(value(&mut third, time).await, expected);
        assert_eq!(value(&mut first, time).await, "0.000000");
        third.change_user(query::login("app", Credential::password("app-secret"))).await.unwrap();
        assert_eq!(value(&mut third, time).await, "0.000000");
        third.change_user(query::login(user, Credential::password("one"))).await.unwrap();
        assert_eq!(value(&mut third, time).await, expected);
    }
}

/// A replica that has not applied a GRANT refuses what the primary allows.
async fn check_grant_on_its_way(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    accounts(
        servers,
        "CREATE USER granted@'%' IDENTIFIED BY 'one'; CREATE TABLE IF NOT EXISTS app.granted (n INT); \
         CREATE TABLE IF NOT EXISTS app.other (n INT); GRANT INSERT ON app.other TO granted@'%'",
    )
    .await;
    blocking(move || servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
    let front = Front::start(servers, |_| {}).await;
    delay(servers, family, FOR_LONG).await;
    front.knows(2).await;
    blocking(move || drop(servers.primary().sql("GRANT SELECT ON app.granted TO granted@'%'").unwrap())).await;
    for schema in [None, Some("app")] {
        let mut login = query::login("granted", Credential::password("one"));
        login.schema = schema.map(Into::into);
        let limits = Limits { timeout: SOON, ..Limits::default() };
        let mut client = Client::connect(&front.target(), login, limits).await.unwrap();
        assert_eq!(value(&mut client, "SELECT COUNT(*) FROM app.granted").await, "0", "{schema:?}");
        // The primary refuses this one, too.
        assert_eq!(error(&mut client, "SELECT COUNT(*) FROM app.other").await.0, 1142);
    }
    delay(servers, family, &[0, 0]).await;
}

#[tokio::test]
async fn a_grant_that_replicas_lack_counts_at_the_next_login() {
    check_grant_on_its_way(Family::MariaDb).await;
}

#[tokio::test]
async fn a_grant_that_replicas_lack_counts_at_the_next_login_on_mysql() {
    if has_mysql() {
        check_grant_on_its_way(Family::MySql).await;
    }
}
