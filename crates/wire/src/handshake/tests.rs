//! Both sides of a login talk to each other in memory.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use zeroize::Zeroizing;

use super::client::{self, AwaitGreeting, LoginRequest, RsaPolicy};
use super::server::{self, AwaitResponse, Denial, Method, Proof, Response};
use super::*;
use crate::auth::{Credential, Plugin, PublicKey, RsaKey, Scramble, caching_sha2, native};
use crate::greeting::Greeting;
use crate::packet::{First, first};
use crate::{Capabilities, Status};

mod plugins;

static KEY: LazyLock<Arc<RsaKey>> = LazyLock::new(|| Arc::new(RsaKey::generate().unwrap()));

const SCRAMBLE: Scramble = *b"abcdefghijklmnopqrst";
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// One side's packet, as it crossed the wire.
struct Wire(u8, Vec<u8>);

impl Wire {
    fn received(&self) -> Received<'_> {
        Received { sequence: self.0, payload: &self.1 }
    }
}

/// Takes the packets out of a buffer.
fn packets(out: &mut Vec<u8>) -> Vec<Wire> {
    let mut found = Vec::new();
    let mut rest = &out[..];
    while !rest.is_empty() {
        let First::Whole { payload, sequence, taken } = first(rest, LOGIN_BYTES_MAX) else { panic!("cut packet") };
        found.push(Wire(sequence, payload.to_vec()));
        rest = &rest[taken..];
    }
    out.clear();
    found
}

