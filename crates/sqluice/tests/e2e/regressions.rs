//! Regressions: an index is dropped, a new statement comes, and both are found.

use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use serde_json::{Value, json};
use wire::auth::Credential;

use crate::login::accounts;
use crate::statements;
use crate::support::{Front, SOON, all, blocking, families, http_send, http_with, run, until, value};

const KEY: &str = "open sesame";
const BY_INDEX: &str = "SELECT v FROM regression WHERE k = ?";

async fn regressions(front: &Front, query: &str) -> Value {
    let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1/regressions?{query}"), Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Sets a mark. Gives its number.
async fn mark(front: &Front, text: &str) -> u64 {
    let body = json!({ "text": text }).to_string();
    let (status, page) = http_send(&front.admin, "POST", "/api/v1/marks", Some(KEY), &body).await;
    assert_eq!(status, 200, "{page}");
    serde_json::from_str::<Value>(&page).unwrap()["id"].as_u64().unwrap()
}

/// Sqluice with these settings of the history, whose windows have begun, and with a mark of the beginning.
async fn with_history(servers: &lab::Replication, settings: &str) -> Front {
    let front = Front::start(servers, |setup| {
        setup.admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"");
        setup.cluster += "\nfailover = \"off\"";
        setup.more = format!("[history]\n{settings}\n");
    })
    .await;
    until("the history", async || {
        let (_, page) = http_with(&front.admin, "GET", "/api/v1/history", Some(KEY)).await;
        page.contains("sqluice_sessions").then_some(())
    })
    .await;
    mark(&front, "begun").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    front
}

/// The same load before and after.
async fn load(client: &mut Client) {
    for n in 0..40 {
        all(client, &format!("SELECT v FROM regression WHERE k = {}", n * 37)).await;
        all(client, "SELECT SLEEP(0.03) AS same").await;
    }
    // The next statements are counted behind it.
    client.ping().await.unwrap();
}

async fn dropped_index(family: Family) {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("e2e_regression_{}", if family == Family::MySql { "my" } else { "maria" });
    let digits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL \
                  SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let rows = format!(
        "CREATE TABLE regression (id INT PRIMARY KEY, k INT, v CHAR(200), KEY by_k (k)); \
         INSERT INTO regression SELECT n, n, REPEAT('v', 200) FROM (SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d n \
         FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f) numbers"
    );
    let (front, servers) = statements::start(family, &database, &rows).await;
    drop(front);
    let path = folder.path().join("history.sqlite").display().to_string();
    let front = with_history(servers, &format!("path = \"{path}\"")).await;
    let mut client = statements::within(&front, &database).await;
    load(&mut client).await;
    let deploy = mark(&front, "deploy 7").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    all(&mut client, "DROP INDEX by_k ON regression").await;
    load(&mut client).await;
    for n in 0..30 {
        all(&mut client, &format!("SELECT id FROM regression WHERE id = {n} FOR UPDATE")).await;
    }
    client.ping().await.unwrap();
    let page = regressions(&front, &format!("mark={deploy}")).await;
    let of = |text: &str| {
        let found = page["digests"].as_array().unwrap().iter().find(|digest| digest["text"] == text);
        found.unwrap_or_else(|| panic!("{text} is not there: {page:#}"))
    };
    let slower = of(BY_INDEX);
    assert!(slower["changes"]["slower"].as_f64().unwrap() >= 3.0, "{slower}");
    let [before, after] = ["before", "after"].map(|side| slower[side]["time_us_p95"].as_u64().unwrap());
    assert!(before * 3 <= after && slower["after"]["statements"] == 40, "{slower}");
    let new = of("SELECT id FROM regression WHERE id = ? FOR UPDATE");
    assert!(new["changes"]["new"].is_null() && new["before"].is_null(), "{new}");
    assert!(new["changes"].as_object().unwrap().contains_key("new"), "{new}");
    let texts: Vec<&Value> = page["digests"].as_array().unwrap().iter().map(|digest| &digest["text"]).collect();
    assert!(!texts.contains(&&json!("SELECT SLEEP(?) AS same")), "{texts:?}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sqluice"));
    command.args(["regressions", "--url", &front.admin, "--mark", &deploy.to_string(), "--config"]);
    command.arg(front.folder().join("sqluice.toml"));
    let out = run(command, "").await.output();
    assert!(out.lines().any(|line| line.starts_with("slower ") && line.ends_with(BY_INDEX)), "{out}");
    the_console_shows_the_same(&front, before, after).await;
}

