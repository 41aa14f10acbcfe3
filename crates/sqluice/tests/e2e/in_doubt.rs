//! Commits and writes that were sent and never answered: the new primary's binary log tells what became of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::Family;
use net::query::Parameter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Front, SOON, all, blocking, failing, said, until, value};

/// A way to a server on which nothing comes back any more once it is told so.
struct Mute {
    address: SocketAddr,
    on: Arc<AtomicBool>,
}

impl Mute {
    async fn start(server: SocketAddr) -> Mute {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mute = Mute { address: listener.local_addr().unwrap(), on: Arc::default() };
        let on = mute.on.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let on = on.clone();
                tokio::spawn(async move {
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    let back = async {
                        let mut bytes = [0; 16 * 1024];
                        while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                            if !on.load(Ordering::SeqCst) && to_client.write_all(&bytes[..length]).await.is_err() {
                                return;
                            }
                        }
                    };
                    // Both ways end when the server does.
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                        () = back => {}
                    }
                });
            }
        });
        mute
    }
}

/// Sessions of which some have committed and some have not when the primary dies.
pub async fn check(family: Family) {
    let servers = failing(family).await;
    let cluster = *servers;
    blocking(move || {
        let sql = "DROP TABLE IF EXISTS app.doubtful, app.locked; \
                   CREATE TABLE app.doubtful (who VARCHAR(20), n INT); \
                   CREATE TABLE app.locked (id INT PRIMARY KEY, n INT); INSERT INTO app.locked VALUES (1, 1), (2, 2), (3, 3)";
        if family == Family::MySql {
            for server in cluster.servers() {
                server.sql("SET GLOBAL binlog_rows_query_log_events = ON").unwrap();
            }
            for replica in cluster.replicas() {
                replica.sql("STOP REPLICA; START REPLICA").unwrap();
            }
        }
        cluster.primary().sql(sql).unwrap();
        cluster.wait_in_sync(SOON).unwrap();
    })
    .await;
    let mute = Mute::start(cluster.primary().address()).await;
    let address = |index: usize| match index == cluster.primary_index() {
        true => mute.address.to_string(),
        false => cluster.server(index).address().to_string(),
    };
    let addresses: Vec<String> = (0..3).map(address).collect();
    let front = Front::start_on(&addresses, |setup| {
        let account = (lab::REPL_USER, lab::REPL_PASSWORD);
        setup.cluster += &format!("\nreplication = {{ user = \"{}\", password = \"{}\" }}", account.0, account.1);
    })
    .await;
    front.knows(2).await;

    // Positions are remembered once a second: what was written past Sqluice must be older than one.
    let before = std::time::Instant::now();
    until("a second to pass", async || (before.elapsed().as_millis() > 1300).then_some(())).await;

    // Two wait for locks of somebody else, and have written nothing for good.
    let mut locker = front.client().await;
    all(&mut locker, "BEGIN").await;
    all(&mut locker, "SELECT * FROM app.locked FOR UPDATE").await;
    let mut waits = front.client().await;
    let mut waits_prepared = front.client().await;
    let update = waits_prepared.prepare("UPDATE app.locked SET n = n + ? WHERE id = 2").await.unwrap();
    let waiting = tokio::spawn(async move {
        tokio::join!(all(&mut waits, "UPDATE app.locked SET n = n + 10 WHERE id = 1"), async {
            waits_prepared.execute(&update, &[Parameter::Int(10)]).await.unwrap()
        })
    });
    // Others commit, and never hear of it.
    let mut commits = front.client().await;
    all(&mut commits, "BEGIN").await;
    all(&mut commits, "INSERT INTO app.doubtful VALUES ('commits', 1)").await;
    all(&mut commits, "INSERT INTO app.doubtful VALUES ('commits', 2)").await;
    let mut writes = front.client().await;
    all(&mut writes, "INSERT INTO app.doubtful VALUES ('writes', 1)").await;
    until("two statements to wait for locks", async || {
        let list = blocking(move || cluster.primary().sql("SHOW PROCESSLIST").unwrap()).await;
        (list.matches("UPDATE app.locked").count() == 2).then_some(())
    })
    .await;
    mute.on.store(true, Ordering::SeqCst);
    let committing = tokio::spawn(async move {
        all(&mut commits, "COMMIT").await;
        commits
    });
    let writing = tokio::spawn(async move {
        let failed = writes.query("INSERT INTO app.doubtful VALUES ('writes', 1)").await.unwrap_err();
        (writes, said(&failed))
    });
    let replica = (0..3).find(|index| *index != cluster.primary_index()).unwrap();
    until("what was committed to be on the next primary", async || {
        let count = blocking(move || cluster.server(replica).sql("SELECT COUNT(*) FROM app.doubtful").unwrap()).await;
        (count.trim() == "4").then_some(())
    })
    .await;
    blocking(move || {
        cluster.primary().kill9();
        cluster.promote(replica).unwrap();
    })
    .await;
    let mut commits = committing.await.unwrap();
    let (mut writes, (code, message)) = writing.await.unwrap();
    assert_eq!(code, 8007, "{message}");
    assert!(message.contains("done: ") && message.contains("do not do it again"), "{message}");
    waiting.await.unwrap();
    // All go on; nothing was done twice, and nothing is missing.
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(who, n ORDER BY who, n) FROM app.doubtful";
    assert_eq!(value(&mut commits, rows).await, "commits1,commits2,writes1,writes1");
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(n ORDER BY id) FROM app.locked";
    assert_eq!(value(&mut writes, rows).await, "11,12,3");
    drop(locker);
}

#[tokio::test]
async fn the_binary_log_tells_what_became_of_commits_and_writes() {
    check(Family::MariaDb).await;
}
