//! Clients that replicate: a real replica, and the program that reads binary logs.

use std::process::Command;

use lab::{Family, Replication, ReplicationOptions};

use crate::support::{Front, blocking, client_program, has_mysql, run, until};

/// A primary behind the program, and a server of its own that becomes its replica through the program.
async fn replicates(family: Family) {
    let start = move || Replication::start(ReplicationOptions::new(family, 0)).unwrap();
    let (primary, replica) = blocking(move || (start(), start())).await;
    // All that the program's monitor writes must reach the replica too.
    let position = if family == Family::MariaDb { "SELECT @@gtid_current_pos" } else { "SELECT @@gtid_executed" };
    let at = primary.primary().sql(position).unwrap().trim().replace("\\n", "");
    let front = Front::start(&primary, |_| {}).await;
    let port = front.address.rsplit(':').next().unwrap().to_owned();
    let (user, password) = (lab::REPL_USER, lab::REPL_PASSWORD);
    let sql = match family {
        Family::MariaDb => {
            format!(
                "SET GLOBAL server_id = 77; RESET MASTER; SET GLOBAL gtid_slave_pos = '{at}'; \
                 CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', \
                 MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=0, MASTER_HEARTBEAT_PERIOD=1; \
                 START SLAVE;"
            )
        }
        Family::MySql => {
            format!(
                "SET GLOBAL server_id = 77; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{at}'; \
                 CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', \
                 SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_SSL=0, \
                 SOURCE_HEARTBEAT_PERIOD=1; START REPLICA;"
            )
        }
    };
    replica.primary().sql(&sql).unwrap();
    let script = "CREATE TABLE app.streamed (n INT PRIMARY KEY); INSERT INTO app.streamed VALUES (1), (2), (3);";
    primary.primary().sql(script).unwrap();
    let status = if family == Family::MariaDb { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
    let count = |rows: &str| replica.primary().sql("SELECT COUNT(*) FROM app.streamed").is_ok_and(|n| n.trim() == rows);
    until(&format!("rows at the replica: {}", replica.primary().sql(status).unwrap()), async || {
        count("3").then_some(())
    })
    .await;
    // Its connection belongs to nobody else, and others go on.
    let mut client = front.client().await;
    client.query("INSERT INTO app.streamed VALUES (4)").await.unwrap();
    until("another row at the replica", async || count("4").then_some(())).await;
    let stop = if family == Family::MariaDb { "STOP SLAVE" } else { "STOP REPLICA" };
    replica.primary().sql(stop).unwrap();
    front.is_pinned_by(&[]).await;
    client.query("INSERT INTO app.streamed VALUES (5)").await.unwrap();
}

#[tokio::test]
async fn a_mariadb_replica_replicates_through_it() {
    replicates(Family::MariaDb).await;
}

#[tokio::test]
async fn a_mysql_replica_replicates_through_it() {
    if has_mysql() {
        replicates(Family::MySql).await;
    }
}

#[tokio::test]
async fn binary_logs_are_read_from_afar() {
    // It knows no newer servers than its own.
    let program = client_program(Family::MariaDb).with_file_name("mariadb-binlog");
    let version = Command::new(&program).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        lab::skip(&format!("{} does not run", program.display()));
        return;
    }
    let primary = blocking(|| Replication::start(ReplicationOptions::new(Family::MariaDb, 0)).unwrap()).await;
    let logs = primary.primary().sql("SHOW BINARY LOGS").unwrap();
    let mut words = logs.split_whitespace().map(str::to_owned);
    let (log, size) = (words.next().unwrap(), words.next().unwrap());
    // The monitor's heartbeat goes on writing behind that.
    let front = Front::start(&primary, |_| {}).await;
    let read = async |address: String| {
        let mut command = Command::new(&program);
        let port = address.rsplit(':').next().unwrap().to_owned();
        command.args([
            "--no-defaults",
            "--read-from-remote-server",
            "--host=127.0.0.1",
            "--protocol=tcp",
            "--skip-ssl",
        ]);
        command.args([format!("--port={port}"), format!("--user={}", lab::REPL_USER), log.clone()]);
        command.args([format!("--password={}", lab::REPL_PASSWORD), format!("--stop-position={size}")]);
        run(command, "").await.output()
    };
    // Reading takes no time: what is there is sent, and the stream ends.
    let direct = read(primary.primary().address().to_string()).await;
    let through = read(front.address.clone()).await;
    assert!(direct.contains("CREATE USER") || direct.contains("GRANT"), "{direct:.500}");
    assert_eq!(direct, through);
    front.is_pinned_by(&[]).await;
}
