//! Sqluice on a thread of its own, for callers that have no runtime or block theirs: the demo and end-to-end tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use config::Config;
use tokio::sync::mpsc;

use super::{PublishedClusters, Reloaded, Running};

/// Orders that wait for the thread.
const ORDERS_MAX: usize = 16;

enum Order {
    Reload(Box<Config>, blocking::Sender<anyhow::Result<Reloaded>>),
    Drain(Duration, blocking::Sender<usize>),
    Stop,
}

/// Both planes, on a thread of their own. Dropping it stops them.
pub struct Background {
    orders: mpsc::Sender<Order>,
    thread: Option<JoinHandle<()>>,
    facts: Facts,
}

#[derive(Clone)]
struct Facts {
    addresses: BTreeMap<Arc<str>, String>,
    admin_address: Option<SocketAddr>,
    console_address: Option<SocketAddr>,
    stats: stats::Workers,
    published: PublishedClusters,
}

impl Background {
    /// Starts; returns when clients are accepted.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub fn start(config: Config) -> anyhow::Result<Background> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let (started, waiting) = blocking::channel();
        let thread = std::thread::Builder::new()
            .name("sqluice-main".into())
            .spawn(move || runtime.block_on(serve(config, inbox, &started)))
            .context("cannot start a thread")?;
        let facts = waiting.recv().map_err(|_| anyhow!("the thread ended while it started"))??;
        Ok(Background { orders, thread: Some(thread), facts })
    }

    /// Where clients reach a listener.
    pub fn address(&self, listener: &str) -> Option<&str> {
        self.facts.addresses.get(listener).map(String::as_str)
    }

    /// Where metrics and health are served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.facts.admin_address
    }

    /// Where the SQL console is.
    pub fn console_address(&self) -> Option<SocketAddr> {
        self.facts.console_address
    }

    /// The counters of the workers.
    pub fn stats(&self) -> stats::Workers {
        self.facts.stats.clone()
    }

    /// The clusters' snapshots.
    pub fn published(&self) -> &PublishedClusters {
        &self.facts.published
    }

    /// Takes a new configuration; see [`Running::reload`].
    ///
    /// # Errors
    /// As there.
    pub fn reload(&self, config: Config) -> anyhow::Result<Reloaded> {
        self.ask(|answer| Order::Reload(Box::new(config), answer))?
    }

    /// Takes no new clients and lets sessions end; see [`Running::drain`].
    ///
    /// # Errors
    /// The thread has ended.
    pub fn drain(&self, deadline: Duration) -> anyhow::Result<usize> {
        self.ask(|answer| Order::Drain(deadline, answer))
    }

    /// Closes what is left and ends all threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn ask<T>(&self, order: impl FnOnce(blocking::Sender<T>) -> Order) -> anyhow::Result<T> {
        let (answer, waiting) = blocking::channel();
        self.orders.try_send(order(answer)).map_err(|_| anyhow!("Sqluice's thread takes no orders"))?;
        waiting.recv().context("Sqluice's thread has ended")
    }

    fn end(&mut self) {
        // A thread that has ended needs no order; the join below sees it.
        let _ = self.orders.try_send(Order::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("Sqluice's thread panicked");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve(config: Config, mut inbox: mpsc::Receiver<Order>, started: &blocking::Sender<anyhow::Result<Facts>>) {
    let mut running = match Running::start(config).await {
        Ok(running) => running,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let facts = Facts {
        addresses: running.addresses(),
        admin_address: running.admin_address(),
        console_address: running.console_address(),
        stats: running.stats(),
        published: running.published().clone(),
    };
    // The caller may have gone: then the inbox is closed as well.
    let _ = started.send(Ok(facts));
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Reload(config, answer) => {
                let _ = answer.send(running.reload(*config));
            }
            Order::Drain(deadline, answer) => {
                let _ = answer.send(running.drain(deadline).await);
            }
            Order::Stop => break,
        }
    }
    running.stop().await;
}
