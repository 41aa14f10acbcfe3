//! Syslog as a sink: RFC 5424 over a datagram socket of this machine, UDP (RFC 5426), or TCP with octet counting (RFC 6587).

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::batch::{Batch, Row};
use crate::block::Class;

mod message;
mod resent;

use message::Sender;
use resent::Resent;

/// The address of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A datagram socket, such as `/dev/log`.
    Unix(PathBuf),
    /// Host and port.
    Udp(String),
    /// Host and port.
    Tcp(String),
}

/// The settings of a syslog receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogSettings {
    /// Its address.
    pub address: SyslogAddress,
    /// The facility, 0 to 23.
    pub facility: u8,
}

/// Longest wait for a connection, and for a receiver that does not read.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest message in a datagram over IPv4; those of a socket of this machine are not longer either.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// A receiver.
#[derive(Debug)]
pub(super) struct SyslogOutput {
    sender: Sender,
    address: SyslogAddress,
    transport: Option<Transport>,
    /// Rows of the batch that were sent in datagrams before one failed: the next try goes on behind them.
    sent_rows: usize,
    resent: Resent,
    frame: Vec<u8>,
}

#[derive(Debug)]
enum Transport {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl SyslogOutput {
    /// A receiver, to which nothing is connected yet.
    pub(super) fn new(settings: &SyslogSettings, node: &str) -> SyslogOutput {
        SyslogOutput {
            sender: Sender::new(settings.facility, node),
            address: settings.address.clone(),
            transport: None,
            sent_rows: 0,
            resent: Resent::default(),
            frame: Vec::new(),
        }
    }

    /// Sends a batch. Gives the numbers of events that were too long for a datagram: a gap was sent for them.
    pub(super) fn write(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        let ended = self.try_write(batch, node);
        if ended.is_err() {
            self.lose();
        } else {
            self.sent_rows = 0;
        }
        ended
    }

    /// Notices that the receiver has closed the connection, and sends again what it may not have read.
    pub(super) fn upkeep(&mut self) -> io::Result<()> {
        if let Some(Transport::Tcp(stream)) = &mut self.transport
            && let Err(error) = still_open(stream)
        {
            self.lose();
            if self.resent.is_empty() {
                return Ok(());
            }
            tracing::warn!(%error, "the receiver of syslog has closed its connection");
        }
        let ended =
            if self.transport.is_none() && self.resent.is_lost() { self.connected().map(|_| ()) } else { Ok(()) };
        if ended.is_err() {
            self.lose();
        }
        ended
    }

    fn lose(&mut self) {
        if let Some(Transport::Tcp(_)) = self.transport.take() {
            self.resent.lost(Instant::now());
        }
    }

    fn try_write(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        if let Some(Transport::Tcp(stream)) = &mut self.transport
            && still_open(stream).is_err()
        {
            self.lose();
        }
        self.connected()?;
        match &mut self.transport {
            Some(Transport::Tcp(stream)) => {
                self.frame.clear();
                for (row, line) in batch.rows() {
                    self.sender.counted(row.class, line, &mut self.frame);
                }
                stream.write_all(&self.frame)?;
                self.resent.keep(&self.frame, Instant::now());
                Ok(0)
            }
            _ => self.send_datagrams(batch, node),
        }
    }

    fn send_datagrams(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        let mut too_long = 0;
        for (row, line) in batch.rows() {
            self.frame.clear();
            self.sender.message(row.class, line, &mut self.frame);
            if self.frame.len() > DATAGRAM_BYTES_MAX {
                too_long += self.put_gap(row, node);
            }
        }
        for (row, line) in batch.rows().skip(self.sent_rows) {
            self.frame.clear();
            self.sender.message(row.class, line, &mut self.frame);
            if self.frame.len() > DATAGRAM_BYTES_MAX {
                self.put_gap(row, node);
            }
            match &self.transport {
                Some(Transport::Unix(socket)) => socket.send(&self.frame)?,
                Some(Transport::Udp(socket)) => socket.send(&self.frame)?,
                Some(Transport::Tcp(_)) | None => return Err(io::ErrorKind::NotConnected.into()),
            };
            self.sent_rows += 1;
        }
        Ok(too_long)
    }

    /// Puts a gap in the place of a message. Gives how many numbers it uses.
    fn put_gap(&mut self, row: Row, node: &str) -> u64 {
        let lost = row.last.saturating_sub(row.first).saturating_add(1);
        let mut line = Vec::new();
        crate::line::gap(row.first, lost, node, std::time::SystemTime::now(), &mut line);
        self.frame.clear();
        self.sender.message(Class::default(), line.trim_ascii_end(), &mut self.frame);
        lost
    }

    fn connected(&mut self) -> io::Result<()> {
        if self.transport.is_some() {
            return Ok(());
        }
        let transport = match &self.address {
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(TIMEOUT))?;
                Transport::Unix(socket)
            }
            SyslogAddress::Udp(address) => Transport::Udp(connect_udp(address)?),
            SyslogAddress::Tcp(address) => {
                let mut stream = connect_tcp(address)?;
                // The receiver of before may not have read these.
                self.resent.send(&mut stream)?;
                Transport::Tcp(stream)
            }
        };
        self.transport = Some(transport);
        Ok(())
    }
}

fn connect_udp(address: &str) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        match UdpSocket::bind(own).and_then(|socket| socket.connect(address).map(|()| socket)) {
            Ok(socket) => {
                socket.set_write_timeout(Some(TIMEOUT))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A receiver says nothing; the end of its side is the sign that it is gone.
fn still_open(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
