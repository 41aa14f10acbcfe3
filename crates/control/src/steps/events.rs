//! Events of the servers (`CREATE EVENT`): they run on the primary only, and move with its role.
//!
//! Whatever comes by replication is disabled on a replica, also what its source had disabled, so a replica does not know which of its
//! events ran: that is read on the primary. `ALTER EVENT` takes the session's user, character set and collation, which would make
//! another event of it, so all three are said as they were. None of it is written to the binary log: a replica of the new
//! primary has these events disabled already, and the old one would have a transaction of its own. Whether the server runs
//! events at all, `event_scheduler`, is a setting of each server and is carried over, too.

use std::collections::BTreeSet;

use net::query::ResultSet;

use super::{Clients, Failed, FailedKind, Hand, set_read_only, text};
use crate::monitor::dialect::is_on;

/// Events that are moved; a server with more is reported.
const EVENTS_MAX: usize = 1_000;
/// The privileges that an error names; servers name only the first that is missing.
const RIGHTS_MARIADB: &str = "EVENT, BINLOG ADMIN and SET USER";
const RIGHTS_MYSQL: &str = "EVENT, SET_ANY_DEFINER, and SYSTEM_USER for events of users who have it";

/// The privilege that switches the event scheduler on.
const SCHEDULER_RIGHT_MARIADB: &str = "SUPER";
const SCHEDULER_RIGHT_MYSQL: &str = "SYSTEM_VARIABLES_ADMIN";

/// An event's schema and name.
pub(crate) type EventName = (String, String);

/// The events that run on a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Running {
    /// The enabled events.
    pub(crate) events: BTreeSet<EventName>,
    /// `event_scheduler` is on.
    pub(crate) scheduler: bool,
}

/// How an event is when it runs, and when it came by replication: `SLAVESIDE_DISABLED`, with newer MySQL `REPLICA_SIDE_DISABLED`.
const ENABLED: &str = "STATUS = 'ENABLED'";
const REPLICATED: &str = "STATUS LIKE '%SIDE_DISABLED'";

struct Event {
    name: EventName,
    definer: String,
    charset: String,
    collation: String,
}

/// The events that run on a server that takes writes; `None` when it is read-only. At most one event more than are moved.
pub(crate) async fn events_of_primary(hand: &mut Hand<'_>) -> Result<Option<Running>, Failed> {
    let read_only = hand.run("look whether it is read-only", "SELECT @@global.read_only").await?;
    match read_only.scalar() {
        // MariaDB 12 has words for it, all of which begin with NO_LOCK or are ON.
        Some(value) if value == "0" || value.eq_ignore_ascii_case("off") => running_events(hand).await.map(Some),
        _ => Ok(None),
    }
}

/// The events that run. At most one event more than are moved.
pub(crate) async fn running_events(hand: &mut Hand<'_>) -> Result<Running, Failed> {
    let events = read(hand, ENABLED).await?.into_iter().map(|event| event.name).collect();
    Ok(Running { events, scheduler: has_scheduler(hand).await? })
}

/// Disables the enabled events as they are on a replica.
///
/// # Errors
/// Some are still enabled, in words; the others are disabled.
pub(crate) async fn disable_events(hand: &mut Hand<'_>) -> Result<(), Failed> {
    let events = read(hand, ENABLED).await?;
    if events.is_empty() {
        return is_allowed(hand).await;
    }
    // No user may change events then. `read_only` stays, which refuses all but the privileged.
    let lift = !hand.dialect.mariadb && is_super_read_only(hand).await?;
    if lift {
        hand.run("disable events", "SET GLOBAL super_read_only = 0").await?;
    }
    let word = if !hand.dialect.mariadb && hand.dialect.number >= 90_000 { "REPLICA" } else { "SLAVE" };
    let done = alter(hand, &events, &format!("DISABLE ON {word}")).await;
    if lift {
        set_read_only(hand, true, Clients::Stay).await?;
    }
    done
}

