//! A writer directly on a member of a group, beside Sqluice: its longest write tells how long the group itself stood still.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use net::query::QueryError;
use wire::errno;

use super::Shared;
use super::caller::connect;
use super::ledger::Ledger;

/// The table that it writes into.
pub(crate) const TABLE: &str = "CREATE TABLE app.beside (n BIGINT PRIMARY KEY);\n";
/// Between two writes: what is measured may be this much too short.
const PAUSE: Duration = Duration::from_millis(2);
/// A member that has just lost its group takes no write for a moment.
const NOT_NOW: [u16; 2] = [errno::ER_UNKNOWN_COM_ERROR, errno::ER_ERROR_DURING_COMMIT];

/// Writes until the load is to stop, on a member that nothing happens to.
pub(super) async fn write(shared: Arc<Shared>, member: SocketAddr) -> anyhow::Result<Ledger> {
    let mut client = connect(member).await?;
    let mut ledger = Ledger::default();
    for n in 0_u64.. {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let began_ms = shared.clock.now_ms();
        // Marked as another Sqluice's writes are: in the log they are somebody's, and stand in no proof's way.
        while let Err(error) = client.query(format!("/*sq:be51de.1*/INSERT IGNORE INTO beside (n) VALUES ({n})")).await
        {
            if !matches!(&error, QueryError::Server(said) if NOT_NOW.contains(&said.code)) {
                bail!("the writer beside Sqluice fails: {error}");
            }
            tokio::time::sleep(PAUSE).await;
        }
        ledger.beside.push((began_ms, shared.clock.now_ms()));
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ledger)
}
