//! `caching_sha2_password` with a real MySQL, where there is one.

use lab::{Binaries, Family, Server, ServerOptions, TlsFiles};
use sqluice_net::client::{Cause, Phase};
use sqluice_net::query::{self, Client, Limits};
use sqluice_net::tls::ServerTlsMode;
use wire::auth::{Credential, caching_sha2};
use wire::handshake::HandshakeError;
use wire::handshake::client::{LoginRequest, RsaPolicy};

use super::support::{Authority, login, tcp, unix, with_tls};

fn start() -> Option<Server> {
    if !Binaries::find().is_ok_and(|found| found.families().contains(&Family::MySql)) {
        return None;
    }
    let authority = Authority::new();
    let (certificate, key) = authority.sign("localhost");
    let mut options = ServerOptions::new(Family::MySql);
    options.init_sql = "CREATE USER s@'%' IDENTIFIED WITH caching_sha2_password BY 'secret';
        CREATE USER e@'%' IDENTIFIED WITH caching_sha2_password BY '';"
        .into();
    options.tls = Some(TlsFiles { authority: authority.file(), certificate, key });
    Some(Server::start(options).unwrap())
}

#[tokio::test]
async fn caching_sha2_goes_every_way() {
    let Some(server) = start() else { return };
    let refusing = || LoginRequest { rsa: RsaPolicy::Refuse, ..login("s", "secret") };
    let by_hash = || query::login("s", Credential::CachingSha2Stage1(caching_sha2::stage1(b"secret")));
    let plain = tcp(&server);
    // Nobody has logged in yet: the server wants the password, and the hash is not enough.
    for request in [refusing(), by_hash()] {
        let error = Client::connect(&plain, request, Limits::default()).await.unwrap_err();
        assert!(matches!(error.cause, Cause::Protocol(HandshakeError::CredentialRefused(_))), "{error}");
    }
    for target in [plain.clone(), with_tls(tcp(&server), ServerTlsMode::Required, None), unix(&server)] {
        let mut client = Client::connect(&target, login("s", "secret"), Limits::default()).await.unwrap();
        // The first way is by RSA; the server then remembers the user, until privileges are read again.
        client.query("SELECT 1").await.unwrap();
        Client::connect(&plain, by_hash(), Limits::default()).await.unwrap();
        Client::connect(&plain, refusing(), Limits::default()).await.unwrap();
        server.sql("FLUSH PRIVILEGES").unwrap();
        Client::connect(&target, login("e", ""), Limits::default()).await.unwrap();
        let error = Client::connect(&target, login("s", "wrong"), Limits::default()).await.unwrap_err();
        assert_eq!((error.phase, error.server_error().map(|error| error.code)), (Phase::Login, Some(1045)), "{error}");
        client.change_user(login("e", "")).await.unwrap();
        client.change_user(login("s", "secret")).await.unwrap();
        server.sql("FLUSH PRIVILEGES").unwrap();
    }
}
