//! Routing rules: each kind of matcher and of action, on servers that replicate.

use lab::{Family, Replication};
use net::client::Target;
use net::query::{self, Client, Limits, Parameter};
use serde_json::Value;
use wire::auth::Credential;

use crate::consistency::{FOR_LONG, delay, table};
use crate::login::accounts;
use crate::support::{Front, SOON, all, app, calm, error, failing, families, http_with, said, until, value};

const KEY: &str = "open sesame";

fn rule(name: &str, lines: &[&str]) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{}\n", lines.join("\n"))
}

/// The name of the server that a statement tells of.
fn name(servers: &Replication, id: &str) -> String {
    let index = servers.servers().iter().position(|server| server.server_id().to_string() == id);
    format!("db{}", index.unwrap_or_else(|| panic!("no server {id}")) + 1)
}

/// The server that runs `SELECT @@server_id` with this after it. Without a rule it is the primary, whose variables
/// count.
async fn runs(client: &mut Client, servers: &Replication, rest: &str) -> String {
    name(servers, &value(client, &format!("SELECT @@server_id{rest}")).await)
}

async fn api(front: &Front, path: &str) -> Value {
    let (status, body) = http_with(&front.admin, "GET", path, Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn hits(front: &Front, rule: &str) -> f64 {
    front.metrics().await.sum("sqluice_rule_hits_total", &[&format!("rule=\"{rule}\"")])
}

async fn connect(address: &str, schema: Option<&str>) -> Client {
    let mut login = app();
    login.schema = schema.map(Into::into);
    let target = Target::plain(address.parse().unwrap(), SOON);
    Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap()
}

/// Each kind of matcher alone, what wins, and what the API tells of it.
pub async fn check_matchers(family: Family) {
    let servers = calm(family).await;
    accounts(
        servers,
        "DROP USER IF EXISTS e2e_rules@'%'; CREATE USER e2e_rules@'%' IDENTIFIED BY 'x'; CREATE DATABASE IF NOT EXISTS e2e_rules",
    )
    .await;
    let mut front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        // Other tests write to these servers, and a session that reads on the primary has seen it: a replica may lack that.
        setup.listener = "consistency = \"none\"".into();
        setup.more = "[listener.other]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nconsistency = \"none\"\n".into();
    })
    .await;
    let mut client = front.client().await;
    assert_eq!(runs(&mut client, servers, " AS by_digest").await, "db1");
    client.ping().await.unwrap();
    let digests = api(&front, "/api/v1/digests").await;
    let row = |row: &&Value| row["text"] == "SELECT @@server_id AS by_digest";
    let hash = digests["digests"].as_array().unwrap().iter().find(row).unwrap()["hash"].as_str().unwrap().to_owned();
    let digest = format!("digest = \"{hash}\"");
    let (db2, db3) = ("route = \"server:db2\"", "route = \"server:db3\"");
    let rules = [
        rule("off", &["enabled = false", "cluster = \"main\"", db3]),
        rule("writes", &["access = \"write\"", "digest_regex = '^DELETE FROM nothing'", "refuse = \"no deletes\""]),
        rule("digest", &[&digest, db3]),
        rule("regex", &["digest_regex = '^select @@server_id as r_[0-9]+$'", db2]),
        rule("text", &[r"text_regex = '/\* job=(nightly|weekly) \*/'", db3]),
        rule("user", &["user = \"e2e_rules\"", db2]),
        rule("schema", &["schema = \"e2e_rules\"", db3]),
        rule("listener", &["listener = \"other\"", "access = \"read\"", db2]),
        rule("elsewhere", &["client = \"10.0.0.0/8\"", db2]),
        rule(
            "all",
            &[
                "cluster = \"main\"",
                "client = \"127.0.0.0/8\"",
                "digest_regex = ' AS everybody$'",
                "route = \"replica\"",
            ],
        ),
    ];
    front.reload(|setup| setup.more += &rules.concat());
    until("the rules", async || (runs(&mut client, servers, " AS by_digest").await == "db3").then_some(())).await;

    assert_eq!(runs(&mut client, servers, "").await, "db1", "no rule fits");
    assert_eq!(runs(&mut client, servers, " AS r_17").await, "db2");
    assert_eq!(runs(&mut client, servers, " AS r_x").await, "db1");
    for (text, server) in [(" /* job=weekly */", "db3"), (" /* job=daily */", "db1"), (" /* job=nightly */", "db3")] {
        assert_eq!(runs(&mut client, servers, text).await, server, "{text}");
    }
    assert_ne!(runs(&mut client, servers, " AS everybody").await, "db1");
    let mut user = front.login("e2e_rules", "x").await.unwrap();
    assert_eq!(runs(&mut user, servers, "").await, "db2");
    assert_eq!(runs(&mut user, servers, " AS by_digest").await, "db3", "the first rule wins");
    let mut other = connect(&front.address_of("other"), None).await;
    assert_eq!(runs(&mut other, servers, "").await, "db2");
    // A rule that leads to a replica does so with reads only.
    all(&mut other, "DROP TABLE IF EXISTS e2e_rules.written").await;
    all(&mut other, "CREATE TABLE e2e_rules.written (n INT)").await;
    all(&mut other, "INSERT INTO e2e_rules.written VALUES (7)").await;
    all(&mut user, "SET @a = 1").await;
    assert_eq!(error(&mut client, "DELETE FROM nothing WHERE n = 1").await.0, 1644);
    // The schema is the session's, as it changes.
    assert_eq!(runs(&mut client, servers, "").await, "db1");
    client.init_db("e2e_rules").await.unwrap();
    assert_eq!(runs(&mut client, servers, "").await, "db3");
    client.init_db(lab::APP_DATABASE).await.unwrap();
    assert_eq!(runs(&mut client, servers, "").await, "db1");
    // Another user in the same session.
    client.change_user(query::login("e2e_rules", Credential::password("x"))).await.unwrap();
    assert_eq!(runs(&mut client, servers, "").await, "db2");

    let page = api(&front, "/api/v1/rules").await;
    let reported: Vec<&str> =
        page["rules"].as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    let names = ["off", "writes", "digest", "regex", "text", "user", "schema", "listener", "elsewhere", "all"];
    assert_eq!(reported, names);
    let of = |name: &str| page["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name).unwrap().clone();
    assert_eq!(of("off")["enabled"], false);
    assert_eq!((of("text")["hits"].as_u64(), of("elsewhere")["hits"].as_u64()), (Some(2), Some(0)));
    assert_eq!(of("listener")["matchers"], serde_json::json!(["the listener is other", "the access is read"]));
    assert_eq!(of("writes")["action"], "refuse: no deletes");
    assert_eq!(hits(&front, "text").await, 2.0);
    let metrics = front.metrics().await;
    assert!(metrics.sum("sqluice_routes_total", &["reason=\"rule\""]) >= 10.0);
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/rules", None).await.0, 401);
}

#[tokio::test]
async fn every_kind_of_matcher_routes() {
    check_matchers(Family::MariaDb).await;
}

#[tokio::test]
async fn a_thousand_rules_are_gone_through_once() {
    let servers = calm(Family::MariaDb).await;
    let others = (1..1_000)
        .map(|n| rule(&format!("r{n}"), &[&format!("digest_regex = ' FROM other_{n}$'"), "route = \"primary\""]));
    let rules: String =
        others.chain([rule("last", &["digest_regex = '^SELECT @@server_id$'", "route = \"replica\""])]).collect();
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200\ndigests_max = 0".into();
        setup.more = rules;
    })
    .await;
    let searches = async || front.metrics().await.sum("sqluice_rule_searches_total", &[]);
    let mut client = front.client().await;
    assert_ne!(runs(&mut client, servers, "").await, "db1");
    let before = searches().await;
    let (mut one, mut two) = (front.client().await, front.client().await);
    for n in 0..20 {
        assert_ne!(runs(&mut one, servers, &format!("/* {n} */")).await, "db1");
        assert_ne!(runs(&mut two, servers, ";").await, "db1");
    }
    // With a `;` it is the same digest; logging in has no text.
    assert!(searches().await - before <= 2.0, "{} more", searches().await - before);
    assert_eq!(hits(&front, "last").await, 41.0);
    let prepared = client.prepare("SELECT @@server_id").await.unwrap();
    for _ in 0..5 {
        let results = client.execute(&prepared, &[]).await.unwrap();
        assert_ne!(name(servers, &results[0].scalar().unwrap()), "db1");
    }
    assert_eq!(hits(&front, "last").await, 47.0, "the preparation counts, too");
}

