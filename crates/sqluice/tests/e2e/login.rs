//! Logins: the users that the servers let in, and the servers' errors for the others.

use std::time::{Duration, Instant};

use lab::{Family, Replication, ReplicationOptions};
use net::client::{Cause, ConnectError, Target};
use net::query::{self, Client, Limits};
use net::tls::ClientTls;
use wire::auth::{Credential, native};
use wire::handshake::client::LoginRequest;

use crate::support::{Front, SOON, all, any_certificate, app, blocking, calm, until, value};

/// Makes accounts on the primary; all servers know them afterwards. Statements of `CREATE USER` may be repeated.
pub async fn accounts(servers: &'static Replication, sql: &str) {
    let sql = sql.to_owned();
    blocking(move || {
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
}

/// The server's own reply to this user.
async fn refused_by_server(servers: &Replication, user: &str, password: &str) -> (u16, String) {
    let target = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
    let login = query::login(user, Credential::password(password));
    let error = Client::connect(&target, login, Limits::default()).await.unwrap_err();
    match (error.server_error(), &error.cause) {
        (Some(said), _) => (said.code, said.message.clone()),
        // MySQL asks users that do not exist for a plugin that it draws by lot, which may be one that this client lacks.
        (None, Cause::Protocol(_)) => {
            let using = if password.is_empty() { "NO" } else { "YES" };
            (1045, format!("Access denied for user '{user}'@'127.0.0.1' (using password: {using})"))
        }
        (None, _) => panic!("{error}"),
    }
}

fn code(result: Result<Client, ConnectError>) -> Option<u16> {
    result.err().map(|error| error.server_error().unwrap_or_else(|| panic!("{error}")).code)
}

/// Wrong names and passwords.
pub async fn check_refusals(family: Family) {
    let servers = calm(family).await;
    let front = Front::start(servers, |_| {}).await;
    for (user, password) in
        [(lab::APP_USER, "wrong"), (lab::APP_USER, ""), ("nobody_at_all", "x"), ("nobody_at_all", "")]
    {
        let (mut own, mut theirs) =
            (front.refused(user, password).await, refused_by_server(servers, user, password).await);
        if user == "nobody_at_all" && password.is_empty() {
            // Servers ask such users by the plugin of an account that they draw by lot, and some of these always hear a
            // password.
            for (_, message) in [&mut own, &mut theirs] {
                message.truncate(message.find(" (using").unwrap());
            }
        }
        assert_eq!(own, theirs, "{user} {password:?}");
        assert_eq!(own.0, 1045);
    }
    let mut client = front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
    let user = value(&mut client, "SELECT CURRENT_USER()").await;
    assert_eq!(user, "app@%");
}

#[tokio::test]
async fn wrong_passwords_and_unknown_users_hear_the_servers_own_words() {
    check_refusals(Family::MariaDb).await;
}

/// Accounts that are made and changed while the program runs.
pub async fn check_changes(family: Family) {
    let servers = calm(family).await;
    let front = Front::start(servers, |setup| setup.cluster += "\naccounts_refresh_s = 3600").await;
    accounts(servers, "CREATE USER e2e_new@'%' IDENTIFIED BY 'one'").await;
    let mut client = front.login("e2e_new", "one").await.unwrap_or_else(|error| panic!("a new account: {error}"));
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_new@%");
    accounts(servers, "ALTER USER e2e_new@'%' IDENTIFIED BY 'two'").await;
    let mut client = front.login("e2e_new", "two").await.unwrap_or_else(|error| panic!("a changed password: {error}"));
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
    assert_eq!(front.refused("e2e_new", "one").await.0, 1045);
    // The empty password has ways of its own, on the wire and in the accounts.
    accounts(servers, "ALTER USER e2e_new@'%' IDENTIFIED BY ''").await;
    let mut client = front.login("e2e_new", "").await.unwrap_or_else(|error| panic!("an empty password: {error}"));
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
    assert_eq!(front.refused("e2e_new", "wrong").await.0, 1045);
    accounts(servers, "ALTER USER e2e_new@'%' IDENTIFIED BY 'two'").await;
    let mut client = front.login("e2e_new", "two").await.unwrap_or_else(|error| panic!("no longer empty: {error}"));
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
    assert_eq!(front.refused("e2e_new", "").await.0, 1045);
    accounts(servers, "DROP USER e2e_new@'%'").await;
    // The known accounts are as old as `accounts_refresh_s`, but no backend connection is opened for them any more.
    front.refused("e2e_new", "wrong").await;
    until("the dropped user to be refused", async || front.login("e2e_new", "two").await.err()).await;
}

#[tokio::test]
async fn new_and_changed_accounts_are_known_at_once() {
    check_changes(Family::MariaDb).await;
}

#[tokio::test]
async fn the_host_part_of_accounts_is_respected() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_near@'127.0.0.1' IDENTIFIED BY 'a'; \
         CREATE OR REPLACE USER e2e_far@'10.%' IDENTIFIED BY 'b'; \
         CREATE OR REPLACE USER e2e_both@'127.0.0.%' IDENTIFIED BY 'c'; \
         CREATE OR REPLACE USER e2e_both@'%' IDENTIFIED BY 'd'",
    )
    .await;
    let front = Front::start(servers, |_| {}).await;
    let mut near = front.login("e2e_near", "a").await.unwrap();
    assert_eq!(value(&mut near, "SELECT CURRENT_USER()").await, "e2e_near@127.0.0.1");
    assert_eq!(front.refused("e2e_far", "b").await, refused_by_server(servers, "e2e_far", "b").await);
    let mut both = front.login("e2e_both", "c").await.unwrap();
    assert_eq!(value(&mut both, "SELECT CURRENT_USER()").await, "e2e_both@127.0.0.%");
    assert_eq!(front.refused("e2e_both", "d").await.0, 1045, "the account for any host is not this client's");
}

