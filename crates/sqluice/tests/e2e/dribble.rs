//! The same conversation directly, and through Sqluice with ways on both sides of it that bring bytes one at a time: plain,
//! encrypted and compressed, both ends of rows, text and binary.

use std::time::Duration;

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits, Parameter};
use net::tls::ClientTls;
use testkit::Dribble;
use wire::Capabilities;
use wire::compress::Algorithm;

use crate::support::{Front, any_certificate, app, calm};

const STATEMENTS: &[&str] = &[
    "SELECT 1 AS a, NULL AS b, '' AS c, 'text' AS d, 1.50 AS e, CAST('2026-11-20 01:02:03' AS DATETIME) AS f",
    "SELECT REPEAT('x', 251), REPEAT('y', 700), REPEAT('z', 70000)",
    "SELECT a.n * 10 + b.n AS n, CONCAT('row ', a.n, b.n) AS t FROM (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) a, \
     (SELECT 0 n UNION SELECT 1 UNION SELECT 2) b ORDER BY 1",
    "SELECT 1 WHERE 0",
    "SELECT nonsense",
    "SET @a = 5, sql_mode = 'ANSI'",
    "SELECT @a + 1, @@sql_mode",
    "SELECT 1; SELECT 2, 3; SET @b = 1; SELECT 'last'",
    "CREATE TEMPORARY TABLE dribbled (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100))",
    "INSERT INTO dribbled (v) VALUES ('one'), ('two'), ('three')",
    "UPDATE dribbled SET v = CONCAT(v, '!') WHERE id > 1",
    "SELECT * FROM dribbled ORDER BY id",
    "INSERT INTO dribbled VALUES (1, 'again')",
    "BEGIN",
    "COMMIT",
];

const PREPARED: &[&str] = &[
    "SELECT ? AS a, ? + 1 AS b, CONCAT(?, '-') AS c",
    "SELECT REPEAT('x', 300), ?, ?, ?",
    "SELECT v, ?, ?, ? FROM dribbled ORDER BY id",
    "INSERT INTO dribbled (v) SELECT CONCAT(?, ?, ?)",
    "SELECT ?, ?, ? FROM nowhere",
];

/// All that a client sees, in words.
async fn conversation(client: &mut Client) -> Vec<String> {
    let mut seen = Vec::new();
    for sql in STATEMENTS {
        seen.push(format!("{sql:.60}: {:?} {:?}", client.query(sql).await, client.status()));
    }
    let parameters = [Parameter::Int(-7), Parameter::Null, Parameter::Bytes(vec![b'p'; 260])];
    for sql in PREPARED {
        match client.prepare(sql).await {
            Ok(statement) => {
                for _ in 0..2 {
                    seen.push(format!("{sql:.60}: {:?}", client.execute(&statement, &parameters).await));
                }
                client.close(statement).await.unwrap();
            }
            Err(error) => seen.push(format!("{sql:.60}: {error}")),
        }
    }
    seen
}

async fn connect(target: &Target, eof: bool) -> Client {
    let mut login = app();
    login.capabilities.set(Capabilities::DEPRECATE_EOF, !eof);
    // Session tracking is another test's matter.
    login.capabilities.remove(Capabilities::SESSION_TRACK);
    let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
    Client::connect(target, login, limits).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The encoding of the bytes on both sides of Sqluice.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Plain,
    Encrypted,
    Compressed,
    EncryptedAndCompressed,
}

async fn check(transport: Transport) {
    let servers = calm(Family::MariaDb).await;
    let server = servers.primary().address();
    let behind = Dribble::start(server).await;
    let encrypts = matches!(transport, Transport::Encrypted | Transport::EncryptedAndCompressed);
    let compresses = matches!(transport, Transport::Compressed | Transport::EncryptedAndCompressed);
    let front = Front::start_on(&[behind.address().to_string()], |setup| {
        // Probes are dribbled, too: they may take their time.
        setup.interval_ms = 1000;
        setup.monitor += "\ntimeout_ms = 5000";
        setup.pool += "\nconnect_timeout_ms = 10000";
        setup.server_tls = format!("mode = \"{}\"", if encrypts { "required" } else { "disabled" });
        if compresses {
            setup.cluster += "\ncompression = \"zlib\"";
        }
    })
    .await;
    front.knows(0).await;
    let ahead = Dribble::start(front.address.parse().unwrap()).await;
    for eof in [false, true] {
        let direct = Target::plain(server.to_string().parse().unwrap(), Duration::from_secs(10));
        let expected = conversation(&mut connect(&direct, eof).await).await;
        let through = Target {
            tls: if encrypts { any_certificate() } else { ClientTls::disabled() },
            compression: compresses.then_some(Algorithm::Zlib),
            ..Target::plain(ahead.address().to_string().parse().unwrap(), Duration::from_secs(30))
        };
        let mut client = connect(&through, eof).await;
        assert_eq!(client.stream().is_tls(), encrypts);
        assert_eq!(client.stream().compression().is_some(), compresses);
        let seen = conversation(&mut client).await;
        for (seen, expected) in seen.iter().zip(&expected) {
            assert_eq!(seen, expected, "{transport:?}, EOF packets: {eof}");
        }
        assert_eq!(seen.len(), expected.len());
    }
}

#[tokio::test]
async fn plain_bytes_come_one_by_one() {
    check(Transport::Plain).await;
}

#[tokio::test]
async fn encrypted_bytes_come_one_by_one() {
    check(Transport::Encrypted).await;
}

#[tokio::test]
async fn compressed_bytes_come_one_by_one() {
    check(Transport::Compressed).await;
}

#[tokio::test]
async fn encrypted_and_compressed_bytes_come_one_by_one() {
    check(Transport::EncryptedAndCompressed).await;
}
