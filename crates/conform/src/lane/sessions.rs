//! The sessions of a script that runs: each of them twice, directly and through Sqluice.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use net::query::Client;

use super::SOON;
use super::house::House;
use crate::client::{Entrance, Probe};
use crate::differences::Differences;
use crate::script::{Action, Script};

/// One session of a script.
pub(super) struct Pair {
    pub(super) direct: Probe,
    pub(super) through: Probe,
}

/// The outcome of a step.
pub(super) enum Met {
    Same,
    /// Another session held the only connection.
    Nothing,
    Difference {
        at_login: bool,
        direct: Vec<String>,
        through: Vec<String>,
    },
}

pub(super) struct Sessions {
    pairs: HashMap<usize, Pair>,
    /// Sessions that Sqluice has beside those of the script.
    others: usize,
    /// They share one connection.
    shared: bool,
    /// Sessions that are known to keep it.
    holders: HashSet<usize>,
    pins: i64,
}

impl Sessions {
    /// No sessions yet; Sqluice has so many `others`.
    pub(super) fn new(script: &Script, others: usize) -> Sessions {
        Sessions { pairs: HashMap::new(), others, shared: script.shared, holders: HashSet::new(), pins: 0 }
    }

    pub(super) fn find(&mut self, session: usize) -> Option<&mut Pair> {
        self.pairs.get_mut(&session)
    }

    /// Whether a session would wait for the connection that another one keeps.
    pub(super) async fn waits(&mut self, session: usize, house: &House) -> anyhow::Result<bool> {
        if !self.shared {
            return Ok(false);
        }
        self.note(None, house).await?;
        Ok(!self.holders.is_empty() && !self.holders.contains(&session))
    }

    /// Notes who keeps the connection, after a step of this session.
    async fn note(&mut self, session: Option<usize>, house: &House) -> anyhow::Result<()> {
        if self.shared && house.pins() > 0 {
            house.settles().await?;
        }
        let pins = house.pins();
        if pins == 0 {
            self.holders.clear();
        } else if pins > self.pins {
            self.holders.extend(session);
        }
        self.pins = pins;
        Ok(())
    }

    /// Logs a session in that is not there: `None` when it is there then.
    pub(super) async fn enter(
        &mut self,
        session: usize,
        entrances: [Entrance; 2],
        differences: &Differences,
    ) -> anyhow::Result<Option<Met>> {
        if self.pairs.contains_key(&session) {
            return Ok(None);
        }
        let [direct, through] = entrances;
        let through = Probe::connect(through, differences).await.context("through Sqluice")?;
        if through.as_ref().err().is_some_and(|line| self.shared && line == "login refused 1203") {
            return Ok(Some(Met::Nothing));
        }
        let (direct, direct_said) = split(Probe::connect(direct, differences).await?);
        let (through, through_said) = split(through);
        if direct_said != through_said {
            let (direct, through) = (vec![direct_said], vec![through_said]);
            return Ok(Some(Met::Difference { at_login: true, direct, through }));
        }
        let (Some(direct), Some(through)) = (direct, through) else { return Ok(Some(Met::Same)) };
        self.pairs.insert(session, Pair { direct, through });
        Ok(None)
    }

    /// Does one step on both sides.
    pub(super) async fn act(
        &mut self,
        session: usize,
        action: &Action,
        differences: &Differences,
        house: &House,
        control: &mut Client,
    ) -> anyhow::Result<Met> {
        if matches!(action, Action::Quit | Action::Cut) {
            self.leave(session, *action == Action::Quit, house, control).await?;
            return Ok(Met::Same);
        }
        if self.shared && *action == Action::Reconnect {
            // It enters with its next step, which may have to wait.
            self.leave(session, true, house, control).await?;
            return Ok(Met::Same);
        }
        let Some(pair) = self.pairs.get_mut(&session) else { bail!("no session {session}") };
        let through = pair.through.act(action, differences).await?;
        if self.shared && through.first().is_some_and(|line| waited(line)) {
            if broke(&through) {
                self.leave(session, true, house, control).await?;
            }
            return Ok(Met::Nothing);
        }
        let direct = pair.direct.act(action, differences).await?;
        self.note(Some(session), house).await?;
        if direct != through {
            return Ok(Met::Difference { at_login: false, direct, through });
        }
        if broke(&direct) {
            self.pairs.remove(&session);
        }
        Ok(Met::Same)
    }

    /// Ends a session, and waits until it is over on both sides: before that, others may still see what it holds.
    async fn leave(&mut self, session: usize, quits: bool, house: &House, control: &mut Client) -> anyhow::Result<()> {
        let Some(Pair { direct, through }) = self.pairs.remove(&session) else { return Ok(()) };
        let id = direct.id();
        direct.leave(quits).await;
        through.leave(quits).await;
        gone(control, &[id]).await?;
        // One that broke may have left Sqluice already: the others are counted.
        left(house, self.pairs.len() + self.others, control)
            .await
            .with_context(|| format!("session {session} left"))?;
        self.note(None, house).await
    }

    /// Ends all sessions.
    pub(super) async fn leave_all(mut self, house: &House, control: &mut Client) -> anyhow::Result<()> {
        let mut ids = Vec::new();
        for (_, Pair { direct, through }) in self.pairs.drain() {
            ids.push(direct.id());
            direct.leave(true).await;
            through.leave(true).await;
        }
        gone(control, &ids).await?;
        left(house, self.others, control).await.context("all sessions left")
    }
}

fn split(came: Result<(Probe, String), String>) -> (Option<Probe>, String) {
    match came {
        Ok((probe, line)) => (Some(probe), line),
        Err(line) => (None, line),
    }
}

/// Sqluice's own error: all connections were in use.
fn waited(line: &str) -> bool {
    (line.starts_with("error 1203 ") || line.starts_with("broken")) && line.contains("for a connection to server")
}

/// Whether the session is over.
fn broke(lines: &[String]) -> bool {
    lines.iter().any(|line| line.starts_with("broken"))
}

/// Waits until a server has no connections with these ids.
async fn gone(control: &mut Client, ids: &[u32]) -> anyhow::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    let ask = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID IN ({})", list.join(", "));
    let deadline = Instant::now() + SOON;
    while control.query_one(&ask).await?.scalar().as_deref() != Some("0") {
        if Instant::now() > deadline {
            bail!("sessions {ids:?} are not over after {SOON:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Waits until Sqluice has only so many sessions.
///
/// # Errors
/// It has more; the text says what they and their servers' connections do.
async fn left(house: &House, sessions: usize, control: &mut Client) -> anyhow::Result<()> {
    let deadline = Instant::now() + SOON;
    while house.sessions() > sessions || (sessions == 0 && house.pins() > 0) {
        if Instant::now() > deadline {
            let connections = control.query_one("SHOW FULL PROCESSLIST").await?.rows;
            let values = connections.iter().map(|row| row.iter().flatten().map(|value| String::from_utf8_lossy(value)));
            let connections: Vec<String> = values.map(|row| row.collect::<Vec<_>>().join(" ")).collect();
            let (count, pins, words) = (house.sessions(), house.pins(), house.session_words());
            bail!("{count} sessions and {pins} pins are left after {SOON:?}:\n{words}\n{}", connections.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
