//! `unsafe` stands in files that are named here, each with its reason in its first lines.

use crate::Finding;
use crate::tree::Crate;

/// The files.
const FILES: [&str; 0] = [];

/// Finds `unsafe` elsewhere.
pub fn check(crates: &[Crate]) -> Vec<Finding> {
    let files = crates.iter().flat_map(|found| &found.files);
    let others = files.filter(|source| !FILES.iter().any(|file| source.path.ends_with(file)));
    let refuse =
        |path, line: &usize| Finding::refuse(path, *line, format!("unsafe outside the files that {} names", file!()));
    others.flat_map(|source| source.unsafe_lines.iter().map(|line| refuse(&source.path, line))).collect()
}