/// A rule that refuses sees each statement of a text, and the literal texts in it.
#[tokio::test]
async fn a_rule_refuses_what_is_inside_of_a_text() {
    for family in families() {
        let servers = calm(family).await;
        accounts(servers, "CREATE TABLE IF NOT EXISTS app.inside (n INT); REPLACE INTO app.inside VALUES (1)").await;
        let front = Front::start(servers, |setup| {
            setup.more = [
                rule("some", &["digest_regex = '^DELETE FROM `?inside`? WHERE'", "route = \"primary\""]),
                rule("none", &["digest_regex = '^DELETE FROM `?inside`?'", "refuse = \"not inside\""]),
            ]
            .concat();
        })
        .await;
        let mut client = front.client().await;
        let mut texts = vec![
            "DELETE FROM inside",
            "SELECT 1; DELETE FROM inside",
            "DELETE /* a */ FROM inside; SELECT 1",
            "PREPARE s FROM 'DELETE FROM inside'",
            "PREPARE s FROM /* a */ 'DELETE /* b */ FROM inside'",
            "SELECT 1; PREPARE s FROM 'DELETE FROM inside'",
        ];
        if family == Family::MariaDb {
            texts.extend([
                "EXECUTE IMMEDIATE 'DELETE FROM inside'",
                "execute immediate /* a */ 'DELETE /* b */ FROM inside'",
                "SET STATEMENT max_statement_time = 5 FOR DELETE FROM inside",
                "ANALYZE DELETE FROM inside",
                "BEGIN NOT ATOMIC DELETE FROM inside; END",
                "IF 1 THEN DELETE FROM inside; END IF",
            ]);
        }
        for text in &texts {
            let (code, message) = error(&mut client, text).await;
            assert!(code == 1644 && message.contains("not inside"), "{family:?} {text}: {message}");
        }
        assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) > 0 FROM inside").await, "1");
        for text in ["SELECT 1; DELETE FROM inside WHERE n = 7", "PREPARE s FROM 'DELETE FROM inside WHERE n = 7'"] {
            all(&mut client, text).await;
        }
        assert_eq!(hits(&front, "none").await, texts.len() as f64);
    }
}

