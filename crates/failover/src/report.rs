//! Tables.

use std::fmt::Write as _;

use crate::figures::{Round, middle_and_worst};
use crate::scenario::Scenario;
use crate::targets;

/// One line for a round, as it ends.
pub(crate) fn line(round: &Round) -> String {
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
    let mut text = format!(
        "{} {}: detection {} ms, promotion {} ms, first write {} ms, longest stall {:.0} ms ({} at {:.0}; {:.0} before), errors {}, \
         reconnects {}, acknowledged {} ({:.0}/s), lost {}, duplicates {}, unknown {} ({} done), idle {}/{}",
        round.scenario,
        round.round,
        ms(round.detection_ms),
        ms(round.promotion_ms),
        ms(round.first_write_ms),
        round.stall_ms,
        round.stall_of,
        round.stall_at_ms,
        round.calm_ms,
        errors(round),
        round.reconnects,
        round.acknowledged,
        round.acknowledged_per_s,
        round.lost,
        round.duplicates,
        round.unknown,
        round.unknown_done,
        round.idle - round.idle_harmed,
        round.idle,
    );
    if let Some(age) = round.oldest_read_ms {
        let _ = write!(text, ", oldest read {age:.0} ms");
    }
    if let Some((stood, added)) = round.standstill_ms.zip(round.added_ms) {
        let _ = write!(text, ", the group stood still for {stood:.0} ms, a client waited {added:.0} ms longer");
    }
    let _ = write!(text, ", primary {}", round.primary);
    if !round.diagnoses.is_empty() {
        let names: Vec<&str> = round.diagnoses.iter().map(String::as_str).collect();
        let _ = write!(text, " [{}]", names.join(" "));
    }
    for note in &round.notes {
        let _ = write!(text, "\n    {note}");
    }
    for violation in &round.violations {
        let _ = write!(text, "\n    VIOLATION: {violation}");
    }
    text
}

fn errors(round: &Round) -> String {
    if round.errors.is_empty() {
        return "0".into();
    }
    let kinds: Vec<String> = round.errors.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    format!("{} ({})", round.errors_sum(), kinds.join(", "))
}

/// Everything as Markdown: the figures, the targets, and why a scenario is missing.
pub(crate) fn markdown(rounds: &[Round], scenarios: &[Scenario], skipped: &[(String, String)]) -> String {
    let mut text = String::from(
        "| scenario | rounds | detection | promotion | first write | outage | longest stall | errors | reconnects | acknowledged \
         | lost | duplicates | idle sessions well |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for scenario in scenarios {
        let of_it = of(rounds, *scenario);
        if !of_it.is_empty() {
            figures_row(&mut text, &scenario.name(), &of_it);
        }
    }
    text.push_str("\nTimes are median / worst of the rounds, in milliseconds since the harm; the rest are sums.\n");
    standstills(&mut text, rounds, scenarios);
    text.push_str("\n| scenario | target | worst | |\n|---|---|---|---|\n");
    for scenario in scenarios {
        let of_it = of(rounds, *scenario);
        for target in targets::of(*scenario) {
            let Some((_, worst)) = middle_and_worst(of_it.iter().filter_map(|round| (target.value)(round))) else {
                continue;
            };
            let met = if worst <= target.limit { "met" } else { "not met" };
            let (name, unit) = (target.name, target.unit);
            let _ = writeln!(
                text,
                "| {} | {name} ≤ {:.0}{unit} | {worst:.0}{unit} | {met} |",
                scenario.name(),
                target.limit
            );
        }
    }
    for (name, reason) in skipped {
        let _ = writeln!(text, "\n`{name}` was not played: {reason}.");
    }
    let violations: Vec<String> = rounds
        .iter()
        .flat_map(|round| {
            round.violations.iter().map(move |text| format!("- {} {}: {text}", round.scenario, round.round))
        })
        .collect();
    if !violations.is_empty() {
        let _ = writeln!(text, "\nWhat must not be:\n\n{}", violations.join("\n"));
    }
    text
}

/// Clients' waits beside the groups' own, for scenarios with groups.
fn standstills(text: &mut String, rounds: &[Round], scenarios: &[Scenario]) {
    let mut rows = String::new();
    for scenario in scenarios {
        let of_it = of(rounds, *scenario);
        let times = |value: fn(&Round) -> Option<f64>| {
            let (middle, worst) = middle_and_worst(of_it.iter().filter_map(|round| value(round)))?;
            Some(format!("{middle:.0} / {worst:.0}"))
        };
        let Some(stood) = times(|round| round.standstill_ms) else { continue };
        let sum = |value: fn(&Round) -> u64| of_it.iter().map(|round| value(round)).sum::<u64>();
        let _ = writeln!(
            rows,
            "| {} | {stood} | {} | {} | {} |",
            scenario.name(),
            times(|round| Some(round.stall_ms)).unwrap_or_default(),
            times(|round| round.added_ms).unwrap_or_default(),
            sum(|round| round.unknown)
        );
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n| scenario | the group stood still | longest stall | a client waited longer by | in doubt |\n\
             |---|---|---|---|---|\n{rows}"
        );
    }
}

fn of(rounds: &[Round], scenario: Scenario) -> Vec<&Round> {
    rounds.iter().filter(|round| round.scenario == scenario.name()).collect()
}

fn figures_row(text: &mut String, name: &str, rounds: &[&Round]) {
    let times = |value: fn(&Round) -> Option<f64>| {
        let found = middle_and_worst(rounds.iter().filter_map(|round| value(round)));
        found.map_or_else(String::new, |(middle, worst)| format!("{middle:.0} / {worst:.0}"))
    };
    let sum = |value: fn(&Round) -> u64| rounds.iter().map(|round| value(round)).sum::<u64>();
    let mut kinds = std::collections::BTreeMap::new();
    for (kind, count) in rounds.iter().flat_map(|round| &round.errors) {
        *kinds.entry(kind).or_insert(0) += count;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    let errors = if kinds.is_empty() { "0".to_owned() } else { kinds.join(", ") };
    let idle = sum(|round| round.idle);
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {} | {} | {errors} | {} | {} | {} | {} | {} of {idle} |",
        rounds.len(),
        times(|round| round.detection_ms),
        times(|round| round.promotion_ms),
        times(|round| round.first_write_ms),
        times(|round| round.outage_ms),
        times(|round| Some(round.stall_ms)),
        sum(|round| round.reconnects),
        sum(|round| round.acknowledged),
        sum(|round| round.lost),
        sum(|round| round.duplicates),
        idle - sum(|round| round.idle_harmed),
    );
}
