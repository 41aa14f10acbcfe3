//! Links of the documentation lead somewhere: to a file of the tree, and to a heading in it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside #[test] functions")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders without documentation of ours.
const LEFT_OUT: [&str; 3] = ["target", ".git", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !LEFT_OUT.contains(&name.as_str()) {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The lines of a page outside code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Without spans of code, in which brackets are no links.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of `[text](target)` and `![text](target)`.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(rest[..end].split_whitespace().next().unwrap_or_default().to_owned());
            }
        }
    }
    found
}

/// The name by which a heading is linked, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let name = anchor(line.trim_start_matches('#').trim());
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

#[test]
fn links_lead_to_files_and_headings() {
    let root = root();
    let mut all = Vec::new();
    pages(&root, &mut all);
    assert!(all.len() > 30, "{} pages", all.len());
    let (mut broken, mut followed) = (Vec::new(), 0);
    for page in &all {
        let text = std::fs::read_to_string(page).unwrap();
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = path.exists()
                && (heading.is_empty() || anchors(&std::fs::read_to_string(&path).unwrap()).contains(heading));
            if !there {
                broken.push(format!("{}: {target}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(followed > 100, "{followed} links");
    assert!(broken.is_empty(), "{} of {followed} links lead nowhere:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn headings_and_links_are_read_as_github_reads_them() {
    assert_eq!(anchor("What a rule has done"), "what-a-rule-has-done");
    assert_eq!(anchor("`SET TRANSACTION`, and more"), "set-transaction-and-more");
    let page = "# One\n## Two\n## Two\n```\n# no heading\n[no](link)\n```\n[a](b.md#c) and `[no](link)` ![d](e.svg \"title\")\n";
    assert_eq!(anchors(page), ["one", "two", "two-1"].map(String::from).into());
    assert_eq!(targets(page), ["b.md#c", "e.svg"]);
}