fn one(out: &mut Vec<u8>) -> Wire {
    let mut found = packets(out);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn greeting(plugin: Plugin) -> Greeting {
    Greeting {
        server_version: "8.0.36".into(),
        connection_id: 7,
        scramble: SCRAMBLE,
        capabilities: Capabilities::from_halves(0xdfff_ffff, 0),
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: plugin.name().into(),
    }
}

fn login(credential: Credential) -> LoginRequest {
    LoginRequest {
        user: b"app".to_vec(),
        credential,
        schema: Some(b"shop".to_vec()),
        capabilities: Capabilities::DEPRECATE_EOF | Capabilities::TRANSACTIONS,
        collation: 45,
        packet_bytes_max: 1 << 24,
        attributes: [("program_name", "test")].into_iter().collect(),
        rsa: RsaPolicy::AskServer,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Proven(Proof),
    Denied(Denial),
    ClientGaveUp(HandshakeError),
}

/// A whole login: what the server side learned, after the client side has seen the matching end.
fn talk(default: Plugin, secure: bool, method: Method, login: LoginRequest) -> Outcome {
    talk_recorded(default, secure, method, login, &mut Vec::new())
}

/// The same; records the payloads that the client sent.
fn talk_recorded(
    default: Plugin,
    secure: bool,
    method: Method,
    login: LoginRequest,
    sent: &mut Vec<Vec<u8>>,
) -> Outcome {
    let mut out = Vec::new();
    let mut at_server = AwaitResponse::greet(&greeting(default), Channel::Open, &mut out);
    let greeted = AwaitGreeting.handle(one(&mut out).received()).unwrap();
    let ready = if secure {
        let start = greeted.request_tls(&login, &mut out).unwrap();
        let Response::Tls(awaiting) = at_server.handle(one(&mut out).received()).unwrap() else { panic!("no TLS") };
        at_server = awaiting.secured();
        start.secured()
    } else {
        greeted.plain(Channel::Open)
    };
    let mut at_client = ready.log_in(login, &mut out);
    let packet = one(&mut out);
    sent.push(packet.1.clone());
    let Response::Login(request, conversation) = at_server.handle(packet.received()).unwrap() else { panic!("TLS") };
    assert_eq!((request.user.as_slice(), request.schema.as_deref()), (&b"app"[..], Some(&b"shop"[..])));
    assert_eq!(request.attributes, [("program_name", "test")].into_iter().collect());
    assert_eq!(request.capabilities.contains(Capabilities::TLS), secure);
    let mut step = conversation.begin(method, request.plugin.as_deref(), &request.auth_response, &mut out).unwrap();
    loop {
        let (outcome, finish) = match step {
            server::Step::Await(awaiting) => {
                let packet = one(&mut out);
                match at_client.handle(packet.received(), &mut out) {
                    Ok(client::Step::Await(next)) => at_client = next,
                    Ok(client::Step::Done(_)) => panic!("the client is done before the server"),
                    Err(error) => return Outcome::ClientGaveUp(error),
                }
                let packet = one(&mut out);
                sent.push(packet.1.clone());
                step = awaiting.handle(packet.received(), &mut out).unwrap();
                continue;
            }
            server::Step::Proven(proof, finish) => (Outcome::Proven(proof), finish),
            server::Step::Denied(denial, finish) => (Outcome::Denied(denial), finish),
        };
        let refusal = ServerError { code: 1045, sqlstate: Some("28000".into()), message: "Access denied".into() };
        match &outcome {
            Outcome::Proven(_) => finish.accept(OK, &mut out),
            _ => finish.refuse(&refusal, &mut out),
        }
        let mut last = packets(&mut out);
        let end = last.pop().unwrap();
        for packet in last {
            match at_client.handle(packet.received(), &mut out).unwrap() {
                client::Step::Await(next) => at_client = next,
                client::Step::Done(_) => panic!("done too early"),
            }
        }
        match (at_client.handle(end.received(), &mut out), &outcome) {
            (Ok(client::Step::Done(done)), Outcome::Proven(_)) => assert_eq!(done.ok_payload, OK),
            (Err(HandshakeError::Refused(error)), _) => assert_eq!(error, refusal),
            other => panic!("the sides disagree: {other:?}"),
        }
        assert!(out.is_empty());
        return outcome;
    }
}

fn password(text: &str) -> Credential {
    Credential::password(text)
}

fn proven_password(text: &str) -> Outcome {
    Outcome::Proven(Proof::Password(Zeroizing::new(text.into())))
}

fn native_method(password: &str) -> Method {
    Method::Native { stage2: native::stage2(&native::stage1(password.as_bytes())) }
}

fn sha2_method(remembered: Option<&str>) -> Method {
    let remembered = remembered.map(|password| caching_sha2::stage2(&caching_sha2::stage1(password.as_bytes())));
    Method::CachingSha2 { remembered, rsa: Some(KEY.clone()) }
}

const DEFAULTS: [Plugin; 3] = [Plugin::Native, Plugin::CachingSha2, Plugin::Clear];

#[test]
fn native_accounts_let_the_right_password_in_whatever_the_default_plugin() {
    let stage1 = || native::stage1(b"secret");
    for default in DEFAULTS {
        for secure in [false, true] {
            let outcome = talk(default, secure, native_method("secret"), login(password("secret")));
            assert_eq!(outcome, Outcome::Proven(Proof::NativeStage1(stage1())), "{default} {secure}");
            let outcome = talk(default, secure, native_method("secret"), login(Credential::NativeStage1(stage1())));
            assert_eq!(outcome, Outcome::Proven(Proof::NativeStage1(stage1())), "{default} {secure}");
            for wrong in ["", "Secret", "secret "] {
                let outcome = talk(default, secure, native_method("secret"), login(password(wrong)));
                assert_eq!(outcome, Outcome::Denied(Denial::WrongPassword), "{default} {secure} {wrong:?}");
            }
        }
    }
}

#[test]
fn accounts_without_a_password_take_only_the_empty_one() {
    for default in DEFAULTS {
        for secure in [false, true] {
            let outcome = talk(default, secure, Method::Empty, login(password("")));
            assert_eq!(outcome, Outcome::Proven(Proof::Empty), "{default} {secure}");
            let outcome = talk(default, secure, Method::Empty, login(password("x")));
            assert_eq!(outcome, Outcome::Denied(Denial::WrongPassword), "{default} {secure}");
        }
    }
}

#[test]
fn a_remembered_user_logs_in_fast() {
    let stage1 = || caching_sha2::stage1(b"secret");
    for default in DEFAULTS {
        for secure in [false, true] {
            for credential in [password("secret"), Credential::CachingSha2Stage1(stage1())] {
                let outcome = talk(default, secure, sha2_method(Some("secret")), login(credential));
                assert_eq!(outcome, Outcome::Proven(Proof::CachingSha2Stage1(stage1())), "{default} {secure}");
            }
        }
    }
}

#[test]
fn a_user_that_is_not_remembered_sends_the_password() {
    for default in DEFAULTS {
        for secure in [false, true] {
            for remembered in [None, Some("older password")] {
                let mut sent = Vec::new();
                let method = sha2_method(remembered);
                let outcome = talk_recorded(default, secure, method, login(password("secret")), &mut sent);
                assert_eq!(outcome, proven_password("secret"), "{default} {secure}");
                let in_clear = sent.iter().any(|payload| payload.windows(6).any(|window| window == b"secret"));
                assert_eq!(in_clear, secure, "{default}: the password is on the wire as it is only inside TLS");
            }
            let outcome = talk(default, secure, sha2_method(None), login(password("")));
            assert_eq!(outcome, Outcome::Proven(Proof::Empty), "{default} {secure}");
        }
    }
}

#[test]
fn a_pinned_key_needs_no_key_request_and_another_key_does_not_decrypt() {
    let pinned = PublicKey::from_pem(KEY.public_pem().as_bytes()).unwrap();
    let request = LoginRequest { rsa: RsaPolicy::Pinned(pinned), ..login(password("secret")) };
    let mut sent = Vec::new();
    let outcome = talk_recorded(Plugin::CachingSha2, false, sha2_method(None), request, &mut sent);
    assert_eq!(outcome, proven_password("secret"));
    assert!(sent.iter().all(|payload| payload != &[caching_sha2::KEY_REQUEST]));
    let stranger = PublicKey::from_pem(RsaKey::generate().unwrap().public_pem().as_bytes()).unwrap();
    let request = LoginRequest { rsa: RsaPolicy::Pinned(stranger), ..login(password("secret")) };
    let outcome = talk(Plugin::CachingSha2, false, sha2_method(None), request);
    assert_eq!(outcome, Outcome::Denied(Denial::WrongPassword));
}

#[test]
fn without_a_good_key_no_password_leaves_an_open_channel() {
    let request = LoginRequest { rsa: RsaPolicy::Refuse, ..login(password("secret")) };
    let outcome = talk(Plugin::CachingSha2, false, sha2_method(None), request);
    assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
    let hash = crate::auth::fingerprint(KEY.public_pem().as_bytes());
    let request = LoginRequest { rsa: RsaPolicy::Known(hash), ..login(password("secret")) };
    assert_eq!(talk(Plugin::CachingSha2, false, sha2_method(None), request), proven_password("secret"));
    let request = LoginRequest { rsa: RsaPolicy::Known([7; 32]), ..login(password("secret")) };
    let outcome = talk(Plugin::CachingSha2, false, sha2_method(None), request);
    assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "another key: {outcome:?}");
    for default in DEFAULTS {
        let method = Method::CachingSha2 { remembered: None, rsa: None };
        let outcome = talk(default, false, method, login(password("secret")));
        assert_eq!(outcome, Outcome::Denied(Denial::NeedsTls), "{default}");
    }
}

#[test]
fn cleartext_passes_inside_tls_only() {
    for default in DEFAULTS {
        assert_eq!(talk(default, true, Method::Clear, login(password("secret"))), proven_password("secret"));
        assert_eq!(talk(default, true, Method::Clear, login(password(""))), Outcome::Proven(Proof::Empty));
        let outcome = talk(default, false, Method::Clear, login(password("secret")));
        assert_eq!(outcome, Outcome::Denied(Denial::NeedsTls));
    }
}

#[test]
fn a_server_that_asks_for_cleartext_on_an_open_channel_gets_nothing() {
    let mut out = Vec::new();
    AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut out);
    let greeted = AwaitGreeting.handle(one(&mut out).received()).unwrap();
    let awaiting = greeted.plain(Channel::Open).log_in(login(password("secret")), &mut out);
    out.clear();
    let payload = b"\xfemysql_clear_password\0";
    let error = awaiting.handle(Received { sequence: 2, payload }, &mut out).unwrap_err();
    assert!(matches!(error, HandshakeError::CredentialRefused(_)), "{error}");
    assert!(out.is_empty());
}

