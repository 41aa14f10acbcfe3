//! The row of the heartbeat: its name, and the statements that read and write it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use net::query::{Client, QueryError};
use wire::errno;
use wire::handshake::ServerError;

use crate::monitor::dialect::is_on;

/// How many machines' rows there are at most.
const SLOTS: u64 = 1024;

/// The row that this process writes: its schema and its slot.
#[derive(Clone, Debug)]
pub(crate) struct HeartbeatRow {
    schema: Arc<str>,
    slot: u64,
}

impl HeartbeatRow {
    pub(crate) fn new(schema: &Arc<str>) -> HeartbeatRow {
        let mut hasher = DefaultHasher::new();
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().hash(&mut hasher);
        HeartbeatRow { schema: schema.clone(), slot: hasher.finish() % SLOTS }
    }

    fn table(&self) -> String {
        format!("`{}`.heartbeat", self.schema.replace('`', "``"))
    }

    /// Reads the row's time.
    pub(crate) fn select(&self) -> String {
        format!("SELECT at_us FROM {} WHERE writer = {}", self.table(), self.slot)
    }

    /// Writes the row, or changes nothing on a server that is read-only: failover gives the user rights that see past
    /// `read_only`, and must not find a transaction that no other server has. A server that becomes read-only waits for
    /// statements that write, and those that come later look after it has become so.
    fn write(&self, at_us: u64) -> String {
        format!(
            "INSERT INTO {} (writer, at_us) SELECT {}, {at_us} FROM DUAL \
             WHERE CAST(@@global.read_only AS CHAR) IN ('0', 'OFF') ON DUPLICATE KEY UPDATE at_us = {at_us}",
            self.table(),
            self.slot
        )
    }

    /// The same without looking: replicas that get the statement itself would look at their own state.
    fn write_plainly(&self, at_us: u64) -> String {
        format!(
            "INSERT INTO {} (writer, at_us) VALUES ({}, {at_us}) ON DUPLICATE KEY UPDATE at_us = {at_us}",
            self.table(),
            self.slot
        )
    }

    fn create_schema(&self) -> String {
        format!("CREATE DATABASE IF NOT EXISTS `{}`", self.schema.replace('`', "``"))
    }

    fn create_table(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (writer SMALLINT UNSIGNED NOT NULL PRIMARY KEY, \
             at_us BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB \
             COMMENT 'Sqluice measures replication lag with it; one row per machine'",
            self.table()
        )
    }

    /// Writes the row, with its table and schema if they are not there yet.
    pub(super) async fn write_to(&self, client: &mut Client, at_us: u64, by_statement: bool) -> Result<(), QueryError> {
        let refused = || {
            let message = "the server is read-only".to_owned();
            Err(QueryError::Server(ServerError { code: errno::ER_OPTION_PREVENTS_STATEMENT, sqlstate: None, message }))
        };
        if by_statement && is_read_only(client).await? {
            return refused();
        }
        let statement = if by_statement { self.write_plainly(at_us) } else { self.write(at_us) };
        match client.query_one(&statement).await {
            Ok(written) if written.affected == 0 => return refused(),
            Ok(_) => return Ok(()),
            // No such schema (reported as a missing table, too) or table yet.
            Err(error) if matches!(error.code(), Some(errno::ER_BAD_DB_ERROR | errno::ER_NO_SUCH_TABLE)) => {
                if is_read_only(client).await? {
                    return refused();
                }
                match client.query(self.create_table()).await {
                    Err(error) if error.code() == Some(errno::ER_BAD_DB_ERROR) => {
                        client.query(self.create_schema()).await?;
                        client.query(self.create_table()).await?;
                    }
                    created => drop(created?),
                }
            }
            Err(error) => return Err(error),
        }
        client.query(statement).await.map(drop)
    }
}

async fn is_read_only(client: &mut Client) -> Result<bool, QueryError> {
    let read_only = client.query_one("SELECT @@global.read_only").await?;
    Ok(read_only.scalar().is_none_or(|value| is_on(&value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_cannot_break_out_of_its_quotes() {
        let row = HeartbeatRow { schema: "a`b".into(), slot: 3 };
        assert_eq!(row.select(), "SELECT at_us FROM `a``b`.heartbeat WHERE writer = 3");
        assert!(row.write(9).ends_with("ON DUPLICATE KEY UPDATE at_us = 9"));
        assert!(row.write_plainly(9).contains("VALUES (3, 9)"));
    }
}
