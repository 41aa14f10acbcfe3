//! Whether new clients should be sent here.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use facts::view::{Health, View};

use crate::shared::Shared;

/// The answer of `/readyz`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    pub(crate) words: String,
}

/// Ready when each cluster has a primary or at least a server that takes reads, and the process does not drain.
pub(crate) fn readiness(shared: &Shared) -> Readiness {
    if shared.draining.load(Ordering::Relaxed) {
        return Readiness { ready: false, words: "draining: no new clients\n".into() };
    }
    let mut answer = Readiness { ready: true, words: String::new() };
    for (name, status) in shared.clusters() {
        let view = status.published().view.load_full();
        let (serves, words) = verdict(&view);
        answer.ready &= serves;
        // Writing to a String cannot fail.
        let _ = writeln!(answer.words, "cluster {name}: {words}");
        if !serves {
            for server in view.servers.iter() {
                let _ = writeln!(answer.words, "  {}: {}, {}", server.name, server.health.word(), server.reason);
            }
        }
    }
    if answer.words.is_empty() {
        return Readiness { ready: false, words: "no cluster is watched yet\n".into() };
    }
    answer
}

fn verdict(view: &View) -> (bool, String) {
    let primary = view.primary.and_then(|id| view.server(id)).map(|server| &server.name);
    let reads = view.servers.iter().any(|server| server.serves_reads && server.health != Health::Down);
    match (primary, reads) {
        (Some(primary), _) => (true, format!("ready, primary {primary}")),
        (None, true) => (true, "ready for reads only, no primary".into()),
        (None, false) => (false, "not ready, no server takes reads or writes".into()),
    }
}