async fn the_console_shows_the_same(front: &Front, before: u64, after: u64) {
    let target = Target::plain(front.address_of("console").parse().unwrap(), SOON);
    let login = query::login("admin", Credential::password(KEY));
    let mut sql = Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap();
    let of = |text: &str, change: &str, column: &str| {
        let row = format!("mark_text = 'deploy 7' AND change = '{change}' AND text = '{text}'");
        format!("SELECT {column} FROM regressions WHERE {row}")
    };
    let slower = of(BY_INDEX, "slower", "before_time_us_p95 || '-' || time_us_p95 || '-' || (factor >= 3)");
    assert_eq!(value(&mut sql, &slower).await, format!("{before}-{after}-1"));
    let new = of("SELECT id FROM regression WHERE id = ? FOR UPDATE", "new", "before_statements IS NULL");
    assert_eq!(value(&mut sql, &new).await, "1");
    // Since the first mark it is new, if a second passed between the first look and that mark.
    let same = "SELECT count(*) FROM regressions WHERE text = 'SELECT SLEEP(?) AS same'";
    assert_eq!(value(&mut sql, &format!("{same} AND mark_text = 'deploy 7'")).await, "0");
}

#[tokio::test]
async fn a_dropped_index_and_a_new_statement_are_found_since_the_deploy() {
    for family in families() {
        dropped_index(family).await;
    }
}

#[tokio::test]
async fn mistakes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let servers = crate::support::calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = format!("[history]\npath = \"{}\"\n", folder.path().join("h.sqlite").display());
    })
    .await;
    for (query, words) in
        [("mark=999", "no such mark"), ("factor=1", "from 1.1 to 1000"), ("mark=1&since=-1h", "exclude each other")]
    {
        let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1/regressions?{query}"), Some(KEY)).await;
        assert!(status == 400 && body.contains(words), "{query}: {status} {body}");
    }
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/regressions", None).await.0, 401);
}

/// A replica explains a digest before and since the deploy: the index that was dropped shows as another plan. No plan has a literal.
async fn plans_are_compared(family: Family) {
    const SECRET: &str = "Zecret9";
    let folder = tempfile::tempdir().unwrap();
    let database = format!("e2e_plan_change_{}", if family == Family::MySql { "my" } else { "maria" });
    let rows = "CREATE TABLE planned (id INT PRIMARY KEY, k VARCHAR(20), v CHAR(200), KEY by_k (k)); \
                INSERT INTO planned VALUES (1,'a','v'),(2,'b','v'),(3,'c','v'),(4,'d','v'),(5,'e','v'),(6,'f','v')";
    let (front, servers) = statements::start(family, &database, rows).await;
    drop(front);
    accounts(servers, &format!("GRANT SELECT ON `{database}`.* TO {}@'%'", lab::MONITOR_USER)).await;
    let path = folder.path().join("history.sqlite").display().to_string();
    let front = with_history(servers, &format!("path = \"{path}\"\nexplain_every_s = 1")).await;
    let mut client = statements::within(&front, &database).await;
    let ask = format!("SELECT SLEEP(0), v FROM planned WHERE k = '{SECRET}' OR k = 'b' AND id > 0");
    let planned = "SELECT SLEEP(?), v FROM planned WHERE k = ? OR k = ? AND id > ?";
    // Many: of thirty, two that a busy machine holds for 40 ms would be the usual time.
    for _ in 0..200 {
        all(&mut client, &ask).await;
    }
    client.ping().await.unwrap();
    let (_, page) = http_with(&front.admin, "GET", "/api/v1/digests?limit=1000", Some(KEY)).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let digests = page["digests"].as_array().unwrap();
    let hash = digests.iter().find(|digest| digest["text"] == planned).unwrap()["hash"].as_str().unwrap().to_owned();
    let explained = format!("/api/v1/digests/{hash}/explain");
    until("the usual plan", async || {
        let page = http_with(&front.admin, "GET", &explained, Some(KEY)).await.1;
        page.contains("by_k").then_some(())
    })
    .await;
    let deploy = mark(&front, "deploy 8").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    all(&mut client, "DROP INDEX by_k ON planned").await;
    blocking(move || servers.wait_in_sync(SOON).unwrap()).await;
    // Much slower than nearly all of them.
    let slow = ask.replace("SLEEP(0)", "SLEEP(0.12)");
    for _ in 0..30 {
        all(&mut client, &slow).await;
    }
    client.ping().await.unwrap();
    let found = until("another plan", async || {
        let page = regressions(&front, &format!("mark={deploy}")).await;
        assert!(!page.to_string().contains(SECRET), "{page}");
        let found = page["digests"].as_array().unwrap().iter().find(|digest| digest["text"] == planned)?.clone();
        (found["plan"]["changed"] == true).then_some(found)
    })
    .await;
    let (before, after) = (&found["plan"]["before"], &found["plan"]["after"]);
    assert!(before["rows"].to_string().contains("by_k") && !after["rows"].to_string().contains("\"by_k\""), "{found}");
    assert!(before["hash"] != after["hash"] && before["cluster"] == "main", "{found}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sqluice"));
    command.args(["regressions", "--url", &front.admin, "--mark", &deploy.to_string(), "--config"]);
    command.arg(front.folder().join("sqluice.toml"));
    let out = run(command, "").await.output();
    assert!(out.lines().any(|line| line.contains("plan changed") && line.ends_with(planned)), "{out}");
    let target = Target::plain(front.address_of("console").parse().unwrap(), SOON);
    let login = query::login("admin", Credential::password(KEY));
    let mut sql = Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap();
    let shown = format!(
        "SELECT plan_changed || before_plan || plan FROM regressions WHERE mark = {deploy} AND text = '{planned}' LIMIT 1"
    );
    let hashes = [before, after].map(|side| side["hash"].as_str().unwrap());
    assert_eq!(value(&mut sql, &shown).await, format!("1{}", hashes.concat()));
    assert!(!std::fs::read(&path).unwrap().windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
}

