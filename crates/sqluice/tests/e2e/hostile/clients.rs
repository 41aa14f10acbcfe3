//! Clients that misbehave.

use std::time::{Duration, Instant};

use net::{Stream, packets};
use testkit::{Act, Moment, ReplyBuilder, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::compress::{Compression, Side};
use wire::packet::{self, First};
use wire::reply::ServerError;
use wire::{Capabilities, compress};

use super::field::login;
use super::{Field, raw_login};
use crate::support::{SOON, until};

/// Reads one packet; `None` at the connection's end.
async fn read(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let First::Whole { payload, sequence, .. } = packet::first(&bytes, 1 << 20) {
            return Some((sequence, payload.to_vec()));
        }
        let n = timeout(SOON, stream.read_buf(&mut bytes)).await.expect("an answer or the end").unwrap_or(0);
        if n == 0 {
            assert!(bytes.is_empty(), "half a packet: {bytes:?}");
            return None;
        }
    }
}

/// The next packet is this error, and the connection's end follows.
async fn refused(stream: &mut Stream, sequence: u8, code: u16) {
    let (numbered, payload) = read(stream).await.expect("an error before the end");
    let error = ServerError::parse(&payload).unwrap();
    assert_eq!((numbered, error.code), (sequence, code), "{}", String::from_utf8_lossy(error.message));
    assert_eq!(read(stream).await, None);
}

#[tokio::test]
async fn half_packets_then_silence_or_the_end() {
    let field = Field::start("200 clients, half a packet each", Server::usual(), "").await;
    field.serves().await;
    let mut silent = Vec::new();
    for cut in 0..200 {
        let mut stream = raw_login(&field.front.address).await;
        let mut bytes = Vec::new();
        packet::append(&mut bytes, 0, b"\x03SELECT 1, 2, 3, 4, 5, 6, 7, 8, 9");
        stream.write_all(&bytes[..1 + cut % (bytes.len() - 1)]).await.unwrap();
        // Every other one closes at once.
        if cut % 2 == 0 {
            silent.push(stream);
        }
    }
    field.neighbour_goes_on(50).await;
    assert_eq!(field.server.open(), 2, "the monitor's connection, and the one on which all clients have logged in");
    drop(silent);
    field.end(32 * 1024).await;
}

#[tokio::test]
async fn wrong_sequence_numbers_end_the_client_and_nobody_else() {
    let field = Field::start("wrong packet numbers", Server::usual(), "").await;
    field.serves().await;
    let mut good = field.client().await;
    good.query("SELECT 1").await.unwrap();
    for sequence in [1, 7, 255] {
        let mut stream = raw_login(&field.front.address).await;
        let mut bytes = Vec::new();
        packet::append(&mut bytes, sequence, b"\x03SELECT 1");
        stream.write_all(&bytes).await.unwrap();
        // As MariaDB says it.
        refused(&mut stream, 0, 1156).await;
    }
    good.query("SELECT 1").await.unwrap();
    let lost = field.front.metrics().await.sum("sqluice_server_connections_closed_total", &["cluster=\"main\""]);
    assert_eq!(lost, 0.0, "no backend connection suffered");
    drop(good);
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn giant_lengths_take_no_memory() {
    let field = Field::start("500 headers of 16 MiB, nothing behind", Server::usual(), "").await;
    field.serves().await;
    let mut all = Vec::new();
    for _ in 0..500 {
        let mut stream = raw_login(&field.front.address).await;
        stream.write_all(b"\xff\xff\xff\0\x03SELECT").await.unwrap();
        all.push(stream);
    }
    field.neighbour_goes_on(100).await;
    drop(all);
    // 500 sessions of up to 64 KiB: headers alone must not cost what they promise.
    field.end(64 * 1024).await;
}

/// By the header alone, as a server does; the listener itself would take 1 GiB.
#[tokio::test]
async fn commands_longer_than_servers_take_are_refused_by_their_headers() {
    let server = Server::start(|moment, reply| match moment {
        Moment::Command(b"\x03SHOW GLOBAL VARIABLES") => {
            Some(vec![Act::Send(reply.table(&["Variable_name", "Value"], &[&["max_allowed_packet", "2097152"]]).bytes)])
        }
        _ => None,
    });
    let field = Field::start("100 headers beyond max_allowed_packet", server, "").await;
    field.serves().await;
    for _ in 0..50 {
        for length in [2 << 20, 3 << 20] {
            let mut stream = raw_login(&field.front.address).await;
            let header = packet::Header { length, sequence: 0 };
            stream.write_all(&[&header.to_bytes()[..], b"\x03SELECT"].concat()).await.unwrap();
            refused(&mut stream, 1, 1153).await;
        }
    }
    // One byte less is taken.
    let mut stream = raw_login(&field.front.address).await;
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, &[b"\x03SELECT 1".as_slice(), &vec![b' '; (2 << 20) - 10]].concat());
    stream.write_all(&bytes).await.unwrap();
    assert_eq!(read(&mut stream).await, Some((1, vec![1])), "a result of one column");
    drop(stream);
    field.end(16 * 1024).await;
}

