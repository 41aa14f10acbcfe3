//! SQL nodes of an NDB cluster. There are no real ones here: scripted servers tell what MySQL's documentation says that SQL nodes tell.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::{Act, Moment, Server};

use crate::support::{Front, all, until, value};

/// A made-up SQL node, and what it tells of its cluster.
struct SqlNode {
    server: Server,
    ready: Arc<AtomicU32>,
    /// Node group and status of each data node.
    data_nodes: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
    /// Rows that it was given within transactions.
    rows: Arc<AtomicU32>,
}

const ALL_STARTED: [(&str, &str); 2] = [("0", "STARTED"), ("1", "STARTED")];

impl SqlNode {
    fn start(name: &'static str, number: u32) -> SqlNode {
        let (ready, data_nodes) = (Arc::new(AtomicU32::new(2)), Arc::new(Mutex::new(ALL_STARTED.to_vec())));
        let (ready_there, data_nodes_there) = (ready.clone(), data_nodes.clone());
        let rows = Arc::new(AtomicU32::new(0));
        let rows_there = rows.clone();
        let server = Server::start(move |moment, reply| {
            let Moment::Command([_, text @ ..]) = moment else { return None };
            let text = std::str::from_utf8(text).unwrap_or_default();
            let reply = if text.starts_with("SHOW STATUS WHERE Variable_name IN ('Ndb_cluster_node_id'") {
                let (id, ready) = (number.to_string(), ready_there.load(Ordering::SeqCst).to_string());
                reply.table(
                    &["Variable_name", "Value"],
                    &[
                        &["Ndb_cluster_node_id", &id],
                        &["Ndb_number_of_data_nodes", "2"],
                        &["Ndb_number_of_ready_data_nodes", &ready],
                        &["Ndb_system_name", "MC_20191126162038"],
                    ],
                )
            } else if text.contains("ndbinfo.membership") {
                let rows: Vec<[&str; 2]> =
                    data_nodes_there.lock().unwrap().iter().map(|(group, status)| [*group, *status]).collect();
                let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..]).collect();
                reply.table(&["group_id", "status"], &rows)
            } else if text.ends_with("FROM whom") {
                reply.table(&["name"], &[&[name]])
            } else if text == "BEGIN" || text.starts_with("INSERT INTO opened") {
                rows_there.fetch_add(u32::from(text != "BEGIN"), Ordering::SeqCst);
                // OK, within a transaction.
                reply.packet(&[0, 0, 0, 0x03, 0, 0, 0])
            } else {
                return None;
            };
            Some(vec![Act::Send(reply.bytes)])
        });
        SqlNode { server, ready, data_nodes, rows }
    }
}

async fn in_front_of(nodes: &[SqlNode]) -> Front {
    let addresses: Vec<String> = nodes.iter().map(|node| node.server.address().to_string()).collect();
    let front = Front::start_on(&addresses, |setup| {
        setup.kind = "ndb";
        setup.monitor = "user = \"m\"\npassword = \"p\"".into();
        setup.more = format!("[user.{}]\npassword = \"{}\"\n", lab::APP_USER, lab::APP_PASSWORD);
    })
    .await;
    front.knows(nodes.len()).await;
    front
}

async fn serving(front: &Front, count: usize) {
    until("as many servers that serve", async || {
        let serving = front.metrics().await.sum("sqluice_server_serves_reads", &[]);
        (serving == count as f64).then_some(())
    })
    .await;
}

async fn diagnosed(front: &Front, name: &str) {
    until(name, async || {
        let label = format!("diagnosis=\"{name}\"");
        (front.metrics().await.sum("sqluice_cluster_diagnosis", &[&label]) > 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_sql_node_takes_writes_and_a_read_behind_a_write_waits_for_nobody() {
    let nodes = [SqlNode::start("db1", 101), SqlNode::start("db2", 102)];
    let front = in_front_of(&nodes).await;
    let mut client = front.client().await;
    let (mut changes, mut last, mut number) = (0, String::new(), 0);
    // One that was slow once is left out for a while.
    let metrics = until("both to take writes and to share the reads", async || {
        for _ in 0..50 {
            number += 1;
            all(&mut client, &format!("INSERT INTO t VALUES ({number})")).await;
            let from = value(&mut client, "SELECT name FROM whom").await;
            changes += u32::from(from != last);
            last = from;
        }
        let metrics = front.metrics().await;
        let is_used = |server: &&str| metrics.writes(server) > 0.0 && metrics.reads(server) > 0.0;
        (["db1", "db2"].iter().all(is_used) && changes > 1).then_some(metrics)
    })
    .await;
    assert_eq!(metrics.sum("sqluice_holds_total", &[]), 0.0);
}

#[tokio::test]
async fn an_sql_node_without_data_nodes_is_left_alone_and_without_any_statements_wait() {
    let nodes = [SqlNode::start("db1", 101), SqlNode::start("db2", 102)];
    let front = in_front_of(&nodes).await;
    let mut client = front.client().await;
    nodes[0].ready.store(0, Ordering::SeqCst);
    diagnosed(&front, "out_of_group").await;
    serving(&front, 1).await;
    let writes = front.metrics().await.writes("db1");
    for number in 0..20 {
        all(&mut client, &format!("INSERT INTO t VALUES ({number})")).await;
        assert_eq!(value(&mut client, "SELECT name FROM whom").await, "db2");
    }
    assert_eq!(front.metrics().await.writes("db1"), writes);
    // The cluster has lost a node group: what comes now waits until it is there again.
    *nodes[1].data_nodes.lock().unwrap() = vec![("0", "STARTED"), ("1", "STARTING")];
    diagnosed(&front, "node_group_down").await;
    serving(&front, 0).await;
    let waits = tokio::spawn(async move { value(&mut client, "SELECT name FROM whom").await });
    until("a statement that waits", async || {
        (front.metrics().await.sum("sqluice_holds_total", &[]) > 0.0).then_some(())
    })
    .await;
    assert!(!waits.is_finished());
    nodes[0].ready.store(2, Ordering::SeqCst);
    assert_eq!(tokio::time::timeout(Duration::from_secs(15), waits).await.unwrap().unwrap(), "db1");
}

#[tokio::test]
async fn a_transaction_whose_sql_node_loses_its_data_nodes_goes_on_at_another_one() {
    let nodes = [SqlNode::start("db1", 101), SqlNode::start("db2", 102)];
    let front = in_front_of(&nodes).await;
    let mut client = front.client().await;
    all(&mut client, "BEGIN").await;
    all(&mut client, "INSERT INTO opened VALUES (1)").await;
    let rows = || nodes.each_ref().map(|node| node.rows.load(Ordering::SeqCst));
    let here = usize::from(rows() == [0, 1]);
    nodes[here].ready.store(0, Ordering::SeqCst);
    serving(&front, 1).await;
    all(&mut client, "INSERT INTO opened VALUES (2)").await;
    all(&mut client, "COMMIT").await;
    assert_eq!(rows()[1 - here], 2, "both rows are there");
    assert_eq!(front.metrics().await.sum("sqluice_replays_total", &["result=\"replayed\""]), 1.0);
}
