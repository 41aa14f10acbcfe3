//! EXPLAIN of a digest's sample on a replica, on demand.

use lab::Family;
use net::query::Client;
use serde_json::{Value, json};

use crate::login::accounts;
use crate::statements;
use crate::support::{Front, all, families, http_send, http_with, until};

const KEY: &str = "open sesame";
const VIEW_KEY: &str = "only look";
/// In a literal of each statement: no reply and no log may have it.
const SECRET: &str = "Zecret9";

async fn explain(front: &Front, key: &str, hash: &str, body: Value) -> (u16, Value) {
    let path = format!("/api/v1/digests/{hash}/explain");
    let (status, page) = http_send(&front.admin, "POST", &path, Some(key), &body.to_string()).await;
    assert!(!page.contains(SECRET), "{page}");
    (status, serde_json::from_str(&page).unwrap_or(Value::String(page)))
}

/// The hash of the digest that begins so.
async fn hash(front: &Front, begin: &str) -> String {
    let (_, page) = http_with(&front.admin, "GET", "/api/v1/digests?limit=1000", Some(KEY)).await;
    assert!(!page.contains(SECRET), "{page}");
    let page: Value = serde_json::from_str(&page).unwrap();
    let row = page["digests"].as_array().unwrap().iter().find(|row| row["text"].as_str().unwrap().starts_with(begin));
    row.unwrap_or_else(|| panic!("{begin}: {page:#}"))["hash"].as_str().unwrap().to_owned()
}

async fn plans(family: Family) {
    let database = format!("e2e_explain_{}", if family == Family::MySql { "my" } else { "maria" });
    let sql = "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(40), w VARCHAR(40), KEY by_v (v)); \
               INSERT INTO items VALUES (1,'a','a'),(2,'b','b'),(3,'c','c')";
    let (front, servers) = statements::start(family, &database, sql).await;
    drop(front);
    let mut front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"\nview_key = \"{VIEW_KEY}\"");
    })
    .await;
    let mut client = statements::within(&front, &database).await;
    all(&mut client, &format!("SELECT id FROM items WHERE w = '{SECRET}' AND id > 0")).await;
    all(&mut client, &format!("UPDATE items SET w = 'x' WHERE v = '{SECRET}'")).await;
    let prepared = client.prepare("SELECT w FROM items WHERE v = ?").await.unwrap();
    client.execute(&prepared, &[net::query::Parameter::Int(1)]).await.unwrap();
    client.ping().await.unwrap();
    let read = hash(&front, "SELECT id FROM items").await;

    // Without the right the words say which one is missing.
    let (status, lacks) = explain(&front, KEY, &read, json!({})).await;
    let grant = format!("GRANT SELECT ON `{database}`.* TO {}", lab::MONITOR_USER);
    assert!(status == 502 && lacks["error"].as_str().unwrap().contains(&grant), "{status} {lacks}");
    accounts(servers, &format!("{grant}@'%'")).await;

    let (status, page) = explain(&front, KEY, &read, json!({})).await;
    assert_eq!(status, 200, "{family:?}: {page}");
    let plan = &page["plans"][0];
    let column = |name: &str| {
        let at = plan["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
        plan["rows"][0][at].clone()
    };
    assert_eq!(
        (column("table"), &plan["cluster"], &plan["schema"]),
        (json!("items"), &json!("main"), &json!(database))
    );
    assert!(["db2", "db3"].contains(&plan["server"].as_str().unwrap()), "{plan}");
    assert!(column("Extra").as_str().unwrap().contains("Using where"), "{plan}");
    // It is kept, and who may look finds it.
    let path = format!("/api/v1/digests/{read}/explain");
    let (status, kept) = http_with(&front.admin, "GET", &path, Some(VIEW_KEY)).await;
    assert_eq!((status, serde_json::from_str::<Value>(&kept).unwrap()), (200, page.clone()));
    assert_eq!(explain(&front, VIEW_KEY, &read, json!({})).await.0, 403);
    let (_, named) = explain(&front, KEY, &read, json!({ "server": "db1" })).await;
    assert_eq!(named["plans"][0]["server"], "db1", "{named}");

    let write = hash(&front, "UPDATE items").await;
    let prepared = hash(&front, "SELECT w FROM items").await;
    for (hash, body, status, words) in [
        (&*write, json!({}), 409, "it must be one read"),
        (&*prepared, json!({}), 409, "not as a prepared statement"),
        ("00000000000000ff", json!({}), 404, "not counted"),
        ("ff", json!({}), 400, "16 hexadecimal digits"),
        (&*read, json!({ "cluster": "other" }), 400, "there are main"),
        (&*read, json!({ "server": "db9" }), 502, "no server 'db9'"),
        (&*read, json!({ "sql": "DROP TABLE items" }), 400, "the body is an object"),
    ] {
        let (found, page) = explain(&front, KEY, hash, body.clone()).await;
        assert!(found == status && page["error"].as_str().unwrap().contains(words), "{hash} {body}: {found} {page}");
    }
    words_are_not_shown(&front, &mut client, family).await;
    // Switched off, no text is kept.
    front.reload(|setup| setup.proxy += "\ndigest_samples = false");
    until("no sample", async || (explain(&front, KEY, &read, json!({})).await.0 == 409).then_some(())).await;
    assert!(!front.log().contains(SECRET), "{}", front.log());
}

/// The server's words may quote the sample. MariaDB explains no SET STATEMENT; MySQL reads a row for the plan, and the row has
/// changed since the sample.
async fn words_are_not_shown(front: &Front, client: &mut Client, family: Family) {
    let uuid = "6ccd780c-baba-1026-9564-5b8c656024db";
    let (text, code, state) = match family {
        Family::MariaDb => {
            (format!("SET STATEMENT max_statement_time = 9 FOR SELECT '{SECRET}' FROM items"), 1064, "42000")
        }
        Family::MySql => {
            let value = format!("UUID_TO_BIN(IF(v = 'a', '{uuid}', '{SECRET}'))");
            (format!("SELECT w FROM items WHERE id = 1 AND {value} IS NOT NULL"), 1411, "HY000")
        }
    };
    all(client, &text).await;
    all(client, "UPDATE items SET v = 'z' WHERE id = 1").await;
    client.ping().await.unwrap();
    let begin = if family == Family::MariaDb { "SET STATEMENT" } else { "SELECT w FROM items WHERE id = ? AND UUID" };
    let (status, page) = explain(front, KEY, &hash(front, begin).await, json!({ "server": "db1" })).await;
    let words = format!("db1 does not explain it: error {code}, SQLSTATE {state}");
    assert_eq!((status, &page["error"]), (502, &json!(words)), "{family:?}");
}

#[tokio::test]
async fn a_replica_explains_the_sample_of_a_read_and_says_which_right_is_missing() {
    for family in families() {
        plans(family).await;
    }
}