/// Sqluice does not read the tables of these statements, and each would show something of one that is refused.
#[tokio::test]
async fn a_refused_table_is_refused_to_statements_that_are_not_read() {
    for family in families() {
        let servers = calm(family).await;
        accounts(servers, "CREATE TABLE IF NOT EXISTS app.hush (n INT); REPLACE INTO app.hush VALUES (1)").await;
        let front = Front::start(servers, |setup| {
            setup.more = rule("hush", &["table = \"app.hush\"", "refuse = \"not hush\""]);
        })
        .await;
        let mut client = front.client().await;
        let texts = [
            "HANDLER hush OPEN",
            "EXPLAIN SELECT * FROM hush",
            "SHOW CREATE TABLE app.`hush`",
            "DESCRIBE hush",
            "LOCK TABLES hush READ",
            "CREATE VIEW seen AS SELECT * FROM app.hush",
            "USE mysql; SELECT * FROM app.hush",
            "USE app; SELECT * FROM hush",
            "PREPARE s FROM 'HANDLER hush OPEN'",
        ];
        for text in texts {
            let (code, message) = error(&mut client, text).await;
            assert!(code == 1644 && message.contains("not hush"), "{family:?} {text}: {code} {message}");
        }
        all(&mut client, "EXPLAIN SELECT 'hush'").await;
        all(&mut client, "USE mysql; SELECT 1 AS shush").await;
        assert_eq!(hits(&front, "hush").await, texts.len() as f64);
    }
}

