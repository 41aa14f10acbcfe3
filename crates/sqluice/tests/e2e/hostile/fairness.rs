//! Clients that send far ahead: their worker's other sessions get their turns. How long a neighbour waits is compared with one
//! that works on its server directly meanwhile, so that a busy machine counts for both.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::Stream;
use testkit::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::packet;

use super::field::{Neighbour, raw_login};
use super::{Field, clients};
use crate::support::until;

/// Waits up to here are no sign of anything on a busy machine, where a thread that always has work gets its share of the processor
/// late. Without turns a neighbour waits as long as the peer writes.
const WAIT_FREE: Duration = Duration::from_millis(500);
/// A neighbour's answers meanwhile.
const ANSWERS: u64 = 100;

/// So many commands one behind the other.
fn pipelined(command: &[u8], count: usize) -> Vec<u8> {
    let mut one = Vec::new();
    packet::append(&mut one, 0, command);
    one.repeat(count)
}

/// Writes again and again, reads and forgets the answers, and looks at the neighbours meanwhile.
async fn held_by(field: &Field, stream: TcpStream, bytes: Vec<u8>) {
    let (through, direct) = (Neighbour::start(field.front.listener("calm")), Neighbour::start(field.calm_address()));
    let (mut reading, mut writing) = stream.into_split();
    let reader = tokio::spawn(async move {
        let mut answers = vec![0; 1 << 16];
        while reading.read(&mut answers).await.is_ok_and(|n| n > 0) {}
    });
    let writer = tokio::spawn(async move { while writing.write_all(&bytes).await.is_ok() {} });
    through.has_answers(ANSWERS).await;
    direct.has_answers(ANSWERS).await;
    assert!(!writer.is_finished(), "the peer was sent away");
    writer.abort();
    reader.abort();
    let (through, direct) = (through.stop(), direct.stop());
    eprintln!("a neighbour waited {through:?} at most, directly {direct:?}");
    assert!(through <= (3 * direct).max(WAIT_FREE), "{through:?}, directly {direct:?}");
}

fn tcp(stream: Stream) -> TcpStream {
    match stream {
        Stream::Plain(tcp) => tcp,
        other => panic!("{other:?}"),
    }
}

async fn a_client_that_pipelines(what: &'static str, command: &[u8]) {
    let field = Field::start(what, Server::usual(), "").await;
    field.serves().await;
    let stream = tcp(raw_login(&field.front.address).await);
    held_by(&field, stream, pipelined(command, 20_000)).await;
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn pipelined_pings_take_turns() {
    a_client_that_pipelines("a client that pipelines COM_PING", b"\x0e").await;
}

#[tokio::test]
async fn pipelined_closes_take_turns() {
    a_client_that_pipelines("a client that pipelines COM_STMT_CLOSE", b"\x19\x01\0\0\0").await;
}

#[tokio::test]
async fn pipelined_long_data_takes_turns() {
    a_client_that_pipelines("a client that pipelines COM_STMT_SEND_LONG_DATA", b"\x18\x01\0\0\0\0\0abcdefgh").await;
}

#[tokio::test]
async fn pipelined_resets_take_turns() {
    a_client_that_pipelines("a client that pipelines COM_RESET_CONNECTION", b"\x1f").await;
}

#[tokio::test]
async fn pipelined_statements_that_no_server_knows_take_turns() {
    a_client_that_pipelines("a client that pipelines unknown COM_STMT_EXECUTE", b"\x17\x01\0\0\0\0\x01\0\0\0").await;
}

/// Reading one of these texts takes longer than a neighbour may wait. A program without optimization reads about half a megabyte in
/// a second on a busy machine, and reads to its end what its client has left: that has to fit into the time of [`Field::end`].
#[tokio::test]
async fn long_texts_are_read_beside_other_sessions() {
    let field = Field::start("a client that sends texts of 3 MB", Server::usual(), "").await;
    field.serves().await;
    let mut text = b"\x03SELECT 1".to_vec();
    while text.len() < 3_000_000 {
        text.extend_from_slice(b"+a*b-(c)");
    }
    let stream = tcp(raw_login(&field.front.address).await);
    held_by(&field, stream, pipelined(&text, 1)).await;
    field.end(128 * 1024).await;
}

/// Each of these calls is replaced by what Sqluice knows.
#[tokio::test]
async fn long_texts_are_changed_beside_other_sessions() {
    let field = Field::start("a client that sends texts of 2 MB full of calls", Server::usual(), "").await;
    field.serves().await;
    let mut text = b"\x03SELECT 1".to_vec();
    while text.len() < 2_000_000 {
        text.extend_from_slice(b",CONNECTION_ID(),ROW_COUNT()");
    }
    let stream = tcp(raw_login(&field.front.address).await);
    held_by(&field, stream, pipelined(&text, 1)).await;
    field.end(256 * 1024).await;
}

/// A greeting is more work than an accept: those who come and go by the thousand do not stand before statements.
#[tokio::test]
async fn clients_that_come_and_go_leave_others_their_turns() {
    let field = Field::start("clients that connect and leave at once", Server::usual(), "").await;
    field.serves().await;
    let address: std::net::SocketAddr = field.front.address.parse().unwrap();
    let (through, direct) = (Neighbour::start(field.front.listener("calm")), Neighbour::start(field.calm_address()));
    let stop = Arc::new(AtomicBool::new(false));
    let come_and_go = |stop: Arc<AtomicBool>| {
        std::thread::spawn(move || {
            let mut came = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // The system may have no port free for a moment.
                let Ok(stream) = std::net::TcpStream::connect(address) else { continue };
                // It leaves no port behind that waits for late packets.
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                came += 1;
            }
            came
        })
    };
    let peers = [come_and_go(stop.clone()), come_and_go(stop.clone())];
    through.has_answers(ANSWERS).await;
    direct.has_answers(ANSWERS).await;
    stop.store(true, Ordering::Relaxed);
    let came: u64 = peers.into_iter().map(|peer| peer.join().unwrap()).sum();
    let (through, direct) = (through.stop(), direct.stop());
    eprintln!("{came} clients came; a neighbour waited {through:?} at most, directly {direct:?}");
    assert!(came > 1_000, "{came} clients");
    assert!(through <= (3 * direct).max(WAIT_FREE), "{through:?}, directly {direct:?}");
    field.end(192 * 1024).await;
}

