//! The last figures, and the comparison with them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use lab::Replication;

use crate::loads::Load;

/// Figures as they are kept: instructions by kind, and the versions that they were found with.
#[derive(Debug, Default)]
pub struct Figures {
    versions: String,
    instructions: BTreeMap<String, f64>,
}

impl Figures {
    /// Reads kept figures; none are there before the first are kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(file: &Path) -> anyhow::Result<Figures> {
        if !file.exists() {
            return Ok(Figures::default());
        }
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut figures = Figures::default();
        for line in text.lines() {
            if let Some(versions) = line.strip_prefix("# with ") {
                figures.versions = versions.to_owned();
            } else if let Some((name, count)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
                let count = count.trim().parse().with_context(|| format!("{}: {line}", file.display()))?;
                figures.instructions.insert(name.to_owned(), count);
            }
        }
        Ok(figures)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Instructions in user space of a worker, for each piece of work. Written by `./dev instructions --save`.\n\
             # with {}\n",
            self.versions
        );
        for (name, count) in &self.instructions {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{name} {count:.0}");
        }
        text
    }
}

/// The versions on which the counts depend besides Sqluice.
///
/// # Errors
/// One of the programs does not say its version.
pub fn versions(servers: &Replication) -> anyhow::Result<String> {
    let said = |program: &str| -> anyhow::Result<String> {
        let output = Command::new(program).arg("--version").output().with_context(|| program.to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split(" (").next().unwrap_or_default().trim().to_owned())
    };
    let mariadb = servers.primary().sql("SELECT VERSION()")?;
    Ok(format!("{}, {}, {}", said("rustc")?, said("valgrind")?, mariadb.trim()))
}

/// Figures of this run, printed as they come.
#[derive(Debug)]
pub struct Report {
    last: Figures,
    now: Figures,
    /// Kinds that cost more than the kept figures allow, in words.
    refused: Vec<String>,
}

impl Report {
    /// An empty one.
    pub fn new(last: Figures, versions: String) -> Report {
        Report { last, now: Figures { versions, instructions: BTreeMap::new() }, refused: Vec::new() }
    }

    /// Prints the head of the table.
    pub fn head(&self) {
        println!("Instructions in user space of the worker, for each piece of work:");
        println!("{:24} {:>9} {:>9} {:>8} {:>8}  what", "kind", "now", "last", "change", "allowed");
    }

    /// Prints a line of the table, and notes growth beyond what the load allows. A kind without a figure is refused, too.
    pub fn line(&mut self, load: &Load, count: f64) {
        let allowed = 100.0 * load.growth_max;
        let (last, change) = match self.last.instructions.get(load.name) {
            Some(last) => {
                let growth = 100.0 * (count / last - 1.0);
                if growth > allowed {
                    self.refused.push(format!("{}: {count:.0} instead of {last:.0}, {growth:+.1} %", load.name));
                }
                (format!("{last:.0}"), format!("{growth:+.1} %"))
            }
            None => {
                self.refused.push(format!("{}: no figure is kept", load.name));
                ("-".to_owned(), "-".to_owned())
            }
        };
        println!("{:24} {count:>9.0} {last:>9} {change:>8} {allowed:>6.0} %  {}", load.name, load.what);
        self.now.instructions.insert(load.name.to_owned(), count);
    }

    /// Whether all kinds stay within their bounds.
    ///
    /// # Errors
    /// Kinds that do not, with what to do.
    pub fn judge(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.refused.is_empty(),
            "more instructions than allowed:\n  {}\nMake it cheaper. If the growth is worth it, keep the new figures with \
             `./dev instructions --save`, in a commit of its own that gives the reason.",
            self.refused.join("\n  ")
        );
        Ok(())
    }

    /// Prints what the figures depend on.
    pub fn foot(&self) {
        println!("with {}", self.now.versions);
        if !self.last.versions.is_empty() && self.last.versions != self.now.versions {
            println!("the last ones with {}: part of a change may be theirs", self.last.versions);
        }
    }

    /// Keeps the figures of this run; those of kinds that were not asked for stay.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(mut self, file: &Path) -> anyhow::Result<()> {
        for (name, count) in std::mem::take(&mut self.last.instructions) {
            self.now.instructions.entry(name).or_insert(count);
        }
        std::fs::write(file, self.now.text()).with_context(|| file.display().to_string())
    }
}
