//! Servers for tests.

use std::sync::Arc;

use facts::view::{Health, Role, ServerId, ServerView, View};

/// A server that is up; replicas take reads.
pub(crate) fn server(id: u16, role: Role) -> ServerView {
    ServerView {
        id: ServerId(id),
        name: format!("db{id}").into(),
        address: "".into(),
        resolved: None,
        role,
        health: Health::Up,
        lag: None,
        serves_reads: role == Role::Replica,
        fenced: false,
        weight: 100,
        zone: "".into(),
        reason: "".into(),
    }
}

/// A cluster of these servers, whose primary is the first one of them.
pub(crate) fn view(servers: Vec<ServerView>) -> View {
    let primary = servers.iter().find(|server| server.role == Role::Primary).map(|server| server.id);
    View { primary, servers: Arc::from(servers), ..View::empty("main") }
}

/// A primary, db1, and two replicas.
pub(crate) fn three() -> View {
    view(vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)])
}
