use std::path::Path;

use stats::digests::DigestName;

use super::*;
use crate::condition::Condition;
use crate::event::{AnsweredBy, Client, Query};

fn event(session: u32) -> Event {
    let digest = DigestName { hash: 7, text: "SELECT ?".into(), user: "app".into(), schema: "shop".into() };
    Event {
        at: SystemTime::now(),
        session,
        client: Arc::new(Client { user: "app".into(), ..Client::default() }),
        body: Body::Query(Query {
            digest: Arc::new(digest),
            text: Some("SELECT 'secret'".into()),
            text_cut: false,
            command: "COM_QUERY",
            answered_by: AnsweredBy::Server { name: "db1".into(), primary: true },
            route_reason: None,
            rule: None,
            error: None,
            rows_sent: 1,
            rows_affected: 0,
            warnings: 0,
            wait_us: 1,
            first_us: 2,
            total_us: 3,
        }),
    }
}

fn file(path: &Path, texts: bool) -> Settings {
    let rotation = Rotation { size_max: 0, age_max: Duration::ZERO, keep: 3, compress: false };
    Settings { node: "n1".into(), file: Some(FileSettings { path: path.to_owned(), rotation, texts }) }
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
        let (events, rings) = Events::start(file(&path, false), 2).unwrap();
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
    let (inbound, out) = ring(3);
    (0..5).for_each(|session| inbound.put(event(session)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let (events, _) = Events::start(Settings::default(), 0).unwrap();
    let settings = file(&path, false);
    let sink = FileSink::open(settings.file.as_ref().unwrap()).unwrap();
    let mut writer = Writer {
        events: events.clone(),
        rings: vec![out],
        node: "n1".into(),
        next: 1,
        file: Some(sink),
        batch: Batch::default(),
        times: Timestamps::default(),
    };
    assert_eq!(writer.round(), 3);
    writer.hand_over();
    inbound.put(event(9));
    assert_eq!(writer.round(), 1);
    writer.hand_over();
    let kinds: Vec<_> = numbers(&path).into_iter().map(|(number, kind)| format!("{number} {kind}")).collect();
    assert_eq!(kinds, ["1 query", "2 query", "3 query", "4 gap", "5 gap", "6 query"]);
    assert_eq!(events.lost(), 2);
    events.stop();
}

#[test]
fn literals_stand_only_where_they_are_wanted() {
    for texts in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let (events, rings) = Events::start(file(&path, texts), 1).unwrap();
        rings[0].put(event(1));
        drop(rings);
        events.stop();
        assert_eq!(std::fs::read_to_string(&path).unwrap().contains("secret"), texts);
        let shown = events.recent().tail(None, 10, &Condition::default()).lines;
        assert_eq!(shown.len(), 2);
        assert!(!shown.concat().contains("secret"));
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_told() {
    let Err(error) = Events::start(file(Path::new("/nowhere/events"), false), 1) else { panic!("it started") };
    assert_eq!(
        error.to_string(),
        "events.file.path: cannot open /nowhere/events: No such file or directory (os error 2)"
    );
}

#[test]
fn lines_wait_for_a_full_disk_and_those_beyond_the_bound_become_a_gap() {
    let settings = file(Path::new("/dev/full"), false);
    let (counts, mut lines) = (Counts::default(), Vec::new());
    event(1).line(1, "n1", Shows::Form, &mut Timestamps::default(), &mut lines);
    let Ok(mut sink) = FileSink::open(settings.file.as_ref().unwrap()) else { panic!("no /dev/full") };
    sink.take(&lines, 1, 1);
    sink.flush("n1", &counts);
    assert_eq!(counts.file_failures.load(Ordering::Relaxed), 1);
    let many = lines.repeat(BACKLOG_EVENTS);
    sink.take(&many, 2, BACKLOG_EVENTS as u64);
    sink.take(&lines, 2 + BACKLOG_EVENTS as u64, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    sink.move_to(&path);
    sink.flush("n1", &counts);
    let numbers = numbers(&path);
    assert!(numbers.iter().map(|(number, _)| *number).eq(1..=2 + BACKLOG_EVENTS as u64));
    assert_eq!(counts.file_lost.load(Ordering::Relaxed), 1 + BACKLOG_EVENTS as u64);
}

/// More than the backlog takes.
const BACKLOG_EVENTS: usize = 40_000;

#[test]
fn lines_that_wait_become_a_gap_in_the_next_file() {
    let (counts, mut lines) = (Counts::default(), Vec::new());
    event(1).line(7, "n1", Shows::Form, &mut Timestamps::default(), &mut lines);
    let Ok(mut full) = FileSink::open(file(Path::new("/dev/full"), true).file.as_ref().unwrap()) else { panic!() };
    assert_eq!(full.unwritten(7), None);
    full.take(&lines, 7, 1);
    full.flush("n1", &counts);
    full.take(&lines, 8, 1);
    assert_eq!(full.unwritten(9), Some((7, 2)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let Ok(mut next) = FileSink::open(file(&path, false).file.as_ref().unwrap()) else { panic!() };
    next.begin_with_gap(7, 2, "n1", &counts);
    next.flush("n1", &counts);
    assert_eq!(numbers(&path), [(7, "gap".to_owned()), (8, "gap".to_owned())]);
}

#[test]
fn texts_that_wait_are_bounded() {
    let (inbound, out) = ring(1_000);
    let long = |session| {
        let mut long = event(session);
        if let Body::Query(query) = &mut long.body {
            query.text = Some("x".repeat(1 << 20).into());
        }
        long
    };
    (0..20).for_each(|session| inbound.put(long(session)));
    assert_eq!(out.take_lost(), 4);
    assert!(out.next().is_some());
    inbound.put(long(1));
    assert_eq!(out.take_lost(), 0);
}
