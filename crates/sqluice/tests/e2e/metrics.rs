//! The figures of the admin address, compared with the real work.

use std::io::Write;
use std::process::{Command, Stdio};

use lab::Family;
use net::query::Parameter;

use crate::login::accounts;
use crate::support::{Front, all, calm, error, http, until};

#[tokio::test]
async fn counts_are_those_of_what_was_done() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.counted (n INT)").await;
    // Reads behind writes would go to the primary until a replica has them.
    let front = Front::start(servers, |setup| setup.listener = "consistency = \"none\"".into()).await;
    let mut client = front.client().await;
    let before = front.metrics().await;
    for n in 0..20 {
        all(&mut client, &format!("INSERT INTO app.counted VALUES ({n})")).await;
        for _ in 0..5 {
            all(&mut client, "SELECT n FROM app.counted WHERE n = 3").await;
        }
    }
    assert_eq!(error(&mut client, "SELECT (SELECT n FROM app.counted)").await.0, 1242);
    let statement = client.prepare("SELECT n FROM app.counted WHERE n = ?").await.unwrap();
    for n in 0..10 {
        client.execute(&statement, &[Parameter::Int(n)]).await.unwrap();
    }
    // The last statement is certainly counted when the next request is answered.
    client.ping().await.unwrap();
    let after = front.metrics().await;
    let grown = |name: &str, labels: &[&str]| after.sum(name, labels) - before.sum(name, labels);
    let reads = |server: &str| after.reads(server) - before.reads(server);
    assert_eq!(reads("db1"), 0.0);
    // 100 as text, 1 that failed, 10 executions; preparing may count as one.
    let replicas = reads("db2") + reads("db3");
    assert!((111.0..=113.0).contains(&replicas), "{replicas}");
    assert_eq!(after.writes("db1") - before.writes("db1"), 20.0);
    assert_eq!(after.writes("db2") + after.writes("db3"), 0.0);
    assert_eq!(grown("sqluice_server_errors_total", &[]), 1.0);
    assert_eq!(grown("sqluice_own_errors_total", &[]), 0.0);
    assert_eq!(grown("sqluice_requests_total", &[]), 133.0);
    assert_eq!(grown("sqluice_routes_total", &["reason=\"writes\""]), 20.0);
    assert_eq!(grown("sqluice_server_latency_seconds_count", &["server=\"db1\""]), 20.0);
    assert_eq!(after.sum("sqluice_sessions", &[]), 1.0);
    assert_eq!(after.sum("sqluice_logins_total", &[]), 1.0);
    assert_eq!(after.sum("sqluice_server_role", &["server=\"db1\"", "role=\"primary\""]), 1.0);
    assert_eq!(after.sum("sqluice_server_role", &["role=\"replica\""]), 2.0);
    assert_eq!(after.sum("sqluice_server_up", &[]), 3.0);
    until("each replica's lag to be known and small", async || {
        let metrics = front.metrics().await;
        let lag = metrics.sum("sqluice_server_lag_seconds", &["server=\"db2\""]);
        (lag < 5.0 && metrics.sum("sqluice_monitor_heartbeat_writes_total", &[]) > 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn pins_are_shown_by_reason_while_they_last() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    let (mut one, mut other) = (front.client().await, front.client().await);
    front.is_pinned_by(&[]).await;
    all(&mut one, "BEGIN").await;
    all(&mut other, "CREATE TEMPORARY TABLE app.shown (n INT)").await;
    front.is_pinned_by(&["transaction", "temporary_table"]).await;
    assert_eq!(front.metrics().await.sum("sqluice_server_connections", &["state=\"used\""]), 2.0);
    all(&mut one, "ROLLBACK").await;
    front.is_pinned_by(&["temporary_table"]).await;
    drop(other);
    front.is_pinned_by(&[]).await;
    let pinned = front.metrics().await.sum("sqluice_pins_total", &[]);
    assert_eq!(pinned, 2.0);
    until("the connection to be idle", async || {
        (front.metrics().await.sum("sqluice_server_connections", &["state=\"used\""]) == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn health_pages_answer() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    assert_eq!(http(&front.admin, "/healthz").await.0, 200);
    assert_eq!(http(&front.admin, "/readyz").await.0, 200);
    assert_eq!(http(&front.admin, "/nothing").await.0, 404);
    let (_, page) = http(&front.admin, "/metrics").await;
    for secret in [lab::APP_PASSWORD, lab::MONITOR_PASSWORD] {
        assert!(!page.contains(secret) && !front.log().contains(secret));
    }
}

/// Runs Prometheus' own checker in the folder of the alarm rules, with this on its standard input.
fn promtool(arguments: &[&str], input: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../monitoring");
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder);
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return lab::skip("promtool is not there"),
        Err(error) => panic!("promtool: {error}"),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn prometheus_own_checker_accepts_the_page_and_the_alarm_rules() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    let mut client = front.client().await;
    all(&mut client, "SELECT 1").await;
    assert_eq!(error(&mut client, "SELECT nosuch").await.0, 1054);
    client.ping().await.unwrap();
    let (_, page) = http(&front.admin, "/metrics").await;
    assert!(page.contains("sqluice_errors_total{code=\"1054\"} 1"), "{page}");
    let metrics = front.metrics().await;
    assert!(metrics.sum("sqluice_client_received_bytes_total", &[]) > 20.0);
    assert!(metrics.sum("sqluice_client_sent_bytes_total", &[]) > 20.0);
    assert!(metrics.sum("process_open_fds", &[]) > 5.0);
    assert_eq!(metrics.sum("sqluice_listener_sessions", &[]), 1.0);
    promtool(&["check", "metrics"], &page);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dashboard.yml");
    std::fs::write(&path, dashboard_rules()).unwrap();
    promtool(&["check", "rules", path.to_str().unwrap()], "");
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts_test.yml"], "");
}

/// The expressions of the dashboard as rules, which promtool can parse.
fn dashboard_rules() -> String {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../monitoring/grafana.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array());
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    for (at, target) in targets.flatten().enumerate() {
        let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        rules += &format!("  - {{record: \"panel:{at}\", expr: {}}}\n", serde_json::Value::from(expression));
    }
    rules
}
