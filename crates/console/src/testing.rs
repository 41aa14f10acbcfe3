//! A process without servers, for unit tests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use admin::{Answered, Clusters, Growth, Kill, Later, Order, Orders, Sessions, Status};
use cache::{Bounds, Store};
use config::Config;
use facts::sessions::SessionFacts;
use history::Grown;
use serde_json::json;
use stats::WorkerStats;
use stats::digests::NoDigests;

use crate::engine::Run;
use crate::error::SqlError;
use crate::functions::Asker;
use crate::keys::Keys;
use crate::plan::{Plan, plan};
use crate::replies::ResultRows;
use crate::sources::{Settings, Shared, Sources};
use crate::views::gather::Gathered;

/// A configuration with one cluster and one listener; `more` is appended.
pub(crate) fn config(more: &str) -> Config {
    let text = format!(
        "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"hush\" }}\n\
         servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{more}"
    );
    config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config
}

pub(crate) fn shared(more: &str) -> Arc<Shared> {
    Arc::new(state(more))
}

/// The same with these keys.
pub(crate) fn shared_with(more: &str, keys: Keys) -> Arc<Shared> {
    let shared = state(more);
    shared.take(Settings { keys, ..Settings::of(&config(more), None) });
    Arc::new(shared)
}

fn state(more: &str) -> Shared {
    let settings = events::Settings { node: "test".into(), ..events::Settings::default() };
    let (events, _) = events::Events::start(settings, 1).unwrap();
    let sources = Sources {
        workers: Arc::new([Arc::new(WorkerStats::new(&[], &[]))]),
        digests: Arc::new(NoDigests),
        cache: Arc::new(Store::new(Bounds { memory_max: 1 << 20, entry_max: 1 << 10 })),
        events,
        sessions: Arc::new(NoSessions),
        status: Arc::new(NoClusters),
        growth: Arc::new(NoGrowth),
        orders: Arc::new(NoOrders),
    };
    Shared::new(&config(more), None, sources)
}

/// Runs a statement.
pub(crate) fn run(shared: &Arc<Shared>, text: &str) -> Result<ResultRows, SqlError> {
    run_until(shared, text, Arc::default())
}

/// The same, until the flag is set.
pub(crate) fn run_until(
    shared: &Arc<Shared>,
    text: &str,
    is_cancelled: Arc<AtomicBool>,
) -> Result<ResultRows, SqlError> {
    let Plan::Rows(query) = plan(text, "main")? else { panic!("{text} asks for no rows") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let gathered = runtime.block_on(Gathered::of(shared, &query.views));
    let asker = Asker { schema: "main", user: "admin@localhost".into(), id: 7 };
    Run { query, parameters: Vec::new(), gathered, asker, is_cancelled }.run()
}

struct NoSessions;

impl Sessions for NoSessions {
    fn glance(&self) -> Vec<SessionFacts> {
        Vec::new()
    }

    fn list(&self) -> Later<Vec<SessionFacts>> {
        Box::pin(async { Vec::new() })
    }

    fn kill(&self, _: Kill) -> Later<Result<bool, String>> {
        Box::pin(async { Ok(false) })
    }

    fn relieve(&self, _: usize, _: bool) -> Later<Result<facts::sessions::Relieved, String>> {
        Box::pin(async { Err("there is one worker".to_owned()) })
    }
}

struct NoGrowth;

impl Growth for NoGrowth {
    fn grown(&self) -> Later<Result<Grown, String>> {
        Box::pin(async { Err("there is no history: set path in [history]".to_owned()) })
    }
}

/// Refuses what the role may not.
struct NoOrders;

impl Orders for NoOrders {
    fn give(&self, order: Order) -> Later<Answered> {
        let may = order.role == "admin" || order.role == "operate" && !order.path.ends_with("switchover");
        let status = if may { 200 } else { 403 };
        let page = json!({ "id": 7, "error": "this needs another role", "cluster": order.path });
        Box::pin(async move { Answered { status, page } })
    }
}

struct NoClusters;

impl Status for NoClusters {
    fn clusters(&self) -> Clusters {
        Clusters::new()
    }
}
