//! Makes a script that shows a difference as small as it can be.

use std::time::{Duration, Instant};

use crate::lane::{Lane, Mismatch};
use crate::script::{Login, Script, Step};

/// Drops whatever is not needed for some difference, within `limit`. Gives the small script and what it shows.
///
/// # Errors
/// A script could not be run.
pub async fn shrink(
    lane: &mut Lane<'_>,
    script: &Script,
    first: Mismatch,
    limit: Duration,
) -> anyhow::Result<(Script, Mismatch)> {
    let deadline = Instant::now() + limit;
    let mut best = script.clone();
    let mut shown = first;
    best.steps.truncate(shown.step + 1);
    // Whole sessions first: most of them only stand by.
    let mut sessions: Vec<usize> = best.steps.iter().map(|step| step.session).filter(|id| *id != 0).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        let steps = best.steps.iter().filter(|step| step.session != session).cloned().collect();
        attempt(lane, &mut best, &mut shown, steps, deadline).await?;
    }
    // What sets the tables up goes last: it is not what somebody reads.
    let begins = best.steps.iter().position(|step| step.session != 0).unwrap_or(0);
    let mut size = (best.steps.len() - begins).div_ceil(2);
    while size > 0 {
        let mut at = begins;
        while at < best.steps.len() {
            let mut steps = best.steps.clone();
            steps.drain(at..(at + size).min(steps.len()));
            if !attempt(lane, &mut best, &mut shown, steps, deadline).await? {
                at += size;
            }
        }
        size /= 2;
    }
    let mut at = 0;
    while at < best.steps.len() && best.steps[at].session == 0 {
        let mut steps = best.steps.clone();
        steps.remove(at);
        if !attempt(lane, &mut best, &mut shown, steps, deadline).await? {
            at += 1;
        }
    }
    // A usual login, where an unusual one is not the point.
    for session in best.logins.clone().into_keys() {
        let mut plain = best.clone();
        plain.logins.insert(session, Login::default());
        if Instant::now() < deadline
            && let Some(mismatch) = lane.run(&plain).await?
            && mismatch.is_like(&shown)
        {
            plain.logins.remove(&session);
            (best, shown) = (plain, mismatch);
        }
    }
    best.logins.retain(|session, _| best.steps.iter().any(|step| step.session == *session));
    Ok((best, shown))
}

async fn attempt(
    lane: &mut Lane<'_>,
    best: &mut Script,
    shown: &mut Mismatch,
    steps: Vec<Step>,
    deadline: Instant,
) -> anyhow::Result<bool> {
    if steps.is_empty() || Instant::now() > deadline {
        return Ok(false);
    }
    let mut candidate = Script { steps, ..best.clone() };
    // One whose preparation fails shows nothing.
    let Ok(Some(mismatch)) = lane.run(&candidate).await else { return Ok(false) };
    // Another difference is another story.
    if !mismatch.is_like(shown) {
        return Ok(false);
    }
    candidate.steps.truncate(mismatch.step + 1);
    (*best, *shown) = (candidate, mismatch);
    Ok(true)
}
