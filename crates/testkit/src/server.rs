//! A server that follows a script.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wire::Capabilities;
use wire::handshake::HandshakeResponse;
use wire::packet::{HEADER_BYTES, Header};

use crate::{ReplyBuilder, answers};

/// The first packet of MariaDB 10.11; the connection's id stands behind its version.
const GREETING: &[u8] =
    b"\x0a5.5.5-10.11.6-MariaDB-scripted\0\x00\x00\x00\x00\x2bL@cR'kD\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15\
    \0\0\0\0\0\0\x1d\0\0\0q+uQ1!x;y]/V\0mysql_native_password\0";
const ID_AT: usize = 32;
/// The longest command that is read.
const COMMAND_BYTES_MAX: usize = 1 << 26;

/// When a script is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// Somebody has connected; the greeting would be next.
    Connected,
    /// A login came; OK would be next.
    Login(&'a [u8]),
    /// A command came.
    Command(&'a [u8]),
}

/// Acts of a script that replace the usual ones.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes so many times.
    Repeat(Vec<u8>, usize),
    /// Reads this many packets.
    Read(usize),
    /// Says nothing until the other side has closed, or the server ends.
    Silence,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

type Script = dyn Fn(Moment<'_>, ReplyBuilder) -> Option<Vec<Act>> + Send + Sync;

#[derive(Default)]
struct Counts {
    ids: AtomicU32,
    open: AtomicUsize,
    sent: AtomicU64,
}

/// A server on a thread of its own, until it is dropped.
pub struct Server {
    address: SocketAddr,
    counts: Arc<Counts>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a server. The script is asked at each [`Moment`], with a reply to build on; where it gives nothing, the usual
    /// happens.
    pub fn start(script: impl Fn(Moment<'_>, ReplyBuilder) -> Option<Vec<Act>> + Send + Sync + 'static) -> Server {
        let script: Arc<Script> = Arc::new(script);
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = watch::channel(false);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn({
            let counts = counts.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
                runtime.block_on(accept(listener, script, counts, stopped));
            }
        });
        Server { address, counts, stop, thread: Some(thread) }
    }

    /// A server that does what is usual.
    pub fn usual() -> Server {
        Server::start(|_, _| None)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// Bytes that the kernel took from [`Act::Repeat`].
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    script: Arc<Script>,
    counts: Arc<Counts>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let Ok((socket, _)) = socket else { continue };
        let (script, counts) = (script.clone(), counts.clone());
        tokio::spawn(async move {
            counts.open.fetch_add(1, Ordering::SeqCst);
            let mut connection = Connection { socket, counts: &counts, capabilities: Capabilities::empty() };
            // However it ends, it is over.
            let _ = connection.serve(&*script).await;
            counts.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

struct Connection<'a> {
    socket: TcpStream,
    counts: &'a Counts,
    capabilities: Capabilities,
}

impl Connection<'_> {
    async fn serve(&mut self, script: &Script) -> std::io::Result<()> {
        self.socket.set_nodelay(true)?;
        if self.follow(script(Moment::Connected, ReplyBuilder::new(Capabilities::empty()).numbered(0))).await? {
            let mut greeting = GREETING.to_vec();
            let id = self.counts.ids.fetch_add(1, Ordering::SeqCst) + 1;
            greeting[ID_AT..ID_AT + 4].copy_from_slice(&id.to_le_bytes());
            let greeting = ReplyBuilder::new(Capabilities::empty()).numbered(0).packet(&greeting);
            self.socket.write_all(&greeting.bytes).await?;
        }
        let login = self.read().await?;
        if let Ok(response) = HandshakeResponse::parse(&login) {
            self.capabilities = response.capabilities;
        }
        let reply = ReplyBuilder::new(self.capabilities).numbered(2);
        if self.follow(script(Moment::Login(&login), reply.clone())).await? {
            self.socket.write_all(&reply.ok().bytes).await?;
        }
        loop {
            let command = self.read().await?;
            // COM_QUIT and COM_STMT_CLOSE have no reply.
            match command.first() {
                Some(0x01) => return Ok(()),
                Some(0x19) => continue,
                _ => {}
            }
            let reply = ReplyBuilder::new(self.capabilities);
            if self.follow(script(Moment::Command(&command), reply.clone())).await? {
                self.socket.write_all(&answers::usual(&command, reply).bytes).await?;
            }
        }
    }

    /// Does what a script says; gives whether the usual is to be done.
    async fn follow(&mut self, acts: Option<Vec<Act>>) -> std::io::Result<bool> {
        let Some(acts) = acts else { return Ok(true) };
        for act in acts {
            match act {
                Act::Send(bytes) => self.socket.write_all(&bytes).await?,
                Act::Repeat(bytes, times) => {
                    for _ in 0..times {
                        self.socket.write_all(&bytes).await?;
                        self.counts.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                    }
                }
                Act::Read(packets) => {
                    for _ in 0..packets {
                        self.read().await?;
                    }
                }
                Act::Silence => {
                    let mut dropped = [0; 4096];
                    while self.socket.read(&mut dropped).await? > 0 {}
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                Act::Close => return Err(std::io::ErrorKind::ConnectionAborted.into()),
                Act::Reset => {
                    self.socket.set_zero_linger()?;
                    return Err(std::io::ErrorKind::ConnectionReset.into());
                }
            }
        }
        Ok(false)
    }

    /// One payload.
    async fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; HEADER_BYTES];
            self.socket.read_exact(&mut header).await?;
            let header = Header::read(&header).unwrap();
            let start = payload.len();
            if start + header.length > COMMAND_BYTES_MAX {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            payload.resize(start + header.length, 0);
            self.socket.read_exact(&mut payload[start..]).await?;
            if !header.is_continued() {
                return Ok(payload);
            }
        }
    }
}
