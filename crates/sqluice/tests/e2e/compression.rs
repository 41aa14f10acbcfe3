//! The compressed protocol on both sides, with ordinary clients and servers.

use std::process::Command;
use std::time::Duration;

use lab::{Family, Replication};
use net::client::Target;
use net::query::{Client, Limits};
use net::tls::ClientTls;
use wire::compress::Algorithm;

use crate::support::{Front, any_certificate, app, authority, calm, client_program, has_mysql, run, until, value};

/// The settings of a compressed client's connection.
fn target(front: &Front, tls: ClientTls, algorithm: Algorithm) -> Target {
    let address = front.address.parse().unwrap();
    Target { tls, compression: Some(algorithm), ..Target::plain(address, Duration::from_secs(60)) }
}

async fn connect(target: &Target) -> Client {
    let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
    Client::connect(target, app(), limits).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Large and small, both ways, prepared, several results, an error, another user.
async fn everything_works(client: &mut Client, what: &str) {
    assert_eq!(value(client, "SELECT 1").await, "1", "{what}");
    let long = "x".repeat(300_000);
    assert_eq!(value(client, &format!("SELECT LENGTH('{long}')")).await, "300000", "{what}");
    assert_eq!(value(client, "SELECT REPEAT('long ', 1000000)").await.len(), 5_000_000, "{what}");
    let rows = client.query_one("SELECT seq, SHA2(seq, 256) FROM app.numbers").await.unwrap();
    assert_eq!(rows.rows.len(), 20_000, "{what}");
    let results = client.query("SELECT 1; SELECT 2; SELECT 3").await.unwrap();
    assert_eq!(results.len(), 3, "{what}");
    let code = client.query("SELECT nothing").await.unwrap_err().code();
    assert_eq!(code, Some(1054), "{what}");
    let statement = client.prepare("SELECT ? + 1").await.unwrap();
    for number in 0..20i64 {
        let result = client.execute(&statement, &[net::query::Parameter::Int(number)]).await.unwrap();
        assert_eq!(result.len(), 1, "{what}");
    }
    client.change_user(app()).await.unwrap();
    client.reset_connection().await.unwrap();
    // More than a packet, in both directions.
    let huge = "y".repeat(17 << 20);
    assert_eq!(value(client, &format!("SELECT LENGTH('{huge}')")).await, (17 << 20).to_string(), "{what}");
    assert_eq!(value(client, "SELECT REPEAT('z', 17 << 20)").await.len(), 17 << 20, "{what}");
    assert_eq!(value(client, "SELECT 'end'").await, "end", "{what}");
}

fn numbers(servers: &Replication) {
    let all = (0..20_000).map(|n| format!("({n})")).collect::<Vec<_>>().join(",");
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS app.numbers (seq INT PRIMARY KEY); INSERT IGNORE INTO app.numbers VALUES {all}"
    );
    servers.primary().sql(&sql).unwrap();
    servers.wait_in_sync(Duration::from_secs(30)).unwrap();
}

#[tokio::test]
async fn clients_and_servers_are_compressed_each_for_itself() {
    let servers = calm(Family::MariaDb).await;
    numbers(servers);
    let ca = authority().file();
    for (cluster, tls) in [("off", false), ("zlib", false), ("zlib", true)] {
        let front = Front::start(servers, |setup| {
            setup.cluster.push_str(&format!("\ncompression = \"{cluster}\""));
            if tls {
                setup.server_tls = format!("mode = \"verify_identity\"\nca_file = \"{}\"", ca.display());
            }
        })
        .await;
        let mut plain = front.client().await;
        everything_works(&mut plain, &format!("plain, servers {cluster}, TLS {tls}")).await;
        for tls in [ClientTls::disabled(), any_certificate()] {
            let what = format!("compressed, {:?}, servers {cluster}, TLS {tls:?}", tls.mode());
            let mut client = connect(&target(&front, tls, Algorithm::Zlib)).await;
            assert!(client.stream().compression().is_some(), "{what}");
            everything_works(&mut client, &what).await;
            // Only MySQL's clients know zstd.
            assert!(!client.capabilities().contains(wire::Capabilities::ZSTD_COMPRESSION));
        }
        let status = value(&mut plain, "/* sqluice: primary */ SHOW STATUS LIKE 'Compression'").await;
        assert_eq!(status, "Compression");
        let on = plain.query_one("SHOW SESSION STATUS LIKE 'Compression'").await.unwrap();
        let on = on.text(0, "Value").unwrap().into_owned();
        assert_eq!(on, if cluster == "off" { "OFF" } else { "ON" });
        front.is_pinned_by(&[]).await;
    }
}

/// The script of a program, of several lines.
const SCRIPT: &str = "SELECT 'first'; SELECT REPEAT('long ', 1000000);\nSET @a = 5;\nSELECT @a, COUNT(*) FROM app.numbers;\n\
                      PREPARE s FROM 'SELECT ? * 2'; EXECUTE s USING @a;\nSELECT 'nothing here' FROM app.missing;\n\
                      SHOW WARNINGS;\nSELECT 'last';\n";

