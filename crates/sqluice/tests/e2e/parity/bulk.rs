//! COM_STMT_BULK_EXECUTE, which only MariaDB has.

use lab::Family;

use super::*;
use ::wire::command::Command;

const SETUP: &str = "CREATE TABLE b (id INT AUTO_INCREMENT PRIMARY KEY, v INT DEFAULT 7, t VARCHAR(20))";
/// Indicators in front of each value.
const VALUE: u8 = 0;
const NULL: u8 = 1;
const DEFAULT: u8 = 2;

fn bulk(id: u32, flags: u16, types: &[u8], rows: &[(u8, i64, u8, &str)]) -> Vec<u8> {
    let mut out = vec![Command::StmtBulkExecute.byte()];
    out.extend(id.to_le_bytes());
    out.extend(flags.to_le_bytes());
    for kind in types {
        out.extend([*kind, 0]);
    }
    for (first, number, second, text) in rows {
        out.push(*first);
        if *first == VALUE {
            out.extend(number.to_le_bytes());
        }
        out.push(*second);
        if *second == VALUE {
            out.push(text.len() as u8);
            out.extend(text.as_bytes());
        }
    }
    out
}

async fn bulk_executions(family: Family) {
    if family == Family::MySql {
        return;
    }
    let capabilities = MODERN | Capabilities::STMT_BULK | Capabilities::BULK_UNIT_RESULTS;
    let case = Case { family, database: "par_bulk", setup: SETUP, capabilities };
    case.run(async |wire| {
        let rows = [(VALUE, 1, VALUE, "one"), (NULL, 0, VALUE, "two"), (DEFAULT, 0, NULL, "")];
        let types = [8, 0xfd];
        let insert = wire.prepare("INSERT INTO b (v, t) VALUES (?, ?)").await;
        wire.command(Expect::Results, &bulk(insert, 128, &types, &rows)).await;
        // Types as before.
        wire.command(Expect::Results, &bulk(insert, 0, &[], &rows)).await;
        wire.query("SELECT LAST_INSERT_ID()").await;
        wire.query("SELECT * FROM b").await;
        // The same statement one by one, and in bulk again.
        wire.command(Expect::Results, &execute(insert, 0, &[long(9), short("nine")], false)).await;
        wire.command(Expect::Results, &bulk(insert, 0, &[], &rows)).await;
        let returning = wire.prepare("INSERT INTO b (v, t) VALUES (?, ?) RETURNING id, t").await;
        wire.command(Expect::Results, &bulk(returning, 128, &types, &rows)).await;
        let update = wire.prepare("UPDATE b SET v = ? WHERE t = ?").await;
        wire.command(Expect::Results, &bulk(update, 128, &types, &rows[..2])).await;
        let delete = wire.prepare("DELETE FROM b WHERE v = ? AND t = ?").await;
        wire.command(Expect::Results, &bulk(delete, 128, &types, &rows[..2])).await;
        // Statements that cannot be bulk, wrong ones, cut ones.
        let select = wire.prepare("SELECT ?, ?").await;
        wire.command(Expect::Results, &bulk(select, 128, &types, &rows)).await;
        let none = wire.prepare("INSERT INTO b (v) VALUES (1)").await;
        wire.command(Expect::Results, &bulk(none, 128, &[], &[])).await;
        wire.command(Expect::Results, &bulk(4711, 128, &types, &rows)).await;
        let whole = bulk(insert, 128, &types, &rows);
        wire.command(Expect::Results, &whole[..whole.len() - 2]).await;
        wire.command(Expect::Results, &bulk(insert, 128, &types, &[])).await;
        wire.query("CREATE TABLE u (id INT PRIMARY KEY, t VARCHAR(20))").await;
        let twice = wire.prepare("INSERT INTO u VALUES (?, ?)").await;
        let rows_twice =
            [(VALUE, 1, VALUE, "a"), (VALUE, 2, VALUE, "b"), (VALUE, 1, VALUE, "c"), (VALUE, 3, VALUE, "d")];
        wire.command(Expect::Results, &bulk(twice, 128, &types, &rows_twice)).await;
        wire.query("SELECT * FROM u").await;
        // In a transaction, and without autocommit.
        wire.query("BEGIN").await;
        wire.command(Expect::Results, &bulk(insert, 128, &types, &rows)).await;
        wire.query("ROLLBACK").await;
        wire.query("SET autocommit = 0").await;
        wire.command(Expect::Results, &bulk(insert, 128, &types, &rows)).await;
        wire.query("ROLLBACK").await;
        wire.query("SET autocommit = 1").await;
        wire.query("SELECT COUNT(*) FROM b").await;
        // Prepared and executed in one write, as drivers do that do not wait for the id.
        let prepare = b"\x16INSERT INTO b (v, t) VALUES (?, ?)";
        wire.send(&[prepare, &bulk(u32::MAX, 128, &types, &rows), &bulk(u32::MAX, 128, &types, &rows[..1])]).await;
        wire.reply(Expect::Prepared).await;
        wire.reply(Expect::Results).await;
        wire.reply(Expect::Results).await;
        wire.interlude().await;
        wire.query("SELECT COUNT(*) FROM b").await;
        let many: Vec<_> = (0..5000).map(|n| (VALUE, n, VALUE, "many")).collect();
        wire.command(Expect::Results, &bulk(insert, 128, &types, &many)).await;
        wire.query("SELECT COUNT(*), SUM(v) FROM b").await;
    })
    .await;
}

