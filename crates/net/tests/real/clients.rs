//! The ordinary `mariadb` and `mysql` clients log in to a server made of [`wire::handshake::server`] and [`ServerTls`].

use std::process::{Output, Stdio};
use std::sync::Arc;

use lab::{Binaries, Family};
use sqluice_net::tls::ServerTls;
use sqluice_net::{Stream, packets};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use wire::auth::{Plugin, RsaKey, caching_sha2, native, new_scramble};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Method, Proof, Response, Step};
use wire::handshake::{Channel, LOGIN_BYTES_MAX, ServerError};
use wire::{Capabilities, Status};

/// The abilities of the small server.
struct Server {
    greeting: Greeting,
    tls: ServerTls,
    method: Method,
}

/// How a login ended on the server's side.
#[derive(Debug, PartialEq, Eq)]
enum Login {
    Proven(Proof, bool),
    Denied(String),
}

impl Server {
    fn new(default: Plugin, method: Method) -> Server {
        let greeting = Greeting {
            server_version: "8.0.36-sqluice".into(),
            connection_id: 1,
            scramble: new_scramble().unwrap(),
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::LONG_PASSWORD
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH
                | Capabilities::PLUGIN_AUTH_LENENC_DATA
                | Capabilities::CONNECT_ATTRS
                | Capabilities::CONNECT_WITH_DB
                | Capabilities::TRANSACTIONS
                | Capabilities::TLS,
            collation: 45,
            status: Status::AUTOCOMMIT,
            plugin: default.name().into(),
        };
        Server { greeting, tls: ServerTls::self_made(&["sqluice.test".into()]).unwrap(), method }
    }

    /// Lets one client in (or not), answers its statements with OK until it leaves.
    async fn serve(&self, mut stream: Stream) -> Login {
        let mut out = Vec::new();
        let mut awaiting = AwaitResponse::greet(&self.greeting, Channel::Open, &mut out);
        let (login, conversation) = loop {
            stream.write_all(&out).await.unwrap();
            out.clear();
            let packet = packets::read(&mut stream, LOGIN_BYTES_MAX).await.unwrap();
            match awaiting.handle(packet.received()).unwrap() {
                Response::Tls(start) => {
                    stream = self.tls.accept(stream).await.unwrap();
                    awaiting = start.secured();
                }
                Response::Login(login, conversation) => break (login, conversation),
            }
        };
        assert_eq!(login.user, b"app");
        assert!(login.attributes.iter().any(|(name, _)| name == b"_client_name"), "{:?}", login.attributes);
        let mut step =
            conversation.begin(self.method.clone(), login.plugin.as_deref(), &login.auth_response, &mut out).unwrap();
        loop {
            match step {
                Step::Await(answer) => {
                    stream.write_all(&out).await.unwrap();
                    stream.flush().await.unwrap();
                    out.clear();
                    let packet = packets::read(&mut stream, LOGIN_BYTES_MAX).await.unwrap();
                    step = answer.handle(packet.received(), &mut out).unwrap();
                }
                Step::Proven(proof, finish) => {
                    finish.accept(&[0, 0, 0, 2, 0, 0, 0], &mut out);
                    stream.write_all(&out).await.unwrap();
                    stream.flush().await.unwrap();
                    let is_tls = stream.is_tls();
                    answer_with_ok(stream).await;
                    return Login::Proven(proof, is_tls);
                }
                Step::Denied(denial, finish) => {
                    let error = ServerError { code: 1045, sqlstate: Some("28000".into()), message: denial.to_string() };
                    finish.refuse(&error, &mut out);
                    stream.write_all(&out).await.unwrap();
                    stream.flush().await.unwrap();
                    return Login::Denied(denial.to_string());
                }
            }
        }
    }

