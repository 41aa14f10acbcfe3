//! Harm to one server.

use std::thread;
use std::time::Duration;

use anyhow::bail;
use lab::Family;
use serde_json::Value;

use crate::api;
use crate::room;
use crate::stage::{Stage, primary_of};

/// How long a harm lasts that is taken back.
pub(super) const LASTS: Duration = Duration::from_secs(5);
/// A server that waits for room on its disk looks once a minute.
const DISK_LIMIT: Duration = Duration::from_secs(120);
/// From the new primary to the return of the old one.
pub(super) const AWAY: Duration = Duration::from_secs(1);

pub(super) fn kill(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.server(0).kill9();
    Ok(event)
}

pub(super) fn kill_replica(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.server(2).kill9();
    Ok(event)
}

pub(super) fn freeze(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.server(0).freeze()?;
    stage.watch(LASTS);
    stage.world.server(0).thaw()?;
    comes_back_tame(stage)?;
    Ok(event)
}

pub(super) fn cut(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    room::cut(0)?;
    stage.watch(LASTS);
    room::heal(0)?;
    comes_back_tame(stage)?;
    Ok(event)
}

pub(super) fn back(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = kill(stage)?;
    stage.wait_until("another primary", |page| primary_of(page).is_some_and(|index| index != 0))?;
    stage.watch(AWAY);
    stage.world.server(0).restart()?;
    comes_back_tame(stage)?;
    Ok(event)
}

/// Waits until the old primary follows, or is kept out read-only.
fn comes_back_tame(stage: &mut Stage) -> anyhow::Result<()> {
    let began = stage.clock.now_ms();
    let page = stage.wait_until("the old primary to follow, or to be kept out", |page| {
        let old = &page["servers"][0];
        old["health"] == "up" && old["read_only"] == true && (follows(old) || is_ahead(page))
    })?;
    let took = stage.clock.now_ms() - began;
    let text = match page["diagnoses"].as_array().into_iter().flatten().find(|one| one["name"] == "server_ahead") {
        Some(ahead) => format!("kept out after {took:.0} ms: {}", ahead["text"].as_str().unwrap_or_default()),
        None => format!("the old primary follows after {took:.0} ms"),
    };
    stage.notes.push(text);
    if stage.world.server(0).sql("SELECT @@global.read_only")?.trim() == "0" {
        stage.violations.push("the old primary takes writes".into());
    }
    Ok(())
}

fn follows(server: &Value) -> bool {
    server["role"] == "replica" && server["serves_reads"] == true
}

fn is_ahead(page: &Value) -> bool {
    page["diagnoses"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "server_ahead"))
}

pub(super) fn switchover(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    let admin = stage.fronts[stage.asked].admin;
    let (status, page) = api::ask(admin, "PUT", "/switchover", r#"{"to": "db2"}"#)?;
    if status != 200 {
        bail!("the switchover ends with {status}: {page}");
    }
    stage.notes.push(format!("the API says it took {} ms", page["took_ms"]));
    Ok(event)
}

/// Both kinds at once: an applier that does not run, which shows in its status, and one that runs and gets nowhere.
pub(super) fn lag(stage: &mut Stage) -> anyhow::Result<f64> {
    let (stop, start) = match stage.world.server(1).family() {
        Family::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
        Family::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
    };
    let event = stage.clock.now_ms();
    stage.world.server(1).sql(stop)?;
    let hang = format!("FLUSH TABLES WITH READ LOCK; DO SLEEP({}); UNLOCK TABLES", LASTS.as_secs());
    thread::scope(|scope| {
        // A client of its own holds the lock for as long.
        let hanging = scope.spawn(|| stage.world.server(2).sql(&hang).map(drop));
        thread::sleep(LASTS);
        hanging.join().unwrap_or(Ok(()))
    })?;
    stage.world.server(1).sql(start)?;
    stage.wait_until("both replicas to serve again", |page| {
        page["servers"].as_array().is_some_and(|all| all.iter().filter(|server| follows(server)).count() == 2)
    })?;
    Ok(event)
}

/// Nothing that the old primary is asked can be done before it has room again, so it must not be needed.
pub(super) fn disk(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.fill_disk()?;
    stage.wait_until("another primary", |page| primary_of(page).is_some_and(|index| index != 0))?;
    if !stage.diagnoses.iter().any(|name| name == "cannot_write" || name == "disk_full") {
        stage.violations.push("nobody says that the primary cannot write".into());
    }
    stage.watch(AWAY);
    stage.world.empty_disk()?;
    if !stage.world.server(0).is_running() {
        // MySQL ends itself when sessions that wait for room are ended (binlog_error_action).
        stage.notes.push("the old primary ended itself".into());
        stage.world.server(0).restart()?;
    }
    // It looks for room once a minute.
    stage.wait_long_until(DISK_LIMIT, "the old primary to refuse writes", |page| {
        page["servers"][0]["read_only"] == true
    })?;
    comes_back_tame(stage)?;
    Ok(event)
}

pub(super) fn full(stage: &mut Stage) -> anyhow::Result<f64> {
    let event = stage.clock.now_ms();
    stage.world.fill_disk()?;
    stage.watch(LASTS);
    let page = stage.status()?;
    stage.notes.push(format!("while it is full the primary is {}", page["primary"]));
    stage.world.empty_disk()?;
    if !stage.load.wait_for_writes(50, Duration::from_secs(60)) {
        stage.violations.push("writes do not go on when the disk has room again".into());
    }
    Ok(event)
}
