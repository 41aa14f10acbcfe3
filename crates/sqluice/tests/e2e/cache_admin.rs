//! The result cache as an operator sees it: the commands, what digests and rules tell, and what is worth a rule.

use lab::Family;
use serde_json::Value;

use crate::failover::command;
use crate::support::cache::{KEY, caching};
use crate::support::{Front, all, calm, until};

/// The command's output, as JSON.
async fn json(front: &Front, arguments: &[&str]) -> Value {
    let ran = command(front, &[arguments, &["--json"]].concat()).await;
    assert!(ran.good, "{} {}", ran.out, ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

async fn of_rule(front: &Front, rule: &str) -> Value {
    let page = json(front, &["cache"]).await;
    page["rules"].as_array().unwrap().iter().find(|one| one["rule"] == rule).cloned().unwrap_or_default()
}

async fn check_commands(family: Family, table: &str) {
    let rules = "[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\n";
    let front = caching(family, table, rules).await;
    let mut client = front.client().await;
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    let fill = async |client: &mut net::query::Client| {
        all(client, &read).await;
        assert_ne!(json(&front, &["cache", "show"]).await["answers"], 0);
    };
    fill(&mut client).await;
    let ran = command(&front, &["cache"]).await;
    assert!(ran.good && ran.out.contains(" answers, ") && ran.out.contains("\n  all "), "{} {}", ran.out, ran.err);

    // A name that is not there is an error; nothing is wiped, nor for a digest of which no answer is kept.
    let name = format!("app.{table}");
    for [option, unknown] in [["--rule", "none"], ["--cluster", "other"], ["--table", "app.none"]] {
        let ran = command(&front, &["cache", "wipe", option, unknown]).await;
        assert!(!ran.good && ran.err.contains(unknown), "{option}: {} {}", ran.out, ran.err);
    }
    assert_eq!(json(&front, &["cache", "wipe", "--digest", "00000000000000ab"]).await["answers"], 0);
    assert_ne!(json(&front, &["cache", "show"]).await["answers"], 0);
    for named in [&["--rule", "all", "--cluster", "main"][..], &["--table", &name], &["--all"]] {
        fill(&mut client).await;
        let wiped = json(&front, &[&["cache", "wipe"], named].concat()).await;
        assert_ne!(wiped["answers"], 0, "{named:?}");
        assert_eq!(json(&front, &["cache"]).await["answers"], 0, "{named:?}");
    }
    fill(&mut client).await;
    let ran = command(&front, &["cache", "wipe", "--all"]).await;
    assert!(ran.good && ran.out.contains(" answers wiped, "), "{} {}", ran.out, ran.err);

    // By mistake nothing is wiped.
    for bad in [&["cache", "wipe"][..], &["cache", "wipe", "--table", "t"], &["cache", "wipe", "--all", "--rule", "x"]]
    {
        let ran = command(&front, bad).await;
        assert!(!ran.good && !ran.err.is_empty(), "{bad:?}: {}", ran.out);
    }
}

#[tokio::test]
async fn the_commands_show_and_wipe() {
    check_commands(Family::MariaDb, "cache_admin").await;
}

async fn check_rules(family: Family, table: &str) {
    let rule = |name: &str, matcher: &str| {
        format!("[[rule]]\nname = \"{name}\"\n{matcher}\ncache = \"on\"\ncache_ttl_ms = 600000\n")
    };
    let rules = [
        rule("page", "comment = \"page: items\""),
        rule("all", &format!("table = \"app.{table}\"")),
        rule("user", "user = \"nobody\""),
    ];
    let front = caching(family, table, &rules.concat()).await;
    let mut client = front.client().await;
    let other = format!("{table}_other");
    all(
        &mut client,
        &format!(
            "DROP TABLE IF EXISTS {other}; CREATE TABLE {other} (id INT PRIMARY KEY); INSERT INTO {other} VALUES (1)"
        ),
    )
    .await;
    // A definition leaves nothing known of tables for a moment.
    let count = async |rule: &str| of_rule(&front, rule).await["hits"].as_u64().unwrap_or(0);
    let is_hit = async |client: &mut net::query::Client, rule: &str, read: &str| {
        until("an answer from the cache", async || {
            let before = count(rule).await;
            all(client, read).await;
            (count(rule).await > before).then_some(())
        })
        .await;
    };
    is_hit(&mut client, "all", &format!("SELECT a.n FROM {table} a WHERE a.id = 1")).await;
    is_hit(&mut client, "all", &format!("SELECT id FROM {other} WHERE id IN (SELECT id FROM app.{table})")).await;
    is_hit(&mut client, "page", &format!("/* page: items */ SELECT id FROM {other} WHERE id = 1")).await;
    let before = (count("all").await, count("page").await);
    for _ in 0..3 {
        all(&mut client, &format!("SELECT id FROM {other} WHERE id = 1")).await;
        all(&mut client, &format!("/* page: other */ SELECT id FROM {other} WHERE id = 1")).await;
    }
    assert_eq!((count("all").await, count("page").await), before);
}

#[tokio::test]
async fn rules_choose_by_table_and_by_comment() {
    check_rules(Family::MariaDb, "cache_chosen").await;
}

async fn check_digests(family: Family, table: &str) {
    let rules = "[[rule]]\nname = \"all\"\nuser = \"lab_app\"\ndigest_regex = '^SELECT (COUNT|n )'\ncache = \"on\"\ncache_ttl_ms = 600000\n";
    let front = caching(family, table, &rules.replace("lab_app", lab::APP_USER)).await;
    let mut client = front.client().await;
    let rows = |page: &Value, key: &str, part: &str| -> Vec<Value> {
        let rows = page[key].as_array().unwrap().iter();
        rows.filter(|row| row["text"].as_str().unwrap().contains(part)).cloned().collect()
    };

    // The figures of a rule that caches: hits, misses, and their reasons.
    for _ in 0..5 {
        all(&mut client, &format!("SELECT n FROM {table} WHERE id = 2")).await;
    }
    all(&mut client, "BEGIN").await;
    all(&mut client, &format!("SELECT n FROM {table} WHERE id = 2")).await;
    all(&mut client, "COMMIT").await;
    let page = json(&front, &["cache", "digests"]).await;
    let [row] = &rows(&page, "digests", "WHERE id = ?")[..] else { panic!("{page:#}") };
    let counts = ["statements", "hits", "misses"].map(|key| row[key].as_u64().unwrap());
    assert_eq!((counts, &row["refused"]), ([6, 4, 1], &serde_json::json!({ "snapshot": 1 })), "{row}");
    assert!(row["saved_us"].as_u64() > Some(0) && row["bytes"].as_u64() > Some(0), "{row}");
    let ran = command(&front, &["cache", "digests"]).await;
    assert!(ran.good && ran.out.contains("snapshot 1"), "{} {}", ran.out, ran.err);

    // Reads that no rule caches, and should: they repeat, as text and prepared. Reads that never repeat do not count.
    let prepared = client.prepare(&format!("SELECT id FROM {table} WHERE n = ?")).await.unwrap();
    for n in 0..200 {
        all(&mut client, &format!("SELECT id, n FROM {table} WHERE n >= 10 ORDER BY n")).await;
        client.execute(&prepared, &[net::query::Parameter::Int(n % 2)]).await.unwrap();
        all(&mut client, &format!("SELECT id AS once FROM {table} WHERE n = {n}")).await;
        all(&mut client, &format!("SELECT id, RAND() FROM {table} WHERE n = {n}")).await;
    }
    all(&mut client, &format!("UPDATE {table} SET n = n + 1 WHERE id = 3")).await;
    let page = json(&front, &["cache", "advise", "--ttl-ms", "60000", "--limit", "50"]).await;
    for part in ["ORDER BY n", "WHERE n = ?"] {
        let found = rows(&page, "candidates", part);
        let [row] = &found[..] else { panic!("{part}: {found:#?}") };
        assert!(row["hits"]["60000"].as_u64() >= Some(150) && row["saved_us"].as_u64() > Some(0), "{row}");
        assert_eq!((&row["asked"], &row["writes"]), (&200.into(), &1.into()), "{row}");
    }
    assert_eq!(rows(&page, "not_cacheable", "RAND()")[0]["reason"], "volatile_function");
    let ran = command(&front, &["cache", "advise", "--ttl-ms", "60000"]).await;
    assert!(ran.good && ran.out.contains("\n[[rule]]\nname = \"cache-"), "{} {}", ran.out, ran.err);

    // The rules that are printed are such as the program takes, and match.
    let advised = Front::start(calm(family).await, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = ran.out.clone();
    })
    .await;
    let mut client = advised.client().await;
    until("an answer that the cache would have given", async || {
        all(&mut client, &format!("SELECT id, n FROM {table} WHERE n >= 10 ORDER BY n")).await;
        let page = json(&advised, &["cache"]).await;
        page["rules"].as_array().unwrap().iter().any(|rule| rule["hits"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let page = json(&advised, &["cache", "advise"]).await;
    assert!(rows(&page, "candidates", "ORDER BY n")[0]["measured"]["hits"].as_u64() > Some(0), "{page}");
}

#[tokio::test]
async fn digests_tell_what_the_cache_does_and_what_it_could() {
    check_digests(Family::MariaDb, "cache_advised").await;
}

/// A file that a failing statement, an uncacheable one and one without a rule do not stop.
fn file(table: &str) -> String {
    let reads: String = (1..=3).map(|id| format!("SELECT n FROM {table} WHERE id = {id};\n")).collect();
    format!(
        "# pages\n{reads}SELECT n\nFROM {table} ORDER BY n;\nSELECT none FROM {table};\nSELECT RAND(), n FROM {table};\nSHOW TABLES;\n"
    )
}

async fn warmed(front: &Front, runs: u64) -> Value {
    until("the end of a run", async || {
        let page = json(front, &["cache", "warm", "--show"]).await;
        let file = page["files"][0].clone();
        (file["runs"].as_u64() >= Some(runs) && file["running"] == 0).then_some(file)
    })
    .await
}

async fn check_warm(family: Family, table: &str) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("warm.sql");
    std::fs::write(&path, file(table)).unwrap();
    let rules = format!(
        "[[rule]]\nname = \"all\"\ncluster = \"main\"\naccess = \"read\"\ncache = \"on\"\ncache_ttl_ms = 600000\n\
         [warm.pages]\ncluster = \"main\"\nuser = \"{}\"\nschema = \"{}\"\nfile = \"{}\"\nsessions = 2\n",
        lab::APP_USER,
        lab::APP_DATABASE,
        path.display()
    );
    let front = caching(family, table, &rules).await;

    // The first client that has asked the cache began it; another one like it finds the answers.
    let file = warmed(&front, 1).await;
    assert_eq!(
        (&file["kinds"], &file["statements"], &file["last"]["why"]),
        (&1.into(), &7.into(), &"first client".into())
    );
    let last = &file["last"];
    assert_eq!((&last["failed"], &last["mistakes"][0]["line"]), (&1.into(), &7.into()), "{last}");
    assert_eq!(last["refused"]["volatile_function"], 1, "{last}");
    assert!(front.log().contains("warm.sql:7: error 1054"), "{}", front.log());
    let mut client = front.client().await;
    let count = async || {
        let rule = of_rule(&front, "all").await;
        (rule["hits"].as_u64().unwrap_or(0), rule["misses"].as_u64().unwrap_or(0))
    };
    let before = count().await;
    for id in 1..=3 {
        assert_eq!(all(&mut client, &format!("SELECT n FROM {table} WHERE id = {id}")).await[0].rows.len(), 1);
    }
    all(&mut client, &format!("SELECT n\nFROM {table} ORDER BY n")).await;
    assert_eq!(count().await, (before.0 + 4, before.1), "all four are answered by the cache");

    // Asked for: what is there stays, what was written is asked anew.
    all(&mut client, &format!("UPDATE {table} SET n = n + 1 WHERE id = 1")).await;
    let ran = command(&front, &["cache", "warm"]).await;
    assert!(!ran.good && ran.out.contains(" 1 failed"), "a statement failed: {} {}", ran.out, ran.err);
    let before = count().await;
    all(&mut client, &format!("SELECT n FROM {table} WHERE id = 1")).await;
    assert_eq!(count().await, (before.0 + 1, before.1));

    // A session that sets a variable that may change results is another kind, and its results are warmed at its first
    // query.
    let runs = warmed(&front, 1).await["runs"].as_u64().unwrap();
    let mut other = front.client().await;
    all(&mut other, "SET time_zone = '+03:00'").await;
    all(&mut other, &format!("SELECT COUNT(*) FROM {table}")).await;
    assert_eq!(warmed(&front, runs + 1).await["kinds"], 2);
    let before = count().await;
    all(&mut other, &format!("SELECT n FROM {table} WHERE id = 2")).await;
    assert_eq!(count().await, (before.0 + 1, before.1));

    // The metrics have all runs: each has done the whole file, and failed at one statement of it.
    let runs = warmed(&front, runs + 1).await["runs"].as_f64().unwrap();
    let metrics = front.metrics().await;
    let done = |outcome: &str| metrics.sum("sqluice_cache_warm_statements_total", &["warm=\"pages\"", outcome]);
    let outcomes = ["failed", "refused", "without_rule"].map(|outcome| done(&format!("outcome=\"{outcome}\"")));
    assert_eq!((done(""), outcomes), (7.0 * runs, [runs; 3]), "{runs} runs");
    assert_eq!(metrics.sum("sqluice_cache_warm_runs_total", &["warm=\"pages\""]), runs);

    let ran = command(&front, &["cache", "warm", "--cluster", "none"]).await;
    assert!(!ran.good && ran.err.contains("main"), "{} {}", ran.out, ran.err);
}

#[tokio::test]
async fn a_file_of_statements_fills_the_cache() {
    check_warm(Family::MariaDb, "cache_warmed").await;
}