/// Enables those of the `wanted` events that replication has disabled here; without `wanted`, none. Then switches the event scheduler
/// on if it was on there, and that is to be carried over.
///
/// # Errors
/// Some are not enabled, or do not run since the event scheduler is off, in words. The rest is done.
pub(crate) async fn enable_events(
    hand: &mut Hand<'_>,
    wanted: Option<&Running>,
    carries_scheduler: bool,
) -> Result<(), Failed> {
    let events = read(hand, REPLICATED).await?;
    let Some(wanted) = wanted else {
        if events.is_empty() {
            return is_allowed(hand).await;
        }
        let text =
            format!("{} events are disabled, and which of them ran on the primary before is not known", events.len());
        return Err(Failed::refused(text));
    };
    let enabled = match (wanted.events.is_empty(), events.is_empty()) {
        (true, true) => is_allowed(hand).await,
        _ => {
            let events: Vec<Event> = events.into_iter().filter(|event| wanted.events.contains(&event.name)).collect();
            if events.is_empty() { Ok(()) } else { alter(hand, &events, "ENABLE").await }
        }
    };
    match enabled {
        // The connection is not used again.
        Err(failed) if matches!(failed.kind, FailedKind::Lost | FailedKind::TimedOut) => Err(failed),
        enabled => {
            let scheduled = schedule(hand, wanted, carries_scheduler).await;
            enabled.and(scheduled)
        }
    }
}

/// Sees to it that events run, if they did where these come from. Where they did not, this server's own setting stays.
async fn schedule(hand: &mut Hand<'_>, wanted: &Running, carries: bool) -> Result<(), Failed> {
    if !wanted.scheduler || has_scheduler(hand).await? {
        return Ok(());
    }
    let idle = "no event runs: event_scheduler is off here and was on on the old primary";
    if !carries {
        return Err(Failed::refused(idle));
    }
    let done = hand.run("switch the event scheduler on", "SET GLOBAL event_scheduler = ON").await;
    done.map(drop).map_err(|mut failed| {
        let right = if hand.dialect.mariadb { SCHEDULER_RIGHT_MARIADB } else { SCHEDULER_RIGHT_MYSQL };
        let needs = match failed.kind {
            FailedKind::Denied => format!("; that needs the right {right}"),
            _ => String::new(),
        };
        failed.text = format!("{idle}; {}{needs}", failed.text);
        failed
    })
}

async fn has_scheduler(hand: &mut Hand<'_>) -> Result<bool, Failed> {
    let scheduler = hand.run("look at the event scheduler", "SELECT @@global.event_scheduler").await?;
    // The third word is DISABLED, which only a restart changes.
    Ok(scheduler.scalar().is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("on")))
}

async fn read(hand: &mut Hand<'_>, which: &str) -> Result<Vec<Event>, Failed> {
    let sql = format!(
        "SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION \
         FROM information_schema.EVENTS WHERE {which} ORDER BY 1, 2 LIMIT {}",
        EVENTS_MAX + 1
    );
    Ok(events(&hand.run("read its events", sql).await?))
}

fn events(answer: &ResultSet) -> Vec<Event> {
    let event = |row: &Vec<Option<Vec<u8>>>| {
        // A name that is not text cannot be said again.
        let cell = |index: usize| String::from_utf8(row.get(index)?.clone()?).ok();
        Some(Event { name: (cell(0)?, cell(1)?), definer: cell(2)?, charset: cell(3)?, collation: cell(4)? })
    };
    answer.rows.iter().filter_map(event).collect()
}

async fn is_super_read_only(hand: &mut Hand<'_>) -> Result<bool, Failed> {
    let value = hand.run("look whether it is read-only", "SELECT @@global.super_read_only").await?;
    Ok(value.scalar().is_some_and(|value| is_on(&value)))
}

/// Without the right EVENT none is seen, which looks like having none.
async fn is_allowed(hand: &mut Hand<'_>) -> Result<(), Failed> {
    let grants = hand.run("read its own rights", "SHOW GRANTS").await?;
    let mut lines = grants.rows.iter().filter_map(|row| row.first()?.as_deref()).map(String::from_utf8_lossy);
    if lines.any(|line| sees_events(&line)) {
        return Ok(());
    }
    Err(Failed::new(
        FailedKind::Denied,
        "without the right EVENT its events, if it has any, are not seen and stay as they are",
    ))
}

fn sees_events(grant: &str) -> bool {
    let rights =
        grant.strip_prefix("GRANT ").and_then(|grant| grant.split_once(" ON ")).map_or("", |(rights, _)| rights);
    rights.split(", ").any(|right| matches!(right, "EVENT" | "ALL PRIVILEGES"))
}

