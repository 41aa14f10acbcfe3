//! Clients that log in with what they like.

use wire::auth::parsec::ExtSalt;
use wire::auth::{Plugin, Scramble, caching_sha2, ed25519, native};
use wire::greeting::Greeting;
use wire::handshake::server::{AwaitResponse, Finish, Method, Proof, Response, Step};
use wire::handshake::{ChangeUser, Channel, HandshakeError, HandshakeResponse, LOGIN_BYTES_MAX, Received, ServerError};
use wire::packet::{First, first};
use wire::{Capabilities, Status};

use crate::Input;

const SCRAMBLE: Scramble = *b"abcdefghijklmnopqrst";
const PASSWORD: &[u8] = b"correct horse battery";

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let nonce = [7; 32];
    let salt = ExtSalt::parse(b"P\0eighteen bytes of ");
    let method = match input.byte() % 8 {
        0 => Method::Native { stage2: native::stage2(&native::stage1(PASSWORD)) },
        1 => Method::Empty,
        2 => Method::CachingSha2 { remembered: Some(caching_sha2::stage2(&caching_sha2::stage1(PASSWORD))), rsa: None },
        3 => Method::CachingSha2 { remembered: None, rsa: None },
        4 => Method::Sha256 { rsa: None },
        5 => Method::Ed25519 { key: ed25519::public_key(PASSWORD), nonce },
        6 => match salt {
            // Which key it is does not matter: nobody here signs.
            Some(salt) => Method::Parsec { salt, key: ed25519::public_key(PASSWORD), nonce },
            None => panic!("the salt is good"),
        },
        _ => Method::Clear,
    };
    let channel = input.one_of(&[Channel::Open, Channel::Secure]);
    let plugin = input.one_of(&Plugin::ALL);
    let capabilities = Capabilities::from_bits_retain(input.number());
    let mut rest = input.remaining();
    requests(rest, capabilities);
    let greeting = Greeting {
        server_version: "8.0.36".into(),
        connection_id: 7,
        scramble: SCRAMBLE,
        capabilities,
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: plugin.name().into(),
    };
    let mut out = Vec::new();
    let mut awaiting = AwaitResponse::greet(&greeting, channel, &mut out);
    let (login, conversation) = loop {
        let Some(received) = packet(&mut rest) else { return };
        match awaiting.handle(received) {
            Ok(Response::Tls(tls)) => {
                assert!(capabilities.contains(Capabilities::TLS));
                awaiting = tls.secured();
            }
            Ok(Response::Login(login, conversation)) => break (login, conversation),
            Err(_) => return,
        }
    };
    assert!(capabilities.contains(login.capabilities), "a capability that was not offered");
    let mut step = conversation.begin(method.clone(), login.plugin.as_deref(), &login.auth_response, &mut out);
    for _ in 0..8 {
        match step {
            Ok(Step::Await(awaiting)) => {
                let Some(received) = packet(&mut rest) else { return };
                step = awaiting.handle(received, &mut out);
            }
            Ok(Step::Proven(proof, finish)) => return proven(&method, &proof, finish),
            Ok(Step::Denied(_, finish)) => return refused(finish),
            Err(_) => return,
        }
    }
    panic!("a login without an end");
}

/// A client that is let in has the secret of the method.
fn proven(method: &Method, proof: &Proof, finish: Finish) {
    match (method, proof) {
        (Method::Native { stage2 }, Proof::NativeStage1(stage1)) => assert_eq!(native::stage2(stage1), *stage2),
        (Method::CachingSha2 { remembered, .. }, Proof::CachingSha2Stage1(stage1)) => {
            assert_eq!(Some(caching_sha2::stage2(stage1)), *remembered);
        }
        (Method::Empty | Method::CachingSha2 { .. } | Method::Clear | Method::Sha256 { .. }, Proof::Empty) => {}
        (Method::CachingSha2 { .. } | Method::Clear | Method::Sha256 { .. }, Proof::Password(password)) => {
            assert!(!password.is_empty());
        }
        (method, proof) => panic!("{method:?} gave {proof:?}"),
    }
    let mut out = Vec::new();
    finish.accept(&[0, 0, 0, 2, 0, 0, 0], &mut out);
    assert_eq!(packet(&mut &out[..]).map(|received| received.payload[0]), Some(0));
}

fn refused(finish: Finish) {
    let mut out = Vec::new();
    let error = ServerError { code: 1045, sqlstate: Some("28000".into()), message: "Access denied".into() };
    finish.refuse(&error, &mut out);
    let received = packet(&mut &out[..]).map(|received| ServerError::parse(received.payload));
    assert_eq!(received, Some(Ok(error)));
}

/// Requests that can be read are written again as they are understood.
fn requests(payload: &[u8], capabilities: Capabilities) {
    let written = |response: &HandshakeResponse| {
        let mut written = Vec::new();
        response.encode(&mut written);
        written
    };
    let parsed = HandshakeResponse::parse(payload);
    if let Ok(response) = &parsed {
        let once = written(response);
        match HandshakeResponse::parse(&once) {
            Ok(again) => assert_eq!(written(&again), once),
            Err(error) => panic!("{error} in {once:?}"),
        }
    }
    if let Err(HandshakeError::Refused(error)) = parsed {
        panic!("the client refused: {error}");
    }
    if let Ok(change) = ChangeUser::parse(payload, capabilities) {
        let mut once = Vec::new();
        change.encode(capabilities, &mut once);
        let again = ChangeUser::parse(&once[1..], capabilities).or_else(|_| ChangeUser::parse(&once, capabilities));
        assert!(again.is_ok(), "{again:?}");
    }
}

fn packet<'a>(rest: &mut &'a [u8]) -> Option<Received<'a>> {
    let First::Whole { payload, sequence, taken } = first(rest, LOGIN_BYTES_MAX) else { return None };
    *rest = &rest[taken..];
    Some(Received { sequence, payload })
}
