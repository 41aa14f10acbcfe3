//! PROXY headers from proxies in front, and to servers.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::Family;
use net::client::{Announce, ConnectError, Target};
use net::query::{self, Client, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::auth::Credential;
use wire::handshake::client::LoginRequest;
use wire::proxy_header::{HeaderContent, Version, write};

use crate::support::{Front, all, app, calm, error, until, value};

/// Connects as a proxy in front would, for a client at `client`; `None` for the proxy itself.
async fn from(
    front: &Front,
    version: Version,
    client: Option<&str>,
    login: LoginRequest,
) -> Result<Client, ConnectError> {
    let announce = Announce { version, client: client.map(|client| client.parse().unwrap()) };
    let target = Target::plain(front.address.parse().unwrap(), Duration::from_secs(60));
    Client::connect(&Target { announce: Some(announce), ..target }, login, Limits::default()).await
}

/// Everything that comes until the connection is closed.
async fn last_words(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = socket.read_to_end(&mut bytes);
    tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_trusted_proxy_says_where_its_client_is() {
    let servers = calm(Family::MariaDb).await;
    for mode in ["required", "optional"] {
        let front = Front::start(servers, |setup| {
            setup.listener =
                format!("login_timeout_ms = 4000\nproxy_protocol = \"{mode}\"\nproxy_protocol_from = [\"127.0.0.1\"]");
        })
        .await;
        for version in [Version::V1, Version::V2] {
            let stranger = query::login("stranger", Credential::password("x"));
            for (client, shown) in
                [(Some("10.9.8.7:1234"), "10.9.8.7"), (Some("[2001:db8::7]:1"), "2001:db8::7"), (None, "127.0.0.1")]
            {
                let refused = from(&front, version, client, stranger.clone()).await.unwrap_err();
                let said = refused.server_error().unwrap_or_else(|| panic!("{refused}"));
                assert!(said.message.contains(&format!("'stranger'@'{shown}'")), "{mode}: {}", said.message);
                let mut client = from(&front, version, client, app()).await.unwrap();
                assert_eq!(value(&mut client, "SELECT 1").await, "1");
            }
        }
        // A header in pieces, with the login's request for TLS after it, is still a header.
        let mut header = Vec::new();
        let address: SocketAddr = "10.9.8.7:1".parse().unwrap();
        write(Version::V1, HeaderContent::Client { source: address, destination: address }, &mut header);
        let mut socket = TcpStream::connect(&front.address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        for byte in &header {
            socket.write_all(std::slice::from_ref(byte)).await.unwrap();
        }
        let mut greeting = [0; 5];
        socket.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting[4], 10, "no greeting");
        // A broken one is refused, with a reason.
        let mut socket = TcpStream::connect(&front.address).await.unwrap();
        socket.write_all(b"PROXY TCP4 10.9.8.7 nonsense 1 1\r\n").await.unwrap();
        let said = last_words(socket).await;
        assert!(said.contains("an address cannot be read"), "{mode}: {said}");
        // Without any: a matter of the mode.
        let plain = front.login(lab::APP_USER, lab::APP_PASSWORD).await;
        assert_eq!(plain.is_ok(), mode == "optional", "{mode}");
        if mode == "required" {
            // It waits for the header, and greets nobody.
            assert_eq!(last_words(TcpStream::connect(&front.address).await.unwrap()).await, "");
        }
    }
}

#[tokio::test]
async fn others_may_not() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.listener = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"10.0.0.0/8\"]".into();
    })
    .await;
    all(&mut front.client().await, "SELECT 1").await;
    for version in [Version::V1, Version::V2] {
        let refused = from(&front, version, Some("10.9.8.7:1"), app()).await.unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("a PROXY header is not taken from 127.0.0.1"), "{said}");
    }
    let off = Front::start(servers, |_| {}).await;
    assert!(from(&off, Version::V2, Some("10.9.8.7:1"), app()).await.is_err());
    all(&mut off.client().await, "SELECT 1").await;
}

