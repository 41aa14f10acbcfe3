//! Prepared statements: cursors, long data, parameters.

use lab::Family;

use super::*;
use ::wire::command::Command;

const SETUP: &str = "CREATE TABLE n (v INT PRIMARY KEY, t VARCHAR(20)); \
    INSERT INTO n VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four'),(5,'five'),(6,'six'),(7,'seven');";

async fn cursor_talk(wire: &mut Wire) {
    let a = wire.prepare("SELECT v, t FROM n WHERE v > ? ORDER BY v").await;
    let b = wire.prepare("SELECT t FROM n ORDER BY v DESC").await;
    wire.command(Expect::Cursor, &execute(a, 1, &[long(2)], true)).await;
    wire.command(Expect::Cursor, &execute(b, 1, &[], true)).await;
    wire.fetch(a, 2).await;
    wire.fetch(b, 3).await;
    wire.query("SELECT 'between'").await;
    wire.fetch(a, 100).await;
    wire.fetch(a, 1).await;
    wire.statement(Command::StmtReset, Expect::Results, b, &[]).await;
    wire.fetch(b, 1).await;
    // Executed again while it is open; types not sent again.
    wire.command(Expect::Cursor, &execute(a, 1, &[long(5)], false)).await;
    wire.fetch(a, 1).await;
    wire.command(Expect::Cursor, &execute(a, 1, &[long(0)], false)).await;
    wire.fetch(a, 1).await;
    if wire.family == Family::MariaDb {
        // MySQL 9.7 answers with columns and an OK packet, on which every client waits for ever.
        wire.command(Expect::Results, &execute(a, 0, &[long(6)], false)).await;
        wire.fetch(a, 1).await;
    }
    // A cursor over nothing, and one for what has no rows.
    wire.command(Expect::Cursor, &execute(a, 1, &[long(100)], false)).await;
    wire.fetch(a, 1).await;
    let update = wire.prepare("UPDATE n SET t = 'x' WHERE v = 1").await;
    wire.command(Expect::Cursor, &execute(update, 1, &[], true)).await;
    wire.fetch(update, 1).await;
    let show = wire.prepare("SHOW TABLES").await;
    wire.command(Expect::Cursor, &execute(show, 1, &[], true)).await;
    wire.fetch(show, 10).await;
    // The text that runs has a number in the place of the function.
    wire.query("SELECT v FROM n WHERE v > 4").await;
    for text in ["SELECT ROW_COUNT() AS c", "SELECT v, FOUND_ROWS() AS f FROM n"] {
        let counts = wire.prepare(text).await;
        wire.command(Expect::Cursor, &execute(counts, 1, &[], true)).await;
        wire.fetch(counts, 1).await;
        wire.fetch(counts, 10).await;
        wire.statement(Command::StmtReset, Expect::Results, counts, &[]).await;
        wire.fetch(counts, 1).await;
    }
    // Closed while it is open.
    wire.command(Expect::Cursor, &execute(b, 1, &[], true)).await;
    wire.statement(Command::StmtClose, Expect::Nothing, b, &[]).await;
    wire.fetch(b, 1).await;
    wire.statement(Command::StmtReset, Expect::Results, 4711, &[]).await;
    wire.command(Expect::Results, &execute(4711, 0, &[], true)).await;
    wire.query("SELECT 'end'").await;
}

/// The names of columns that hold what only Sqluice knows, which stands as a value in the text that runs.
async fn spelt_columns(family: Family) {
    let case = Case { family, database: "par_spelt", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        for text in [
            "SELECT 1 + ROW_COUNT()",
            "SELECT v, 1+FOUND_ROWS() FROM n LIMIT 2",
            "SELECT (SELECT ROW_COUNT()), row_count( ) + found_rows() AS sum",
            "SELECT CONNECTION_ID() > 0, IF(FOUND_ROWS() > 2, 'many', 'few')",
            "SELECT LAST_INSERT_ID() + 1, COALESCE(ROW_COUNT(), 0)",
        ] {
            wire.query("SELECT v FROM n WHERE v > 4").await;
            wire.query(text).await;
            let id = wire.prepare(text).await;
            wire.query("USE mysql").await;
            for _ in 0..2 {
                wire.query("SELECT v FROM par_spelt.n WHERE v > 4").await;
                wire.command(Expect::Results, &execute(id, 0, &[], true)).await;
            }
            wire.query("USE par_spelt").await;
            wire.command(Expect::Cursor, &execute(id, 1, &[], true)).await;
            wire.fetch(id, 10).await;
            wire.statement(Command::StmtClose, Expect::Nothing, id, &[]).await;
        }
    })
    .await;
}

async fn cursors(family: Family) {
    let case = Case { family, database: "par_cursor", setup: SETUP, capabilities: MODERN };
    case.run(cursor_talk).await;
}

async fn cursors_with_eof(family: Family) {
    let case = Case { family, database: "par_cursor_eof", setup: SETUP, capabilities: OLD };
    case.run(cursor_talk).await;
}

