//! Pure crates decide, and can be replayed: they do no input or output, start no thread, read no clock and take no lock.

use crate::Finding;
use crate::tree::Crate;

/// The pure crates.
pub const PURE: [&str; 10] =
    ["wire", "sql", "config", "facts", "cluster", "route", "policy", "proof", "cache", "stats"];

/// Paths that a pure crate must not name, and why.
const IMPURE: [(&str, &str); 19] = [
    ("std::fs", "reads or writes files"),
    ("std::process", "starts or ends processes"),
    ("std::env", "reads the environment"),
    ("std::thread", "starts or stops threads"),
    ("std::net::TcpStream", "opens sockets"),
    ("std::net::TcpListener", "opens sockets"),
    ("std::net::UdpSocket", "opens sockets"),
    ("std::net::ToSocketAddrs", "asks name servers"),
    ("std::os::unix::net", "opens sockets"),
    ("std::time::Instant::now", "reads a clock"),
    ("std::time::SystemTime::now", "reads a clock"),
    ("std::sync::Mutex", "takes locks"),
    ("std::sync::RwLock", "takes locks"),
    ("std::sync::Condvar", "waits for others"),
    ("std::sync::mpsc", "waits for others"),
    ("std::io::stdin", "does input"),
    ("std::io::stdout", "does output"),
    ("std::io::stderr", "does output"),
    ("tokio", "does input and output"),
];

/// Exceptions: file, path, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 11] = [
    ("crates/config/src/source.rs", "std::fs", "the one file that reads the configuration from disk"),
    ("crates/config/src/source.rs", "std::env", "and the variables that it names"),
    ("crates/cache/src/store.rs", "std::sync::Mutex", "the shards of the result cache, which all workers share"),
    ("crates/cache/src/fill.rs", "std::sync::Mutex", "one fill of an answer for all workers that want it"),
    ("crates/cache/src/key.rs", "std::sync::Mutex", "contexts of questions, made once for all workers"),
    ("crates/cache/src/follow.rs", "std::sync::Mutex", "how far the log was followed, told by one thread to all"),
    ("crates/stats/src/lib.rs", "std::sync::Mutex", "what a worker counts and a scrape reads"),
    ("crates/stats/src/cache.rs", "std::sync::Mutex", "the same for the result cache"),
    ("crates/stats/src/rules.rs", "std::sync::Mutex", "the same for rules"),
    ("crates/facts/src/published.rs", "std::sync::Mutex", "snapshots and requests between both planes"),
    ("crates/facts/src/published.rs", "std::sync::RwLock", "the same"),
];

/// Finds impure names in pure crates.
pub fn check(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pure in crates.iter().filter(|found| PURE.contains(&found.name.as_str())) {
        for source in &pure.files {
            for (name, line) in &source.names {
                let Some((path, does)) = IMPURE.iter().find(|(path, _)| brings(name, path)) else { continue };
                let apart =
                    |exception: &&(&str, &str, &str)| source.path.ends_with(exception.0) && exception.1 == *path;
                if EXCEPTIONS.iter().any(|exception| apart(&exception)) {
                    continue;
                }
                let message = format!("`{name}` {does}, and crate {} is pure: pass in what it needs", pure.name);
                findings.push(Finding::refuse(&source.path, *line, message));
            }
        }
    }
    findings.dedup();
    findings
}

/// Whether a name is this path or below it, or a glob that has it among others.
fn brings(name: &str, path: &str) -> bool {
    let is_or_is_below = name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    is_or_is_below || name.strip_suffix('*').is_some_and(|above| !above.is_empty() && path.starts_with(above))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::Source;

    fn findings(name: &str, text: &str) -> Vec<String> {
        let files = vec![Source::parse(Path::new("crates/sql/src/x.rs"), text).unwrap()];
        let found = check(&[Crate { name: name.into(), imports: Default::default(), files }]);
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn clocks_files_and_locks_are_refused_in_pure_crates_alone() {
        for text in [
            "use std::time::Instant;\nfn f() -> Instant { Instant::now() }",
            "use std::fs;",
            "use std::sync::{Arc, Mutex as Lock};",
            "fn f() { std::thread::spawn(|| ()); }",
            "fn f() { tokio::spawn(async {}); }",
            "use std::time::*;\nfn f() -> Instant { Instant::now() }",
        ] {
            assert_eq!(findings("sql", text).len(), 1, "{text}: {:?}", findings("sql", text));
            assert_eq!(findings("proxy", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn values_of_time_and_addresses_are_pure() {
        assert_eq!(
            findings(
                "sql",
                "use std::net::SocketAddr;\nuse std::time::{Duration, Instant};\nfn f(now: Instant) -> Instant { now + Duration::from_secs(1) }"
            ),
            Vec::<String>::new()
        );
    }
}