#[tokio::test]
async fn commands_that_are_none_are_answered_as_servers_do() {
    let field = Field::start("bogus commands", Server::usual(), "").await;
    field.serves().await;
    let mut stream = raw_login(&field.front.address).await;
    for command in [&b""[..], b"\0", b"\x0b", b"\x0f", b"\x10", b"\x77", b"\xfe", b"\xff", b"\x20garbage"] {
        let mut bytes = Vec::new();
        packet::append(&mut bytes, 0, command);
        stream.write_all(&bytes).await.unwrap();
        let (sequence, payload) = read(&mut stream).await.unwrap();
        let error = ServerError::parse(&payload).unwrap();
        assert_eq!((sequence, error.code, error.message), (1, 1047, &b"Unknown command"[..]), "{command:?}");
    }
    // Commands that can be known but not read get an error or the end; nothing else happens.
    for command in
        [2, 4, 5, 6, 7, 9, 0x0a, 0x0c, 0x11, 0x12, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1e, 0xfa]
    {
        for arguments in [&b""[..], b"\0", b"\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
            let mut stream = raw_login(&field.front.address).await;
            let mut bytes = Vec::new();
            packet::append(&mut bytes, 0, &[&[command], arguments].concat());
            packet::append(&mut bytes, 0, b"\x01");
            stream.write_all(&bytes).await.unwrap();
            let mut rest = Vec::new();
            let end = timeout(SOON, stream.read_to_end(&mut rest)).await;
            assert!(end.is_ok(), "command {command:#x} with {arguments:?} has no end, only {rest:?}");
        }
    }
    drop(stream);
    field.end(16 * 1024).await;
}

/// Rows without an end: 1 GiB of them.
fn endless(moment: Moment<'_>, reply: ReplyBuilder) -> Option<Vec<Act>> {
    let Moment::Command(command) = moment else { return None };
    if !command.ends_with(b"endless") {
        return None;
    }
    let head = reply.clone().columns(["x"].into_iter()).bytes;
    let row = ReplyBuilder::new(Capabilities::empty()).numbered(3).row([&[b'x'; 60_000][..]].into_iter()).bytes;
    let end = reply.numbered(4).end().bytes;
    Some(vec![Act::Send(head), Act::Repeat(row, 1 << 30 >> 16), Act::Send(end)])
}

#[tokio::test]
async fn a_client_that_never_reads_stops_its_server() {
    let field = Field::start("20 clients that never read 1 GiB", Server::start(endless), "").await;
    field.serves().await;
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut stream = raw_login(&field.front.address).await;
        let mut bytes = Vec::new();
        packet::append(&mut bytes, 0, b"\x03SELECT endless");
        stream.write_all(&bytes).await.unwrap();
        all.push(stream);
    }
    // The server is stopped when nothing moves any more.
    let mut sent = 0;
    until("the server to be stopped", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = std::mem::replace(&mut sent, field.server.sent());
        (sent == before && sent > 0).then_some(())
    })
    .await;
    let stopped_at = field.server.sent();
    field.neighbour_goes_on(100).await;
    assert_eq!(field.server.sent(), stopped_at, "nobody reads, so nothing moves");
    assert!(stopped_at < 20 * (16 << 20), "{stopped_at} bytes went into the kernel's and the program's buffers");
    drop(all);
    field.end(20 * 512).await;
}

