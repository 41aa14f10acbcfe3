//! Connections that are more than their user's sessions could use at a time.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Connection, Pools};

/// How many idle connections each user could spare, and which of the users no server knows any more.
#[derive(Debug)]
pub(super) struct Spare {
    counts: HashMap<Arc<str>, usize>,
    gone: Vec<Arc<str>>,
}

impl Spare {
    /// The user's account was dropped.
    pub(super) fn has_gone(&self, user: &str) -> bool {
        self.gone.iter().any(|gone| **gone == *user)
    }

    /// Takes one of the user's, if one can be spared.
    pub(super) fn take(&mut self, user: &str) -> bool {
        match self.counts.get_mut(user) {
            Some(spare) if *spare > 0 => {
                *spare -= 1;
                true
            }
            _ => false,
        }
    }
}

impl Pools {
    /// A user has one more session on this worker.
    pub fn session_began(&self, user: &Arc<str>) {
        *self.sessions.borrow_mut().entry(user.clone()).or_insert(0) += 1;
    }

    /// A user has one session less on this worker.
    pub fn session_ended(&self, user: &str) {
        let mut sessions = self.sessions.borrow_mut();
        if let Some(count) = sessions.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                sessions.remove(user);
            }
        }
    }

    pub(super) fn spare(&self, idle: &[Box<Connection>]) -> Spare {
        let mut counts = HashMap::new();
        for connection in idle {
            *counts.entry(connection.origin.key.user.clone()).or_insert(0) += 1;
        }
        let sessions = self.sessions.borrow();
        for (user, count) in &mut counts {
            *count -= sessions.get(user).copied().unwrap_or(0).min(*count);
        }
        let accounts = self.shared.published.accounts.load();
        let gone = counts.keys().filter(|user| !accounts.may_know(user)).cloned().collect();
        Spare { counts, gone }
    }
}
