//! TLS on both sides.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::Family;
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::login::accounts;
use crate::support::{
    Authority, Front, all, any_certificate, app, authority, calm, client_program, error, failing, has_mysql, run,
    until, value,
};

const BACKEND_CIPHER: &str =
    "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_CIPHER'";

/// A server that answers at a known address with another certificate gets no password that it could read.
#[tokio::test]
async fn another_server_at_a_known_address_gets_no_password() {
    if !has_mysql() {
        return;
    }
    let (servers, others) = (calm(Family::MySql).await, failing(Family::MySql).await);
    for cluster in [servers, *others] {
        let create = |user| format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY 'p'");
        accounts(cluster, &["known_first", "known_later"].map(create).join("; ")).await;
    }
    let target = Arc::new(Mutex::new(servers.primary().address().to_string()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (moved, move_) = tokio::sync::watch::channel(());
    let to = target.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut moves) = (to.lock().unwrap().clone(), move_.clone());
            moves.mark_unchanged();
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(to).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = moves.changed() => {}
                }
            });
        }
    });
    let front = Front::start_on(&[address], |setup| {
        setup.kind = "standalone";
        setup.server_tls = "mode = \"required\"".into();
    })
    .await;
    let ask = async |user: &str| match front.login(user, "p").await {
        Ok(mut client) => client.query_one("SELECT 1").await.err().map_or("good".to_owned(), |error| error.to_string()),
        Err(error) => error.to_string(),
    };
    until("a login", async || (ask("known_first").await == "good").then_some(())).await;
    *target.lock().unwrap() = others.primary().address().to_string();
    moved.send(()).unwrap();
    until("the other server to be refused the password", async || {
        let answer = ask("known_later").await;
        assert_ne!(answer, "good");
        answer.contains("not the one that it has shown before").then_some(())
    })
    .await;
}

#[tokio::test]
async fn passwords_go_to_servers_that_are_known() {
    if !has_mysql() {
        return;
    }
    let servers = calm(Family::MySql).await;
    // Nobody has logged in as them: the server wants their passwords.
    let users = ["known_a", "known_b"];
    let create = |user| format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY 'p'");
    accounts(servers, &users.map(create).join("; ")).await;
    for (mode, user) in ["required", "disabled"].into_iter().zip(users) {
        let mut front = Front::start(servers, |setup| {
            setup.server_tls = format!("mode = \"{mode}\"");
            setup.cluster += "\nsend_passwords = \"any\"";
        })
        .await;
        front.reload(|setup| setup.cluster = setup.cluster.replace("\"any\"", "\"verified\""));
        // A login before that would have the server remember the user.
        until("the configuration to be read", async || front.log().contains("was read again").then_some(())).await;
        let (code, message) = front.refused(user, "p").await;
        assert_eq!(code, 1045, "{message}");
        assert!(message.contains("not verified") || message.contains("not TLS"), "{mode}: {message}");
        front.reload(|setup| setup.cluster = setup.cluster.replace("\"verified\"", "\"known\""));
        until("passwords to go to known servers", async || front.login(user, "p").await.ok()).await;
        assert!(front.log().contains("passwords go to whoever answers"), "{}", front.log());
    }
}

#[tokio::test]
async fn the_ordinary_client_encrypts_with_the_self_made_certificate() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.arg("--ssl");
    let out = run(command, "\\s\nSELECT 'through';\n").await.output();
    assert!(out.contains("Cipher in use is TLS_"), "{out}");
    assert!(out.lines().any(|line| line == "through"), "{out}");
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.args(["--ssl", "--ssl-verify-server-cert"]);
    let verified = run(command, "SELECT 1").await;
    let mut command = Command::new(client_program(Family::MariaDb));
    command.arg("--version");
    let is_old = run(command, "").await.output().contains("Distrib 10.");
    assert_eq!(verified.good, !is_old, "a self-made certificate proves nothing but to clients that know better");
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.arg("--skip-ssl");
    let out = run(command, "\\s\n").await.output();
    assert!(out.contains("Not in use"), "{out}");
}

#[tokio::test]
async fn a_listener_may_insist_on_tls_or_not_offer_it() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.listener_tls = "mode = \"required\"".into()).await;
    let (code, message) = front.refused(lab::APP_USER, lab::APP_PASSWORD).await;
    assert_eq!(code, 3159);
    assert!(message.contains("insecure transport"), "{message}");
    let mut client = front.connect(app(), any_certificate()).await.unwrap();
    assert_eq!(value(&mut client, "SELECT 5").await, "5");
    let off = Front::start(servers, |setup| setup.listener_tls = "mode = \"off\"".into()).await;
    let error = off.connect(app(), any_certificate()).await.unwrap_err();
    assert!(error.to_string().contains("no TLS"), "{error}");
    all(&mut off.client().await, "SELECT 1").await;
}