#[test]
fn hashes_do_not_answer_other_plugins() {
    let stage1 = Credential::NativeStage1(native::stage1(b"secret"));
    for secure in [false, true] {
        for method in [sha2_method(None), sha2_method(Some("secret"))] {
            let outcome = talk(Plugin::Native, secure, method, login(stage1.clone()));
            assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
        }
        let stage1 = Credential::CachingSha2Stage1(caching_sha2::stage1(b"secret"));
        let outcome = talk(Plugin::CachingSha2, secure, sha2_method(None), login(stage1));
        assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
    }
}

/// The answer of MariaDB's client: no LONG_PASSWORD, extended capabilities, one byte for the length of the answer.
fn response() -> HandshakeResponse {
    HandshakeResponse {
        capabilities: (Capabilities::from_halves(0x009f_f7ae, 0x0000_001d) - Capabilities::PLUGIN_AUTH_LENENC_DATA)
            | Capabilities::CONNECT_WITH_DB,
        packet_bytes_max: 1 << 30,
        collation: 224,
        user: b"app".to_vec(),
        auth_response: Zeroizing::new(vec![7; 20]),
        schema: Some(b"shop".to_vec()),
        plugin: Some(b"mysql_native_password".to_vec()),
        attributes: [("_os", "Linux"), ("_pid", "")].into_iter().collect(),
        zstd_level: None,
    }
}

