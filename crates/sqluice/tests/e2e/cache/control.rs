//! The operator's commands and figures: advice, wiping, counts.

use super::*;

#[tokio::test]
async fn advice_counts_and_answers_nothing() {
    for family in families() {
        let table = "cache_advise";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"advise\"\ncache_ttl_ms = 600000")).await;
        let mut client = front.client().await;
        let read = format!("SELECT n FROM {table} WHERE id = 1");
        let reads = async || front.metrics().await.sum("sqluice_server_reads_total", &[]);
        let (before, known) = (reads().await, hits(&front, "all").await);
        for _ in 0..5 {
            assert_eq!(value(&mut client, &read).await, "10");
        }
        // A client has its answer a moment before that is counted.
        until("five answers of servers", async || (reads().await - before >= 5.0).then_some(())).await;
        assert_eq!(reads().await - before, 5.0);
        assert_eq!(hits(&front, "all").await - known, 4);
        assert_eq!(front.metrics().await.sum("sqluice_cache_hits_total", &["rule=\"all\""]), known as f64 + 4.0);
        assert_eq!(of_rule(&front, "all").await["bytes"], 0);
    }
}

/// Has it asked until its answer is kept: what others define or grant while it is asked may be a reason not to.
async fn kept(front: &Front, client: &mut Client, read: &str) {
    until("an answer that is kept", async || is_hit(front, client, read).await.then_some(())).await;
}

#[tokio::test]
async fn what_is_wiped_is_asked_anew() {
    for family in families() {
        let table = "cache_wipe";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
        let mut client = front.client().await;
        let read = format!("SELECT n FROM {table} WHERE id = 1");
        for query in ["", "?rule=all", "?cluster=main", &format!("?table=app.{table}&cluster=main")] {
            kept(&front, &mut client, &read).await;
            let (status, body) = wipe(&front, query).await;
            assert_eq!(
                (status, serde_json::from_str::<serde_json::Value>(&body).unwrap()["answers"].as_u64()),
                (200, Some(1)),
                "{body}"
            );
            assert!(!is_hit(&front, &mut client, &read).await);
        }
        // A result that is not there cannot be wiped. While tables are being read, as when a neighbour defines some,
        // nothing is known of them.
        for query in ["?rule=other", "?table=app.other", "?cluster=other"] {
            until("a refusal", async || (wipe(&front, query).await.0 == 404).then_some(())).await;
        }
        kept(&front, &mut client, &read).await;
        assert_eq!(wipe(&front, "?rule=other").await.0, 404);
        let (status, body) = wipe(&front, "?rule=all&digest=00000000000000ff").await;
        assert_eq!((status, body.trim_end()), (200, "{\"answers\":0,\"bytes\":0}"));
        // It is counted, not asked for: what others define or grant meanwhile may have it asked anew, and leaves it where it is.
        assert_eq!(page(&front).await["answers"], 1);
        assert_eq!(wipe(&front, "?table=x").await.0, 400);
        assert_eq!(http_with(&front.admin, "DELETE", "/api/v1/cache", None).await.0, 401);
    }
}
