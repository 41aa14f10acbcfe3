//! A server that answers the same bytes to everything, in the runtime that Sqluice has: nobody who reads questions can be
//! faster. Logins and the first question of each connection go to a real server; its answer is the one that is given from
//! then on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, bail};
use net::packets::{self, Packet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;
use wire::Capabilities;
use wire::exchange::{Advance, Exchange, Expect};
use wire::handshake::HandshakeResponse;

/// The word by which the bench starts itself as this server.
const WORD: &str = "fixed-answers";
/// Longest packet of a login.
const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Read at a time, as in Sqluice's workers.
const SCRATCH_BYTES: usize = 32 * 1024;

/// The settings of the server.
#[derive(Debug)]
pub(crate) struct Arguments {
    port: u16,
    server: SocketAddr,
    workers: usize,
}

/// The command line by which the bench starts itself.
pub(crate) fn arguments(port: u16, server: SocketAddr, workers: usize) -> [String; 4] {
    [WORD.to_owned(), port.to_string(), server.to_string(), workers.to_string()]
}

/// The settings that this process was given, if it is to be such a server.
pub(crate) fn asked() -> Option<Arguments> {
    let mut arguments = std::env::args().skip(1).skip_while(|word| word != WORD);
    arguments.next()?;
    Some(Arguments {
        port: arguments.next()?.parse().ok()?,
        server: arguments.next()?.parse().ok()?,
        workers: arguments.next()?.parse().ok()?,
    })
}

/// Serves until it is killed.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).context("the address")?;
    let server = arguments.server;
    let mut workers = Vec::new();
    for _ in 0..arguments.workers.max(1) {
        let (sender, clients) = unbounded_channel();
        thread::spawn(move || worker(server, clients));
        workers.push(sender);
    }
    for worker in workers.iter().cycle() {
        let (client, _) = listener.accept()?;
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        if worker.send(client).is_err() {
            bail!("a thread has ended");
        }
    }
    Ok(())
}

fn worker(server: SocketAddr, mut clients: UnboundedReceiver<std::net::TcpStream>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return eprintln!("error: {error}"),
    };
    LocalSet::new().block_on(&runtime, async move {
        while let Some(client) = clients.recv().await {
            tokio::task::spawn_local(async move {
                // A client that leaves is no error, and others are told by what clients do not get.
                if let Err(error) = one(client, server).await {
                    eprintln!("a client: {error:#}");
                }
            });
        }
    });
}

async fn one(client: std::net::TcpStream, server: SocketAddr) -> anyhow::Result<()> {
    let mut client = TcpStream::from_std(client)?;
    let answer = learn(&mut client, server).await?;
    let mut scratch = vec![0; SCRATCH_BYTES];
    while client.read(&mut scratch).await? > 0 {
        client.write_all(&answer).await?;
    }
    Ok(())
}

/// Lets a server do the login and answer the first question; gives that answer.
async fn learn(client: &mut TcpStream, server: SocketAddr) -> anyhow::Result<Vec<u8>> {
    let mut server = TcpStream::connect(server).await.context("the server")?;
    let greeting = pass(&mut server, client).await?;
    let theirs = wire::greeting::Greeting::parse(&greeting.payload)?.capabilities;
    let login = pass(client, &mut server).await?;
    let capabilities = HandshakeResponse::parse(&login.payload)?.capabilities & theirs;
    loop {
        match pass(&mut server, client).await?.payload.first() {
            Some(0x00) => break,
            Some(0xff) => bail!("the login was refused"),
            // The server asks for another proof, and the client gives it.
            Some(0xfe) => drop(pass(client, &mut server).await?),
            _ => {}
        }
    }
    pass(client, &mut server).await?;
    answer(&mut server, client, capabilities).await
}

/// Passes one packet on, and gives it.
async fn pass(from: &mut TcpStream, to: &mut TcpStream) -> anyhow::Result<Packet> {
    let packet = packets::read(from, PACKET_BYTES_MAX).await?;
    let mut bytes = Vec::new();
    wire::packet::append(&mut bytes, packet.sequence, &packet.payload);
    to.write_all(&bytes).await?;
    Ok(packet)
}

/// Passes an answer on; gives its bytes.
async fn answer(server: &mut TcpStream, client: &mut TcpStream, capabilities: Capabilities) -> anyhow::Result<Vec<u8>> {
    let mut exchange = Exchange::new(Expect::Results, capabilities);
    let (mut bytes, mut seen) = (Vec::new(), 0);
    loop {
        match exchange.advance(bytes.get(seen..).unwrap_or_default())? {
            Advance::Pass(passed) => seen += passed,
            Advance::Packet(packet) => {
                seen += packet.taken;
                if packet.over {
                    client.write_all(&bytes).await?;
                    return Ok(bytes);
                }
            }
            Advance::Needs(_) if bytes.len() > ANSWER_BYTES_MAX => bail!("the answer is too long"),
            Advance::Needs(_) => {
                if server.read_buf(&mut bytes).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
        }
    }
}