/// A client that has not agreed on it.
async fn without_bulk(family: Family) {
    let case = Case { family, database: "par_no_bulk", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        let insert = wire.prepare("INSERT INTO b (v, t) VALUES (?, ?)").await;
        wire.command(Expect::Results, &bulk(insert, 128, &[8, 0xfd], &[(VALUE, 1, VALUE, "one")])).await;
        wire.query("SELECT COUNT(*) FROM b").await;
    })
    .await;
}

/// The columns' extended types.
async fn extended_metadata(family: Family) {
    let setup = "CREATE TABLE x (j JSON, u CHAR(36), p POINT); INSERT INTO x VALUES ('{}', 'u', POINT(1, 2));";
    let case = Case { family, database: "par_extended", setup, capabilities: MODERN | Capabilities::EXTENDED_METADATA };
    case.run(async |wire| {
        wire.query("SELECT j, u, p FROM x").await;
        let id = wire.prepare("SELECT j, p, ? FROM x").await;
        wire.command(Expect::Results, &execute(id, 0, &[long(1)], true)).await;
        wire.command(Expect::Columns, b"\x04x\0%").await;
        wire.query("SET @computed = LENGTH('abc'), @j = JSON_EXTRACT('[1]', '$[0]')").await;
        wire.query("SELECT @computed, @j").await;
    })
    .await;
}

/// Progress comes in the middle of a reply, to those who agreed on it.
#[tokio::test]
async fn progress_is_reported_to_who_wants_it() {
    let servers = lone(Family::MariaDb).await;
    let setup = "CREATE TABLE p (n INT PRIMARY KEY, t CHAR(250)) ENGINE=InnoDB \
                 SELECT seq AS n, REPEAT('x', 250) AS t FROM seq_1_to_400000";
    Case { family: Family::MariaDb, database: "par_progress", setup, capabilities: MODERN }.prepare(servers).await;
    let front = Front::start(servers, |_| {}).await;
    for (wants, more) in [(true, Capabilities::PROGRESS), (false, Capabilities::empty())] {
        let mut wire = Wire::open(&front.address, "par_progress", MODERN | more).await;
        wire.query("SET progress_report_time = 1").await;
        let reply = wire.query("ALTER TABLE p FORCE, ALGORITHM=COPY").await;
        let (last, before) = reply.split_last().unwrap();
        assert_eq!(last[0], 0, "{}", last.escape_ascii());
        let reports = before.iter().filter(|packet| packet.starts_with(&[0xff, 0xff, 0xff])).count();
        assert_eq!((before.len(), reports > 0), (reports, wants));
        wire.query("SELECT COUNT(*) FROM p").await;
        wire.close().await;
    }
}

both!(bulk_executions without_bulk extended_metadata);
