//! `/api/v1/cache/digests` and `/api/v1/cache/candidates`: what the result cache did for statements of one form, and for which it
//! would be worth a rule.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cache::Refusal;
use serde_json::{Map, Value, json};
use sql::{DIGEST_TEXT_MAX, Dialect, Encoding, Family, Kind, Modes, NoFunctions};
use stats::digests::{CachedFigures, DigestName, DigestReport, DigestRow, Order, TTLS, merge};

use super::digests::json_page;
use super::query::pairs;
use crate::digests::ask_digests;
use crate::shared::Shared;

/// Entries that are told without `limit`.
const LIMIT_DEFAULT: usize = 20;
/// Longest text that becomes an expression in a rule; a longer one is named by its hash.
const REGEX_TEXT_MAX: usize = 1_000;

/// GET: what came of the forms for which some rule asks the cache, most time saved first.
pub(super) async fn digests(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let list_query = match ListQuery::parse(query.as_deref().unwrap_or_default()) {
        Ok(list_query) => list_query,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    json_page(&page(merge(ask_digests(&*shared.digests, false).await, Order::Time), list_query.limit))
}

/// GET: reads that a rule could have had answered, most time saved first.
pub(super) async fn candidates(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let list_query = match ListQuery::parse(query.as_deref().unwrap_or_default()) {
        Ok(list_query) => list_query,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    json_page(&list(&merge(ask_digests(&*shared.digests, false).await, Order::Time), &list_query))
}

/// The parameters of a request.
#[derive(Debug, PartialEq, Eq)]
struct ListQuery {
    limit: usize,
    /// The TTL that rules shall have, by its place in [`TTLS`].
    ttl: usize,
}

impl ListQuery {
    fn parse(query: &str) -> Result<ListQuery, String> {
        let mut list_query = ListQuery { limit: LIMIT_DEFAULT, ttl: 0 };
        for (key, value) in pairs(query) {
            match &*key {
                "limit" => list_query.limit = value.parse().map_err(|_| "limit is a whole number\n")?,
                "ttl_ms" => {
                    let place = TTLS.iter().position(|ttl| ttl.as_millis().to_string() == value);
                    let words = TTLS.map(|ttl| ttl.as_millis().to_string()).join(", ");
                    list_query.ttl = place.ok_or_else(|| format!("ttl_ms is one of {words}\n"))?;
                }
                _ => return Err("there are limit and ttl_ms only\n".to_owned()),
            }
        }
        Ok(list_query)
    }
}

fn page(report: DigestReport, limit: usize) -> Value {
    let mut rows: Vec<&DigestRow> = report.rows.iter().filter(|row| !row.cached.is_empty()).collect();
    rows.sort_by_key(|row| (Reverse(row.cached.saved_us), Reverse(row.figures.time_us)));
    let entries = rows.len();
    let rows: Vec<Value> = rows.into_iter().take(limit).map(cached_row).collect();
    json!({ "digests": rows, "others": figures(&report.others_cached), "entries": entries })
}

fn cached_row(row: &DigestRow) -> Value {
    let mut fields = name(&row.name);
    fields.insert("statements".into(), row.figures.statements.into());
    fields.append(&mut figures(&row.cached));
    fields.into()
}

fn name(name: &DigestName) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("hash".into(), format!("{:016x}", name.hash).into());
    for (key, text) in [("text", &name.text), ("user", &name.user), ("schema", &name.schema)] {
        fields.insert(key.into(), (&**text).into());
    }
    fields
}

fn figures(of: &CachedFigures) -> Map<String, Value> {
    let word = |reason: u8| Refusal::WORDS.get(usize::from(reason)).copied().unwrap_or_default();
    let refused: Map<String, Value> =
        of.refused.iter().map(|(reason, times)| (word(*reason).to_owned(), (*times).into())).collect();
    let counts = [("hits", of.hits), ("misses", of.misses), ("saved_us", of.saved_us), ("bytes", of.bytes)];
    let mut fields: Map<String, Value> =
        counts.into_iter().map(|(key, count)| (key.to_owned(), count.into())).collect();
    fields.insert("refused".into(), refused.into());
    fields
}

/// A form that may be kept.
struct Candidate<'a> {
    row: &'a DigestRow,
    /// Servers' time for one statement, in microseconds.
    each_us: u64,
    /// How many statements were looked at, and what was asked before of these, for each of [`TTLS`].
    asked: u64,
    hits: [u64; TTLS.len()],
    /// Statements that servers ran.
    runs: u64,
    /// Statements that wrote one of its tables.
    writes: u64,
}

impl Candidate<'_> {
    fn saved_us(&self, ttl: usize) -> u64 {
        let (hits, asked) = (self.hits.get(ttl).copied().unwrap_or_default(), self.asked.max(1));
        // The others were asked as often, as far as anybody knows.
        let all = u128::from(hits) * u128::from(self.runs.max(self.asked)) / u128::from(asked);
        u64::try_from(all).unwrap_or(u64::MAX).saturating_mul(self.each_us)
    }
}