/// A cursor lives through the end of the transaction it was opened in, or does not: the server says.
async fn cursors_and_transactions(family: Family) {
    let case = Case { family, database: "par_cursor_trx", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        let a = wire.prepare("SELECT v, t FROM n ORDER BY v").await;
        wire.query("BEGIN").await;
        wire.command(Expect::Cursor, &execute(a, 1, &[], true)).await;
        wire.fetch(a, 2).await;
        wire.query("COMMIT").await;
        wire.fetch(a, 2).await;
        wire.query("DROP TABLE n").await;
        wire.fetch(a, 2).await;
        wire.command(Expect::Cursor, &execute(a, 1, &[], true)).await;
        wire.fetch(a, 2).await;
        wire.command(Expect::Results, &[Command::ResetConnection.byte()]).await;
        wire.fetch(a, 2).await;
    })
    .await;
}

async fn long_data(family: Family) {
    let setup = "CREATE TABLE l (id INT PRIMARY KEY, a LONGTEXT, b LONGBLOB)";
    let case = Case { family, database: "par_long", setup, capabilities: MODERN };
    case.run(async |wire| {
        let insert = wire.prepare("INSERT INTO l VALUES (?, ?, ?)").await;
        let part = |parameter: u16, text: &str| [&parameter.to_le_bytes(), text.as_bytes()].concat();
        let blob = || Some((0xfc, Vec::new()));
        for text in ["some ", "long ", "data"] {
            wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(1, text)).await;
        }
        wire.query("SELECT 'between'").await;
        wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(2, "")).await;
        wire.command(Expect::Results, &execute(insert, 0, &[long(1), blob(), blob()], true)).await;
        wire.query("SELECT * FROM l").await;
        // Long data of a parameter that is not there; of a statement that is not there.
        wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(9, "x")).await;
        wire.command(Expect::Results, &execute(insert, 0, &[long(2), short("a"), short("b")], true)).await;
        wire.statement(Command::StmtSendLongData, Expect::Nothing, 4711, &part(0, "x")).await;
        wire.query("SELECT 'between'").await;
        // Forgotten by a reset.
        wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(1, "gone")).await;
        wire.statement(Command::StmtReset, Expect::Results, insert, &[]).await;
        wire.command(Expect::Results, &execute(insert, 0, &[long(3), short("a"), short("b")], true)).await;
        // A refused execution uses it up all the same, or does not: the server says.
        wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(1, "refused")).await;
        wire.command(Expect::Results, &execute(insert, 0, &[long(3), blob(), short("b")], true)).await;
        wire.command(Expect::Results, &execute(insert, 0, &[long(4), short("a"), short("b")], true)).await;
        let big = "x".repeat(1 << 20);
        for _ in 0..3 {
            wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(2, &big)).await;
        }
        wire.command(Expect::Results, &execute(insert, 0, &[long(5), short("a"), blob()], true)).await;
        wire.query("SELECT id, a, LENGTH(b) FROM l ORDER BY id").await;
        wire.statement(Command::StmtSendLongData, Expect::Nothing, insert, &part(2, "x")).await;
        wire.statement(Command::StmtClose, Expect::Nothing, insert, &[]).await;
        wire.query("SELECT 'end'").await;
    })
    .await;
}

async fn parameters(family: Family) {
    let case = Case { family, database: "par_params", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        let echo = wire.prepare("SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?").await;
        let mut values = vec![long(1), None, short("three"), None, long(5), None, long(7), None, None];
        wire.command(Expect::Results, &execute(echo, 0, &values, true)).await;
        values.reverse();
        wire.command(Expect::Results, &execute(echo, 0, &values, true)).await;
        wire.query("SET sql_mode = 'ANSI_QUOTES'").await;
        wire.command(Expect::Results, &execute(echo, 0, &values, false)).await;
        // Too short for its parameters.
        let cut = execute(echo, 0, &values, true);
        wire.command(Expect::Results, &cut[..cut.len() - 3]).await;
        wire.command(Expect::Results, &cut[..12]).await;
        wire.command(Expect::Results, &cut[..7]).await;
        // An execution that never told its types.
        let never = wire.prepare("SELECT ?").await;
        wire.command(Expect::Results, &execute(never, 0, &[long(1)], false)).await;
        // As many parameters as there can be, and one more.
        let many = format!("SELECT {}", vec!["?"; 4000].join(","));
        let id = wire.prepare(&many).await;
        wire.command(Expect::Results, &execute(id, 0, &(0..4000).map(long).collect::<Vec<_>>(), true)).await;
        let all = format!("SELECT COUNT(*) FROM n WHERE v IN ({})", vec!["?"; 65_535].join(","));
        let id = wire.prepare(&all).await;
        wire.command(Expect::Results, &execute(id, 0, &(0..65_535).map(long).collect::<Vec<_>>(), true)).await;
        wire.command(Expect::Results, &execute(id, 0, &(5..65_540).map(long).collect::<Vec<_>>(), false)).await;
        wire.prepare(&format!("SELECT {}", vec!["?"; 65_536].join(","))).await;
        wire.prepare("SELECT FROM").await;
        wire.prepare("").await;
        wire.prepare("SELECT 1; SELECT 2").await;
        wire.prepare("LOAD DATA LOCAL INFILE 'x' INTO TABLE n").await;
        wire.prepare("USE mysql").await;
    })
    .await;
}

both!(cursors cursors_with_eof cursors_and_transactions long_data parameters spelt_columns);
