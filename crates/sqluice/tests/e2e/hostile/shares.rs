//! Resources that all clients share: the process's files, the admin listener's connections, the memory for prepared statements.

use std::time::Duration;

use lab::Family;
use net::client::Target;
use net::query::Statement;
use testkit::Server;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Field;
use super::field::login;
use crate::support::{Front, SOON, calm, until};

/// A process that may open 200 files, and 300 clients that come and stay.
#[tokio::test]
async fn clients_leave_files_for_servers_and_for_the_admin_listener() {
    let mut field = Field::start("300 clients of a process with 200 files", Server::usual(), "").await;
    field.serves().await;
    let pid = field.front.pid().to_string();
    let limited = std::process::Command::new("prlimit").args(["--pid", &pid, "--nofile=200:200"]).status().unwrap();
    assert!(limited.success());
    field.front.reload(|setup| setup.listener += "login_timeout_ms = 60_000");
    until("the new limit to be known", async || field.front.log().contains("was read again").then_some(())).await;
    let target = Target::plain(field.front.address.parse().unwrap(), SOON);
    let (mut sessions, mut refused) = (Vec::new(), 0);
    for _ in 0..300 {
        match net::client::connect(&target, login()).await {
            Ok(connected) => sessions.push(net::query::Client::new(connected, net::query::Limits::default())),
            Err(error) => {
                let said = error.server_error().unwrap_or_else(|| panic!("{error}"));
                assert!(said.code == 1040 && said.message.contains("200 files"), "{said}");
                refused += 1;
            }
        }
    }
    assert!(sessions.len() >= 30 && refused >= 200, "{} sessions, {refused} refused", sessions.len());
    for session in &mut sessions {
        session.query("SELECT 1").await.unwrap();
    }
    let metrics = field.front.metrics().await;
    assert!(metrics.sum("sqluice_clients_refused_total", &["reason=\"open_files\""]) >= 200.0);
    assert!(!field.front.log().contains("Too many open files"), "{}", field.front.log());
    drop(sessions);
    field.end(16 * 1024).await;
}

/// Silent ones, beginnings of requests, and requests that come byte by byte.
#[tokio::test]
async fn half_open_requests_to_the_admin_listener_keep_nobody_out() {
    let field = Field::start("300 half-open requests to the admin listener", Server::usual(), "").await;
    field.serves().await;
    let mut all = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(&field.front.admin).await.unwrap();
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ",
            _ => b"POST /api/v1/clusters HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        };
        stream.write_all(begun).await.unwrap();
        all.push(stream);
    }
    for _ in 0..20 {
        // Those that have been sent away fail here.
        for stream in &mut all {
            let _ = stream.try_write(b"x");
        }
        timeout(Duration::from_secs(5), field.front.metrics()).await.expect("the page in spite of all of them");
    }
    drop(all);
    field.end(8 * 1024).await;
}

#[tokio::test]
async fn prepared_texts_have_a_bound_for_each_session_and_for_all() {
    check_prepared_bytes(Family::MariaDb).await;
}

#[tokio::test]
async fn a_session_prepares_no_more_than_its_servers_allow() {
    check_prepared_count(Family::MariaDb).await;
}

pub async fn check_prepared_bytes(family: Family) {
    const TEXT_BYTES: usize = 100 * 1024;
    let servers = calm(family).await;
    let front = Front::start(servers, |setup| {
        setup.proxy += "\nprepared_memory_max = \"1536KiB\"";
        setup.listener += "\nprepared_memory_max = \"1MiB\"";
    })
    .await;
    let text = |number: usize| format!("SELECT {number} /* {} */", "x".repeat(TEXT_BYTES));
    let fill = async |client: &mut net::query::Client| {
        let mut prepared: Vec<Statement> = Vec::new();
        loop {
            assert!(prepared.len() < 20, "no bound");
            match client.prepare(text(prepared.len())).await {
                Ok(statement) => prepared.push(statement),
                Err(error) => {
                    assert_eq!(error.code(), Some(1461), "{error}");
                    return prepared;
                }
            }
        }
    };
    let mut one = front.client().await;
    let mut of_one = fill(&mut one).await;
    assert_eq!(of_one.len(), 10, "1 MiB of 100 KiB each");
    let mut other = front.client().await;
    let of_other = fill(&mut other).await;
    assert_eq!(of_other.len(), 5, "what is left for all sessions");
    // A statement that is closed, and a session that ends, make room.
    one.close(of_one.pop().unwrap()).await.unwrap();
    let again = one.prepare(text(77)).await.unwrap();
    assert_eq!(one.execute(&again, &[]).await.unwrap()[0].scalar().as_deref(), Some("77"));
    drop(one);
    until("room of the session that ended", async || other.prepare(text(78)).await.ok().map(drop)).await;
    until("the metric", async || {
        let bytes = front.metrics().await.sum("sqluice_prepared_bytes", &[]);
        (bytes > 5.0 * TEXT_BYTES as f64 && bytes < 8.0 * TEXT_BYTES as f64).then_some(())
    })
    .await;
}

/// As many as the servers' own variable says, and in their words. The same text is one statement for the server, and many for the
/// session.
pub async fn check_prepared_count(family: Family) {
    let servers = calm(family).await;
    let front = Front::start(servers, |setup| setup.cluster += "\ncatalog_refresh_s = 1").await;
    let mut client = front.client().await;
    for _ in 0..16_382 {
        client.prepare("SELECT 1").await.unwrap();
    }
    let error = client.prepare("SELECT 1").await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(1461), "{error}");
    let words = "Can't create more than max_prepared_stmt_count statements (current value: 16382)";
    assert_eq!(error.server_error().map(|said| said.message.as_str()), Some(words));
}
