//! Imports between crates run downwards only; control and proxy never meet but in the binary, and proxy imports nothing that
//! decides about servers.

use std::path::Path;

use crate::Finding;
use crate::tree::Crate;

/// Crates of ours that each crate may import.
const ALLOWED: [(&str, &[&str]); 26] = [
    ("wire", &[]),
    ("sql", &[]),
    ("stats", &[]),
    ("lab", &[]),
    ("house", &[]),
    ("config", &["wire", "sql"]),
    ("facts", &["wire", "sql"]),
    ("cluster", &["facts"]),
    ("route", &["sql", "config", "facts"]),
    ("policy", &["sql", "config", "stats", "route", "cache"]),
    ("proof", &["wire", "sql"]),
    ("cache", &["wire", "sql", "facts"]),
    ("testkit", &["wire"]),
    ("net", &["wire", "config"]),
    ("tier", &["stats", "net"]),
    ("events", &["sql", "stats"]),
    ("history", &[]),
    (
        "proxy",
        &["wire", "sql", "config", "stats", "facts", "route", "policy", "proof", "cache", "net", "tier", "events"],
    ),
    ("admin", &["sql", "config", "stats", "facts", "cache", "tier", "events", "history", "net"]),
    ("console", &["wire", "config", "stats", "facts", "cache", "events", "history", "net", "admin"]),
    ("control", &["wire", "sql", "config", "stats", "facts", "cluster", "net", "admin"]),
    ("bench", &["wire", "net", "lab"]),
    ("conform", &["wire", "sql", "config", "stats", "facts", "net", "proxy", "control", "lab", "sqluice"]),
    ("failover", &["wire", "net", "lab"]),
    ("instructions", &["wire", "net", "lab"]),
    (
        "sqluice",
        &[
            "wire", "sql", "config", "stats", "facts", "cache", "net", "tier", "events", "proxy", "admin", "console",
            "control", "lab",
        ],
    ),
];

/// Finds imports that are not allowed, and crates of which nothing is said.
pub fn check(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Crate { name, imports, .. } in crates {
        let manifest = format!("crates/{name}/Cargo.toml");
        let mut refuse = |message: String| findings.push(Finding::refuse(Path::new(&manifest), 0, message));
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| known == name) else {
            refuse(format!("crate {name} is not in ALLOWED of {}; say there what it may import", file!()));
            continue;
        };
        for import in imports.iter().filter(|import| !allowed.contains(&import.as_str())) {
            refuse(format!("{name} must not import {import}: imports run downwards"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_run_downwards() {
        let of = |name: &str, import: &str| {
            check(&[Crate { name: name.into(), imports: [import.to_owned()].into(), files: Vec::new() }]).len()
        };
        assert_eq!(of("proxy", "wire"), 0);
        assert_eq!(of("wire", "proxy"), 1);
        assert_eq!(of("proxy", "control"), 1);
        assert_eq!(of("proxy", "cluster"), 1);
        assert_eq!(of("admin", "control"), 1);
        assert_eq!(of("admin", "cluster"), 1);
        assert_eq!(of("unheard_of", "wire"), 1);
    }
}
