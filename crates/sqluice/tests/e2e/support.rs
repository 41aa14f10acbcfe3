//! Helpers of all tests: servers, the program in front of them, clients of all kinds, and waiting without sleeping.

mod authority;
pub mod cache;
mod front;
pub mod load;
pub mod long_reads;
mod scrape;
mod servers;
mod tools;

use std::time::{Duration, Instant};

use net::query::{Client, QueryError, ResultSet};

pub use authority::Authority;
pub use front::{Front, Setup, any_certificate, app};
pub use scrape::{Metrics, http, http_send, http_with};
pub use servers::{Failing, authority, calm, failing, families, has_mysql};
pub use tools::{Ran, blocking, client_program, run, signal};

/// Longest wait for something that should come soon, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks again and again until `look` gives something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "this did not come within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs statements that must succeed.
pub async fn all(client: &mut Client, sql: &str) -> Vec<ResultSet> {
    client.query(sql).await.unwrap_or_else(|error| panic!("{sql:.200}: {error}"))
}

/// The one value of a statement's only row.
pub async fn value(client: &mut Client, sql: &str) -> String {
    let result = client.query_one(sql).await.unwrap_or_else(|error| panic!("{sql:.200}: {error}"));
    result.scalar().map_or("NULL".into(), |text| text.into_owned())
}

/// The code and the message of the server's (or Sqluice's) error that a statement must give.
pub async fn error(client: &mut Client, sql: &str) -> (u16, String) {
    match client.query(sql).await {
        Ok(results) => panic!("{sql:.200}: no error but {results:?}"),
        Err(error) => said(&error),
    }
}

/// The code and the message of an error packet.
pub fn said(error: &QueryError) -> (u16, String) {
    let reported = error.server_error().unwrap_or_else(|| panic!("not an error packet: {error}"));
    (reported.code, reported.message.clone())
}