#[test]
fn a_login_is_written_as_documented_and_read_back() {
    let mut payload = Vec::new();
    response().encode(&mut payload);
    let mut expected = b"\xae\xf7\x9f\x00\0\0\0\x40\xe0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x1d\0\0\0".to_vec();
    expected.extend_from_slice(
        b"app\0\x14\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07",
    );
    expected.extend_from_slice(b"shop\0mysql_native_password\0\x10\x03_os\x05Linux\x04_pid\0");
    assert_eq!(payload, expected);
    assert_eq!(HandshakeResponse::parse(&payload).unwrap(), response());
}

#[test]
fn a_cut_login_is_an_error_except_where_whole_fields_may_be_left_out() {
    let mut payload = Vec::new();
    response().encode(&mut payload);
    let schema_at = 32 + b"app\0".len() + 1 + 20;
    let may_end = [schema_at, schema_at + b"shop\0".len(), schema_at + b"shop\0mysql_native_password\0".len()];
    for cut in 0..payload.len() {
        let result = HandshakeResponse::parse(&payload[..cut]);
        assert_eq!(result.is_ok(), may_end.contains(&cut), "cut at {cut}: {result:?}");
    }
}

#[test]
fn clients_of_former_times_are_reported_so() {
    let mut old = response();
    old.capabilities.remove(Capabilities::PROTOCOL_41);
    let mut payload = Vec::new();
    old.encode(&mut payload);
    assert!(matches!(HandshakeResponse::parse(&payload), Err(HandshakeError::PeerIncompatible(_))));
    let mut old = response();
    old.capabilities.remove(Capabilities::SECURE_CONNECTION);
    payload.clear();
    old.encode(&mut payload);
    assert!(matches!(HandshakeResponse::parse(&payload), Err(HandshakeError::PeerIncompatible(_))));
}

#[test]
fn a_client_that_names_no_plugin_logs_in_to_native_accounts_only() {
    let answer = native::answer(&SCRAMBLE, &native::stage1(b"secret"));
    let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    let conversation = || server::Conversation::resume(SCRAMBLE, 0, Channel::Secure, capabilities);
    let mut out = Vec::new();
    let step = conversation().begin(native_method("secret"), None, &answer, &mut out).unwrap();
    assert!(matches!(step, server::Step::Proven(Proof::NativeStage1(_), _)), "{step:?}");
    let step = conversation().begin(sha2_method(None), None, &answer, &mut out).unwrap();
    assert!(matches!(step, server::Step::Denied(Denial::CannotSwitch, _)), "{step:?}");
    assert!(out.is_empty());
}

