//! The documentation and the sample say what the settings say, and each setting does something.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::fs;
use std::path::Path;

use sqluice_config::document::{default_text, markdown, sample};
use sqluice_config::settings::{Form, Kind, ROOT, Section, Setting};
use sqluice_config::{Config, MemorySource, parse};

/// Every setting with the path of its table, where `NAME` stands for names.
fn settings() -> Vec<(Vec<String>, &'static Setting)> {
    fn walk(section: &'static Section, above: &[String], out: &mut Vec<(Vec<String>, &'static Setting)>) {
        out.extend(section.settings.iter().map(|setting| (above.to_vec(), *setting)));
        for below in section.sections {
            let mut path = above.to_vec();
            path.push(below.key.to_owned());
            path.extend((below.form != Form::Single).then(|| "NAME".to_owned()));
            walk(below, &path, out);
        }
    }
    let mut out = Vec::new();
    walk(&ROOT, &[], &mut out);
    out
}

fn source() -> MemorySource {
    let mut source = MemorySource::default();
    source.variables.insert("ANOTHER".into(), "hush".into());
    source.variables.insert("LONG".into(), "hush hush hush hush".into());
    let pem = b"-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
    source.files.insert("/pem".into(), (pem.to_vec(), 0o600));
    source.files.insert("/header".into(), (b"Bearer hush\n".to_vec(), 0o600));
    source.files.insert("/warm.sql".into(), (b"SELECT a FROM t;\n".to_vec(), 0o644));
    source
}

type Values = Vec<(Vec<String>, String)>;

fn value(path: &[&str], literal: &str) -> (Vec<String>, String) {
    (path.iter().map(|&key| key.to_owned()).collect(), literal.to_owned())
}

/// The settings that a file must have, with a second cluster for settings that name one.
fn base() -> Values {
    let mut values = Vec::new();
    for cluster in ["NAME", "other"] {
        values.push(value(&["cluster", cluster, "kind"], "\"replication\""));
        values.push(value(&["cluster", cluster, "monitor", "user"], "\"m\""));
        values.push(value(&["cluster", cluster, "monitor", "password"], "\"hush\""));
        values.push(value(&["cluster", cluster, "replication", "user"], "\"r\""));
        values.push(value(&["cluster", cluster, "replication", "password"], "\"hush\""));
        values.push(value(&["cluster", cluster, "etcd", "user"], "\"e\""));
        values.push(value(&["cluster", cluster, "etcd", "password"], "\"hush\""));
        let address = format!("\"10.0.0.{}:3306\"", cluster.len());
        values.push(value(&["cluster", cluster, "servers", "NAME", "address"], &address));
    }
    for (listener, port) in [("NAME", 3306), ("other", 3307)] {
        values.push(value(&["listener", listener, "address"], &format!("\"0.0.0.0:{port}\"")));
        values.push(value(&["listener", listener, "cluster"], "\"NAME\""));
    }
    values.push(value(&["rule", "NAME", "name"], "\"NAME\""));
    values.push(value(&["rule", "NAME", "user"], "\"bob\""));
    values.push(value(&["rule", "NAME", "route"], "\"primary\""));
    values.push(value(&["rule", "NAME", "cache"], "\"advise\""));
    values.push(value(&["rule", "NAME", "log"], "\"on\""));
    values.push(value(&["cache", "tier", "address"], "\"10.0.0.9:6379\""));
    values.push(value(&["cache", "tier", "user"], "\"t\""));
    values.push(value(&["cache", "tier", "password"], "\"quiet\""));
    values.push(value(&["user", "NAME", "max_sessions"], "5"));
    values.push(value(&["warm", "NAME", "cluster"], "\"NAME\""));
    values.push(value(&["warm", "NAME", "user"], "\"app\""));
    values.push(value(&["warm", "NAME", "file"], "\"/warm.sql\""));
    values.push(value(&["admin", "address"], "\"127.0.0.1:9104\""));
    values.push(value(&["events", "when_full"], "\"wait\""));
    values.push(value(&["events", "file", "path"], "\"/events\""));
    for (key, literal) in [
        ("brokers", "[\"10.0.0.8:9092\"]"),
        ("topic", "\"events\""),
        ("tls", "true"),
        ("sasl", "\"scram-sha-256\""),
        ("user", "\"k\""),
        ("password", "\"quiet\""),
        ("ca_file", "\"/ca\""),
    ] {
        values.push(value(&["events", "kafka", "NAME", key], literal));
    }
    for (key, literal) in [
        ("endpoint", "\"https://10.0.0.9:4318\""),
        ("traces", "true"),
        ("header", "\"authorization\""),
        ("header_value", "\"quiet\""),
    ] {
        values.push(value(&["events", "otlp", "NAME", key], literal));
    }
    values.push(value(&["events", "spool", "path"], "\"/spool\""));
    values.push(value(&["events", "files", "NAME", "path"], "\"/more-events\""));
    values.push(value(&["events", "stdout", "enabled"], "true"));
    values.push(value(&["events", "syslog", "NAME", "address"], "\"10.0.0.9:601\""));
    values.push(value(&["history", "path"], "\"/history.sqlite\""));
    values
}

