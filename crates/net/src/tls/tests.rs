//! Both sides of TLS, over a loopback socket.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::Stream;
use crate::socket::sockets;
use crate::stream::Keepalive;

fn client(mode: ServerTlsMode, ca_file: Option<&Path>) -> ClientTls {
    ClientTls::new(&ClientTlsOptions { mode, ca_file: ca_file.map(Into::into), ..ClientTlsOptions::default() }).unwrap()
}

/// Shakes hands; both ends, or the client's error.
async fn shake(server: &ServerTls, client: &ClientTls, name: &str) -> io::Result<(Stream, Stream)> {
    let (left, right) = sockets().await;
    let (at_client, at_server) = tokio::join!(client.connect(left, name), server.accept(right.into()));
    Ok((at_client?, at_server?))
}

#[tokio::test]
async fn a_self_made_certificate_serves_those_who_do_not_verify_and_those_who_pin_it() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let names = ["db.example".to_owned()];
    let server = ServerTls::self_made_in(&names, &certificate, &key).unwrap();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = ServerTls::self_made_in(&names, &certificate, &key).unwrap();
    for server in [&server, &again] {
        for mode in [ServerTlsMode::Preferred, ServerTlsMode::Required] {
            shake(server, &client(mode, None), "whoever").await.unwrap();
        }
        for name in ["db.example", "localhost", "127.0.0.1", "::1"] {
            let (mut at_client, mut at_server) =
                shake(server, &client(ServerTlsMode::VerifyIdentity, Some(&certificate)), name).await.unwrap();
            at_client.write_all(b"hello").await.unwrap();
            at_client.flush().await.unwrap();
            let mut bytes = [0; 5];
            at_server.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"hello");
            assert!(at_client.is_secure() && at_server.is_tls());
        }
        let pinned = client(ServerTlsMode::VerifyIdentity, Some(&certificate));
        let error = shake(server, &pinned, "other.example").await.unwrap_err();
        assert!(error.to_string().contains("not valid for name"), "{error}");
        shake(server, &client(ServerTlsMode::VerifyCa, Some(&certificate)), "other.example").await.unwrap();
    }
    let stranger = ServerTls::self_made(&names).unwrap();
    for mode in [ServerTlsMode::VerifyCa, ServerTlsMode::VerifyIdentity] {
        let error = shake(&stranger, &client(mode, Some(&certificate)), "db.example").await.unwrap_err();
        assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    }
    std::fs::remove_file(&certificate).unwrap();
    assert!(matches!(ServerTls::self_made_in(&names, &certificate, &key), Err(TlsError::File { .. })));
}

#[tokio::test]
async fn sessions_are_resumed() {
    let server = ServerTls::self_made(&[]).unwrap();
    let client = client(ServerTlsMode::Required, None);
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let (mut at_client, mut at_server) = shake(&server, &client, "localhost").await.unwrap();
        // Tickets come behind the handshake: read a byte to get them.
        at_server.write_all(b"x").await.unwrap();
        at_server.flush().await.unwrap();
        at_client.read_u8().await.unwrap();
        let Stream::Tls(tls) = &at_client else { panic!("TLS") };
        kinds.push(tls.get_ref().1.handshake_kind().unwrap());
    }
    assert_eq!(kinds, [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed]);
}

#[tokio::test]
async fn connections_move_between_runtimes_with_their_encryption() {
    let (left, mut right) = sockets().await;
    let stream = Stream::from(left);
    stream.set_nodelay().unwrap();
    stream.set_keepalive(&Keepalive::default()).unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
    let detached = stream.detach().unwrap();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Stream::attach(detached).unwrap().write_all(b"moved").await.unwrap() });
    });
    let mut text = String::new();
    right.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "moved");
    elsewhere.join().unwrap();

    let server = ServerTls::self_made(&[]).unwrap();
    let (at_client, mut at_server) = shake(&server, &client(ServerTlsMode::Required, None), "localhost").await.unwrap();
    at_server.write_all(b"ab").await.unwrap();
    at_server.flush().await.unwrap();
    let mut at_client = at_client;
    assert_eq!(at_client.read_u8().await.unwrap(), b'a');
    // The second byte is decrypted already, and goes along.
    let detached = at_client.detach().unwrap();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut at_client = Stream::attach(detached).unwrap();
            assert!(at_client.is_tls() && at_client.peer_addr().is_some());
            assert_eq!(at_client.read_u8().await.unwrap(), b'b');
            at_client.write_all(b"x").await.unwrap();
            at_client.flush().await.unwrap();
        });
    });
    assert_eq!(at_server.read_u8().await.unwrap(), b'x');
    elsewhere.join().unwrap();
}

#[tokio::test]
async fn who_does_not_speak_tls_is_an_error_in_words() {
    let server = ServerTls::self_made(&[]).unwrap();
    let (mut left, right) = sockets().await;
    left.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = server.accept(right.into()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    let (left, right) = sockets().await;
    drop(left);
    let error = server.accept(right.into()).await.unwrap_err();
    assert!(error.to_string().contains("during the TLS handshake"), "{error}");
}

#[test]
fn files_that_are_no_use_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty.pem"), "").unwrap();
    std::fs::write(path("text.pem"), "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
    ServerTls::self_made_in(&[], &path("a.pem"), &path("a.key")).unwrap();
    ServerTls::self_made_in(&[], &path("b.pem"), &path("b.key")).unwrap();
    for (certificate, key, word) in [
        ("missing.pem", "a.key", "missing.pem: No such file"),
        ("empty.pem", "a.key", "empty.pem: holds no certificate"),
        ("text.pem", "a.key", "text.pem: no PEM"),
        ("a.pem", "a.pem", "a.pem: holds no private key"),
        ("a.pem", "missing.key", "missing.key: No such file"),
        ("a.pem", "b.key", "TLS configuration"),
    ] {
        let error = ServerTls::from_files(&path(certificate), &path(key)).unwrap_err().to_string();
        assert!(error.contains(word), "{certificate} {key}: {error}");
    }
    let half = ClientTlsOptions { certificate_file: Some(path("a.pem").into()), ..ClientTlsOptions::default() };
    assert!(matches!(ClientTls::new(&half), Err(TlsError::HalfPair)));
    let no_ca = ClientTlsOptions {
        mode: ServerTlsMode::VerifyCa,
        ca_file: Some(path("empty.pem").into()),
        ..ClientTlsOptions::default()
    };
    assert!(matches!(ClientTls::new(&no_ca), Err(TlsError::File { .. })));
}

#[test]
fn every_cipher_suite_has_openssls_name() {
    let names: Vec<_> = provider().cipher_suites.iter().map(|suite| openssl_name(suite.suite())).collect();
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
}
