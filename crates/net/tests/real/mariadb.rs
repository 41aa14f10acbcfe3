//! Logging in to a real MariaDB and asking it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lab::{Family, Server, ServerOptions, TlsFiles};
use sqluice_net::client::{Cause, Phase, Target};
use sqluice_net::query::{Client, Limits, Parameter, QueryError};
use sqluice_net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode, TlsVersion};
use sqluice_net::{Address, query};
use wire::auth::{Credential, native};
use wire::handshake::HandshakeError;
use wire::{Capabilities, Status};

use super::support::{Authority, TIMEOUT, login, tcp, unix, with_tls};

const ACCOUNTS: &str = "CREATE USER n@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret');
    CREATE USER e@'%' IDENTIFIED BY '';
    CREATE USER two@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('other');
    CREATE DATABASE shop; GRANT ALL ON shop.* TO n@'%'; GRANT ALL ON shop.* TO two@'%';";

fn start() -> Server {
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = ACCOUNTS.into();
    Server::start(options).unwrap()
}

async fn connect(target: &Target, user: &str, password: &str) -> Client {
    Client::connect(target, login(user, password), Limits::default()).await.unwrap()
}

#[tokio::test]
async fn logins_succeed_and_fail_for_the_right_reasons() {
    let server = start();
    for target in [tcp(&server), unix(&server)] {
        let mut client = connect(&target, "n", "secret").await;
        assert_eq!(client.query_one("SELECT CURRENT_USER()").await.unwrap().scalar().as_deref(), Some("n@%"));
        let id = client.query_one("SELECT CONNECTION_ID()").await.unwrap();
        assert_eq!(id.scalar().unwrap(), client.greeting().connection_id.to_string());
        assert!(!client.capabilities().contains(Capabilities::LONG_PASSWORD), "MariaDB clears it");
        connect(&target, "e", "").await.ping().await.unwrap();
        let stage1 = Credential::NativeStage1(native::stage1(b"secret"));
        let by_hash = Client::connect(&target, query::login("n", stage1), Limits::default()).await;
        by_hash.unwrap().quit().await.unwrap();
        for (user, password) in [("n", "Secret"), ("n", ""), ("e", "x"), ("nobody", "x")] {
            let error = Client::connect(&target, login(user, password), Limits::default()).await.unwrap_err();
            assert_eq!((error.phase, error.server_error().map(|error| error.code)), (Phase::Login, Some(1045)));
        }
    }
    let mut request = login("n", "secret");
    request.schema = Some(b"shop".to_vec());
    request.attributes = [("program_name", "sqluice test")].into_iter().collect();
    let mut client = Client::connect(&tcp(&server), request.clone(), Limits::default()).await.unwrap();
    assert_eq!(client.query_one("SELECT DATABASE()").await.unwrap().scalar().as_deref(), Some("shop"));
    request.schema = Some(b"missing".to_vec());
    let error = Client::connect(&tcp(&server), request, Limits::default()).await.unwrap_err();
    assert_eq!(error.server_error().map(|error| error.code), Some(1044), "{error}");
}

#[tokio::test]
async fn an_answer_by_another_plugin_is_followed_by_a_switch() {
    let server = start();
    let mut request = login("n", "secret");
    // The first answer is caching_sha2_password's; the server's switch to native then finds no fitting credential.
    request.credential = Credential::CachingSha2Stage1(wire::auth::caching_sha2::stage1(b"secret"));
    let error = Client::connect(&tcp(&server), request, Limits::default()).await.unwrap_err();
    let Cause::Protocol(cause) = &error.cause else { panic!("{error}") };
    assert!(matches!(cause, HandshakeError::CredentialRefused(_)), "{error}");
}

#[tokio::test]
async fn passwords_of_former_times_are_refused() {
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = "CREATE USER old@'%' IDENTIFIED VIA mysql_old_password USING '565491d704013245'".into();
    options.config = vec!["secure_auth = OFF".into()];
    let server = Server::start(options).unwrap();
    let error = Client::connect(&tcp(&server), login("old", "secret"), Limits::default()).await.unwrap_err();
    assert!(error.to_string().contains("older than 4.1"), "{error}");
}

