//! Refusing writes, and taking them again.

use std::time::Duration;

use super::{Failed, FailedKind, Hand, end_sessions};
use crate::monitor::dialect::is_on;

/// `ER_LOCK_WAIT_TIMEOUT`: somebody's lock or commit is in the way.
const LOCK_WAIT: u16 = 1205;

/// Makes the server refuse or take writes: `super_read_only` on MySQL, `read_only` on MariaDB.
///
/// A commit that waits for an acknowledgement and a session that holds a table lock keep the server from becoming read-only.
/// With `cut` they are ended; otherwise they are waited for.
pub(crate) async fn set_read_only(hand: &mut Hand<'_>, on: bool, cut: bool) -> Result<(), Failed> {
    if is_so(hand, on).await? {
        return Ok(());
    }
    if !on {
        // On MySQL this takes super_read_only back as well.
        hand.run("make it writable", "SET GLOBAL read_only = 0").await?;
        return Ok(());
    }
    let statement = if hand.dialect.mariadb { "SET GLOBAL read_only = 1" } else { "SET GLOBAL super_read_only = 1" };
    let what = "make it read-only";
    loop {
        // Whole seconds are the least that servers know. Ours ends with the step, so that nothing waits there for ever.
        let seconds = if cut { 1 } else { hand.left().as_secs().max(1) };
        hand.run(what, format!("SET SESSION lock_wait_timeout = {seconds}")).await?;
        if cut {
            end_sessions(hand, &[]).await?;
        }
        match tokio::time::timeout_at(hand.until, hand.client.query(statement)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if cut && error.code() == Some(LOCK_WAIT) => {
                hand.pause(what, Duration::from_millis(10)).await?;
            }
            Ok(Err(error)) if error.code() == Some(LOCK_WAIT) => {
                let text = format!("cannot {what}: a session holds a lock, or its commit waits: {error}");
                return Err(Failed::new(FailedKind::TimedOut, text));
            }
            Ok(Err(error)) => return Err(super::failed(what, &error)),
            Err(_) => return Err(hand.late(what)),
        }
    }
}

async fn is_so(hand: &mut Hand<'_>, on: bool) -> Result<bool, Failed> {
    let variables = match (hand.dialect.mariadb, on) {
        // What refuses everybody on MySQL is one variable, what refuses most is another.
        (false, true) => "SELECT @@global.super_read_only",
        (_, _) => "SELECT @@global.read_only",
    };
    let value = hand.run("look whether it is read-only", variables).await?;
    Ok(value.scalar().is_some_and(|value| is_on(&value)) == on)
}
