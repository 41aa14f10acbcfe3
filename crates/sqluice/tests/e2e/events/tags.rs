//! Traces and tags that clients send: they are fields of events, and no part of what a statement is.

use std::path::Path;

use lab::Family;
use net::tls::ClientTls;
use serde_json::{Value, json};
use wire::Capabilities;
use wire::codec::Write as _;

use super::{event, form_begins, lines, start};
use crate::statements::within;
use crate::support::cache::{caching, hits, until_hit};
use crate::support::{all, app, error, has_mysql};

pub const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub const CALLER: &str = "b7ad6b7169203331";

/// The header of this trace, of which the caller's span differs from query to query.
pub fn parent(caller: &str, flags: &str) -> String {
    format!("00-{TRACE}-{caller}-{flags}")
}

async fn tagged(file: &Path, form: &str) -> Value {
    event(file, form, |line| form_begins(line, form) && !line["tags"].is_null()).await
}

/// Comments of both forms, at both ends, and what is none of them.
async fn check_comments(family: Family) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let settings = "queries = \"all\"\ntags = \"application, route, job\"";
    let front = start(family, "e2e_events_tags", settings, &file).await;
    let mut client = within(&front, "e2e_events_tags").await;
    let trace = parent(CALLER, "00");
    all(&mut client, "SELECT v FROM items WHERE id = 1").await;
    let plain = event(&file, "without tags", |line| form_begins(line, "SELECT v FROM items WHERE")).await;
    assert!(plain["tags"].is_null() && plain["trace_id"].is_null(), "{plain}");
    let tags = format!("/*application='Shop',route='%2Fitems',secret='Zecret9',traceparent='{trace}'*/");
    all(&mut client, &format!("SELECT v FROM items WHERE id = 2 {tags}")).await;
    let line = tagged(&file, "SELECT v FROM items WHERE").await;
    assert_eq!(line["tags"], json!({"application": "Shop", "route": "/items"}), "{line}");
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &json!(CALLER)), "{line}");
    assert_eq!((&line["digest"], &line["form"]), (&plain["digest"], &plain["form"]));
    assert!(line["traced"].is_null(), "its client does not record it: {line}");

    // Rails puts them in front if it is told to; what is no header of a trace is ignored.
    all(&mut client, "/*application:Shop,job:mail,traceparent:00-none*/ SELECT id FROM items").await;
    let line = tagged(&file, "SELECT id FROM items").await;
    assert_eq!(line["tags"], json!({"application": "Shop", "job": "mail"}), "{line}");
    assert!(line["trace_id"].is_null(), "{line}");

    // Comments that servers execute are code, whatever they look like.
    let rows = all(&mut client, "SELECT 1 AS a /*!50000 , 2 AS b */").await;
    assert_eq!(rows[0].columns.len(), 2);
    let hint = "SELECT /*+ MAX_EXECUTION_TIME(9000) */ 1, 2, 3 /* application='Zecret9' and more */";
    all(&mut client, hint).await;
    let line = event(&file, "the hint", |line| form_begins(line, "SELECT ?, ?, ?")).await;
    assert!(line["tags"].is_null(), "{line}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("Zecret9"), "a tag that nobody asked for");
}

#[tokio::test]
async fn tags_in_comments_are_fields_of_events() {
    check_comments(Family::MariaDb).await;
}

#[tokio::test]
async fn tags_in_comments_are_fields_of_events_mysql() {
    if has_mysql() {
        check_comments(Family::MySql).await;
    }
}

/// One statement for all traces is prepared on servers, and its executions have the tags that it was prepared with.
#[tokio::test]
async fn a_prepared_statement_is_one_for_all_traces() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let front = start(Family::MariaDb, "e2e_events_prepared", "queries = \"all\"", &file).await;
    let mut client = within(&front, "e2e_events_prepared").await;
    let tags = |route: &str| format!("/*route='{route}',traceparent='{}'*/", parent(CALLER, "01"));
    for route in ["one", "two"] {
        let prepared = client.prepare(format!("SELECT v FROM items WHERE id = ? {}", tags(route))).await.unwrap();
        client.execute(&prepared, &[1.into()]).await.unwrap();
        let line = event(&file, route, |line| line["tags"]["route"] == route).await;
        assert_eq!((&line["command"], &line["trace_id"]), (&json!("COM_STMT_EXECUTE"), &json!(TRACE)), "{line}");
    }
    let digests: std::collections::BTreeSet<String> =
        lines(&file).iter().filter(|line| !line["tags"].is_null()).map(|line| line["digest"].to_string()).collect();
    assert_eq!(digests.len(), 1, "{digests:?}");
    // A server tells what it has read of the text.
    let wrong = client.prepare(format!("SELECT v FRM items WHERE id = ? {}", tags("three"))).await.unwrap_err();
    let said = wrong.server_error().unwrap();
    assert!(said.code == 1064 && said.message.contains("WHERE id = ?'"), "{}", said.message);
    assert_eq!(error(&mut client, &format!("SELECT v FRM items {}", tags("four"))).await.0, 1064);
}

