//! Unix sockets on both sides, and several listeners and clusters in one process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits};

use crate::support::{Front, SOON, all, any_certificate, app, calm, client_program, run, signal, until, value};

fn socket(front: &Front) -> &str {
    front.address.strip_prefix("unix:").unwrap()
}

/// A folder for sockets: their paths must be short.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sqluice").tempdir_in("/tmp").unwrap()
}

#[tokio::test]
async fn clients_and_servers_may_be_on_local_sockets() {
    let servers = calm(Family::MariaDb).await;
    let folder = folder();
    let path = folder.path().join("s.sock");
    let mut front = Front::start(servers, |setup| {
        setup.servers = Vec::from_iter(servers.servers().iter().enumerate().map(|(index, server)| {
            format!("servers.db{} = {{ address = \"unix:{}\" }}", index + 1, server.socket_path().display())
        }));
        setup.listener_address = format!("unix:{}", path.display());
        setup.listener_tls = "mode = \"required\"".into();
        setup.listener = "socket_mode = \"0770\"".into();
    })
    .await;
    assert_eq!(Path::new(socket(&front)), path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o770);
    let mut client = front.client().await;
    assert_eq!(value(&mut client, "SELECT USER()").await, "app@localhost");
    all(&mut client, "CREATE TABLE IF NOT EXISTS app.local (n INT)").await;
    all(&mut client, "START TRANSACTION; INSERT INTO app.local VALUES (1); ROLLBACK").await;
    let mut command = Command::new(client_program(Family::MariaDb));
    command.args(["--no-defaults", "--batch", "--skip-column-names", "--skip-ssl", "--socket", socket(&front)]);
    command.args(["--user", lab::APP_USER, lab::APP_DATABASE]).env("MYSQL_PWD", lab::APP_PASSWORD);
    let out = run(command, "SELECT 'local', USER();\n\\s\n").await.output();
    assert!(out.contains("local\tapp@localhost") && out.contains("via UNIX socket"), "{out}");
    // Refusals name the host as servers do.
    let (code, message) = front.refused("stranger", "x").await;
    assert!(code == 1045 && message.contains("'stranger'@'localhost'"), "{code} {message}");
    assert_eq!(front.metrics().await.sum("sqluice_sessions", &[]), 1.0);
    // A reload keeps the socket, a drain ends it.
    front.reload(|setup| setup.listener.push_str("\nmax_sessions = 50"));
    all(&mut front.client().await, "SELECT 1").await;
    drop(client);
    signal(front.pid(), "TERM");
    front.ended().await;
    assert!(!path.exists(), "the socket's file was left behind");
}

#[tokio::test]
async fn a_socket_that_a_killed_process_left_is_taken_over_and_a_living_one_is_not() {
    let servers = calm(Family::MariaDb).await;
    let folder = folder();
    let address = format!("unix:{}/s.sock", folder.path().display());
    let mut front = Front::start(servers, |setup| setup.listener_address = address.clone()).await;
    all(&mut front.client().await, "SELECT 1").await;
    let second = front.start_another().await;
    assert!(!second.good && second.err.contains("cannot listen on unix:"), "{}{}", second.out, second.err);
    all(&mut front.client().await, "SELECT 1").await;
    signal(front.pid(), "KILL");
    front.ended().await;
    assert!(folder.path().join("s.sock").exists());
    let front = Front::start(servers, |setup| setup.listener_address = address.clone()).await;
    all(&mut front.client().await, "SELECT 1").await;
}

#[tokio::test]
async fn several_listeners_lead_to_several_clusters_each_by_its_own_rules() {
    let servers = calm(Family::MariaDb).await;
    let alone = servers.replicas().next().unwrap();
    let function = "CREATE OR REPLACE FUNCTION app.which_server() RETURNS INT READS SQL DATA RETURN @@server_id";
    servers.primary().sql(function).unwrap();
    servers.wait_in_sync(SOON).unwrap();
    let folder = folder();
    let front = Front::start(servers, |setup| {
        setup.more = format!(
            "[cluster.second]\nkind = \"standalone\"\nservers.only = {{ address = \"{}\" }}\n\
             monitor = {{ user = \"{}\", password = \"{}\", interval_ms = 100, heartbeat = \"off\" }}\n\
             [listener.strict]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nsplit = \"primary\"\nmax_sessions = 1\n\
             compression = \"off\"\nserver_version = \"10.11.99-strict\"\ntls.mode = \"required\"\n\
             [listener.second]\naddress = \"unix:{}/2.sock\"\ncluster = \"second\"\nsplit = \"primary\"\n",
            alone.address(),
            lab::MONITOR_USER,
            lab::MONITOR_PASSWORD,
            folder.path().display(),
        );
    })
    .await;
    let connect = async |listener: &str, tls| {
        let target = Target { tls, ..Target::plain(front.listener(listener).parse().unwrap(), SOON) };
        Client::connect(&target, app(), Limits::default()).await
    };
    // A read like others; @@server_id itself would be the primary's.
    let server = "SELECT app.which_server()";
    let primary = servers.primary().server_id().to_string();
    // The first splits: its reads are on replicas, its writes on the primary.
    let mut first = front.client().await;
    until("reads on a replica", async || {
        let reads_on = value(&mut first, server).await;
        (reads_on != primary).then_some(())
    })
    .await;
    assert_eq!(value(&mut first, &format!("/* sqluice: primary */ {server}")).await, primary);
    // The second insists on TLS, takes one session, splits nothing, compresses nothing and has another name.
    let refused = connect("strict", net::tls::ClientTls::disabled()).await.unwrap_err();
    assert_eq!(refused.server_error().unwrap().code, 3159);
    let mut strict = until("the place to be free", async || connect("strict", any_certificate()).await.ok()).await;
    assert_eq!(value(&mut strict, server).await, primary);
    assert_eq!(strict.greeting().server_version, "10.11.99-strict");
    let offers = |client: &Client| client.greeting().capabilities.contains(wire::Capabilities::COMPRESS);
    assert!(!offers(&strict) && offers(&first));
    let refused = connect("strict", any_certificate()).await.unwrap_err();
    assert_eq!(refused.server_error().unwrap().code, 1040);
    // The third is another cluster, on a local socket; its only server takes everything.
    let mut second = connect("second", net::tls::ClientTls::disabled()).await.unwrap();
    assert_eq!(value(&mut second, server).await, alone.server_id().to_string());
    let sessions = front.metrics().await;
    assert_eq!(sessions.sum("sqluice_sessions", &[]), 3.0);
    // One session more where there is room.
    all(&mut front.client().await, "SELECT 1").await;
}
