//! The form of an event for readers: one JSON object a line.
//!
//! Fields are only ever added; [`VERSION`] grows when one changes its meaning. A field without a value is left out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::SystemTime;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::{BorrowedFormatItem, parse_borrowed};

use crate::event::{Admin, AnsweredBy, Body, Client, Ended, Event, Login, Params, Query, TurnedAway};
use crate::redaction::{ShownParam, Shows};
use crate::trace::{Id, Tags, Trace};

/// The version of the lines' form, in their field `v`.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    ts: &'a str,
    node: &'a str,
    kind: &'static str,
    session: u32,
    client: &'a str,
    user: &'a str,
    listener: &'a str,
    cluster: &'a str,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a str>,
    #[serde(flatten)]
    body: Fields<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "each is written at once, and never kept")]
enum Fields<'a> {
    Query(QueryFields<'a>),
    Login(LoginFields<'a>),
    Ended(EndedFields<'a>),
}

#[derive(Serialize)]
struct QueryFields<'a> {
    statement: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    trx: Option<TransactionId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    schema: &'a str,
    command: &'static str,
    digest: Hex,
    form: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    text_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Vec<ShownParam<'a>>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    params_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_rows: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rewritten: bool,
    answered_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pins: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorFields<'a>>,
    rows_sent: u64,
    rows_affected: u64,
    warnings: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gtid: Option<&'a str>,
    times: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<Id<16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<Id<8>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    traced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Tags<'a>>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    code: u16,
    sqlstate: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// Microseconds.
#[derive(Serialize)]
struct Times {
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    total: u64,
}

#[derive(Serialize)]
struct LoginFields<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    schema: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    times: Times,
}

#[derive(Serialize)]
struct EndedFields<'a> {
    reason: &'a str,
    times: Times,
}

/// A transaction: session and number.
struct TransactionId(u32, u32);

impl Serialize for TransactionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{}", self.0, self.1))
    }
}

/// A digest's hash, as the API and rules write it.
struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl Event {
    /// Appends the event's line.
    pub(crate) fn line(&self, seq: u64, node: &str, shows: Shows<'_>, times: &mut Timestamps, out: &mut Vec<u8>) {
        let client = &*self.client;
        let (kind, body) = match &self.body {
            Body::Query(query) if query.answered_by == AnsweredBy::Refused => {
                ("refused", query_fields(self.session, query, shows))
            }
            Body::Query(query) => ("query", query_fields(self.session, query, shows)),
            Body::Login(login) => ("login", login_fields(login)),
            Body::ChangeUser(login) => ("change_user", login_fields(login)),
            Body::Logout(ended) => ("logout", ended_fields(ended)),
            Body::TurnedAway(turned) => return put(&turned_away(turned, client, (seq, node, times.of(self.at))), out),
            Body::Admin(admin) => return put(&admin_line(admin, (seq, node, times.of(self.at))), out),
        };
        let line = Line {
            v: VERSION,
            seq,
            ts: times.of(self.at),
            node,
            kind,
            session: self.session,
            client: &client.address,
            user: &client.user,
            listener: &client.listener,
            cluster: &client.cluster,
            tls: client.tls,
            program: client.program.as_deref(),
            account: client.account.as_deref(),
            body,
        };
        put(&line, out);
    }
}

fn query_fields<'a>(session: u32, query: &'a Query, shows: Shows<'_>) -> Fields<'a> {
    let (answered_by, server, role) = match &query.answered_by {
        AnsweredBy::Server { name, primary } => {
            ("server", Some(&**name), Some(if *primary { "primary" } else { "replica" }))
        }
        AnsweredBy::Cache => ("cache", None, None),
        AnsweredBy::Sqluice => ("sqluice", None, None),
        AnsweredBy::Refused => ("nobody", None, None),
        AnsweredBy::Lost => ("lost", None, None),
    };
    let text = shows.text(query.text.as_ref());
    let text_cut = query.text_cut && text.is_some();
    let params = query.params.as_deref().filter(|_| text.is_some());
    let trace = query.trace.as_deref();
    Fields::Query(QueryFields {
        statement: query.statement,
        trx: (query.transaction != 0).then_some(TransactionId(session, query.transaction)),
        schema: &query.digest.schema,
        command: query.command,
        digest: Hex(query.digest.hash),
        form: &query.digest.text,
        text,
        text_cut,
        params: params.map(|params| shows.params(params)),
        params_cut: params.is_some_and(Params::is_cut),
        bulk_rows: query.bulk_rows,
        rewritten: query.rewritten,
        answered_by,
        server,
        role,
        route_reason: query.route_reason,
        rule: query.rule.as_deref(),
        pins: &query.pins,
        error: query.error.as_ref().map(|error| ErrorFields {
            code: error.code,
            sqlstate: std::str::from_utf8(&error.sqlstate).unwrap_or("HY000"),
            // It may quote literals.
            text: shows.messages().then_some(&*error.text),
        }),
        rows_sent: query.rows_sent,
        rows_affected: query.rows_affected,
        warnings: query.warnings,
        bytes_in: query.bytes_in,
        bytes_out: query.bytes_out,
        gtid: query.gtid.as_deref(),
        times: Times {
            wait: server.map(|_| query.wait_us),
            first: server.map(|_| query.first_us),
            total: query.total_us,
        },
        trace_id: trace.and_then(|trace| trace.trace_id).map(Id),
        span_id: trace.and_then(|trace| trace.caller).map(Id),
        traced: trace.is_some_and(|trace| trace.spans),
        tags: trace.and_then(Trace::tags),
    })
}

