//! Transactions whose server is lost: they go on on the new primary, or their clients are told why not.

use lab::{Family, Replication};
use net::query::{Client, Parameter};
use testkit::{Act, Moment, Server};
use wire::errno;

use crate::support::{Front, SOON, all, blocking, error, failing, until, value};

/// Makes a table anew, and waits until it is everywhere.
async fn table(servers: &'static Replication, sql: &'static str) {
    blocking(move || {
        servers.primary().sql(sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
}

/// Kills the primary. Nothing that was committed gets lost: the replicas have it.
async fn kill_primary(servers: &'static Replication) {
    blocking(move || {
        servers.wait_in_sync(SOON).unwrap();
        servers.primary().kill9();
    })
    .await;
}

/// Makes a replica the primary.
async fn promote(servers: &'static Replication) {
    blocking(move || {
        let index = (0..3).find(|index| *index != servers.primary_index()).unwrap();
        servers.promote(index).unwrap();
    })
    .await;
}

async fn replays(front: &Front, result: &str) -> f64 {
    front.metrics().await.sum("sqluice_replays_total", &[&format!("result=\"{result}\"")])
}

/// Clients in transactions of many shapes, and what each must find in the end.
pub async fn check_transactions_go_on(family: Family) {
    let servers = failing(family).await;
    table(
        *servers,
        "DROP TABLE IF EXISTS app.replayed, app.counted; \
         CREATE TABLE app.replayed (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20), n INT) AUTO_INCREMENT=70001; \
         CREATE TABLE app.counted (id INT PRIMARY KEY, n INT); INSERT INTO app.counted VALUES (1, 10), (2, 20)",
    )
    .await;
    let front = Front::start(&servers, |_| {}).await;

    let mut plain = front.client().await;
    all(&mut plain, "BEGIN").await;
    all(&mut plain, "INSERT INTO app.replayed (who, n) VALUES ('plain', 1)").await;
    let reported = value(&mut plain, "SELECT LAST_INSERT_ID()").await;
    let row = format!("SELECT n FROM app.replayed WHERE id = {reported}");
    assert_eq!(value(&mut plain, &row).await, "1");

    // Others have counted on meanwhile, and are committed.
    let mut other = front.client().await;
    all(&mut other, "INSERT INTO app.replayed (who, n) VALUES ('other', 1), ('other', 2)").await;

    let mut implicit = front.client().await;
    all(&mut implicit, "SET autocommit = 0").await;
    all(&mut implicit, "UPDATE app.counted SET n = n + 1 WHERE id = 1").await;

    let mut stateful = front.client().await;
    all(&mut stateful, "SET @step = 5").await;
    all(&mut stateful, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    all(&mut stateful, "START TRANSACTION").await;
    all(&mut stateful, "INSERT INTO app.replayed (who, n) VALUES ('stateful', @step)").await;
    all(&mut stateful, "SET @step = 6, sql_mode = ''").await;
    all(&mut stateful, "INSERT INTO app.replayed (who, n) VALUES ('stateful', @step)").await;
    all(&mut stateful, "SAVEPOINT here").await;
    all(&mut stateful, "INSERT INTO app.replayed (who, n) VALUES ('stateful', 99)").await;
    all(&mut stateful, "ROLLBACK TO here").await;
    assert_eq!(error(&mut stateful, "INSERT INTO app.counted VALUES (2, 1)").await.0, 1062);

    let mut prepared = front.client().await;
    let insert = prepared.prepare("INSERT INTO app.replayed (who, n) VALUES (?, ?)").await.unwrap();
    let select = prepared.prepare("SELECT n FROM app.counted WHERE id = ?").await.unwrap();
    all(&mut prepared, "BEGIN").await;
    for n in [1, 2] {
        let parameters = [Parameter::Bytes(b"prepared".to_vec()), Parameter::Int(n)];
        prepared.execute(&insert, &parameters).await.unwrap();
    }
    prepared.execute(&select, &[Parameter::Int(2)]).await.unwrap();
    // That its end is prepared does not end it.
    let commit = prepared.prepare("COMMIT").await.unwrap();
    prepared.close(insert).await.unwrap();

    let mut leaves = front.client().await;
    all(&mut leaves, "BEGIN").await;
    all(&mut leaves, "INSERT INTO app.replayed (who, n) VALUES ('leaves', 1)").await;

    let mut idle = front.client().await;
    kill_primary(*servers).await;
    let work = async {
        // The statement that meets the loss is held, and then has its place in the replayed transaction.
        assert_eq!(value(&mut plain, &row).await, "1");
        all(&mut plain, "COMMIT").await;
        all(&mut implicit, "COMMIT").await;
        all(&mut stateful, "INSERT INTO app.replayed (who, n) VALUES ('stateful', @step + 1)").await;
        all(&mut stateful, "COMMIT").await;
        assert_eq!(value(&mut stateful, "SELECT @@sql_mode").await, "");
        let got = prepared.execute(&select, &[Parameter::Int(2)]).await.unwrap();
        assert_eq!(got[0].scalar().as_deref(), Some("20"));
        prepared.execute(&commit, &[]).await.unwrap();
        all(&mut leaves, "ROLLBACK").await;
    };
    tokio::join!(work, promote(*servers));
    assert_eq!(value(&mut idle, "SELECT 1").await, "1");
    let mut found = front.client().await;
    let mut count = async |who: &str| {
        value(
            &mut found,
            &format!("/* sqluice: primary */ SELECT GROUP_CONCAT(n ORDER BY n) FROM app.replayed WHERE who = '{who}'"),
        )
        .await
    };
    assert_eq!(count("plain").await, "1");
    assert_eq!(count("stateful").await, "5,6,7");
    assert_eq!(count("prepared").await, "1,2");
    assert_eq!(count("leaves").await, "NULL");
    let id = value(&mut found, "/* sqluice: primary */ SELECT id FROM app.replayed WHERE who = 'plain'").await;
    assert_eq!(id, reported, "the row has the id that the client was told");
    assert_eq!(value(&mut found, "/* sqluice: primary */ SELECT n FROM app.counted WHERE id = 1").await, "11");
    assert_eq!(replays(&front, "replayed").await, 4.0, "{}", front.log());
    assert_eq!(front.metrics().await.sum("sqluice_own_errors_total", &[]), 0.0);
}

#[tokio::test]
async fn transactions_go_on_on_the_new_primary() {
    check_transactions_go_on(Family::MariaDb).await;
}

/// The statements of a transaction, the changes on the new primary before the replay, and the statement that meets the
/// loss.
struct Hopeless {
    name: &'static str,
    did: &'static [&'static str],
    meets: &'static str,
    /// A part of the message.
    why: &'static str,
}

const HOPELESS: &[Hopeless] = &[
    Hopeless {
        name: "changed row",
        did: &["SELECT n FROM app.hopeless WHERE id = 1"],
        meets: "UPDATE app.hopeless SET n = n + 1 WHERE id = 2",
        why: "its statement 2 now gives another reply",
    },
    Hopeless {
        name: "a time that was written",
        did: &["UPDATE app.hopeless SET n = UNIX_TIMESTAMP() WHERE id = 3"],
        meets: "COMMIT",
        why: "it wrote what UNIX_TIMESTAMP gives",
    },
    Hopeless {
        name: "more statements than are kept",
        did: &["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4", "SELECT 5", "SELECT 6"],
        meets: "COMMIT AND CHAIN",
        why: "it has more than 5 statements (replay_statements_max)",
    },
    Hopeless {
        name: "an id that somebody else has and the client has used",
        did: &["INSERT INTO app.hopeless_ids (n) VALUES (1)", "INSERT INTO app.hopeless_ids (n) VALUES (1000)"],
        meets: "UPDATE app.hopeless_ids SET n = 2 WHERE id = 1000",
        why: "another AUTO_INCREMENT value, and the client may have used",
    },
];

#[tokio::test]
async fn a_transaction_that_cannot_go_on_is_rolled_back_and_its_client_reported_why() {
    let servers = failing(Family::MariaDb).await;
    table(
        *servers,
        "DROP TABLE IF EXISTS app.hopeless, app.hopeless_ids; CREATE TABLE app.hopeless (id INT PRIMARY KEY, n BIGINT); \
         INSERT INTO app.hopeless VALUES (1, 1), (2, 2), (3, 3); \
         CREATE TABLE app.hopeless_ids (id INT AUTO_INCREMENT PRIMARY KEY, n INT) AUTO_INCREMENT=1000",
    )
    .await;
    let front = Front::start(&servers, |setup| setup.listener = "replay_statements_max = 5".into()).await;
    let mut clients = Vec::new();
    for hopeless in HOPELESS {
        let mut client = front.client().await;
        all(&mut client, "BEGIN").await;
        for sql in hopeless.did {
            all(&mut client, sql).await;
        }
        clients.push(client);
    }
    // One whose id somebody else takes meanwhile, but who has not used it.
    let mut unused = front.client().await;
    all(&mut unused, "BEGIN").await;
    all(&mut unused, "INSERT INTO app.hopeless_ids (n) VALUES (3000)").await;
    kill_primary(*servers).await;
    promote(*servers).await;
    let cluster = *servers;
    blocking(move || {
        let sql = "UPDATE app.hopeless SET n = 100 WHERE id = 1; \
                   INSERT INTO app.hopeless_ids VALUES (1000, 7), (1001, 7), (1002, 7)";
        cluster.primary().sql(sql).unwrap();
    })
    .await;
    for (hopeless, client) in HOPELESS.iter().zip(&mut clients) {
        let Hopeless { name, meets, why, .. } = hopeless;
        let failed = client.query(meets).await.expect_err(name);
        let reported = failed.server_error().unwrap_or_else(|| panic!("{name}: {failed}"));
        assert_eq!(
            (reported.code, reported.sqlstate.as_deref()),
            (1213, Some("40001")),
            "{name}: {}",
            reported.message
        );
        assert!(
            reported.message.contains(why) && reported.message.contains("rolled back"),
            "{name}: {}",
            reported.message
        );
        // The session goes on.
        assert_eq!(value(client, "SELECT @@in_transaction").await, "0", "{name}");
        all(client, "BEGIN").await;
        all(client, "UPDATE app.hopeless SET n = n + 1 WHERE id = 2").await;
        all(client, "COMMIT").await;
    }
    all(&mut unused, "COMMIT").await;
    let mut found = front.client().await;
    let others = "/* sqluice: primary */ SELECT COUNT(*), MAX(n) FROM app.hopeless_ids WHERE id > 1002";
    assert_eq!(value(&mut found, others).await, "1", "the transaction that had not used its id");
    assert_eq!(value(&mut found, "/* sqluice: primary */ SELECT n FROM app.hopeless WHERE id = 2").await, "6");
    assert_eq!(replays(&front, "replayed").await, 1.0);
    assert_eq!(replays(&front, "differs").await, 2.0);
    assert_eq!(replays(&front, "refused").await, 2.0);
}

#[tokio::test]
async fn with_replay_of_any_transaction_times_may_be_new_ones() {
    let servers = failing(Family::MariaDb).await;
    table(*servers, "DROP TABLE IF EXISTS app.times; CREATE TABLE app.times (t DATETIME(6))").await;
    let front = Front::start(&servers, |setup| setup.listener = "replay = \"any\"".into()).await;
    let mut client = front.client().await;
    all(&mut client, "BEGIN").await;
    all(&mut client, "INSERT INTO app.times VALUES (NOW(6))").await;
    kill_primary(*servers).await;
    let (_, ()) = tokio::join!(all(&mut client, "COMMIT"), promote(*servers));
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) FROM app.times").await, "1");
}

#[tokio::test]
async fn what_the_result_cache_answered_in_a_transaction_must_be_so_on_the_new_primary() {
    let servers = failing(Family::MariaDb).await;
    table(
        *servers,
        "DROP TABLE IF EXISTS app.cached_in; CREATE TABLE app.cached_in (id INT PRIMARY KEY, n INT); \
         INSERT INTO app.cached_in VALUES (1, 1), (2, 2)",
    )
    .await;
    let rule = "[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\n";
    let front = Front::start(&servers, |setup| setup.more = rule.into()).await;
    let mut clients = Vec::new();
    for id in [1, 2] {
        let mut client = front.client().await;
        all(&mut client, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
        let read = format!("SELECT n FROM app.cached_in WHERE id = {id}");
        // In a transaction of its own, so that a server has answered nothing in the next one.
        until("an answer that is kept", async || {
            let before = front.metrics().await.sum("sqluice_cache_hits_total", &[]);
            all(&mut client, "BEGIN").await;
            all(&mut client, &read).await;
            let is_hit = front.metrics().await.sum("sqluice_cache_hits_total", &[]) > before;
            if !is_hit {
                all(&mut client, "COMMIT").await;
            }
            is_hit.then_some(())
        })
        .await;
        clients.push(client);
    }
    kill_primary(*servers).await;
    promote(*servers).await;
    blocking(move || servers.primary().sql("UPDATE app.cached_in SET n = 20 WHERE id = 2").unwrap()).await;
    let [good, bad] = &mut clients[..] else { unreachable!() };
    all(good, "UPDATE app.cached_in SET n = n + 100 WHERE id = 1").await;
    all(good, "COMMIT").await;
    let (code, message) = error(bad, "UPDATE app.cached_in SET n = n + 100 WHERE id = 2").await;
    assert!(code == 1213 && message.contains("another reply"), "{code} {message}");
    assert_eq!(value(good, "/* sqluice: primary */ SELECT SUM(n) FROM app.cached_in").await, "121");
}

#[tokio::test]
async fn without_replay_a_session_ends_with_the_server_of_its_transaction() {
    let servers = failing(Family::MariaDb).await;
    let front = Front::start(&servers, |setup| setup.listener = "replay = \"off\"".into()).await;
    let mut client = front.client().await;
    all(&mut client, "BEGIN").await;
    all(&mut client, "SELECT 1").await;
    kill_primary(*servers).await;
    assert_eq!(error(&mut client, "SELECT 1").await.0, 2013);
    assert!(client.ping().await.is_err());
    promote(*servers).await;
}

/// A primary that is made read-only by hand takes no commits: the transaction goes on where it can be committed.
pub async fn check_read_only(family: Family) {
    let servers = failing(family).await;
    table(*servers, "DROP TABLE IF EXISTS app.switched; CREATE TABLE app.switched (n INT PRIMARY KEY)").await;
    let front = Front::start(&servers, |_| {}).await;
    let mut writes = front.client().await;
    all(&mut writes, "BEGIN").await;
    all(&mut writes, "INSERT INTO app.switched VALUES (1)").await;
    let mut commits = front.client().await;
    all(&mut commits, "BEGIN").await;
    all(&mut commits, "INSERT INTO app.switched VALUES (3)").await;
    promote(*servers).await;
    all(&mut writes, "INSERT INTO app.switched VALUES (2)").await;
    all(&mut writes, "COMMIT").await;
    all(&mut commits, "COMMIT").await;
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(n ORDER BY n) FROM app.switched";
    assert_eq!(value(&mut commits, rows).await, "1,2,3");
    assert_eq!(replays(&front, "replayed").await, 2.0);
}

#[tokio::test]
async fn a_primary_made_read_only_hands_its_transactions_over() {
    check_read_only(Family::MariaDb).await;
}

#[tokio::test]
async fn a_primary_that_shuts_down_hands_its_transactions_over() {
    let servers = failing(Family::MariaDb).await;
    table(*servers, "DROP TABLE IF EXISTS app.shut; CREATE TABLE app.shut (n INT PRIMARY KEY)").await;
    let front = Front::start(&servers, |_| {}).await;
    let mut idle = front.client().await;
    all(&mut idle, "BEGIN").await;
    all(&mut idle, "INSERT INTO app.shut VALUES (1)").await;
    let mut busy = front.client().await;
    all(&mut busy, "BEGIN").await;
    all(&mut busy, "INSERT INTO app.shut VALUES (2)").await;
    let cluster = *servers;
    let ends = async {
        until("the statement to run", async || {
            let list = blocking(move || cluster.primary().sql("SHOW PROCESSLIST").unwrap()).await;
            list.contains("SLEEP(1)").then_some(())
        })
        .await;
        blocking(move || cluster.primary().stop().unwrap()).await;
        promote(cluster).await;
        all(&mut idle, "COMMIT").await;
    };
    tokio::join!(ends, async {
        // Running when the server begins to end.
        all(&mut busy, "UPDATE app.shut SET n = 3 WHERE n = 2 AND SLEEP(1) = 0").await;
        all(&mut busy, "COMMIT").await;
    });
    let rows = "/* sqluice: primary */ SELECT GROUP_CONCAT(n ORDER BY n) FROM app.shut";
    let mut found = front.client().await;
    assert_eq!(value(&mut found, rows).await, "1,3");
}

#[tokio::test]
async fn held_writes_are_let_go_one_behind_the_other() {
    const CLIENTS: usize = 150;
    let servers = failing(Family::MariaDb).await;
    table(*servers, "DROP TABLE IF EXISTS app.held; CREATE TABLE app.held (n INT PRIMARY KEY)").await;
    let front = Front::start(&servers, |_| {}).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(front.client().await);
    }
    kill_primary(*servers).await;
    let writers = clients.into_iter().enumerate().map(|(n, mut client)| {
        tokio::spawn(async move { all(&mut client, &format!("INSERT INTO app.held VALUES ({n})")).await.len() })
    });
    let writers: Vec<_> = writers.collect();
    let holding = async || front.metrics().await.sum("sqluice_held_statements", &[]) as usize;
    until("all writes to be held", async || (holding().await == CLIENTS).then_some(())).await;
    promote(*servers).await;
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(holding().await, 0);
    let mut client = front.client().await;
    let count = value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) FROM app.held").await;
    assert_eq!(count, CLIENTS.to_string());
    assert_eq!(front.metrics().await.sum("sqluice_own_errors_total", &[]), 0.0);
}

/// A server that dies when it has got this text, the first time.
fn dies_at(text: &'static str) -> Server {
    let died = std::sync::atomic::AtomicBool::new(false);
    Server::start(move |moment, reply| match moment {
        // Writes have a mark in front.
        Moment::Command(command) if command.ends_with(text.as_bytes()) => {
            let first = !died.swap(true, std::sync::atomic::Ordering::SeqCst);
            // A connection that such a server closes by itself, and not at once, was killed by somebody.
            Some(vec![if first { Act::Reset } else { Act::Send(reply.ok().bytes) }])
        }
        Moment::Command(command) if command.get(1..) == Some(b"BEGIN") => Some(vec![Act::Send(begun(reply).bytes)]),
        Moment::Command(command)
            if command.windows(b"INSERT INTO opened".len()).any(|part| part == b"INSERT INTO opened") =>
        {
            Some(vec![Act::Send(begun(reply).bytes)])
        }
        _ => None,
    })
}

/// An OK packet within a transaction.
fn begun(reply: testkit::ReplyBuilder) -> testkit::ReplyBuilder {
    reply.packet(&[0, 0, 0, 0x03, 0, 0, 0])
}

async fn in_front_of(server: &Server) -> Front {
    let front = Front::start_on(&[server.address().to_string()], |setup| {
        setup.monitor = "user = \"m\"\npassword = \"p\"\nheartbeat = \"off\"".into();
        setup.more = format!("[user.{}]\npassword = \"{}\"\n", lab::APP_USER, lab::APP_PASSWORD);
    })
    .await;
    front.knows(0).await;
    front
}

async fn sqlstate(client: &mut Client, sql: &str) -> (u16, String, String) {
    let failed = client.query(sql).await.unwrap_err();
    let reported = failed.server_error().unwrap_or_else(|| panic!("{sql}: {failed}"));
    (reported.code, reported.sqlstate.clone().unwrap_or_default(), reported.message.clone())
}

#[tokio::test]
async fn a_commit_without_an_answer_is_in_doubt_and_not_repeated() {
    let server = dies_at("COMMIT");
    let front = in_front_of(&server).await;
    let mut client = front.client().await;
    all(&mut client, "BEGIN").await;
    all(&mut client, "INSERT INTO opened VALUES (1)").await;
    let (code, state, message) = sqlstate(&mut client, "COMMIT").await;
    assert_eq!((code, &*state), (8007, "08007"), "{message}");
    assert!(message.contains("in doubt") && message.contains("db1") && message.contains("a COMMIT"), "{message}");
    // The session goes on, without a transaction.
    all(&mut client, "INSERT INTO t VALUES (1)").await;
    assert_eq!(front.metrics().await.sum("sqluice_statements_in_doubt_total", &[]), 1.0);
    assert_eq!(front.metrics().await.sum("sqluice_replays_total", &[]), 0.0);
}

#[tokio::test]
async fn a_write_without_an_answer_is_in_doubt_and_not_repeated() {
    let server = dies_at("INSERT INTO t VALUES (7)");
    let front = in_front_of(&server).await;
    let mut client = front.client().await;
    let (code, state, message) = sqlstate(&mut client, "INSERT INTO t VALUES (7)").await;
    assert_eq!((code, &*state), (8007, "08007"), "{message}");
    assert!(message.contains("a write"), "{message}");
    all(&mut client, "INSERT INTO t VALUES (8)").await;
}

#[tokio::test]
async fn a_text_that_reads_is_lost_and_one_that_writes_is_in_doubt() {
    for (text, expected) in [("SELECT 1", errno::CR_SERVER_LOST), ("INSERT INTO t VALUES (7)", 8007)] {
        let server = dies_at("EXECUTE s");
        let front = in_front_of(&server).await;
        let mut client = front.client().await;
        all(&mut client, &format!("PREPARE s FROM '{text}'")).await;
        let (code, _, message) = sqlstate(&mut client, "EXECUTE s").await;
        assert_eq!(code, expected, "{message}");
        let in_doubt = front.metrics().await.sum("sqluice_statements_in_doubt_total", &[]);
        assert_eq!(in_doubt, if expected == 8007 { 1.0 } else { 0.0 });
    }
}

#[tokio::test]
async fn what_leaves_nothing_behind_is_simply_done_again() {
    for text in ["INSERT INTO opened VALUES (2)", "COMMIT"] {
        let server = dies_at(text);
        let front = in_front_of(&server).await;
        let mut client = front.client().await;
        all(&mut client, "BEGIN").await;
        if text == "COMMIT" {
            // Nothing was written.
            all(&mut client, "COMMIT").await;
        } else {
            all(&mut client, "INSERT INTO opened VALUES (1)").await;
            all(&mut client, text).await;
            assert_eq!(replays(&front, "replayed").await, 1.0);
        }
    }
}
