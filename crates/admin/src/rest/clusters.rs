//! `/api/v1/clusters`: what is known of each cluster, and what an operator can ask for.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use facts::command::{Accepted, Command, Refused};
use facts::view::ServerView;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::request::{Action, ActionRequest, WAIT_MAX};
use super::digests::json_page;
use crate::shared::Shared;
use crate::status::{ChangeFigures, ChannelReport, ClusterStatus, JournalLine, LineKind, Lines, ServerFigures};
use crate::steering::Answer;

/// Lines of the journal that go with a cluster.
const TAIL: usize = 20;
/// Lines of the journal that are told without `limit`.
const JOURNAL_DEFAULT: usize = 100;
/// How often the connections to a server that is drained are counted, while somebody waits.
const USED_LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the cluster's answer to a command; it never waits for a server.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// GET: all clusters.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let clusters: Vec<Value> = shared.clusters().values().map(|status| describe(&**status)).collect();
    json_page(&json!({ "clusters": clusters }))
}

/// GET: one cluster.
pub(super) async fn one(State(shared): State<Arc<Shared>>, Path(cluster): Path<String>) -> Result<Response, Mistake> {
    Ok(json_page(&describe(&*find(&shared, &cluster)?)))
}

/// GET: the newest lines of a cluster's journal, oldest first; `limit` says how many, `run` of which run.
pub(super) async fn journal(
    State(shared): State<Arc<Shared>>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Mistake> {
    let status = find(&shared, &cluster)?;
    let (mut limit, mut run) = (JOURNAL_DEFAULT, None);
    for pair in query.as_deref().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = value.parse::<u64>().map_err(|_| Mistake::request(format!("{key} is a whole number")));
        match key {
            "limit" => limit = usize::try_from(number?).unwrap_or(usize::MAX),
            "run" => run = Some(number?),
            _ => return Err(Mistake::request("there are limit and run only".to_owned())),
        }
    }
    let which = run.map_or(Lines::All, Lines::OfRun);
    Ok(json_page(&json!({ "journal": lines(&*status, &status.journal(which, limit)) })))
}

/// PUT: something that concerns the whole cluster.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    Path((cluster, action)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, Mistake> {
    let status = find(&shared, &cluster)?;
    carry_out(&shared, &*status, Action::named(&action, Action::OF_CLUSTERS)?, None, &body).await
}

/// PUT: something that concerns one server.
pub(super) async fn act_on_server(
    State(shared): State<Arc<Shared>>,
    Path((cluster, server, action)): Path<(String, String, String)>,
    body: Bytes,
) -> Result<Response, Mistake> {
    let status = find(&shared, &cluster)?;
    carry_out(&shared, &*status, Action::named(&action, Action::OF_SERVERS)?, Some(&server), &body).await
}

/// PUT: a server becomes a replica again.
pub(super) async fn rejoin(
    State(shared): State<Arc<Shared>>,
    Path((cluster, server)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, Mistake> {
    let status = find(&shared, &cluster)?;
    carry_out(&shared, &*status, Action::Rejoin, Some(&server), &body).await
}

async fn carry_out(
    shared: &Shared,
    status: &dyn ClusterStatus,
    action: Action,
    server: Option<&str>,
    body: &[u8],
) -> Result<Response, Mistake> {
    let request = ActionRequest::read(action, body).map_err(Mistake::request)?;
    let view = status.published().view.load_full();
    let named = |name: &str| {
        view.server_named(name).map(|server| server.id).ok_or_else(|| {
            let known = view.servers.iter().map(|server| server.name.to_string());
            Mistake::unknown(format!("cluster {} has no server {name:?}", status.name()), known)
        })
    };
    let command = request.command(action, server, named)?;
    let began = Instant::now();
    Ok(match ask(shared, status.name(), command).await? {
        Err(refused) => refusal(&refused),
        Ok(accepted) => {
            let end = match accepted.run {
                Some(run) if !request.dry_run => wait(status, run, began + request.wait.unwrap_or(WAIT_MAX)).await,
                _ => None,
            };
            let (code, mut page) = answer(status, &accepted, request.dry_run, end, began.elapsed());
            if let (true, Action::Drain | Action::Maintenance, Some(server)) = (request.dry_run, action, server) {
                page["connections"] = used(shared, status.name(), server).into();
                return Ok((code, json_page(&page)).into_response());
            }
            if let (Some(wait), Action::Drain | Action::Maintenance, Some(server)) = (request.wait, action, server) {
                let left = wait_unused(shared, status.name(), server, began + wait).await;
                page["connections"] = left.into();
                page["result"] = if left == 0 { "finished" } else { "running" }.into();
                page["took_ms"] = (began.elapsed().as_millis() as u64).into();
                let code = if left == 0 { StatusCode::OK } else { StatusCode::ACCEPTED };
                return Ok((code, json_page(&page)).into_response());
            }
            (code, json_page(&page)).into_response()
        }
    })
}

/// Gives the command to the cluster.
async fn ask(shared: &Shared, cluster: &str, command: Command) -> Result<Answer, Mistake> {
    let busy = |_| Mistake::busy("too many commands wait already; try again");
    let waiting = shared.steering.command(cluster, command).map_err(busy)?;
    match tokio::time::timeout(ANSWER_WAIT, waiting).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Mistake::busy("the cluster is no longer watched")),
        Err(_) => Err(Mistake::busy("the cluster's task does not answer; look at its journal before you try again")),
    }
}