/// Runs the script directly and through, with these arguments; both must print the same.
async fn same_as_direct(servers: &Replication, front: &Front, family: Family, arguments: &[&str], encrypt: bool) {
    let mut printed = Vec::new();
    for port in [servers.primary().port().to_string(), front.address.rsplit(':').next().unwrap().to_owned()] {
        let mut command = Command::new(client_program(family));
        command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--batch", "--force"]);
        command.args([format!("--port={port}"), format!("--user={}", lab::APP_USER)]).args(arguments);
        match (family, encrypt) {
            (Family::MariaDb, true) => command.arg("--ssl"),
            (Family::MariaDb, false) => command.arg("--skip-ssl"),
            (Family::MySql, true) => command.arg("--ssl-mode=REQUIRED"),
            (Family::MySql, false) => command.args(["--ssl-mode=DISABLED", "--get-server-public-key"]),
        };
        command.arg(lab::APP_DATABASE).env("MYSQL_PWD", lab::APP_PASSWORD);
        let ran = run(command, SCRIPT).await;
        assert!(
            ran.out.ends_with("last\nlast\n"),
            "{arguments:?}: {}\n{}",
            &ran.out[..200.min(ran.out.len())],
            ran.err
        );
        printed.push((ran.out, ran.err));
    }
    assert!(printed[0] == printed[1], "{arguments:?}: {}\n{}", printed[0].1, printed[1].1);
}

#[tokio::test]
async fn mariadbs_client_notices_nothing() {
    let servers = calm(Family::MariaDb).await;
    numbers(servers);
    let front = Front::start(servers, |setup| setup.cluster.push_str("\ncompression = \"zlib\"")).await;
    // Compressed servers, plain client: it checks packets' numbers strictly.
    for (arguments, encrypt) in [(&[][..], false), (&["--compress"], false), (&["--compress"], true)] {
        same_as_direct(servers, &front, Family::MariaDb, arguments, encrypt).await;
    }
}

#[tokio::test]
async fn a_file_is_loaded_through_frames_of_all_kinds() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.cluster.push_str("\ncompression = \"zlib\"");
        setup.listener = "local_infile = true".into();
    })
    .await;
    let file = front.folder().join("rows.txt");
    // Some hundreds of packets and frames: their numbers come by 0.
    let rows: String = (0..600_000u64).map(|n| format!("{n}\t{}\n", n * 7919 % 1_000_003)).collect();
    std::fs::write(&file, rows).unwrap();
    for arguments in [&[][..], &["--compress"]] {
        let mut command = front.cli(&client_program(Family::MariaDb));
        command.arg("--local-infile").args(arguments);
        let script = format!(
            "CREATE OR REPLACE TABLE loaded (a INT, b INT);\nLOAD DATA LOCAL INFILE '{}' INTO TABLE loaded;\n\
             /* sqluice: primary */ SELECT COUNT(*), SUM(a) FROM loaded;\nDROP TABLE loaded;\n",
            file.display()
        );
        assert_eq!(run(command, &script).await.output(), "600000\t179999700000\n", "{arguments:?}");
    }
}

#[tokio::test]
async fn mysqls_client_and_server_have_zstd_too() {
    if !has_mysql() {
        return;
    }
    let servers = calm(Family::MySql).await;
    numbers(servers);
    for cluster in ["zstd", "zlib", "off"] {
        let front = Front::start(servers, |setup| {
            setup.cluster.push_str(&format!("\ncompression = \"{cluster}\""));
            setup.server_tls = "mode = \"preferred\"".into();
        })
        .await;
        let zstd = ["--compression-algorithms=zstd", "--zstd-compression-level=19"];
        for (arguments, encrypt) in
            [(&[][..], true), (&zstd, true), (&zstd, false), (&["--compression-algorithms=zlib"], true)]
        {
            same_as_direct(servers, &front, Family::MySql, arguments, encrypt).await;
        }
        let mut client = connect(&target(&front, any_certificate(), Algorithm::Zstd)).await;
        assert_eq!(client.stream().compression().map(|compression| compression.algorithm), Some(Algorithm::Zstd));
        everything_works(&mut client, "zstd").await;
        let status = client.query_one("SHOW SESSION STATUS LIKE 'Compression_algorithm'").await.unwrap();
        let expected = if cluster == "off" { "" } else { cluster };
        assert_eq!(status.text(0, "Value").unwrap(), expected);
    }
}

#[tokio::test]
async fn a_slow_client_gets_every_byte() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |_| {}).await;
    for (tls, compression) in [(any_certificate(), None), (ClientTls::disabled(), Some(Algorithm::Zlib))] {
        let target = Target { compression, ..target(&front, tls, Algorithm::Zlib) };
        let mut client = connect(&target).await;
        // Noise, so that compression does not make it small; more than sockets and TLS hold.
        client.send_raw(b"\x03SELECT SHA2(seq, 512) FROM seq_1_to_200000").await.unwrap();
        // Nothing is read until the server waits for us, and then the connection is silent but for what was held back.
        until("the server to have said all it can", async || {
            let metrics = front.metrics().await;
            (metrics.sum("sqluice_requests_total", &[]) >= 1.0).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut bytes = 0;
        // The number of columns, the column, the rows, the end.
        for _ in 0..200_003 {
            bytes += client.read_raw().await.unwrap().1.len();
        }
        assert!(bytes > 200_000 * 128, "{bytes}");
    }
}