fn read(values: &Values) -> Config {
    let text = sample(values);
    match parse("x.toml", &text, &source()) {
        Ok(loaded) => Config { given: Vec::new(), ..loaded.config },
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, markdown()).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    assert!(page == markdown(), "run `UPDATE=1 cargo test -p sqluice-config` to write {} again", path.display());
}

#[test]
fn the_page_names_every_setting_with_its_default() {
    let page = markdown();
    for (path, setting) in settings() {
        let header = if path[0] == "rule" { "[[rule]]".to_owned() } else { format!("[{}]", path.join(".")) };
        let section = &page[page.find(&format!("## `{header}`")).unwrap()..];
        let entry = &section[section.find(&format!("\n- **`{}`** ·", setting.key)).unwrap() + 1..];
        let entry = &entry[..entry.find("\n- **").unwrap_or(entry.len())];
        let first = entry[..entry.find("<br>").unwrap()].split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(default) = default_text(setting) {
            assert!(first.contains(&format!(" · default `{default}` ·")), "{entry}");
        }
        assert!(setting.doc.ends_with('.') && !setting.doc.contains('|'), "{entry}");
    }
    assert!(page.lines().all(|line| line.chars().count() < 120), "a line is too wide");
}

#[test]
fn stating_the_defaults_changes_nothing() {
    // The sample's comments with defaults, taken as they stand.
    let text = sample(&base());
    let stated: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase()) && !line.contains("  # an example") => key,
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let all = parse("x.toml", &stated, &source()).unwrap_or_else(|errors| panic!("{errors}\n{stated}")).config;
    assert!(all.given.iter().filter(|given| given.set).count() > 40);
    assert_eq!(Config { given: Vec::new(), ..all }, read(&base()));
}

