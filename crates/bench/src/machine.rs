//! On what the bench runs.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine and its system, as they tell themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gb: u64,
    pub(crate) kernel: String,
    pub(crate) system: String,
}

impl Machine {
    /// Looks at this one; what it does not tell is empty.
    pub(crate) fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name", ':'),
            cores: cores(),
            memory_gb: field(&read("/proc/meminfo"), "MemTotal", ':')
                .split_whitespace()
                .next()
                .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
                .unwrap_or(0)
                / 1_000_000,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '=').trim_matches('"').to_owned(),
        }
    }
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The first line that a program prints.
pub(crate) fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

/// The commit of the working tree, and whether it was changed.
pub(crate) fn commit() -> Option<String> {
    let commit = says("git", &["describe", "--always", "--dirty", "--exclude=*"])?;
    (!commit.is_empty()).then_some(commit)
}

/// Date and time in UTC, to the minute.
pub(crate) fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    date_of(seconds)
}

/// Seconds since 1970 as `2026-11-20 08:15 UTC`.
fn date_of(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is the last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// The text behind a name and a separator on one line.
fn field(text: &str, name: &str, separator: char) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(separator)).map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_of(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_of(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date_of(1_795_321_800), "2026-11-22 04:30 UTC");
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("model name\t: AMD EPYC\n", "model name", ':'), "AMD EPYC");
        assert_eq!(field("", "x", ':'), "");
        assert!(Machine::here().cores > 0);
    }
}
