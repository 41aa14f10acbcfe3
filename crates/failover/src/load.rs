//! Clients that work through Sqluice while harm is done.

mod age;
pub(crate) mod beside;
mod caller;
pub(crate) mod ledger;
pub(crate) mod table;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use net::query::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use ledger::Ledger;

/// Each so many clients one works with prepared statements.
const PREPARES_EVERY: u32 = 4;
/// Each so many clients there is one idle session beside them.
const IDLE_EVERY: u32 = 8;
/// Readers that look for old answers, when they are wanted.
const READERS: u32 = 8;
/// Longest that the last statements may take.
const END_LIMIT: Duration = Duration::from_secs(100);
const POLL: Duration = Duration::from_millis(10);

/// Facts that all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    stop: AtomicBool,
    acknowledged: AtomicU64,
    /// The addresses of Sqluice. Each client has its own, and takes the next one when that is closed.
    addresses: Vec<SocketAddr>,
    /// Mean pause of a client between two pieces of work.
    pause: Duration,
}

/// The work of the load.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u32,
    pub(crate) pause: Duration,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Look for old answers, too.
    pub(crate) ages: bool,
    /// Write on this member of a group, too.
    pub(crate) beside: Option<SocketAddr>,
    /// With sessions that do nothing and ask once at the end.
    pub(crate) idle: bool,
}

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Load {
    runtime: Runtime,
    shared: Arc<Shared>,
    at_work: Vec<JoinHandle<anyhow::Result<Ledger>>>,
    idle: Vec<Client>,
}

impl Load {
    /// Connects all clients and lets them work.
    ///
    /// # Errors
    /// One of them is not let in.
    pub(crate) fn start(clock: Clock, plan: Plan) -> anyhow::Result<Load> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("load")
            .enable_all()
            .build()
            .context("cannot start clients")?;
        let Plan { clients, pause, addresses, ages, beside, idle: with_idle } = plan;
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        let shared = Arc::new(Shared { clock, stop, acknowledged, addresses, pause });
        let (callers, idle) = runtime.block_on(async {
            let mut callers = Vec::new();
            for number in 0..clients {
                callers.push(caller::Caller::start(shared.clone(), number, number % PREPARES_EVERY == 1).await?);
            }
            let mut idle = Vec::new();
            for number in 0..if with_idle { clients.div_ceil(IDLE_EVERY) } else { 0 } {
                let mut client = caller::connect(shared.addresses[0]).await?;
                client.query(format!("SET @mark = {number}")).await?;
                idle.push(client);
            }
            anyhow::Ok((callers, idle))
        })?;
        let mut at_work: Vec<_> =
            callers.into_iter().map(|caller| runtime.spawn(async { Ok(caller.work().await) })).collect();
        if ages {
            let newest = Arc::new(AtomicU64::new(0));
            at_work.push(runtime.spawn(age::tick(shared.clone(), newest.clone())));
            at_work.extend((0..READERS).map(|_| runtime.spawn(age::read(shared.clone(), newest.clone()))));
        }
        if let Some(member) = beside {
            at_work.push(runtime.spawn(beside::write(shared.clone(), member)));
        }
        Ok(Load { runtime, shared, at_work, idle })
    }

    /// Waits until so many writes more are acknowledged; false when that takes longer than `limit`.
    pub(crate) fn wait_for_writes(&self, count: u64, limit: Duration) -> bool {
        let goal = self.shared.acknowledged.load(Ordering::Relaxed) + count;
        let deadline = Instant::now() + limit;
        while self.shared.acknowledged.load(Ordering::Relaxed) < goal {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Lets clients end what they are doing, asks the idle ones, and gives what all of them wrote down.
    ///
    /// # Errors
    /// Statements do not end.
    pub(crate) fn end(&mut self) -> anyhow::Result<Ledger> {
        let (at_work, idle) = (std::mem::take(&mut self.at_work), std::mem::take(&mut self.idle));
        self.shared.stop.store(true, Ordering::Relaxed);
        let all = async {
            let mut sum = Ledger::default();
            for task in at_work {
                sum.add(task.await??);
            }
            for (number, mut client) in idle.into_iter().enumerate() {
                sum.idle += 1;
                let answer = client.query_one("SELECT @mark").await;
                match answer {
                    Ok(result) if result.scalar().as_deref() == Some(&*number.to_string()) => {}
                    Ok(_) => sum.idle_harmed += 1,
                    Err(error) => {
                        sum.idle_harmed += 1;
                        sum.error("idle", &error);
                    }
                }
            }
            anyhow::Ok(sum)
        };
        let sum = self.runtime.block_on(async { tokio::time::timeout(END_LIMIT, all).await });
        match sum {
            Ok(sum) => sum,
            Err(_) => bail!("clients still wait for replies after {END_LIMIT:?}"),
        }
    }
}
