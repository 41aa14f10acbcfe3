//! Functions fit a screen, and files hold one thing.
//!
//! `long_functions.txt` keeps the functions that were longer when the rule came, with their lines: none may be added, and none
//! may grow.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::Finding;
use crate::tree::{self, Crate};

/// Most lines of a function, from its `fn` to its last brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Most lines of a file, and what files aim at.
const FILE_LINES_MAX: usize = 1000;
const FILE_LINES_AIM: usize = 400;
/// `FILE FUNCTION LINES`, a line each.
const LONG: &str = "crates/house/long_functions.txt";

/// Finds functions that are too long, and lines of `long_functions.txt` that are not needed any more.
///
/// # Errors
/// `long_functions.txt` cannot be read.
pub fn functions(root: &Path, crates: &[Crate]) -> anyhow::Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(LONG)).context(LONG)?;
    let mut known = known(&text)?;
    let mut findings = Vec::new();
    for source in crates.iter().flat_map(|found| &found.files) {
        for function in source.functions.iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let key = format!("{} {}", source.path.display(), function.name);
            let allowed = known.remove(&key).unwrap_or(FUNCTION_LINES_MAX);
            if function.lines > allowed {
                let message = format!("{} has {} lines; {allowed} are allowed", function.name, function.lines);
                findings.push(Finding::refuse(&source.path, function.line, message));
            }
        }
    }
    for key in known.into_keys() {
        findings.push(Finding::refuse(
            Path::new(LONG),
            0,
            format!("{key} is not longer than others now: take its line out"),
        ));
    }
    Ok(findings)
}

fn known(text: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let line = |line: &str| {
        let (key, lines) = line.rsplit_once(' ').with_context(|| format!("{LONG}: {line:?}"))?;
        Ok((key.to_owned(), lines.parse().with_context(|| format!("{LONG}: {line:?}"))?))
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

/// Finds files that are too long, and `mod.rs`.
///
/// # Errors
/// A file cannot be read.
pub fn files(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tree::all_files(&root.join("crates"), "rs")? {
        let lines = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.lines().count();
        let shown = path.strip_prefix(root).unwrap_or(&path);
        if lines > FILE_LINES_MAX {
            findings.push(Finding::refuse(shown, 0, format!("{lines} lines; the limit is {FILE_LINES_MAX}")));
        } else if lines > FILE_LINES_AIM {
            findings.push(Finding::advise(shown, format!("{lines} lines; files aim at {FILE_LINES_AIM}")));
        }
        if path.file_name().is_some_and(|name| name == "mod.rs") {
            findings.push(Finding::refuse(shown, 0, "write name.rs beside name/, not name/mod.rs"));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn long_functions_may_not_come_or_grow() {
        let folder = std::env::temp_dir().join(format!("sqluice-house-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("crates/house")).unwrap();
        let check = |listed: &str, lines: usize| {
            std::fs::write(folder.join(LONG), listed).unwrap();
            let text = format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
            let files = vec![Source::parse(Path::new("a.rs"), &text).unwrap()];
            functions(&folder, &[Crate { name: "a".into(), imports: Default::default(), files }]).unwrap().len()
        };
        assert_eq!(check("", 70), 0);
        assert_eq!(check("", 71), 1);
        assert_eq!(check("a.rs f 80\n", 80), 0);
        assert_eq!(check("a.rs f 80\n", 81), 1);
        assert_eq!(check("# why\na.rs f 80\n", 60), 1, "the line is not needed any more");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
