//! Accounts of every plugin, with clients that have it and clients that have not.

use std::path::Path;
use std::process::Command;

use lab::{Family, Replication};
use net::client::{ConnectError, Target};
use net::query::{self, Client, Limits};
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use wire::Capabilities;
use wire::auth::{Credential, certificate_proof, native};
use wire::handshake::client::LoginRequest;

use crate::login::accounts;
use crate::support::{
    Front, SOON, all, any_certificate, authority, blocking, calm, client_program, error, has_mysql, run, value,
};

/// Loads a plugin into all servers; gives whether they have it. Debian's core package of 10.11 has none; CI tries them with
/// MariaDB 11.8, where all must be there.
pub async fn install(servers: &'static Replication, library: &'static str) -> bool {
    blocking(move || {
        servers.servers().iter().all(|server| {
            let loaded = server.sql(&format!("INSTALL SONAME '{library}'"));
            let is = loaded.is_ok() || loaded.is_err_and(|error| error.to_string().contains("already"));
            if !is {
                match server.sql("SELECT VERSION() LIKE '10.%'").unwrap().trim() {
                    "1" => eprintln!("not a part of this server: {library}"),
                    _ => lab::skip(&format!("this server has no {library}")),
                }
            }
            is
        })
    })
    .await
}

fn login(user: &str, password: &str) -> LoginRequest {
    query::login(user, Credential::password(password))
}

async fn current_user(front: &Front, user: &str, password: &str, tls: &ClientTls) -> Result<String, ConnectError> {
    let mut client = front.connect(login(user, password), tls.clone()).await?;
    Ok(value(&mut client, "SELECT CURRENT_USER()").await)
}

fn code(error: ConnectError) -> (u16, String) {
    let said = error.server_error().unwrap_or_else(|| panic!("{error}"));
    (said.code, said.message.clone())
}

/// The server's own reply.
async fn directly(servers: &Replication, request: LoginRequest) -> Result<Client, ConnectError> {
    let target = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
    Client::connect(&target, request, Limits::default()).await
}

#[tokio::test]
async fn accounts_that_sign_work_once_their_password_was_heard() {
    let servers = calm(Family::MariaDb).await;
    for (library, plugin, setting) in [("auth_ed25519", "ed25519", 1), ("auth_parsec", "parsec", 2)] {
        if !install(servers, library).await {
            continue;
        }
        let user = format!("e2e_signs{setting}");
        accounts(
            servers,
            &format!(
                "CREATE OR REPLACE USER {user}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('secret'); \
                 CREATE OR REPLACE USER {user}w@'%' IDENTIFIED VIA {plugin} USING PASSWORD('written'); \
                 GRANT ALL ON *.* TO {user}w@'%'"
            ),
        )
        .await;
        // The monitor, too, has such an account.
        let front = Front::start(servers, |setup| {
            setup.monitor = format!("user = \"{user}w\"\npassword = \"written\"");
            setup.more = format!("[user.{user}w]\npassword = \"written\"");
        })
        .await;
        let (plain, tls) = (ClientTls::disabled(), any_certificate());
        for way in [&plain, &tls, &plain] {
            let name = current_user(&front, &user, "secret", way).await.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(name, format!("{user}@%"));
            assert_eq!(current_user(&front, &format!("{user}w"), "written", way).await.unwrap(), format!("{user}w@%"));
            for wrong in ["wrong", "Secret", ""] {
                let (code, message) = code(current_user(&front, &user, wrong, way).await.unwrap_err());
                let using = if wrong.is_empty() { "NO" } else { "YES" };
                let words = format!("Access denied for user '{user}'@'127.0.0.1' (using password: {using})");
                assert_eq!((code, message), (1045, words));
            }
        }
        accounts(servers, &format!("ALTER USER {user}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('changed')")).await;
        assert_eq!(current_user(&front, &user, "changed", &tls).await.unwrap(), format!("{user}@%"));
        // The ordinary client, by whatever plugin it is told to use.
        for default in ["client_ed25519", "mysql_native_password", "caching_sha2_password", "mysql_clear_password"] {
            let mut command = front.cli(&client_program(Family::MariaDb));
            command.args([format!("--user={user}w"), format!("--default-auth={default}"), "--ssl".into()]);
            command.env("MYSQL_PWD", "written");
            let out = run(command, "SELECT CURRENT_USER()").await.output();
            assert_eq!(out.trim(), format!("{user}w@%"), "{default}");
        }
    }
}