    /// Runs the ordinary client against this server.
    async fn visited(&self, family: Family, password: &str, arguments: &[&str]) -> (Login, Output) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = &Binaries::find().unwrap().server(family).unwrap().client.clone();
        let visit = Command::new(client)
            .args(["--no-defaults", "--host=127.0.0.1", "--user=app", "--protocol=tcp"])
            .arg(format!("--port={port}"))
            .arg(format!("--password={password}"))
            .args(arguments)
            .args(["-e", "DO 1"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let serve = async {
            let (tcp, _) = listener.accept().await.unwrap();
            self.serve(tcp.into()).await
        };
        let (login, output) =
            tokio::time::timeout(super::support::TIMEOUT, async { tokio::join!(serve, visit) }).await.unwrap();
        (login, output.unwrap())
    }

    async fn lets_in(&self, family: Family, arguments: &[&str], proof: Proof) {
        let (login, output) = self.visited(family, "secret", arguments).await;
        let is_tls = arguments == tls(family);
        assert_eq!(login, Login::Proven(proof, is_tls), "{arguments:?} {output:?}");
        assert!(output.status.success(), "{arguments:?} {output:?}");
    }

    async fn refuses(&self, family: Family, password: &str, arguments: &[&str], reason: &str) {
        let (login, output) = self.visited(family, password, arguments).await;
        assert_eq!(login, Login::Denied(reason.into()), "{arguments:?} {output:?}");
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(reported.contains("1045") && reported.contains(reason), "{reported}");
    }
}

async fn answer_with_ok(mut stream: Stream) {
    while let Ok(packet) = packets::read(&mut stream, LOGIN_BYTES_MAX).await {
        if packet.payload.as_slice() == [0x01] {
            return;
        }
        let mut out = Vec::new();
        wire::packet::append(&mut out, 1, &[0, 0, 0, 2, 0, 0, 0]);
        stream.write_all(&out).await.unwrap();
        stream.flush().await.unwrap();
    }
}

fn plain(family: Family) -> &'static [&'static str] {
    match family {
        Family::MariaDb => &["--skip-ssl"],
        Family::MySql => &["--ssl-mode=DISABLED", "--get-server-public-key", "--enable-cleartext-plugin"],
    }
}

fn tls(family: Family) -> &'static [&'static str] {
    match family {
        Family::MariaDb => &["--ssl"],
        Family::MySql => &["--ssl-mode=REQUIRED", "--enable-cleartext-plugin"],
    }
}

fn families() -> Vec<Family> {
    Binaries::find().unwrap().families()
}

const DEFAULTS: [Plugin; 2] = [Plugin::Native, Plugin::CachingSha2];

/// MariaDB's client only: MySQL's has no `mysql_native_password` since 9.0.
#[tokio::test]
async fn they_prove_native_passwords() {
    let family = Family::MariaDb;
    let stage1 = || native::stage1(b"secret");
    for default in DEFAULTS {
        let server = Server::new(default, Method::Native { stage2: native::stage2(&stage1()) });
        server.lets_in(family, plain(family), Proof::NativeStage1(stage1())).await;
        server.lets_in(family, tls(family), Proof::NativeStage1(stage1())).await;
        server.refuses(family, "wrong", plain(family), "wrong password").await;
        server.refuses(family, "", plain(family), "wrong password").await;
    }
}

#[tokio::test]
async fn they_prove_caching_sha2_passwords_every_way() {
    let rsa = Some(Arc::new(RsaKey::generate().unwrap()));
    let stage1 = || caching_sha2::stage1(b"secret");
    let full = || Proof::Password(b"secret".to_vec().into());
    for (family, default) in families().into_iter().flat_map(|family| DEFAULTS.map(|default| (family, default))) {
        let remembered = Some(caching_sha2::stage2(&stage1()));
        let server = Server::new(default, Method::CachingSha2 { remembered, rsa: rsa.clone() });
        server.lets_in(family, plain(family), Proof::CachingSha2Stage1(stage1())).await;
        server.lets_in(family, tls(family), Proof::CachingSha2Stage1(stage1())).await;
        let server = Server::new(default, Method::CachingSha2 { remembered: None, rsa: rsa.clone() });
        server.lets_in(family, tls(family), full()).await;
        server.lets_in(family, plain(family), full()).await;
        let (login, _) = server.visited(family, "", plain(family)).await;
        assert_eq!(login, Login::Proven(Proof::Empty, false));
    }
}

#[tokio::test]
async fn they_send_cleartext_inside_tls() {
    for (family, default) in families().into_iter().flat_map(|family| DEFAULTS.map(|default| (family, default))) {
        let server = Server::new(default, Method::Clear);
        server.lets_in(family, tls(family), Proof::Password(b"secret".to_vec().into())).await;
        let reason = "the account's authentication plugin needs TLS";
        server.refuses(family, "secret", plain(family), reason).await;
    }
}
