//! A server whose replication status does not answer.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use facts::view::{Health, ServerView, View};
use lab::{Family, Replication, ReplicationOptions};

use super::watch::Watch;
use super::{SOON, families, settled};

/// How many status statements are kept from the server before its state is looked at.
const HELD: usize = 3;

/// A way to a real server on which its replication status can be held up, and nothing else.
struct Hold {
    address: SocketAddr,
    on: Arc<AtomicBool>,
    held: Arc<AtomicUsize>,
}

impl Hold {
    fn before(server: SocketAddr) -> Hold {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hold = Hold { address: listener.local_addr().unwrap(), on: Arc::default(), held: Arc::default() };
        let (on, held) = (hold.on.clone(), hold.held.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || relay(from_server, to_client, |_| false));
                let (on, held) = (on.clone(), held.clone());
                let holds = move |bytes: &[u8]| {
                    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
                    let asks = has(b"SHOW REPLICA STATUS") || has(b"SHOW ALL SLAVES STATUS");
                    let holds = asks && on.load(Ordering::Relaxed);
                    held.fetch_add(usize::from(holds), Ordering::Relaxed);
                    holds
                };
                std::thread::spawn(move || relay(client, server, holds));
            }
        });
        hold
    }

    /// Holds from now on, and waits until it has held a few.
    fn hold(&self) {
        self.on.store(true, Ordering::Relaxed);
        let (before, deadline) = (self.held.load(Ordering::Relaxed), Instant::now() + SOON);
        while self.held.load(Ordering::Relaxed) < before + HELD {
            assert!(Instant::now() < deadline, "the status is not asked for");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, holds: impl Fn(&[u8]) -> bool) {
    let (mut buffer, mut held) = ([0; 8192], false);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        held = held || holds(&buffer[..length]);
        if !held && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn replica(view: &View) -> &ServerView {
    &view.servers[1]
}

#[test]
fn a_replica_whose_status_hangs_keeps_its_lag_and_its_reads() {
    for family in families() {
        let config = match family {
            Family::MariaDb => vec![],
            Family::MySql => vec!["performance_schema=ON".to_owned()],
        };
        let lab = Replication::start(ReplicationOptions { config, ..ReplicationOptions::new(family, 1) }).unwrap();
        let hold = Hold::before(lab.server(1).address());
        let watch = Watch::start_at(&lab, &[lab.server(0).address(), hold.address]);
        watch.until("all is well", SOON, |view| settled(view) && replica(view).lag.is_some());
        let changes = Arc::new(AtomicUsize::new(0));
        let seen = changes.clone();
        let published = watch.link.published.clone();
        watch.link.published.subscribe(Box::new(move || {
            let view = published.view.load_full();
            let well = replica(&view).health == Health::Up && replica(&view).serves_reads;
            seen.fetch_add(usize::from(!well), Ordering::Relaxed);
        }));
        hold.hold();
        let view = watch.view();
        assert!(settled(&view) && replica(&view).lag.is_some(), "{family:?}: {view:?}");
        assert_eq!(changes.load(Ordering::Relaxed), 0, "{family:?}: it lost its reads for a while");
        if family == Family::MySql {
            receiver_states(&lab, &watch);
        }
    }
}

/// The status is still held.
fn receiver_states(lab: &Replication, watch: &Watch<'_>) {
    let until = |what: &str, serves: bool, words: &str| {
        watch.until(what, SOON, |view| {
            let replica = replica(view);
            replica.health == Health::Up && replica.serves_reads == serves && replica.reason.contains(words)
        })
    };
    let server = lab.server(1);
    server.sql("STOP REPLICA IO_THREAD").unwrap();
    until("the receiver is stopped", false, "the receiving thread is stopped");
    server.sql("START REPLICA IO_THREAD").unwrap();
    until("it follows again", true, "it follows");
    // The source lives, and the receiver cannot log in to it.
    let lock = format!("SET SESSION sql_log_bin = 0; ALTER USER {}@'%' ACCOUNT", lab::REPL_USER);
    lab.server(0).sql(&format!("{lock} LOCK")).unwrap();
    server.sql("STOP REPLICA IO_THREAD; START REPLICA IO_THREAD").unwrap();
    until("the receiver reconnects", false, "the receiving thread cannot connect to its source");
    lab.server(0).sql(&format!("{lock} UNLOCK")).unwrap();
    server.sql("STOP REPLICA IO_THREAD; START REPLICA IO_THREAD").unwrap();
    until("it follows again", true, "it follows");
}
