//! Embeds the operator's page, if it was built: `./dev ui` writes it to `ui/dist`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("assets.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let built = root.join("../../ui/dist");
    // The folder is always there; it is empty without a build.
    println!("cargo::rerun-if-changed={}", built.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::from("&[\n");
    for (name, path) in files(&built)? {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(text, "({name:?}, include_bytes!({:?})),", path.display().to_string()).map_err(io::Error::other)?;
    }
    text.push_str("]\n");
    fs::write(out, text)
}

/// The files of the built page, in the order of their names.
fn files(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    if !folder.join("index.html").exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path().canonicalize()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && !name.starts_with('.') {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}
