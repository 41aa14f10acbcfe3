//! Binary prepared statements over shared connections.

use net::query::Parameter;

use crate::support::Front;

#[tokio::test]
async fn statements_survive_multiplexing() {
    let front = Front::start("max_connections_per_server = 2\nstatements_max = 3", "");
    let mut tasks = Vec::new();
    for number in 0..12_i64 {
        let mut client = front.client().await;
        tasks.push(tokio::spawn(async move {
            let mut statements = Vec::new();
            for offset in 0..4 {
                statements.push(client.prepare(format!("SELECT ? + {offset}, ?")).await.unwrap());
            }
            for round in 0..10_i64 {
                for (offset, statement) in statements.iter().enumerate() {
                    let text = format!("{number}/{round}");
                    let parameters =
                        [Parameter::Int(number * 100 + round), Parameter::Bytes(text.clone().into_bytes())];
                    let result = client.execute(statement, &parameters).await.unwrap();
                    let expected = number * 100 + round + offset as i64;
                    assert_eq!(result[0].rows[0][0].as_deref(), Some(expected.to_string().as_bytes()));
                    assert_eq!(result[0].rows[0][1].as_deref(), Some(text.as_bytes()));
                }
            }
            for statement in statements {
                client.close(statement).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(front.sum(|worker| worker.reprepares.get()) > 10, "statements were prepared again elsewhere");
    let mut client = front.client().await;
    assert_eq!(front.pins(&mut client).await, [""; 0]);
}

#[tokio::test]
async fn a_statement_belongs_to_the_schema_it_was_prepared_in() {
    let front = Front::start("max_connections_per_server = 1", "");
    let (mut client, mut other) = (front.client().await, front.client().await);
    client.query("CREATE DATABASE IF NOT EXISTS app2").await.unwrap_or_default();
    client.query("CREATE TABLE IF NOT EXISTS app.here (v INT)").await.unwrap();
    client.query("INSERT INTO app.here VALUES (1)").await.unwrap();
    let statement = client.prepare("/* sqluice: primary */ SELECT COUNT(*) FROM here WHERE v = ?").await.unwrap();
    client.query("USE information_schema").await.unwrap();
    other.query("/* sqluice: primary */ SELECT 1").await.unwrap();
    for _ in 0..3 {
        let result = client.execute(&statement, &[Parameter::Int(1)]).await.unwrap();
        assert_eq!(result[0].scalar().as_deref(), Some("1"));
        // Another session takes the only connection, and with it the statement's place.
        for text in 0..3 {
            let filler = other.prepare(format!("/* sqluice: primary */ SELECT {text}")).await.unwrap();
            other.execute(&filler, &[]).await.unwrap();
        }
    }
    let mut third = front.client_with(|login| login.schema = None).await;
    let result = third.query_one("SELECT DATABASE()").await.unwrap();
    assert_eq!(result.scalar(), None, "no schema was chosen");
}

#[tokio::test]
async fn an_execution_may_follow_its_preparation_at_once() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    let prepare = |text: &str| [&[0x16], text.as_bytes()].concat();
    let execute_last = [0x17, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0];
    client.send_raw(&prepare("SELECT 41 + 1")).await.unwrap();
    client.send_raw(&execute_last).await.unwrap();
    let mut packets = Vec::new();
    for _ in 0..6 {
        packets.push(client.read_raw().await.unwrap().1);
    }
    // The head and column of the preparation; the count, column, row and end of the execution.
    assert_eq!((packets[0][0], packets[2].as_slice(), packets[5][0]), (0, &[1][..], 0xfe));
    assert_eq!(packets[4][..2], [0, 0], "a binary row without NULLs");
    assert_eq!(packets[4][2], 42);
    client.send_raw(&prepare("SELECT FROM")).await.unwrap();
    client.send_raw(&execute_last).await.unwrap();
    let [failed, unknown] = [client.read_raw().await.unwrap().1, client.read_raw().await.unwrap().1];
    assert_eq!((&failed[..3], &unknown[..3]), (&[0xff, 0x28, 0x04][..], &[0xff, 0xdb, 0x04][..]));
}

#[tokio::test]
async fn a_cursor_pins_until_its_last_row() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    let statement = client.prepare("SELECT seq FROM seq_1_to_10").await.unwrap();
    let columns = client.open_cursor(&statement, &[]).await.unwrap().columns;
    assert_eq!(front.pins(&mut client).await, ["cursor"]);
    let mut rows = 0;
    while front.pins(&mut client).await == ["cursor"] {
        rows += client.fetch(&statement, columns.clone(), 4).await.unwrap().rows.len();
    }
    assert_eq!(rows, 10);
    client.open_cursor(&statement, &[]).await.unwrap();
    assert_eq!(front.pins(&mut client).await, ["cursor"]);
    client.close(statement).await.unwrap();
    client.ping().await.unwrap();
    assert_eq!(front.pins(&mut client).await, [""; 0]);
}

#[tokio::test]
async fn refused_long_data_is_answered_by_the_execution() {
    let front = Front::start("max_connections_per_server = 1\nwait_ms = 50", "");
    let (mut client, mut other) = (front.client().await, front.client().await);
    let statement = client.prepare("SELECT ?").await.unwrap();
    other.query("START TRANSACTION; SELECT 1 FROM mysql.user LIMIT 1").await.unwrap();
    // The statement's number, the parameter's, and data; a reply would be taken for that of the next command.
    let id = statement.id.to_le_bytes();
    client.send_raw(&[&[0x18], &id[..], &[0, 0], b"long"].concat()).await.unwrap();
    client.ping().await.unwrap();
    // No NULL, types follow, of a BLOB.
    let execute = [&[0x17], &id[..], &[0, 1, 0, 0, 0], &[0, 1, 0xfc, 0]].concat();
    client.send_raw(&execute).await.unwrap();
    let refused = client.read_raw().await.unwrap().1;
    assert_eq!(refused[..3], [0xff, 0xb3, 0x04], "1203: no connection came free");
    client.ping().await.unwrap();
    other.query("ROLLBACK").await.unwrap();
    client.send_raw(&[&[0x18], &id[..], &[0, 0], b"long"].concat()).await.unwrap();
    client.send_raw(&execute).await.unwrap();
    let mut packets = Vec::new();
    for _ in 0..4 {
        packets.push(client.read_raw().await.unwrap().1);
    }
    assert!(packets[2].ends_with(b"\x04long"), "{packets:?}");
}
