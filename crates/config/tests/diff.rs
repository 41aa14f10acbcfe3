//! The changes of a reload.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::sync::Arc;

use sqluice_config::diff::{Restart, without_restart};
use sqluice_config::{Changes, Config, MemorySource, diff, parse};

const OLD: &str = r#"
[proxy]
workers = 2
[admin]
address = "127.0.0.1:9104"
[cluster.main]
kind = "replication"
monitor = { user = "m", password = "one" }
servers.db1 = { address = "10.0.0.1:3306" }
servers.db2 = { address = "10.0.0.2:3306" }
tls = { mode = "verify_ca", ca_file = "/ca.pem" }
pool = { wait_ms = 500 }
[listener.app]
address = "0.0.0.0:3306"
cluster = "main"
tls = { cert_file = "/cert.pem", key_file = "/key.pem" }
[user.app]
password = "one"
"#;

fn read_with(text: &str, certificate: &str) -> Config {
    let mut source = MemorySource::default();
    for path in ["/ca.pem", "/cert.pem", "/key.pem"] {
        let text = format!("-----BEGIN CERTIFICATE----- {certificate} -----BEGIN PRIVATE KEY-----");
        source.files.insert(path.into(), (text.into_bytes(), 0o600));
    }
    parse("x.toml", text, &source).unwrap_or_else(|errors| panic!("{errors}")).config
}

fn read(text: &str) -> Config {
    read_with(text, "one")
}

fn changes(from: &str, to: &str) -> Changes {
    assert!(OLD.contains(from), "{from}");
    diff(&read(OLD), &read(&OLD.replace(from, to)))
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn nothing_changes_nothing() {
    let changes = changes("", "");
    assert!(changes.is_empty());
    assert_eq!(changes.to_string(), "nothing changed");
}

#[test]
fn servers_come_go_and_change() {
    let changes = changes(
        "servers.db1 = { address = \"10.0.0.1:3306\" }\nservers.db2 = { address = \"10.0.0.2:3306\" }",
        "servers.db2 = { address = \"10.0.0.2:3306\", weight = 7 }\nservers.db3 = { address = \"10.0.0.3:3306\" }",
    );
    assert_eq!(changes.clusters.changed, names(&["main"]));
    let parts = &changes.cluster_parts["main"];
    assert_eq!(parts.servers.added, names(&["db3"]));
    assert_eq!(parts.servers.removed, names(&["db1"]));
    assert_eq!(parts.servers.changed, names(&["db2"]));
    assert!(!parts.monitor && !parts.pool && !parts.tls && !parts.rules);
    assert_eq!(
        changes.to_string(),
        "cluster.main.servers.db3 added, cluster.main.servers.db1 removed, cluster.main.servers.db2 changed"
    );
}

#[test]
fn each_part_of_a_cluster_is_told_apart() {
    let part = |from, to| changes(from, to).to_string();
    assert_eq!(
        part("user = \"m\", password = \"one\"", "user = \"m\", password = \"two\""),
        "cluster.main.monitor changed"
    );
    assert_eq!(part("wait_ms = 500", "wait_ms = 501"), "cluster.main.pool changed");
    assert_eq!(part("verify_ca", "verify_identity"), "cluster.main.tls changed");
}

#[test]
fn users_change_without_showing_their_password() {
    let changed = changes("[user.app]\npassword = \"one\"", "[user.app]\npassword = \"two\"\n[user.b]");
    assert_eq!((changed.users.changed.clone(), changed.users.added.clone()), (names(&["app"]), names(&["b"])));
    assert_eq!(changed.to_string(), "user.b added, user.app changed");
}

#[test]
fn a_renewed_certificate_in_the_same_file_is_a_change() {
    let changes = diff(&read(OLD), &read_with(OLD, "renewed"));
    assert_eq!(changes.listener_tls, names(&["app"]));
    assert!(changes.cluster_parts["main"].tls);
    assert!(changes.restart.is_empty());
}

#[test]
fn what_needs_a_restart_is_named_and_can_be_held_back() {
    let new = OLD
        .replace("workers = 2", "workers = 3\ndrain_ms = 5")
        .replace("[admin]\naddress = \"127.0.0.1:9104\"\n", "")
        .replace("0.0.0.0:3306", "0.0.0.0:3307")
        .replace("wait_ms = 500", "wait_ms = 600");
    let (old, new) = (read(OLD), read(&new));
    let changes = diff(&old, &new);
    let restart = |key: &str, old: &str, new: &str| Restart { key: key.into(), old: old.into(), new: new.into() };
    assert_eq!(
        changes.restart,
        [
            restart("proxy.workers", "2", "3"),
            restart("admin.address", "\"127.0.0.1:9104\"", ""),
            restart("listener.app.address", "\"0.0.0.0:3306\"", "\"0.0.0.0:3307\""),
        ]
    );
    assert!(changes.proxy);

    let effective = without_restart(&old, new);
    let changes = diff(&old, &effective);
    assert_eq!(changes.restart, []);
    assert_eq!(changes.to_string(), "cluster.main.pool changed, proxy changed");
    assert_eq!(effective.listeners["app"].address, old.listeners["app"].address);
    assert_eq!(effective.clusters["main"].pool.wait.as_millis(), 600);
}

#[test]
fn whole_clusters_and_listeners_come_and_go() {
    let more = format!(
        "{OLD}\n[cluster.b]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"x\" }}\n\
         servers.db1.address = \"10.0.1.1:3306\"\n[listener.b]\naddress = \"0.0.0.0:3310\"\ncluster = \"b\"\n"
    );
    let (old, new) = (read(OLD), read(&more));
    assert_eq!(diff(&old, &new).to_string(), "cluster.b added, listener.b added");
    assert_eq!(diff(&new, &old).to_string(), "cluster.b removed, listener.b removed");
}

#[test]
fn rules_come_go_change_and_move() {
    let rule =
        |name: &str, user: &str| format!("[[rule]]\nname = \"{name}\"\nuser = \"{user}\"\nroute = \"primary\"\n");
    let with = |rules: &[String]| read(&format!("{OLD}\n{}", rules.concat()));
    let old = with(&[rule("a", "ann"), rule("b", "bob"), rule("c", "carol")]);
    let reported = |rules: &[String]| diff(&old, &with(rules)).to_string();
    assert_eq!(reported(&[rule("a", "ann"), rule("b", "bob"), rule("c", "carol")]), "nothing changed");
    assert_eq!(
        reported(&[rule("a", "ann"), rule("b", "bert"), rule("d", "dan")]),
        "rule.d added, rule.c removed, rule.b changed"
    );
    assert_eq!(reported(&[rule("b", "bob"), rule("a", "ann"), rule("c", "carol")]), "the order of the rules changed");
    let many: Vec<String> = (0..20).map(|n| rule(&format!("r{n}"), &format!("u{n}"))).collect();
    assert_eq!(reported(&many), "rule.a removed, rule.b removed, rule.c removed, 20 rules added");
}
