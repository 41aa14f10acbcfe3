//! Commits and writes that were sent and never answered: the new primary's binary log tells what became of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::Family;
use net::query::{Client, Parameter, QueryError, ResultSet, Statement};
use net::tls::ClientTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::{Capabilities, Status};

use crate::support::{Front, SOON, all, app, blocking, failing, said, until, value};

/// A way to a server on which nothing comes back any more once it is told so.
pub struct Mute {
    pub address: SocketAddr,
    pub on: Arc<AtomicBool>,
}

impl Mute {
    pub async fn start(server: SocketAddr) -> Mute {
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

/// A write that is done, and whose reply is lost.
struct Write {
    sql: &'static str,
    parameters: Vec<Parameter>,
    /// The client asks for the rows that an UPDATE finds.
    counts_found: bool,
    /// The reply that it must get: rows and message; `None` if nobody can know that.
    said: Option<(u64, &'static str)>,
    /// The number beside the AUTO_INCREMENT value.
    made: Option<i64>,
}

type Waiting = tokio::task::JoinHandle<(Write, Client, Result<ResultSet, QueryError>)>;

/// Sends writes that wait for their tables.
async fn send_writes(front: &Front) -> Vec<Waiting> {
    const ONE: &str = "Rows matched: 1  Changed: 1  Warnings: 0";
    let write = |sql, said| Write { sql, parameters: Vec::new(), counts_found: false, said, made: None };
    let int = Parameter::Int;
    let insert = "INSERT INTO counted (n, at, text, price, size) VALUES (?, ?, ?, ?, ?)";
    let values = ["2026-11-22 10:11:12.5", "it's \\ ä\0?", "12.50"].map(Parameter::from);
    let [at, text, price] = values;
    let writes = [
        Write {
            made: Some(11),
            ..write("INSERT INTO counted (n) VALUES (11), (12)", Some((2, "Records: 2  Duplicates: 0  Warnings: 0")))
        },
        Write {
            parameters: vec![int(21), at, text, price, Parameter::Double(0.1)],
            made: Some(21),
            ..write(insert, Some((1, "")))
        },
        write("UPDATE kept SET n = n + 1 WHERE id = 1", Some((1, ONE))),
        Write {
            parameters: vec![int(1), int(6)],
            counts_found: true,
            ..write("UPDATE kept SET n = n + ? WHERE id = ?", Some((1, ONE)))
        },
        Write { counts_found: true, ..write("UPDATE kept SET n = n + 1 WHERE n = 7 AND id = 7", None) },
        write("DELETE FROM kept WHERE id IN (2, 3)", Some((2, ""))),
        write("REPLACE INTO kept (id, n) VALUES (4, 40), (5, 50)", Some((3, "Records: 2  Duplicates: 1  Warnings: 0"))),
    ];
    let mut waiting = Vec::new();
    for write in writes {
        let mut login = app();
        login.capabilities.set(Capabilities::FOUND_ROWS, write.counts_found);
        let mut client = front.connect(login, ClientTls::disabled()).await.unwrap();
        let prepared = match write.parameters.is_empty() {
            true => None,
            false => Some(client.prepare(write.sql).await.unwrap()),
        };
        waiting.push((write, client, prepared));
    }
    let send = |(write, mut client, prepared): (Write, Client, Option<Statement>)| {
        tokio::spawn(async move {
            let result = match prepared {
                Some(statement) => client.execute(&statement, &write.parameters).await.map(|mut all| all.remove(0)),
                None => client.query_one(write.sql).await,
            };
            (write, client, result)
        })
    };
    waiting.into_iter().map(send).collect()
}

/// Sessions of which some have committed and some have not when the primary dies.
pub async fn check(family: Family) {
    let servers = failing(family).await;
    let cluster = *servers;
    blocking(move || {
        let sql = "DROP TABLE IF EXISTS app.doubtful, app.locked; \
                   CREATE TABLE app.doubtful (who VARCHAR(20), n INT); \
                   CREATE TABLE app.locked (id INT PRIMARY KEY, n INT); INSERT INTO app.locked VALUES (1, 1), (2, 2), (3, 3); \
                   DROP TABLE IF EXISTS app.counted, app.kept; \
                   CREATE TABLE app.counted (at DATETIME(3) NULL, id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT, \
                     text TEXT, price DECIMAL(10, 2), size DOUBLE) AUTO_INCREMENT = 100; \
                   CREATE TABLE app.kept (id INT PRIMARY KEY, n INT); \
                   INSERT INTO app.kept VALUES (1, 1), (2, 2), (3, 3), (4, 4), (6, 6), (7, 7)";
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
    let start = async || {
        let front = Front::start_on(&addresses, |setup| {
            let account = (lab::REPL_USER, lab::REPL_PASSWORD);
            setup.cluster += &format!("\nreplication = {{ user = \"{}\", password = \"{}\" }}", account.0, account.1);
        });
        let front = front.await;
        front.knows(2).await;
        front
    };
    // The second one's clients write in the same moments: the first one is told nothing of that.
    let (front, second) = (start().await, start().await);

    // Positions are remembered once a second: what was written past Sqluice must be older than one.
    let before = std::time::Instant::now();
    until("a second to pass", async || (before.elapsed().as_millis() > 1300).then_some(())).await;

    let mut others = second.client().await;
    all(&mut others, "UPDATE app.locked SET n = n + 10 WHERE id = 1").await;
    all(&mut others, "INSERT INTO app.doubtful VALUES ('other', 1)").await;

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
    let mut tables = front.client().await;
    all(&mut tables, "LOCK TABLES app.counted WRITE, app.kept WRITE").await;
    let answered = send_writes(&front).await;
    until("the writes to wait for their tables", async || {
        let list = blocking(move || cluster.primary().sql("SHOW PROCESSLIST").unwrap()).await;
        (list.matches("Waiting for table metadata lock").count() == 7).then_some(())
    })
    .await;
    // It leaves a connection behind for the next one: none is made any more when nothing comes back.
    let mut writes = front.client().await;
    all(&mut writes, "INSERT INTO app.doubtful VALUES ('writes', 1)").await;
    until("two statements to wait for locks", async || {
        let list = blocking(move || cluster.primary().sql("SHOW PROCESSLIST").unwrap()).await;
        (list.matches("UPDATE app.locked").count() == 2).then_some(())
    })
    .await;
    all(&mut others, "INSERT INTO app.doubtful VALUES ('other', 2)").await;
    mute.on.store(true, Ordering::SeqCst);
    let unlocking = tokio::spawn(async move { tables.query("UNLOCK TABLES").await.map(drop) });
    let committing = tokio::spawn(async move {
        all(&mut commits, "COMMIT").await;
        commits
    });
    let writing = tokio::spawn(async move {
        let result = writes.query_one("INSERT INTO app.doubtful VALUES ('writes', 1)").await.unwrap();
        (writes, result.affected)
    });
    let replica = (0..3).find(|index| *index != cluster.primary_index()).unwrap();
    until("what was committed to be on the next primary", async || {
        let sql = "SELECT (SELECT COUNT(*) FROM app.doubtful), (SELECT COUNT(*) FROM app.counted), \
                   (SELECT GROUP_CONCAT(id, ':', n ORDER BY id) FROM app.kept)";
        let there = blocking(move || cluster.server(replica).sql(sql).unwrap()).await;
        (there.trim() == "6\t3\t1:2,4:40,5:50,6:7,7:8").then_some(())
    })
    .await;
    blocking(move || {
        cluster.primary().kill9();
        cluster.promote(replica).unwrap();
    })
    .await;
    unlocking.await.unwrap().unwrap_err();
    let mut commits = committing.await.unwrap();
    let (mut writes, affected) = writing.await.unwrap();
    assert_eq!(affected, 1);
    assert_eq!(value(&mut writes, "SELECT ROW_COUNT()").await, "1");
    for waiting in answered {
        let (write, mut client, result) = waiting.await.unwrap();
        let sql = write.sql;
        let Some((affected, info)) = write.said else {
            let (code, message) = said(&result.unwrap_err());
            assert_eq!(code, 8007, "{sql}: {message}");
            assert!(message.contains("done: ") && message.contains("do not do it again"), "{sql}: {message}");
            continue;
        };
        let result = result.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!((result.affected, &*result.info), (affected, info), "{sql}");
        assert!(result.status.contains(Status::AUTOCOMMIT) && !result.status.contains(Status::IN_TRANSACTION), "{sql}");
        let made = match write.made {
            Some(n) => {
                let first = format!("/* sqluice: primary */ SELECT MIN(id) FROM app.counted WHERE n = {n}");
                value(&mut client, &first).await
            }
            None => "0".into(),
        };
        assert_eq!(result.last_insert_id.to_string(), made, "{sql}");
        assert_eq!(value(&mut client, "SELECT LAST_INSERT_ID()").await, made, "{sql}");
    }
    waiting.await.unwrap();
    // All go on; nothing was done twice, and nothing is missing.
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(who, n ORDER BY who, n) FROM app.doubtful";
    assert_eq!(value(&mut commits, rows).await, "commits1,commits2,other1,other2,writes1,writes1");
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(n ORDER BY id) FROM app.locked";
    assert_eq!(value(&mut writes, rows).await, "21,12,3");
    drop(locker);
}

#[tokio::test]
async fn the_binary_log_tells_what_became_of_commits_and_writes() {
    check(Family::MariaDb).await;
}
