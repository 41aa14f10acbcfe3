//! Rules that decide about the log.

use std::path::Path;

use lab::Family;
use serde_json::Value;

use super::{KEY, event, form_begins, lines, start_with};
use crate::statements;
use crate::support::{all, error, http_with, until};

fn sections(file: &Path, queries: &str, rules: &str) -> String {
    format!(
        "[events]\nqueries = \"{queries}\"\n[events.file]\npath = \"{}\"\n[[rule]]\nname = \"route\"\n\
         digest_regex = \"^SELECT id FROM items\"\nroute = \"primary\"\n{rules}",
        file.display()
    )
}

const CHOSEN: &str = "[[rule]]\nname = \"items\"\ntable = \"items\"\nlog = \"on\"\n\
    [[rule]]\nname = \"quiet\"\ndigest_regex = \"^SELECT .+, \"\nlog = \"off\"\n";

fn count(file: &Path, begin: &str) -> usize {
    lines(file).iter().filter(|line| form_begins(line, begin)).count()
}

/// A rule chooses queries that `[events]` does not, and leaves out those that it does, each live.
#[tokio::test]
async fn rules_choose_queries_over_the_settings_of_events() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let mut front = start_with(Family::MariaDb, "e2e_events_rules", &sections(&file, "off", CHOSEN)).await;
    let mut client = statements::within(&front, "e2e_events_rules").await;
    all(&mut client, "SELECT 1").await;
    all(&mut client, "SELECT id FROM items WHERE id = 1").await;
    all(&mut client, "SELECT 1 FROM items WHERE v = 'x'").await;
    let chosen = event(&file, "the chosen query", |line| form_begins(line, "SELECT id FROM items")).await;
    assert_eq!((&chosen["rule"], &chosen["route_reason"]), (&"route".into(), &"rule".into()), "{chosen}");
    assert!(chosen["times"]["total"].as_u64() > Some(0), "{chosen}");
    event(&file, "the other chosen query", |line| form_begins(line, "SELECT ? FROM items")).await;
    assert_eq!(lines(&file).iter().filter(|line| line["form"] == "SELECT ?").count(), 0);

    let (_, body) = http_with(&front.admin, "GET", "/api/v1/rules", Some(KEY)).await;
    let shown: Value = serde_json::from_str(&body).unwrap();
    let of = |name: &str| shown["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name).unwrap().clone();
    assert_eq!((&of("items")["action"], &of("items")["hits"]), (&"log on".into(), &2.into()), "{shown}");
    assert_eq!((&of("quiet")["action"], &of("route")["hits"]), (&"log off".into(), &1.into()), "{shown}");

    // All but those of a rule; errors of it are left out, too.
    front.reload(|setup| setup.more = sections(&file, "all", CHOSEN));
    until("all queries in the file", async || {
        all(&mut client, "SELECT 1").await;
        (count(&file, "SELECT ?") > 1).then_some(())
    })
    .await;
    all(&mut client, "SELECT 1, 2").await;
    error(&mut client, "SELECT a, b FROM missing").await;
    all(&mut client, "SELECT 'the end'  AS e").await;
    event(&file, "the last query", |line| form_begins(line, "SELECT ? AS e")).await;
    assert_eq!((count(&file, "SELECT ?, ?"), count(&file, "SELECT a, b")), (0, 0));

    // Without its rule the same query is an event.
    front.reload(|setup| setup.more = sections(&file, "all", ""));
    until("the query that a rule had left out", async || {
        all(&mut client, "SELECT 1, 2").await;
        (count(&file, "SELECT ?, ?") > 0).then_some(())
    })
    .await;
}

/// Sampling is by session: all queries of one session in so many, and none of the others.
#[tokio::test]
async fn a_rule_samples_by_session() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let rule = "[[rule]]\nname = \"some\"\ntable = \"items\"\nlog = \"on\"\nlog_sample = 3\n";
    let front = start_with(Family::MariaDb, "e2e_events_sampled", &sections(&file, "off", rule)).await;
    for _ in 0..9 {
        let mut client = statements::within(&front, "e2e_events_sampled").await;
        for _ in 0..4 {
            all(&mut client, "SELECT v FROM items").await;
        }
        client.quit().await.unwrap();
    }
    let logouts = || lines(&file).iter().filter(|line| line["kind"] == "logout").count();
    until("the end of all sessions", async || (logouts() >= 9).then_some(())).await;
    let lines = lines(&file);
    let sessions = |kind: &str| -> Vec<u64> {
        let of_kind = lines.iter().filter(|line| line["kind"] == kind);
        of_kind.map(|line| line["session"].as_u64().unwrap()).collect()
    };
    let expected: Vec<u64> =
        sessions("logout").into_iter().filter(|session| session % 3 == 0).flat_map(|session| [session; 4]).collect();
    let mut queries = sessions("query");
    queries.sort_unstable();
    let mut expected = expected;
    expected.sort_unstable();
    assert!(!queries.is_empty());
    assert_eq!(queries, expected);
}
