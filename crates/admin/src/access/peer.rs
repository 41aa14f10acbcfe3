//! The client of a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, UnixListener};

use crate::bounded::Bounded;
use crate::secured::SecuredListener;

/// The client of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its address; a local socket has none.
    address: Option<IpAddr>,
    /// It speaks TLS, as far as it has spoken.
    is_tls: Arc<AtomicBool>,
}

impl Peer {
    /// The address of a request's client.
    pub(crate) fn of(request: &Request) -> Option<IpAddr> {
        request.extensions().get::<ConnectInfo<Peer>>().and_then(|peer| peer.0.address)
    }

    /// Whether a request came over TLS.
    pub(crate) fn is_tls(request: &Request) -> bool {
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        peer.is_some_and(|peer| peer.0.is_tls.load(Ordering::Relaxed))
    }
}

impl Connected<IncomingStream<'_, Bounded<SecuredListener<TcpListener>>>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded<SecuredListener<TcpListener>>>) -> Peer {
        Peer { address: Some(stream.remote_addr().ip().to_canonical()), is_tls: stream.io().inner().is_tls() }
    }
}

impl Connected<IncomingStream<'_, Bounded<UnixListener>>> for Peer {
    fn connect_info(_: IncomingStream<'_, Bounded<UnixListener>>) -> Peer {
        Peer { address: None, is_tls: Arc::default() }
    }
}
