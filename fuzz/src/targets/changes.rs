//! Streams of binary log events: any bytes are transactions or an error, and a transaction keeps to its limits.
//!
//! The first byte says the family; each event has its length in two bytes in front.

use wire::binlog::KEYS_MAX;
use wire::binlog::changes::{Changes, LoggedChange, STATEMENT_BYTES_MAX, STATEMENTS_MAX, Said, TABLES_MAX};

/// See the module.
pub fn run(data: &[u8]) {
    let Some((family, mut rest)) = data.split_first() else { return };
    let mut changes = Changes::new(family & 1 != 0);
    while let [low, high, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (event, behind) = behind.split_at(length);
        rest = behind;
        let Ok(said) = changes.take(event) else { return };
        let Said::Committed(transaction) = said else { continue };
        let LoggedChange::These { tables, statements } = transaction.what else { continue };
        assert!(tables.len() <= TABLES_MAX && statements.len() <= STATEMENTS_MAX);
        assert!(statements.iter().all(|statement| statement.text.len() <= STATEMENT_BYTES_MAX));
        let keys: usize = tables.iter().filter_map(|table| table.keys.as_ref()).map(|keys| keys.len()).sum();
        assert!(keys <= KEYS_MAX);
    }
}
