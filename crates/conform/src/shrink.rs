//! Makes a script that shows a difference as small as it can be.

use std::time::{Duration, Instant};

use crate::lane::{Lane, Mismatch};
use crate::script::{Account, Login, Script, Step};

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
    // Usual logins, where unusual ones are not the point.
    let mut plain = best.clone();
    plain.logins.values_mut().for_each(|login| *login = Login { account: login.account, ..Login::default() });
    if plain != best
        && let Ok(Some(mismatch)) = lane.run(&plain).await
        && mismatch.is_like(&shown)
    {
        plain.logins.retain(|_, login| *login != Login::default());
        plain.steps.truncate(mismatch.step + 1);
        (best, shown) = (plain, mismatch);
    }
    // Whole sessions first: most of them only stand by.
    let mut sessions: Vec<usize> = best.steps.iter().map(|step| step.session).filter(|id| *id != 0).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        let steps = best.steps.iter().filter(|step| step.session != session).cloned().collect();
        attempt(lane, &mut best, &mut shown, steps, deadline).await?;
    }
    // The statements that set tables up go last: nobody reads them first.
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
    let named = best.steps.iter().filter(|step| step.session != 0 || is_used(step, &best)).cloned().collect();
    attempt(lane, &mut best, &mut shown, named, deadline).await?;
    let mut at = 0;
    while at < best.steps.len() && best.steps[at].session == 0 {
        let mut steps = best.steps.clone();
        steps.remove(at);
        if !attempt(lane, &mut best, &mut shown, steps, deadline).await? {
            at += 1;
        }
    }
    // A usual login, where an unusual one is not the point.
    for (session, login) in best.logins.clone() {
        let mut plain = best.clone();
        plain.logins.insert(session, Login { account: login.account, ..Login::default() });
        if Instant::now() < deadline
            && let Some(mismatch) = lane.run(&plain).await?
            && mismatch.is_like(&shown)
        {
            if login.account == Account::App {
                plain.logins.remove(&session);
            }
            (best, shown) = (plain, mismatch);
        }
    }
    best.logins.retain(|session, _| best.steps.iter().any(|step| step.session == *session));
    Ok((best, shown))
}

/// Whether what a step sets up is named by a session.
fn is_used(step: &Step, script: &Script) -> bool {
    let text = step.action.to_string();
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && !"{}._".contains(c));
    let name = names.filter(|word| word.contains("}.")).map(|word| word.rsplit('.').next().unwrap_or_default()).next();
    let Some(name) = name else { return true };
    script.steps.iter().any(|step| step.session != 0 && step.action.to_string().contains(name))
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