#[tokio::test]
async fn change_user_goes_between_plugins() {
    let servers = calm(Family::MariaDb).await;
    if !install(servers, "auth_ed25519").await {
        return;
    }
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_change1@'%' IDENTIFIED VIA ed25519 USING PASSWORD('one'); \
         CREATE OR REPLACE USER e2e_change2@'%' IDENTIFIED BY 'two'; CREATE OR REPLACE USER e2e_change3@'%'",
    )
    .await;
    let front = Front::start(servers, |_| {}).await;
    for tls in [ClientTls::disabled(), any_certificate()] {
        let mut client = front.connect(login("e2e_change2", "two"), tls).await.unwrap();
        let passwords = [("e2e_change1", "one"), ("e2e_change2", "two"), ("e2e_change3", "")];
        for (user, password) in passwords.into_iter().cycle().take(7) {
            all(&mut client, "SET @a = 1").await;
            client.change_user(login(user, password)).await.unwrap_or_else(|error| panic!("{user}: {error}"));
            assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, format!("{user}@%"));
            assert_eq!(value(&mut client, "SELECT @a").await, "NULL", "the session is a new one");
        }
        let mut to_schema = login(lab::APP_USER, lab::APP_PASSWORD);
        to_schema.schema = Some(lab::APP_DATABASE.into());
        client.change_user(to_schema).await.unwrap();
        assert_eq!(value(&mut client, "SELECT DATABASE()").await, lab::APP_DATABASE);
        let mut nowhere = login(lab::APP_USER, lab::APP_PASSWORD);
        nowhere.schema = Some(b"no_such_schema".to_vec());
        let words = |error: query::QueryError| error.server_error().map(|said| (said.code, said.message.clone()));
        let mut other = directly(servers, login(lab::APP_USER, lab::APP_PASSWORD)).await.unwrap();
        let theirs = words(other.change_user(nowhere.clone()).await.unwrap_err());
        assert_eq!(words(client.change_user(nowhere).await.unwrap_err()), theirs);
    }
    // The session's present user decides who may kill it.
    let mut changed = front.login("e2e_change2", "two").await.unwrap();
    changed.change_user(login("e2e_change1", "one")).await.unwrap();
    let kill = format!("KILL {}", changed.greeting().connection_id);
    assert_eq!(error(&mut front.login("e2e_change2", "two").await.unwrap(), &kill).await.0, 1095);
    all(&mut front.login("e2e_change1", "one").await.unwrap(), &kill).await;
    assert!(changed.query("SELECT 1").await.is_err());
    let mut client = front.login("e2e_change2", "two").await.unwrap();
    let mut other = directly(servers, login("e2e_change2", "two")).await.unwrap();
    for client in [&mut client, &mut other] {
        let refused = client.change_user(login("e2e_change1", "two")).await.unwrap_err();
        assert_eq!(refused.server_error().map(|said| said.code), Some(1045), "{refused}");
        assert!(client.query("SELECT 1").await.is_err(), "a failed change ends the connection");
    }
}

/// The text of the OK that ended a login.
fn info(ok_payload: &[u8], capabilities: Capabilities) -> Vec<u8> {
    wire::reply::Ok::parse(ok_payload, capabilities).unwrap().info.to_vec()
}

