//! Carrying out the driver's steps: several servers at a time, one step after the other for each.

mod connection;
mod hooks;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::observation::{Facts, Failure};
use cluster::step::{ErrorKind, Hook, HookCall, Order, Step, StepError, StepId, StepResult};
use facts::published::Published;
use facts::view::ServerId;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use connection::Kept;
use connection::Taken;
pub(crate) use hooks::Called;

use crate::lease::Lease;
use crate::monitor::probe::Prober;
use crate::steps::{self, Account, Clients, Failed, FailedKind, Hand, Ours, Source};
use crate::task::{Owned, own};

/// Steps that run at a time; the driver orders far fewer.
const RUNNING_MAX: usize = 256;
/// The time that a step may take beyond its limit before it is cut off where it stands.
const GRACE: Duration = Duration::from_millis(100);
/// Time between two looks at the workers' figures.
const IDLE_LOOK: Duration = Duration::from_millis(5);

/// A server as steps see it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) kept: Rc<Kept>,
    pub(crate) prober: Rc<Prober>,
    /// Where other servers reach it.
    pub(crate) source: Source,
}

/// The values that all steps of a cluster share; a reload makes another one.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<str>,
    pub(crate) servers: BTreeMap<ServerId, Target>,
    pub(crate) ours: Ours,
    pub(crate) account: Option<Account>,
    pub(crate) lease: Option<Lease>,
    pub(crate) workers: stats::Workers,
    pub(crate) published: Arc<Published>,
    /// A new primary's event scheduler is switched on if the old one's was on.
    pub(crate) carries_scheduler: bool,
    pub(crate) hook_before: Vec<Arc<str>>,
    pub(crate) hook_after: Vec<Arc<str>>,
}

/// A step's end.
pub(crate) type Outcome = (StepId, Result<StepResult, StepError>);

/// Runs steps; outcomes come from [`Executor::finished`].
pub(crate) struct Executor {
    running: BTreeMap<StepId, Owned>,
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
}

impl Executor {
    pub(crate) fn new() -> Executor {
        Executor { running: BTreeMap::new(), outcomes: mpsc::channel(RUNNING_MAX) }
    }

    /// Starts a step. `why` is the reason that a hook gets.
    pub(crate) fn start(&mut self, shared: &Rc<Shared>, order: Order, why: Called) {
        let (id, outcomes) = (order.id, self.outcomes.0.clone());
        let shared = shared.clone();
        let task = async move {
            let limit = order.timeout + GRACE;
            let outcome = match tokio::time::timeout(limit, shared.run(&order, &why)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(error(ErrorKind::Timeout, format!("no end within {} ms", order.timeout.as_millis()))),
            };
            // The receiver lives as long as the task that owns this one.
            let _ = outcomes.send((id, outcome)).await;
        };
        if self.running.len() >= RUNNING_MAX {
            let refused = error(ErrorKind::Failed, "too many steps run already");
            // Full as well: then the driver counts it as timed out.
            let _ = self.outcomes.0.try_send((id, Err(refused)));
            return;
        }
        self.running.insert(id, own(task));
    }

    /// The next step that ended; waits for ever when none runs.
    pub(crate) async fn finished(&mut self) -> Outcome {
        match self.outcomes.1.recv().await {
            Some(outcome) => outcome,
            // This side holds a sender, so the channel is never closed.
            None => std::future::pending().await,
        }
    }

    /// Forgets a step that has ended.
    pub(crate) fn forget(&mut self, id: StepId) {
        self.running.remove(&id);
    }
}

impl Shared {
    async fn run(&self, order: &Order, why: &Called) -> Result<StepResult, StepError> {
        let now = Instant::now();
        let mut until = now + order.timeout;
        if let Some(end) = order.not_after.filter(|_| order.step.changes()) {
            until = until.min(end.into());
        }
        let lease_ends = order.not_after.is_some_and(|end| Instant::from(end) <= until);
        let done = self.step(&order.step, until, why).await;
        done.map_err(|failed| match failed.kind {
            ErrorKind::Timeout if lease_ends && Instant::now() >= until => {
                StepError { kind: ErrorKind::LeaseLost, ..failed }
            }
            _ => failed,
        })
    }