#[test]
fn an_answer_for_no_scramble_is_asked_for_again() {
    // MySQL 9's client towards a greeting with mysql_native_password, which it lacks.
    let request = HandshakeResponse {
        capabilities: response().capabilities | Capabilities::LONG_PASSWORD,
        auth_response: Zeroizing::default(),
        plugin: Some(b"caching_sha2_password".to_vec()),
        ..response()
    };
    let mut payload = Vec::new();
    request.encode(&mut payload);
    for (method, empty) in [(sha2_method(None), false), (Method::Empty, true)] {
        let mut out = Vec::new();
        let state = AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut Vec::new());
        let Response::Login(login, conversation) = state.handle(Received { sequence: 1, payload: &payload }).unwrap()
        else {
            panic!("a login");
        };
        let step = conversation.begin(method, login.plugin.as_deref(), &login.auth_response, &mut out).unwrap();
        let server::Step::Await(awaiting) = step else { panic!("{step:?}") };
        assert_eq!(one(&mut out).1, b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0");
        let answer = caching_sha2::answer(&SCRAMBLE, &caching_sha2::stage1(b"secret"));
        let payload = if empty { &b"\0"[..] } else { &answer[..] };
        let step = awaiting.handle(Received { sequence: 3, payload }, &mut out).unwrap();
        assert_eq!(matches!(step, server::Step::Proven(Proof::Empty, _)), empty, "{step:?}");
    }
    // In COM_CHANGE_USER nothing says which plugin's scramble the client has: only an empty answer is in doubt.
    let resume = || server::Conversation::resume(SCRAMBLE, 0, Channel::Open, Capabilities::PLUGIN_AUTH);
    let plugin = Some(&b"mysql_native_password"[..]);
    let step = resume().begin(native_method("secret"), plugin, b"", &mut Vec::new()).unwrap();
    assert!(matches!(step, server::Step::Await(_)), "{step:?}");
    let answer = native::answer(&SCRAMBLE, &native::stage1(b"secret"));
    let step = resume().begin(native_method("secret"), plugin, &answer, &mut Vec::new()).unwrap();
    assert!(matches!(step, server::Step::Proven(_, _)), "{step:?}");
}

#[test]
fn tls_comes_once_and_only_where_it_was_offered() {
    let request = |capabilities| {
        let mut payload = Vec::new();
        SslRequest { capabilities, packet_bytes_max: 1 << 24, collation: 45 }.encode(&mut payload);
        payload
    };
    let with_tls = Capabilities::PROTOCOL_41 | Capabilities::LONG_PASSWORD | Capabilities::TLS;
    let greet = |greeting: &Greeting| AwaitResponse::greet(greeting, Channel::Open, &mut Vec::new());
    let handle = |state: AwaitResponse, sequence, payload: &[u8]| state.handle(Received { sequence, payload });
    let mut without = greeting(Plugin::Native);
    without.capabilities.remove(Capabilities::TLS);
    let error = handle(greet(&without), 1, &request(with_tls)).unwrap_err();
    assert!(matches!(error, HandshakeError::PeerMisbehaved(_)), "{error}");
    let error = handle(greet(&greeting(Plugin::Native)), 1, &request(with_tls - Capabilities::TLS)).unwrap_err();
    assert!(matches!(error, HandshakeError::InvalidMessage(_)), "{error}");
    let Response::Tls(awaiting) = handle(greet(&greeting(Plugin::Native)), 1, &request(with_tls)).unwrap() else {
        panic!("TLS was offered");
    };
    let error = handle(awaiting.secured(), 2, &request(with_tls)).unwrap_err();
    assert!(matches!(error, HandshakeError::InvalidMessage(_)), "{error}");
    let mut login = Vec::new();
    HandshakeResponse { capabilities: response().capabilities | Capabilities::TLS, ..response() }.encode(&mut login);
    let error = handle(greet(&greeting(Plugin::Native)), 1, &login).unwrap_err();
    assert!(matches!(error, HandshakeError::PeerMisbehaved(_)), "{error}");
}

