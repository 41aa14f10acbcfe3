//! SIGHUP: another configuration, and no session is dropped.

use lab::Family;
use net::query;
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use wire::auth::Credential;

use crate::login::accounts;
use crate::support::{Authority, Front, all, app, calm, error, until, value};

#[tokio::test]
async fn servers_limits_and_users_change_under_open_sessions() {
    let servers = calm(Family::MariaDb).await;
    accounts(
        servers,
        "CREATE OR REPLACE USER e2e_reload@'%' IDENTIFIED BY 'one'; CREATE OR REPLACE TABLE app.reload (n INT)",
    )
    .await;
    let mut third = String::new();
    let mut front = Front::start(servers, |setup| {
        third = setup.servers.pop().unwrap();
        setup.pool = "max_connections_per_server = 1\nwait_ms = 200".into();
        setup.listener = "max_sessions = 4".into();
        setup.more = "[user.e2e_reload]\npassword = \"wrong for the servers\"".into();
    })
    .await;
    let (mut open, mut other) = (front.client().await, front.client().await);
    all(&mut open, "SET @mine = 5, time_zone = '+03:00'").await;
    all(&mut open, "BEGIN").await;
    all(&mut open, "INSERT INTO app.reload VALUES (1)").await;
    assert_eq!(error(&mut other, "/* sqluice: primary */ SELECT 1").await.0, 1203);
    assert_eq!(front.refused("e2e_reload", "one").await.0, 1045);
    assert_eq!(front.metrics().await.reads("db3"), 0.0);

    front.reload(|setup| {
        setup.servers.push(third);
        setup.pool = "max_connections_per_server = 10\nwait_ms = 5000".into();
        setup.listener = "max_sessions = 6".into();
        setup.more = "[user.e2e_reload]\npassword = \"one\"".into();
    });
    until("the new server to get reads", async || {
        all(&mut other, "SELECT 1").await;
        (front.metrics().await.reads("db3") > 0.0).then_some(())
    })
    .await;
    assert_eq!(value(&mut other, "/* sqluice: primary */ SELECT 2").await, "2");
    let mut reloaded = until("the new password", async || front.login("e2e_reload", "one").await.ok()).await;
    assert_eq!(value(&mut reloaded, "SELECT 3").await, "3");
    let _more = (front.client().await, front.client().await, front.client().await);
    assert_eq!(front.refused(lab::APP_USER, lab::APP_PASSWORD).await.0, 1040);

    assert_eq!(value(&mut open, "SELECT CONCAT(@mine, @@time_zone)").await, "5+03:00");
    all(&mut open, "COMMIT").await;
    assert_eq!(value(&mut open, "/* sqluice: primary */ SELECT COUNT(*) FROM app.reload").await, "1");

    // A server that leaves gets nothing any more, and its connections go.
    front.reload(|setup| drop(setup.servers.pop()));
    until("the connections to the server that left to be closed", async || {
        let connections = front.metrics().await.sum("sqluice_server_connections", &["server=\"db3\""]);
        (connections == 0.0).then_some(())
    })
    .await;
    let before = front.metrics().await.reads("db3");
    for _ in 0..20 {
        all(&mut other, "SELECT 1").await;
    }
    assert_eq!(front.metrics().await.reads("db3"), before);
}

#[tokio::test]
async fn a_file_with_a_mistake_changes_nothing() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |setup| setup.listener = "max_sessions = 3".into()).await;
    let mut client = front.client().await;
    for (text, says) in [
        ("this is no TOML [", "old configuration stays"),
        ("[cluster.main]\nkind = \"replication\"\nsevers.db1 = 5\n", "severs"),
        ("", "old configuration stays"),
    ] {
        let said = front.log().matches("old configuration stays").count();
        front.reload_text(text);
        until("the mistake to be told", async || {
            (front.log().matches("old configuration stays").count() > said).then_some(())
        })
        .await;
        assert!(front.log().contains(says), "{}", front.log());
        assert_eq!(value(&mut client, "SELECT 4").await, "4");
        all(&mut front.client().await, "SELECT 1").await;
    }
    front.reload(|setup| setup.listener = "max_sessions = 1".into());
    until("the corrected file to be taken", async || {
        let refused = front.connect(app(), ClientTls::disabled()).await.err()?;
        (refused.server_error()?.code == 1040).then_some(())
    })
    .await;
    assert_eq!(value(&mut client, "SELECT 5").await, "5");
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_clients() {
    let servers = calm(Family::MariaDb).await;
    let (old, new) = (Authority::new(), Authority::new());
    let (certificate, key) = old.sign();
    let mut front = Front::start(servers, |setup| {
        setup.listener_tls = format!("cert_file = \"{}\"\nkey_file = \"{}\"", certificate.display(), key.display());
    })
    .await;
    let trusting = |authority: &Authority| {
        let ca_file = Some(authority.file().into());
        ClientTls::new(&ClientTlsOptions {
            mode: ServerTlsMode::VerifyIdentity,
            ca_file,
            ..ClientTlsOptions::default()
        })
        .unwrap()
    };
    let login = || query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
    let mut client = front.connect(login(), trusting(&old)).await.unwrap();
    assert!(front.connect(login(), trusting(&new)).await.is_err());
    new.sign_into(&certificate, &key);
    front.reload(|_| {});
    until("the new certificate", async || front.connect(login(), trusting(&new)).await.ok()).await;
    assert!(front.connect(login(), trusting(&old)).await.is_err());
    assert_eq!(value(&mut client, "SELECT 6").await, "6", "who is connected stays");
    // A certificate that is none changes nothing.
    std::fs::write(&certificate, "no certificate").unwrap();
    front.reload(|_| {});
    until("the mistake to be told", async || front.log().contains("old configuration stays").then_some(())).await;
    front.connect(login(), trusting(&new)).await.unwrap();
}