fn login_fields(login: &Login) -> Fields<'_> {
    Fields::Login(LoginFields {
        schema: &login.schema,
        ok: login.failure.is_none(),
        reason: login.failure.as_deref(),
        times: Times { wait: None, first: None, total: login.total_us },
    })
}

fn ended_fields(ended: &Ended) -> Fields<'_> {
    Fields::Ended(EndedFields {
        reason: &ended.reason,
        times: Times { wait: None, first: None, total: ended.total_us },
    })
}

#[derive(Serialize)]
struct TurnedAwayLine<'a> {
    v: u32,
    seq: u64,
    ts: &'a str,
    node: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    listener: &'a str,
    cluster: &'a str,
    ok: bool,
    error: ErrorFields<'a>,
    reason: &'a str,
    count: u64,
}

/// `head`: number, node and time.
fn turned_away<'a>(turned: &'a TurnedAway, client: &'a Client, head: (u64, &'a str, &'a str)) -> TurnedAwayLine<'a> {
    let (seq, node, ts) = head;
    TurnedAwayLine {
        v: VERSION,
        seq,
        ts,
        node,
        kind: "login_refused",
        client: &client.address,
        listener: &client.listener,
        cluster: &client.cluster,
        ok: false,
        error: ErrorFields { code: turned.code, sqlstate: "08004", text: None },
        reason: &turned.reason,
        count: turned.count,
    }
}

#[derive(Serialize)]
struct AdminLine<'a> {
    v: u32,
    seq: u64,
    ts: &'a str,
    node: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    user: &'a str,
    way: &'static str,
    action: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    order: &'a str,
    ok: bool,
    result: &'a str,
}

/// `head`: number, node and time.
fn admin_line<'a>(admin: &'a Admin, head: (u64, &'a str, &'a str)) -> AdminLine<'a> {
    let (seq, node, ts) = head;
    let Admin { way, role, client, action, order, ok, result } = admin;
    AdminLine { v: VERSION, seq, ts, node, kind: "admin", client, user: role, way, action, order, ok: *ok, result }
}

/// The line of a gap: the numbers `from` to `to` were those of events that were lost.
pub(crate) fn gap(from: u64, lost: u64, node: &str, at: SystemTime, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Gap<'a> {
        v: u32,
        seq: u64,
        ts: String,
        node: &'a str,
        kind: &'static str,
        from: u64,
        to: u64,
        lost: u64,
    }
    let to = from.saturating_add(lost.saturating_sub(1));
    put(&Gap { v: VERSION, seq: from, ts: timestamp(at), node, kind: "gap", from, to, lost }, out);
}

/// The line of a start. Events of the moment before may be missing if the process was killed.
pub(crate) fn start(seq: u64, node: &str, at: SystemTime, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Start<'a> {
        v: u32,
        seq: u64,
        ts: String,
        node: &'a str,
        kind: &'static str,
        version: &'static str,
    }
    let version = env!("CARGO_PKG_VERSION");
    put(&Start { v: VERSION, seq, ts: timestamp(at), node, kind: "start", version }, out);
}

fn put(line: &impl Serialize, out: &mut Vec<u8>) {
    let begin = out.len();
    // Memory takes all bytes, and every field is text or a number.
    if serde_json::to_writer(&mut *out, line).is_err() {
        out.truncate(begin);
        return;
    }
    out.push(b'\n');
}

/// RFC 3339 in UTC, to the microsecond.
static TIMESTAMP: LazyLock<Vec<BorrowedFormatItem<'static>>> = LazyLock::new(|| {
    let format = "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z";
    parse_borrowed::<2>(format).unwrap_or_default()
});

fn timestamp(at: SystemTime) -> String {
    OffsetDateTime::from(at).format(&*TIMESTAMP).unwrap_or_default()
}

/// Timestamps of lines that follow each other: most are of the same second, of which only the digits behind it differ.
#[derive(Debug, Default)]
pub(crate) struct Timestamps {
    /// Seconds since 1970 of the last one.
    second: u64,
    text: String,
}

impl Timestamps {
    /// The timestamp of this moment.
    fn of(&mut self, at: SystemTime) -> &str {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let whole = "1970-01-01T00:00:00.".len();
        if self.second != since.as_secs() || self.text.len() < whole {
            self.second = since.as_secs();
            self.text = timestamp(at);
        }
        self.text.truncate(whole);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{:06}Z", since.subsec_micros());
        &self.text
    }
}

#[cfg(test)]
mod tests;
