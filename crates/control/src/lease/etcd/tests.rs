//! On real members of etcd.

use std::future::Future;

use lab::{EtcdOptions, TlsFiles};
use tokio::task::LocalSet;

use super::*;
use crate::lease::Lease;

/// The shortest that etcd takes.
const TIME: Duration = Duration::from_secs(2);
/// Longest wait for something that should come soon, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

fn config_of(etcd: &lab::Etcd) -> config::Etcd {
    let tls = config::ServerTls {
        mode: config::ServerTlsMode::Disabled,
        min_version: config::TlsVersion::V12,
        ca: None,
        cert: None,
        key: None,
    };
    let endpoints = etcd.endpoints().iter().map(|text| config::Address::parse(text).unwrap()).collect();
    config::Etcd { endpoints, user: None, password: None, prefix: "/sqluice".into(), tls }
}

/// A process of this name.
fn process(name: &str, etcd: config::Etcd, tls: ClientTls) -> Lease {
    let core = Rc::new(Core::new(worth(TIME), TIME));
    let holder = Holder {
        cluster: "main".into(),
        state: Rc::new(State::new("main", &etcd.prefix, core.clone())),
        gateway: Gateway::new(etcd, tls, TIME / 4),
        name: name.into(),
        lease_time: TIME,
        interval: Duration::from_millis(50),
        lease: None,
    };
    let state = holder.state.clone();
    Lease { core, state, outlives: true, _tasks: Rc::new(vec![own(holder.run())]) }
}

fn plain(name: &str, etcd: &lab::Etcd) -> Lease {
    process(name, config_of(etcd), ClientTls::disabled())
}