/// Changes events one by one, and the session back behind them.
async fn alter(hand: &mut Hand<'_>, events: &[Event], change: &str) -> Result<(), Failed> {
    let what = "change events";
    let session = "SELECT @@character_set_client, @@collation_connection";
    let before = hand.run(what, session).await?;
    let cell = |index: usize| before.rows.first().and_then(|row| String::from_utf8(row.get(index)?.clone()?).ok());
    let (Some(charset), Some(collation)) = (cell(0), cell(1)) else {
        return Err(Failed::refused(format!("cannot {what}: the session's character set is unknown")));
    };
    // Ours ends with the step, so that no statement waits for a lock there and changes an event later.
    let seconds = hand.left().as_secs().max(1);
    let session = format!("SET SESSION sql_log_bin = 0, lock_wait_timeout = {seconds}");
    hand.run(what, session).await.map_err(|failed| with_rights(hand, failed))?;
    let (mut wrong, mut first) = (0, None);
    for event in events.iter().take(EVENTS_MAX) {
        let done = match statement(event, change) {
            Some(sql) => hand.run(what, sql).await,
            None => Err(Failed::refused("its name cannot be said in its own character set")),
        };
        match done {
            Ok(_) => {}
            Err(failed) if matches!(failed.kind, FailedKind::Denied | FailedKind::Refused) => {
                wrong += 1;
                first
                    .get_or_insert_with(|| format!("{}.{}: {}", event.name.0, event.name.1, with_rights(hand, failed)));
            }
            // The connection is not used again.
            Err(failed) => return Err(failed),
        }
    }
    hand.run(what, format!("{}; SET SESSION sql_log_bin = 1", session_of(&charset, &collation))).await?;
    match first {
        Some(first) => Err(Failed::refused(format!("{wrong} events stay as they are; {first}"))),
        None if events.len() > EVENTS_MAX => {
            Err(Failed::refused(format!("it has more than {EVENTS_MAX} events; those behind them stay as they are")))
        }
        None => Ok(()),
    }
}

fn with_rights(hand: &Hand<'_>, mut failed: Failed) -> Failed {
    if failed.kind == FailedKind::Denied {
        let rights = if hand.dialect.mariadb { RIGHTS_MARIADB } else { RIGHTS_MYSQL };
        failed.text = format!("{}; events need the rights {rights}", failed.text);
    }
    failed
}

fn session_of(charset: &str, collation: &str) -> String {
    format!("SET SESSION character_set_client = {}, collation_connection = {}", text(charset), text(collation))
}

/// `None` when the statement would be read as another one in the event's character set.
fn statement(event: &Event, change: &str) -> Option<String> {
    let definer = match event.definer.rsplit_once('@') {
        Some((user, host)) if !host.is_empty() => format!("{}@{}", text(user), text(host)),
        // A role.
        Some((role, _)) => text(role),
        None => text(&event.definer),
    };
    let (schema, name) = (quoted(&event.name.0), quoted(&event.name.1));
    let alter = format!("ALTER DEFINER = {definer} EVENT {schema}.{name} {change}");
    if !alter.is_ascii() && !event.charset.starts_with("utf8") {
        return None;
    }
    Some(format!("{}; {alter}", session_of(&event.charset, &event.collation)))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, definer: &str, charset: &str) -> Event {
        let collation = format!("{charset}_bin");
        Event { name: ("shop".into(), name.into()), definer: definer.into(), charset: charset.into(), collation }
    }

    #[test]
    fn an_event_keeps_its_definer_and_its_character_set() {
        assert_eq!(
            statement(&event("a`b", "o'x@y@10.%", "latin1"), "ENABLE").as_deref(),
            Some(
                "SET SESSION character_set_client = 'latin1', collation_connection = 'latin1_bin'; \
                 ALTER DEFINER = 'o''x@y'@'10.%' EVENT `shop`.`a``b` ENABLE"
            )
        );
        assert!(statement(&event("größe", "a@b", "utf8mb4"), "ENABLE").is_some());
        assert_eq!(statement(&event("größe", "a@b", "latin1"), "ENABLE"), None);
    }

    #[test]
    fn the_right_to_see_events_is_found_among_others() {
        assert!(sees_events("GRANT SELECT, EVENT, TRIGGER ON *.* TO `a`@`%`"));
        assert!(sees_events("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION"));
        assert!(sees_events("GRANT EVENT ON `shop`.* TO `a`@`%`"));
        assert!(!sees_events("GRANT SELECT ON `EVENT`.* TO `a`@`%`"));
    }
}
