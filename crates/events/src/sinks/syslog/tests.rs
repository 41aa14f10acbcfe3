use std::net::{TcpListener, UdpSocket};
use std::time::SystemTime;

use super::*;
use crate::block::{Block, Lines};
use crate::masks::Masks;
use crate::redaction::Literals;
use crate::sinks::batch::{Choice, Takes};

fn output(address: SyslogAddress) -> SyslogOutput {
    SyslogOutput::new(&SyslogSettings { address, facility: 16 }, "n1")
}

fn batch(lines: &[&str]) -> Batch {
    let mut block = Block::begin(1, SystemTime::now());
    for line in lines {
        block.put(block.last + 1, Class::QUERY, Lines { form: format!("{line}\n").as_bytes(), ..Lines::default() });
    }
    let mut batch = Batch::default();
    let (masks, literals) = (Masks::default(), Literals::None);
    batch.take_block(&block, Choice { takes: Takes::All, literals, masks: &masks, node: "n1" });
    batch
}

fn read(stream: &mut TcpStream, until: &str) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !text.ends_with(until) {
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the end behind {text}");
        text.push_str(str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

#[test]
fn a_receiver_that_went_away_gets_the_last_events_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut output = output(SyslogAddress::Tcp(listener.local_addr().unwrap().to_string()));
    output.write(&batch(&["one"]), "n1").unwrap();
    let (unread, _) = listener.accept().unwrap();
    drop(unread);
    // The end of the connection has to arrive.
    listener.set_nonblocking(true).unwrap();
    let mut stream = loop {
        output.upkeep().unwrap();
        if let Ok((stream, _)) = listener.accept() {
            break stream;
        }
    };
    stream.set_nonblocking(false).unwrap();
    assert!(read(&mut stream, "one").contains(" - - one"));
    output.write(&batch(&["two"]), "n1").unwrap();
    assert!(read(&mut stream, "two").contains(" - - two"));
}

#[test]
fn one_event_is_one_datagram_and_one_that_is_too_long_is_a_gap() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut output = output(SyslogAddress::Udp(receiver.local_addr().unwrap().to_string()));
    let long = "x".repeat(DATAGRAM_BYTES_MAX);
    assert_eq!(output.write(&batch(&["one", &long, "three"]), "n1").unwrap(), 1);
    let next = || {
        let mut bytes = [0; 2048];
        let read = receiver.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    };
    assert!(next().ends_with(" - - one"));
    let gap = next();
    assert!(gap.contains(" gap - {") && gap.contains("\"from\":2,\"to\":2,\"lost\":1"), "{gap}");
    assert!(next().ends_with("three"));
}

#[test]
fn a_socket_of_this_machine_that_is_not_there_is_an_error_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut output = output(SyslogAddress::Unix(path.clone()));
    assert_eq!(output.write(&batch(&["one"]), "n1").unwrap_err().kind(), io::ErrorKind::NotFound);
    let receiver = UnixDatagram::bind(&path).unwrap();
    output.write(&batch(&["one"]), "n1").unwrap();
    let mut bytes = [0; 2048];
    let read = receiver.recv(&mut bytes).unwrap();
    assert!(bytes[..read].ends_with(b"one"));
}
