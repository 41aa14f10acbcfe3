//! The parameters of executions whose values do not all come with one row: sent ahead, in bulk, or of types without a value.

use std::path::Path;

use lab::Family;
use serde_json::{Value, json};
use wire::Capabilities;
use wire::command::Command;

use super::{SECRET, event, lines, start_with};
use crate::parity::{Expect, MODERN, Wire, execute, long, short};

const INSERT: &str = "INSERT INTO items VALUES (?, ?)";

fn sections(folder: &Path) -> String {
    std::fs::write(folder.join("hmac-key"), "eight and eight and eight").unwrap();
    format!(
        "[events]\nqueries = \"all\"\nhmac_key_file = \"{0}/hmac-key\"\n[events.file]\npath = \"{0}/form\"\n\
         [events.files.text]\npath = \"{0}/text\"\ntext = \"text\"\n\
         [events.files.hmac]\npath = \"{0}/hmac\"\ntext = \"hmac\"\n\
         [events.files.masked]\npath = \"{0}/masked\"\ntext = \"text\"\nmask = ['{SECRET}']\n",
        folder.display()
    )
}

/// The executions in a file, once the last query is there. No sink but that of texts has the secret.
async fn executed(folder: &Path, name: &str) -> Vec<Value> {
    let path = folder.join(name);
    event(&path, "the last query", |line| super::form_begins(line, "SELECT ? AS last_one")).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.contains(SECRET), name == "text", "{name}");
    let is_execution = |line: &Value| line["command"].as_str().is_some_and(|command| command.ends_with("EXECUTE"));
    lines(&path).into_iter().filter(is_execution).collect()
}

async fn sent_ahead(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let front = start_with(family, database, &sections(folder.path())).await;
    let mut wire = Wire::open(&front.address, database, MODERN).await;
    let read = wire.prepare("SELECT COUNT(*) FROM items WHERE v = ? OR id = ? OR v = ?").await;
    let part = |parameter: u16, text: &str| [&parameter.to_le_bytes(), text.as_bytes()].concat();
    let blob = || Some((0xfc, Vec::new()));
    let whole = |values: &[_]| execute(read, 0, values, true);
    let ahead = async |wire: &mut Wire, parameter: u16, text: &str| {
        wire.statement(Command::StmtSendLongData, Expect::Nothing, read, &part(parameter, text)).await;
    };
    ahead(&mut wire, 0, "Zec").await;
    ahead(&mut wire, 0, "ret9").await;
    wire.command(Expect::Results, &whole(&[blob(), long(7), short("c")])).await;
    // Those were used up.
    wire.command(Expect::Results, &whole(&[short("a"), long(8), None])).await;
    ahead(&mut wire, 2, SECRET).await;
    for _ in 0..50 {
        ahead(&mut wire, 2, &"x".repeat(1000)).await;
    }
    ahead(&mut wire, 0, "").await;
    wire.command(Expect::Results, &whole(&[blob(), long(9), blob()])).await;
    // Forgotten by a reset.
    ahead(&mut wire, 2, SECRET).await;
    wire.statement(Command::StmtReset, Expect::Results, read, &[]).await;
    wire.command(Expect::Results, &whole(&[None, long(10), short("d")])).await;
    wire.query("SELECT 'end' AS last_one FROM items").await;

    let text = executed(folder.path(), "text").await;
    let params = |lines: &[Value], at: usize| lines[at]["params"].clone();
    assert_eq!(params(&text, 0), json!([SECRET, 7, "c"]));
    assert_eq!(params(&text, 1), json!(["a", 8, null]));
    let third = params(&text, 2);
    assert_eq!((&third[0], &third[1], &third[2]["bytes"]), (&json!(""), &json!(9), &json!(50_007)), "{third}");
    let begin = third[2]["begin"].as_str().unwrap();
    assert!(begin.starts_with("Zecret9xxx") && begin.len() == 1024, "{begin}");
    assert_eq!(params(&text, 3), json!([null, 10, "d"]));
    assert_eq!(params(&executed(folder.path(), "form").await, 2), Value::Null);
    let hmac = executed(folder.path(), "hmac").await;
    assert!(params(&hmac, 0)[0].as_str().unwrap().starts_with("hmac:"), "{}", hmac[0]);
    assert_eq!(params(&hmac, 2)[2], json!({"bytes": 50_007}));
    let masked = executed(folder.path(), "masked").await;
    assert_eq!(params(&masked, 0)[0], "***");
    assert!(params(&masked, 2)[2]["begin"].as_str().unwrap().starts_with("***xxx"), "{}", masked[2]);
}

