//! The open backend connections of a cluster, by the servers' ids of them: lists of processes tell them from other clients' connections.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use facts::view::ServerId;

type Open = Mutex<HashSet<(ServerId, u64)>>;

/// All open backend connections of a cluster.
#[derive(Debug, Default)]
pub struct Backends {
    open: Arc<Open>,
}

/// Keeps a backend connection in the list for as long as it is open.
#[derive(Debug)]
pub struct Listed {
    open: Arc<Open>,
    entry: (ServerId, u64),
}

impl Backends {
    /// A connection was opened.
    pub fn add(&self, server: ServerId, thread_id: u64) -> Listed {
        let entry = (server, thread_id);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(entry);
        Listed { open: self.open.clone(), entry }
    }

    /// The ids that a server has for its connections from here.
    pub fn on(&self, server: ServerId) -> HashSet<u64> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|(on, _)| *on == server).map(|(_, thread_id)| *thread_id).collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_listed_while_it_is_open() {
        let backends = Backends::default();
        let one = backends.add(ServerId(0), 7);
        let _other = backends.add(ServerId(1), 7);
        assert_eq!(backends.on(ServerId(0)), HashSet::from([7]));
        drop(one);
        assert!(backends.on(ServerId(0)).is_empty() && !backends.on(ServerId(1)).is_empty());
    }
}
