//! `stats_…` of digests: ProxySQL's tables of queries, commands and errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::proxysql::Hostgroups;
use super::{Need, Rows, Schema, View};
use crate::cells::{Row, Value, row, seconds};
use crate::columns::{int, text};
use crate::views::gather::Gathered;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "stats_mysql_query_digest",
        schema: Schema::Stats,
        about: "ProxySQL's name of digests; times are in microseconds.",
        columns: &[
            int("hostgroup"),
            text("schemaname"),
            text("username"),
            text("client_address"),
            text("digest"),
            text("digest_text"),
            int("count_star"),
            int("first_seen"),
            int("last_seen"),
            int("sum_time"),
            int("min_time"),
            int("max_time"),
            int("sum_rows_affected"),
            int("sum_rows_sent"),
        ],
        needs: &[Need::Digests],
        rows: Rows::Of(query_digest),
    },
    View {
        name: "stats_mysql_commands_counters",
        schema: Schema::Stats,
        about: "Digests by the first word of their statements, with their times by size.",
        columns: &[
            text("Command"),
            int("Total_Time_us"),
            int("Total_cnt"),
            int("cnt_100us"),
            int("cnt_500us"),
            int("cnt_1ms"),
            int("cnt_5ms"),
            int("cnt_10ms"),
            int("cnt_50ms"),
            int("cnt_100ms"),
            int("cnt_500ms"),
            int("cnt_1s"),
            int("cnt_5s"),
            int("cnt_10s"),
            int("cnt_INFs"),
        ],
        needs: &[Need::Digests],
        rows: Rows::Of(commands_counters),
    },
    View {
        name: "stats_mysql_errors",
        schema: Schema::Stats,
        about: "Errors by user, schema and code, of all digests.",
        columns: &[
            int("hostgroup"),
            text("hostname"),
            int("port"),
            text("username"),
            text("client_address"),
            text("schemaname"),
            int("errno"),
            int("count_star"),
            int("first_seen"),
            int("last_seen"),
            text("last_error"),
        ],
        needs: &[Need::Digests],
        rows: Rows::Of(errors),
    },
];

fn query_digest(gathered: &Gathered) -> Vec<Row> {
    let hostgroups = Hostgroups::of(gathered);
    let of = |digest: &stats::digests::DigestRow| {
        let (name, figures) = (&digest.name, &digest.figures);
        let ran = figures.on_primary > 0 || figures.on_replicas > 0;
        let hostgroup = hostgroups.number(&name.cluster, figures.on_primary > 0);
        row![
            hostgroup.filter(|_| ran).unwrap_or(Hostgroups::NONE),
            &*name.schema,
            &*name.user,
            "",
            format!("0x{:016X}", name.hash),
            &*name.text,
            figures.statements,
            seconds(digest.first_seen),
            seconds(digest.last_seen),
            figures.time_us,
            figures.time_us_min.unwrap_or(0),
            figures.time_us_max,
            figures.rows_affected,
            figures.rows_sent,
        ]
    };
    gathered.digests.rows.iter().map(of).collect()
}

/// Upper bounds of the columns `cnt_…`, in microseconds; the last column has no bound.
const BOUNDS_US: [u64; 11] =
    [100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

fn commands_counters(gathered: &Gathered) -> Vec<Row> {
    let mut commands: BTreeMap<String, (u64, u64, stats::Snapshot)> = BTreeMap::new();
    for digest in &gathered.digests.rows {
        let word = digest.name.text.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty());
        let sums = commands.entry(word.unwrap_or("OTHER").to_ascii_uppercase()).or_default();
        sums.0 = sums.0.saturating_add(digest.figures.time_us);
        sums.1 += digest.figures.statements;
        sums.2.merge(&digest.spread.times());
    }
    let of = |(command, (time_us, statements, times)): (String, (u64, u64, stats::Snapshot))| {
        let mut row = row![command, time_us, statements];
        let mut below = 0;
        for bound in BOUNDS_US {
            let count = times.count_at_most(bound);
            row.push(Value::Integer(i64::try_from(count - below).unwrap_or(i64::MAX)));
            below = count;
        }
        row.extend(row![times.count() - below]);
        row
    };
    commands.into_iter().map(of).collect()
}

/// User, schema and code.
type ErrorKey = (Arc<str>, Arc<str>, u16);
/// How many, and the seconds of the first and the last one.
type ErrorSum = (u64, u64, u64);

fn errors(gathered: &Gathered) -> Vec<Row> {
    let mut sums: BTreeMap<ErrorKey, ErrorSum> = BTreeMap::new();
    for digest in &gathered.digests.rows {
        let seen = (seconds(digest.first_seen), seconds(digest.last_seen));
        for (code, count) in digest.spread.errors() {
            let key = (digest.name.user.clone(), digest.name.schema.clone(), code);
            let sum = sums.entry(key).or_insert((0, seen.0, seen.1));
            *sum = (sum.0 + count, sum.1.min(seen.0), sum.2.max(seen.1));
        }
    }
    let of = |((user, schema, code), (count, first, last)): (ErrorKey, ErrorSum)| {
        row![Hostgroups::NONE, "", 0_u16, &*user, "", &*schema, code, count, first, last, ""]
    };
    sums.into_iter().map(of).collect()
}
