//! Bytes and positions of queries.

use lab::Family;
use serde_json::Value;

use super::{event, form_begins};
use crate::statements;
use crate::support::{Front, all, value};

async fn check(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let (front, servers) = statements::start(family, database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)").await;
    drop(front);
    let front = Front::start(servers, |setup| {
        setup.more = format!("[events]\nqueries = \"all\"\n[events.file]\npath = \"{}\"\n", file.display());
    })
    .await;
    let mut client = statements::within(&front, database).await;
    all(&mut client, "INSERT INTO t VALUES (1, REPEAT('x', 9000))").await;
    let text = "SELECT v, id FROM t WHERE id = 1";
    assert_eq!(value(&mut client, text).await.len(), 9000);
    all(&mut client, "SET @a = 1").await;
    let of = |form: &'static str| event(&file, form, move |line: &Value| form_begins(line, form));

    let selected = of("SELECT v, id").await;
    // A head of four bytes, and the command's own byte.
    assert_eq!(selected["bytes_in"], text.len() + 5, "{selected}");
    let bytes = selected["bytes_out"].as_u64().unwrap();
    assert!((9_000..9_400).contains(&bytes), "{selected}");
    assert!(selected["gtid"].is_null(), "{selected}");
    let inserted = of("INSERT INTO t").await;
    assert!((7..200).contains(&inserted["bytes_out"].as_u64().unwrap()), "{inserted}");
    assert!((7..200).contains(&of("SET @a").await["bytes_out"].as_u64().unwrap()));

    let gtid = inserted["gtid"].as_str().unwrap_or_else(|| panic!("{inserted}")).to_owned();
    match family {
        Family::MariaDb => assert_eq!(gtid.split('-').filter(|part| part.parse::<u64>().is_ok()).count(), 3, "{gtid}"),
        Family::MySql => {
            let executed = value(&mut client, "SELECT @@global.gtid_executed").await;
            assert!(executed.contains(gtid.split(':').next().unwrap()), "{gtid} and {executed}");
        }
    }
}

#[tokio::test]
async fn queries_have_their_bytes_and_writes_their_position() {
    check(Family::MariaDb, "e2e_events_figures").await;
}

#[tokio::test]
async fn queries_have_their_bytes_and_writes_their_position_mysql() {
    check(Family::MySql, "e2e_events_figures").await;
}