/// A value for a setting that is not its default.
fn another(setting: &Setting) -> String {
    match setting.kind {
        Kind::Whole { default, min, max, .. } => (if default == max { min } else { default + 1 }).to_string(),
        Kind::Size { min, .. } => min.to_string(),
        Kind::Flag { .. } if setting.key == "enabled" && setting.doc.contains("standard output") => "false".into(),
        Kind::Flag { .. } if ["tls", "traces"].contains(&setting.key) => "false".into(),
        Kind::Flag { default } => (!default).to_string(),
        Kind::Choice { .. } if setting.key == "log" => "\"off\"".into(),
        Kind::Choice { .. } if setting.key == "when_full" => "\"drop\"".into(),
        Kind::Choice { .. } if setting.key == "text" => "\"text\"".into(),
        Kind::Choice { default, words, .. } => {
            let now = words.iter().filter(|word| Some(word.word) != default);
            format!("\"{}\"", now.map(|word| word.word).next().unwrap_or("off"))
        }
        Kind::Text { .. } if setting.key == "level" => "\"debug\"".into(),
        Kind::Text { .. } if setting.key == "socket_mode" => "\"0700\"".into(),
        Kind::Text { .. } if setting.key == "client" => "\"10.0.0.0/8\"".into(),
        Kind::Text { .. } if setting.key == "digest" => "\"00112233445566aa\"".into(),
        Kind::Text { .. } if setting.key == "route" => "\"server:NAME\"".into(),
        Kind::Text { .. } if setting.key == "endpoint" => "\"https://other\"".into(),
        Kind::Text { .. } => "\"other\"".into(),
        Kind::Address { .. } => "\"10.0.0.99:3309\"".into(),
        Kind::Addresses => "[\"10.0.0.99:2379\"]".into(),
        Kind::Networks => "[\"10.0.0.0/8\"]".into(),
        Kind::Command => "[\"/bin/true\", \"x\"]".into(),
        // Texts that any list of them takes.
        Kind::Texts { .. } => "[\"user\"]".into(),
        Kind::Secret if setting.key == "native_hash" => "\"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"".into(),
        Kind::Secret => "\"another one of 16\"".into(),
        Kind::Variable if setting.key == "hmac_key_env" => "\"LONG\"".into(),
        Kind::Variable => "\"ANOTHER\"".into(),
        Kind::Path if setting.key == "header_value_file" => "\"/header\"".into(),
        Kind::Path => "\"/pem\"".into(),
    }
}

#[test]
fn every_setting_does_something() {
    let before = read(&base());
    for (path, setting) in settings() {
        let mut values = base();
        let mut set = |key: &str, literal: &str| {
            let mut path = path.clone();
            path.push(key.to_owned());
            values.retain(|(other, _)| *other != path);
            values.push((path, literal.to_owned()));
        };
        set(setting.key, &another(setting));
        match setting.key {
            "cert_file" => set("key_file", "\"/pem\""),
            "key_file" => set("cert_file", "\"/pem\""),
            "client_cert" => set("client_ca_file", "\"/pem\""),
            // A refused statement goes nowhere.
            "refuse" => {
                values.retain(|(other, _)| !["route", "cache"].iter().any(|key| *other == ["rule", "NAME", key]))
            }
            "tls" if path[1] == "kafka" => values.retain(|(other, _)| !other.ends_with(&["ca_file".to_owned()])),
            "sasl" => set("sasl", "\"plain\""),
            "proxy_protocol" if path[0] == "listener" => set("proxy_protocol_from", "[\"10.0.0.0/8\"]"),
            _ => {}
        }
        // Sources of a secret exclude each other.
        let inline = setting.key.strip_suffix("_file").or(setting.key.strip_suffix("_env"));
        let inline: Vec<String> = path.iter().cloned().chain(inline.map(str::to_owned)).collect();
        values.retain(|(other, _)| *other != inline);
        let only_word = matches!(setting.kind, Kind::Choice { words, .. }
            if words.len() == 1);
        // The password from another source is the same password; its reading is tested by the cases.
        let same_password = path[0] == "cluster" && matches!(setting.kind, Kind::Variable);
        let differs = read(&values) != before;
        assert_eq!(differs, !only_word && !same_password, "{}.{}", path.join("."), setting.key);
    }
}

#[test]
fn bounds_hold_at_both_ends() {
    for (path, setting) in settings() {
        let (Kind::Whole { default, min, max, .. } | Kind::Size { default, min, max }) = setting.kind else { continue };
        assert!((min..=max).contains(&default), "{}.{}", path.join("."), setting.key);
        for (number, good) in
            [(min, setting.key != "max_connections_per_server"), (max, setting.key != "min_idle"), (max + 1, false)]
        {
            let mut values = base();
            let mut key = path.clone();
            key.push(setting.key.to_owned());
            values.retain(|(other, _)| *other != key);
            values.push((key.clone(), number.to_string()));
            let result = parse("x.toml", &sample(&values), &source());
            // These two are bounded by each other as well.
            if good || number > max {
                assert_eq!(result.is_ok(), good, "{} = {number}", key.join("."));
            }
        }
    }
}
