//! Plugins beside native and `caching_sha2_password`, with the servers that have them.

use lab::{Binaries, Family, Server, ServerOptions, TlsFiles};
use sqluice_net::client::{Cause, Target};
use sqluice_net::query::{Client, Limits};
use sqluice_net::tls::ServerTlsMode;
use wire::handshake::HandshakeError;
use wire::handshake::client::{LoginRequest, RsaPolicy};

use super::support::{Authority, login, tcp, unix, with_tls};

fn start(family: Family, init_sql: &str) -> Server {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("localhost");
    let mut options = ServerOptions::new(family);
    options.init_sql = init_sql.into();
    if family == Family::MariaDb {
        // Examples of plugins are of no known maturity.
        options.config.push("plugin_maturity=unknown".into());
    }
    options.tls = Some(TlsFiles { authority: authority.file(), certificate, key });
    Server::start(options).unwrap()
}

fn ways(server: &Server) -> [Target; 3] {
    [tcp(server), with_tls(tcp(server), ServerTlsMode::Required, None), unix(server)]
}

async fn check(server: &Server, target: &Target, user: &str, password: &str) {
    let mut client = Client::connect(target, login(user, password), Limits::default())
        .await
        .unwrap_or_else(|error| panic!("{user} {password:?}: {error}"));
    let current = client.query_one("SELECT CURRENT_USER()").await.unwrap();
    assert_eq!(current.scalar().unwrap(), format!("{user}@%"));
    let error = Client::connect(target, login(user, "wrong"), Limits::default()).await.unwrap_err();
    assert_eq!(error.server_error().map(|error| error.code), Some(1045), "{error}");
    // From another user and back, as pools of drivers do.
    client.change_user(login("n", "native")).await.unwrap();
    client.change_user(login(user, password)).await.unwrap_or_else(|error| panic!("{user}: {error}"));
    let current = client.query_one("SELECT CURRENT_USER()").await.unwrap();
    assert_eq!(current.scalar().unwrap(), format!("{user}@%"), "{}", server.port());
}

/// Whether this server has a plugin. Debian's core package of 10.11 has none; CI tries them with MariaDB 11.8, where all
/// must be there.
fn install(server: &Server, library: &str) -> bool {
    let installed = server.sql(&format!("INSTALL SONAME '{library}'"));
    if let Err(error) = &installed {
        match server.sql("SELECT VERSION() LIKE '10.%'").unwrap().trim() {
            "1" => eprintln!("not a part of this server: {library}: {error}"),
            _ => lab::skip(&format!("{library}: {error}")),
        }
    }
    installed.is_ok()
}

#[tokio::test]
async fn mariadbs_signatures() {
    let server = start(Family::MariaDb, "CREATE USER n@'%' IDENTIFIED BY 'native'");
    for (library, plugin) in [("auth_ed25519", "ed25519"), ("auth_parsec", "parsec")] {
        if !install(&server, library) {
            continue;
        }
        let long = "long ".repeat(30);
        // Before 11.6 a key was not made of the empty password, with which nobody could log in then.
        let empty = server.sql("SELECT VERSION() LIKE '10.%'").unwrap().trim() == "0";
        let passwords = ["secret", &long, "päss'wörd", ""].into_iter().take(if empty { 4 } else { 3 });
        for (number, password) in passwords.enumerate() {
            let user = format!("{plugin}{number}");
            let quoted = password.replace('\'', "''");
            server.sql(&format!("CREATE USER {user}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('{quoted}')")).unwrap();
            for target in ways(&server) {
                check(&server, &target, &user, password).await;
            }
        }
    }
}

#[tokio::test]
async fn a_question_for_the_password() {
    let server = start(Family::MariaDb, "CREATE USER n@'%' IDENTIFIED BY 'native'");
    if !install(&server, "dialog_examples") {
        return;
    }
    server
        .sql(
            "CREATE USER three@'%' IDENTIFIED VIA three_attempts USING 'secret';
             CREATE USER two@'%' IDENTIFIED VIA two_questions USING 'secret'",
        )
        .unwrap();
    for target in &ways(&server)[1..] {
        let connect = async |user: &str, password: &str| {
            Client::connect(target, login(user, password), Limits::default()).await.map(drop)
        };
        connect("three", "secret").await.unwrap();
        // It asks again, and the other one asks whether one is sure.
        for (user, password) in [("three", "wrong"), ("two", "secret")] {
            let error = connect(user, password).await.unwrap_err();
            assert!(error.to_string().contains("more than a password"), "{error}");
        }
    }
    let error = Client::connect(&tcp(&server), login("three", "secret"), Limits::default()).await.unwrap_err();
    assert!(error.to_string().contains("not TLS"), "{error}");
}

#[tokio::test]
async fn mysqls_sha256_password() {
    if !Binaries::find().is_ok_and(|found| found.families().contains(&Family::MySql)) {
        return;
    }
    let server = start(
        Family::MySql,
        "CREATE USER n@'%' IDENTIFIED BY 'native'; CREATE USER s@'%' IDENTIFIED WITH sha256_password BY 'secret'",
    );
    for target in ways(&server) {
        check(&server, &target, "s", "secret").await;
    }
    let refusing = LoginRequest { rsa: RsaPolicy::Refuse, ..login("s", "secret") };
    let error = Client::connect(&tcp(&server), refusing, Limits::default()).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Protocol(HandshakeError::CredentialRefused(_))), "{error}");
}