#[tokio::test]
async fn mariadbs_clients_get_a_proof_of_the_certificate() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    let connect = async |tls: ClientTls| {
        let target = Target { tls, ..Target::plain(front.address.parse().unwrap(), SOON) };
        net::client::connect(&target, login(lab::APP_USER, lab::APP_PASSWORD)).await.unwrap()
    };
    let connected = connect(any_certificate()).await;
    let fingerprint = wire::auth::fingerprint(connected.stream.peer_certificate().unwrap());
    let hash = native::stage2(&native::stage1(lab::APP_PASSWORD.as_bytes()));
    let proof = certificate_proof(&hash, &connected.greeting.scramble, &fingerprint);
    assert_eq!(info(&connected.ok_payload, connected.capabilities), proof);
    let connected = connect(ClientTls::disabled()).await;
    assert_eq!(info(&connected.ok_payload, connected.capabilities), b"", "there is nothing to prove without TLS");
    // Clients from 11.4 on insist on it, except towards 127.0.0.1.
    let front = Front::start(servers, |setup| {
        setup.more = "[listener.other]\naddress = \"127.0.0.2:0\"\ncluster = \"main\"".into();
    })
    .await;
    let program = client_program(Family::MariaDb);
    let mut command = Command::new(&program);
    command.arg("--version");
    let version = run(command, "").await.output();
    if version.contains("Distrib 10.") {
        eprintln!("the client knows no such proof, those from 11.4 on do ({version})");
        return;
    }
    let other = front.address_of("other");
    let (host, port) = other.rsplit_once(':').unwrap();
    let mut command = Command::new(&program);
    command.args(["--no-defaults", "--protocol=tcp", "--batch", "--skip-column-names", "--ssl-verify-server-cert"]);
    command.args([format!("--host={host}"), format!("--port={port}"), format!("--user={}", lab::APP_USER)]);
    command.env("MYSQL_PWD", lab::APP_PASSWORD);
    assert_eq!(run(command, "SELECT 'trusted'").await.output().trim(), "trusted");
}

/// TLS as a client that shows a certificate.
fn with_certificate(certificate: &Path, key: &Path) -> ClientTls {
    ClientTls::new(&ClientTlsOptions {
        mode: ServerTlsMode::Required,
        certificate_file: Some(certificate.into()),
        key_file: Some(key.into()),
        ..ClientTlsOptions::default()
    })
    .unwrap()
}

#[tokio::test]
async fn what_accounts_require_of_tls_is_required() {
    let servers = calm(Family::MariaDb).await;
    // Sqluice itself shows the servers the same certificate.
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("client.pem"), folder.path().join("client.key"));
    authority().sign_into(&certificate, &key);
    let requirements = [
        ("SSL", true, true),
        ("X509", false, true),
        ("SUBJECT '/CN=127.0.0.1'", false, true),
        ("ISSUER '/CN=e2e authority'", false, true),
        ("SUBJECT '/CN=127.0.0.1' AND ISSUER '/CN=e2e authority'", false, true),
        ("SUBJECT '/CN=somebody'", false, false),
        ("ISSUER '/CN=somebody'", false, false),
        ("CIPHER 'no such cipher'", false, false),
    ];
    let sql: String = requirements.iter().enumerate().fold(String::new(), |sql, (number, (what, ..))| {
        sql + &format!("CREATE OR REPLACE USER e2e_tls{number}@'%' IDENTIFIED BY 'secret' REQUIRE {what};")
    });
    accounts(servers, &sql).await;
    let (certificate_text, key_text) = (certificate.display().to_string(), key.display().to_string());
    let front = Front::start(servers, |setup| {
        setup.server_tls =
            format!("mode = \"required\"\ncert_file = \"{certificate_text}\"\nkey_file = \"{key_text}\"");
        setup.listener_tls = format!("client_ca_file = \"{}\"", authority().file().display());
    })
    .await;
    let (plain, bare, shown) = (ClientTls::disabled(), any_certificate(), with_certificate(&certificate, &key));
    for (number, (what, good_bare, good_shown)) in requirements.into_iter().enumerate() {
        let user = format!("e2e_tls{number}");
        for (tls, good) in [(&plain, false), (&bare, good_bare), (&shown, good_shown)] {
            match current_user(&front, &user, "secret", tls).await {
                Ok(name) => assert!(good && name == format!("{user}@%"), "{what}: {name}"),
                Err(error) => assert!(!good && code(error).0 == 1045, "{what}"),
            }
        }
    }
    let stranger = crate::support::Authority::new();
    let (certificate, key) = stranger.sign();
    let refused = front.connect(login("e2e_tls0", "secret"), with_certificate(&certificate, &key)).await;
    assert!(refused.is_err(), "a certificate of another authority is refused by the handshake");
    let front = Front::start(servers, |_| {}).await;
    let (code, message) = code(current_user(&front, "e2e_tls1", "secret", &bare).await.unwrap_err());
    assert!(code == 1045 && message.contains("client_ca_file"), "{message}");
}

