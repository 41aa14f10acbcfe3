//! Clients' files: long ones, and servers that ask for what nobody sends.

use lab::{Family, Replication};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::Capabilities;
use wire::command::Command;

use crate::statements::start;
use crate::support::{Front, all, app, calm, client_program, run, value};

/// A client's statement behind which the false server asks for a file.
const TRIGGER: &[u8] = b"SELECT 'may I have a file?'";

/// Stands between the program and a real server; asks for a file of the client where the server would not.
async fn false_server(real: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&real).await else { continue };
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let (tell, mut reported) = tokio::sync::mpsc::channel::<()>(8);
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
                    if buffer[..n].windows(TRIGGER.len()).any(|window| window == TRIGGER) {
                        let _ = tell.send(()).await;
                    } else if to_server.write_all(&buffer[..n]).await.is_err() {
                        break;
                    }
                }
            });
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let bytes: Vec<u8> = tokio::select! {
                        Some(()) = reported.recv() => b"\x0c\0\0\x01\xfb/etc/passwd".to_vec(),
                        read = from_server.read(&mut buffer) => match read {
                            Ok(n @ 1..) => buffer[..n].to_vec(),
                            _ => break,
                        },
                    };
                    if to_client.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_server_gets_no_file_that_the_client_did_not_send() {
    let servers = calm(Family::MariaDb).await;
    let real = servers.primary().address().to_string();
    let address = false_server(real).await;
    let front = Front::start(servers, |setup| {
        setup.servers[0] = format!("servers.db1 = {{ address = \"{address}\" }}");
        setup.listener = "split = \"primary\"".into();
    })
    .await;
    let mut login = app();
    login.capabilities |= Capabilities::LOCAL_FILES;
    let mut client = front.connect(login, net::tls::ClientTls::disabled()).await.unwrap();
    assert!(client.capabilities().contains(Capabilities::LOCAL_FILES));
    all(&mut client, "SET @kept = 5").await;
    client.send_raw(&[&[Command::Query.byte()], TRIGGER].concat()).await.unwrap();
    let (_, packet) = client.read_raw().await.unwrap();
    let text = String::from_utf8_lossy(&packet);
    assert_eq!(packet[..3], [0xff, 0x7c, 0x04], "{text}");
    assert!(text.contains("'db1'") && text.contains("/etc/passwd"), "{text}");
    // The session goes on, on another connection.
    assert_eq!(value(&mut client, "SELECT @kept").await, "5");
    assert!(front.log().contains("asked for a client's file"), "{}", front.log());
}

#[tokio::test]
async fn a_long_file_passes_in_little_memory() {
    let (front, _): (Front, &'static Replication) =
        start(Family::MariaDb, "e2e_longfile", "CREATE TABLE t (a LONGTEXT)").await;
    let file = front.folder().join("long");
    let line = [&[b'x'; (1 << 20) - 1][..], b"\n"].concat();
    std::fs::write(&file, line.repeat(50)).unwrap();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", front.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    };
    let before = resident();
    let mut command = front.cli(&client_program(Family::MariaDb));
    command.args(["--local-infile", "--max-allowed-packet=64M"]);
    let load = format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE e2e_longfile.t IGNORE 49 LINES; SELECT ROW_COUNT();",
        file.display()
    );
    assert_eq!(run(command, &load).await.output(), "1\n");
    let grown = resident() - before;
    assert!(grown < 20, "{grown} MiB for a file of 50 MiB");
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_file_loads_nothing() {
    let (front, servers) = start(Family::MariaDb, "e2e_cutfile", "CREATE TABLE t (a INT) ENGINE=InnoDB").await;
    let mut login = app();
    login.capabilities |= Capabilities::LOCAL_FILES;
    let mut client = front.connect(login, net::tls::ClientTls::disabled()).await.unwrap();
    client.send_raw(b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE e2e_cutfile.t").await.unwrap();
    assert_eq!(client.read_raw().await.unwrap().1[0], 0xfb);
    let (mut stream, _) = client.into_parts();
    stream.write_all(b"\x04\0\0\x021\n2\n\xff\0\0").await.unwrap();
    drop(stream);
    front.is_pinned_by(&[]).await;
    let mut other = front.client().await;
    crate::support::until("the server to end the statement", async || {
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'LOAD DATA%'";
        (servers.primary().sql(sql).unwrap().trim() == "0").then_some(())
    })
    .await;
    assert_eq!(value(&mut other, "/* sqluice: primary */ SELECT COUNT(*) FROM e2e_cutfile.t").await, "0");
}
