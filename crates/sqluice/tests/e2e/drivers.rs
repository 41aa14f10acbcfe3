//! Drivers that applications use, where they are installed.

use std::process::Command;

use lab::Family;

use crate::support::{Front, calm, run};

#[tokio::test]
async fn pymysql_finds_a_server() {
    // A Python that has PyMySQL; `./dev test` names one.
    let python = std::env::var("SQLUICE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import pymysql"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        lab::skip("python3 with PyMySQL is missing (pip install pymysql, or apt-get install python3-pymysql)");
        return;
    }
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.listener = "local_infile = true".into()).await;
    let (host, port) = front.address.rsplit_once(':').unwrap();
    let mut command = Command::new(&python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/drivers/pymysql_check.py"));
    command.args([host, port, lab::APP_USER, lab::APP_PASSWORD, lab::APP_DATABASE]);
    command.arg(front.folder());
    assert_eq!(run(command, "").await.output(), "all good\n");
    front.is_pinned_by(&[]).await;
    assert_eq!(front.metrics().await.sum("sqluice_own_errors_total", &[]), 0.0);
}