#[tokio::test]
async fn a_connection_changes_its_user() {
    let server = start();
    let mut client = connect(&tcp(&server), "n", "secret").await;
    client.change_user(login("two", "other")).await.unwrap();
    assert_eq!(client.query_one("SELECT CURRENT_USER()").await.unwrap().scalar().as_deref(), Some("two@%"));
    client.change_user(login("n", "secret")).await.unwrap();
    client.change_user(login("e", "")).await.unwrap();
    let error = client.change_user(login("n", "wrong")).await.unwrap_err();
    assert_eq!(error.code(), Some(1045), "{error}");
    assert!(matches!(client.ping().await, Err(QueryError::Broken)));
}

#[tokio::test]
async fn the_query_client_reads_every_kind_of_reply() {
    let server = start();
    for capabilities in [query::CAPABILITIES, query::CAPABILITIES - Capabilities::DEPRECATE_EOF] {
        let mut request = login("n", "secret");
        request.capabilities = capabilities;
        let mut client = Client::connect(&tcp(&server), request, Limits::default()).await.unwrap();
        client.init_db("shop").await.unwrap();
        let results = client
            .query(
                "CREATE OR REPLACE TABLE t (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), at DATETIME(3));
                 INSERT INTO t (name, at) VALUES ('a', '2024-02-29 23:59:58.120'), (NULL, NULL);
                 SELECT id, name, at FROM t ORDER BY id; UPDATE t SET name = 'b' WHERE id = 1",
            )
            .await
            .unwrap();
        assert_eq!(results.len(), 4);
        assert_eq!((results[1].affected, results[1].last_insert_id), (2, 1));
        assert_eq!(
            results[2].columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(),
            ["id", "name", "at"]
        );
        assert_eq!(results[2].text(0, "at").as_deref(), Some("2024-02-29 23:59:58.120"));
        assert_eq!(results[2].rows[1], [Some(b"2".to_vec()), None, None]);
        assert!(results[3].info.starts_with("Rows matched: 1"), "{}", results[3].info);

        let statement =
            client.prepare("SELECT id, name, at, ?, ?, ?, ? FROM t WHERE id >= ? ORDER BY id").await.unwrap();
        assert_eq!((statement.parameters, statement.columns), (5, 7));
        let parameters = [Parameter::Null, (-7).into(), "x'y".into(), Parameter::Double(0.5), Parameter::Unsigned(1)];
        let results = client.execute(&statement, &parameters).await.unwrap();
        let texts = |row: &query::Row| -> Vec<String> {
            row.iter()
                .map(|value| value.as_ref().map_or("NULL".into(), |value| String::from_utf8_lossy(value).into()))
                .collect()
        };
        assert_eq!(texts(&results[0].rows[0]), ["1", "b", "2024-02-29 23:59:58.120", "NULL", "-7", "x'y", "0.5"]);
        assert_eq!(texts(&results[0].rows[1])[..3], ["2", "NULL", "NULL"]);
        let error = client.execute(&statement, &[]).await.unwrap_err();
        assert!(matches!(error, QueryError::Parameters { expected: 5, given: 0 }), "{error}");
        client.close(statement).await.unwrap();

        let numbers = client.prepare("SELECT seq FROM seq_1_to_10").await.unwrap();
        let head = client.open_cursor(&numbers, &[]).await.unwrap();
        assert!(head.rows.is_empty() && head.status.contains(Status::CURSOR_EXISTS));
        let part = client.fetch(&numbers, head.columns.clone(), 7).await.unwrap();
        assert_eq!(part.rows.len(), 7);
        let part = client.fetch(&numbers, head.columns, 7).await.unwrap();
        assert_eq!(part.rows.len(), 3);
        assert!(client.status().contains(Status::LAST_ROW_SENT));

        client.query("SET @x = 1; START TRANSACTION").await.unwrap();
        assert!(client.status().contains(Status::IN_TRANSACTION));
        client.reset_connection().await.unwrap();
        assert_eq!(client.query_one("SELECT @x").await.unwrap().rows, [[None]]);
        assert!(!client.status().contains(Status::IN_TRANSACTION));

        let error = client.query("SELECT * FROM missing").await.unwrap_err();
        assert_eq!(
            error.server_error().map(|error| (error.code, error.sqlstate.as_deref())),
            Some((1146, Some("42S02")))
        );
        let error = client.query("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t (name)").await.unwrap_err();
        assert!(error.code().is_some(), "{error}");
        client.send_raw(b"\x03SELECT 1").await.unwrap();
        assert_eq!(client.read_raw().await.unwrap(), (1, vec![1]));
    }
}

