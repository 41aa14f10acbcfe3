//! Before a client speaks: the PROXY header by which a proxy in front tells whose connection it is.
//!
//! Servers of MariaDB greet at once and take a header ahead of the login, from those that may send one; `optional` is the same.
//! With `required` the header is awaited before the greeting, so that a proxy that lost its setting is noticed.

use config::ProxyIn;
use net::announce::{self, First, FirstError};
use net::packets::Packet;
use wire::errno;
use wire::packet::Header;
use wire::proxy_header::HeaderContent;

use super::OngoingLogin;
use crate::error::{Refusal, SessionEnd};

impl OngoingLogin {
    /// Whether the other end of the connection may say for whom it is.
    fn is_trusted(&self) -> bool {
        let settings = self.listener.settings.load();
        let from = self.handle.connected_from.map(|address| address.ip());
        from.is_some_and(|ip| settings.proxy_protocol_from.iter().any(|network| network.contains(ip)))
    }

    /// The other end may say, by a header, for whom it is.
    pub(super) fn may_announce(&self) -> bool {
        self.listener.settings.load().proxy_protocol != ProxyIn::Off && self.is_trusted()
    }

    /// Takes the header where there must be one.
    pub(super) async fn take_required_header(&mut self) -> Result<(), SessionEnd> {
        if self.listener.settings.load().proxy_protocol != ProxyIn::Required || !self.is_trusted() {
            return Ok(());
        }
        match announce::read(&mut self.stream).await {
            Ok(First::Header(reported)) => {
                self.believe(reported);
                Ok(())
            }
            Ok(First::Other(_)) => Err(self.refuse_header(0, "a PROXY header is required from").await),
            Err(error) => self.unreadable(0, error).await,
        }
    }

    /// Reads the client's first packet, and a header ahead of it where there may be one.
    pub(super) async fn first_packet(&mut self) -> Result<Packet, SessionEnd> {
        if self.listener.settings.load().proxy_protocol == ProxyIn::Off || self.handle.proxied_from.get().is_some() {
            return self.read().await;
        }
        let mut may_come = true;
        loop {
            let bytes = match announce::read(&mut self.stream).await {
                Ok(First::Header(reported)) if may_come && self.is_trusted() => {
                    self.believe(reported);
                    may_come = false;
                    continue;
                }
                Ok(First::Header(_)) => return Err(self.refuse_header(1, "a PROXY header is not taken from").await),
                Ok(First::Other(bytes)) => bytes,
                Err(error) => return self.unreadable(1, error).await,
            };
            let [a, b, c, sequence] = bytes;
            let header = Header { length: u32::from_le_bytes([a, b, c, 0]) as usize, sequence };
            return self.read_behind(header).await;
        }
    }

    fn believe(&self, reported: HeaderContent) {
        if let HeaderContent::Client { source, .. } = reported {
            // There is one header at most, so nothing is there yet.
            let _ = self.handle.proxied_from.set(source);
        }
    }

    async fn unreadable<T>(&mut self, sequence: u8, error: FirstError) -> Result<T, SessionEnd> {
        match error {
            FirstError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(SessionEnd::ClientLeft),
            FirstError::Io(error) => Err(SessionEnd::ClientLost(error)),
            FirstError::Header(error) => Err(self.refuse_header(sequence, &format!("{error}, from")).await),
        }
    }

    async fn refuse_header(&mut self, sequence: u8, what: &str) -> SessionEnd {
        let from =
            self.handle.connected_from.map_or_else(String::new, |address| address.ip().to_canonical().to_string());
        let why = format_args!("bad handshake: {what} {from} (listener proxy_protocol)");
        let refusal = Refusal::own(errno::ER_HANDSHAKE_ERROR, b"08S01", why);
        self.tell(sequence, &refusal).await;
        SessionEnd::ClientMisbehaved(refusal.message)
    }
}