/// MariaDB uses NULL for a parameter of type BIT and takes no bytes for it; MySQL refuses it.
async fn bits(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let front = start_with(family, database, &sections(folder.path())).await;
    let mut wire = Wire::open(&front.address, database, MODERN).await;
    let insert = wire.prepare(INSERT).await;
    let bit = |bytes: &[u8]| Some((0x10, bytes.to_vec()));
    // It looks whether there are bytes all the same.
    wire.command(Expect::Results, &execute(insert, 0, &[long(41), bit(&[1, 5])], true)).await;
    let read = wire.prepare("SELECT v FROM items WHERE v = ? OR id = ?").await;
    // A replica need not have the new row yet.
    wire.command(Expect::Results, &execute(read, 0, &[bit(&[]), long(1)], true)).await;
    wire.query("SELECT 'end' AS last_one FROM items").await;
    let text = executed_bits(folder.path()).await;
    let errors: Vec<&Value> = text.iter().map(|line| &line["error"]["code"]).collect();
    match family {
        Family::MariaDb => {
            assert_eq!((&text[0]["params"], &text[1]["params"]), (&json!([41, null]), &json!([null, 1])));
            assert_eq!(errors, [&Value::Null, &Value::Null]);
            assert_eq!((&text[0]["rows_affected"], &text[1]["rows_sent"]), (&json!(1), &json!(1)), "{text:?}");
        }
        Family::MySql => assert!(errors.iter().all(|code| matches!(code.as_u64(), Some(1210 | 1835))), "{errors:?}"),
    }
}

async fn executed_bits(folder: &Path) -> Vec<Value> {
    let path = folder.join("text");
    event(&path, "the last query", |line| super::form_begins(line, "SELECT ? AS last_one")).await;
    lines(&path).into_iter().filter(|line| line["command"] == "COM_STMT_EXECUTE").collect()
}

#[tokio::test]
async fn events_have_values_that_were_sent_ahead() {
    sent_ahead(Family::MariaDb, "e2e_events_ahead").await;
}

#[tokio::test]
async fn events_have_values_that_were_sent_ahead_mysql() {
    sent_ahead(Family::MySql, "e2e_events_ahead_mysql").await;
}

#[tokio::test]
async fn events_have_null_for_bits() {
    bits(Family::MariaDb, "e2e_events_bits").await;
}

#[tokio::test]
async fn events_have_null_for_bits_mysql() {
    bits(Family::MySql, "e2e_events_bits_mysql").await;
}

/// The rows of a bulk execution, each value with its indicator.
fn bulk(id: u32, types: bool, rows: &[(i64, Option<&str>)]) -> Vec<u8> {
    let mut out = vec![Command::StmtBulkExecute.byte()];
    out.extend(id.to_le_bytes());
    out.extend(if types { 128_u16 } else { 0 }.to_le_bytes());
    out.extend(if types { &[8, 0, 0xfd, 0][..] } else { &[] });
    for (number, text) in rows {
        out.push(0);
        out.extend(number.to_le_bytes());
        match text {
            Some(text) => {
                out.extend([0, text.len() as u8]);
                out.extend(text.as_bytes());
            }
            None => out.push(2),
        }
    }
    out
}

#[tokio::test]
async fn events_have_the_first_rows_of_bulk_executions() {
    let (folder, database) = (tempfile::tempdir().unwrap(), "e2e_events_bulk");
    let front = start_with(Family::MariaDb, database, &sections(folder.path())).await;
    let mut wire = Wire::open(&front.address, database, MODERN | Capabilities::STMT_BULK).await;
    let insert = wire.prepare(INSERT).await;
    wire.command(Expect::Results, &bulk(insert, true, &[(51, Some(SECRET)), (52, None)])).await;
    let many: Vec<_> = (1_000..9_000).map(|id| (id, Some("many"))).collect();
    wire.command(Expect::Results, &bulk(insert, false, &many)).await;
    let whole = bulk(insert, true, &[(61, Some("cut"))]);
    wire.command(Expect::Results, &whole[..whole.len() - 2]).await;
    wire.query("SELECT 'end' AS last_one FROM items").await;

    let text = executed(folder.path(), "text").await;
    assert!(text.iter().all(|line| line["command"] == "COM_STMT_BULK_EXECUTE"));
    assert_eq!(text[0]["params"], json!([[51, SECRET], [52, {"indicator": "default"}]]), "{}", text[0]);
    assert_eq!((&text[0]["bulk_rows"], &text[0]["rows_affected"]), (&json!(2), &json!(2)));
    let shown = text[1]["params"].as_array().unwrap();
    assert_eq!((&text[1]["bulk_rows"], &text[1]["params_cut"]), (&json!(8_000), &json!(true)));
    assert_eq!((&shown[0], &shown[899]), (&json!([1_000, "many"]), &json!([1_899, "many"])));
    assert!((900..2_000).contains(&shown.len()), "{}", shown.len());
    assert_eq!((&text[2]["params"], &text[2]["bulk_rows"]), (&Value::Null, &Value::Null), "{}", text[2]);
    // The number of rows is no literal.
    let form = executed(folder.path(), "form").await;
    assert_eq!((&form[1]["params"], &form[1]["bulk_rows"]), (&Value::Null, &json!(8_000)));
    let hmac = executed(folder.path(), "hmac").await;
    assert!(hmac[0]["params"][0][1].as_str().unwrap().starts_with("hmac:"), "{}", hmac[0]);
    let masked = executed(folder.path(), "masked").await;
    assert_eq!(masked[0]["params"][0], json!([51, "***"]));
}
