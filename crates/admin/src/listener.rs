//! The socket that the admin listener waits on.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;

use axum::Router;

use super::access::Peer;
use super::bounded::{Bounded, CONNECTIONS_MAX, SILENCE_MAX};
use super::error::StartError;
use super::secured::{SecuredListener, TlsNow};

/// A listening socket, not yet served.
pub struct Bound(Socket);

enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Bound {
    /// Where it listens, if over TCP.
    pub(super) fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

/// Listens, so that a wrong address is reported before anything starts.
///
/// # Errors
/// The address cannot be listened on.
pub fn bind(address: &config::Address) -> Result<Bound, StartError> {
    let listen = || match address {
        config::Address::Tcp { host, port } => {
            let listener = std::net::TcpListener::bind((&**host, *port))?;
            listener.set_nonblocking(true)?;
            Ok(Bound(Socket::Tcp(listener)))
        }
        config::Address::Unix(path) => {
            // A socket that a killed process left behind would be in the way; anything else is not ours to remove.
            let left_behind = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
                && std::os::unix::net::UnixStream::connect(path).is_err();
            if left_behind {
                std::fs::remove_file(path)?;
            }
            let listener = std::os::unix::net::UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(Bound(Socket::Unix(listener)))
        }
    };
    listen().map_err(|cause: io::Error| StartError::Address { address: address.to_string(), cause })
}

/// Serves for as long as it is polled.
pub(super) async fn serve(bound: Bound, tls: TlsNow, app: Router) {
    let served = match bound.0 {
        Socket::Tcp(listener) => match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let listener = bounded(SecuredListener::new(listener, tls));
                axum::serve(listener, app.into_make_service_with_connect_info::<Peer>()).await
            }
            Err(error) => Err(error),
        },
        Socket::Unix(listener) => match tokio::net::UnixListener::from_std(listener) {
            Ok(listener) => axum::serve(bounded(listener), app.into_make_service_with_connect_info::<Peer>()).await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = served {
        tracing::error!("the admin listener ended: {error}");
    }
}

fn bounded<L>(listener: L) -> Bounded<L> {
    Bounded::new(listener, CONNECTIONS_MAX, SILENCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_taken_is_reported_with_its_key() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind(&config::Address::Tcp { host: "127.0.0.1".into(), port }).err().unwrap();
        let words = error.to_string();
        assert!(words.contains("admin.address") && words.contains(&format!("127.0.0.1:{port}")), "{words}");
    }
}
