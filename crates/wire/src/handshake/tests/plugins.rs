//! The plugins that sign, `sha256_password` and `dialog`, with both sides, and what neither side takes.

use super::*;
use crate::auth::ed25519::{self, new_nonce};
use crate::auth::parsec::{self, ExtSalt};
use crate::auth::sha256;

fn ed25519_method(password: &str) -> Method {
    Method::Ed25519 { key: ed25519::public_key(password.as_bytes()), nonce: new_nonce().unwrap() }
}

fn salt() -> ExtSalt {
    ExtSalt::parse(b"P\0eighteen bytes... ").unwrap()
}

fn parsec_method(password: &str) -> Method {
    let key = salt().public_key(password.as_bytes()).unwrap();
    Method::Parsec { salt: salt(), key, nonce: new_nonce().unwrap() }
}

#[test]
fn who_knows_the_password_signs_and_nobody_else() {
    for default in DEFAULTS {
        for secure in [false, true] {
            for method in [ed25519_method, parsec_method] {
                for right in ["secret", "", "a password that is longer than any seed or hash could ever be"] {
                    let outcome = talk(default, secure, method(right), login(password(right)));
                    assert_eq!(outcome, Outcome::Proven(Proof::Signature), "{default} {secure} {right:?}");
                }
                for wrong in ["", "Secret", "secret "] {
                    let outcome = talk(default, secure, method("secret"), login(password(wrong)));
                    assert_eq!(outcome, Outcome::Denied(Denial::WrongPassword), "{default} {secure} {wrong:?}");
                }
                let stage1 = Credential::NativeStage1(native::stage1(b"secret"));
                let outcome = talk(default, secure, method("secret"), login(stage1));
                assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_signature_that_came_with_the_login_does_not_count() {
    // A challenge that was not sent yet cannot be signed.
    let mut out = Vec::new();
    for name in ["client_ed25519", "parsec"] {
        let method = if name == "parsec" { parsec_method("secret") } else { ed25519_method("secret") };
        let conversation =
            server::Conversation::resume(SCRAMBLE, 0, Channel::Open, greeting(Plugin::Native).capabilities);
        let step = conversation.begin(method, Some(name.as_bytes()), &[7; 64], &mut out).unwrap();
        assert!(matches!(step, server::Step::Await(_)), "{step:?}");
        let switch = one(&mut out);
        assert!(switch.1.starts_with(&[&b"\xfe"[..], name.as_bytes(), b"\0"].concat()));
        assert_eq!(switch.1.len(), 1 + name.len() + 1 + 32, "the challenge has no zero byte behind it");
    }
}

#[test]
fn parsec_wants_its_packets_in_order() {
    let mut out = Vec::new();
    let begin = |out: &mut Vec<u8>| {
        let conversation =
            server::Conversation::resume(SCRAMBLE, 0, Channel::Open, greeting(Plugin::Native).capabilities);
        let step = conversation.begin(parsec_method("secret"), Some(b"parsec"), b"", out).unwrap();
        let server::Step::Await(awaiting) = step else { panic!("{step:?}") };
        awaiting
    };
    let error = begin(&mut out).handle(Received { sequence: 2, payload: &[7; 96] }, &mut out).unwrap_err();
    assert!(matches!(error, HandshakeError::PeerMisbehaved(_)), "{error}");
    let error = begin(&mut out).handle(Received { sequence: 3, payload: b"" }, &mut out).unwrap_err();
    assert_eq!(error, HandshakeError::PeerMisbehaved("packets out of order"));
    out.clear();
    let step = begin(&mut out).handle(Received { sequence: 2, payload: b"" }, &mut out).unwrap();
    let server::Step::Await(awaiting) = step else { panic!("{step:?}") };
    assert_eq!(packets(&mut out)[1].1, salt().to_bytes());
    let step = awaiting.handle(Received { sequence: 4, payload: b"" }, &mut out).unwrap();
    assert!(matches!(step, server::Step::Denied(Denial::WrongPassword, _)), "the salt is given once: {step:?}");
}

#[test]
fn sha256_hides_the_password_by_tls_or_rsa() {
    let method = || Method::Sha256 { rsa: Some(KEY.clone()) };
    for default in DEFAULTS {
        for secure in [false, true] {
            let mut sent = Vec::new();
            let outcome = talk_recorded(default, secure, method(), login(password("secret")), &mut sent);
            assert_eq!(outcome, proven_password("secret"), "{default} {secure}");
            let in_clear = sent.iter().any(|payload| payload.windows(6).any(|window| window == b"secret"));
            assert_eq!(in_clear, secure, "{default}");
            assert_eq!(sent.contains(&vec![sha256::KEY_REQUEST]), !secure);
            assert_eq!(talk(default, secure, method(), login(password(""))), Outcome::Proven(Proof::Empty));
            let stage1 = Credential::CachingSha2Stage1(caching_sha2::stage1(b"secret"));
            let outcome = talk(default, secure, method(), login(stage1));
            assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
        }
        let refuse = LoginRequest { rsa: RsaPolicy::Refuse, ..login(password("secret")) };
        let outcome = talk(default, false, method(), refuse);
        assert!(matches!(outcome, Outcome::ClientGaveUp(HandshakeError::CredentialRefused(_))), "{outcome:?}");
        let outcome = talk(default, false, Method::Sha256 { rsa: None }, login(password("secret")));
        assert_eq!(outcome, Outcome::Denied(Denial::NeedsTls));
    }
    let pinned = PublicKey::from_pem(KEY.public_pem().as_bytes()).unwrap();
    let request = LoginRequest { rsa: RsaPolicy::Pinned(pinned), ..login(password("secret")) };
    assert_eq!(talk(Plugin::Native, false, method(), request), proven_password("secret"));
}

#[test]
fn a_client_can_be_asked_once_more_but_not_twice() {
    let mut out = Vec::new();
    let begin = |capabilities: Capabilities, channel: Channel, out: &mut Vec<u8>| {
        let conversation = server::Conversation::resume(SCRAMBLE, 0, channel, capabilities);
        let step = conversation.begin(native_method("new"), Some(b"mysql_native_password"), &[7; 20], out).unwrap();
        let server::Step::Denied(Denial::WrongPassword, finish) = step else { panic!("{step:?}") };
        finish
    };
    let all = greeting(Plugin::Native).capabilities;
    let awaiting = begin(all, Channel::Open, &mut out).ask_again(ed25519_method("new"), &mut out).unwrap();
    let switch = one(&mut out);
    assert!(switch.0 == 1 && switch.1.starts_with(b"\xfeclient_ed25519\0"));
    let nonce = switch.1.last_chunk::<32>().unwrap();
    let payload = &ed25519::sign(b"old", nonce)[..];
    let step = awaiting.handle(Received { sequence: 2, payload }, &mut out).unwrap();
    let server::Step::Denied(Denial::WrongPassword, finish) = step else { panic!("{step:?}") };
    let finish = finish.ask_again(native_method("new"), &mut out).unwrap_err();
    assert!(out.is_empty());
    finish.refuse(&ServerError { code: 1045, sqlstate: None, message: "no".into() }, &mut out);
    assert_eq!(one(&mut out).0, 3);
    for (capabilities, channel, method) in [
        (all - Capabilities::PLUGIN_AUTH, Channel::Secure, ed25519_method("new")),
        (all, Channel::Open, Method::Clear),
        (all, Channel::Open, Method::CachingSha2 { remembered: None, rsa: None }),
    ] {
        assert!(begin(capabilities, channel, &mut out).ask_again(method, &mut out).is_err());
        assert!(out.is_empty());
    }
}

/// A login whose answer has been sent, and the packets that a server sends next.
fn logged_in(
    secure: bool,
    credential: Credential,
    server: &[&[u8]],
) -> (Result<client::Step, HandshakeError>, Vec<u8>) {
    let mut out = Vec::new();
    AwaitResponse::greet(&greeting(Plugin::Native), Channel::Open, &mut out);
    let channel = if secure { Channel::Secure } else { Channel::Open };
    let ready = AwaitGreeting.handle(one(&mut out).received()).unwrap().plain(channel);
    let mut awaiting = ready.log_in(login(credential), &mut out);
    out.clear();
    let mut sequence = 2;
    let (last, first) = server.split_last().unwrap();
    for payload in first {
        match awaiting.handle(Received { sequence, payload }, &mut out).unwrap() {
            client::Step::Await(next) => awaiting = next,
            client::Step::Done(_) => panic!("done too early"),
        }
        sequence += 2;
        out.clear();
    }
    (awaiting.handle(Received { sequence, payload: last }, &mut out), out)
}

#[test]
fn one_question_for_the_password_is_answered_where_nobody_listens() {
    let question = b"\xfedialog\0\x04Password: ";
    let (step, out) = logged_in(true, password("secret"), &[question]);
    assert!(matches!(step.unwrap(), client::Step::Await(_)));
    assert_eq!(&out[4..], b"secret\0");
    let (step, _) = logged_in(true, password("secret"), &[question, OK]);
    assert!(matches!(step.unwrap(), client::Step::Done(_)));
    for (secure, packets) in [
        (false, &[&question[..]][..]),
        (true, &[b"\xfedialog\0\x02Favourite colour: "]),
        (true, &[b"\xfedialog\0"]),
        (true, &[question, b"\x04One-time code: "]),
    ] {
        let (step, out) = logged_in(secure, password("secret"), packets);
        assert!(matches!(step.unwrap_err(), HandshakeError::CredentialRefused(_)), "{packets:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn servers_that_send_nonsense_get_no_answer() {
    let long = [&b"\xfeparsec\0"[..], &[7; 32]].concat();
    let heavy = [&b"P\x1e"[..], &[7; 18]].concat();
    for packets in [
        &[&b"\xfeclient_ed25519\0short"[..]][..],
        &[b"\xfeparsec\0short"],
        &[b"\xfesha256_password\0short"],
        &[&long, b"P"],
        &[&long, &heavy],
        &[&long, b"\0\0\0\x02\0\0\0"],
        &[&long, b"\xfemysql_native_password\0abcdefghijklmnopqrst\0"],
    ] {
        let (step, out) = logged_in(true, password("secret"), packets);
        assert!(step.is_err() && out.is_empty(), "{packets:?}");
    }
    let escaped = [&b"\x01"[..], &salt().to_bytes()].concat();
    let (step, out) = logged_in(true, password("secret"), &[&long, &escaped]);
    assert!(matches!(step.unwrap(), client::Step::Await(_)));
    let key = salt().public_key(b"secret").unwrap();
    assert!(parsec::verify(&key, &[7; 32], &out[4..]));
}

proptest! {
    #[test]
    fn random_packets_never_panic(
        name in prop::sample::select(vec!["client_ed25519", "parsec", "sha256_password", "dialog"]),
        data in prop::collection::vec(any::<u8>(), 0..40),
        next in prop::collection::vec(any::<u8>(), 0..120),
        method in 0..3usize,
    ) {
        let switch = [b"\xfe", name.as_bytes(), b"\0", &data].concat();
        let _ = logged_in(true, password("secret"), &[&switch]);
        let mut out = Vec::new();
        let method = match method {
            0 => ed25519_method("secret"),
            1 => parsec_method("secret"),
            _ => Method::Sha256 { rsa: Some(KEY.clone()) },
        };
        let conversation = server::Conversation::resume(SCRAMBLE, 0, Channel::Open, greeting(Plugin::Native).capabilities);
        if let Ok(server::Step::Await(awaiting)) = conversation.begin(method, Some(name.as_bytes()), &data, &mut out)
            && let Ok(server::Step::Await(awaiting)) = awaiting.handle(Received { sequence: 2, payload: &next }, &mut out)
        {
            let _ = awaiting.handle(Received { sequence: 4, payload: &data }, &mut out);
        }
    }
}