/// Texts with their names, as MySQL's clients send them: how many, the bits for NULL, types and names, values.
fn attributes(all: &[(&str, &str)]) -> [Vec<u8>; 4] {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in all {
        // MYSQL_TYPE_STRING.
        names.extend([0xfe, 0]);
        names.put_lenenc_bytes(name.as_bytes());
        values.put_lenenc_bytes(value.as_bytes());
    }
    [vec![all.len() as u8], vec![0], names, values]
}

/// Drivers that know query attributes send the trace there: the text stays as it is.
#[tokio::test]
async fn query_attributes_are_fields_of_events_mysql() {
    if !has_mysql() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let settings = "queries = \"all\"\ntags = \"application, route\"";
    let front = start(Family::MySql, "e2e_events_attributes", settings, &file).await;
    let mut login = app();
    login.capabilities |= Capabilities::QUERY_ATTRIBUTES;
    login.schema = Some("e2e_events_attributes".into());
    let mut client = front.connect(login, ClientTls::disabled()).await.unwrap();
    assert!(client.capabilities().contains(Capabilities::QUERY_ATTRIBUTES));
    // No attributes, in one set.
    client.command(&[&[3, 0, 1][..], b"SELECT v FROM items WHERE id = 1"].concat()).await.unwrap();
    let plain = event(&file, "without attributes", |line| form_begins(line, "SELECT v FROM items WHERE")).await;
    assert!(plain["tags"].is_null() && plain["trace_id"].is_null(), "{plain}");

    // COM_QUERY. The attribute stands above the comment, and one that nobody asked for is no field.
    let trace = parent(CALLER, "00");
    let named = [("traceparent", &*trace), ("application", "Shop"), ("secret", "Zecret9")];
    let [count, nulls, names, values] = attributes(&named);
    let other =
        "/*application='Old',route='%2Fitems',traceparent='00-0123456789abcdef0123456789abcdef-0123456789abcdef-00'*/";
    let text = format!("SELECT v FROM items WHERE id = 2 {other}");
    let query = [&[3][..], &count, &[1], &nulls, &[1], &names, &values, text.as_bytes()].concat();
    assert_eq!(client.command(&query).await.unwrap().len(), 1);
    let line = tagged(&file, "SELECT v FROM items WHERE").await;
    assert_eq!(line["tags"], json!({"application": "Shop", "route": "/items"}), "{line}");
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &json!(CALLER)), "{line}");
    assert_eq!((&line["digest"], &line["command"]), (&plain["digest"], &json!("COM_QUERY")), "{line}");

    // COM_STMT_EXECUTE: the statement's parameter comes first, and has no name.
    let prepared = client.prepare("SELECT id FROM items WHERE id = ?").await.unwrap();
    let trace = parent("0000000000000abc", "00");
    let [count, nulls, names, values] = attributes(&[("", "2"), ("traceparent", &trace), ("route", "/prepared")]);
    let id = prepared.id.to_le_bytes();
    // With the number of parameters and attributes, and run once.
    let head = [&[0x17][..], &id, &[8], &1_u32.to_le_bytes()].concat();
    let rows = client.command(&[&head[..], &count, &nulls, &[1], &names, &values].concat()).await.unwrap();
    assert_eq!(rows.len(), 1);
    let line = event(&file, "the execution", |line| line["tags"]["route"] == "/prepared").await;
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &json!("0000000000000abc")), "{line}");
    assert_eq!(line["command"], json!("COM_STMT_EXECUTE"), "{line}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("Zecret9"), "a tag that nobody asked for");
}

/// A result that is kept answers the same question of another trace.
#[tokio::test]
async fn a_cached_result_answers_all_traces() {
    let table = "e2e_events_cached";
    let rule = format!("[[rule]]\nname = \"all\"\nuser = \"{}\"\ncache = \"on\"\n", lab::APP_USER);
    let front = caching(Family::MariaDb, table, &rule).await;
    let mut client = front.client().await;
    let read = format!("SELECT n FROM {table} WHERE id = 2");
    until_hit(&front, &mut client, &read).await;
    let before = hits(&front, "all").await;
    for number in 0..5 {
        let trace = parent(&format!("{:016x}", number + 1), "01");
        all(&mut client, &format!("{read} /*traceparent='{trace}'*/")).await;
        all(&mut client, &format!("/*job:n{number}*/ {read}")).await;
        // A tag behind the cache's own order.
        all(&mut client, &format!("/*nocache*/ {read} /*job:n{number}*/")).await;
    }
    assert_eq!(hits(&front, "all").await - before, 10);
}
