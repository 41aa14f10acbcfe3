//! The log and the journal of Sqluice, with times.

use std::path::Path;

use serde_json::Value;

use crate::clock::Clock;

/// A line of the journal.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// On the round's clock.
    pub(crate) at_ms: f64,
    pub(crate) run: u64,
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// The whole lines of a journal's file; none when there is no file yet.
pub(crate) fn read(path: &Path, clock: Clock) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| parse(line, clock)).collect()
}

fn parse(line: &str, clock: Clock) -> Option<Line> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Some(Line {
        at_ms: clock.at_unix_ms(value["at_ms"].as_u64()?),
        run: value["run"].as_u64()?,
        kind: text("kind"),
        text: text("text"),
    })
}

/// When the cluster's way to a new primary was begun, and when that took writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// The first decision after the harm.
    pub(crate) decided_ms: Option<f64>,
    /// The step that promotes was done.
    pub(crate) promoted_ms: Option<f64>,
}

/// Looks them up in lines from after the harm.
pub(crate) fn times(lines: &[Line], event_ms: f64) -> Times {
    let later = || lines.iter().filter(|line| line.at_ms >= event_ms && line.run > 0);
    let promoted = later().find(|line| line.kind == "done" && line.text.starts_with("promote"));
    let decided = later().find(|line| line.kind == "decision" && promoted.is_none_or(|done| done.run == line.run));
    Times { decided_ms: decided.map(|line| line.at_ms), promoted_ms: promoted.map(|line| line.at_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_promotes_gives_the_times() {
        let line = |at_ms, run, kind: &str, text: &str| Line { at_ms, run, kind: kind.into(), text: text.into() };
        let lines = [
            line(5.0, 1, "decision", "before"),
            line(20.0, 2, "decision", "given up later"),
            line(30.0, 2, "aborted", "it answers"),
            line(40.0, 3, "decision", "db1 is dead"),
            line(41.0, 3, "step", "promote db2"),
            line(60.0, 3, "done", "promote db2: done"),
        ];
        assert_eq!(times(&lines, 10.0), Times { decided_ms: Some(40.0), promoted_ms: Some(60.0) });
        assert_eq!(times(&lines[..3], 10.0), Times { decided_ms: Some(20.0), promoted_ms: None });
    }
}
