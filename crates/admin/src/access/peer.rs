//! The address of a client.

use std::net::IpAddr;

use axum::extract::Request;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, UnixListener};

use crate::bounded::Bounded;

/// The address of a client; a local socket has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) Option<IpAddr>);

impl Peer {
    /// That of a request.
    pub(crate) fn of(request: &Request) -> Option<IpAddr> {
        request.extensions().get::<ConnectInfo<Peer>>().and_then(|peer| peer.0.0)
    }
}

impl Connected<IncomingStream<'_, Bounded<TcpListener>>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded<TcpListener>>) -> Peer {
        Peer(Some(stream.remote_addr().ip().to_canonical()))
    }
}

impl Connected<IncomingStream<'_, Bounded<UnixListener>>> for Peer {
    fn connect_info(_: IncomingStream<'_, Bounded<UnixListener>>) -> Peer {
        Peer(None)
    }
}
