//! The Sqluice of a lane.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use facts::view::{Role, View};
use sqluice::wiring::Running;

use super::{SOON, fill_text};
use crate::script::Script;
use crate::world::World;

/// One Sqluice, in this process, in front of the world's cluster.
pub(super) struct House {
    running: Running,
    /// `split = "auto"`, and `split = "primary"`; the same with `pipelines = "always"`.
    fronts: [net::Address; 4],
}

impl House {
    pub(super) async fn start(world: &World, connections: usize, cached: bool, lane: usize) -> anyhow::Result<House> {
        let running = Running::start(config(world, connections, cached)?).await?;
        let address = |name: &str| -> anyhow::Result<net::Address> {
            let address = running.addresses().get(name).cloned().ok_or_else(|| anyhow!("no listener {name}"))?;
            address.parse().map_err(|error| anyhow!("{address}: {error}"))
        };
        let fronts = [address("auto")?, address("primary")?, address("auto-pipelined")?, address("primary-pipelined")?];
        knows(&running, world.cluster().replicas().count(), lane).await?;
        Ok(House { running, fronts })
    }

    pub(super) fn front(&self, script: &Script) -> &net::Address {
        &self.fronts[usize::from(script.primary_only) + 2 * usize::from(script.pipelined)]
    }

    /// The way to the primary, for what goes on beside scripts.
    pub(super) fn to_primary(&self) -> &net::Address {
        &self.fronts[1]
    }

    /// How many reads shared a connection with reads of other sessions.
    pub(super) fn pipelined(&self) -> u64 {
        let workers = self.running.stats();
        workers.iter().flat_map(|worker| worker.servers()).map(|server| server.stats.pipelined.get()).sum()
    }

    /// How many answers came from the result cache.
    pub(super) fn hits(&self) -> u64 {
        let workers = self.running.stats();
        workers.iter().flat_map(|worker| worker.caches.get()).map(|(_, counts)| counts.hits.get()).sum()
    }

    /// How many pins there are.
    pub(super) fn pins(&self) -> i64 {
        let workers = self.running.stats();
        workers.iter().flat_map(|worker| worker.pins.iter().map(|(_, pins)| pins.get()).collect::<Vec<_>>()).sum()
    }

    /// Waits until no session does anything: behind a reply, a session may ask for its state, and keeps the connection until it knows it.
    pub(super) async fn settles(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + SOON;
        while self.running.busy_sessions() > 0 {
            if Instant::now() > deadline {
                bail!("sessions are busy after {SOON:?}: {:?}", self.running.session_words());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// How many sessions there are.
    pub(super) fn sessions(&self) -> usize {
        self.running.sessions()
    }

    /// Waits until the cache knows tables again that a definition may have changed: nothing is kept before.
    pub(super) async fn knows_tables(&self) -> anyhow::Result<()> {
        let published = self.running.published().get("main").ok_or_else(|| anyhow!("no cluster"))?;
        let deadline = Instant::now() + SOON;
        while published.tables.is_wanted() {
            if Instant::now() > deadline {
                bail!("tables are not known after {SOON:?}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Waits until Sqluice has read routines, views, triggers and defaults that statements made behind its back: how long it may
    /// not know them is no matter of scripts.
    pub(super) async fn knows_code(&self, statements: &[Vec<u8>]) -> anyhow::Result<()> {
        const CODE: [&str; 7] =
            [" FUNCTION ", " PROCEDURE ", " PACKAGE ", " VIEW ", " TRIGGER ", " DATABASE ", "NEXTVAL("];
        let makes_code = |sql: &Vec<u8>| CODE.iter().any(|word| String::from_utf8_lossy(sql).contains(word));
        if !statements.iter().any(makes_code) {
            return Ok(());
        }
        let published = self.running.published().get("main").ok_or_else(|| anyhow!("no cluster"))?;
        let deadline = Instant::now() + SOON;
        published.request_catalog_refresh();
        while !published.catalog_is_fresh() {
            if Instant::now() > deadline {
                bail!("routines and views are not known after {SOON:?}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// The sessions, in words.
    pub(super) fn session_words(&self) -> String {
        self.running.session_words().join("\n")
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
    }
}

/// Waits until Sqluice knows all servers, and the functions of the lane's schema.
async fn knows(running: &Running, replicas: usize, lane: usize) -> anyhow::Result<()> {
    let published = running.published().get("main").ok_or_else(|| anyhow!("no cluster"))?;
    let deadline = Instant::now() + SOON;
    let ready = |view: &View| {
        let reads = view.servers.iter().filter(|server| server.role == Role::Replica && server.serves_reads);
        view.primary.is_some() && reads.count() >= replicas
    };
    let library = fill_text("{lib}", lane);
    let knows_functions = || published.catalog.load().functions.keys().any(|(schema, _)| *schema == library);
    while !ready(&published.view.load()) || !knows_functions() {
        if Instant::now() > deadline {
            bail!("Sqluice does not know its servers after {SOON:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The listeners of [`House::fronts`].
fn listeners() -> String {
    let mut text = String::new();
    for (pipelines, end) in [("on", ""), ("always", "-pipelined")] {
        for split in ["auto", "primary"] {
            text.push_str(&format!(
                "[listener.{split}{end}]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nsplit = \"{split}\"\n\
                 pipelines = \"{pipelines}\"\n"
            ));
        }
    }
    text
}

fn config(world: &World, connections: usize, cached: bool) -> anyhow::Result<config::Config> {
    // A step that waits for the only connection is left out.
    let wait_ms = if connections > 1 { 3000 } else { 400 };
    let mut text = format!(
        "[proxy]\nworkers = 1\ndrain_ms = 200\n\
         {}[cluster.main]\nkind = \"replication\"\nslow_start_s = 0\ncatalog_refresh_s = 1\n\
         monitor = {{ user = \"{}\", password = \"{}\", interval_ms = 100 }}\n\
         pool = {{ max_connections_per_server = {connections}, wait_ms = {wait_ms} }}\ntls = {{ mode = \"disabled\" }}\n",
        listeners(),
        lab::MONITOR_USER,
        lab::MONITOR_PASSWORD
    );
    for (index, server) in world.cluster().servers().iter().enumerate() {
        writeln!(text, "servers.db{} = {{ address = \"{}\" }}", index + 1, server.address())?;
    }
    if cached {
        text.push_str("[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\n");
    }
    let folder = tempfile::TempDir::new()?;
    let file = folder.path().join("sqluice.toml");
    std::fs::write(&file, text)?;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(config::load(&file)?.config)
}
