//! Costs: digests, errors, and the result cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use stats::cache::CacheCounts;
use stats::digests::DigestRow;

use super::{Need, Rows, Schema, View};
use crate::cells::{Row, row};
use crate::columns::{int, text};
use crate::views::gather::Gathered;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "digests",
        schema: Schema::Main,
        about: "Digests: the cost of the statements of one form, of each user, schema and cluster.",
        columns: &[
            text("digest"),
            text("text"),
            text("user"),
            text("schema"),
            text("cluster"),
            int("statements"),
            int("errors"),
            int("rows_sent"),
            int("rows_affected"),
            int("reply_bytes"),
            int("on_primary"),
            int("on_replicas"),
            int("pipelined"),
            int("wait_us"),
            int("time_us"),
            int("server_us"),
            int("send_us"),
            int("time_us_min"),
            int("time_us_max"),
            int("time_us_p50"),
            int("time_us_p95"),
            int("time_us_p99"),
            int("cache_hits"),
            int("cache_misses"),
            int("cache_saved_us"),
            int("first_seen_ms"),
            int("last_seen_ms"),
        ],
        needs: &[Need::Digests],
        rows: Rows::Of(|gathered| gathered.digests.rows.iter().map(digest).collect()),
    },
    View {
        name: "errors",
        schema: Schema::Main,
        about: "Errors by digest and code; code 0 has those whose code is not known, and rare ones.",
        columns: &[
            text("digest"),
            text("text"),
            text("user"),
            text("schema"),
            text("cluster"),
            int("code"),
            int("errors"),
            int("last_seen_ms"),
        ],
        needs: &[Need::Digests],
        rows: Rows::Of(errors),
    },
    View {
        name: "cache",
        schema: Schema::Main,
        about: "The effect of the result cache for each rule.",
        columns: &[
            text("rule"),
            int("hits"),
            int("stale"),
            int("waits"),
            int("misses"),
            int("kept"),
            int("refused"),
            int("bytes"),
            int("saved_us"),
        ],
        needs: &[],
        rows: Rows::Of(cache),
    },
];

fn digest(of: &DigestRow) -> Row {
    let (name, figures) = (&of.name, &of.figures);
    let quantile = |share| of.spread.quantile_us(share);
    row![
        format!("{:016x}", name.hash),
        &*name.text,
        &*name.user,
        &*name.schema,
        &*name.cluster,
        figures.statements,
        figures.errors,
        figures.rows_sent,
        figures.rows_affected,
        figures.reply_bytes,
        figures.on_primary,
        figures.on_replicas,
        figures.pipelined,
        figures.wait_us,
        figures.time_us,
        figures.server_us,
        figures.time_us.saturating_sub(figures.server_us),
        figures.time_us_min,
        figures.time_us_max,
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        of.cached.hits,
        of.cached.misses,
        of.cached.saved_us,
        of.first_seen,
        of.last_seen,
    ]
}

fn errors(gathered: &Gathered) -> Vec<Row> {
    let of = |digest: &DigestRow| {
        let name = digest.name.clone();
        let last_seen = digest.last_seen;
        digest.spread.errors().into_iter().map(move |(code, count)| {
            let hash = format!("{:016x}", name.hash);
            row![hash, &*name.text, &*name.user, &*name.schema, &*name.cluster, code, count, last_seen]
        })
    };
    gathered.digests.rows.iter().flat_map(of).collect()
}

/// The counts of each rule that uses the cache, of all workers.
pub(super) fn cache_counts(gathered: &Gathered) -> BTreeMap<Arc<str>, CacheCounts> {
    let mut sums: BTreeMap<Arc<str>, CacheCounts> = BTreeMap::new();
    for (rule, counts) in gathered.shared.sources.workers.iter().flat_map(|worker| worker.caches.get()) {
        sums.entry(rule).or_insert_with(|| counts.empty()).add(&counts);
    }
    sums
}

fn cache(gathered: &Gathered) -> Vec<Row> {
    let of = |(rule, counts): (&Arc<str>, &CacheCounts)| {
        let refused = counts.refused.iter().map(stats::Counter::get).sum::<u64>();
        row![
            &**rule,
            counts.hits.get(),
            counts.stale.get(),
            counts.waits.get(),
            counts.misses.get(),
            counts.kept.get(),
            refused,
            counts.bytes.get(),
            counts.saved_us.get(),
        ]
    };
    cache_counts(gathered).iter().map(of).collect()
}
