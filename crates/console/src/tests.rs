//! A console without servers, asked over its socket.

use std::sync::Arc;
use std::time::Duration;

use config::Secret;
use net::client::{ConnectError, Target};
use net::query::{self, Client, Limits};
use wire::auth::Credential;

use crate::keys::Keys;
use crate::listener;
use crate::testing::shared_with;

async fn console(keys: Keys) -> Target {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listener::serve(listener, shared_with("", keys)));
    Target::plain(address.to_string().parse().unwrap(), Duration::from_secs(20))
}

async fn login(target: &Target, user: &str, key: &str) -> Result<Client, ConnectError> {
    Client::connect(target, query::login(user, Credential::password(key)), Limits::default()).await
}

async fn code(client: &mut Client, sql: &str) -> u16 {
    client.query(sql).await.map_or_else(|error| error.server_error().map_or(0, |error| error.code), |_| 0)
}

fn three() -> Keys {
    let key = |text: &str| Some(Secret::new(text));
    Keys { admin: key("a key"), operate: key("another"), view: key("a third") }
}

#[tokio::test]
async fn each_role_has_its_key_and_its_rights() {
    let target = console(three()).await;
    for (user, key, kill) in [("view", "a third", 1227), ("operate", "another", 1094), ("admin", "a key", 1094)] {
        let mut client = login(&target, user, key).await.unwrap_or_else(|error| panic!("{user}: {error}"));
        assert_eq!(code(&mut client, "SELECT count(*) FROM sessions").await, 0);
        assert_eq!(code(&mut client, "KILL 1073741830").await, kill, "{user}");
        assert_eq!(code(&mut client, "DELETE FROM digests").await, 1290, "{user}");
        assert_eq!(code(&mut client, "MARK 'a'").await, if user == "view" { 1227 } else { 0 }, "{user}");
        let moved = code(&mut client, "SWITCHOVER main DRY RUN").await;
        assert_eq!(moved, if user == "admin" { 0 } else { 1227 }, "{user}");
        assert_eq!(code(&mut client, "HELP").await, 0);
        let named = client.query_one("SELECT USER()").await.unwrap();
        assert_eq!(named.scalar().as_deref(), Some(&*format!("{user}@127.0.0.1")));
    }
    for (user, key) in [("view", "a key"), ("operate", "a third"), ("admin", "another")] {
        let refused = login(&target, user, key).await.map(drop).unwrap_err();
        assert_eq!(refused.server_error().map(|error| error.code), Some(1045), "{user}");
    }
}

#[tokio::test]
async fn a_session_of_the_console_ends_by_kill_of_a_role_that_is_not_below() {
    let target = console(three()).await;
    let mut admin = login(&target, "admin", "a key").await.unwrap();
    let mut view = login(&target, "view", "a third").await.unwrap();
    let id = |result: net::query::ResultSet| result.scalar().unwrap().into_owned();
    let admins = id(admin.query_one("SELECT CONNECTION_ID()").await.unwrap());
    let views = id(view.query_one("SELECT CONNECTION_ID()").await.unwrap());
    assert_eq!(code(&mut view, &format!("KILL {admins}")).await, 1227);
    assert_eq!(code(&mut admin, "SELECT 1").await, 0);
    assert_eq!(code(&mut admin, &format!("KILL {views}")).await, 0);
    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        while view.ping().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    ended.await.unwrap();
}

#[tokio::test]
async fn without_keys_nobody_comes_in() {
    let target = console(Keys::default()).await;
    for (user, key) in [("admin", ""), ("view", ""), ("admin", "x")] {
        let refused = login(&target, user, key).await.map(drop).unwrap_err();
        assert_eq!(refused.server_error().map(|error| error.code), Some(1045), "{user}");
    }
    let empty = Keys { admin: Some(Secret::new("")), ..Keys::default() };
    let target = console(empty).await;
    assert!(login(&target, "admin", "").await.is_err(), "an empty key is none");
}

#[test]
fn the_shared_state_may_be_used_by_all_threads() {
    fn is_shared<T: Send + Sync>(_: &Arc<T>) {}
    is_shared(&crate::testing::shared(""));
}
