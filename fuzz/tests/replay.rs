//! Runs every target over the inputs that are kept: `corpus/` has what reached new code, `found/` what once was a bug.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use sqluice_fuzz::TARGETS;

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(name: &str) {
    let target = sqluice_fuzz::target(name).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = files(&root.join("corpus").join(name));
    assert!(!kept.is_empty(), "no corpus of {name}");
    for file in kept.into_iter().chain(files(&root.join("found").join(name))) {
        let bytes = std::fs::read(&file).unwrap();
        if catch_unwind(|| (target.run)(&bytes)).is_err() {
            let file = file.strip_prefix(root.parent().unwrap()).unwrap().display();
            panic!("target {name} fails with {file}; alone: ./dev fuzz {name} {file}");
        }
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),*]);
        }
    };
}

replays! { packet compress login_client login_server exchange sql config proxy_header execute track binlog changes }

/// Bytes that no fuzzer chose: all inputs of up to two bytes, and the kept inputs of all targets for each of them.
#[test]
fn short_inputs_and_those_of_others_are_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let all: Vec<Vec<u8>> = files(&root)
        .iter()
        .flat_map(|folder| files(folder))
        .map(|file| std::fs::read(file).unwrap())
        .filter(|bytes| bytes.len() < 600)
        .collect();
    for target in TARGETS {
        (target.run)(&[]);
        for first in 0..=255 {
            (target.run)(&[first]);
            (target.run)(&[first, 0xff]);
        }
        for bytes in all.iter().step_by(7) {
            (target.run)(bytes);
        }
    }
}