#[tokio::test]
async fn servers_see_each_client_where_it_is() {
    let servers = calm(Family::MariaDb).await;
    servers.primary().sql("CREATE OR REPLACE USER far@'10.9.8.%' IDENTIFIED BY 'far-secret'").unwrap();
    servers.wait_in_sync(Duration::from_secs(30)).unwrap();
    for form in ["v1", "v2"] {
        let front = Front::start(servers, |setup| {
            setup.cluster.push_str(&format!("\nproxy_protocol = \"{form}\""));
            setup.listener = "proxy_protocol = \"optional\"\nproxy_protocol_from = [\"127.0.0.1\"]".into();
        })
        .await;
        let mut one = from(&front, Version::V2, Some("10.9.8.7:1234"), app()).await.unwrap();
        let mut other = from(&front, Version::V1, Some("10.9.8.8:1234"), app()).await.unwrap();
        let mut six = from(&front, Version::V1, Some("[2001:db8::7]:99"), app()).await.unwrap();
        let mut near = front.client().await;
        for _ in 0..3 {
            for (client, host) in
                [(&mut one, "10.9.8.7"), (&mut other, "10.9.8.8"), (&mut six, "2001:db8::7"), (&mut near, "127.0.0.1")]
            {
                assert_eq!(value(client, "SELECT USER()").await, format!("app@{host}"), "{form}");
                assert_eq!(value(client, "/* sqluice: primary */ SELECT USER()").await, format!("app@{host}"));
            }
        }
        let hosts =
            servers.primary().sql("SELECT HOST FROM information_schema.PROCESSLIST WHERE USER = 'app'").unwrap();
        assert!(hosts.lines().any(|host| host == "10.9.8.7:1234"), "{hosts}");
        // An account for one network, which Sqluice itself is not in.
        let far = || query::login("far", Credential::password("far-secret"));
        let mut client = from(&front, Version::V2, Some("10.9.8.9:7"), far()).await.unwrap();
        assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, "far@10.9.8.%");
        let refused = from(&front, Version::V2, Some("10.9.9.9:7"), far()).await.unwrap_err();
        assert!(refused.to_string().contains("'far'@'10.9.9.9'"), "{refused}");
        // The monitor is nobody's client.
        let hosts = servers.primary().sql("SELECT HOST FROM information_schema.PROCESSLIST WHERE USER = 'sqluice'");
        assert!(hosts.unwrap().lines().all(|host| host.starts_with("127.0.0.1:")));
        // KILL logs in from where the client is.
        let id = value(&mut client, "SELECT CONNECTION_ID()").await;
        let mut killer = from(&front, Version::V2, Some("10.9.8.9:8"), far()).await.unwrap();
        let (sleeping, _) = tokio::join!(client.query("SELECT SLEEP(30)"), async {
            until("the statement to run", async || {
                let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(30)%'";
                let everywhere = servers.servers().iter().map(|server| server.sql(running).unwrap());
                everywhere.into_iter().any(|count| count.trim() != "0").then_some(())
            })
            .await;
            all(&mut killer, &format!("KILL QUERY {id}")).await;
        });
        let killed = sleeping.map(|results| results[0].scalar().map(|text| text.into_owned()));
        assert!(killed.is_err() || killed.is_ok_and(|value| value.as_deref() == Some("1")), "not killed");
    }
}

#[tokio::test]
async fn who_may_announce_is_the_servers_choice() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |_| {}).await;
    let mut client = front.client().await;
    assert_eq!(value(&mut client, "SELECT USER()").await, "app@127.0.0.1");
    // Turned on by a reload: sessions that come from now on are told apart.
    front.reload(|setup| {
        setup.cluster.push_str("\nproxy_protocol = \"v2\"");
        setup.listener = "proxy_protocol = \"optional\"\nproxy_protocol_from = [\"127.0.0.1\"]".into();
    });
    until("the address to be told", async || {
        let mut client = from(&front, Version::V2, Some("10.9.8.7:1"), app()).await.ok()?;
        (value(&mut client, "SELECT USER()").await == "app@10.9.8.7").then_some(())
    })
    .await;
    assert_eq!(value(&mut client, "SELECT USER()").await, "app@127.0.0.1");
    let (code, _) = error(&mut client, "SELECT nothing").await;
    assert_eq!(code, 1054);
}

/// haproxy in front; stopped when dropped.
struct HaProxy(Child);

impl HaProxy {
    /// Listens on `port` and forwards to `to`, with this option for the header.
    fn start(front: &Front, port: u16, option: &str) -> HaProxy {
        let file = front.folder().join(format!("{option}.cfg"));
        let text = format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             listen sql\n bind 127.0.0.1:{port}\n server sqluice {} {option} check inter 200\n",
            front.address
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        HaProxy(command.spawn().unwrap())
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn haproxy_may_stand_in_front() {
    if Command::new("haproxy").arg("-v").output().is_err() {
        lab::skip("haproxy is missing (apt-get install haproxy)");
        return;
    }
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.cluster.push_str("\nproxy_protocol = \"v2\"");
        setup.listener = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.1\"]".into();
    })
    .await;
    for option in ["send-proxy", "send-proxy-v2"] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let _haproxy = HaProxy::start(&front, port, option);
        // From an address that is the client's alone.
        let mut client = until("haproxy to forward", async || {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.77:0".parse().unwrap()).unwrap();
            let stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.ok()?;
            log_in(stream).await
        })
        .await;
        assert_eq!(value(&mut client, "SELECT USER()").await, "app@127.0.0.77", "{option}");
        assert_eq!(value(&mut client, "SELECT LENGTH(REPEAT('x', 1000000))").await, "1000000");
    }
}

/// Logs in on a connection that stands.
async fn log_in(tcp: TcpStream) -> Option<Client> {
    use wire::handshake::Channel;
    use wire::handshake::client::{AwaitGreeting, Done, Step};
    let mut stream = net::Stream::from(tcp);
    let limit = wire::handshake::CLIENT_LOGIN_BYTES_MAX;
    let packet = net::packets::read(&mut stream, limit).await.ok()?;
    let mut out = Vec::new();
    let mut awaiting = AwaitGreeting.handle(packet.received()).ok()?.plain(Channel::Open).log_in(app(), &mut out);
    loop {
        stream.write_all(&out).await.ok()?;
        out.clear();
        let packet = net::packets::read(&mut stream, limit).await.ok()?;
        match awaiting.handle(packet.received(), &mut out).ok()? {
            Step::Await(next) => awaiting = next,
            Step::Done(Done { greeting, capabilities, scramble, ok_payload, .. }) => {
                let connected = net::client::Connected { stream, greeting, capabilities, scramble, ok_payload };
                return Some(Client::new(connected, Limits::default()));
            }
        }
    }
}
