//! `house`: the rules of the house, checked in the source as a compiler reads it.
//!
//! `./dev lint` and `./dev check` run it. Each rule is a file of [`rules`] and says in its first lines what it is for. With `pure` it
//! only prints the names of the pure crates, whose tests `./dev check` runs.

mod rules;
mod source;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path below the root of the repository.
    file: PathBuf,
    /// From 1; 0 is the file as a whole.
    line: usize,
    /// The mistake, and what to do.
    message: String,
    /// Advice refuses nothing.
    refuses: bool,
}

impl Finding {
    fn refuse(file: &Path, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, message: message.into(), refuses: true }
    }

    fn advise(file: &Path, message: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line: 0, message: message.into(), refuses: false }
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "pure") {
        rules::PURE.iter().for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what breaks a rule; gives how many findings refuse.
fn run() -> anyhow::Result<usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().with_context(|| root.display().to_string())?;
    let crates = tree::read(&root)?;
    let mut findings = rules::all(&root, &crates)?;
    findings.sort();
    for Finding { file, line, message, refuses } in &findings {
        let word = if *refuses { "refused" } else { "warning" };
        match line {
            0 => eprintln!("{word}: {}: {message}", file.display()),
            line => eprintln!("{word}: {}:{line}: {message}", file.display()),
        }
    }
    Ok(findings.iter().filter(|finding| finding.refuses).count())
}
