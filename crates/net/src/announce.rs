//! The PROXY header ahead of a connection: written to servers, read from proxies in front.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use wire::proxy_header::{self, Front, HeaderContent, PREFIX_BYTES};

use crate::Stream;
use crate::client::Announce;

/// Tells a server whose connection it is.
pub(crate) async fn send(stream: &mut Stream, announce: &Announce) -> io::Result<()> {
    let mut out = Vec::new();
    proxy_header::write(announce.version, content(announce, stream.peer_addr()), &mut out);
    stream.write_all(&out).await
}

fn content(announce: &Announce, server: Option<SocketAddr>) -> HeaderContent {
    let Some(client) = announce.client else { return HeaderContent::Nothing };
    let source = SocketAddr::new(client.ip().to_canonical(), client.port());
    let port = server.map_or(0, |server| server.port());
    // Both must be of one family; nobody looks at the second, so it is "any" rather than a mapping of the first.
    let destination = match server.map(|server| server.ip().to_canonical()) {
        Some(ip) if ip.is_ipv4() == source.is_ipv4() => ip,
        _ if source.is_ipv4() => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    HeaderContent::Client { source, destination: SocketAddr::new(destination, port) }
}

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A header.
    Header(HeaderContent),
    /// Something else: these bytes are its first.
    Other([u8; PREFIX_BYTES]),
}

/// Why the first bytes of a connection could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FirstError {
    /// The connection broke, or ended inside the header.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The header cannot be read.
    #[error(transparent)]
    Header(#[from] proxy_header::HeaderError),
}

/// Reads a PROXY header, and not a byte beyond it; or the first bytes of something else. Has no time limit of its own.
///
/// # Errors
/// See [`FirstError`].
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<First, FirstError> {
    let mut bytes = vec![0; PREFIX_BYTES];
    stream.read_exact(&mut bytes).await?;
    loop {
        match proxy_header::read(&bytes)? {
            Front::Header { content, .. } => return Ok(First::Header(content)),
            Front::Needs(needs) => {
                let have = bytes.len();
                bytes.resize(needs, 0);
                stream.read_exact(&mut bytes[have..]).await?;
            }
            Front::Other => {
                let mut first = [0; PREFIX_BYTES];
                first.copy_from_slice(&bytes[..PREFIX_BYTES]);
                return Ok(First::Other(first));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::proxy_header::Version;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_header_is_read_and_nothing_behind_it() {
        let content = HeaderContent::Client { source: address("1.2.3.4:5"), destination: address("6.7.8.9:3306") };
        for version in [Version::V1, Version::V2] {
            let mut bytes = Vec::new();
            proxy_header::write(version, content, &mut bytes);
            bytes.extend_from_slice(b"\x20\0\0\x01");
            let mut stream = &bytes[..];
            assert_eq!(read(&mut stream).await.unwrap(), First::Header(content));
            assert_eq!(read(&mut stream).await.unwrap(), First::Other(*b"\x20\0\0\x01"));
            assert!(matches!(read(&mut stream).await, Err(FirstError::Io(_))));
        }
        assert!(matches!(read(&mut &b"PROXY TCP9 \r\n"[..]).await, Err(FirstError::Header(_))));
    }

    #[test]
    fn servers_are_reported_one_family() {
        let announce = |client: &str| Announce { version: Version::V1, client: Some(address(client)) };
        let content = |client, server: &str| match content(&announce(client), Some(address(server))) {
            HeaderContent::Client { source, destination } => (source.to_string(), destination.to_string()),
            HeaderContent::Nothing => panic!("no client"),
        };
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(content("1.2.3.4:5", "10.0.0.1:3306"), both("1.2.3.4:5", "10.0.0.1:3306"));
        assert_eq!(content("[::ffff:1.2.3.4]:5", "[::1]:3306"), both("1.2.3.4:5", "0.0.0.0:3306"));
        assert_eq!(content("[::2]:5", "10.0.0.1:3306"), both("[::2]:5", "[::]:3306"));
        let local = Announce { version: Version::V2, client: None };
        assert_eq!(super::content(&local, Some(address("10.0.0.1:3306"))), HeaderContent::Nothing);
    }
}
