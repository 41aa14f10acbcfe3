//! TLS on the admin listener and on the SQL console.

use std::path::Path;
use std::process::Command;

use lab::Family;
use net::client::{ConnectError, Target};
use net::query::{self, Client, Limits};
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::auth::Credential;

use crate::support::{Authority, Front, Ran, SOON, any_certificate, calm, http, http_send, run, until, value};

const KEY: &str = "hush hush";

/// TLS with servers of this authority.
fn verified(ca: &Path) -> ClientTls {
    let mode = ServerTlsMode::VerifyIdentity;
    ClientTls::new(&ClientTlsOptions { mode, ca_file: Some(ca.into()), ..ClientTlsOptions::default() }).unwrap()
}

/// One request over TLS: the answer with its head, and the certificate of the server.
async fn https(front: &Front, tls: &ClientTls, request: &str, body: &str) -> std::io::Result<(String, Vec<u8>)> {
    let mut stream = net::open(&front.admin.parse().unwrap(), tls).await?;
    let certificate = stream.peer_certificate().unwrap().to_vec();
    let length = body.len();
    let head =
        format!("{request} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer, certificate))
}

async fn console(front: &Front, tls: ClientTls) -> Result<Client, ConnectError> {
    let target = Target { tls, ..Target::plain(front.address_of("console").parse().unwrap(), SOON) };
    let login = query::login("admin", Credential::password(KEY));
    Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await
}

async fn cli(front: &Front, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sqluice"));
    command.current_dir(front.folder()).args(arguments);
    run(command, "").await
}

fn pem(authority: &Authority) -> (String, String) {
    let (cert, key) = authority.sign();
    (cert.display().to_string(), key.display().to_string())
}

async fn start(admin: &str) -> Front {
    let servers = calm(Family::MariaDb).await;
    let address = servers.primary().address().to_string();
    let admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n{admin}");
    Front::start_on(&[address], |setup| (setup.kind, setup.admin) = ("standalone", admin)).await
}

#[tokio::test]
async fn a_certificate_makes_both_listeners_demand_tls_and_a_reload_renews_it() {
    let authority = Authority::new();
    let (cert, key) = pem(&authority);
    let front = start(&format!("tls = {{ cert_file = \"{cert}\", key_file = \"{key}\" }}")).await;
    // The line may follow the file that says that all listens.
    let line = format!("metrics at https://{}/metrics", front.admin);
    until("the address in the log", async || front.log().contains(&line).then_some(())).await;
    let tls = verified(&authority.file());
    // Connections that say nothing, and half a handshake, keep nobody out.
    let _silent = tokio::net::TcpStream::connect(&front.admin).await.unwrap();
    let mut half = tokio::net::TcpStream::connect(&front.admin).await.unwrap();
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    let (health, first) = https(&front, &tls, "GET /healthz", "").await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("ok\n"), "{health}");
    let (status, words) = http(&front.admin, "/healthz").await;
    assert!(status == 400 && words.contains("use https://"), "{status} {words}");
    let (login, _) = https(&front, &tls, "POST /api/v1/login", &format!("{{\"key\": \"{KEY}\"}}")).await.unwrap();
    let cookie = login.lines().find(|line| line.starts_with("set-cookie: ")).unwrap_or_else(|| panic!("{login}"));
    assert!(cookie.contains("; HttpOnly; SameSite=Strict;") && cookie.ends_with("; Secure"), "{cookie}");

    let refused = console(&front, ClientTls::disabled()).await.err().unwrap();
    assert_eq!(refused.server_error().map(|error| error.code), Some(3159), "{refused}");
    let mut sql = console(&front, tls.clone()).await.unwrap();
    assert_eq!(value(&mut sql, "SELECT count(*) FROM servers").await, "1");

    commands(&front, &authority).await;
    renewal(&front, &tls, (&authority, &cert, &key), &first).await;
}

/// The commands of the command line reach it, and trust nobody else.
async fn commands(front: &Front, authority: &Authority) {
    let (url, ca) = (format!("https://{}", front.admin), authority.file().display().to_string());
    std::fs::write(front.folder().join("key"), format!("{KEY}\n")).unwrap();
    for command in [&["sessions"][..], &["log", "tail"], &["top", "--frames", "1"]] {
        // The file has the certificate.
        let near = [command, &["--url", &front.admin]].concat();
        let far = [command, &["--url", &url, "--ca", &ca, "--key-file", "key", "--config", "/nowhere"]].concat();
        for arguments in [near, far] {
            let ran = cli(front, &arguments).await;
            assert!(ran.good, "{arguments:?}: {}", ran.err);
        }
    }
    let other = Authority::new();
    let stranger = other.file().display().to_string();
    let ran = cli(front, &["sessions", "--url", &url, "--ca", &stranger]).await;
    assert!(!ran.good && ran.err.contains("certificate"), "{}", ran.err);
    assert!(!ran.err.contains(KEY), "{}", ran.err);
}

/// A renewed certificate in the same file is shown after a reload; a damaged one changes nothing.
async fn renewal(front: &Front, tls: &ClientTls, (authority, cert, key): (&Authority, &str, &str), first: &[u8]) {
    authority.sign_into(Path::new(cert), Path::new(key));
    crate::support::signal(front.pid(), "HUP");
    let second = until("the renewed certificate", async || {
        let (_, shown) = https(front, tls, "GET /healthz", "").await.unwrap();
        (shown != first).then_some(shown)
    })
    .await;
    until("the change to be told", async || front.log().contains("the TLS of admin changed").then_some(())).await;
    assert!(console(front, tls.clone()).await.is_ok());
    std::fs::write(cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    crate::support::signal(front.pid(), "HUP");
    until("the damaged certificate to be refused", async || {
        front.log().contains("the old configuration stays").then_some(())
    })
    .await;
    assert!(front.log().contains("admin.tls"), "{}", front.log());
    let (_, shown) = https(front, tls, "GET /healthz", "").await.unwrap();
    assert_eq!(shown, second);
}

#[tokio::test]
async fn with_optional_tls_cookies_are_secure_where_they_came_over_tls() {
    let front = start("tls.mode = \"optional\"").await;
    front.knows(0).await;
    let body = format!("{{\"key\": \"{KEY}\"}}");
    let (status, _) = http_send(&front.admin, "POST", "/api/v1/login", None, &body).await;
    assert_eq!(status, 200);
    let tls = any_certificate();
    let (login, _) = https(&front, &tls, "POST /api/v1/login", &body).await.unwrap();
    assert!(login.contains("; Secure\r\n"), "{login}");
    let mut plain = tokio::net::TcpStream::connect(&front.admin).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST /api/v1/login HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("set-cookie: ") && !answer.contains("Secure"), "{answer}");
    assert!(console(&front, ClientTls::disabled()).await.is_ok());
    // The certificate is made at start: the command takes it on this machine.
    let ran = cli(&front, &["sessions", "--url", &front.admin]).await;
    assert!(ran.good, "{}", ran.err);
}
