//! Clients that have not logged in: the memory that they take, and how many of one address there may be.

use std::time::{Duration, Instant};

use net::client::Target;
use net::packets;
use net::query;
use testkit::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::Capabilities;
use wire::auth::Credential;
use wire::handshake::{Attributes, HandshakeResponse};
use wire::packet;
use wire::reply::ServerError;

use super::Field;
use super::field::login;
use crate::support::{Front, SOON, until};

/// A connection that was greeted.
async fn greeted(front: &Front) -> TcpStream {
    let mut stream = TcpStream::connect(&front.address).await.unwrap();
    let greeting = timeout(SOON, packets::read(&mut stream, 1 << 16)).await.expect("a greeting").unwrap();
    assert_eq!(greeting.payload[0], 10, "a greeting and no error");
    stream
}

/// The error that the client is told next.
async fn reported(stream: &mut TcpStream) -> (u16, String) {
    let packet = timeout(SOON, packets::read(stream, 1 << 16)).await.expect("an answer").unwrap();
    let error = ServerError::parse(&packet.payload).unwrap();
    (error.code, String::from_utf8_lossy(error.message).into_owned())
}

/// A login with a wrong password, as one packet.
fn wrong_login(user: &[u8], attributes: &[u8]) -> Vec<u8> {
    let login = HandshakeResponse {
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::LONG_PASSWORD
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::CONNECT_ATTRS,
        packet_bytes_max: 1 << 24,
        collation: 45,
        user: user.to_vec(),
        auth_response: vec![7; 20].into(),
        schema: None,
        plugin: Some(b"mysql_native_password".to_vec()),
        attributes: Attributes::default(),
        zstd_level: None,
    };
    let mut payload = Vec::new();
    login.encode(&mut payload);
    // No attributes are one byte: the length 0.
    assert_eq!(payload.pop(), Some(0));
    payload.push(0xfd);
    payload.extend_from_slice(&(attributes.len() as u32).to_le_bytes()[..3]);
    payload.extend_from_slice(attributes);
    let mut out = Vec::new();
    packet::append(&mut out, 1, &payload);
    out
}

#[tokio::test]
async fn unfinished_logins_share_a_bound() {
    const MANY: usize = 1_000;
    let field = Field::start_changed("1,000 unfinished logins of 60 KB", Server::usual(), |setup| {
        setup.proxy += "\nlogin_memory_max = \"16MiB\"";
        setup.listener = "login_timeout_ms = 60_000".into();
    })
    .await;
    field.serves().await;
    let mut bytes = wrong_login(b"app", &[0; 60_000]);
    bytes.pop();
    let mut all = Vec::new();
    for _ in 0..MANY {
        let mut stream = greeted(&field.front).await;
        stream.write_all(&bytes).await.unwrap();
        all.push(stream);
    }
    // 4 of the 16 MiB are for longer logins. The others wait, and keep no ordinary login waiting.
    until("logins to wait for memory", async || {
        (field.front.metrics().await.sum("sqluice_login_memory_waits_total", &[]) > 0.0).then_some(())
    })
    .await;
    field.client().await.query("SELECT 1").await.unwrap();
    assert!(field.front.metrics().await.sum("sqluice_login_memory_bytes", &[]) <= f64::from(16 << 20));
    // There is room for 1,024 connections; those beyond are refused.
    let mut refused = 0;
    while refused == 0 {
        let mut stream = TcpStream::connect(&field.front.address).await.unwrap();
        let first = timeout(SOON, packets::read(&mut stream, 1 << 16)).await.unwrap().unwrap();
        if first.payload[0] != 0xff {
            all.push(stream);
        } else {
            let error = ServerError::parse(&first.payload).unwrap();
            assert_eq!(error.code, 1040, "{}", String::from_utf8_lossy(error.message));
            refused += 1;
        }
        assert!(all.len() < 2 * MANY, "nobody is refused");
    }
    until("the refusal to be counted", async || {
        let metrics = field.front.metrics().await;
        (metrics.sum("sqluice_clients_refused_total", &["reason=\"login_memory\""]) >= 1.0).then_some(())
    })
    .await;
    let grown = field.grown_kb();
    drop(all);
    assert!(grown < 48 * 1024, "{grown} KiB");
    field.end(48 * 1024).await;
}

#[tokio::test]
async fn logins_longer_than_servers_take_are_refused() {
    let field = Field::start("100 logins of 1 MiB of attributes", Server::usual(), "").await;
    field.serves().await;
    for length in [65_536, 1 << 20] {
        for _ in 0..50 {
            let mut stream = greeted(&field.front).await;
            // It is refused before all of it is written.
            let _ = stream.write_all(&wrong_login(b"app", &vec![0; length])).await;
            // The rest of what was sent may have ended the connection before the answer could be read.
            if let Ok(Ok(packet)) = timeout(SOON, packets::read(&mut stream, 1 << 16)).await {
                assert_eq!(ServerError::parse(&packet.payload).unwrap().code, 1043);
            }
        }
    }
    until("all of them to be refused", async || {
        (field.front.metrics().await.sum("sqluice_login_failures_total", &[]) >= 100.0).then_some(())
    })
    .await;
    field.end(8 * 1024).await;
}

/// 24 bytes for each of theirs, if each were kept by itself.
#[tokio::test]
async fn empty_attributes_take_what_they_are_long() {
    let field = Field::start("50 logins of 30,000 empty attributes", Server::usual(), "login_delay_after = 0").await;
    field.serves().await;
    let mut all = Vec::new();
    for _ in 0..50 {
        let mut stream = greeted(&field.front).await;
        stream.write_all(&wrong_login(b"app", &[0; 60_000])).await.unwrap();
        assert_eq!(reported(&mut stream).await.0, 1045);
        all.push(stream);
    }
    drop(all);
    field.end(4 * 1024).await;
}

