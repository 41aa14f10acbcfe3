//! Sqluice itself dies in the middle of a failover.

use std::thread;
use std::time::{Duration, Instant};

use crate::stage::Stage;

/// How often the journal is looked at.
const POLL: Duration = Duration::from_millis(1);
/// Longest wait for the failover to come so far.
const LIMIT: Duration = Duration::from_secs(30);

/// Steps of a failover of three servers: three looks, two receivers stopped, two looks, promoted, followed.
const STEPS: u32 = 9;

/// Kills the primary, and Sqluice when it has ordered two steps more in each round.
pub(super) fn crash(stage: &mut Stage, round: u32) -> anyhow::Result<f64> {
    let step = (2 * (round - 1)) % STEPS + 1;
    let holds = stage.fronts[0].status()?["lease"]["held"] == true;
    let (acting, other) = if holds { (0, 1) } else { (1, 0) };
    let event = stage.clock.now_ms();
    stage.world.server(0).kill9();
    let deadline = Instant::now() + LIMIT;
    let ended = loop {
        let lines = stage.fronts[acting].journal(stage.clock);
        let of_run = lines.iter().filter(|line| line.at_ms >= event && line.run > 0);
        let (mut steps, mut last) = (0, None);
        for line in of_run {
            steps += u32::from(line.kind == "step");
            last = Some(line);
        }
        if let Some(line) = last
            && (steps >= step || line.kind == "finished" || Instant::now() > deadline)
        {
            break format!("{} '{}'", line.kind, line.text);
        }
        if Instant::now() > deadline {
            break "nothing".into();
        }
        thread::sleep(POLL);
    };
    stage.fronts[acting].kill9();
    stage.asked = other;
    stage.notes.push(format!("Sqluice {} was killed behind {ended}", acting + 1));
    Ok(event)
}
