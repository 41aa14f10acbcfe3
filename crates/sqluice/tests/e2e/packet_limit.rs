//! `max_allowed_packet`: sessions keep the global value of their login, whichever connection they get.

use std::time::Instant;

use lab::Family;
use net::query::Client;

use crate::follow::direct;
use crate::support::{Front, SOON, all, error, failing, value};

#[tokio::test]
async fn sessions_keep_the_packet_limit_of_their_login() {
    check_packet_limit(Family::MariaDb).await;
}

pub async fn check_packet_limit(family: Family) {
    let rights = if family == Family::MariaDb { "SUPER" } else { "SYSTEM_VARIABLES_ADMIN" };
    let sql = format!("CREATE USER e2e_limit@'%' IDENTIFIED BY 'e2e-Limit-1'; GRANT {rights} ON *.* TO e2e_limit@'%'");
    let servers = failing(family).await;
    servers.primary().sql(&sql).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let front = Front::start(&servers, |setup| {
        setup.proxy = "workers = 1".into();
        // One for each of the two users: none is closed to make room for the other one's.
        setup.pool = "max_connections_per_server = 2".into();
    })
    .await;
    let mut root = front.login("e2e_limit", "e2e-Limit-1").await.unwrap();
    let mut first = front.client().await;
    let mut earlier = direct(&servers).await;
    let before = value(&mut first, "SELECT @@max_allowed_packet").await;
    all(&mut root, "SET GLOBAL max_allowed_packet = 65536").await;
    let mut small = client_with(&front, "65536").await;
    all(&mut root, "SET GLOBAL max_allowed_packet = 1048576").await;
    let mut large = client_with(&front, "1048576").await;
    // The connection at hand was opened when the value was 65536.
    assert_eq!(length(&mut large, 300_000).await, Ok(()));
    for _ in 0..3 {
        for (client, limit) in [(&mut first, &*before), (&mut small, "65536"), (&mut large, "1048576")] {
            for read in ["SELECT @@max_allowed_packet", "SELECT @@session.max_allowed_packet + 0"] {
                assert_eq!(value(client, read).await, limit);
            }
            let shown = client.query_one("SHOW VARIABLES LIKE 'max_allowed_packet'").await.unwrap();
            assert_eq!(shown.text(0, "Value").unwrap(), limit);
            assert_eq!(value(client, "SELECT @@global.max_allowed_packet").await, "1048576");
            assert_eq!(error(client, "SET SESSION max_allowed_packet = 4096").await.0, 1621);
        }
    }
    // The largest that is taken, and one byte more.
    assert_eq!(length(&mut large, 1_048_575).await, Ok(()));
    assert_eq!(length(&mut small, 65_535).await, Ok(()));
    assert_eq!(length(&mut first, 300_000).await, Ok(()));
    all(&mut root, "SET GLOBAL max_allowed_packet = 4096").await;
    let mut least = client_with(&front, "4096").await;
    let mut directly = direct(&servers).await;
    for client in [&mut least, &mut directly] {
        assert_eq!(value(client, "SELECT @@max_allowed_packet").await, "4096");
        assert_eq!(length(client, 16_383).await, Ok(()));
        assert_eq!(length(client, 16_384).await, Err(1153));
        assert!(client.query_one("SELECT 1").await.is_err(), "the session is over");
    }
    // The connection at hand was opened when the value was 1048576.
    let mut lower = client_with(&front, "4096").await;
    assert_eq!(value(&mut lower, "SELECT /* sqluice: primary */ REPEAT('a', 4097) IS NULL").await, "1");
    assert_eq!(length(&mut large, 1_048_576).await, Err(1153));
    assert_eq!(length(&mut small, 65_536).await, Err(1153));
    // A reset shows the value of today, as a login does, and takes what it took.
    let deadline = Instant::now() + SOON;
    loop {
        first.reset_connection().await.unwrap();
        let found = value(&mut first, "SELECT @@max_allowed_packet").await;
        if found == "4096" || Instant::now() > deadline {
            assert_eq!(found, "4096");
            break;
        }
    }
    assert_eq!(length(&mut first, 100_000).await, Ok(()));
    earlier.reset_connection().await.unwrap();
    assert_eq!(value(&mut earlier, "SELECT @@max_allowed_packet").await, "4096");
    assert_eq!(length(&mut earlier, 100_000).await, Ok(()), "as directly");
    all(&mut root, &format!("SET GLOBAL max_allowed_packet = {before}")).await;
    servers.primary().sql("DROP USER e2e_limit@'%'").unwrap();
}

/// A client that has logged in behind this change: Sqluice waits for what it reads of the servers, but not for ever.
async fn client_with(front: &Front, limit: &str) -> Client {
    let deadline = Instant::now() + SOON;
    loop {
        let mut client = front.client().await;
        let found = value(&mut client, "SELECT @@max_allowed_packet").await;
        if found == limit || Instant::now() > deadline {
            assert_eq!(found, limit);
            return client;
        }
    }
}

/// A query whose packet has so many bytes: the code of its error.
async fn length(client: &mut Client, bytes: usize) -> Result<(), u16> {
    let text = format!("SELECT 1{}", " ".repeat(bytes - 9));
    match client.query_one(&text).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.code().unwrap_or(0)),
    }
}