#[tokio::test]
async fn limits_hold_and_leave_a_broken_connection() {
    let server = start();
    let limits = Limits { reply_bytes_max: 10_000, ..Limits::default() };
    let mut client = Client::connect(&tcp(&server), login("n", "secret"), limits).await.unwrap();
    client.query("SELECT REPEAT('x', 9000)").await.unwrap();
    client.query("SELECT REPEAT('x', 9000)").await.unwrap();
    let error = client.query("SELECT seq FROM shop.seq_1_to_9000").await.unwrap_err();
    assert!(matches!(error, QueryError::TooLarge(10_000)), "{error}");
    assert!(matches!(client.ping().await, Err(QueryError::Broken)));

    let limits = Limits { timeout: Duration::from_millis(50), ..Limits::default() };
    let mut client = Client::connect(&tcp(&server), login("n", "secret"), limits).await.unwrap();
    let error = client.query("SELECT SLEEP(20)").await.unwrap_err();
    assert!(matches!(error, QueryError::Timeout(_)), "{error}");
    assert!(matches!(client.ping().await, Err(QueryError::Broken)));
}

#[tokio::test]
async fn large_replies_and_statements_cross_packet_boundaries() {
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = ACCOUNTS.into();
    options.config = vec!["max_allowed_packet = 64M".into()];
    let server = Server::start(options).unwrap();
    let mut client = connect(&tcp(&server), "n", "secret").await;
    let length = wire::packet::PAYLOAD_BYTES_MAX;
    for length in [length - 10, length, length + 10] {
        let text = "x".repeat(length);
        let result = client.query_one(format!("SELECT '{text}', LENGTH('{text}')")).await.unwrap();
        assert_eq!(result.rows[0][0].as_deref(), Some(text.as_bytes()));
        assert_eq!(result.rows[0][1].as_deref(), Some(length.to_string().as_bytes()));
    }
}

#[tokio::test]
async fn tls_follows_its_mode() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("localhost");
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = format!(
        "{ACCOUNTS} CREATE USER tls@'%' IDENTIFIED BY 'secret' REQUIRE SSL;
         CREATE USER x509@'%' IDENTIFIED BY 'secret' REQUIRE SUBJECT '/CN=client';"
    );
    options.tls = Some(TlsFiles { authority: authority.file(), certificate, key });
    let server = Server::start(options).unwrap();
    let by_name = || Target { address: Address::Tcp { host: "localhost".into(), port: server.port() }, ..tcp(&server) };
    let ca = authority.file();
    for (target, works) in [
        (with_tls(tcp(&server), ServerTlsMode::Preferred, None), true),
        (with_tls(tcp(&server), ServerTlsMode::Required, None), true),
        (with_tls(tcp(&server), ServerTlsMode::VerifyCa, Some(&ca)), true),
        (with_tls(tcp(&server), ServerTlsMode::VerifyIdentity, Some(&ca)), false),
        (with_tls(by_name(), ServerTlsMode::VerifyIdentity, Some(&ca)), true),
    ] {
        let mode = target.tls.mode();
        match Client::connect(&target, login("tls", "secret"), Limits::default()).await {
            Ok(mut client) => {
                assert!(works, "{mode:?} accepted a wrong name");
                assert!(client.stream().is_tls());
                let cipher = client.query_one("SHOW STATUS LIKE 'Ssl_version'").await.unwrap();
                assert_eq!(cipher.text(0, "Value").as_deref(), Some("TLSv1.3"));
            }
            Err(error) => {
                assert!(!works, "{mode:?}: {error}");
                assert_eq!(error.phase, Phase::Tls, "{error}");
                assert!(matches!(error.cause, Cause::Io(_)), "{error}");
            }
        }
    }
    let error = Client::connect(&tcp(&server), login("tls", "secret"), Limits::default()).await.unwrap_err();
    assert_eq!(error.server_error().map(|error| error.code), Some(1045), "{error}");
    let other = Authority::new();
    let target = with_tls(tcp(&server), ServerTlsMode::VerifyCa, Some(&other.file()));
    let error = Client::connect(&target, login("tls", "secret"), Limits::default()).await.unwrap_err();
    assert_eq!(error.phase, Phase::Tls, "{error}");
    let (certificate, key) = authority.sign("client");
    let options = ClientTlsOptions {
        mode: ServerTlsMode::Required,
        ca_file: None,
        certificate_file: Some(certificate.into()),
        key_file: Some(key.into()),
        min_version: TlsVersion::V13,
    };
    let target = Target { tls: ClientTls::new(&options).unwrap(), ..tcp(&server) };
    connect(&target, "x509", "secret").await.ping().await.unwrap();
    let mut local = connect(&with_tls(unix(&server), ServerTlsMode::Required, None), "n", "secret").await;
    assert!(local.stream().is_secure() && !local.stream().is_tls());
    local.ping().await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_taken_or_refused_by_mode() {
    let server = start();
    let mut client = connect(&with_tls(tcp(&server), ServerTlsMode::Preferred, None), "n", "secret").await;
    client.ping().await.unwrap();
    assert!(!client.stream().is_secure());
    let target = with_tls(tcp(&server), ServerTlsMode::Required, None);
    let error = Client::connect(&target, login("n", "secret"), Limits::default()).await.unwrap_err();
    assert!(matches!((error.phase, &error.cause), (Phase::Tls, Cause::NoTls)), "{error}");
}

