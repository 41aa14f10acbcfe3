//! The program itself, with real servers: that it measures, and that nothing of it stays.

#![allow(clippy::unwrap_used)] // The helpers of a test fail like the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// The Sqluice that was built for the tests; one is built when this crate is tested alone.
fn sqluice() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("sqluice");
    if !program.exists() {
        let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "sqluice"]).status().unwrap();
        assert!(
            built.success() && program.exists(),
            "`cargo build --package sqluice` did not make {}",
            program.display()
        );
    }
    program
}

fn bench(load: &str, temporary: &Path, seconds: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args([load, "--rounds", "1", "--connections", "2", "--contenders", "direct,sqluice", "--workers", "1"]);
    command.arg(format!("--seconds={seconds}")).arg("--sqluice").arg(sqluice());
    // Short, for the sake of socket paths; what is left behind is seen there.
    command.env("TMPDIR", temporary).arg("--output").arg(temporary.join("output"));
    command
}

/// Folders of servers and proxies; the lab's template of a datadir stays by design.
fn left_behind(temporary: &Path) -> Vec<String> {
    let names = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("sqluice-") && !name.starts_with("sqluice-lab")).collect()
}

/// Waits until something is there.
fn until(what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !there() {
        assert!(Instant::now() < deadline, "{what}: not in {SOON:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_of_point_selects_gives_figures_and_leaves_nothing() {
    let temporary = TempDir::with_prefix("b").unwrap();
    let output = bench("point", temporary.path(), 1).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("÷ direct") && out.contains("CPU µs/query"), "{out}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(temporary.path().join("output/point.json")).unwrap()).unwrap();
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "{record:#}");
    for cell in cells {
        let sample = &cell["samples"][0];
        assert!(sample["queries"].as_u64().unwrap() > 0, "{cell:#}");
        assert_eq!(sample["cpu_ns"].as_u64().is_some_and(|ns| ns > 0), cell["contender"] == "sqluice", "{cell:#}");
    }
    assert!(fs::read_to_string(temporary.path().join("output/point.svg")).unwrap().ends_with("</svg>\n"));
    assert_eq!(left_behind(temporary.path()), [""; 0]);
}

#[test]
fn rules_are_compared_with_none() {
    let temporary = TempDir::with_prefix("b").unwrap();
    let output = bench("rules", temporary.path(), 1).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("÷ sqluice") && out.contains("sqluice 1000 rules"), "{out}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(temporary.path().join("output/rules.json")).unwrap()).unwrap();
    let queries = |cell: &Value| cell["samples"][0]["queries"].as_u64().is_some_and(|queries| queries > 0);
    let cells = record["cells"].as_array().unwrap();
    assert!(cells.len() == 4 && cells.iter().all(queries), "{record:#}");
    assert!(temporary.path().join("output/rules.svg").exists());
}

#[test]
fn a_signal_ends_it_and_all_that_it_has_started() {
    let temporary = TempDir::with_prefix("b").unwrap();
    let mut child: Child =
        bench("point", temporary.path(), 600).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ready = || {
        left_behind(temporary.path()).iter().any(|name| temporary.path().join(name).join("ready").exists())
            || child.try_wait().unwrap().is_some()
    };
    until("Sqluice is ready", ready);
    let signalled = Command::new("/bin/sh").args(["-c", "kill -s INT \"$1\"", "sh", &child.id().to_string()]).status();
    assert!(signalled.unwrap().success());
    let mut status = None;
    until("its end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    assert_eq!(left_behind(temporary.path()), [""; 0]);
}

#[test]
fn what_is_missing_is_said() {
    let fails = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let own = sqluice();
    let own = own.to_str().unwrap();
    assert!(fails(&["points"]).contains("point, read_only"));
    assert!(fails(&["--contenders", "nginx"]).contains("no contender 'nginx'"));
    assert!(fails(&["--contenders", "proxysql"]).contains("PROXYSQL_BIN"));
    assert!(fails(&["--sqluice", "/no/sqluice"]).contains("/no/sqluice"));
    assert!(fails(&["--sqluice", own, "--sqluice", own]).contains("give names"));
}
