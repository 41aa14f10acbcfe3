//! Default plugin × account's plugin × channel × capabilities: both sides of a login, joined by a wire that gives a byte at
//! a time.

use std::sync::{Arc, LazyLock};

use sqluice_wire::auth::parsec::ExtSalt;
use sqluice_wire::auth::{Credential, Plugin, RsaKey, Scramble, caching_sha2, ed25519, native};
use sqluice_wire::greeting::Greeting;
use sqluice_wire::handshake::client::{self, AwaitGreeting, LoginRequest, RsaPolicy};
use sqluice_wire::handshake::server::{self, AwaitResponse, Method, Response};
use sqluice_wire::handshake::{Channel, HandshakeError, LOGIN_BYTES_MAX, Received, ServerError};
use sqluice_wire::packet::{First, first};
use sqluice_wire::{Capabilities, Status};

static KEY: LazyLock<Arc<RsaKey>> = LazyLock::new(|| Arc::new(RsaKey::generate().unwrap()));
const SCRAMBLE: Scramble = *b"abcdefghijklmnopqrst";
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// How bytes get from one side to the other.
#[derive(Clone, Copy, PartialEq)]
enum Wire {
    Whole,
    ByteByByte,
}

impl Wire {
    /// Takes the only packet out of a buffer; byte by byte, it must be whole with its last byte and not before.
    fn carry(self, out: &mut Vec<u8>) -> (u8, Vec<u8>) {
        if self == Wire::ByteByByte {
            for cut in 0..out.len() {
                match first(&out[..cut], LOGIN_BYTES_MAX) {
                    First::Needs(n) => assert!(n > cut && n <= out.len()),
                    First::Whole { taken, .. } => panic!("a packet in {cut} bytes, of {taken}: two were sent at once"),
                    other => panic!("{other:?}"),
                }
            }
        }
        let First::Whole { payload, sequence, taken } = first(out, LOGIN_BYTES_MAX) else { panic!("cut packet") };
        assert_eq!(taken, out.len(), "one packet at a time");
        let packet = (sequence, payload.to_vec());
        out.clear();
        packet
    }
}

fn received((sequence, payload): &(u8, Vec<u8>)) -> Received<'_> {
    Received { sequence: *sequence, payload }
}

fn methods(password: &[u8]) -> Vec<(&'static str, Method)> {
    let nonce = [9; 32];
    let salt = ExtSalt::parse(b"P\0eighteen bytes of ").unwrap();
    let remembered = Some(caching_sha2::stage2(&caching_sha2::stage1(password)));
    vec![
        ("native", Method::Native { stage2: native::stage2(&native::stage1(password)) }),
        ("empty", Method::Empty),
        ("sha2 fast", Method::CachingSha2 { remembered, rsa: Some(KEY.clone()) }),
        ("sha2 full", Method::CachingSha2 { remembered: None, rsa: Some(KEY.clone()) }),
        ("sha256", Method::Sha256 { rsa: Some(KEY.clone()) }),
        ("clear", Method::Clear),
        ("ed25519", Method::Ed25519 { key: ed25519::public_key(password), nonce }),
        ("parsec", Method::Parsec { salt, key: salt.public_key(password).unwrap(), nonce }),
    ]
}

