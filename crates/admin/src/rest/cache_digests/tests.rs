use std::time::SystemTime;

use stats::digests::{CacheSaid, DigestFigures, Questions};

use super::*;

fn row(hash: u64, text: &str, runs: u64, each_us: u64) -> DigestRow {
    let name =
        DigestName { hash, text: text.into(), user: "bob".into(), schema: "shop".into(), cluster: "main".into() };
    let figures =
        DigestFigures { statements: runs, on_replicas: runs, time_us: runs * each_us, ..DigestFigures::default() };
    let (first_seen, last_seen) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
    DigestRow {
        name: name.into(),
        other_clusters: Vec::new(),
        figures,
        cached: CachedFigures::default(),
        questions: None,
        spread: Box::default(),
        sample: None,
        first_seen,
        last_seen,
    }
}

/// The same, of so many questions in turn, ten a second.
fn read(hash: u64, text: &str, runs: u64, each_us: u64, questions: u64) -> DigestRow {
    let mut seen = Questions::default();
    (0..runs).for_each(|n| seen.ask(1 + n % questions, n / 10));
    DigestRow { questions: Some(Box::new(seen)), ..row(hash, text, runs, each_us) }
}

fn list_query(ttl: usize) -> ListQuery {
    ListQuery { limit: 10, ttl }
}

#[test]
fn what_saves_most_comes_first_with_a_rule_that_can_be_pasted() {
    let report = DigestReport {
        rows: vec![
            read(1, "SELECT a FROM items WHERE id IN (...)", 1_000, 100, 1),
            read(2, "SELECT b FROM other.t WHERE s = ?", 1_000, 5_000, 10),
            read(3, "SELECT c FROM items WHERE id = ?", 1_000, 9_000, 1_000),
            row(4, "UPDATE items SET a = ? WHERE id = ?", 70, 100),
            row(5, "SELECT NOW()", 1_000, 100),
        ],
        ..DigestReport::default()
    };
    let page = list(&report, &list_query(1));
    let hashes: Vec<_> =
        page["candidates"].as_array().unwrap().iter().map(|one| one["hash"].as_str().unwrap()).collect();
    assert_eq!(hashes, ["0000000000000002", "0000000000000001"], "what never comes again saves nothing");
    let [second, first] = &page["candidates"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&first["writes"], &second["writes"]), (&json!(70), &json!(0)));
    let hits = first["hits"]["10000"].as_u64().unwrap();
    assert!((950..1_000).contains(&hits) && first["saved_us"] == hits * 100, "{first}");
    assert!(first["hits"]["1000"].as_u64() < Some(hits) && Some(hits) < first["hits"]["60000"].as_u64(), "{first}");
    assert_eq!(page["not_cacheable"][0]["reason"], "no_table");

    // The rules are such as the configuration takes.
    let rules: Vec<&str> = [first, second].map(|one| one["rule"].as_str().unwrap()).to_vec();
    let text = format!(
        "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
         servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{}",
        rules.concat()
    );
    let config = config::parse("x.toml", &text, &config::MemorySource::default()).unwrap_or_else(|all| panic!("{all}"));
    let matchers = &config.config.rules[0].matchers;
    assert_eq!((matchers.user.as_deref(), matchers.schema.as_deref()), (Some("bob"), Some("shop")));
    let pattern = matchers.digest_regex.as_deref().unwrap();
    let patterns = config::patterns::Patterns::new(&[pattern]).unwrap();
    let mut matches = patterns.matches();
    matches.search(&patterns, b"SELECT a FROM items WHERE id IN (...)");
    assert!(matches.has(0), "{pattern}");
    matches.search(&patterns, b"SELECT a FROM items WHERE id IN (1)");
    assert!(!matches.has(0), "{pattern}");
}

#[test]
fn names_cannot_break_out_of_a_rule() {
    let name = DigestName {
        hash: 7,
        text: "SELECT `a'\n[[rule]]` FROM t".into(),
        user: "x\"\nrefuse = \"y".into(),
        schema: "".into(),
        cluster: "main".into(),
    };
    let rule = rule(&name, 0);
    assert!(rule.contains("digest = \"0000000000000007\"") && rule.contains(r#"user = "x\"\nrefuse = \"y""#), "{rule}");
    assert!(!rule.contains("schema"), "{rule}");
}

#[test]
fn digests_tell_what_the_cache_did() {
    let mut cached = row(1, "SELECT a FROM t", 5, 10);
    cached.cached.count(CacheSaid::Hit { saved_us: 90, bytes: 7 });
    cached.cached.count(CacheSaid::Miss);
    cached.cached.count(CacheSaid::Refused(Refusal::Pinned as u8));
    let report = DigestReport { rows: vec![row(2, "SELECT b FROM t", 5, 10), cached], ..DigestReport::default() };
    let page = page(report, 10);
    let expected = json!({ "hash": "0000000000000001", "text": "SELECT a FROM t", "user": "bob", "schema": "shop", "statements": 5,
        "hits": 1, "misses": 1, "saved_us": 90, "bytes": 7, "refused": { "pinned": 1 } });
    assert_eq!((&page["digests"], &page["entries"]), (&json!([expected]), &json!(1)));
}

#[test]
fn parameters_are_read_or_refused() {
    assert_eq!(ListQuery::parse("ttl_ms=60000&limit=3"), Ok(ListQuery { limit: 3, ttl: 2 }));
    for wrong in ["ttl_ms=5", "limit=x", "order=time"] {
        assert!(ListQuery::parse(wrong).is_err(), "{wrong}");
    }
}
