//! Reads that hide a write, in a view that calls a function: they are writes in all that follows from it.

use lab::{Family, Replication};
use net::query::Client;
use wire::Capabilities;

use crate::consistency::{FOR_LONG, delay};
use crate::support::{Front, all, app, blocking, failing, has_mysql, value};
use net::tls::ClientTls;

/// A client that gets EOF packets has no positions with its rows.
async fn classic(front: &Front) -> Client {
    let mut login = app();
    login.capabilities.remove(Capabilities::DEPRECATE_EOF);
    front.connect(login, ClientTls::disabled()).await.unwrap()
}

async fn on_primary(servers: &'static Replication, sql: &'static str) {
    blocking(move || drop(servers.primary().sql(sql).unwrap())).await;
}

/// A session's reads find what it has written by reading a view, from the first one on: before the catalog of views is read a
/// replica refuses that read, and the primary runs it.
async fn check(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    let front = Front::start(servers, |_| {}).await;
    front.knows(2).await;
    on_primary(
        servers,
        "CREATE TABLE app.counter (id INT PRIMARY KEY, n INT); INSERT INTO app.counter VALUES (1, 0);
         DELIMITER //
         CREATE FUNCTION app.counts() RETURNS INT MODIFIES SQL DATA
         BEGIN UPDATE app.counter SET n = n + 1; RETURN 0; END //
         DELIMITER ;
         CREATE VIEW app.counting AS SELECT app.counts() AS n",
    )
    .await;
    blocking(|| servers.wait_in_sync(crate::support::SOON).unwrap()).await;
    delay(servers, family, FOR_LONG).await;
    let (mut new, mut old) = (front.client().await, classic(&front).await);
    for turn in 0..6 {
        let client = if turn % 2 == 0 { &mut old } else { &mut new };
        assert_eq!(value(client, "SELECT n FROM counting").await, "0");
        let counted = value(client, "SELECT n FROM counter WHERE id = 1").await;
        assert_eq!(counted, (turn + 1).to_string(), "behind read {turn}");
    }
    all(&mut old, "DO 0").await;
    delay(servers, family, &[0, 0]).await;
}

#[tokio::test]
async fn a_read_that_hides_a_write_is_found_by_later_reads() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn a_read_that_hides_a_write_is_found_by_later_reads_mysql() {
    if has_mysql() {
        check(Family::MySql).await;
    }
}
