//! Callgrind's profile of one thread.
//!
//! Source: Valgrind's manual, "Callgrind Format Specification".

use std::collections::HashMap;

use anyhow::{Context as _, ensure};

/// Longest name that is printed.
const NAME_CHARACTERS_MAX: usize = 120;

/// Instructions of one thread.
#[derive(Debug, Default)]
pub struct Profile {
    /// All of them.
    pub total: u64,
    /// By function, without those that it calls.
    own: HashMap<String, u64>,
    /// By function, with those that it calls. Of a function that calls itself, more than it takes.
    inclusive: HashMap<String, u64>,
    /// By file of the source, wherever the function was inlined.
    files: HashMap<String, u64>,
}

impl Profile {
    /// Reads a profile of one event.
    ///
    /// # Errors
    /// It is no such file.
    pub fn parse(text: &str) -> anyhow::Result<Profile> {
        let mut profile = Profile::default();
        let (mut functions, mut files) = (Names::default(), Names::default());
        let (mut function, mut file) = (String::new(), String::new());
        let mut is_call = false;
        for line in text.lines() {
            if let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.contains(' ')) {
                match key {
                    "fl" | "fi" | "fe" => file = files.named(value)?,
                    "fn" => function = functions.named(value)?,
                    // Named for later use.
                    "cfi" | "cfl" => drop(files.named(value)?),
                    "cfn" => drop(functions.named(value)?),
                    "calls" => is_call = true,
                    _ => {}
                }
                continue;
            }
            if let Some(total) = line.strip_prefix("totals: ") {
                profile.total = total.trim().parse().context("totals")?;
            }
            let Some((position, count)) = line.split_once(' ') else { continue };
            if !position.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
                continue;
            }
            let count: u64 = count.trim().parse().with_context(|| format!("no count: {line:?}"))?;
            *profile.inclusive.entry(function.clone()).or_default() += count;
            if !std::mem::take(&mut is_call) {
                *profile.own.entry(function.clone()).or_default() += count;
                *profile.files.entry(file.clone()).or_default() += count;
            }
        }
        let own: u64 = profile.own.values().sum();
        ensure!(own == profile.total, "the profile's parts make {own}, and it says {}", profile.total);
        Ok(profile)
    }

    /// A function whose name holds this has run.
    pub fn has(&self, part: &str) -> bool {
        self.inclusive.keys().any(|name| name.contains(part))
    }

    /// Prints what takes most, as instructions for each of `times` pieces of work.
    pub fn print(&self, lines: usize, times: f64) {
        let lists =
            [("own", &self.own), ("with what they call", &self.inclusive), ("own, by file of the source", &self.files)];
        for (title, costs) in lists {
            println!("\n  instructions: {title}");
            let mut sorted: Vec<(&String, &u64)> = costs.iter().collect();
            sorted.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
            for (name, count) in sorted.into_iter().take(lines) {
                let name: String = name.chars().take(NAME_CHARACTERS_MAX).collect();
                println!("  {:>10.1} {:>5.1} %  {name}", *count as f64 / times, percent(*count, self.total));
            }
        }
        println!();
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Names that are written once and meant by their number afterwards: `(7) name`, later `(7)`.
#[derive(Debug, Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn named(&mut self, text: &str) -> anyhow::Result<String> {
        let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return Ok(text.to_owned());
        };
        let name = name.trim_start();
        if !name.is_empty() {
            self.0.insert(number.to_owned(), name.to_owned());
        }
        self.0.get(number).cloned().with_context(|| format!("name {number} is used before it is given"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\npositions: line\nevents: Ir\nsummary: 30\n\nob=(1) /program\nfl=(1) a.rs\nfn=(1) outer\n\
        10 5\nfi=(2) b.rs\n+2 3\nfe=(1)\ncfi=(3) c.rs\ncfn=(2) inner\ncalls=2 7\n* 22\n\nfl=(3)\nfn=(2)\n7 22\n\ntotals: 30\n";

    #[test]
    fn costs_are_those_of_functions_and_of_inlined_files() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!((profile.total, profile.own["outer"], profile.inclusive["outer"]), (30, 8, 30));
        assert_eq!((profile.own["inner"], profile.inclusive["inner"]), (22, 22));
        assert_eq!((profile.files["a.rs"], profile.files["b.rs"], profile.files["c.rs"]), (5, 3, 22));
        assert!(profile.has("inn") && !profile.has("nobody"));
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        assert!(Profile::parse(&TEXT.replace("totals: 30", "totals: 31")).is_err());
    }
}