#[test]
fn capabilities_that_were_not_offered_are_dropped() {
    let mut payload = Vec::new();
    response().encode(&mut payload);
    let mut offer = greeting(Plugin::Native);
    offer.capabilities.remove(Capabilities::MULTI_STATEMENTS);
    let state = AwaitResponse::greet(&offer, Channel::Open, &mut Vec::new());
    let Response::Login(login, _) = state.handle(Received { sequence: 1, payload: &payload }).unwrap() else {
        panic!("a login");
    };
    assert!(response().capabilities.contains(Capabilities::MULTI_STATEMENTS | Capabilities::PROGRESS));
    assert!(!login.capabilities.intersects(Capabilities::MULTI_STATEMENTS | Capabilities::PROGRESS));
    assert_eq!(login.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
}

#[test]
fn packets_out_of_order_end_the_login() {
    let mut payload = Vec::new();
    response().encode(&mut payload);
    for sequence in [0, 2, 255] {
        let state = AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut Vec::new());
        let error = state.handle(Received { sequence, payload: &payload }).unwrap_err();
        assert_eq!(error, HandshakeError::PeerMisbehaved("packets out of order"));
    }
    let mut out = Vec::new();
    greeting(Plugin::Native).encode(&mut out);
    assert!(AwaitGreeting.handle(Received { sequence: 1, payload: &out }).is_err());
}

#[test]
fn a_server_that_refuses_instead_of_greeting_is_heard() {
    let payload = b"\xff\x10\x04Too many connections";
    let error = AwaitGreeting.handle(Received { sequence: 0, payload }).unwrap_err();
    let HandshakeError::Refused(error) = error else { panic!("{error}") };
    assert_eq!((error.code, &error.sqlstate, error.message.as_str()), (1040, &None, "Too many connections"));
    assert_eq!(error.to_string(), "Too many connections (error 1040)");
    let with_state = ServerError::parse(b"\xff\x15\x04#28000Access denied").unwrap();
    assert_eq!(with_state.to_string(), "Access denied (error 1045, SQLSTATE 28000)");
    let mut encoded = Vec::new();
    with_state.encode(&mut encoded);
    assert_eq!(encoded, b"\xff\x15\x04#28000Access denied");
}

#[test]
fn a_login_without_end_is_ended() {
    let mut out = Vec::new();
    AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut out);
    let greeted = AwaitGreeting.handle(one(&mut out).received()).unwrap();
    let mut awaiting = greeted.plain(Channel::Open).log_in(login(password("secret")), &mut out);
    let mut switch = Vec::new();
    put_switch("mysql_native_password", &mut switch);
    switch.put_nul_bytes(&SCRAMBLE);
    let mut sequence = 2;
    for _ in 0..client::AUTH_PACKETS_MAX {
        match awaiting.handle(Received { sequence, payload: &switch }, &mut out).unwrap() {
            client::Step::Await(next) => awaiting = next,
            client::Step::Done(_) => panic!("nobody said OK"),
        }
        sequence += 2;
    }
    let error = awaiting.handle(Received { sequence, payload: &switch }, &mut out).unwrap_err();
    assert_eq!(error, HandshakeError::PeerMisbehaved("the login takes no end"));
}

#[test]
fn what_servers_must_not_say_during_a_login_is_refused() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "empty packet"),
        (b"\xfe", "older than 4.1"),
        (b"\xfemysql_native_password", "plugin"),
        (b"\xfemysql_native_password\0short", "scramble"),
        (b"\xfeauth_gssapi_client\0HTTP/x", "\"auth_gssapi_client\""),
        (b"\x01\x04", "does not belong"),
        (b"\x02next factor", "second factor"),
        (b"\xff\x15", "error packet"),
        (b"\x0a5.5.5", "does not belong"),
    ];
    for (payload, word) in cases {
        let mut out = Vec::new();
        AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut out);
        let greeted = AwaitGreeting.handle(one(&mut out).received()).unwrap();
        let awaiting = greeted.plain(Channel::Open).log_in(login(password("secret")), &mut out);
        let error = awaiting.handle(Received { sequence: 2, payload }, &mut out).unwrap_err().to_string();
        assert!(error.contains(word), "{payload:?}: {error}");
    }
}