#[tokio::test]
async fn what_is_refused_is_said_and_the_session_goes_on() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.refused (n INT); INSERT INTO app.refused VALUES (1),(2)").await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = [
            rule("no-full-delete", &["digest_regex = '^DELETE FROM [^ ]+$'", "refuse = \"add a WHERE\""]),
            rule("no-seven", &["text_regex = '= *7\\b'", "refuse = \"not seven\""]),
        ]
        .concat();
    })
    .await;
    let mut client = front.client().await;
    let text = "sqluice: refused by rule 'no-full-delete': add a WHERE";
    let refused = client.query("DELETE FROM refused").await.unwrap_err();
    assert_eq!(said(&refused), (1644, text.to_owned()));
    assert_eq!(refused.server_error().unwrap().sqlstate.as_deref(), Some("45000"));
    let warnings = all(&mut client, "SHOW WARNINGS").await;
    assert_eq!(warnings[0].rows.len(), 1, "{warnings:?}");
    // A hint does not help, nor does a transaction, which goes on.
    assert_eq!(error(&mut client, "/* sqluice: primary */ DELETE FROM refused").await.0, 1644);
    all(&mut client, "BEGIN").await;
    all(&mut client, "DELETE FROM refused WHERE n = 1").await;
    assert_eq!(error(&mut client, "DELETE FROM refused").await.0, 1644);
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM refused").await, "1");
    front.is_pinned_by(&["transaction"]).await;
    all(&mut client, "ROLLBACK").await;
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT COUNT(*) FROM refused").await, "2");
    // Prepared: refused when it is prepared.
    assert_eq!(said(&client.prepare("DELETE FROM refused").await.unwrap_err()).0, 1644);
    assert_eq!(
        said(&client.prepare("DELETE FROM refused WHERE n = 7").await.unwrap_err()).1,
        "sqluice: refused by rule 'no-seven': not seven"
    );
    assert_eq!(error(&mut client, "DELETE FROM refused WHERE n=7").await.0, 1644);
    all(&mut client, "DELETE FROM refused WHERE n=77").await;
    let prepared = client.prepare("DELETE FROM refused WHERE n = ?").await.unwrap();
    client.execute(&prepared, &[Parameter::Int(7)]).await.unwrap();
    client.ping().await.unwrap();
    let page = api(&front, "/api/v1/digests?limit=1000").await;
    let row = |row: &&Value| row["text"] == "DELETE FROM refused";
    let row = page["digests"].as_array().unwrap().iter().find(row).unwrap().clone();
    assert_eq!((&row["statements"], &row["errors"], &row["on_primary"]), (&3.into(), &3.into(), &0.into()));
    assert_eq!((hits(&front, "no-full-delete").await, hits(&front, "no-seven").await), (4.0, 2.0));
}

