//! COM_CHANGE_USER that is refused: MariaDB's sessions go on as who they were, MySQL's end.

use lab::Family;

use super::{Case, MODERN, Wire, both};

/// Asks to become somebody whom nobody knows, and answers every plugin with nothing.
async fn refused(wire: &mut Wire) {
    wire.send(&[b"\x11nobody\0\0par_change\0\x2d\0mysql_native_password\0\0"]).await;
    refusal(wire).await;
}

/// The end of a refused change.
async fn refusal(wire: &mut Wire) {
    while let Some((sequence, payload)) = wire.packet().await {
        match payload.first() {
            Some(0xff) => {
                // The words, not the plugins on the way: MySQL draws one for unknown users by lot.
                wire.note(format!("refused: {}", String::from_utf8_lossy(&payload)));
                return;
            }
            _ => wire.send_bytes(&[0, 0, 0, sequence.wrapping_add(1)]).await,
        }
    }
}

async fn refused_changes(family: Family) {
    let case = Case { family, database: "par_change", setup: "", capabilities: MODERN };
    case.run(async |wire| {
        wire.query("SET @a = 5, sql_mode = 'ANSI'").await;
        if family == Family::MySql {
            return refused(wire).await;
        }
        let prepared = wire.prepare("SELECT 1").await;
        for _ in 0..4 {
            refused(wire).await;
            // The session has the error of the refusal.
            wire.query("SHOW WARNINGS").await;
            wire.query("SELECT USER(), DATABASE(), @@sql_mode").await;
        }
        wire.command(super::Expect::Results, &super::execute(prepared, 0, &[], true)).await;
    })
    .await;
}

/// Behind a refused change the schema has the collation of the server, and a reset goes back to that of the refused change.
#[tokio::test]
async fn character_sets_behind_refused_changes() {
    let setup = "ALTER DATABASE par_sets CHARACTER SET utf8mb3";
    let case = Case { family: Family::MariaDb, database: "par_sets", setup, capabilities: MODERN };
    case.run(async |wire| {
        const SHOW: &str = "SHOW VARIABLES WHERE Variable_name RLIKE 'collation|character_set_(client|database)'";
        wire.query(SHOW).await;
        wire.send(&[b"\x11nobody\0\0par_sets\0\x1c\0mysql_native_password\0\0"]).await;
        refusal(wire).await;
        wire.query(SHOW).await;
        wire.command(super::Expect::Results, b"\x1f").await;
        wire.query(SHOW).await;
        wire.query("USE par_sets").await;
        wire.query(SHOW).await;
    })
    .await;
}

/// A driver names the plugin that it likes best, whatever it named at its login: the server asks for the account's own.
#[tokio::test]
async fn changes_that_name_another_plugin() {
    let case = Case { family: Family::MariaDb, database: "par_names", setup: "", capabilities: MODERN };
    case.run(async |wire| {
        wire.send(&[b"\x11app\0\0par_names\0\x2d\0caching_sha2_password\0\0"]).await;
        let (sequence, asked) = wire.packet().await.unwrap();
        let plugin = asked[1..].split(|byte| *byte == 0).next().unwrap();
        wire.note(format!("asked for {}", String::from_utf8_lossy(plugin)));
        wire.send_bytes(&[0, 0, 0, sequence.wrapping_add(1)]).await;
        let (_, refused) = wire.packet().await.unwrap();
        wire.note(String::from_utf8_lossy(&refused));
        wire.query("SELECT DATABASE()").await;
    })
    .await;
}

both!(refused_changes);