fn list(report: &DigestReport, list_query: &ListQuery) -> Value {
    let dialect = Dialect { family: Family::MariaDb, version: 0, modes: Modes::empty(), encoding: Encoding::Utf8 };
    let mut written: HashMap<(String, String), u64> = HashMap::new();
    let mut candidates = Vec::new();
    let mut refused = Vec::new();
    for row in &report.rows {
        // A list without its values is none that the server would read.
        let text = row.name.text.replace("(...)", "(?)");
        let statement = sql::classify(text.as_bytes(), &dialect, &NoFunctions);
        let tables = statement.tables(text.as_bytes(), &dialect).as_ref().ok();
        let named = |table: &sql::TableName| {
            (table.schema.as_deref().unwrap_or(&row.name.schema).to_owned(), table.name.to_string())
        };
        for table in tables.into_iter().flat_map(|tables| &tables.written) {
            *written.entry(named(table)).or_default() += row.figures.statements;
        }
        let runs = row.figures.on_primary + row.figures.on_replicas;
        if statement.kind != Kind::Select || runs == 0 {
            continue;
        }
        let cut = (text.len() >= DIGEST_TEXT_MAX).then_some("too_long");
        let judged = cache::judge(&statement, text.as_bytes(), &dialect).map_err(Refusal::word);
        if let Some(reason) = cut.or(judged.err()) {
            refused.push((row, reason));
            continue;
        }
        let looked_at = row.questions.as_ref().map(|questions| (questions.asked(), questions.hits()));
        let (asked, hits) = looked_at.unwrap_or_default();
        let each_us = row.figures.time_us / runs;
        let reads: Vec<_> = tables.into_iter().flat_map(|tables| &tables.read).map(named).collect();
        candidates.push((Candidate { row, each_us, asked, hits, runs, writes: 0 }, reads));
    }
    let mut candidates: Vec<Candidate<'_>> = candidates
        .into_iter()
        .map(|(candidate, reads)| {
            let writes = reads.iter().filter_map(|table| written.get(table)).sum();
            Candidate { writes, ..candidate }
        })
        .filter(|candidate| candidate.saved_us(list_query.ttl) > 0 || candidate.row.cached.hits > 0)
        .collect();
    let saved = |candidate: &Candidate<'_>| candidate.saved_us(list_query.ttl).max(candidate.row.cached.saved_us);
    candidates.sort_by_key(|candidate| (Reverse(saved(candidate)), candidate.row.name.hash));
    let entries = candidates.len();
    let reported: Vec<Value> =
        candidates.iter().take(list_query.limit).map(|one| candidate(one, list_query.ttl)).collect();
    let refused: Vec<Value> =
        refused.iter().take(list_query.limit).map(|(row, reason)| not_kept(row, reason)).collect();
    json!({
        "ttl_ms": TTLS.get(list_query.ttl).map(|ttl| ttl.as_millis() as u64),
        "candidates": reported,
        "entries": entries,
        "not_cacheable": refused,
    })
}

fn candidate(of: &Candidate<'_>, ttl: usize) -> Value {
    let mut fields = name(&of.row.name);
    let counts = [
        ("statements", of.row.figures.statements),
        ("asked", of.asked),
        ("time_us", of.row.figures.time_us),
        ("writes", of.writes),
        ("saved_us", of.saved_us(ttl)),
    ];
    fields.extend(counts.into_iter().map(|(key, count)| (key.to_owned(), count.into())));
    let hits: Map<String, Value> =
        TTLS.iter().zip(of.hits).map(|(ttl, hits)| (ttl.as_millis().to_string(), hits.into())).collect();
    fields.insert("hits".into(), hits.into());
    let measured = (!of.row.cached.is_empty()).then(|| figures(&of.row.cached));
    fields.insert("measured".into(), measured.map_or(Value::Null, Value::from));
    fields.insert("rule".into(), rule(&of.row.name, ttl).into());
    fields.into()
}

fn not_kept(row: &DigestRow, reason: &str) -> Value {
    let mut fields = name(&row.name);
    fields.insert("time_us".into(), row.figures.time_us.into());
    fields.insert("reason".into(), reason.into());
    fields.into()
}

/// A rule for the configuration.
fn rule(name: &DigestName, ttl: usize) -> String {
    // The form of JSON's text is one of TOML's.
    let quoted = |text: &str| Value::from(text).to_string();
    let is_plain = !name.text.contains('\'') && !name.text.chars().any(char::is_control);
    let matcher = if is_plain && name.text.len() <= REGEX_TEXT_MAX {
        format!("digest_regex = '^{}$'", escaped(&name.text))
    } else {
        format!("digest = \"{:016x}\"", name.hash)
    };
    let schema = if name.schema.is_empty() { String::new() } else { format!("schema = {}\n", quoted(&name.schema)) };
    let ttl = TTLS.get(ttl).map_or(0, |ttl| ttl.as_millis());
    format!(
        "[[rule]]\nname = \"cache-{:016x}\"\n{matcher}\nuser = {}\n{schema}cache = \"advise\"\ncache_ttl_ms = {ttl}\n",
        name.hash,
        quoted(&name.user)
    )
}

/// A text as a regular expression that finds it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;