    async fn step(&self, step: &Step, until: Instant, why: &Called) -> Result<StepResult, StepError> {
        let ours = &self.ours;
        match step {
            Step::TakeLease => {
                let Some(lease) = &self.lease else {
                    return Err(error(ErrorKind::LeaseLost, "no lease is configured (promotion.lease)"));
                };
                let held_until = lease.take(until).await.map_err(|text| error(ErrorKind::LeaseLost, text))?;
                return Ok(StepResult::Lease { held_until });
            }
            Step::ReleaseLease => {
                if let Some(lease) = &self.lease {
                    lease.release();
                }
            }
            Step::ReadFacts { server } => return self.facts(*server, until).await,
            Step::WaitIdle { server } => self.wait_idle(*server, until).await?,
            Step::RunHook { hook, call } => self.hook(*hook, call, until, why).await?,
            Step::SetReadOnly { server, on: true, cut: true } => self.fence(*server, until).await?,
            Step::SetReadOnly { server, on, .. } => {
                self.with(*server, until, async |hand| steps::set_read_only(hand, *on, Clients::Stay).await).await?;
            }
            Step::EndClients { server } => {
                let ended = self.with(*server, until, async |hand| steps::end_sessions(hand, &[]).await).await?;
                return Ok(StepResult::Ended(u32::try_from(ended).unwrap_or(u32::MAX)));
            }
            Step::StopReceiver { server } => {
                self.with(*server, until, async |hand| steps::stop_receiver(hand, ours, true).await).await?;
            }
            Step::WaitApplied { server, position } => {
                self.with(*server, until, async |hand| steps::wait_applied(hand, ours, position).await).await?;
            }
            Step::Promote { server, old: _ } => {
                self.with(*server, until, async |hand| steps::promote(hand, ours).await).await?;
                return self.facts_at_once(*server, until).await;
            }
            Step::DisableEvents { server } => {
                let kept = self.target(*server)?.kept.clone();
                let work = async |hand: &mut Hand<'_>| {
                    let running = steps::running_events(hand).await?;
                    kept.hold_events(running);
                    steps::disable_events(hand).await
                };
                self.with(*server, until, work).await?;
            }
            Step::EnableEvents { server, old } => {
                let kept = self.target(*server)?.kept.clone();
                let wanted = self.servers.get(old).and_then(|old| old.kept.events());
                let carries = self.carries_scheduler;
                let work = async |hand: &mut Hand<'_>| steps::enable_events(hand, wanted.as_ref(), carries).await;
                let done = self.with(*server, until, work).await;
                // Should this server be lost at once, it is known what ran here.
                kept.release_events(wanted);
                done?;
            }
            Step::SetGroupPrimary { server, member } => {
                self.with(*server, until, async |hand| steps::set_group_primary(hand, member).await).await?;
            }
            Step::Follow { server, source } => {
                let source = self.target(*source)?.source.clone();
                let account = self.account.as_ref();
                self.with(*server, until, async |hand| steps::follow(hand, ours, &source, account).await).await?;
            }
        }
        Ok(StepResult::Done)
    }

    fn target(&self, server: ServerId) -> Result<&Target, StepError> {
        let gone = || error(ErrorKind::Failed, "the server is no longer in the configuration");
        self.servers.get(&server).ok_or_else(gone)
    }

    /// Does something over a server's kept connection. If that turns out to be dead it is done over a new one, which every step
    /// allows.
    async fn with<T>(
        &self,
        server: ServerId,
        until: Instant,
        work: impl AsyncFn(&mut Hand<'_>) -> Result<T, Failed>,
    ) -> Result<T, StepError> {
        let kept = &self.target(server)?.kept;
        loop {
            let Taken { mut client, fresh } = kept.take(until).await.map_err(unreachable)?;
            match work(&mut Hand::new(&mut client, until)).await {
                Err(failed) if failed.kind == FailedKind::Lost && !fresh => {}
                Err(failed) => {
                    // After the server's own word the connection is as good as before.
                    if matches!(failed.kind, FailedKind::Denied | FailedKind::Refused) {
                        kept.give_back(client);
                    }
                    let kind = match failed.kind {
                        FailedKind::Lost | FailedKind::TimedOut => ErrorKind::Timeout,
                        FailedKind::Denied | FailedKind::Refused => ErrorKind::Failed,
                    };
                    return Err(error(kind, failed.text));
                }
                Ok(done) => {
                    kept.give_back(client);
                    return Ok(done);
                }
            }
        }
    }

    async fn fence(&self, server: ServerId, until: Instant) -> Result<(), StepError> {
        let kept = &self.target(server)?.kept;
        // The kept connection is in use then, so this opens one.
        let open = async || match kept.take(until).await {
            Ok(taken) => Ok(taken.client),
            Err(failure) => Err(Failed::new(FailedKind::TimedOut, failure.text.to_string())),
        };
        self.with(server, until, async |hand| steps::fence(hand, open).await).await
    }

    async fn facts(&self, server: ServerId, until: Instant) -> Result<StepResult, StepError> {
        let limit = until.saturating_duration_since(Instant::now());
        let facts: Result<Facts, Failure> = self.target(server)?.prober.once(limit).await;
        facts.map(|facts| StepResult::Facts(Box::new(facts))).map_err(unreachable)
    }

    /// Facts without a login, over the kept connection.
    async fn facts_at_once(&self, server: ServerId, until: Instant) -> Result<StepResult, StepError> {
        let target = self.target(server)?;
        let Taken { client, .. } = target.kept.take(until).await.map_err(unreachable)?;
        let limit = until.saturating_duration_since(Instant::now());
        let (facts, client) = target.prober.over(client, limit).await;
        if let Some(client) = client {
            target.kept.give_back(client);
        }
        facts.map(|facts| StepResult::Facts(Box::new(facts))).map_err(unreachable)
    }

    /// Waits until no session uses a connection to the server. Writes are held already; a worker that does not know that yet may
    /// send some, so it is waited for, too.
    async fn wait_idle(&self, server: ServerId, until: Instant) -> Result<(), StepError> {
        let name = &self.target(server)?.name;
        loop {
            // In this order: the statements of a worker that writes no more are counted.
            let writing = self.published.writing.count();
            let used = self.used(name);
            if writing == 0 && used == 0 {
                return Ok(());
            }
            if Instant::now() + IDLE_LOOK > until {
                let text = format!("{used} sessions still use it, and {writing} workers do not hold writes yet");
                return Err(error(ErrorKind::Timeout, text));
            }
            tokio::time::sleep(IDLE_LOOK).await;
        }
    }

    fn used(&self, server: &Arc<str>) -> u64 {
        let entries = self.workers.iter().flat_map(|worker| worker.servers());
        let of_server = entries.filter(|entry| entry.cluster == self.cluster && entry.server == *server);
        of_server.map(|entry| u64::try_from(entry.stats.used.get()).unwrap_or(0)).sum()
    }

    async fn hook(&self, hook: Hook, call: &HookCall, until: Instant, why: &Called) -> Result<(), StepError> {
        let command = match hook {
            Hook::Before => &self.hook_before,
            Hook::After => &self.hook_after,
        };
        let server = |id: Option<ServerId>| id.and_then(|id| self.servers.get(&id));
        let address = |target: Option<&Target>| {
            target.map_or_else(String::new, |target| format!("{}:{}", target.source.host, target.source.port))
        };
        let name = |target: Option<&Target>| target.map_or_else(String::new, |target| target.name.to_string());
        let (old, new) = (server(call.old), server(call.new));
        let facts = [
            ("SQLUICE_CLUSTER", self.cluster.to_string()),
            ("SQLUICE_KIND", call.kind.to_owned()),
            ("SQLUICE_HOOK", if hook == Hook::Before { "before" } else { "after" }.to_owned()),
            ("SQLUICE_RUN", call.run.to_string()),
            ("SQLUICE_EPOCH", why.epoch.to_string()),
            ("SQLUICE_OLD_PRIMARY", name(old)),
            ("SQLUICE_OLD_PRIMARY_ADDRESS", address(old)),
            ("SQLUICE_NEW_PRIMARY", name(new)),
            ("SQLUICE_NEW_PRIMARY_ADDRESS", address(new)),
            ("SQLUICE_REASON", why.reason.clone()),
        ];
        hooks::run(command, &facts, until).await.map_err(|(kind, text)| error(kind, text))
    }
}

fn error(kind: ErrorKind, text: impl Into<Arc<str>>) -> StepError {
    StepError { kind, text: text.into() }
}

fn unreachable(failure: Failure) -> StepError {
    error(ErrorKind::Unreachable(failure.class), failure.text)
}
