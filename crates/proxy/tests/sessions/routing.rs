//! Where statements go, and what a client sees of that: nothing.

use std::time::Duration;

use crate::support::{Front, port, servers, value};

#[tokio::test]
async fn reads_go_to_the_replica_and_all_else_to_the_primary() {
    let front = Front::start("", "");
    let (primary, replica) = (servers().primary().port(), servers().server(1).port());
    let mut client = front.client().await;
    assert_eq!(port(&mut client).await, replica);
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT @@port").await, primary.to_string());
    assert_eq!(value(&mut client, "/* sqluice: server=db1 */ SELECT @@port").await, primary.to_string());
    let misspelt = client.query("/* sqluice: server=db9 */ SELECT 1").await.unwrap_err();
    assert_eq!(misspelt.code(), Some(1105));
    assert!(misspelt.to_string().contains("it has db1, db2"), "{misspelt}");
    client.query("BEGIN").await.unwrap();
    assert_eq!(front.pins(&mut client).await, ["transaction"]);
    assert_eq!(port(&mut client).await, primary);
    client.query("COMMIT").await.unwrap();
    assert_eq!(front.pins(&mut client).await, [""; 0]);
    assert_eq!(port(&mut client).await, replica);
    client.query("START TRANSACTION READ ONLY").await.unwrap();
    assert_eq!(port(&mut client).await, replica);
    client.query("ROLLBACK").await.unwrap();
    client.query("SET autocommit = 0").await.unwrap();
    assert_eq!(port(&mut client).await, primary);
    client.query("SET autocommit = 1").await.unwrap();
    assert_eq!(port(&mut client).await, replica);
}

#[tokio::test]
async fn a_client_knows_its_connection_by_one_id() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    let id = client.greeting().connection_id.to_string();
    let result = client.query_one("SELECT CONNECTION_ID()").await.unwrap();
    assert_eq!(result.scalar().as_deref(), Some(&*id));
    assert_eq!(result.columns[0].name, "CONNECTION_ID()");
    assert_eq!(value(&mut client, "SELECT CONNECTION_ID() + 0").await, id);
}

#[tokio::test]
async fn kill_takes_the_ids_that_clients_know() {
    let front = Front::start("", "");
    let (mut victim, mut killer) = (front.client().await, front.client().await);
    let id = victim.greeting().connection_id;
    let sleeping = tokio::spawn(async move {
        let result = victim.query("SELECT SLEEP(30)").await;
        (victim, result)
    });
    // The kill may come before the statement: it is repeated until the statement has ended.
    while !sleeping.is_finished() {
        killer.query(format!("KILL QUERY {id}")).await.unwrap();
        tokio::task::yield_now().await;
    }
    let (mut victim, result) = sleeping.await.unwrap();
    let interrupted = match result {
        Ok(results) => results[0].scalar().as_deref() == Some("1"),
        Err(error) => error.code() == Some(1317),
    };
    assert!(interrupted);
    assert_eq!(value(&mut victim, "SELECT 7").await, "7");
    killer.query(format!("KILL {id}")).await.unwrap();
    assert!(victim.query("SELECT 7").await.is_err(), "the session is gone");
    // As on a server, the id is known until the session has ended, which may be a little after its client has heard of it.
    let gone = async {
        loop {
            match killer.query(format!("KILL {id}")).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error.code(),
            }
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert_eq!(gone.expect("the session ends"), Some(1094));
}

#[tokio::test]
async fn errors_are_the_servers_own_and_belong_to_their_statement() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    assert_eq!(client.query("SELECT * FROM nowhere").await.unwrap_err().code(), Some(1146));
    assert_eq!(client.query("SET no_such_variable = 1").await.unwrap_err().code(), Some(1193));
    assert_eq!(client.init_db("no_such_schema").await.unwrap_err().code(), Some(1049));
    assert_eq!(client.query("SELECT FROM").await.unwrap_err().code(), Some(1064));
    assert_eq!(value(&mut client, "SELECT DATABASE()").await, "app");
}

#[tokio::test]
async fn big_rows_and_several_results_pass_whole() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    for length in [1, 70_000, 3_000_000, 15_900_000] {
        let result = client.query_one(format!("SELECT REPEAT('x', {length})")).await.unwrap();
        assert_eq!(result.scalar().map(|text| text.len()), Some(length));
    }
    let results = client.query("SELECT 1; SELECT 2; SET @a = 3; SELECT 4").await.unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(results[3].scalar().as_deref(), Some("4"));
}

#[tokio::test]
async fn the_hundred_thousandth_row_is_the_right_one() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    let result = client.query_one("SELECT seq, REPEAT('y', seq % 50) FROM seq_1_to_100000").await.unwrap();
    assert_eq!(result.rows.len(), 100_000);
    for (index, row) in result.rows.iter().enumerate() {
        assert_eq!(row[0].as_deref(), Some((index + 1).to_string().as_bytes()));
    }
}
