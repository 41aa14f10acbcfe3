//! Refusing writes, and taking them again.

use std::time::Duration;

use net::query::{Client, QueryError, ResultSet};
use tokio::time::error::Elapsed;
use wire::errno;

use super::{Failed, FailedKind, Hand, end_sessions, semi_sync};
use crate::monitor::dialect::is_on;

/// Time between two looks at a list of sessions.
const LOOK: Duration = Duration::from_millis(10);
/// MySQL's name of a commit that waits for an acknowledgement; `slave` in versions before 8.0.26.
const WAITS_FOR_ACK: &str = "Waiting for semi-sync ACK from ";
/// MySQL's name of a commit that waits for those before it.
const IN_COMMIT: &str = "waiting for handler commit";

/// The fate of clients' sessions while their server becomes read-only. A commit that waits for an acknowledgement and a session that
/// holds a table lock keep it from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// They are waited for.
    Stay,
    /// They stay unless one of them is in the way for a second. Clients that only read are in no one's way.
    EndIfInTheWay,
    /// They are ended first.
    End,
}

/// Makes the server refuse or take writes: `super_read_only` on MySQL, `read_only` on MariaDB.
pub(crate) async fn set_read_only(hand: &mut Hand<'_>, on: bool, clients: Clients) -> Result<(), Failed> {
    if is_so(hand, on).await? {
        return Ok(());
    }
    if !on {
        // On MySQL this takes super_read_only back as well.
        hand.run("make it writable", "SET GLOBAL read_only = 0").await?;
        return Ok(());
    }
    let what = "make it read-only";
    let (may_end, mut ends) = (clients != Clients::Stay, clients == Clients::End);
    loop {
        // Whole seconds are the least that servers know. Ours ends with the step, so that nothing waits there for ever.
        let seconds = if may_end { 1 } else { hand.left().as_secs().max(1) };
        hand.run(what, format!("SET SESSION lock_wait_timeout = {seconds}")).await?;
        if ends {
            end_sessions(hand, &[]).await?;
        }
        match tokio::time::timeout_at(hand.until, hand.client.query(statement(hand))).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if may_end && error.code() == Some(errno::ER_LOCK_WAIT_TIMEOUT) => {
                ends = true;
                hand.pause(what, LOOK).await?;
            }
            done => return ended(done),
        }
    }
}

/// Makes a server read-only that is the primary no longer, whatever its clients do and wait for. `open` opens a second connection
/// to it.
///
/// On MySQL a commit that waits for an acknowledgement outlives its session: KILL takes the client's connection, and the
/// thread waits on, with locks that keep the server writable. Such commits are let go by switching semi-synchronous replication
/// off, and only when no client can get their OK: the statement that makes the server read-only waits already, which
/// holds new writes back, and all sessions from before it are ended. Writes that were released stay on this server alone.
pub(crate) async fn fence(
    hand: &mut Hand<'_>,
    open: impl AsyncFnOnce() -> Result<Client, Failed>,
) -> Result<(), Failed> {
    if is_so(hand, true).await? {
        return Ok(());
    }
    end_sessions(hand, &[]).await?;
    if hand.dialect.mariadb || !commits_wait(&hand.run("look who waits", "SHOW PROCESSLIST").await?) {
        return set_read_only(hand, true, Clients::End).await;
    }
    let mut second = open().await?;
    let (what, until) = ("make it read-only", hand.until);
    let seconds = hand.left().as_secs().max(1);
    hand.run(what, format!("SET SESSION lock_wait_timeout = {seconds}")).await?;
    let (id, statement) = (hand.client.greeting().connection_id, statement(hand));
    let mut beside = Hand { client: &mut second, dialect: hand.dialect, until };
    let mut read_only = std::pin::pin!(tokio::time::timeout_at(until, hand.client.query(statement)));
    let released = tokio::select! {
        // The statement in the way has ended by itself.
        done = &mut read_only => return ended(done),
        released = let_go(&mut beside, id) => released,
    };
    let done = read_only.await;
    if matches!(done, Ok(Ok(_))) {
        return Ok(());
    }
    released?;
    // It takes writes, so they have to wait again.
    semi_sync::become_source(&mut beside).await?;
    ended(done)
}

