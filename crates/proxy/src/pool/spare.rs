//! Connections that are more than their user's sessions could use at a time.

use std::collections::HashMap;
use std::rc::Rc;
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

/// Counts as one of a user's sessions on a worker while it lives.
#[derive(Debug)]
pub struct SessionHere {
    pools: Rc<Pools>,
    user: Arc<str>,
}

impl SessionHere {
    /// A user has one more session on this worker.
    pub fn begin(pools: &Rc<Pools>, user: &Arc<str>) -> SessionHere {
        *pools.sessions.borrow_mut().entry(user.clone()).or_insert(0) += 1;
        SessionHere { pools: pools.clone(), user: user.clone() }
    }
}

impl Drop for SessionHere {
    fn drop(&mut self) {
        let mut sessions = self.pools.sessions.borrow_mut();
        if let Some(count) = sessions.get_mut(&*self.user) {
            *count -= 1;
            if *count == 0 {
                sessions.remove(&*self.user);
            }
        }
    }
}

impl Pools {
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
