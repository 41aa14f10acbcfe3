use std::path::Path;

use sql::{Dialect, Encoding, Family, Modes};
use stats::digests::DigestName;

use super::*;
use crate::condition::Condition;
use crate::event::{AnsweredBy, Client, Query, Text};
use crate::masks::Masks;
use crate::redaction::Literals;
use crate::sinks::{FileSettings, Rotation, Takes, Target};

fn text(text: &str) -> Text {
    let modes = Modes::empty();
    let dialect = Dialect { family: Family::MariaDb, version: 101_119, modes, encoding: Encoding::AsciiSafe };
    Text { bytes: text.as_bytes().into(), dialect }
}

fn event(session: u32) -> Event {
    let digest = DigestName {
        hash: 7,
        text: "SELECT ?".into(),
        user: "app".into(),
        schema: "shop".into(),
        cluster: "shop".into(),
    };
    Event {
        at: SystemTime::now(),
        session,
        client: Arc::new(Client { user: "app".into(), ..Client::default() }),
        body: Body::Query(Query {
            digest: Arc::new(digest),
            text: Some(text("SELECT 'secret'")),
            text_cut: false,
            writes: false,
            slow: false,
            command: "COM_QUERY",
            answered_by: AnsweredBy::Server { name: "db1".into(), primary: true },
            route_reason: None,
            rule: None,
            error: None,
            rows_sent: 1,
            rows_affected: 0,
            warnings: 0,
            bytes_in: None,
            bytes_out: None,
            gtid: None,
            wait_us: 1,
            first_us: 2,
            total_us: 3,
            trace: None,
            statement: 1,
            transaction: 0,
            pins: Box::default(),
            rewritten: false,
            params: None,
            bulk_rows: None,
        }),
    }
}

fn file(path: &Path, literals: Literals) -> Settings {
    let rotation = Rotation { size_max: 0, age_max: Duration::ZERO, keep: 3, compress: false };
    let target = Target::File(FileSettings { path: path.to_owned(), rotation });
    let masks = Masks::default();
    let sink = SinkSettings { name: "file".into(), takes: Takes::All, literals, masks, target };
    Settings { node: "n1".into(), sinks: vec![sink], ..Settings::default() }
}

/// The numbers that lines use, each with its kind.
fn numbers(path: &Path) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines
        .flat_map(|line| {
            let from = line["seq"].as_u64().unwrap();
            let to = line["to"].as_u64().unwrap_or(from);
            let kind = line["kind"].as_str().unwrap().to_owned();
            (from..=to).map(move |number| (number, kind.clone()))
        })
        .collect()
}

#[test]
fn every_number_is_there_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    for _ in 0..2 {
        let (events, rings) = Events::start(file(&path, Literals::None), 2).unwrap();
        (0..10).for_each(|session| rings[session as usize % 2].put(event(session)));
        drop(rings);
        events.stop();
        assert_eq!((events.queries(), events.lost()), (10, 0));
    }
    let numbers = numbers(&path);
    assert!(numbers.iter().map(|(number, _)| *number).eq(1..=22), "{numbers:?}");
    assert_eq!(numbers.iter().filter(|(_, kind)| kind == "start").count(), 2);
}

#[test]
fn a_full_ring_becomes_a_gap() {
    let (inbound, out) = ring(3, Arc::default());
    (0..5).for_each(|session| inbound.put(event(session)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    // Its own thread has no rings, and writes a start line.
    let (events, _) = Events::start(file(&path, Literals::None), 0).unwrap();
    while events.recent().tail(None, 1, &Condition::default()).newest == 0 {
        std::thread::yield_now();
    }
    let mut writer = Writer::new(events.clone(), vec![out], "n1".into(), 2);
    assert_eq!(writer.round(), 3);
    writer.hand_over();
    inbound.put(event(9));
    assert_eq!(writer.round(), 1);
    writer.hand_over();
    events.stop();
    let kinds: Vec<_> = numbers(&path).into_iter().map(|(number, kind)| format!("{number} {kind}")).collect();
    assert_eq!(kinds, ["1 start", "2 query", "3 query", "4 query", "5 gap", "6 gap", "7 query"]);
    assert_eq!(events.lost(), 2);
}

#[test]
fn a_second_file_lacks_what_was_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    std::fs::write(&first, "{\"v\":1,\"seq\":20}\n").unwrap();
    std::fs::write(&second, "{\"v\":1,\"seq\":17,\"kind\":\"query\"}\n").unwrap();
    let mut settings = file(&first, Literals::None);
    let other = file(&second, Literals::None).sinks.pop().unwrap();
    settings.sinks.push(SinkSettings { name: "files.second".into(), ..other });
    let (events, _) = Events::start(settings, 0).unwrap();
    events.stop();
    let kinds: Vec<_> = numbers(&second).into_iter().map(|(number, kind)| format!("{number} {kind}")).collect();
    assert_eq!(kinds, ["17 query", "18 gap", "19 gap", "20 gap", "21 start"]);
}

/// A sink that is behind finds in the spool what it lacks, whatever another one has.
#[test]
fn the_spool_keeps_what_one_sink_lacks_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let with_spool = |late: &Path| {
        let mut settings = file(&path("first"), Literals::None);
        settings.sinks.push(SinkSettings { name: "files.late".into(), ..file(late, Literals::None).sinks.remove(0) });
        settings.spool = Some(SpoolSettings { path: path("spool"), bytes_max: 1 << 20, age_max: Duration::ZERO });
        settings
    };
    for _ in 0..3 {
        // Nothing can be written there.
        let (events, rings) = Events::start(with_spool(Path::new("/dev/full")), 1).unwrap();
        (0..10).for_each(|session| rings[0].put(event(session)));
        drop(rings);
        events.stop();
    }
    let (events, _) = Events::start(with_spool(&path("late")), 0).unwrap();
    while events.sinks().iter().any(|sink| sink.written < if sink.name == "file" { 1 } else { 34 }) {
        std::thread::sleep(Duration::from_millis(1));
    }
    events.stop();
    for name in ["first", "late"] {
        let numbers = numbers(&path(name));
        assert!(numbers.iter().map(|(number, _)| *number).eq(1..=34), "{name}: {numbers:?}");
        assert!(numbers.iter().all(|(_, kind)| kind != "gap"), "{name}: {numbers:?}");
    }
}