/// A whole login in words: who proved what, and what the client heard.
fn talk(
    wire: Wire,
    default: Plugin,
    secure: bool,
    capabilities: Capabilities,
    method: Method,
    password: &str,
) -> String {
    let greeting = Greeting {
        server_version: "8.0.36".into(),
        connection_id: 7,
        scramble: SCRAMBLE,
        capabilities: Capabilities::from_halves(0xdfff_ffff, 0),
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: default.name().into(),
    };
    let login = LoginRequest {
        user: b"app".to_vec(),
        credential: Credential::password(password),
        schema: capabilities.contains(Capabilities::CONNECT_WITH_DB).then(|| b"shop".to_vec()),
        capabilities,
        collation: 45,
        packet_bytes_max: 1 << 24,
        attributes: [("program_name", "test")].into_iter().collect(),
        rsa: RsaPolicy::AskServer,
    };
    let mut out = Vec::new();
    let mut at_server = AwaitResponse::greet(&greeting, Channel::Open, &mut out);
    let greeted = AwaitGreeting.handle(received(&wire.carry(&mut out))).unwrap();
    let ready = if secure {
        let start = greeted.request_tls(&login, &mut out).unwrap();
        let Response::Tls(awaiting) = at_server.handle(received(&wire.carry(&mut out))).unwrap() else {
            panic!("no TLS")
        };
        at_server = awaiting.secured();
        start.secured()
    } else {
        greeted.plain(Channel::Open)
    };
    let mut at_client = ready.log_in(login, &mut out);
    let Response::Login(request, conversation) = at_server.handle(received(&wire.carry(&mut out))).unwrap() else {
        panic!("TLS")
    };
    let mut words = format!("{:?} {:?} ", request.schema, request.capabilities);
    let mut step = conversation.begin(method, request.plugin.as_deref(), &request.auth_response, &mut out).unwrap();
    loop {
        let (outcome, finish) = match step {
            server::Step::Await(awaiting) => {
                match at_client.handle(received(&wire.carry(&mut out)), &mut out) {
                    Ok(client::Step::Await(next)) => at_client = next,
                    Ok(client::Step::Done(_)) => panic!("the client is done before the server"),
                    Err(error) => return words + &format!("the client gave up: {error}"),
                }
                words += "asked ";
                step = match awaiting.handle(received(&wire.carry(&mut out)), &mut out) {
                    Ok(step) => step,
                    Err(error) => return words + &format!("the server gave up: {error}"),
                };
                continue;
            }
            server::Step::Proven(proof, finish) => (format!("proved {proof:?}"), finish),
            server::Step::Denied(denial, finish) => (format!("denied: {denial}"), finish),
        };
        words += &outcome;
        // A word that the password was right so far stands before the end.
        if !out.is_empty() {
            match at_client.handle(received(&wire.carry(&mut out)), &mut out).unwrap() {
                client::Step::Await(next) => at_client = next,
                client::Step::Done(_) => panic!("done too early"),
            }
        }
        if outcome.starts_with("proved") {
            finish.accept(OK, &mut out);
        } else {
            let message = "Access denied".into();
            finish.refuse(&ServerError { code: 1045, sqlstate: Some("28000".into()), message }, &mut out);
        }
        return match at_client.handle(received(&wire.carry(&mut out)), &mut out) {
            Ok(client::Step::Done(done)) => words + &format!(", let in with {:?}", done.capabilities),
            Err(HandshakeError::Refused(error)) => words + &format!(", heard {error}"),
            other => panic!("the sides disagree: {other:?}"),
        };
    }
}

#[test]
fn logins_byte_by_byte_end_as_those_in_one_piece() {
    let capabilities = [
        Capabilities::empty(),
        Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK | Capabilities::CONNECT_WITH_DB,
        Capabilities::from_halves(u32::MAX, 0) - Capabilities::TLS,
    ];
    let (mut let_in, mut all) = (0, 0);
    for default in Plugin::ALL {
        for secure in [false, true] {
            for capabilities in capabilities {
                for password in ["secret", "wrong", ""] {
                    for (name, method) in methods(b"secret") {
                        let whole = talk(Wire::Whole, default, secure, capabilities, method.clone(), password);
                        let cut = talk(Wire::ByteByByte, default, secure, capabilities, method, password);
                        assert_eq!(cut, whole, "{name}, default {default}, secure {secure}, password {password:?}");
                        all += 1;
                        let_in += u32::from(whole.contains("let in"));
                        // Nobody gets in by a wrong password where it is checked here; others ask a server about it.
                        let is_checked = ["native", "empty", "ed25519", "parsec"].contains(&name);
                        let is_right = if name == "empty" { password.is_empty() } else { password == "secret" };
                        assert!(!is_checked || whole.contains("let in") == is_right, "{name}: {whole}");
                    }
                }
            }
        }
    }
    assert!(let_in > 200 && let_in < all, "{let_in} of {all} logins succeeded");
}