#[tokio::test]
async fn locked_accounts_and_accounts_that_need_tls() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_locked@'%' IDENTIFIED BY 'a' ACCOUNT LOCK; \
         CREATE OR REPLACE USER e2e_ssl@'%' IDENTIFIED BY 'b' REQUIRE SSL",
    )
    .await;
    let front = Front::start(servers, |setup| setup.server_tls = "mode = \"required\"".into()).await;
    assert_eq!(front.refused("e2e_locked", "a").await, refused_by_server(servers, "e2e_locked", "a").await);
    assert_eq!(front.refused("e2e_ssl", "b").await.0, refused_by_server(servers, "e2e_ssl", "b").await.0);
    let login = query::login("e2e_ssl", Credential::password("b"));
    let mut client = front.connect(login, any_certificate()).await.unwrap();
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_ssl@%");
}

/// A password in the configuration opens no account that the servers would keep shut, and failed logins are logged.
#[tokio::test]
async fn passwords_from_the_configuration_keep_the_accounts_conditions() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_own_far@'10.%' IDENTIFIED BY 'a'; \
         CREATE OR REPLACE USER e2e_own_ssl@'%' IDENTIFIED BY 'a' REQUIRE SSL; \
         CREATE OR REPLACE USER e2e_own_locked@'%' IDENTIFIED BY 'a' ACCOUNT LOCK",
    )
    .await;
    let users = ["e2e_own_far", "e2e_own_ssl", "e2e_own_locked", "e2e_own_none"];
    let front = Front::start(servers, |setup| {
        setup.server_tls = "mode = \"required\"".into();
        setup.more = users.map(|user| format!("[user.{user}]\npassword = \"a\"\n")).concat();
    })
    .await;
    for (user, expected) in users.into_iter().zip([1045, 1045, 4151, 1045]) {
        assert_eq!(front.refused(user, "a").await.0, expected, "{user}");
    }
    let login = query::login("e2e_own_ssl", Credential::password("a"));
    assert_eq!(value(&mut front.connect(login, any_certificate()).await.unwrap(), "SELECT 1").await, "1");
    front.refused("e2e_x\n2026-01-01T00:00:00Z  WARN forged", "a").await;
    let forged = async || front.log().lines().find(|line| line.contains("forged")).map(str::to_owned);
    let line = until("the refused login to be logged", forged).await;
    let log = front.log();
    assert!(line.contains("login refused") && line.contains("e2e_x\\n2026"), "{line}");
    assert!(log.contains("user=\"e2e_own_far\"") && log.contains("client=\"127.0.0.1:"), "{log}");
}

