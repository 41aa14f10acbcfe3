//! How old the answers are that readers get: one session ticks, others read, and none of the readers writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Shared;
use super::caller::connect;
use super::ledger::Ledger;

/// Between two ticks, and two reads of one reader.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes the time into a row, again and again; `newest` is what was acknowledged last.
pub(super) async fn tick(shared: Arc<Shared>, newest: Arc<AtomicU64>) -> anyhow::Result<Ledger> {
    let mut client = connect(shared.addresses[0]).await?;
    let mut ledger = Ledger::default();
    while !shared.stop.load(Ordering::Relaxed) {
        let now = shared.clock.now_ms() as u64;
        match client.query(format!("UPDATE clock SET tick = {now} WHERE id = 1")).await {
            Ok(_) => drop(newest.fetch_max(now, Ordering::Relaxed)),
            Err(error) => {
                ledger.error("tick", &error);
                client = connect(shared.addresses[0]).await?;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ledger)
}

/// Reads it, and keeps the greatest difference to what had been acknowledged when the read began.
pub(super) async fn read(shared: Arc<Shared>, newest: Arc<AtomicU64>) -> anyhow::Result<Ledger> {
    let mut client = connect(shared.addresses[0]).await?;
    let mut ledger = Ledger::default();
    while !shared.stop.load(Ordering::Relaxed) {
        let acknowledged = newest.load(Ordering::Relaxed);
        match client.query_one("SELECT tick FROM clock WHERE id = 1").await {
            Ok(result) => {
                let tick = result.scalar().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
                let age = if tick == 0 { 0 } else { acknowledged.saturating_sub(tick) };
                ledger.oldest_ms = ledger.oldest_ms.max(age as f64);
                ledger.age_reads += 1;
            }
            Err(error) => {
                ledger.error("reader", &error);
                client = connect(shared.addresses[0]).await?;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ledger)
}
