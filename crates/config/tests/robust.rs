//! No text makes the reader panic, and no message shows a secret.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use proptest::prelude::*;
use sqluice_config::{Address, MemorySource, parse};

/// Lines that are near to good ones, so that mistakes deep in the tables are met as well.
fn line() -> impl Strategy<Value = String> {
    let table = prop::sample::select(vec![
        "[cluster.a]",
        "[cluster.a.pool]",
        "[cluster]",
        "[cluster.a.servers]",
        "[cluster.a.monitor]",
        "[listener.l]",
        "[listener.l.tls]",
        "[user.u]",
        "[admin]",
        "[log]",
        "[proxy]",
        "[[user.u]]",
        "[\"é\"]",
    ]);
    let key = prop::sample::select(vec![
        "kind",
        "monitor",
        "servers.db1",
        "servers.db1.address",
        "password",
        "password_file",
        "user",
        "address",
        "cluster",
        "split",
        "max_packet",
        "wait_ms",
        "weight",
        "tls",
        "level",
        "native_hash",
        "a.b",
        "\"\"",
        "pool",
    ]);
    let value = prop_oneof![
        Just("\"auto\"".to_owned()),
        Just("{ address = \"[::1]:3306\" }".to_owned()),
        Just("= 3".to_owned()),
        Just("\"é\u{1F600}".to_owned()),
        Just("1979-05-27".to_owned()),
        Just("[[], 3]".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        "\"[^\"]{0,9}\"",
        "\\PC{0,12}",
    ];
    prop_oneof![table.prop_map(str::to_owned), (key, value).prop_map(|(key, value)| format!("{key} = {value}"))]
}

proptest! {
    #[test]
    fn any_text_gives_an_answer(text in any::<String>()) {
        let _ = parse("x.toml", &text, &MemorySource::default());
    }

    #[test]
    fn any_lines_give_an_answer_with_places(lines in prop::collection::vec(line(), 0..20)) {
        let text = lines.join("\n");
        if let Err(errors) = parse("x.toml", &text, &MemorySource::default()) {
            prop_assert!(!errors.0.is_empty());
            let count = text.matches('\n').count() + 1;
            for problem in errors.0 {
                prop_assert!((1..=count).contains(&problem.line) && problem.column >= 1, "{problem}");
                prop_assert!(!problem.to_string().contains('\n'), "{problem}");
            }
        }
    }

    #[test]
    fn an_address_reads_back_as_itself(text in "[a-z0-9.:\\[\\]/]{0,30}") {
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
        }
    }
}