/// As when an application is killed: all its sessions end in the same moment.
#[tokio::test]
async fn sessions_that_end_together_leave_others_their_turns() {
    const MANY: usize = 2_000;
    let field = Field::start("2,000 sessions that end together", Server::usual(), "max_sessions = 3_000").await;
    field.serves().await;
    let mut all = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        all.push(raw_login(&field.front.address).await);
    }
    let (through, direct) = (Neighbour::start(field.front.listener("calm")), Neighbour::start(field.calm_address()));
    through.has_answers(ANSWERS).await;
    drop(all);
    until("the sessions' ends", async || {
        (field.front.metrics().await.sum("sqluice_sessions", &[]) <= 2.0).then_some(())
    })
    .await;
    direct.has_answers(ANSWERS).await;
    let (through, direct) = (through.stop(), direct.stop());
    eprintln!("a neighbour waited {through:?} at most, directly {direct:?}");
    assert!(through <= (3 * direct).max(WAIT_FREE), "{through:?}, directly {direct:?}");
    field.end(128 * 1024).await;
}

#[tokio::test]
async fn pipelined_hits_of_the_cache_take_turns() {
    let field = Field::start_changed("a client that pipelines hits of the cache", Server::usual(), |setup| {
        setup.more += "[[rule]]\nname = \"all\"\ndigest_regex = \"^SELECT\"\ncache = \"on\"\ncache_ttl_ms = 60000\n";
    })
    .await;
    field.serves().await;
    let stream = tcp(raw_login(&field.front.address).await);
    held_by(&field, stream, pipelined(b"\x03SELECT 1", 20_000)).await;
    field.end(8 * 1024).await;
}

/// Each frame is some kilobytes on the wire.
#[tokio::test]
async fn pings_in_one_compressed_frame_take_turns() {
    let field = Field::start("zlib frames of 200,000 COM_PINGs", Server::usual(), "").await;
    field.serves().await;
    let pings = pipelined(b"\x0e", 200_000);
    let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    deflated.write_all(&pings).unwrap();
    let deflated = deflated.finish().unwrap();
    let length = |bytes: usize| (bytes as u32).to_le_bytes();
    let frame = [&length(deflated.len())[..3], &[0], &length(pings.len())[..3], &deflated].concat();
    assert!(frame.len() < 16 * 1024, "{} bytes", frame.len());
    let (through, direct) = (Neighbour::start(field.front.listener("calm")), Neighbour::start(field.calm_address()));
    let mut all = Vec::new();
    for _ in 0..3 {
        let stream = clients::compressed(&field).await;
        // The bytes go in as they are; the answers stay where they are.
        assert_eq!(stream.tcp().unwrap().try_write(&frame).unwrap(), frame.len());
        all.push(stream);
    }
    through.has_answers(ANSWERS).await;
    direct.has_answers(ANSWERS).await;
    let (through, direct) = (through.stop(), direct.stop());
    drop(all);
    eprintln!("a neighbour waited {through:?} at most, directly {direct:?}");
    assert!(through <= (3 * direct).max(WAIT_FREE), "{through:?}, directly {direct:?}");
    field.end(16 * 1024).await;
}
