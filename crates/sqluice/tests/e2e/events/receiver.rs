//! A receiver of syslog over TCP, which can go away and come back.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// How often it looks whether it has to end.
const STEP: Duration = Duration::from_millis(5);

/// The receiver. It keeps its port and its messages while it is away.
pub struct Receiver {
    pub port: u16,
    messages: Arc<Mutex<Vec<String>>>,
    serving: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Receiver {
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut receiver = Receiver { port, messages: Arc::default(), serving: None };
        receiver.serve(listener);
        receiver
    }

    /// Goes away, in the middle of whatever comes.
    pub fn stop(&mut self) {
        let (ending, thread) = self.serving.take().unwrap();
        ending.store(true, Ordering::SeqCst);
        thread.join().unwrap();
    }

    pub fn come_back(&mut self) {
        self.serve(TcpListener::bind(("127.0.0.1", self.port)).unwrap());
    }

    /// All messages, as they came.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }

    /// The events in them.
    pub fn events(&self) -> Vec<Value> {
        let json = |message: &String| {
            serde_json::from_str(message.split_once(" - {").map_or("", |(head, _)| &message[head.len() + 3..]))
        };
        self.messages()
            .iter()
            .map(|message| json(message).unwrap_or_else(|error| panic!("{error}: {message}")))
            .collect()
    }

    fn serve(&mut self, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let ending = Arc::new(AtomicBool::new(false));
        let (ends, messages) = (ending.clone(), self.messages.clone());
        let thread = std::thread::spawn(move || {
            let mut readers = Vec::new();
            while !ends.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (ends, messages) = (ends.clone(), messages.clone());
                        readers.push(std::thread::spawn(move || read(stream, &ends, &messages)));
                    }
                    Err(_) => std::thread::sleep(STEP),
                }
            }
            drop(listener);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        self.serving = Some((ending, thread));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.serving.is_some() {
            self.stop();
        }
    }
}

/// Takes messages with their lengths ahead. Half a message at the end is nothing.
fn read(mut stream: TcpStream, ends: &AtomicBool, messages: &Mutex<Vec<String>>) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let (mut waiting, mut bytes) = (Vec::new(), [0; 65_536]);
    while !ends.load(Ordering::SeqCst) {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => waiting.extend_from_slice(&bytes[..read]),
            Err(_) => continue,
        }
        while let Some(space) = waiting.iter().position(|byte| *byte == b' ') {
            let length: usize = std::str::from_utf8(&waiting[..space]).unwrap().parse().unwrap();
            if waiting.len() < space + 1 + length {
                break;
            }
            let message = waiting.drain(..space + 1 + length).skip(space + 1).collect();
            messages.lock().unwrap().push(String::from_utf8(message).unwrap());
        }
    }
}

/// The numbers that events use: a gap uses all that it names.
pub fn numbers(events: &[Value]) -> BTreeSet<u64> {
    let numbers = |event: &Value| {
        let first = event["seq"].as_u64().unwrap();
        first..=event["to"].as_u64().unwrap_or(first)
    };
    events.iter().flat_map(numbers).collect()
}

/// Asserts that all numbers from 1 on are there, and gives how many events came more than once.
pub fn assert_complete(sink: &str, events: &[Value]) -> usize {
    let numbers = numbers(events);
    let holes: Vec<u64> = (1..=numbers.last().copied().unwrap_or(0)).filter(|seq| !numbers.contains(seq)).collect();
    assert!(holes.is_empty(), "{sink} lacks {holes:?} of {:?}", numbers.last());
    let mut seen = BTreeSet::new();
    events.iter().filter(|event| !seen.insert(event["seq"].as_u64())).count()
}
