//! Servers that misbehave.

use std::time::Duration;

use net::query::{Client, QueryError};
use testkit::{Act, Moment, ReplyBuilder, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::Capabilities;
use wire::packet;

use super::{Field, raw_login};
use crate::support::{SOON, until};

/// A server that does `acts` when a statement ends with `word`.
fn at(word: &'static str, acts: impl Fn(ReplyBuilder) -> Vec<Act> + Send + Sync + 'static) -> Server {
    Server::start(move |moment, reply| match moment {
        Moment::Command(command) if command.ends_with(word.as_bytes()) => Some(acts(reply)),
        _ => None,
    })
}

/// The statement fails, in bounded time, and a new client is served by the same server.
async fn fails(field: &Field, statement: &str) -> QueryError {
    let mut client = field.client().await;
    let error = match timeout(SOON, client.query(statement)).await.expect("an answer or the end") {
        Ok(results) => panic!("{statement}: no error but {results:?}"),
        Err(error) => error,
    };
    works(&mut field.client().await).await;
    error
}

async fn works(client: &mut Client) {
    assert_eq!(client.query_one("SELECT 1").await.unwrap().scalar().as_deref(), Some("1"));
}

#[tokio::test]
async fn replies_that_break_off() {
    let broken = |reply: ReplyBuilder, command: &[u8]| {
        let columns = reply.clone().columns(["a", "b"].into_iter()).bytes;
        let text = String::from_utf8_lossy(command).into_owned();
        let bytes = match text.rsplit(' ').next().unwrap_or_default() {
            "nothing" => Vec::new(),
            "half-header" => vec![1, 0],
            "half-column" => columns[..columns.len() / 2].to_vec(),
            "columns" => columns,
            "half-row" => [&columns[..], &[20, 0, 0, 5, 3, b'x']].concat(),
            "rows" => reply.columns(["a", "b"].into_iter()).row([&b"1"[..], b"2"].into_iter()).bytes,
            _ => return None,
        };
        Some(vec![Act::Send(bytes), Act::Close])
    };
    let server = Server::start(move |moment, reply| match moment {
        Moment::Command(command) => broken(reply, command),
        _ => None,
    });
    let field = Field::start("servers that close in mid-reply", server, "").await;
    field.serves().await;
    for place in ["nothing", "half-header", "half-column", "columns", "half-row", "rows"] {
        // Not a read: it must not be tried again.
        let error = fails(&field, &format!("UPDATE t SET a = 1 -- {place}")).await;
        let reported = matches!(place, "nothing" | "half-header");
        assert_eq!(error.code() == Some(8007), reported, "{place}: {error}");
        assert!(
            reported || matches!(error, QueryError::Io(_)),
            "{place}: the connection breaks as the server's did: {error}"
        );
    }
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn servers_that_stop_in_mid_row() {
    let server = at("halt", |reply| {
        let bytes = reply.columns(["a"].into_iter()).row([&b"1"[..]].into_iter()).raw(&[50, 0, 0, 9, 49]).bytes;
        vec![Act::Send(bytes), Act::Silence]
    });
    let field = Field::start("50 replies that stop in mid-row", server, "").await;
    field.serves().await;
    let mut all = Vec::new();
    for _ in 0..50 {
        let mut stream = raw_login(&field.front.address).await;
        let mut bytes = Vec::new();
        packet::append(&mut bytes, 0, b"\x03SELECT halt");
        stream.write_all(&bytes).await.unwrap();
        // The server's bytes are here.
        let mut some = [0; 16];
        stream.read_exact(&mut some).await.unwrap();
        all.push(stream);
    }
    works(&mut field.client().await).await;
    field.neighbour_goes_on(50).await;
    drop(all);
    field.end(16 * 1024).await;
}

#[tokio::test]
async fn replies_that_are_none() {
    let garbage: [(&str, &[u8]); 9] = [
        ("empty-packet", &[0, 0, 0, 1]),
        ("no-columns", &[1, 0, 0, 1, 0xfc]),
        ("short-ok", &[1, 0, 0, 1, 0]),
        ("short-error", &[2, 0, 0, 1, 0xff, 1]),
        ("null", &[1, 0, 0, 1, 0xfd]),
        ("more-than-a-reply", &[7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]),
        ("infile", &[10, 0, 0, 1, 0xfb, b'/', b'e', b't', b'c', b'/', b'x', b'y', b'z', b'z']),
        ("bad-tracking", &[10, 0, 0, 1, 0, 0, 0, 0, 0x40, 0, 0, 0, 9, 9]),
        ("text", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ];
    let server = Server::start(move |moment, _| {
        let Moment::Command(command) = moment else { return None };
        let (_, bytes) = garbage.iter().find(|(word, _)| command.ends_with(word.as_bytes()))?;
        Some(vec![Act::Send(bytes.to_vec()), Act::Silence])
    });
    let field = Field::start("replies that are garbage", server, "").await;
    field.serves().await;
    for (word, _) in garbage {
        let mut client = field.client().await;
        let answer = timeout(Duration::from_secs(5), client.query(format!("UPDATE t SET a = 1 -- {word}"))).await;
        match answer {
            Ok(Ok(results)) => {
                // A whole reply with something behind it: the reply counts, the connection does not.
                assert_eq!(word, "more-than-a-reply", "{results:?}");
            }
            Ok(Err(error)) => eprintln!("{word}: {error}"),
            Err(_) => assert_eq!(word, "text", "{word}: neither an answer nor the end"),
        }
        works(&mut field.client().await).await;
    }
    field.end(16 * 1024).await;
}

#[tokio::test]
async fn wrong_numbers_and_long_words_reach_the_client_as_they_are() {
    let server = Server::start(|moment, reply| {
        let Moment::Command(command) = moment else { return None };
        let bytes = match command {
            _ if command.ends_with(b"long-error") => reply.error(1644, *b"45000", &[b'e'; 60_000]).bytes,
            _ if command.ends_with(b"huge-error") => reply.error(1644, *b"45000", &vec![b'e'; 12 << 20]).bytes,
            _ if command.ends_with(b"misnumbered") => reply.numbered(77).ok().bytes,
            _ => return None,
        };
        Some(vec![Act::Send(bytes)])
    });
    let field = Field::start("errors of 60 kB and 12 MiB, wrong numbers", server, "").await;
    field.serves().await;
    let mut client = field.client().await;
    let error = client.query("UPDATE t -- long-error").await.unwrap_err();
    assert_eq!((error.code(), error.server_error().unwrap().message.len()), (Some(1644), 60_000));
    let error = client.query("UPDATE t -- huge-error").await.unwrap_err();
    assert_eq!((error.code(), error.server_error().unwrap().message.len()), (Some(1644), 12 << 20));
    works(&mut client).await;
    let mut stream = raw_login(&field.front.address).await;
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, b"\x03UPDATE t -- misnumbered");
    stream.write_all(&bytes).await.unwrap();
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.unwrap();
    assert_eq!(header[3], 77, "as the server numbered it");
    drop((client, stream));
    // The packet that ends a reply is in memory, and its message again for those who ask for it later.
    field.end(96 * 1024).await;
}

#[tokio::test]
async fn ten_thousand_columns_pass() {
    let names: Vec<String> = (0..10_000).map(|number| format!("column_{number}")).collect();
    let wide = move |reply: ReplyBuilder| {
        let mut reply = reply.columns(names.iter().map(String::as_str));
        for _ in 0..3 {
            reply = reply.row((0..10_000).map(|_| &b"12345678"[..]));
        }
        reply.end().bytes
    };
    let expected = wide(ReplyBuilder::new(Capabilities::DEPRECATE_EOF));
    let server = at("wide", move |reply| vec![Act::Send(wide(reply))]);
    let field = Field::start("10,000 columns", server, "").await;
    field.serves().await;
    // The client of these tests takes no more columns than servers have: the bytes are compared.
    let whole = expected.len();
    for _ in 0..5 {
        let mut stream = raw_login(&field.front.address).await;
        let mut bytes = Vec::new();
        packet::append(&mut bytes, 0, b"\x03SELECT wide");
        stream.write_all(&bytes).await.unwrap();
        let mut reply = vec![0; whole];
        timeout(SOON, stream.read_exact(&mut reply)).await.expect("all of it comes").unwrap();
        assert!(reply == expected, "the reply was changed");
    }
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn rows_of_a_hundred_megabytes_pass_through_a_little_memory() {
    const ROW: usize = 100 << 20;
    let server = at("huge", |reply| {
        let mut head = reply.columns(["x"].into_iter()).bytes;
        // A value's length in nine bytes, then packets of 16 MiB − 1 up to a shorter one.
        let mut first = vec![0xfe];
        first.extend_from_slice(&(ROW as u64).to_le_bytes());
        let (mut left, mut sequence) = (ROW + first.len(), 3u8);
        let mut acts = Vec::new();
        loop {
            let length = left.min(packet::PAYLOAD_BYTES_MAX);
            head.extend_from_slice(&packet::Header { length, sequence }.to_bytes());
            sequence += 1;
            let lead = std::mem::take(&mut first);
            head.extend_from_slice(&lead);
            acts.push(Act::Send(std::mem::take(&mut head)));
            let rest = length - lead.len();
            acts.push(Act::Repeat(vec![b'r'; 65_536], rest / 65_536));
            acts.push(Act::Send(vec![b'r'; rest % 65_536]));
            left -= length;
            if length < packet::PAYLOAD_BYTES_MAX {
                break;
            }
        }
        acts.push(Act::Send(ReplyBuilder::new(Capabilities::DEPRECATE_EOF).numbered(sequence).end().bytes));
        acts
    });
    let field = Field::start("8 rows of 100 MiB at a time", server, "").await;
    field.serves().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let address = field.front.address.clone();
        tasks.push(tokio::spawn(async move {
            let mut stream = raw_login(&address).await;
            let mut bytes = Vec::new();
            packet::append(&mut bytes, 0, b"\x03SELECT huge");
            stream.write_all(&bytes).await.unwrap();
            let (mut buffer, mut read) = (vec![0; 1 << 16], 0);
            while read < ROW {
                let n = timeout(SOON, stream.read(&mut buffer)).await.expect("it goes on").unwrap();
                assert!(n > 0, "it ended after {read} bytes");
                read += n;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    field.end(8 * 512).await;
}

#[tokio::test]
async fn servers_that_cannot_greet() {
    let greetings: [(&'static str, &'static [u8]); 8] = [
        ("nothing", b""),
        ("half", b"\x50\0\0\0\x0a5.5"),
        ("giant", b"\xff\xff\xff\0\x0a5.5"),
        ("old", b"\x08\0\0\0\x095.0.0\0\0"),
        ("http", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("zeros", &[0; 200]),
        ("misnumbered", b"\x01\0\0\x09\x0a"),
        ("refusal", b"\x17\0\0\0\xff\x10\x04Too many connections"),
    ];
    for (word, bytes) in greetings {
        let server = Server::start(move |moment, _| {
            let then = if word == "http" { Act::Close } else { Act::Silence };
            (moment == Moment::Connected).then(|| vec![Act::Send(bytes.to_vec()), then])
        });
        let what = if word == "nothing" { "servers that accept and say nothing" } else { "greetings that are none" };
        let field = Field::start(what, server, "hold_ms = 300").await;
        // Clients are told that there is no server, in time.
        let target = net::client::Target::plain(field.front.address.parse().unwrap(), SOON);
        let logins: Vec<_> = (0..20)
            .map(|_| {
                let target = target.clone();
                tokio::spawn(async move { net::client::connect(&target, super::field::login()).await.unwrap_err() })
            })
            .collect();
        for login in logins {
            let error = login.await.unwrap();
            assert_eq!(error.server_error().map(|error| error.code), Some(1290), "{word}: {error}");
        }
        until("probes to have failed", async || {
            let metrics = field.front.metrics().await;
            let failures = metrics.sum("sqluice_monitor_probe_failures_total", &["cluster=\"main\""]);
            (failures >= 2.0).then_some(())
        })
        .await;
        field.end(8 * 1024).await;
    }
}

/// The server is good enough for the monitor, and turns bad for sessions.
#[tokio::test]
async fn servers_that_let_only_the_monitor_in() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static BAD: AtomicBool = AtomicBool::new(false);
    let server = Server::start(|moment, _| match moment {
        Moment::Login(login) if BAD.load(Ordering::SeqCst) && login.windows(4).any(|name| name == b"app\0") => {
            Some(vec![Act::Silence])
        }
        _ => None,
    });
    let pool = "connect_timeout_ms = 300\nwait_ms = 1000";
    let field = Field::start_with("servers that are silent at the login", server, "hold_ms = 1000", pool).await;
    field.serves().await;
    BAD.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        let mut client = field.client().await;
        let error = timeout(SOON, client.query("SELECT 1")).await.expect("an error in time").unwrap_err();
        let code = error.code();
        assert!(matches!(code, Some(1203 | 1290 | 2013)), "{error}");
    }
    BAD.store(false, Ordering::SeqCst);
    until("the server to be used again", async || {
        let mut client = field.client().await;
        client.query("SELECT 1").await.is_ok().then_some(())
    })
    .await;
    field.end(8 * 1024).await;
}