#[tokio::test]
async fn names_longer_than_any_accounts_are_cut_and_forgotten() {
    let field = Field::start("300 refused names of 60 KB", Server::usual(), "login_delay_after = 0").await;
    field.serves().await;
    let one = |number: usize| {
        let target = Target::plain(field.front.address.parse().unwrap(), SOON);
        async move {
            let login = query::login(&format!("{number:x<60000}"), Credential::password("wrong"));
            let error = net::client::connect(&target, login).await.map(drop).unwrap_err();
            assert!(error.server_error().is_none_or(|said| said.message.len() < 500), "{error}");
        }
    };
    let all: Vec<_> = (0..300).map(|number| tokio::spawn(one(number))).collect();
    for login in all {
        login.await.unwrap();
    }
    field.end(24 * 1024).await;
}

#[tokio::test]
async fn one_address_has_so_many_connections() {
    let listener = "max_logins_per_address = 5\nmax_sessions_per_address = 4";
    let mut field = Field::start("connections beyond those of an address", Server::usual(), listener).await;
    field.serves().await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(greeted(&field.front).await);
    }
    let mut sixth = TcpStream::connect(&field.front.address).await.unwrap();
    let (code, message) = reported(&mut sixth).await;
    assert!(code == 1040 && message.contains("address 127.0.0.1"), "{code} {message}");
    drop((begun, sixth));
    // The neighbour is a session of this address, too.
    let mut sessions = Vec::new();
    until("three sessions more", async || {
        match net::client::connect(&Target::plain(field.front.address.parse().unwrap(), SOON), login()).await {
            Ok(connected) => sessions.push(connected),
            Err(error) => assert_eq!(error.server_error().map(|said| said.code), Some(1040)),
        }
        (sessions.len() == 3).then_some(())
    })
    .await;
    let target = Target::plain(field.front.address.parse().unwrap(), SOON);
    let error = net::client::connect(&target, login()).await.map(drop).unwrap_err();
    assert_eq!(error.server_error().map(|said| said.code), Some(1040));
    let refused = field.front.metrics().await.sum("sqluice_clients_refused_total", &["reason=\"address\""]);
    assert!(refused >= 2.0, "{refused}");
    field.front.reload(|setup| setup.listener += "\naddresses_exempt = [\"127.0.0.0/8\"]");
    until("the exemption to count", async || net::client::connect(&target, login()).await.ok().map(drop)).await;
    drop(sessions);
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn an_address_whose_logins_fail_waits_longer_each_time() {
    let listener = "login_delay_after = 2\nlogin_delay_max_ms = 400";
    let field = Field::start("8 wrong passwords", Server::usual(), listener).await;
    field.serves().await;
    let target = Target::plain(field.front.address.parse().unwrap(), SOON);
    let wrong = || query::login("app", Credential::password("wrong"));
    let mut took = Vec::new();
    for _ in 0..8 {
        let begun = Instant::now();
        let error = net::client::connect(&target, wrong()).await.map(drop).unwrap_err();
        assert_eq!(error.server_error().map(|said| said.code), Some(1045), "{error}");
        took.push(begun.elapsed());
    }
    for (failures, least_ms) in [(2, 100), (3, 200), (4, 400), (7, 400)] {
        assert!(took[failures] >= Duration::from_millis(least_ms), "{took:?}");
    }
    let delayed = field.front.metrics().await.sum("sqluice_logins_delayed_total", &[]);
    assert_eq!(delayed, 6.0);
    assert!(field.front.log().contains("logins from this address fail one after the other"), "{}", field.front.log());
    // A good login waits once more, and ends it.
    field.client().await.query("SELECT 1").await.unwrap();
    net::client::connect(&target, wrong()).await.map(drop).unwrap_err();
    assert_eq!(field.front.metrics().await.sum("sqluice_logins_delayed_total", &[]), 7.0);
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn tls_handshakes_that_never_end_share_the_bound() {
    let field = Field::start_changed("500 clients that begin TLS and stop", Server::usual(), |setup| {
        setup.proxy += "\nlogin_memory_max = \"16MiB\"";
        setup.listener = "login_timeout_ms = 60_000".into();
    })
    .await;
    field.serves().await;
    let mut all = Vec::new();
    for _ in 0..500 {
        let mut stream = greeted(&field.front).await;
        let mut request = b"\x20\0\0\x01\x05\xae\xff\x01\0\0\0\x01\x2d".to_vec();
        request.resize(36, 0);
        // The beginning of a long hello.
        request.extend_from_slice(b"\x16\x03\x01\x40\x00\x01\0\x3f\xfc\x03\x03");
        request.resize(16_000, 7);
        stream.write_all(&request).await.unwrap();
        all.push(stream);
    }
    until("handshakes to wait for memory", async || {
        (field.front.metrics().await.sum("sqluice_login_memory_waits_total", &[]) > 0.0).then_some(())
    })
    .await;
    field.client().await.query("SELECT 1").await.unwrap();
    drop(all);
    field.end(32 * 1024).await;
}

#[tokio::test]
async fn a_login_that_comes_byte_by_byte_holds_nobody_up() {
    let field = Field::start("a login that comes byte by byte", Server::usual(), "").await;
    field.serves().await;
    let mut stream = greeted(&field.front).await;
    stream.set_nodelay(true).unwrap();
    for byte in wrong_login(b"app", b"") {
        stream.write_all(&[byte]).await.unwrap();
    }
    assert_eq!(reported(&mut stream).await.0, 1045);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    field.end(4 * 1024).await;
}