#[tokio::test]
async fn connections_to_servers_are_encrypted_as_configured() {
    let servers = calm(Family::MariaDb).await;
    let ca = authority().file();
    for (mode, encrypted) in [
        ("mode = \"disabled\"".to_owned(), false),
        ("mode = \"preferred\"".to_owned(), true),
        ("mode = \"required\"".to_owned(), true),
        (format!("mode = \"verify_identity\"\nca_file = \"{}\"", ca.display()), true),
    ] {
        let front = Front::start(servers, |setup| setup.server_tls = mode.clone()).await;
        let mut client = front.client().await;
        for hint in ["", "/* sqluice: primary */ "] {
            let cipher = value(&mut client, &format!("{hint}{BACKEND_CIPHER}")).await;
            assert_eq!(!cipher.is_empty(), encrypted, "{mode}: {cipher:?}");
        }
        // TLS connections stay with their worker; both workers get theirs.
        for _ in 0..4 {
            all(&mut front.client().await, "SELECT 1").await;
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_itself_gets_nothing() {
    let servers = calm(Family::MariaDb).await;
    let stranger = Authority::new();
    let mut front = Front::start(servers, |setup| setup.listener = "hold_ms = 500".into()).await;
    let mut client = front.client().await;
    all(&mut client, "SELECT 1").await;
    let ca = stranger.file();
    front.reload(|setup| setup.server_tls = format!("mode = \"verify_ca\"\nca_file = \"{}\"", ca.display()));
    until("servers to be distrusted", async || {
        let metrics = front.metrics().await;
        (metrics.sum("sqluice_cluster_has_primary", &[]) == 0.0).then_some(())
    })
    .await;
    let (_, message) = error(&mut client, "INSERT INTO app.nothing VALUES (1)").await;
    assert!(message.contains("UnknownIssuer") || message.contains("certificate"), "{message}");
}

// The time for a login in the next two tests covers the first reading of the servers' dictionaries as well, beside other tests.
#[tokio::test]
async fn a_client_that_never_speaks_is_disconnected() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.listener = "login_timeout_ms = 1000".into()).await;
    let mut socket = tokio::net::TcpStream::connect(&front.address).await.unwrap();
    let mut greeting = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut greeting);
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
    assert!(!greeting.is_empty());
    let refused = front.connect(app(), ClientTls::disabled()).await;
    assert!(refused.is_ok());
    assert_eq!(front.metrics().await.sum("sqluice_login_failures_total", &[]), 1.0);
}

/// An SSLRequest: the fixed part of a login, with the request for TLS.
fn ssl_request() -> Vec<u8> {
    let capabilities =
        wire::Capabilities::TLS | wire::Capabilities::PROTOCOL_41 | wire::Capabilities::SECURE_CONNECTION;
    let request = wire::handshake::SslRequest { capabilities, packet_bytes_max: 1 << 24, collation: 45 };
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    request.encode(&mut payload);
    wire::packet::append(&mut out, 1, &payload);
    out
}

#[tokio::test]
async fn a_handshake_that_stops_halfway_ends_with_the_login_timeout() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.listener = "login_timeout_ms = 1000".into()).await;
    // A record that announces 500 bytes and has 5.
    let half = [0x16, 3, 1, 1, 0xf4, 1, 0, 1, 0xf0, 3];
    for sent in 0..=half.len() {
        let mut socket = tokio::net::TcpStream::connect(&front.address).await.unwrap();
        net::packets::read(&mut socket, 1024).await.unwrap();
        socket.write_all(&ssl_request()).await.unwrap();
        socket.write_all(&half[..sent]).await.unwrap();
        if sent % 2 == 0 {
            // It hangs up itself.
            continue;
        }
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "still connected after {sent} bytes");
    }
    let mut client = front.connect(app(), any_certificate()).await.unwrap();
    all(&mut client, "SELECT 1").await;
    until("all of them to be counted", async || {
        let failures = front.metrics().await.sum("sqluice_login_failures_total", &[]);
        (failures == (half.len() + 1) as f64).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_listener_may_demand_a_certificate_and_a_version() {
    let servers = calm(Family::MariaDb).await;
    let clients = Authority::new();
    let ca = clients.file();
    let front = Front::start(servers, |setup| {
        setup.listener_tls = format!(
            "mode = \"required\"\nmin_version = \"1.3\"\nclient_ca_file = \"{}\"\nclient_cert = \"required\"",
            ca.display()
        );
    })
    .await;
    let with = |authority: &Authority| {
        let (certificate, key) = authority.sign();
        ClientTls::new(&ClientTlsOptions {
            mode: ServerTlsMode::Required,
            certificate_file: Some(certificate.into()),
            key_file: Some(key.into()),
            ..ClientTlsOptions::default()
        })
        .unwrap()
    };
    let mut client = front.connect(app(), with(&clients)).await.unwrap();
    assert_eq!(value(&mut client, "SELECT 6").await, "6");
    assert!(front.connect(app(), any_certificate()).await.is_err(), "let in without a certificate");
    assert!(front.connect(app(), with(&Authority::new())).await.is_err(), "let in with a stranger's certificate");
    let (certificate, key) = clients.sign();
    for (version, good) in [("TLSv1.3", true), ("TLSv1.2", false)] {
        let mut command = front.cli(&client_program(Family::MariaDb));
        command.args(["--ssl", &format!("--tls-version={version}")]);
        command.arg(format!("--ssl-cert={}", certificate.display())).arg(format!("--ssl-key={}", key.display()));
        let ran = run(command, "SELECT 7").await;
        assert_eq!(ran.good, good, "{version}: {}{}", ran.out, ran.err);
    }
}
