//! The crates of the workspace, and the files of each that ship.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::source::{self, Source};

/// One crate of `crates/`.
#[derive(Debug)]
pub struct Crate {
    /// The name of its folder.
    pub name: String,
    /// Crates of ours that it stands on, tests left out.
    pub imports: BTreeSet<String>,
    /// Its source files that ship, below the root of the repository.
    pub files: Vec<Source>,
}

/// Reads all crates.
///
/// # Errors
/// A file cannot be read, or is no Rust.
pub fn read(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for folder in sorted(&root.join("crates"))?.into_iter().filter(|path| path.join("Cargo.toml").is_file()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files = Vec::new();
        for start in ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)) {
            if start.is_file() {
                let module = start.with_file_name("");
                walk(root, &start, &module, &mut files)?;
            }
        }
        crates.push(Crate { imports: imports(&folder.join("Cargo.toml"), root)?, name, files });
    }
    anyhow::ensure!(!crates.is_empty(), "no crates in {}", root.display());
    Ok(crates)
}

/// Every file of a folder and below with this extension.
///
/// # Errors
/// A folder cannot be read.
pub fn all_files(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = files_of(folder, extension)?;
    for below in sorted(folder)?.into_iter().filter(|path| path.is_dir()) {
        found.append(&mut all_files(&below, extension)?);
    }
    Ok(found)
}

/// The files of a folder with this extension, without those of folders in it.
///
/// # Errors
/// The folder cannot be read.
pub fn files_of(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let fits = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|found| found == extension);
    Ok(sorted(folder)?.into_iter().filter(fits).collect())
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// A file and the files of its modules; `folder` is where those stand.
fn walk(root: &Path, file: &Path, folder: &Path, found: &mut Vec<Source>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let shown = file.strip_prefix(root).unwrap_or(file);
    let source = Source::parse(shown, &text).with_context(|| shown.display().to_string())?;
    let modules = source::modules(&source);
    found.push(source);
    for name in modules {
        walk(root, &folder.join(format!("{name}.rs")), &folder.join(&name), found)?;
    }
    Ok(())
}

fn imports(manifest: &Path, root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    let table: toml::Table = text.parse().with_context(|| manifest.display().to_string())?;
    let dependencies = table.get("dependencies").and_then(toml::Value::as_table);
    let names = dependencies.into_iter().flat_map(|table| table.keys());
    Ok(names.filter(|name| root.join("crates").join(name).is_dir()).cloned().collect())
}
