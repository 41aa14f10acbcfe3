//! LOAD DATA LOCAL INFILE, packet by packet.

use lab::Family;

use super::*;

const SETUP: &str = "CREATE TABLE f (n INT PRIMARY KEY, t VARCHAR(100)); CREATE TABLE g (n INT);";

impl Wire {
    /// Sends a file in packets of these contents, and reads the reply.
    async fn file(&mut self, parts: &[&[u8]]) {
        let mut out = Vec::new();
        let mut sequence = self.last_sequence.wrapping_add(1);
        for part in parts.iter().copied().chain([&[][..]]) {
            sequence = ::wire::packet::append(&mut out, sequence, part);
        }
        self.send_bytes(&out).await;
        self.reply(Expect::Results).await;
        self.interlude().await;
    }
}

async fn files(family: Family) {
    let case = Case { family, database: "par_infile", setup: SETUP, capabilities: MODERN | Capabilities::LOCAL_FILES };
    case.run(async |wire| {
        let load = "LOAD DATA LOCAL INFILE 'some file' INTO TABLE f";
        wire.query(load).await;
        wire.file(&[b"1\tone\n2\ttwo\n", b"3\tth", b"ree\n"]).await;
        let typed = wire.family == Family::MariaDb;
        wire.values("SELECT ROW_COUNT()", typed).await;
        wire.query("SELECT * FROM f").await;
        wire.query(load).await;
        wire.file(&[]).await;
        wire.query(load).await;
        wire.file(&[b"3\ttwice\nx\tno number\n5\n"]).await;
        wire.query("SHOW WARNINGS").await;
        wire.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE nowhere").await;
        wire.query("/* c */ load /*! data */ low_priority local infile 'x' replace into table f (n, @t) set t = @t")
            .await;
        wire.file(&[b"1\tuno\n"]).await;
        wire.query("SELECT 'first'; LOAD DATA LOCAL INFILE 'second' INTO TABLE g; SELECT COUNT(*) FROM g").await;
        wire.file(&[b"1\n2\n", b"3\n"]).await;
        wire.query("BEGIN").await;
        wire.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE g").await;
        wire.file(&[b"7\n"]).await;
        wire.query("ROLLBACK").await;
        wire.query("SELECT COUNT(*) FROM g").await;
        let long = [b"9\t".as_slice(), &[b'x'; 300_000], b"\n"].concat();
        wire.query(load).await;
        wire.file(&[&long, b"10\tten\n"]).await;
        wire.query("SELECT n, t FROM f WHERE n = 10").await;
        wire.prepare(load).await;
    })
    .await;
}

/// A client that has not the capability, and a file that the client does not send to its end.
async fn without_files(family: Family) {
    let case = Case { family, database: "par_no_infile", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.query("LOAD DATA LOCAL INFILE 'some file' INTO TABLE f").await;
        wire.query("SELECT 1; LOAD DATA LOCAL INFILE 'some file' INTO TABLE f; SELECT 2").await;
        wire.query("SELECT COUNT(*) FROM f").await;
    })
    .await;
}

/// A client that never sends the file: MariaDB gives up after net_read_timeout, and so does its session here. MySQL 9.7 was
/// not seen to give up within 20 seconds.
#[tokio::test]
async fn files_that_never_come() {
    let capabilities = MODERN | Capabilities::LOCAL_FILES;
    let case = Case { family: Family::MariaDb, database: "par_late_infile", setup: SETUP, capabilities };
    case.run(async |wire| {
        wire.query("SET net_read_timeout = 1").await;
        wire.query("LOAD DATA LOCAL INFILE 'some file' INTO TABLE f").await;
        while wire.packet().await.is_some() {}
    })
    .await;
}

both!(files without_files);