#[tokio::test]
async fn clients_that_never_log_in_cost_little_and_are_sent_away() {
    const MANY: usize = 10_000;
    let field = Field::start(
        "10,000 clients that never log in",
        Server::usual(),
        "login_timeout_ms = 60_000\nmax_sessions = 20_000",
    )
    .await;
    field.serves().await;
    let mut all = Vec::with_capacity(MANY);
    while all.len() < MANY {
        match TcpStream::connect(&field.front.address).await {
            Ok(stream) => all.push(stream),
            // This process may not open so many files: as many as it may.
            Err(error) => {
                assert!(all.len() > 500, "only {} connections: {error}", all.len());
                break;
            }
        }
    }
    // All of them were greeted: the last one too.
    let last = all.last_mut().unwrap();
    assert_eq!(read(last).await.map(|(sequence, greeting)| (sequence, greeting[0])), Some((0, 10)));
    field.neighbour_goes_on(100).await;
    eprintln!("{} clients that never log in take {} KiB", all.len(), field.grown_kb());
    let bound = all.len() as u64 * 16;
    drop(all);
    field.end(bound).await;
}

#[tokio::test]
async fn half_open_clients_are_sent_away_in_time() {
    let field = Field::start("100 clients over their login time", Server::usual(), "login_timeout_ms = 500").await;
    field.serves().await;
    let mut all = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(&field.front.address).await.unwrap();
        // Some begin a login, and stop; some begin TLS, and stop there.
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"\x40\0\0\x01\x85\xa6",
            _ => {
                b"\x20\0\0\x01\x05\xae\xff\x01\0\0\0\x01\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x16\x03\x01"
            }
        };
        stream.write_all(begun).await.unwrap();
        all.push(stream);
    }
    for mut stream in all {
        let mut rest = Vec::new();
        timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the connection is closed").unwrap_or_default();
    }
    field.end(32 * 1024).await;
}

#[tokio::test]
async fn floods_of_wrong_passwords_let_the_right_one_in() {
    let field = Field::start("200 logins with wrong passwords", Server::usual(), "").await;
    field.serves().await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let front = field.front.address.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..10 {
                let user = if number % 2 == 0 { "app" } else { "nobody" };
                let target = net::client::Target::plain(front.parse().unwrap(), Duration::from_secs(30));
                let credential = wire::auth::Credential::password(format!("wrong {number}"));
                let error = net::client::connect(&target, net::query::login(user, credential)).await.unwrap_err();
                assert_eq!(error.server_error().map(|error| error.code), Some(1045), "{error}");
            }
        }));
    }
    // In the middle of it the right password is as good as ever.
    for _ in 0..10 {
        field.client().await.query("SELECT 1").await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    field.end(16 * 1024).await;
}

#[tokio::test]
async fn proxy_headers_that_are_garbage_end_the_connection() {
    let listener = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.0/8\"]\nlogin_timeout_ms = 1000";
    let field = Field::start("PROXY headers that are garbage", Server::usual(), listener).await;
    field.serves().await;
    let long = [b"PROXY TCP4 ".as_slice(), &[b'1'; 5000]].concat();
    let heads: [&[u8]; 8] = [
        b"PROXY \r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 99999\r\n",
        &long,
        b"\r\n\r\n\0\r\nQUIT\n\x99\x11\0\x0c",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x02ab",
        b"PROXY TCP4 1.2.3.4",
        b"\r\n\r\n\0",
    ];
    for _ in 0..20 {
        for head in heads {
            let mut stream = TcpStream::connect(&field.front.address).await.unwrap();
            // It may be sent away before all of it is written.
            let _ = stream.write_all(head).await;
            let mut rest = Vec::new();
            let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the connection is closed");
        }
        let good = TcpStream::connect(&field.front.address).await;
        good.unwrap().write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n").await.unwrap();
    }
    field.end(16 * 1024).await;
}

/// A client that speaks the compressed protocol, from its first command on.
pub async fn compressed(field: &Field) -> Stream {
    let plain = net::client::Target::plain(field.front.address.parse().unwrap(), SOON);
    let target = net::client::Target { compression: Some(compress::Algorithm::Zlib), ..plain };
    let connected = net::client::connect(&target, login()).await.unwrap();
    assert!(connected.capabilities.contains(Capabilities::COMPRESS), "the listener compresses");
    connected.stream
}

