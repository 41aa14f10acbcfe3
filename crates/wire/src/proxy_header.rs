//! The header by which a proxy in front tells whose connection it is: PROXY protocol, versions 1 and 2.
//!
//! Source: "The PROXY protocol", versions 1 and 2, of the HAProxy project. The header comes before anything else on a connection;
//! version 1 is a line of text, version 2 is binary and may carry more (TLVs), which is skipped here.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The first bytes of a header of either version; the first bytes of a login are never these, since the fourth is its packet's
/// number, which is 1.
pub const PREFIX_BYTES: usize = 4;
/// The longest line of version 1, its end included.
pub const LINE_BYTES_MAX: usize = 107;
/// The longest header that is taken. The format allows 64 KiB of extras; no proxy sends near as much.
pub const HEADER_BYTES_MAX: usize = 4096;

const LINE_START: &[u8] = b"PROXY ";
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const FIXED_BYTES: usize = 16;

/// Which form of header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderContent {
    /// The client's address, and the one that it connected to.
    Client {
        /// The client's.
        source: SocketAddr,
        /// Where it connected to.
        destination: SocketAddr,
    },
    /// Nothing: the proxy asks for itself (a health check), or has a client without an IP address.
    Nothing,
}

/// The kinds of a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// That is unknown yet: at least this many bytes must be there, and none beyond them may be a part of what follows.
    Needs(usize),
    /// No header.
    Other,
    /// A header.
    Header {
        /// The content.
        content: HeaderContent,
        /// Its length.
        taken: usize,
    },
}

/// A header that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PROXY header: {0}")]
pub struct HeaderError(&'static str);

/// Looks for a header at the front of `bytes`.
///
/// # Errors
/// It begins like a header and is none.
pub fn read(bytes: &[u8]) -> Result<Front, HeaderError> {
    let like = |start: &[u8]| bytes.iter().zip(start).all(|(a, b)| a == b);
    if bytes.len() < PREFIX_BYTES {
        return Ok(if like(LINE_START) || like(&SIGNATURE) { Front::Needs(PREFIX_BYTES) } else { Front::Other });
    }
    if bytes.starts_with(&LINE_START[..PREFIX_BYTES]) {
        if !like(LINE_START) {
            return Err(HeaderError("it does not begin with `PROXY `"));
        }
        return line(bytes);
    }
    if bytes.starts_with(&SIGNATURE[..PREFIX_BYTES]) {
        if !like(&SIGNATURE) {
            return Err(HeaderError("its signature is wrong"));
        }
        return binary(bytes);
    }
    Ok(Front::Other)
}

fn line(bytes: &[u8]) -> Result<Front, HeaderError> {
    let looked_at = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = looked_at.iter().position(|byte| *byte == b'\n') else {
        if bytes.len() >= LINE_BYTES_MAX {
            return Err(HeaderError("its line has no end"));
        }
        // The line ends with two bytes; one of them may be there.
        return Ok(Front::Needs(bytes.len() + if bytes.last() == Some(&b'\r') { 1 } else { 2 }));
    };
    let text = bytes[..end].strip_suffix(b"\r").ok_or(HeaderError("its line does not end with CR LF"))?;
    let text = str::from_utf8(text).map_err(|_| HeaderError("its line is no text"))?;
    let taken = end + 1;
    let mut words = text.split(' ').skip(1);
    let content = match words.next() {
        // The rest of the line has no meaning.
        Some("UNKNOWN") => HeaderContent::Nothing,
        Some(family @ ("TCP4" | "TCP6")) => {
            let mut word = || words.next().ok_or(HeaderError("an address or a port is missing"));
            let (source, destination) = (ip(word()?, family)?, ip(word()?, family)?);
            let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
            if words.next().is_some() {
                return Err(HeaderError("its line goes on behind the ports"));
            }
            HeaderContent::Client {
                source: SocketAddr::new(source, source_port),
                destination: SocketAddr::new(destination, destination_port),
            }
        }
        _ => return Err(HeaderError("its family is none of TCP4, TCP6 and UNKNOWN")),
    };
    Ok(Front::Header { content, taken })
}

fn ip(word: &str, family: &str) -> Result<IpAddr, HeaderError> {
    let address: IpAddr = word.parse().map_err(|_| HeaderError("an address cannot be read"))?;
    match address.is_ipv4() == (family == "TCP4") {
        true => Ok(address),
        false => Err(HeaderError("an address is of another family than the header says")),
    }
}

fn port(word: &str) -> Result<u16, HeaderError> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits).ok_or(HeaderError("a port is no number up to 65535"))
}

