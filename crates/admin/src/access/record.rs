//! The record of changes: orders of operators, and readings of the configuration. The page's timeline shows it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use events::Admin;

/// Changes that are remembered. The log has all of them.
const CHANGES_MAX: usize = 500;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeRecord {
    /// When it was ordered.
    pub(crate) at: SystemTime,
    /// `start`, `reload`, `login` or `order`.
    pub(crate) kind: &'static str,
    /// Its way in: `api` or `console`.
    pub(crate) way: &'static str,
    /// The role of the key, if somebody ordered it.
    pub(crate) role: Option<&'static str>,
    /// The address of the client.
    pub(crate) client: Option<IpAddr>,
    /// The request, or what changed.
    pub(crate) text: String,
    /// The body of the request, shortened.
    pub(crate) order: String,
    /// The result.
    pub(crate) result: String,
}

impl ChangeRecord {
    /// The same for the log of events.
    pub(crate) fn as_event(&self) -> Admin {
        Admin {
            way: self.way,
            role: self.role.unwrap_or_default().to_owned(),
            client: self.client.map(|client| client.to_string()).unwrap_or_default(),
            action: self.text.clone(),
            order: self.order.clone(),
            // It is a status of HTTP, unless there was no reply.
            ok: self.result.starts_with('2'),
            result: self.result.clone(),
        }
    }
}

/// The newest changes, the oldest first.
#[derive(Default)]
pub(crate) struct Record(Mutex<VecDeque<ChangeRecord>>);

impl Record {
    /// Remembers one, and writes a line to the log.
    pub(crate) fn note(&self, change: ChangeRecord) {
        let ChangeRecord { kind, way, role, client, text, order, result, .. } = &change;
        if let Some(role) = role {
            let client = client.map_or_else(|| "local".to_owned(), |client| client.to_string());
            tracing::info!(way, role, client, order, result, "audit: {kind}: {text}");
        }
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() >= CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// Remembers something that nobody ordered over HTTP. The log has it already.
    pub(crate) fn event(&self, kind: &'static str, text: String) {
        let (at, order, result) = (SystemTime::now(), String::new(), String::new());
        self.note(ChangeRecord { at, kind, way: "api", role: None, client: None, text, order, result });
    }

    /// The newest changes, the newest first.
    pub(crate) fn newest(&self, limit: usize) -> Vec<ChangeRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let record = Record::default();
        (0..CHANGES_MAX + 3).for_each(|number| record.event("reload", number.to_string()));
        let texts: Vec<String> = record.newest(2).into_iter().map(|change| change.text).collect();
        assert_eq!(texts, ["502", "501"]);
        assert_eq!(record.newest(usize::MAX).len(), CHANGES_MAX);
    }
}