#[tokio::test]
async fn compression_bombs_stay_below_the_longest_statement() {
    let field = Field::start("40 compression bombs of 1 GiB", Server::usual(), "max_packet = \"4MiB\"").await;
    field.serves().await;
    let mut contexts = compress::Contexts::default();
    let mut codec = compress::Codec::new(Compression::ZLIB, Side::Client);
    // One command of 1 GiB in 64 packets, of which the head says so.
    let (mut bomb, mut packets) = (Vec::new(), b"\xff\xff\xff\0\x03".to_vec());
    packets.resize(16 << 20, b' ');
    let mut rest = &packets[..];
    while !rest.is_empty() {
        rest = &rest[codec.encode(&mut contexts, rest, &mut bomb)..];
    }
    assert!(bomb.len() < 1 << 20);
    for _ in 0..40 {
        let mut stream = compressed(&field).await;
        // The bytes go in as they are.
        let raw = stream.tcp().unwrap();
        let mut at = 0;
        while at < bomb.len() {
            raw.writable().await.unwrap();
            match raw.try_write(&bomb[at..]) {
                Ok(n) => at += n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let mut rest = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the connection is closed");
    }
    // Frames that are none.
    for garbage in [&b"\xff\xff\xff\0\xff\xff\xff"[..], b"\x05\0\0\0\xff\xff\xffhello", b"\0\0\0\0\x01\0\0", &[0; 70]] {
        let stream = compressed(&field).await;
        let raw = stream.tcp().unwrap();
        raw.writable().await.unwrap();
        raw.try_write(garbage).unwrap();
        drop(stream);
    }
    field.end(40 * 1024).await;
}

#[tokio::test]
async fn a_client_that_reads_a_byte_now_and_then_holds_nobody_up() {
    let field = Field::start("a client that reads 200 single bytes", Server::start(endless), "").await;
    field.serves().await;
    let mut stream = raw_login(&field.front.address).await;
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, b"\x03SELECT endless");
    stream.write_all(&bytes).await.unwrap();
    for _ in 0..200 {
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 1);
    }
    field.neighbour_goes_on(50).await;
    drop(stream);
    field.end(8 * 1024).await;
}

/// 480 MB, if each kept its own.
#[tokio::test]
async fn unfinished_commands_share_a_bound() {
    const MANY: usize = 40;
    let field = Field::start_changed("40 unfinished commands of 12 MB", Server::usual(), |setup| {
        setup.proxy += "\ncommand_memory_max = \"64MiB\"";
    })
    .await;
    field.serves().await;
    let mut command = Vec::new();
    packet::append(&mut command, 0, &[b"\x03SELECT 1 /*".as_slice(), &vec![b'x'; 12_000_000]].concat());
    command.truncate(11_900_000);
    let (mut kept, mut refused) = (Vec::new(), 0);
    for _ in 0..MANY {
        let Stream::Plain(mut stream) = raw_login(&field.front.address).await else { panic!("no TLS was asked for") };
        // One that is refused is told before it has sent all.
        let _ = stream.write_all(&command).await;
        match timeout(Duration::from_millis(300), packets::read(&mut stream, 1 << 16)).await {
            Ok(Ok(packet)) => {
                assert_eq!(ServerError::parse(&packet.payload).unwrap().code, 1041);
                refused += 1;
            }
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => kept.push(stream),
        }
    }
    assert!((1..=5).contains(&kept.len()) && refused == MANY - kept.len(), "{} kept, {refused} refused", kept.len());
    let grown = field.grown_kb();
    assert!(grown < 160 * 1024, "{grown} KiB");
    // Short commands need none of it, and it comes back with the clients' end.
    let mut client = field.client().await;
    client.query("SELECT 1").await.unwrap();
    drop(kept);
    until("the memory to be free again", async || {
        (field.front.metrics().await.sum("sqluice_command_bytes", &[]) == 0.0).then_some(())
    })
    .await;
    client.query(&format!("SELECT 1 /*{}*/", "x".repeat(12_000_000))).await.unwrap();
    drop(client);
    field.end(160 * 1024).await;
}

/// A byte now and then is no command that goes on: its memory is for others. Servers give each read 30 seconds.
#[tokio::test]
async fn a_long_command_that_comes_byte_by_byte_ends_its_session() {
    let field = Field::start("a long command byte by byte", Server::usual(), "").await;
    field.serves().await;
    let mut command = Vec::new();
    packet::append(&mut command, 0, &[b"\x03SELECT 1 /*".as_slice(), &vec![b'x'; 1_000_000]].concat());
    let Stream::Plain(mut stream) = raw_login(&field.front.address).await else { panic!("no TLS was asked for") };
    stream.write_all(&command[..200_000]).await.unwrap();
    let begun = Instant::now();
    for byte in &command[200_000..] {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it may go on");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(29), "{:?}", begun.elapsed());
    until("the memory to be free again", async || {
        (field.front.metrics().await.sum("sqluice_command_bytes", &[]) == 0.0).then_some(())
    })
    .await;
    field.end(16 * 1024).await;
}
