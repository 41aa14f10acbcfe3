//! The files in `cases`: good ones with what they mean, bad ones with every message they cause.
//!
//! In a good file `#= path = value` names an effective setting. `#! line:column: key: message` is an expected warning, in
//! a bad file an expected error; all are there, in order. They stand at the end, so that lines keep their numbers, and
//! the environment variable `UPDATE` rewrites them: read the difference before you keep it.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::fs;
use std::path::{Path, PathBuf};

use sqluice_config::{Loaded, MemorySource, parse};

fn files(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(kind);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The files that a case can name.
fn source() -> MemorySource {
    let mut source = MemorySource::default();
    let mut file = |path: &str, text: &str, mode| {
        source.files.insert(path.into(), (text.as_bytes().to_vec(), mode));
    };
    let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    file("/etc/sqluice/monitor.pw", "hush\n", 0o100_640);
    file("/secrets/open.pw", "hush", 0o100_644);
    file("/secrets/empty.pw", "\n", 0o100_600);
    file("/secrets/zero.pw", "hu\0sh\n", 0o100_600);
    file("/pem/ca.pem", certificate, 0o100_644);
    file("/pem/cert.pem", certificate, 0o100_644);
    file("/pem/key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o100_600);
    source.variables.insert("APP_PASSWORD".into(), "hush".into());
    source
}

fn read(path: &Path) -> (String, Result<Loaded, Vec<String>>) {
    let text = fs::read_to_string(path).unwrap();
    let result = parse("/etc/sqluice/c.toml", &text, &source());
    (text, result.map_err(|errors| errors.0.iter().map(ToString::to_string).collect()))
}

fn marked<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).map(str::trim).collect()
}

fn assert_messages(path: &Path, text: &str, messages: &[String]) {
    let messages: Vec<_> = messages.iter().map(|m| m.strip_prefix("/etc/sqluice/c.toml:").unwrap()).collect();
    assert!(!messages.iter().any(|message| message.contains("hush")), "a secret shows: {messages:?}");
    if std::env::var_os("UPDATE").is_some() {
        let kept = text.lines().filter(|line| !line.starts_with("#!")).map(|line| format!("{line}\n"));
        let new = messages.iter().map(|message| format!("#! {message}\n"));
        return fs::write(path, kept.chain(new).collect::<String>()).unwrap();
    }
    let expected = marked(text, "#!");
    assert!(expected == messages, "{}\nexpected:\n{expected:#?}\nfound:\n{messages:#?}", path.display());
}

#[test]
fn good_files_mean_what_they_say() {
    for path in files("good") {
        let (text, result) = read(&path);
        let loaded = result.unwrap_or_else(|errors| panic!("{}: {errors:#?}", path.display()));
        let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_messages(&path, &text, &warnings);
        let given: Vec<_> =
            loaded.config.given.iter().map(|given| format!("{} = {}", given.path, given.value)).collect();
        for expected in marked(&text, "#=") {
            assert!(given.iter().any(|given| given.trim() == expected), "{}: {expected}", path.display());
        }
        assert!(!format!("{:?}", loaded.config).contains("hush"), "{}: a secret shows", path.display());
    }
}

#[test]
fn bad_files_cause_all_their_errors_at_once() {
    for path in files("bad") {
        let (text, result) = read(&path);
        match result {
            Ok(_) => panic!("{} is taken for good", path.display()),
            Err(errors) => assert_messages(&path, &text, &errors),
        }
    }
}
