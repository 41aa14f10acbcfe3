//! Why a heartbeat is not written to a primary that answers.
//!
//! On a full disk both families wait for room and say nothing to the client, a minute at a time; now and then they refuse with an
//! error. A second connection reads the state of a write that hangs: a lock and a missing acknowledgement have a state of their own.

use std::sync::Arc;
use std::time::Duration;

use cluster::observation::{NotWritten, WriteTrouble};
use net::query::{Limits, QueryError, ResultSet};
use wire::errno;

use super::link::ServerAccess;

/// Errors of a write for which there is no place.
const FULL: [u16; 2] = [errno::ER_DISK_FULL, errno::ER_RECORD_FILE_FULL];
/// The names of the system's error 28 (ENOSPC) in messages of both families.
const NO_SPACE: [&str; 4] = ["No space left on device", "Errcode: 28", "errno: 28", "errno 28"];
/// Lists of sessions.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// The trouble with the disk that a refused write shows.
pub(super) fn of_error(error: &QueryError) -> Option<NotWritten> {
    let refusal = error.server_error()?;
    let full = FULL.contains(&refusal.code) || NO_SPACE.iter().any(|words| refusal.message.contains(words));
    full.then(|| NotWritten { trouble: WriteTrouble::DiskFull, text: error.to_string().into() })
}

/// Looks why session `id` does not get its write done. `None`: the server does not answer, or the session is gone.
pub(super) async fn look(access: &ServerAccess, limit: Duration, id: u32) -> Option<NotWritten> {
    let asked = async {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: limit };
        let mut client = access.open(limit, limits).await.ok()?;
        let list = client.query_one("SHOW PROCESSLIST").await.ok()?;
        let state = state_of(&list, id)?;
        let waiting =
            client.query_one("SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%\\_wait\\_sessions'").await.ok()?;
        let sql = format!("SELECT trx_state FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {id}");
        let transaction = match client.query_one(sql).await {
            Ok(answer) => Ok(answer.scalar().map(|state| state.into_owned()).unwrap_or_default()),
            Err(error) if error.server_error().is_some() => Err(error.to_string()),
            Err(_) => return None,
        };
        let acknowledged =
            (0..waiting.rows.len()).all(|row| waiting.text(row, "Value").is_none_or(|count| count == "0"));
        Some(judge(&state, acknowledged, transaction))
    };
    tokio::time::timeout(limit * 2, asked).await.ok().flatten()
}

fn state_of(list: &ResultSet, id: u32) -> Option<String> {
    let own = |row: &usize| list.text(*row, "Id").is_some_and(|text| text == id.to_string());
    let row = (0..list.rows.len()).find(own)?;
    Some(list.text(row, "State").unwrap_or_default().into_owned())
}

/// The trouble of a write, by the states of its session and transaction, and whether no commit waits for an acknowledgement.
fn judge(state: &str, acknowledged: bool, transaction: Result<String, String>) -> NotWritten {
    let because = |trouble: WriteTrouble, text: &str| NotWritten { trouble, text: Arc::from(text) };
    if !acknowledged || state.starts_with("Waiting for semi-sync ACK") {
        return because(WriteTrouble::Unacknowledged, "its commits wait for the acknowledgement of replicas");
    }
    if state.contains(" lock") {
        return because(WriteTrouble::Locked, &format!("its writes wait for somebody's lock ({state})"));
    }
    match transaction {
        Ok(state) if state == "LOCK WAIT" => because(WriteTrouble::Locked, "the heartbeat's row is locked by somebody"),
        Ok(_) => because(
            WriteTrouble::Stuck,
            "writes hang, and neither a lock nor a missing acknowledgement explains it: its disk is full or hangs",
        ),
        // Without the right PROCESS nothing is known of locks.
        Err(error) => because(WriteTrouble::Locked, &format!("writes hang, and it cannot be seen why: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use wire::handshake::ServerError;

    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn only_what_nothing_explains_is_the_disk() {
        let trouble = |state: &str, acknowledged: bool, transaction: &str| {
            judge(state, acknowledged, Ok(transaction.into())).trouble
        };
        assert_eq!(trouble("Commit", true, "RUNNING"), WriteTrouble::Stuck);
        assert_eq!(trouble("waiting for handler commit", true, ""), WriteTrouble::Stuck);
        assert_eq!(trouble("waiting for handler commit", false, "RUNNING"), WriteTrouble::Unacknowledged);
        assert_eq!(trouble("Waiting for semi-sync ACK from slave", true, ""), WriteTrouble::Unacknowledged);
        assert_eq!(trouble("Waiting for global read lock", true, ""), WriteTrouble::Locked);
        assert_eq!(trouble("Update", true, "LOCK WAIT"), WriteTrouble::Locked);
        assert_eq!(judge("Commit", true, Err("denied".into())).trouble, WriteTrouble::Locked);
    }

    #[test]
    fn a_full_disk_is_known_by_its_errors() {
        let reported = |code: u16, message: &str| {
            of_error(&QueryError::Server(ServerError { code, sqlstate: None, message: message.into() })).is_some()
        };
        assert!(reported(1021, "Disk full (/tmp/#sql); waiting for someone to free some space"));
        assert!(reported(1114, "The table 'heartbeat' is full"));
        assert!(reported(3, "Error writing file './binlog' (Errcode: 28 \"No space left on device\")"));
        assert!(reported(1026, "Error writing file 'x' (errno: 28)"));
        assert!(!reported(1040, "Too many connections") && !reported(1205, "Lock wait timeout exceeded"));
        assert!(of_error(&QueryError::Broken).is_none());
    }

    #[test]
    fn a_session_is_found_by_its_id() {
        let list = table("Id|State\n7|Commit\n71|NULL");
        assert_eq!(state_of(&list, 7).as_deref(), Some("Commit"));
        assert_eq!(state_of(&list, 71).as_deref(), Some(""));
        assert_eq!(state_of(&list, 1), None);
    }
}