#[tokio::test]
async fn who_is_not_there_or_silent_is_told_from_who_refuses() {
    let target = |address: SocketAddr, timeout| {
        Target::plain(Address::Tcp { host: address.ip().to_string(), port: address.port() }, timeout)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = target(listener.local_addr().unwrap(), Duration::from_millis(50));
    let error = sqluice_net::client::connect(&silent, login("n", "")).await.unwrap_err();
    assert!(matches!((error.phase, &error.cause), (Phase::Greeting, Cause::Timeout(_))), "{error}");
    assert!(error.to_string().contains("waiting for the greeting"), "{error}");
    // Bound, so that nobody else can listen there meanwhile.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let refusing = target(closed.local_addr().unwrap(), TIMEOUT);
    let error = sqluice_net::client::connect(&refusing, login("n", "")).await.unwrap_err();
    assert!(matches!((error.phase, &error.cause), (Phase::Connect, Cause::Io(_))), "{error}");
    let nowhere = Target::plain(Address::Unix("/nonexistent/socket".into()), TIMEOUT);
    let error = sqluice_net::client::connect(&nowhere, login("n", "")).await.unwrap_err();
    assert_eq!(error.phase, Phase::Connect, "{error}");
    let unknown = Target::plain("host.invalid:3306".parse().unwrap(), TIMEOUT);
    let error = sqluice_net::client::connect(&unknown, login("n", "")).await.unwrap_err();
    assert_eq!(error.phase, Phase::Resolve, "{error}");
}

#[tokio::test]
async fn a_full_server_is_heard_before_it_greets() {
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = format!("{ACCOUNTS} SET GLOBAL max_connections = 10;");
    let server = Server::start(options).unwrap();
    let mut clients = Vec::new();
    let error = loop {
        assert!(clients.len() < 20, "max_connections is 10");
        match Client::connect(&tcp(&server), login("n", "secret"), Limits::default()).await {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!(error.server_error().map(|error| error.code), Some(1040), "{error}");
}

#[tokio::test]
async fn certificates_of_version_1_encrypt_where_nobody_verifies() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let certificate = data.join("version1.pem");
    let mut options = ServerOptions::new(Family::MariaDb);
    options.init_sql = ACCOUNTS.into();
    options.tls = Some(TlsFiles {
        authority: certificate.clone(),
        certificate: certificate.clone(),
        key: data.join("version1.key"),
    });
    for version in ["TLSv1.2", "TLSv1.3"] {
        options.config = vec![format!("tls_version = {version}")];
        let server = Server::start(options.clone()).unwrap();
        let mut client = connect(&with_tls(tcp(&server), ServerTlsMode::Required, None), "n", "secret").await;
        let reported = client.query_one("SHOW STATUS LIKE 'Ssl_version'").await.unwrap();
        assert_eq!(reported.text(0, "Value").as_deref(), Some(version));
        let target = with_tls(tcp(&server), ServerTlsMode::VerifyCa, Some(&certificate));
        let error = Client::connect(&target, login("n", "secret"), Limits::default()).await.unwrap_err();
        assert!(error.phase == Phase::Tls && error.to_string().contains("UnsupportedCertVersion"), "{error}");
    }
}