/// The line that ended a run; `None` when it goes on.
async fn wait(status: &dyn ClusterStatus, run: u64, until: Instant) -> Option<JournalLine> {
    let mut changes = status.journal_changes();
    loop {
        changes.borrow_and_update();
        if let Some(end) = status.journal(Lines::EndOf(run), 1).pop() {
            return Some(end);
        }
        match tokio::time::timeout_at(until, changes.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
    }
}

/// How many connections to a server sessions still use when none is left, or the time is over.
async fn wait_unused(shared: &Shared, cluster: &str, server: &str, until: Instant) -> u64 {
    loop {
        let left = used(shared, cluster, server);
        if left == 0 || Instant::now() >= until {
            return left;
        }
        // Workers count; they tell nobody.
        tokio::time::sleep_until(until.min(Instant::now() + USED_LOOK)).await;
    }
}

/// How many connections to a server sessions use now.
fn used(shared: &Shared, cluster: &str, server: &str) -> u64 {
    let of_worker = |worker: &Arc<stats::WorkerStats>| -> i64 {
        let servers = worker.servers().into_iter();
        servers.filter(|of| *of.cluster == *cluster && *of.server == *server).map(|of| of.stats.used.get()).sum()
    };
    u64::try_from(shared.workers.iter().map(of_worker).sum::<i64>()).unwrap_or(0)
}

fn answer(
    status: &dyn ClusterStatus,
    accepted: &Accepted,
    dry_run: bool,
    end: Option<JournalLine>,
    took: Duration,
) -> (StatusCode, Value) {
    let of_run = accepted.run.filter(|_| !dry_run).map(Lines::OfRun);
    let journal = of_run.map_or_else(Vec::new, |of_run| status.journal(of_run, usize::MAX));
    let (code, result) = match (&end, accepted.run) {
        _ if dry_run => (StatusCode::OK, "dry_run"),
        (_, None) => (StatusCode::OK, "done"),
        (None, Some(_)) => (StatusCode::ACCEPTED, "running"),
        (Some(end), _) if end.kind == LineKind::Finished => (StatusCode::OK, "finished"),
        (Some(_), _) => (StatusCode::CONFLICT, "aborted"),
    };
    let mut page = json!({
        "cluster": &**status.name(),
        "result": result,
        "run": accepted.run,
        "steps": accepted.steps,
        "others": accepted.others,
        "warnings": accepted.warnings,
        "took_ms": took.as_millis() as u64,
        "primary": primary(status),
        "timings": timings(&journal),
        "journal": lines(status, &journal),
    });
    if let (StatusCode::CONFLICT, Some(end)) = (code, end) {
        page["error"] = end.text.into();
    }
    (code, page)
}

/// How long each step took.
fn timings(lines: &[JournalLine]) -> Vec<Value> {
    let mut begun = BTreeMap::new();
    let mut out = Vec::new();
    for line in lines {
        match line.kind {
            LineKind::Step => drop(begun.insert(line.step, line)),
            LineKind::Done | LineKind::Failed => {
                let Some(start) = begun.remove(&line.step) else { continue };
                let took = line.at.duration_since(start.at).unwrap_or_default();
                out.push(json!({
                    "step": start.text,
                    "server": start.server.as_deref(),
                    "ms": took.as_millis() as u64,
                    "ok": line.kind == LineKind::Done,
                    "text": line.text,
                }));
            }
            LineKind::Decision | LineKind::Finished | LineKind::Aborted | LineKind::Advice => {}
        }
    }
    out
}

pub(super) fn find(shared: &Shared, name: &str) -> Result<Arc<dyn ClusterStatus>, Mistake> {
    let clusters = shared.clusters();
    clusters.get(name).cloned().ok_or_else(|| {
        Mistake::unknown(format!("there is no cluster {name:?}"), clusters.keys().map(|name| name.to_string()))
    })
}

fn refusal(refused: &Refused) -> Response {
    let page = json!({ "error": refused.reason, "others": refused.others });
    (StatusCode::CONFLICT, json_page(&page)).into_response()
}

/// A request that cannot be answered as it is.
#[derive(Debug)]
pub(super) struct Mistake {
    code: StatusCode,
    words: String,
    /// The names that exist instead.
    known: Vec<String>,
}

impl Mistake {
    pub(super) fn request(words: String) -> Mistake {
        Mistake { code: StatusCode::BAD_REQUEST, words, known: Vec::new() }
    }

    pub(super) fn unknown(words: String, known: impl Iterator<Item = String>) -> Mistake {
        Mistake { code: StatusCode::NOT_FOUND, words, known: known.collect() }
    }

    fn busy(words: &str) -> Mistake {
        Mistake { code: StatusCode::SERVICE_UNAVAILABLE, words: words.to_owned(), known: Vec::new() }
    }
}

impl IntoResponse for Mistake {
    fn into_response(self) -> Response {
        let mut page = json!({ "error": self.words });
        if !self.known.is_empty() {
            page["known"] = self.known.into();
        }
        (self.code, json_page(&page)).into_response()
    }
}

fn lines(status: &dyn ClusterStatus, journal: &[JournalLine]) -> Vec<Value> {
    journal.iter().map(|line| line.json(status.name())).collect()
}

pub(super) fn primary(status: &dyn ClusterStatus) -> Option<String> {
    let view = status.published().view.load();
    Some(view.server(view.primary?)?.name.to_string())
}

fn describe(status: &dyn ClusterStatus) -> Value {
    let view = status.published().view.load_full();
    let figures = status.figures();
    let servers: Vec<Value> =
        view.servers.iter().map(|server| describe_server(server, figures.servers.get(&server.name))).collect();
    let diagnoses: Vec<Value> = figures
        .diagnoses
        .iter()
        .map(|diagnosis| json!({ "name": diagnosis.name, "severe": diagnosis.severe, "text": diagnosis.text }))
        .collect();
    let decision = status.journal(Lines::Decisions, 1).pop().map(|line| line.json(status.name()));
    json!({
        "name": &**status.name(),
        "view": view.number,
        "epoch": view.epoch,
        "primary": primary(status),
        "hold_writes": view.hold_writes,
        "failover": figures.failover,
        "lease": figures.lease.map(|words| json!({ "held": figures.lease_held, "text": words })),
        "changes": figures.changes.as_ref().map(describe_changes),
        "servers": servers,
        "diagnoses": diagnoses,
        "last_decision": decision,
        "journal": lines(status, &status.journal(Lines::All, TAIL)),
    })
}

fn describe_changes(figures: &ChangeFigures) -> Value {
    json!({
        "age_ms": figures.as_of.map(|as_of| as_of.elapsed().as_millis() as u64),
        "tables": figures.tables,
        "everything": figures.everything,
        "losses": figures.losses,
    })
}

fn describe_server(server: &ServerView, figures: Option<&ServerFigures>) -> Value {
    let lag = figures.and_then(|figures| figures.lag).or(server.lag);
    let mut page = json!({
        "name": &*server.name,
        "address": &*server.address,
        "role": server.role.word(),
        "health": server.health.word(),
        "lag_ms": lag.map(|lag| lag.as_millis() as u64),
        "serves_reads": server.serves_reads,
        "fenced": server.fenced,
        "reason": &*server.reason,
        "weight": server.weight,
        "zone": &*server.zone,
    });
    if let Some(report) = figures.and_then(|figures| figures.report.as_ref()) {
        page["version"] = (&*report.version).into();
        page["read_only"] = report.read_only.into();
        page["gtid_executed"] = (&*report.gtid_executed).into();
        page["semi_sync"] = report.semi_sync.into();
        let channel = |channel: &ChannelReport| {
            json!({
                "name": &*channel.name,
                "source": channel.source,
                "receiver": channel.receiver,
                "applier": channel.applier,
                "gtid_received": &*channel.gtid_received,
                "error": &*channel.error,
            })
        };
        page["channels"] = report.channels.iter().map(channel).collect();
    }
    page
}