#[tokio::test]
async fn accounts_that_cannot_be_passed_on_say_so() {
    let servers = calm(Family::MariaDb).await;
    let has_dialog = install(servers, "dialog_examples").await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_socket@'%' IDENTIFIED VIA unix_socket; \
         CREATE OR REPLACE USER e2e_invalid@'%' IDENTIFIED VIA mysql_native_password USING 'invalid'; \
         CREATE OR REPLACE USER e2e_either@'%' IDENTIFIED VIA unix_socket OR mysql_native_password USING PASSWORD('p')",
    )
    .await;
    let front = Front::start(servers, |setup| setup.server_tls = "mode = \"required\"".into()).await;
    let tls = any_certificate();
    // The client hears what one without an account hears; the log says why.
    let mut reported = Vec::new();
    for user in ["e2e_socket", "e2e_sockeu"] {
        let (code, message) = code(current_user(&front, user, "x", &tls).await.unwrap_err());
        reported.push((code, message.replace(user, "-")));
    }
    assert_eq!(reported[0], reported[1]);
    assert_eq!(reported[0].0, 1045);
    assert!(front.log().contains("works on the server's own socket only"), "{}", front.log());
    let refused = code(current_user(&front, "e2e_invalid", "invalid", &tls).await.unwrap_err());
    assert_eq!(refused, code(directly(servers, login("e2e_invalid", "invalid")).await.map(drop).unwrap_err()));
    assert_eq!(current_user(&front, "e2e_either", "p", &tls).await.unwrap(), "e2e_either@%");
    if !has_dialog {
        return;
    }
    // PAM and its like: the password passes over TLS, and a server says whether it is right.
    accounts(servers, "CREATE OR REPLACE USER e2e_asked@'%' IDENTIFIED VIA three_attempts USING 'secret'").await;
    assert_eq!(current_user(&front, "e2e_asked", "secret", &tls).await.unwrap(), "e2e_asked@%");
    assert_eq!(code(current_user(&front, "e2e_asked", "wrong", &tls).await.unwrap_err()).0, 1045);
    let reported = code(current_user(&front, "e2e_asked", "secret", &ClientTls::disabled()).await.unwrap_err());
    assert_eq!(reported.0, 1045);
    assert!(front.log().contains("must use TLS"), "{}", front.log());
}

/// An expired password, with clients that can and cannot handle it.
async fn check_expired(family: Family, change: &str) {
    let servers = calm(family).await;
    accounts(servers, "CREATE USER e2e_expired@'%' IDENTIFIED BY 'old' PASSWORD EXPIRE").await;
    let front = Front::start(servers, |_| {}).await;
    let able = |password: &str| {
        let mut request = login("e2e_expired", password);
        request.capabilities |= Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
        request
    };
    let through = front.login("e2e_expired", "old").await.map(drop).map_err(code);
    let theirs = directly(servers, login("e2e_expired", "old")).await.map(drop).map_err(code);
    assert_eq!(through, theirs, "a client that cannot handle it");
    let mut client = front.connect(able("old"), ClientTls::disabled()).await.unwrap_or_else(|error| panic!("{error}"));
    let mut other = directly(servers, able("old")).await.unwrap();
    for sql in ["SELECT 1", "BEGIN", "USE mysql"] {
        assert_eq!(error(&mut client, sql).await, error(&mut other, sql).await, "{sql}");
    }
    front.is_pinned_by(&["expired_password"]).await;
    all(&mut client, change).await;
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_expired@%", "the session goes on");
    drop(client);
    let mut client = front.login("e2e_expired", "new").await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "e2e_expired@%");
    front.is_pinned_by(&[]).await;
    assert_eq!(front.refused("e2e_expired", "old").await.0, 1045);
}

#[tokio::test]
async fn an_expired_password_can_be_changed_and_nothing_else() {
    check_expired(Family::MariaDb, "SET PASSWORD = PASSWORD('new')").await;
}

#[tokio::test]
async fn an_expired_password_can_be_changed_and_nothing_else_on_mysql() {
    if has_mysql() {
        check_expired(Family::MySql, "ALTER USER USER() IDENTIFIED BY 'new'").await;
    }
}