#[test]
fn another_user_takes_the_connection_over() {
    let capabilities = Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS;
    for (method, expected) in [
        (native_method("secret"), Outcome::Proven(Proof::NativeStage1(native::stage1(b"secret")))),
        (sha2_method(None), proven_password("secret")),
        (native_method("other"), Outcome::Denied(Denial::WrongPassword)),
    ] {
        let mut out = Vec::new();
        let mut request = login(password("secret"));
        request.collation = 300;
        let mut at_client =
            client::change_user(greeting(Plugin::Native), capabilities, SCRAMBLE, Channel::Open, request, &mut out);
        let packet = one(&mut out);
        let change = ChangeUser::parse(&packet.1, capabilities).unwrap();
        assert_eq!((change.user.as_slice(), change.collation), (&b"app"[..], Some(300)));
        assert_eq!(change.attributes.iter().count(), 1);
        let conversation = server::Conversation::resume(SCRAMBLE, packet.0, Channel::Open, capabilities);
        let mut step = conversation.begin(method, change.plugin.as_deref(), &change.auth_response, &mut out).unwrap();
        let outcome = loop {
            match step {
                server::Step::Await(awaiting) => {
                    let packet = one(&mut out);
                    let client::Step::Await(next) = at_client.handle(packet.received(), &mut out).unwrap() else {
                        panic!("done too early");
                    };
                    at_client = next;
                    step = awaiting.handle(one(&mut out).received(), &mut out).unwrap();
                }
                server::Step::Proven(proof, _) => break Outcome::Proven(proof),
                server::Step::Denied(denial, _) => break Outcome::Denied(denial),
            }
        };
        assert_eq!(outcome, expected);
    }
}

#[test]
fn a_cut_change_user_is_an_error_except_where_whole_fields_may_be_left_out() {
    let capabilities = Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS;
    let payload = b"\x11app\0\x02xyshop\0\x2d\x00mysql_native_password\0\x06\x03_os\x01L";
    let may_end = [13, 15, 37];
    for cut in 0..payload.len() {
        let result = ChangeUser::parse(&payload[..cut], capabilities);
        assert_eq!(result.is_ok(), may_end.contains(&cut), "cut at {cut}: {result:?}");
    }
    let change = ChangeUser::parse(payload, capabilities).unwrap();
    let mut encoded = Vec::new();
    change.encode(capabilities, &mut encoded);
    assert_eq!(encoded, payload);
}

#[test]
fn debug_output_of_logins_shows_no_secret() {
    let secret = Zeroizing::new(b"hunter2".to_vec());
    let shown = [
        format!("{:?}", HandshakeResponse { auth_response: secret.clone(), ..response() }),
        format!("{:?}", login(password("hunter2"))),
        format!("{:?}", Proof::Password(secret)),
        format!("{:?}", native_method("hunter2")),
    ];
    for text in shown {
        assert!(!text.contains("hunter2") && !text.contains("104, 117"), "{text}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        header in prop::sample::select(vec![0x00u8, 0x01, 0x02, 0xfe, 0xff]),
        low in any::<u32>(),
    ) {
        let _ = HandshakeResponse::parse(&payload);
        let _ = ChangeUser::parse(&payload, Capabilities::from_halves(low, 0));
        let mut login_payload = low.to_le_bytes().to_vec();
        login_payload.extend_from_slice(&payload);
        let state = AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut Vec::new());
        let _ = state.handle(Received { sequence: 1, payload: &login_payload });
        let mut answer = vec![header];
        answer.extend_from_slice(&payload);
        for plugin in DEFAULTS {
            let mut out = Vec::new();
            AwaitResponse::greet(&greeting(plugin), Channel::Open, &mut out);
            let greeted = AwaitGreeting.handle(one(&mut out).received()).unwrap();
            let awaiting = greeted.plain(Channel::Open).log_in(login(password("secret")), &mut out);
            let _ = awaiting.handle(Received { sequence: 2, payload: &answer }, &mut out);
        }
        for method in [native_method("secret"), sha2_method(Some("secret")), Method::Clear, Method::Empty] {
            let conversation =
                server::Conversation::resume(SCRAMBLE, 0, Channel::Secure, Capabilities::PLUGIN_AUTH);
            let _ = conversation.begin(method, Some(b"caching_sha2_password"), &payload, &mut Vec::new());
        }
    }
}