#[tokio::test]
async fn pins_and_hints_beat_rules_and_a_reload_changes_them_under_open_sessions() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |setup| {
        // A read in a transaction would keep reads on the primary for a while.
        setup.listener = "split = \"primary\"\nconsistency = \"none\"".into();
        setup.more = rule("replicas", &["digest_regex = '^SELECT @@server_id$'", "route = \"replica\""]);
    })
    .await;
    let mut client = front.client().await;
    let prepared = client.prepare("SELECT @@server_id").await.unwrap();
    assert_ne!(runs(&mut client, servers, "").await, "db1", "a rule beats the listener's split");
    assert_eq!(runs(&mut client, servers, " AS another").await, "db1");
    assert_eq!(name(servers, &value(&mut client, "/* sqluice: primary */ SELECT @@server_id").await), "db1");
    all(&mut client, "BEGIN").await;
    assert_eq!(runs(&mut client, servers, "").await, "db1", "a pin beats a rule");
    all(&mut client, "COMMIT").await;
    assert_ne!(runs(&mut client, servers, "").await, "db1");
    all(&mut client, "SET autocommit = 0").await;
    assert_eq!(runs(&mut client, servers, "").await, "db1", "writes may follow in the transaction that it opens");
    all(&mut client, "COMMIT").await;
    all(&mut client, "SET autocommit = 1").await;

    front.reload(|setup| {
        setup.more = [
            rule("first", &["digest_regex = '^SELECT @@server_id$'", "route = \"server:db3\""]),
            rule("replicas", &["digest_regex = '^SELECT @@server_id AS another$'", "route = \"server:db2\""]),
        ]
        .concat();
    });
    until("the new rules", async || (runs(&mut client, servers, " AS another").await == "db2").then_some(())).await;
    let before = hits(&front, "replicas").await;
    assert!(before >= 6.0, "a rule keeps its count: {before}");
    for _ in 0..10 {
        let results = client.execute(&prepared, &[]).await.unwrap();
        assert_eq!(name(servers, &results[0].scalar().unwrap()), "db3");
    }
    assert_eq!(hits(&front, "first").await, 10.0);
    // A mistake changes nothing.
    let reported = front.log().matches("old configuration stays").count();
    front.reload(|setup| setup.more = rule("broken", &["digest_regex = '('", "route = \"replica\""]));
    until("the mistake to be told", async || {
        (front.log().matches("old configuration stays").count() > reported).then_some(())
    })
    .await;
    assert!(front.log().contains("unclosed group"), "{}", front.log());
    assert_eq!(runs(&mut client, servers, " AS another").await, "db2");
    front.reload(|setup| setup.more.clear());
    until("no rules", async || (runs(&mut client, servers, " AS another").await == "db1").then_some(())).await;
    let results = client.execute(&prepared, &[]).await.unwrap();
    assert_eq!(name(servers, &results[0].scalar().unwrap()), "db1");
}

#[tokio::test]
async fn a_rule_says_what_a_read_is_sure_to_see() {
    let servers = failing(Family::MariaDb).await;
    let servers: &'static Replication = &servers;
    delay(servers, Family::MariaDb, &[0, 0]).await;
    table(servers, "ruled").await;
    let replica = servers.replicas().next().unwrap().server_id().to_string();
    let route = format!("route = \"server:{}\"", name(servers, &replica));
    let rules = [
        rule("weak", &["digest_regex = ' AS weak$'", "consistency = \"none\""]),
        rule("strong", &["digest_regex = ' AS strong$'", "consistency = \"session\""]),
        rule("named", &["digest_regex = ' AS named$'", &route]),
        rule("named-weak", &["digest_regex = ' AS old$'", &route, "consistency = \"none\""]),
    ]
    .concat();
    let careful = Front::start(servers, |setup| setup.more = rules.clone()).await;
    let careless = Front::start(servers, |setup| {
        setup.listener = "consistency = \"none\"".into();
        setup.more = rules.clone();
    })
    .await;
    delay(servers, Family::MariaDb, FOR_LONG).await;
    careful.knows(2).await;
    careless.knows(2).await;
    let (mut careful, mut careless) = (careful.client().await, careless.client().await);
    all(&mut careful, "UPDATE ruled SET v = 7 WHERE id = 1").await;
    assert_eq!(value(&mut careful, "SELECT v FROM (SELECT v FROM ruled WHERE id = 1) AS weak").await, "0");
    assert_eq!(value(&mut careful, "SELECT v FROM (SELECT v FROM ruled WHERE id = 1) AS strong").await, "7");
    assert_eq!(value(&mut careful, "SELECT v FROM ruled WHERE id = 1").await, "7");
    assert_eq!(value(&mut careful, "SELECT v FROM (SELECT v FROM ruled WHERE id = 1) AS named").await, "7");
    assert_eq!(value(&mut careful, "SELECT v FROM (SELECT v FROM ruled WHERE id = 1) AS old").await, "0");
    all(&mut careless, "UPDATE ruled SET v = 8 WHERE id = 2").await;
    assert_eq!(value(&mut careless, "SELECT v FROM ruled WHERE id = 2").await, "0");
    assert_eq!(value(&mut careless, "SELECT v FROM (SELECT v FROM ruled WHERE id = 2) AS strong").await, "8");
    assert_eq!(value(&mut careless, "SELECT v FROM (SELECT v FROM ruled WHERE id = 2) AS weak").await, "0");
    delay(servers, Family::MariaDb, &[0, 0]).await;
}
