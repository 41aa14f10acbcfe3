//! Lines of pages are below 120 characters, so that a terminal and a difference show them whole.
//!
//! Code blocks and lines that only define a link may be longer. `long_lines.txt` keeps the pages with tables of figures, each with
//! its number of long lines: the numbers may only fall.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::Finding;
use crate::tree;

/// Every line has fewer characters.
const LINE_CHARACTERS: usize = 120;
/// `FILE LINES`, a line each.
const LONG: &str = "crates/house/long_lines.txt";
/// The folders that hold pages, besides the root itself.
const FOLDERS: [&str; 3] = ["docs", "conform", "crates"];

/// Finds lines that are too long, and numbers of `long_lines.txt` that are too high.
///
/// # Errors
/// A page or `long_lines.txt` cannot be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut allowed = allowed(&std::fs::read_to_string(root.join(LONG)).context(LONG)?)?;
    let mut pages = tree::files_of(root, "md")?;
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        pages.append(&mut tree::all_files(&folder, "md")?);
    }
    let mut findings = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let shown = page.strip_prefix(root).unwrap_or(&page);
        let long = long_lines(&text);
        let most = allowed.remove(&shown.display().to_string()).unwrap_or(0);
        if long.len() > most {
            let words = format!("{LINE_CHARACTERS} characters or more; {} lines are, {most} may be", long.len());
            findings.extend(long.iter().map(|line| Finding::refuse(shown, *line, words.clone())));
        } else if long.len() < most {
            let words = format!("{}: write {} for {most}", shown.display(), long.len());
            findings.push(Finding::refuse(Path::new(LONG), 0, words));
        }
    }
    let gone = allowed.into_keys();
    findings
        .extend(gone.map(|page| Finding::refuse(Path::new(LONG), 0, format!("{page} is no page: take its line out"))));
    Ok(findings)
}

fn allowed(text: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let line = |line: &str| {
        let (page, lines) = line.rsplit_once(' ').with_context(|| format!("{LONG}: {line:?}"))?;
        Ok((page.to_owned(), lines.parse().with_context(|| format!("{LONG}: {line:?}"))?))
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

/// The numbers of the long lines, from 1.
fn long_lines(text: &str) -> Vec<usize> {
    let mut code = false;
    let mut long = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        if !code && !fence && !defines_link(line) && line.chars().count() >= LINE_CHARACTERS {
            long.push(at + 1);
        }
    }
    long
}

/// `[name]: address`, without more words.
fn defines_link(line: &str) -> bool {
    let address = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, address)| address.trim());
    address.is_some_and(|address| !address.is_empty() && !address.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prose_and_tables_count() {
        let (fits, wide) = ("ä".repeat(119), "ä".repeat(120));
        assert_eq!(long_lines(&format!("{fits}\n{wide}\n| {wide} |\n")), [2, 3]);
        assert_eq!(long_lines(&format!("```text\n{wide}\n```\n[a]: http://{wide}\n")), Vec::<usize>::new());
        assert_eq!(long_lines(&format!("[a]: a note, {wide}\n")), [1]);
    }

    #[test]
    fn long_lines_may_not_come_and_their_numbers_only_fall() {
        let folder = std::env::temp_dir().join(format!("sqluice-house-pages-{}", std::process::id()));
        for below in FOLDERS.into_iter().chain(["crates/house", "docs/guides"]) {
            std::fs::create_dir_all(folder.join(below)).unwrap();
        }
        let check = |listed: &str, lines: usize| {
            std::fs::write(folder.join(LONG), listed).unwrap();
            std::fs::write(folder.join("docs/guides/a.md"), format!("{}\n", "x".repeat(120)).repeat(lines)).unwrap();
            check(&folder).unwrap().len()
        };
        assert_eq!(check("", 0), 0);
        assert_eq!(check("", 2), 2);
        assert_eq!(check("# why\ndocs/guides/a.md 2\n", 2), 0);
        assert_eq!(check("docs/guides/a.md 2\n", 3), 3);
        assert_eq!(check("docs/guides/a.md 2\n", 1), 1, "the number falls with the page");
        assert_eq!(check("docs/guides/b.md 2\n", 0), 1, "there is no such page");
        std::fs::write(folder.join("README.md"), "x".repeat(120)).unwrap();
        assert_eq!(check("", 0), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