fn binary(bytes: &[u8]) -> Result<Front, HeaderError> {
    let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else { return Ok(Front::Needs(FIXED_BYTES)) };
    let [.., what, family, high, low] = *fixed;
    let taken = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if what >> 4 != 2 {
        return Err(HeaderError("its version is not 2"));
    }
    let is_local = match what & 0x0f {
        0 => true,
        1 => false,
        _ => return Err(HeaderError("its command is neither LOCAL nor PROXY")),
    };
    if family >> 4 > 3 || family & 0x0f > 2 {
        return Err(HeaderError("its family is unknown"));
    }
    if taken > HEADER_BYTES_MAX {
        return Err(HeaderError("it is longer than 4096 bytes"));
    }
    let Some(body) = bytes.get(FIXED_BYTES..taken) else { return Ok(Front::Needs(taken)) };
    let short = HeaderError("it is too short for its addresses");
    let content = match family {
        _ if is_local => HeaderContent::Nothing,
        // TCP over IPv4: two addresses, two ports.
        0x11 => {
            let addresses = body.first_chunk::<12>().ok_or(short)?;
            let [a, b, c, d, e, f, g, h, ports @ ..] = *addresses;
            content(Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into(), ports)
        }
        // TCP over IPv6.
        0x21 => {
            let mut reader = crate::codec::Reader::new(body);
            let mut address = || {
                let bytes = reader.bytes(16, "address").map_err(|_| short)?;
                Ok::<_, HeaderError>(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).map_err(|_| short)?))
            };
            let (source, destination) = (address()?, address()?);
            let ports = *reader.rest().first_chunk::<4>().ok_or(short)?;
            content(source.into(), destination.into(), ports)
        }
        // A local socket of the proxy's machine, datagrams, or a family that the proxy does not know.
        _ => HeaderContent::Nothing,
    };
    Ok(Front::Header { content, taken })
}

fn content(source: IpAddr, destination: IpAddr, [a, b, c, d]: [u8; 4]) -> HeaderContent {
    HeaderContent::Client {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    }
}

/// Appends a header. Addresses of different families are both written as IPv6.
pub fn write(version: Version, content: HeaderContent, out: &mut Vec<u8>) {
    let HeaderContent::Client { source, destination } = content else {
        match version {
            Version::V1 => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            Version::V2 => {
                out.extend_from_slice(&SIGNATURE);
                out.extend_from_slice(&[0x20, 0, 0, 0]);
            }
        }
        return;
    };
    let (source, destination) = match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => (SocketAddr::V4(source), SocketAddr::V4(destination)),
        (source, destination) => (as_v6(source), as_v6(destination)),
    };
    match version {
        Version::V1 => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let line = format!(
                "PROXY {family} {} {} {} {}\r\n",
                source.ip(),
                destination.ip(),
                source.port(),
                destination.port()
            );
            out.extend_from_slice(line.as_bytes());
        }
        Version::V2 => {
            out.extend_from_slice(&SIGNATURE);
            let (family, length) = if source.is_ipv4() { (0x11, 12) } else { (0x21, 36) };
            out.extend_from_slice(&[0x21, family, 0, length]);
            for address in [source, destination] {
                match address.ip() {
                    IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
                }
            }
            for address in [source, destination] {
                out.extend_from_slice(&address.port().to_be_bytes());
            }
        }
    }
}

fn as_v6(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => v6(v4).into(),
        SocketAddr::V6(_) => address,
    }
}

