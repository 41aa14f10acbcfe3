//! How operators see which digests share connections.

use net::query::{self, Client, Limits};
use wire::auth::Credential;

use super::{always, numbers, pipelined};
use crate::support::{Front, all, calm, families, http_with, value};

const KEY: &str = "open sesame";
const DIGEST: &str = "SELECT t FROM piped WHERE n = ?";

#[tokio::test]
async fn each_digest_tells_how_often_it_shared_a_connection() {
    for family in families() {
        let servers = calm(family).await;
        numbers(servers).await;
        let front = Front::start(servers, |setup| {
            always(setup);
            setup.admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"");
        })
        .await;
        let mut client = front.client().await;
        for n in 0..20 {
            all(&mut client, &format!("SELECT t FROM piped WHERE n = {n}")).await;
        }
        // A transaction has a connection of its own.
        all(&mut client, "BEGIN").await;
        for n in 0..5 {
            all(&mut client, &format!("SELECT t FROM piped WHERE n = {n}")).await;
        }
        all(&mut client, "COMMIT").await;
        client.ping().await.unwrap();
        let shared = pipelined(&front).await;
        assert!(shared > 0.0 && shared <= 20.0, "{family:?}: {shared}");
        let (status, body) = http_with(&front.admin, "GET", "/api/v1/digests?limit=1000", Some(KEY)).await;
        let page: serde_json::Value = serde_json::from_str(&body).unwrap();
        let row = page["digests"].as_array().unwrap().iter().find(|row| row["text"] == DIGEST);
        let row = row.unwrap_or_else(|| panic!("{status} {body}"));
        assert_eq!((&row["statements"], row["pipelined"].as_f64()), (&25.into(), Some(shared)), "{family:?}: {row}");
        let bytes = row["reply_bytes"].as_u64().unwrap();
        assert!(bytes > 25 * 40, "{family:?}: the replies of all, shared or not: {row}");
        let target = net::client::Target::plain(front.address_of("console").parse().unwrap(), crate::support::SOON);
        let login = query::login("admin", Credential::password(KEY));
        let mut console = Client::connect(&target, login, Limits::default()).await.unwrap();
        let sql = format!("SELECT pipelined FROM digests WHERE text = '{DIGEST}'");
        assert_eq!(value(&mut console, &sql).await, shared.to_string(), "{family:?}");
    }
}
