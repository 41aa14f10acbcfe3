//! The clients' literals in each sink.

use std::path::Path;

use lab::Family;
use serde_json::{Value, json};

use super::collector::Collector;
use super::{KEY, SECRET, event, form_begins, lines, speak, start_with};
use crate::statements;
use crate::support::{all, error, http_with, until};

/// It must be seen nowhere.
const HMAC_KEY: &str = "eight and eight and eight";

/// Collectors of OpenTelemetry, and the settings of their sinks.
const COLLECTORS: [(&str, &str); 3] = [
    ("form", ""),
    ("hmac", "text = \"hmac\""),
    ("masked", "text = \"text\"\nmask = ['Zecret9', '5a656[0-9]*']\nmask_fields = [\"client\"]"),
];

/// Four files: forms, hashes, masked texts, and texts; and the collectors, which have spans of all queries as well.
fn sections(folder: &Path, key: &str, collectors: &[Collector]) -> String {
    let sink = |((name, settings), collector): (&(&str, &str), &Collector)| {
        let endpoint = format!("endpoint = \"http://127.0.0.1:{}\"", collector.port);
        format!("[events.otlp.{name}]\n{endpoint}\ntraces = true\n{settings}\n")
    };
    let otlp: String = COLLECTORS.iter().zip(collectors).map(sink).collect();
    std::fs::write(folder.join("hmac-key"), format!("{key}\n")).unwrap();
    format!(
        "[events]\nqueries = \"all\"\ntrace_sample = 1\nhmac_key_file = \"{0}/hmac-key\"\n[events.file]\npath = \"{0}/form\"\n\
         [events.files.hmac]\npath = \"{0}/hmac\"\ntext = \"hmac\"\n[events.files.text]\npath = \"{0}/text\"\ntext = \"text\"\n\
         [events.files.masked]\npath = \"{0}/masked\"\ntext = \"text\"\nmask = ['{SECRET}', '5a656[0-9]*']\n\
         mask_fields = [\"client\"]\n{otlp}",
        folder.display()
    )
}

fn hashes(line: &Value) -> Vec<String> {
    let text = line["text"].as_str().unwrap_or_default();
    text.split('\'').filter(|part| part.starts_with("hmac:")).map(str::to_owned).collect()
}

/// No literal is in any part of a record or of a span.
async fn check_collectors(collectors: &[Collector]) {
    for ((name, _), collector) in COLLECTORS.iter().zip(collectors) {
        let shown = until("the last query in records and spans", async || {
            let got = collector.got.lock().unwrap();
            let all = (format!("{:#?}", got.logs), format!("{:#?}", got.spans));
            (all.0.contains("AS last_one") && all.1.contains("AS last_one")).then_some(all)
        })
        .await;
        for part in [shown.0, shown.1] {
            let leaked: Vec<&str> =
                part.lines().filter(|line| line.contains(SECRET) || line.contains("5a6563")).collect();
            assert!(leaked.is_empty(), "{name}: {leaked:#?}");
            let has = |text: &str| part.contains(text);
            assert_eq!((has("'hmac:"), has("v = '***' AND id < 5")), (*name == "hmac", *name == "masked"), "{name}");
            assert_eq!(has("Duplicate entry"), *name == "masked", "{name}");
        }
    }
}

async fn check(family: Family) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let collectors = COLLECTORS.map(|_| Collector::start());
    let mut front = start_with(family, "e2e_events_hmac", &sections(folder.path(), HMAC_KEY, &collectors)).await;
    speak(&front, "e2e_events_hmac").await;
    let mut client = statements::within(&front, "e2e_events_hmac").await;
    all(&mut client, "SELECT id FROM items WHERE v = 'Zecret9' AND id < 5").await;
    all(&mut client, "UPDATE items SET v = \"Zecret9\" WHERE id = 500").await;
    error(&mut client, "INSERT INTO items VALUES (1, 'Zecret9')").await;
    all(&mut client, "SELECT 'end' AS last_one").await;
    let is_last = |line: &Value| form_begins(line, "SELECT ? AS last_one");
    for name in ["form", "hmac", "text", "masked"] {
        event(&path(name), "the last query", is_last).await;
    }
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    for name in ["form", "hmac", "masked"] {
        let text = read(name);
        let leaked: Vec<&str> = text.lines().filter(|line| line.contains(SECRET) || line.contains("5a6563")).collect();
        assert!(leaked.is_empty(), "{name}: {leaked:#?}");
    }
    check_collectors(&collectors).await;
    assert!(read("text").contains(SECRET) && !read("form").contains("\"text\""));

    // Equal values are found by their hashes, in other statements and quotes, too.
    let of = |name: &str, form: &str| lines(&path(name)).into_iter().find(|line| form_begins(line, form)).unwrap();
    let selected = hashes(&of("hmac", "SELECT id FROM items WHERE v = ? AND id"));
    let updated = hashes(&of("hmac", "UPDATE items SET v = ? WHERE id"));
    assert_eq!((selected.len(), updated.len()), (2, 2));
    assert!(selected[0] == updated[0] && selected[1] != updated[1], "{selected:?} {updated:?}");
    assert!(of("hmac", "CREATE USER")["text"].is_null(), "not even the hash of a password");
    // Parameters are literals.
    let executed = |name: &str| {
        let is_execution = |line: &Value| line["command"] == "COM_STMT_EXECUTE" && line["error"].is_null();
        lines(&path(name)).into_iter().find(is_execution).unwrap()["params"].clone()
    };
    assert_eq!((&executed("text"), &executed("form")), (&json!([SECRET]), &Value::Null));
    assert_eq!((&executed("masked"), &executed("hmac")), (&json!(["***"]), &json!([selected[0]])));
    let failed = lines(&path("hmac")).into_iter().find(|line| line["error"]["code"] == 1062).unwrap();
    assert!(failed["error"]["text"].is_null(), "{failed}");
    let masked = of("masked", "SELECT id FROM items WHERE v = ? AND id");
    assert_eq!(masked["text"], "SELECT id FROM items WHERE v = '***' AND id < 5");
    assert_eq!((&masked["client"], &masked["user"]), (&"***".into(), &lab::APP_USER.into()), "{masked}");
    let numbers = |name: &str| lines(&path(name)).iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers("masked")[..20], numbers("text")[..20]);

    // With another key they are others; both keys are seen nowhere.
    front.reload(|setup| setup.more = sections(folder.path(), "another key, as long", &collectors));
    until("another hash of the same value", async || {
        all(&mut client, "SELECT id FROM items WHERE v = 'Zecret9' AND id < 5").await;
        let now = lines(&path("hmac")).into_iter().rev().find(|line| form_begins(line, "SELECT id FROM items WHERE v"));
        (hashes(&now.unwrap())[0] != selected[0]).then_some(())
    })
    .await;
    let tail = http_with(&front.admin, "GET", "/api/v1/events/tail?limit=1000", Some(KEY)).await.1;
    for text in [front.log(), tail, read("form"), read("hmac"), read("text"), read("masked")] {
        assert!(!text.contains(HMAC_KEY) && !text.contains("another key"));
    }
}

#[tokio::test]
async fn each_sink_has_what_its_redaction_leaves() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn each_sink_has_what_its_redaction_leaves_mysql() {
    check(Family::MySql).await;
}