#[tokio::test]
async fn another_plan_shows_with_a_regression() {
    for family in families() {
        plans_are_compared(family).await;
    }
}

/// Each of two clusters explains its own digest of the same text, user and schema on a replica of its own.
#[tokio::test]
async fn each_cluster_explains_its_own_digests() {
    let (folder, database) = (tempfile::tempdir().unwrap(), "e2e_plan_clusters");
    let table = |key: &str| {
        format!(
            "CREATE TABLE planned (id INT PRIMARY KEY, k VARCHAR(20), v CHAR(200){key}); \
             INSERT INTO planned VALUES (1,'a','v'),(2,'b','v'),(3,'c','v'),(4,'d','v'),(5,'e','v'),(6,'f','v')"
        )
    };
    let mut found = Vec::new();
    for (family, key) in [(Family::MariaDb, ", KEY by_k (k)"), (Family::MySql, "")] {
        let (front, servers) = statements::start(family, database, &table(key)).await;
        drop(front);
        accounts(servers, &format!("GRANT SELECT ON `{database}`.* TO {}@'%'", lab::MONITOR_USER)).await;
        found.push(servers);
    }
    let (servers, others) = (found[0], found[1]);
    let addresses = others.servers().iter().enumerate();
    let others: String = addresses
        .map(|(at, server)| format!("servers.other{} = {{ address = \"{}\" }}\n", at + 1, server.address()))
        .collect();
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = format!(
            "[cluster.other]\nkind = \"replication\"\n{others}[cluster.other.monitor]\nuser = \"{}\"\npassword = \"{}\"\n\
             [cluster.other.tls]\nmode = \"disabled\"\n[listener.other]\naddress = \"127.0.0.1:0\"\ncluster = \"other\"\n\
             [history]\npath = \"{}\"\nexplain_every_s = 1\n",
            lab::MONITOR_USER,
            lab::MONITOR_PASSWORD,
            folder.path().join("history.sqlite").display()
        );
    })
    .await;
    let ask = "SELECT SLEEP(0), v FROM planned WHERE k = 'b' AND id > 0";
    for listener in ["app", "other"] {
        let target = Target::plain(front.address_of(listener).parse().unwrap(), SOON);
        let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        login.schema = Some(database.into());
        let mut client = Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap();
        for _ in 0..30 {
            all(&mut client, ask).await;
        }
        client.ping().await.unwrap();
    }
    let (_, page) = http_with(&front.admin, "GET", "/api/v1/digests?limit=1000", Some(KEY)).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let planned = "SELECT SLEEP(?), v FROM planned WHERE k = ? AND id > ?";
    let rows: Vec<&Value> = page["digests"].as_array().unwrap().iter().filter(|row| row["text"] == planned).collect();
    assert_eq!((rows.len(), &rows[0]["statements"]), (1, &json!(60)), "both clusters together");
    let explained = format!("/api/v1/digests/{}/explain", rows[0]["hash"].as_str().unwrap());
    let plans = until("a plan of each cluster", async || {
        let page = http_with(&front.admin, "GET", &explained, Some(KEY)).await.1;
        let page: Value = serde_json::from_str(&page).unwrap();
        (page["plans"].as_array().unwrap().len() == 2).then_some(page)
    })
    .await;
    for plan in plans["plans"].as_array().unwrap() {
        let (is_main, server) = (plan["cluster"] == "main", plan["server"].as_str().unwrap());
        assert_eq!(server.starts_with("db"), is_main, "{plan}");
        assert!(!matches!(server, "db1" | "other1"), "a replica explains: {plan}");
        assert_eq!(plan["rows"].to_string().contains("by_k"), is_main, "the other cluster has no such key: {plan}");
    }
    // An operator names the cluster.
    let order = async |body: &str| http_send(&front.admin, "POST", &explained, Some(KEY), body).await;
    let body = order("{}").await;
    assert!(body.0 == 400 && body.1.contains("name the cluster"), "{body:?}");
    let body = order("{\"cluster\": \"other\"}").await;
    assert!(body.0 == 200 && body.1.contains("\"cluster\":\"other\"") && !body.1.contains("by_k"), "{body:?}");
}