fn holds(lease: &Lease) -> bool {
    lease.watch().borrow().is_some_and(|end| end > Instant::now())
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !look() {
        assert!(Instant::now() < deadline, "this did not come: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn is_held(lease: &Lease) {
    until("it to be held", || holds(lease)).await;
}

/// Two processes: the first one holds it, and the other one has heard of that.
async fn two(etcd: &lab::Etcd) -> (Lease, Lease) {
    let one = plain("one", etcd);
    is_held(&one).await;
    let other = plain("other", etcd);
    until("the other one to hear of it", || other.words().contains("another process: one")).await;
    (one, other)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

fn started(members: usize) -> lab::Etcd {
    lab::Etcd::start(EtcdOptions { members, tls: None }).unwrap()
}

#[test]
fn one_holds_it_and_another_takes_over() {
    let etcd = started(1);
    run(async {
        let (one, other) = two(&etcd).await;
        assert!(holds(&one) && !holds(&other));
        assert!(other.take(tokio::time::Instant::now() + Duration::from_millis(100)).await.is_err());
        let end = one.take(tokio::time::Instant::now() + SOON).await.unwrap();
        assert!(end <= Instant::now() + worth(TIME));
        // A process that is killed: its lease is neither renewed nor given back.
        let gone = Instant::now();
        let last = one.watch().borrow().unwrap();
        drop(one);
        is_held(&other).await;
        let taken = Instant::now();
        assert!(taken >= last, "the first one could still believe that it has it");
        // etcd looks for leases that have ended twice in a second.
        assert!(taken - gone < TIME + Duration::from_secs(2), "{:?}", taken - gone);
        assert!(other.confirmations().elsewhere > 0 && other.confirmations().held > 0);
    });
}

#[test]
fn what_is_given_back_is_free_at_once() {
    let etcd = started(1);
    run(async {
        let (one, other) = two(&etcd).await;
        let given = Instant::now();
        one.release();
        is_held(&other).await;
        assert!(given.elapsed() < TIME && !holds(&one));
    });
}

#[test]
fn a_process_that_ends_gives_it_back() {
    let mut etcd = started(1);
    run(async {
        let (one, other) = two(&etcd).await;
        let given = Instant::now();
        one.end(SOON).await;
        assert!(!holds(&one), "it ends before others can have it");
        drop(one);
        is_held(&other).await;
        assert!(given.elapsed() < TIME, "{:?}", given.elapsed());
        // Without etcd a request ends at its own limit.
        etcd.kill(0);
        let begun = Instant::now();
        other.end(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < TIME / 2 && !holds(&other), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_reload_keeps_it() {
    let etcd = started(1);
    run(async {
        let one = plain("one", &etcd);
        is_held(&one).await;
        drop(one);
        let begun = Instant::now();
        let again = plain("one", &etcd);
        is_held(&again).await;
        assert!(begun.elapsed() < TIME / 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn without_etcd_nobody_has_it() {
    let mut etcd = started(1);
    run(async {
        let (one, other) = (plain("one", &etcd), plain("other", &etcd));
        until("one to hold it", || holds(&one) || holds(&other)).await;
        etcd.kill(0);
        until("nobody to hold it", || !holds(&one) && !holds(&other)).await;
        until("both to say why", || [&one, &other].iter().all(|lease| lease.words().contains("cannot be had"))).await;
        assert!(one.words().contains(&etcd.endpoint(0)), "{}", one.words());
        assert!(one.take(tokio::time::Instant::now() + Duration::from_millis(300)).await.is_err());
        etcd.restart(0).unwrap();
        until("one to hold it again", || holds(&one) || holds(&other)).await;
        assert!(!(holds(&one) && holds(&other)));
    });
}

#[test]
fn a_majority_of_members_is_enough_and_needed() {
    let mut etcd = started(3);
    run(async {
        let one = plain("one", &etcd);
        is_held(&one).await;
        // Whichever it talked to, and whether that was the leader or not.
        for member in 0..3 {
            etcd.kill(member);
            let asked = one.take(tokio::time::Instant::now() + SOON).await;
            assert!(asked.is_ok(), "without member {member}: {asked:?}");
            etcd.restart(member).unwrap();
            let endpoint = etcd.endpoint(member);
            until("the member to be back", || std::net::TcpStream::connect(&endpoint).is_ok()).await;
        }
        etcd.kill(0);
        etcd.kill(1);
        until("it to be lost", || !holds(&one)).await;
        assert!(one.take(tokio::time::Instant::now() + Duration::from_millis(500)).await.is_err());
        etcd.restart(0).unwrap();
        is_held(&one).await;
    });
}

#[test]
fn it_logs_in_and_logs_in_again() {
    let mut etcd = started(1);
    run(async {
        let mut gateway = Gateway::new(config_of(&etcd), ClientTls::disabled(), SOON);
        for (path, body) in [
            ("auth/user/add", json!({ "name": "root", "password": "root" })),
            ("auth/role/add", json!({ "name": "root" })),
            ("auth/user/grant", json!({ "user": "root", "role": "root" })),
            ("auth/user/add", json!({ "name": "sqluice", "password": "secret" })),
            ("auth/role/add", json!({ "name": "sqluice" })),
            ("auth/user/grant", json!({ "user": "sqluice", "role": "sqluice" })),
            (
                "auth/role/grant",
                json!({ "name": "sqluice", "perm": {
                    "permType": "READWRITE", "key": BASE64.encode("/sqluice/"), "range_end": BASE64.encode("/sqluice0"),
                } }),
            ),
            ("auth/enable", json!({})),
        ] {
            gateway.call(path, &body).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let stranger = plain("stranger", &etcd);
        until("a stranger to be refused", || stranger.words().contains("etcd says")).await;
        let with = |password: &str| config::Etcd {
            user: Some("sqluice".into()),
            password: Some(config::Secret::new(password)),
            ..config_of(&etcd)
        };
        let wrong = process("wrong", with("guessed"), ClientTls::disabled());
        until("a wrong password to be refused", || wrong.words().contains("etcd says")).await;
        assert!(!wrong.words().contains("guessed"));
        let right = process("right", with("secret"), ClientTls::disabled());
        is_held(&right).await;
        // A member that starts anew knows none of its tokens.
        etcd.kill(0);
        until("it to be lost", || !holds(&right)).await;
        etcd.restart(0).unwrap();
        is_held(&right).await;
    });
}

#[test]
fn certificates_are_checked_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let etcd = lab::Etcd::start(EtcdOptions { members: 1, tls: Some(files.clone()) }).unwrap();
    let client = |ca: bool, own: bool| {
        let options = net::tls::ClientTlsOptions {
            mode: net::tls::ServerTlsMode::VerifyIdentity,
            ca_file: ca.then(|| files.authority.clone().into()),
            certificate_file: own.then(|| files.certificate.clone().into()),
            key_file: own.then(|| files.key.clone().into()),
            ..Default::default()
        };
        ClientTls::new(&options).unwrap()
    };
    run(async {
        let trusting_nobody = process("a", config_of(&etcd), ClientTls::disabled());
        until("an open connection to fail", || trusting_nobody.words().contains("cannot be had")).await;
        let unknown = process("b", config_of(&etcd), client(true, false));
        until("one without a certificate to fail", || unknown.words().contains("cannot be had")).await;
        let known = process("c", config_of(&etcd), client(true, true));
        is_held(&known).await;
    });
}

/// An authority, and a certificate for this machine that is good for both sides.
fn certificates(folder: &std::path::Path) -> TlsFiles {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let mut own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let own_key = KeyPair::generate().unwrap();
    let certificate = own.signed_by(&own_key, &Issuer::new(authority, authority_key)).unwrap().pem();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    TlsFiles {
        authority: write("ca.pem", &authority_pem),
        certificate: write("own.pem", &certificate),
        key: write("own.key", &own_key.serialize_pem()),
    }
}