/// Sinks come and go with a reload, and the others lose nothing.
#[test]
fn a_reload_adds_changes_and_removes_sinks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (events, rings) = Events::start(file(&path("a"), Literals::None), 1).unwrap();
    let with = |sinks: &[(&str, &str, Takes)]| {
        let sinks = sinks.iter().map(|(name, file_name, takes)| SinkSettings {
            name: (*name).into(),
            takes: *takes,
            ..file(&path(file_name), Literals::None).sinks.remove(0)
        });
        Settings { node: "n1".into(), sinks: sinks.collect(), ..Settings::default() }
    };
    let reload = |settings: Settings, names: &[&str]| {
        events.reload(settings);
        while events.sinks().iter().map(|sink| sink.name.clone()).ne(names.iter().copied()) {
            std::thread::yield_now();
        }
    };
    rings[0].put(event(1));
    reload(with(&[("file", "a", Takes::All), ("files.b", "b", Takes::All)]), &["file", "files.b"]);
    rings[0].put(event(2));
    let is_in = |name: &str, session: u32| {
        let text = std::fs::read_to_string(path(name)).unwrap_or_default();
        text.contains(&format!("\"session\":{session},"))
    };
    while !is_in("b", 2) || !is_in("a", 2) {
        std::thread::yield_now();
    }
    // The first one goes on in another file, without queries; the second one is gone.
    reload(with(&[("file", "c", Takes::Off), ("files.d", "d", Takes::All)]), &["file", "files.d"]);
    while !path("c").exists() {
        std::thread::yield_now();
    }
    rings[0].put(event(3));
    drop(rings);
    events.stop();
    let sessions = |name: &str| (1..=3).filter(|session| is_in(name, *session)).collect::<Vec<_>>();
    assert_eq!(["a", "b", "c", "d"].map(sessions), [vec![1, 2], vec![2], vec![], vec![3]]);
    let all: Vec<u64> = numbers(&path("a")).into_iter().map(|(number, _)| number).collect();
    assert_eq!(all, [1, 2, 3]);
}

#[test]
fn literals_stand_only_where_they_are_wanted() {
    for literals in [Literals::None, Literals::Hashed, Literals::All] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut settings = file(&path, literals);
        settings.hmac_key = Some(HmacKey::new(b"sixteen bytes...."));
        let (events, rings) = Events::start(settings, 1).unwrap();
        rings[0].put(event(1));
        drop(rings);
        events.stop();
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written.contains("secret"), literals == Literals::All, "{written}");
        assert_eq!(written.contains("SELECT 'hmac:"), literals == Literals::Hashed, "{written}");
        let shown = events.recent().tail(None, 10, &Condition::default()).lines;
        assert_eq!(shown.len(), 2);
        assert!(!shown.concat().contains("secret"));
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_reported() {
    let Err(error) = Events::start(file(Path::new("/nowhere/events"), Literals::None), 1) else { panic!("it started") };
    assert_eq!(error.to_string(), "events.file: cannot open /nowhere/events: No such file or directory (os error 2)");
}

#[test]
fn texts_that_wait_are_bounded() {
    let (inbound, out) = ring(1_000, Arc::default());
    let long = |session| {
        let mut long = event(session);
        if let Body::Query(query) = &mut long.body {
            query.text = Some(text(&"x".repeat(1 << 20)));
        }
        long
    };
    (0..20).for_each(|session| inbound.put(long(session)));
    assert_eq!(out.take_lost(), 4);
    assert!(out.next().is_some());
    inbound.put(long(1));
    assert_eq!(out.take_lost(), 0);
}