fn v6(v4: SocketAddrV4) -> SocketAddrV6 {
    SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(source: &str, destination: &str) -> HeaderContent {
        HeaderContent::Client { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    fn written(version: Version, content: HeaderContent) -> Vec<u8> {
        let mut out = Vec::new();
        write(version, content, &mut out);
        out
    }

    #[test]
    fn headers_are_read_as_written_and_never_beyond_their_end() {
        let four = client("192.168.0.1:56324", "10.0.0.11:3306");
        let six = client("[2001:db8::1]:1", "[::1]:65535");
        for version in [Version::V1, Version::V2] {
            for content in [four, six, HeaderContent::Nothing] {
                let bytes = written(version, content);
                assert_eq!(read(&bytes), Ok(Front::Header { content, taken: bytes.len() }));
                for cut in 0..bytes.len() {
                    let needs = read(&bytes[..cut]);
                    assert!(matches!(needs, Ok(Front::Needs(n)) if n > cut && n <= bytes.len()), "{cut}: {needs:?}");
                }
                let followed = [&bytes[..], b"\x01\0\0\0\x0e"].concat();
                assert_eq!(read(&followed), Ok(Front::Header { content, taken: bytes.len() }));
            }
            let mixed = written(version, client("10.0.0.1:5", "[::1]:6"));
            let content = client("[::ffff:10.0.0.1]:5", "[::1]:6");
            assert_eq!(read(&mixed), Ok(Front::Header { content, taken: mixed.len() }));
        }
    }

    #[test]
    fn the_texts_of_the_standard_are_understood() {
        for (line, content) in [
            (
                "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
                client("255.255.255.255:65535", "255.255.255.255:65535"),
            ),
            ("PROXY UNKNOWN\r\n", HeaderContent::Nothing),
            ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", HeaderContent::Nothing),
        ] {
            assert_eq!(read(line.as_bytes()), Ok(Front::Header { content, taken: line.len() }), "{line}");
        }
        let with_tlvs =
            [&SIGNATURE[..], &[0x21, 0x11, 0, 15, 1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 12, 234, 4, 0, 0]].concat();
        assert_eq!(read(&with_tlvs), Ok(Front::Header { content: client("1.2.3.4:80", "5.6.7.8:3306"), taken: 31 }));
        for (what, family, body) in
            [(0x20, 0x11, 12), (0x21, 0x00, 0), (0x21, 0x31, 216), (0x21, 0x12, 12), (0x20, 0, 7)]
        {
            let bytes = [&SIGNATURE[..], &[what, family, 0, body], &vec![7; body.into()]].concat();
            assert_eq!(
                read(&bytes),
                Ok(Front::Header { content: HeaderContent::Nothing, taken: bytes.len() }),
                "{what:x} {family:x}"
            );
        }
    }

    #[test]
    fn logins_are_no_headers() {
        for bytes in [&b""[..], b"\x20", b"\x4f\x52\x50\x01", b"\xb5\0\0\x01", b"GET / HTTP/1.1"] {
            let expected = if bytes.is_empty() { Front::Needs(PREFIX_BYTES) } else { Front::Other };
            assert_eq!(read(bytes), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, word) in [
            ("PROXX TCP4", "PROXY `"),
            ("PROXY TCP5 1.1.1.1 1.1.1.1 1 1\r\n", "family"),
            ("PROXY TCP4 ::1 ::1 1 1\r\n", "another family"),
            ("PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n", "another family"),
            ("PROXY TCP4 1.1.1 1.1.1.1 1 1\r\n", "cannot be read"),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1\r\n", "missing"),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n", "port"),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 +1\r\n", "port"),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1\r\n", "behind the ports"),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n", "CR LF"),
            (&format!("PROXY UNKNOWN {}\r\n", "x".repeat(100)), "no end"),
        ] {
            let error = read(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
        for (fixed, word) in [
            ([0x11, 0x11, 0, 12], "version"),
            ([0x22, 0x11, 0, 12], "command"),
            ([0x21, 0x41, 0, 12], "family"),
            ([0x21, 0x11, 0, 11], "too short"),
            ([0x21, 0x21, 0, 12], "too short"),
            ([0x21, 0x11, 0xff, 0xff], "longer"),
        ] {
            let bytes = [&SIGNATURE[..], &fixed, &[0; 12]].concat();
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(word), "{fixed:x?}: {error}");
        }
        assert!(read(b"\r\n\r\n\0\r\nQUIX").unwrap_err().to_string().contains("signature"));
    }

    proptest! {
        #[test]
        fn any_address_comes_through(source: (u128, u16), destination: (u32, u16), v1: bool, both_v6: bool) {
            let version = if v1 { Version::V1 } else { Version::V2 };
            let four = SocketAddr::new(Ipv4Addr::from(destination.0).into(), destination.1);
            let six = SocketAddr::new(Ipv6Addr::from(source.0).into(), source.1);
            let content = match both_v6 {
                true => HeaderContent::Client { source: six, destination: six },
                false => HeaderContent::Client { source: four, destination: four },
            };
            let bytes = written(version, content);
            prop_assert_eq!(read(&bytes), Ok(Front::Header { content, taken: bytes.len() }));
        }

        #[test]
        fn arbitrary_bytes_are_no_danger(bytes in proptest::collection::vec(any::<u8>(), 0..300), start in 0usize..3) {
            let start: &[u8] = [&b""[..], b"PROXY ", &SIGNATURE][start];
            let bytes = [start, &bytes].concat();
            // A reader that reads the needed number of bytes comes to an end.
            let mut have = 0;
            loop {
                match read(&bytes[..have]) {
                    Ok(Front::Needs(needs)) => {
                        prop_assert!(needs > have && needs <= HEADER_BYTES_MAX);
                        if needs > bytes.len() {
                            break;
                        }
                        have = needs;
                    }
                    Ok(Front::Header { taken, .. }) => {
                        prop_assert_eq!(taken, have);
                        break;
                    }
                    Ok(Front::Other) | Err(_) => break,
                }
            }
        }
    }
}
