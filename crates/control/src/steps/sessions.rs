//! Ending the sessions of clients.

use std::time::Duration;

use net::query::ResultSet;
use wire::errno;

use super::{Failed, Hand};

/// Sessions that are ended by one packet.
const BATCH: usize = 64;
/// How often the list is read again, for sessions that came while others were ended.
const ROUNDS_MAX: usize = 20;

/// Ends all sessions of clients; those of replicas, of the server itself, of this user and of `spare` stay. Gives how many
/// were ended. A heartbeat of this user is ended as well while it is being written: it may wait for the acknowledgement of
/// replicas that are gone, and until then the server cannot become read-only.
///
/// Without the right PROCESS the list has the own sessions only, and no session is ended: that is reported as a failure when
/// the user cannot have it.
pub(crate) async fn end_sessions(hand: &mut Hand<'_>, spare: &[&str]) -> Result<usize, Failed> {
    let what = "end the sessions of clients";
    let user = hand.run(what, "SELECT CURRENT_USER(), USER()").await?;
    let own = user.rows.first().and_then(|row| row.get(1)?.as_deref()).map(String::from_utf8_lossy);
    let own = own.as_deref().and_then(|user| user.rsplit_once('@')).map_or("", |(user, _)| user).to_owned();
    let mut ended = 0;
    let mut protected: Vec<u64> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let list = hand.run(what, "SHOW PROCESSLIST").await?;
        let ids: Vec<u64> = clients(&list, &own, spare).filter(|id| !protected.contains(id)).collect();
        if ids.is_empty() {
            return Ok(ended);
        }
        for batch in ids.chunks(BATCH) {
            ended += end(hand, batch, &mut protected).await?;
        }
        // A session that is being ended stays in the list until its statement has noticed.
        hand.pause(what, Duration::from_millis(5)).await?;
    }
    Ok(ended)
}

async fn end(hand: &mut Hand<'_>, ids: &[u64], protected: &mut Vec<u64>) -> Result<usize, Failed> {
    let what = "end the sessions of clients";
    let all: Vec<String> = ids.iter().map(|id| format!("KILL {id}")).collect();
    match tokio::time::timeout_at(hand.until, hand.client.query(all.join(";"))).await {
        Ok(Ok(_)) => return Ok(ids.len()),
        Ok(Err(error)) if matches!(error.code(), Some(errno::ER_NO_SUCH_THREAD | errno::ER_KILL_DENIED_ERROR)) => {}
        Ok(Err(error)) => return Err(super::failed(what, &error)),
        Err(_) => return Err(hand.late(what)),
    }
    // One of them was gone, and the rest of the packet was not run.
    let mut ended = 0;
    for (id, kill) in ids.iter().zip(all) {
        match tokio::time::timeout_at(hand.until, hand.client.query(kill)).await {
            Ok(Ok(_)) => ended += 1,
            Ok(Err(error)) if error.code() == Some(errno::ER_NO_SUCH_THREAD) => {}
            Ok(Err(error)) if error.code() == Some(errno::ER_KILL_DENIED_ERROR) => protected.push(*id),
            Ok(Err(error)) => return Err(super::failed(what, &error)),
            Err(_) => return Err(hand.late(what)),
        }
    }
    Ok(ended)
}

/// The sessions of clients in a process list.
fn clients<'a>(list: &'a ResultSet, own: &'a str, spare: &'a [&str]) -> impl Iterator<Item = u64> + 'a {
    (0..list.rows.len()).filter_map(move |row| {
        let text = |column: &str| list.text(row, column).unwrap_or_default();
        let (user, command) = (text("User"), text("Command"));
        let server = matches!(&*user, "system user" | "event_scheduler" | "unauthenticated user" | "mysql.session")
            || command == "Daemon"
            || command.starts_with("Binlog Dump")
            || command.starts_with("Slave_")
            // MariaDB shows what is ended already until it is gone.
            || command == "Killed";
        let heartbeat = text("Info").starts_with("INSERT INTO");
        if server || (user == own && !heartbeat) || spare.contains(&&*user) {
            return None;
        }
        text("Id").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn replicas_the_server_and_ourselves_are_spared() {
        let list = table(
            "Id|User|Host|db|Command|Time|State|Info
             5|event_scheduler|localhost|NULL|Daemon|26|Waiting|NULL
             7|system user|||Slave_IO|3|Waiting|NULL
             8|repl|10.0.0.2:4000|NULL|Binlog Dump GTID|9||NULL
             9|repl|10.0.0.2:4000|NULL|Binlog Dump|9||NULL
             10|app|10.0.0.9:4000|shop|Sleep|9||NULL
             11|app|10.0.0.9:4001|shop|Query|1|update|INSERT
             12|sqluice|10.0.0.9:4002|NULL|Query|0||SHOW PROCESSLIST
             13|backup|10.0.0.9:4003|NULL|Query|100||SELECT
             14|app|10.0.0.9:4001|shop|Killed|1||NULL
             15|unauthenticated user|10.0.0.9|NULL|Connect|0||NULL
             16|sqluice|10.0.0.9:4007|NULL|Query|9|Waiting for semi-sync ACK from slave|INSERT INTO `sqluice`.heartbeat",
        );
        assert_eq!(clients(&list, "sqluice", &["backup"]).collect::<Vec<_>>(), [10, 11, 16]);
    }
}