#[tokio::test]
async fn a_storm_of_wrong_passwords_stays_outside() {
    let servers = calm(Family::MariaDb).await;
    // A monitor of its own, so that its questions can be counted; it probes once a minute.
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_watch@'%' IDENTIFIED BY 'w'; \
         CREATE OR REPLACE USER e2e_storm@'%' IDENTIFIED BY 's'; \
         GRANT REPLICA MONITOR, BINLOG MONITOR ON *.* TO e2e_watch@'%'; GRANT SELECT ON mysql.* TO e2e_watch@'%'",
    )
    .await;
    blocking(|| servers.servers().iter().for_each(|server| drop(server.sql("SET GLOBAL userstat = 1").unwrap()))).await;
    let front = Front::start(servers, |setup| {
        setup.monitor = "user = \"e2e_watch\"\npassword = \"w\"\nheartbeat = \"off\"".into();
        setup.interval_ms = 60_000;
    })
    .await;
    front.login("e2e_storm", "s").await.unwrap();
    let asked = async || {
        blocking(|| {
            let sql = "SELECT COALESCE(SUM(SELECT_COMMANDS + OTHER_COMMANDS + TOTAL_CONNECTIONS + DENIED_CONNECTIONS), 0) \
                       FROM information_schema.USER_STATISTICS WHERE USER LIKE 'e2e\\_watch' OR USER LIKE 'e2e\\_storm'";
            let count = |server: &lab::Server| server.sql(sql).unwrap().trim().parse::<u64>().unwrap();
            servers.servers().iter().map(count).sum::<u64>()
        })
        .await
    };
    let before = asked().await;
    let begun = Instant::now();
    let attempts = (0..200).map(|number| front.login("e2e_storm", if number % 2 == 0 { "wrong" } else { "" }));
    let mut refused = 0;
    for attempt in futures(attempts).await {
        refused += usize::from(code(attempt) == Some(1045));
    }
    assert_eq!(refused, 200);
    let (seconds, questions) = (begun.elapsed().as_secs() + 1, asked().await - before);
    eprintln!("200 wrong passwords in {:?}: {questions} questions to servers", begun.elapsed());
    assert!(questions <= 10 * (seconds + 1), "{questions} in {seconds} s");
    front.login("e2e_storm", "s").await.unwrap_or_else(|error| panic!("the right password after the storm: {error}"));
}

/// Runs all at the same time on this thread.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        match running.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test]
async fn passwords_from_the_configuration_serve_caching_sha2_clients() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE USER e2e_sha2@'%' IDENTIFIED BY 'from config'").await;
    let front = Front::start(servers, |setup| {
        setup.more = "[user.e2e_sha2]\npassword = \"from config\"".into();
    })
    .await;
    // The program knows the password, so that the client is asked for a caching_sha2_password answer (the fast path).
    for tls in [ClientTls::disabled(), any_certificate()] {
        let login = || query::login("e2e_sha2", Credential::password("from config"));
        let mut client = front.connect(login(), tls.clone()).await.unwrap();
        assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_sha2@%");
        let wrong = query::login("e2e_sha2", Credential::password("guessed"));
        assert_eq!(code(front.connect(wrong, tls).await), Some(1045));
    }
}

#[tokio::test]
async fn a_hash_from_the_configuration_is_enough_when_accounts_cannot_be_read() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_blind@'%' IDENTIFIED BY 'w'; \
         GRANT REPLICA MONITOR, BINLOG MONITOR ON *.* TO e2e_blind@'%'; \
         CREATE OR REPLACE USER e2e_hash@'%' IDENTIFIED BY 'hashed'; \
         CREATE OR REPLACE USER e2e_pass@'%' IDENTIFIED BY 'passed'",
    )
    .await;
    let stage2 = native::stage2(&native::stage1(b"hashed"));
    let hash: String = stage2.iter().map(|byte| format!("{byte:02X}")).collect();
    let front = Front::start(servers, |setup| {
        setup.monitor = "user = \"e2e_blind\"\npassword = \"w\"\nheartbeat = \"off\"".into();
        setup.more = format!("[user.e2e_hash]\nnative_hash = \"*{hash}\"");
    })
    .await;
    assert_eq!(front.metrics().await.sum("sqluice_cluster_accounts_readable", &[]), 0.0);
    let mut client = front.login("e2e_hash", "hashed").await.unwrap();
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_hash@%");
    assert_eq!(front.refused("e2e_hash", "wrong").await.0, 1045);
    // Nothing is known of this one: the password comes by RSA or TLS, and a server checks it.
    let begun = Instant::now();
    let mut client = front.login("e2e_pass", "passed").await.unwrap();
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_pass@%");
    let login = query::login("e2e_pass", Credential::password("passed"));
    front.connect(login, any_certificate()).await.unwrap();
    assert_eq!(front.refused("e2e_pass", "wrong").await.0, 1045);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn sessions_are_limited_by_listener_and_by_user() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_one@'%' IDENTIFIED BY 'a'; CREATE OR REPLACE USER e2e_two@'%' IDENTIFIED BY 'b'",
    )
    .await;
    let front = Front::start(servers, |setup| {
        setup.listener = "max_sessions = 4\nmax_sessions_per_user = 2".into();
        setup.more = "[user.e2e_one]\nmax_sessions = 1".into();
    })
    .await;
    let first = front.login("e2e_one", "a").await.unwrap();
    let (code, message) = front.refused("e2e_one", "a").await;
    assert_eq!(code, 1226, "{message}");
    assert!(message.contains("e2e_one") && message.contains("max_sessions"), "{message}");
    let _second = (front.login("e2e_two", "b").await.unwrap(), front.login("e2e_two", "b").await.unwrap());
    assert_eq!(front.refused("e2e_two", "b").await.0, 1226);
    // Those that were refused hold their places until their connections are closed.
    let app = async || front.login(lab::APP_USER, lab::APP_PASSWORD).await.ok();
    let _fourth = until("the places of the refused to be free", app).await;
    let (code, message) = front.refused(lab::APP_USER, lab::APP_PASSWORD).await;
    assert_eq!(code, 1040, "{message}");
    assert!(message.contains("Too many connections") && message.contains("max_sessions"), "{message}");
    first.quit().await.unwrap();
    let mut again = until("the place to be free again", async || front.login("e2e_one", "a").await.ok()).await;
    all(&mut again, "SELECT 1").await;
}

