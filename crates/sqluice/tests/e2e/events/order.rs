//! Events of one session in their order: its statements, its transactions, and what kept its connection.

use std::path::Path;

use lab::Family;
use net::query::Parameter;
use serde_json::{Value, json};

use super::{event, form_begins, lines, start};
use crate::statements;
use crate::support::all;

/// The query events of one session.
fn of_session(file: &Path, session: &Value) -> Vec<Value> {
    lines(file).into_iter().filter(|line| line["kind"] == "query" && line["session"] == *session).collect()
}

async fn check(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let front = start(family, database, "queries = \"all\"", &file).await;
    let mut client = statements::within(&front, database).await;
    for text in [
        "SELECT v FROM items",
        "BEGIN",
        "UPDATE items SET v = 'x' WHERE id = 1",
        "SAVEPOINT s",
        "COMMIT AND CHAIN",
        "SELECT COUNT(*) FROM items",
        "ROLLBACK",
        "SELECT 1 FROM items",
        "SET autocommit = 0",
        "INSERT INTO items VALUES (31, 'y')",
        "CREATE TABLE other (a INT)",
        "SELECT v FROM items WHERE id = 31",
        "COMMIT",
        "SET autocommit = 1",
        "SELECT CONNECTION_ID() AS own, v FROM items WHERE id = 1",
        "SELECT id, 'end' FROM items",
    ] {
        all(&mut client, text).await;
    }
    let last = event(&file, "the last query", |line| form_begins(line, "SELECT id, ? FROM items")).await;
    let seen = of_session(&file, &last["session"]);
    let numbers: Vec<u64> = seen.iter().map(|line| line["statement"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{numbers:?}");
    let trx = |begin: &str| {
        let found = seen.iter().find(|line| form_begins(line, begin)).unwrap_or_else(|| panic!("{begin}"));
        found["trx"].as_str().map(str::to_owned)
    };
    let id = |number: u32| Some(format!("{}.{number}", last["session"]));
    for (begin, number) in [
        ("SELECT v FROM items", None),
        ("BEGIN", id(1)),
        ("UPDATE", id(1)),
        ("SAVEPOINT", id(1)),
        ("COMMIT AND CHAIN", id(1)),
        ("SELECT COUNT", id(2)),
        ("ROLLBACK", id(2)),
        ("SELECT ? FROM items", None),
        ("INSERT", id(3)),
        ("CREATE TABLE", id(3)),
        ("SELECT v FROM items WHERE id = ?", id(4)),
        ("SELECT id, ?", None),
    ] {
        assert_eq!(trx(begin), number, "{begin}");
    }
    let of = |begin: &str| seen.iter().find(|line| form_begins(line, begin)).unwrap();
    assert_eq!((&of("UPDATE")["pins"], &of("SELECT v")["pins"]), (&json!(["transaction"]), &Value::Null));
    assert_eq!((&of("SELECT CONNECTION_ID")["rewritten"], &of("UPDATE")["rewritten"]), (&json!(true), &Value::Null));
    assert_eq!(last["account"], format!("{}@%", lab::APP_USER), "{last}");
}

#[tokio::test]
async fn events_tell_statements_and_transactions_of_a_session() {
    check(Family::MariaDb, "e2e_events_order").await;
}

#[tokio::test]
async fn events_tell_statements_and_transactions_of_a_session_mysql() {
    check(Family::MySql, "e2e_events_order_mysql").await;
}

/// Parameters of all types, those that come without their types again, and those that were sent ahead.
async fn parameters(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    let more = format!("[events]\nqueries = \"all\"\n[events.file]\npath = \"{}\"\ntext = \"text\"\n", text.display());
    let front = super::start_with(family, database, &more).await;
    let mut client = statements::within(&front, database).await;
    let read = client.prepare("SELECT id FROM items WHERE v = ? OR id = ? OR v IS NULL AND ? = 7").await.unwrap();
    let parameters = [Parameter::Bytes("it's".into()), Parameter::Int(-5), Parameter::Null];
    client.execute(&read, &parameters).await.unwrap();
    client
        .execute(&read, &[Parameter::Bytes("é".into()), Parameter::Unsigned(u64::MAX), Parameter::Int(7)])
        .await
        .unwrap();
    let long = "x".repeat(100_000);
    client.execute(&read, &[Parameter::Bytes(long.into()), Parameter::Int(1), Parameter::Null]).await.unwrap();
    all(&mut client, "SELECT 'end' FROM items").await;
    event(&text, "the last query", |line| form_begins(line, "SELECT ? FROM items")).await;
    let executed: Vec<Value> = lines(&text).into_iter().filter(|line| line["command"] == "COM_STMT_EXECUTE").collect();
    assert_eq!(executed[0]["params"], json!(["it's", -5, null]), "{}", executed[0]);
    assert_eq!(executed[1]["params"], json!(["é", u64::MAX, 7]), "{}", executed[1]);
    assert!(executed[1]["params_cut"].is_null());
    assert_eq!(executed[2]["params"].as_array().unwrap().len(), 1);
    assert!((60_000..70_000).contains(&executed[2]["params"][0].as_str().unwrap().len()));
    assert_eq!(executed[2]["params_cut"], true);
}

#[tokio::test]
async fn events_have_parameters_where_texts_are_wanted() {
    parameters(Family::MariaDb, "e2e_events_params").await;
}

#[tokio::test]
async fn events_have_parameters_where_texts_are_wanted_mysql() {
    parameters(Family::MySql, "e2e_events_params_mysql").await;
}