#[tokio::test]
async fn a_locked_account_is_told_to_those_who_know_its_password() {
    for family in [Family::MariaDb, Family::MySql] {
        if family == Family::MySql && !has_mysql() {
            continue;
        }
        let servers = calm(family).await;
        accounts(servers, "CREATE USER e2e_lock@'%' IDENTIFIED BY 'right' ACCOUNT LOCK").await;
        let front = Front::start(servers, |_| {}).await;
        for password in ["right", "wrong", ""] {
            let theirs = code(directly(servers, login("e2e_lock", password)).await.map(drop).unwrap_err());
            assert_eq!(front.refused("e2e_lock", password).await, theirs, "{password:?}");
        }
    }
}

#[tokio::test]
async fn mysqls_plugins_and_mysqls_own_client() {
    if !has_mysql() {
        return;
    }
    let servers = calm(Family::MySql).await;
    accounts(
        servers,
        "CREATE USER e2e_sha256@'%' IDENTIFIED WITH sha256_password BY 'secret'; \
         GRANT SELECT ON app.* TO e2e_sha256@'%'; \
         CREATE USER e2e_hosts@'127.0.0.%' IDENTIFIED BY 'near'; CREATE USER e2e_hosts@'10.%' IDENTIFIED BY 'far'; \
         CREATE USER ''@'%' IDENTIFIED BY 'anybody'",
    )
    .await;
    let front = Front::start(servers, |setup| setup.server_tls = "mode = \"preferred\"".into()).await;
    for tls in [ClientTls::disabled(), any_certificate(), ClientTls::disabled()] {
        assert_eq!(current_user(&front, "e2e_sha256", "secret", &tls).await.unwrap(), "e2e_sha256@%");
        assert_eq!(code(current_user(&front, "e2e_sha256", "wrong", &tls).await.unwrap_err()).0, 1045);
        assert_eq!(current_user(&front, "e2e_hosts", "near", &tls).await.unwrap(), "e2e_hosts@127.0.0.%");
        assert_eq!(code(current_user(&front, "e2e_hosts", "far", &tls).await.unwrap_err()).0, 1045);
        assert_eq!(current_user(&front, "e2e_stranger", "anybody", &tls).await.unwrap(), "@%");
    }
    blocking(|| servers.primary().sql("DROP USER ''@'%'").unwrap()).await;
    for mode in ["DISABLED", "REQUIRED"] {
        for user in ["e2e_sha256", "e2e_nobody"] {
            let mut command = front.cli(&client_program(Family::MySql));
            command.args([format!("--user={user}"), format!("--ssl-mode={mode}"), "--get-server-public-key".into()]);
            command.env("MYSQL_PWD", "secret");
            let ran = run(command, "SELECT CURRENT_USER()").await;
            match user {
                "e2e_sha256" => assert_eq!(ran.output().trim(), "e2e_sha256@%"),
                _ => assert!(ran.err.contains("ERROR 1045"), "{}", ran.err),
            }
        }
    }
}

/// MySQL's client has no native plugin since 9.0.
#[tokio::test]
async fn mysqls_client_reaches_native_accounts_of_mariadb() {
    if !has_mysql() {
        return;
    }
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE USER e2e_empty@'%'; GRANT SELECT ON app.* TO e2e_empty@'%'").await;
    for round in 0..2 {
        let front = Front::start(servers, |_| {}).await;
        for mode in ["DISABLED", "REQUIRED"] {
            let client = |user: &str, password: &str| {
                let mut command = front.cli(&client_program(Family::MySql));
                command.args([
                    format!("--user={user}"),
                    format!("--ssl-mode={mode}"),
                    "--get-server-public-key".into(),
                ]);
                command.env("MYSQL_PWD", password);
                command
            };
            if round == 1 {
                // A session that was proved by a hash alone is of no use to this client, nor in its way.
                front.login(lab::APP_USER, lab::APP_PASSWORD).await.unwrap();
            }
            let out = run(client(lab::APP_USER, lab::APP_PASSWORD), "SELECT CURRENT_USER()").await.output();
            assert_eq!(out.trim(), "app@%", "{mode}");
            let out = run(client("e2e_empty", ""), "SELECT CURRENT_USER()").await.output();
            assert_eq!(out.trim(), "e2e_empty@%", "{mode}");
            for user in [lab::APP_USER, "e2e_nobody"] {
                let refused = run(client(user, "wrong"), "SELECT 1").await.err;
                assert!(refused.contains("ERROR 1045 (28000)"), "{user} {mode}: {refused}");
            }
        }
    }
}