/// Lets commits go that wait for an acknowledgement, while session `id` waits for the server to become read-only.
async fn let_go(hand: &mut Hand<'_>, id: u32) -> Result<(), Failed> {
    let what = "let waiting commits go";
    loop {
        let list = hand.run(what, "SHOW PROCESSLIST").await?;
        let row = (0..list.rows.len()).find(|row| list.text(*row, "Id").is_some_and(|own| own == id.to_string()));
        let state = row.and_then(|row| list.text(row, "State")).unwrap_or_default();
        if matches!(&*state, "Waiting for global read lock" | "Waiting for commit lock") {
            break;
        }
        hand.pause(what, LOOK).await?;
    }
    end_sessions(hand, &[]).await?;
    // Those that came since have not written anything: they wait behind the statement.
    let list = hand.run(what, "SHOW PROCESSLIST").await?;
    if !commits_wait(&list) {
        return Ok(());
    }
    if let Some(session) = session_hearing_of_commit(&list) {
        let text = format!("cannot {what}: session {session} waits for its commit and cannot be ended");
        return Err(Failed::refused(text));
    }
    semi_sync::become_replica(hand).await
}

/// Whether a commit waits for an acknowledgement, as far as this user sees.
fn commits_wait(list: &ResultSet) -> bool {
    (0..list.rows.len()).any(|row| list.text(row, "State").is_some_and(|state| state.starts_with(WAITS_FOR_ACK)))
}

/// A session that still has a client, and waits in a commit.
fn session_hearing_of_commit(list: &ResultSet) -> Option<String> {
    let row = (0..list.rows.len()).find(|row| {
        let text = |column: &str| list.text(*row, column).unwrap_or_default();
        let waits = text("State").starts_with(WAITS_FOR_ACK) || text("State") == IN_COMMIT;
        waits && text("Command") != "Killed" && !matches!(&*text("User"), "system user" | "event_scheduler")
    })?;
    list.text(row, "Id").map(std::borrow::Cow::into_owned)
}

/// How the statement ended.
fn ended(done: Result<Result<Vec<ResultSet>, QueryError>, Elapsed>) -> Result<(), Failed> {
    let what = "make it read-only";
    match done {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.code() == Some(errno::ER_LOCK_WAIT_TIMEOUT) => {
            let text = format!("cannot {what}: a session holds a lock, or its commit waits: {error}");
            Err(Failed::new(FailedKind::TimedOut, text))
        }
        Ok(Err(error)) => Err(super::failed(what, &error)),
        Err(_) => Err(Failed::new(FailedKind::TimedOut, format!("cannot {what}: it took too long"))),
    }
}

fn statement(hand: &Hand<'_>) -> &'static str {
    if hand.dialect.mariadb { "SET GLOBAL read_only = 1" } else { "SET GLOBAL super_read_only = 1" }
}

async fn is_so(hand: &mut Hand<'_>, on: bool) -> Result<bool, Failed> {
    let variables = match (hand.dialect.mariadb, on) {
        // On MySQL one variable refuses all users, another one refuses most.
        (false, true) => "SELECT @@global.super_read_only",
        (_, _) => "SELECT @@global.read_only",
    };
    let value = hand.run("look whether it is read-only", variables).await?;
    Ok(value.scalar().is_some_and(|value| is_on(&value)) == on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn a_commit_is_let_go_only_when_nobody_hears_of_it() {
        let list = |command: &str, user: &str| {
            table(&format!(
                "Id|User|Command|State
                 5|system user|Query|waiting for handler commit
                 7|app|Killed|Waiting for semi-sync ACK from replica
                 8|{user}|{command}|waiting for handler commit
                 9|app|Query|Waiting for global read lock"
            ))
        };
        assert!(commits_wait(&list("Killed", "app")));
        assert_eq!(session_hearing_of_commit(&list("Killed", "app")), None);
        assert_eq!(session_hearing_of_commit(&list("Query", "root")), Some("8".into()));
        assert!(!commits_wait(&table("Id|User|Command|State\n9|app|Sleep|")));
    }
}
