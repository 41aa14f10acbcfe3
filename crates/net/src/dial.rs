//! Connecting to a name that has several addresses: RFC 8305, "Happy Eyeballs".
//!
//! Attempts run side by side, each begun when the one before has failed or has taken too long, the address families taking
//! turns. An address that swallows packets then costs a quarter of a second, not the whole time.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::tls::ClientTls;
use crate::{Address, Stream};

/// How long an attempt is alone before the next begins, as RFC 8305 recommends.
const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Opens a connection to something that speaks TLS from the first byte, or not at all. Has no time limit of its own.
///
/// # Errors
/// The name is unknown, nobody answers, or the certificate does not please.
pub async fn open(address: &Address, tls: &ClientTls) -> io::Result<Stream> {
    let (host, port) = match address {
        Address::Tcp { host, port } => (host.as_str(), *port),
        Address::Unix(path) => return Ok(UnixStream::connect(path).await?.into()),
    };
    let tcp = connect(tokio::net::lookup_host((host, port)).await?).await?;
    tcp.set_nodelay(true)?;
    if tls.is_wanted() { tls.connect(tcp, host).await } else { Ok(tcp.into()) }
}

type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to the first of these addresses that answers. Has no time limit of its own.
///
/// # Errors
/// There is no address, or all failed: the last failure.
pub(crate) async fn connect(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = in_turns(addresses.take(ADDRESSES_MAX).collect()).into_iter();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        match waiting.next() {
            Some(address) => attempts.push(Box::pin(TcpStream::connect(address))),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let finished = poll_fn(|cx| {
            for (index, attempt) in attempts.iter_mut().enumerate() {
                if let Poll::Ready(result) = attempt.as_mut().poll(cx) {
                    drop(attempts.swap_remove(index));
                    return Poll::Ready(result);
                }
            }
            Poll::Pending
        });
        let result = match waiting.len() {
            0 => Some(finished.await),
            _ => timeout(HEAD_START, finished).await.ok(),
        };
        match result {
            Some(Ok(tcp)) => return Ok(tcp),
            Some(Err(error)) => last = error,
            None => {}
        }
    }
}

/// The families taking turns, beginning with the first address's; each in the order that the system gave.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        let before = all.len();
        all.extend(one.next());
        all.extend(other.next());
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use socket2::{Domain, Socket, Type};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[test]
    fn families_take_turns() {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let given = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
        assert_eq!(in_turns(given), of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
        assert_eq!(in_turns(of(&["1.1.1.1:1"])), of(&["1.1.1.1:1"]));
        assert_eq!(in_turns(Vec::new()), of(&[]));
    }

    /// An address that takes no connection and refuses none: its queue is full.
    fn silent() -> (Socket, Vec<Socket>, SocketAddr) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let fill = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
            socket
        };
        let queued = (0..4).map(|_| fill()).collect();
        let address = address.as_socket().unwrap();
        (listener, queued, address)
    }

    #[tokio::test]
    async fn a_silent_address_costs_its_head_start_and_a_refusing_one_nothing() {
        let (_listener, _queued, silent) = silent();
        // Bound, so that nobody else can listen there meanwhile.
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed_address = closed.local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = open.local_addr().unwrap();
        let start = Instant::now();
        let connected = connect([silent, closed_address, address].into_iter()).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), address);
        assert!(start.elapsed() >= HEAD_START, "the silent address was not tried: {:?}", start.elapsed());
        let connected = connect([closed_address, address].into_iter()).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), address);
        assert_eq!(connect([closed_address].into_iter()).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect([].into_iter()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