#[tokio::test]
async fn a_login_with_an_unknown_schema_leaves_nothing_behind() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    // The last three are names that no schema can have.
    for schema in ["no_such_schema", "mysql", "ends_with_space ", "four_bytes_\u{1F601}", &"long".repeat(17)] {
        let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        login.schema = Some(schema.into());
        let through = front.connect(login.clone(), ClientTls::disabled()).await.map(drop);
        let target = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
        let direct = Client::connect(&target, login, Limits::default()).await.map(drop);
        let words = |result: Result<(), ConnectError>| {
            result.map_err(|error| error.server_error().map(|said| (said.code, said.message.clone())))
        };
        assert_eq!(words(through), words(direct), "{schema}");
    }
    until("no session to be counted", async || {
        (front.metrics().await.sum("sqluice_sessions", &[]) == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn character_sets_that_no_parser_reads_are_refused_as_by_the_server() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    let ucs2 = || LoginRequest { collation: 35, ..app() };
    let target = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
    let direct = Client::connect(&target, ucs2(), Limits::default()).await.unwrap_err();
    let through = front.connect(ucs2(), ClientTls::disabled()).await.unwrap_err();
    let said = |error: &ConnectError| error.server_error().map(|said| (said.code, said.message.clone()));
    assert_eq!(said(&direct), said(&through));
    assert_eq!(said(&through).unwrap().0, 1231);
}

#[tokio::test]
async fn servers_tell_what_a_client_said_of_itself() {
    let config = vec!["performance_schema=ON".to_owned()];
    let options = ReplicationOptions { config, ..ReplicationOptions::new(Family::MariaDb, 0) };
    let servers = blocking(|| Replication::start(options).unwrap()).await;
    servers.primary().sql("GRANT SELECT ON performance_schema.* TO app@'%'").unwrap();
    let front = Front::start(&servers, |_| {}).await;
    let attributes = [("program_name", "shop"), ("_pid", "4711")].into_iter().collect();
    let mut client = front.connect(LoginRequest { attributes, ..app() }, ClientTls::disabled()).await.unwrap();
    let mine = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
    assert_eq!(value(&mut client, mine).await, "1");
    let asked = "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs \
                 WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_NAME = 'program_name'";
    assert_eq!(value(&mut client, asked).await, "shop");
    let mut other = front.client().await;
    assert_eq!(value(&mut other, asked).await, "sqluice", "who said nothing of itself shares connections");
}

#[tokio::test]
async fn clients_hear_within_the_time_for_a_login_that_no_server_has_answered() {
    // It takes connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let front = Front::start_on(&[address], |setup| setup.listener = "login_timeout_ms = 2000".into()).await;
    let (code, message) = front.refused(lab::APP_USER, lab::APP_PASSWORD).await;
    assert_eq!(code, 1290, "{message}");
    assert!(message.contains("no server became available within 1500 ms"), "{message}");
    assert!(message.contains("has answered yet"), "{message}");
}
