use std::path::{Path, PathBuf};

use super::*;
use crate::block::{Class, Lines};

fn file(name: &str, path: &Path) -> SinkSettings {
    let rotation = Rotation { size_max: 0, age_max: Duration::ZERO, keep: 3, compress: false };
    let target = Target::File(FileSettings { path: path.to_owned(), rotation });
    SinkSettings { name: name.into(), takes: Takes::All, literals: Literals::None, masks: Masks::default(), target }
}

/// A block of one event.
fn block(number: u64, bytes: usize) -> Arc<Block> {
    let mut block = Block::begin(number, SystemTime::now());
    let line = format!("{{\"v\":1,\"seq\":{number},\"x\":\"{}\"}}\n", "x".repeat(bytes));
    block.put(number, Class::QUERY, Lines { form: line.as_bytes(), ..Lines::default() });
    Arc::new(block)
}

fn figures(sinks: &Sinks, name: &str) -> SinkFigures {
    sinks.figures().into_iter().find(|sink| sink.name == name).unwrap()
}

fn wait_for(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// First and last number of each line.
fn numbers(path: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| (line["seq"].as_u64().unwrap(), line["to"].as_u64().or(line["seq"].as_u64()).unwrap())).collect()
}

#[test]
fn a_sink_that_cannot_write_holds_no_other_and_lacks_exactly_what_did_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (good, later) = (folder.path().join("good"), folder.path().join("later"));
    let settings = [file("good", &good), file("full", Path::new("/dev/full"))];
    let sinks = Sinks::start(&settings, "n1", 1, None).unwrap();
    // One is in hand, and eight of a MiB fit behind it: nine MiB and more do not.
    sinks.push(&block(1, 10));
    wait_for(|| figures(&sinks, "full").failures > 0);
    for number in 2..=20 {
        sinks.push(&block(number, 1 << 20));
        wait_for(|| figures(&sinks, "good").written == number);
    }
    assert_eq!(figures(&sinks, "full").written, 0);
    assert!(figures(&sinks, "full").behind > Duration::ZERO);
    sinks.reload(&[file("good", &good), file("full", &later)], "n1", 21);
    wait_for(|| figures(&sinks, "full").dropped > 0);
    sinks.push(&block(21, 10));
    sinks.stop();
    assert!(numbers(&good).into_iter().eq((1..=21).map(|number| (number, number))));
    let expected: Vec<_> = (1..=8).map(|number| (number, number)).chain([(9, 20), (21, 21)]).collect();
    assert_eq!(numbers(&later), expected);
}

#[test]
fn a_sink_that_hangs_does_not_keep_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let sinks = Sinks::default();
    sinks.begin(file("hangs", &path), "n1", None, 1).unwrap();
    // Nobody reads, and a pipe has no room for that: the write waits for ever.
    sinks.push(&block(1, 1 << 20));
    wait_for(|| figures(&sinks, "hangs").behind > Duration::ZERO);
    let begun = Instant::now();
    sinks.stop();
    assert!(begun.elapsed() < STOP_MAX * 2);
}

#[test]
fn a_sink_without_a_file_is_reported_by_its_name() {
    let wrong = file("files.x", &PathBuf::from("/nowhere/events"));
    assert_eq!(Sinks::start(&[wrong], "n1", 1, None).unwrap_err().0, "files.x");
}

#[test]
fn files_are_rotated_on_demand_and_follow_those_that_were_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("events"), folder.path().join("moved"));
    let sinks = Sinks::start(&[file("file", &path)], "n1", 1, None).unwrap();
    let others = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|name| name.to_string_lossy().contains("events.")).collect::<Vec<_>>()
    };
    for number in 1..=2 {
        sinks.push(&block(number, 10));
        wait_for(|| figures(&sinks, "file").written == number);
        sinks.rotate();
        wait_for(|| others().len() as u64 == number);
        wait_for(|| std::fs::metadata(&path).is_ok_and(|found| found.len() == 0));
    }
    // One that another program has moved keeps that name.
    sinks.push(&block(3, 10));
    wait_for(|| figures(&sinks, "file").written == 3);
    std::fs::rename(&path, &moved).unwrap();
    // The thread sees that by itself within a second; a signal behind that does not rotate the new one.
    wait_for(|| path.exists());
    sinks.push(&block(4, 10));
    wait_for(|| figures(&sinks, "file").written == 4);
    sinks.rotate();
    sinks.stop();
    assert_eq!((numbers(&moved), numbers(&path), others().len()), (vec![(3, 3)], vec![(4, 4)], 2));
    let mut rotated: Vec<_> = others().iter().flat_map(|path| numbers(path)).collect();
    rotated.sort();
    assert_eq!(rotated, [(1, 1), (2, 2)]);
}
