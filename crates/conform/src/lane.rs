//! A lane runs one script after the other: it has schemas and a Sqluice of its own, and shares the servers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use cluster::view::{Role, View};
use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use sqluice::wiring::Running;
use wire::auth::Credential;

use crate::client::Probe;
use crate::differences::Differences;
use crate::generate::LIBRARY;
use crate::script::{Action, Script, Step};
use crate::world::World;

/// Longest wait for Sqluice to know its servers, and for replicas to catch up.
const SOON: Duration = Duration::from_secs(30);

/// How often the schemas are cleaned before that counts as failed; each waits for locks for a second.
const CLEAN_TRIES: usize = 10;

/// Where both sides first said something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The step's index.
    pub step: usize,
    /// The step, with the schemas' names put in.
    pub action: String,
    /// What the server said.
    pub direct: Vec<String>,
    /// What came through Sqluice.
    pub through: Vec<String>,
}

impl Mismatch {
    /// Whether both seem to be one difference: the same kind of line is the first that differs.
    pub fn is_like(&self, other: &Mismatch) -> bool {
        let kinds = |mismatch: &Mismatch| {
            let differs = mismatch.direct.iter().zip(&mismatch.through).find(|(direct, through)| direct != through);
            let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            differs.map(|(direct, through)| (word(direct), word(through)))
        };
        kinds(self) == kinds(other)
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "step {}: {}", self.step + 1, self.action)?;
        let same = self.direct.iter().zip(&self.through).take_while(|(a, b)| a == b).count();
        if same > 0 {
            writeln!(f, "  (the first {same} lines are equal)")?;
        }
        self.direct[same..].iter().take(8).try_for_each(|line| writeln!(f, "  - {line}"))?;
        self.through[same..].iter().take(8).try_for_each(|line| writeln!(f, "  + {line}"))
    }
}

/// One lane.
pub struct Lane<'a> {
    world: &'a World,
    index: usize,
    differences: Differences,
    running: Running,
    /// `split = "auto"`, and `split = "primary"`.
    fronts: [net::Address; 2],
    direct: Client,
    primary: Client,
    /// Where the schemas are prepared: the primary itself, or through Sqluice, whose cache would not see it otherwise.
    workshop: Client,
    cached: bool,
    replicas: Vec<Client>,
    /// What the replicas are known to have.
    position: String,
    /// How many steps were compared.
    pub compared: u64,
}

impl<'a> Lane<'a> {
    /// Makes the lane's schemas and starts its Sqluice. It runs on the current thread's runtime.
    ///
    /// # Errors
    /// Something did not start.
    pub async fn start(world: &'a World, index: usize, connections: usize, cached: bool) -> anyhow::Result<Lane<'a>> {
        let root = [world.direct(), world.cluster().primary()];
        for server in root {
            server.sql(&fill_text(LIBRARY, index)).context("the lane's own schema")?;
            if world.family() == Family::MySql {
                // What `clean` asks for, and what Sqluice reads user variables by.
                let to = lab::APP_USER;
                let grants = format!(
                    "GRANT XA_RECOVER_ADMIN ON *.* TO {to};\n\
                     GRANT SELECT ON performance_schema.user_variables_by_thread TO {to};"
                );
                server.sql(&grants).context("privileges")?;
            }
        }
        if cached {
            // What tables and views are is what the cache goes by.
            let grant = format!("GRANT SELECT ON *.* TO {}", lab::MONITOR_USER);
            world.cluster().primary().sql(&grant).context("the monitor's privileges")?;
        }
        let running = Running::start(config(world, connections, cached)?).await?;
        let address = |name: &str| -> anyhow::Result<net::Address> {
            let address = running.addresses().get(name).cloned().ok_or_else(|| anyhow!("no listener {name}"))?;
            address.parse().map_err(|error| anyhow!("{address}: {error}"))
        };
        let fronts = [address("auto")?, address("primary")?];
        let mut replicas = Vec::new();
        for replica in world.cluster().replicas() {
            replicas.push(control(&server_address(replica)?).await?);
        }
        let primary_address = server_address(world.cluster().primary())?;
        let (direct, primary) = (control(&server_address(world.direct())?).await?, control(&primary_address).await?);
        let differences = Differences::load()?;
        let (position, compared) = (String::new(), 0);
        let [_, front] = &fronts;
        knows(&running, replicas.len(), index).await?;
        let workshop = control(if cached { front } else { &primary_address }).await?;
        let mut lane = Lane {
            world,
            index,
            differences,
            running,
            fronts,
            direct,
            primary,
            workshop,
            cached,
            replicas,
            position,
            compared,
        };
        lane.sync().await?;
        Ok(lane)
    }

    /// How many steps the result cache has answered.
    pub fn hits(&self) -> u64 {
        let workers = self.running.stats();
        workers.iter().flat_map(|worker| worker.caches.get()).map(|(_, counts)| counts.hits.get()).sum()
    }

    /// Waits until the cache knows tables again that a definition may have changed: nothing is kept before.
    async fn knows_tables(&self) -> anyhow::Result<()> {
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

    /// Runs a script to its first difference.
    ///
    /// # Errors
    /// The script could not be run: a server is gone, or its preparation failed.
    pub async fn run(&mut self, script: &Script) -> anyhow::Result<Option<Mismatch>> {
        self.clean().await?;
        let mut sessions = HashMap::new();
        let found = self.run_with(script, &mut sessions).await;
        self.end_prepared(script, &mut sessions).await;
        found
    }

    /// Ends XA transactions that were prepared in the sessions that prepared them. Another session that rolls one back while
    /// its own one leaves loses it on MariaDB 10.11: XA RECOVER lists it no more, and its locks stay until the server is
    /// started again.
    async fn end_prepared(&self, script: &Script, sessions: &mut HashMap<usize, (Probe, Probe)>) {
        for Step { session, action } in &script.steps {
            let Some((direct, through)) = sessions.get_mut(session) else { continue };
            let Some(id) = action.sql().and_then(|sql| sql.strip_prefix(b"XA PREPARE ")) else { continue };
            let end = Action::Query(fill(&[b"XA ROLLBACK ", id].concat(), self.index));
            for probe in [direct, through] {
                // It is over already, most often.
                let _ = probe.act(&end, &self.differences).await;
            }
        }
    }

    async fn run_with(
        &mut self,
        script: &Script,
        sessions: &mut HashMap<usize, (Probe, Probe)>,
    ) -> anyhow::Result<Option<Mismatch>> {
        let front = self.fronts[usize::from(script.primary_only)].clone();
        let direct = server_address(self.world.direct())?;
        let schema = fill_text("{a}", self.index);
        let mut last = 0;
        let mut set_up = Vec::new();
        for (at, Step { session, action }) in script.steps.iter().enumerate() {
            let action = fill_action(action, self.index);
            if *session == 0 {
                let Action::Query(sql) = action else { bail!("session 0 sends SQL text only") };
                set_up.extend_from_slice(&sql);
                set_up.extend_from_slice(b";\n");
                last = 0;
                continue;
            }
            if !set_up.is_empty() {
                self.set_up(&std::mem::take(&mut set_up)).await?;
            }
            // A session sees its own writes at once; those of others only where replicas have them.
            if last != *session && !script.primary_only {
                self.sync().await?;
            }
            last = *session;
            if !sessions.contains_key(session) {
                let login = script.logins.get(session).copied().unwrap_or_default();
                let pair = (
                    Probe::connect(&direct, login, &schema).await?,
                    Probe::connect(&front, login, &schema).await.context("through Sqluice")?,
                );
                sessions.insert(*session, pair);
            }
            if self.cached {
                self.knows_tables().await?;
            }
            let Some((direct, through)) = sessions.get_mut(session) else { continue };
            let direct = direct.act(&action, &self.differences).await?;
            let through = through.act(&action, &self.differences).await?;
            self.compared += 1;
            if direct != through {
                return Ok(Some(Mismatch { step: at, action: action.to_string(), direct, through }));
            }
            if direct.iter().any(|line| line.starts_with("broken")) {
                sessions.remove(session);
            }
        }
        Ok(None)
    }

    /// Runs statements on the servers themselves.
    async fn set_up(&mut self, sql: &[u8]) -> anyhow::Result<()> {
        let text = || String::from_utf8_lossy(sql).into_owned();
        let (direct, workshop) = (&mut self.direct, &mut self.workshop);
        let (direct, through) = tokio::join!(direct.query(sql), workshop.query(sql));
        direct.with_context(text)?;
        through.with_context(text)?;
        self.sync().await
    }

    /// Empty schemas, as each script finds them. What the script before held is let go of by and by.
    async fn clean(&mut self) -> anyhow::Result<()> {
        for _ in 1..CLEAN_TRIES {
            if self.clean_once().await.is_ok() {
                return Ok(());
            }
        }
        let Err(error) = self.clean_once().await else { return Ok(()) };
        let mut open = String::new();
        for (side, client) in [("direct", &mut self.direct), ("through", &mut self.primary)] {
            let found = client.query_one("SELECT * FROM information_schema.INNODB_TRX").await?;
            for row in 0..found.rows.len() {
                for column in ["trx_mysql_thread_id", "trx_started", "trx_state", "trx_query", "trx_rows_locked"] {
                    write!(open, "{side} {column}={:?} ", found.text(row, column))?;
                }
            }
            let found = client.query_one("SHOW PROCESSLIST").await?;
            for row in 0..found.rows.len() {
                for column in ["Id", "Command", "Time", "State", "Info"] {
                    write!(open, "{column}={:?} ", found.text(row, column))?;
                }
                open.push('\n');
            }
        }
        Err(error.context(open))
    }

    async fn clean_once(&mut self) -> anyhow::Result<()> {
        for client in [&mut self.direct, &mut self.primary] {
            // A transaction that was prepared outlives its session, and its locks do.
            let prepared = client.query_one("XA RECOVER").await?;
            for row in 0..prepared.rows.len() {
                let id = prepared.text(row, "data").unwrap_or_default();
                if id.starts_with(&fill_text("{a}", self.index)) {
                    client.query(format!("XA ROLLBACK '{id}'")).await?;
                }
            }
        }
        self.set_up(fill_text(CLEAN, self.index).as_bytes()).await
    }

    /// Waits until all replicas have what the primary has.
    async fn sync(&mut self) -> anyhow::Result<()> {
        let (ask, wait) = match self.world.family() {
            Family::MariaDb => ("SELECT @@GLOBAL.gtid_binlog_pos", "MASTER_GTID_WAIT"),
            Family::MySql => ("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')", "WAIT_FOR_EXECUTED_GTID_SET"),
        };
        let position = self.primary.query_one(ask).await?.scalar().unwrap_or_default().into_owned();
        if position == self.position {
            return Ok(());
        }
        for replica in &mut self.replicas {
            let reached = replica.query_one(format!("SELECT {wait}('{position}', {})", SOON.as_secs())).await?;
            if reached.scalar().as_deref() != Some("0") {
                bail!("a replica did not reach {position} within {SOON:?}");
            }
        }
        self.position = position;
        Ok(())
    }

    /// Ends the lane's Sqluice.
    pub async fn stop(self) {
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

/// What is done before each script.
const CLEAN: &str = "
DROP DATABASE IF EXISTS {a};
DROP DATABASE IF EXISTS {b};
CREATE DATABASE {a} CHARACTER SET utf8mb4;
CREATE DATABASE {b} CHARACTER SET latin1;
DELETE FROM {lib}.log;
ALTER TABLE {lib}.log AUTO_INCREMENT = 1;
UPDATE {lib}.counter SET n = 0;
";

fn server_address(server: &lab::Server) -> anyhow::Result<net::Address> {
    let address = server.address().to_string();
    address.parse().map_err(|error| anyhow!("{address}: {error}"))
}

async fn control(address: &net::Address) -> anyhow::Result<Client> {
    let target = Target::plain(address.clone(), SOON);
    let login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
    Ok(Client::connect(&target, login, Limits { timeout: SOON + SOON, ..Limits::default() }).await?)
}

fn config(world: &World, connections: usize, cached: bool) -> anyhow::Result<config::Config> {
    let mut text = format!(
        "[proxy]\nworkers = 1\ndrain_ms = 200\n\
         [listener.auto]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n\
         [listener.primary]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nsplit = \"primary\"\n\
         [cluster.main]\nkind = \"replication\"\nslow_start_s = 0\ncatalog_refresh_s = 1\n\
         monitor = {{ user = \"{}\", password = \"{}\", interval_ms = 100 }}\n\
         pool = {{ max_connections_per_server = {connections}, wait_ms = 3000 }}\ntls = {{ mode = \"disabled\" }}\n",
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

/// Puts the lane's schemas in.
fn fill_text(text: &str, lane: usize) -> String {
    let schema = |name: &str| format!("c{lane}_{name}");
    text.replace("{a}", &schema("a")).replace("{b}", &schema("b")).replace("{lib}", &schema("lib"))
}

fn fill(bytes: &[u8], lane: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    'bytes: while let Some((&byte, after)) = rest.split_first() {
        if byte == b'{' {
            for name in ["{a}", "{b}", "{lib}"] {
                if let Some(after) = rest.strip_prefix(name.as_bytes()) {
                    out.extend_from_slice(fill_text(name, lane).as_bytes());
                    rest = after;
                    continue 'bytes;
                }
            }
        }
        out.push(byte);
        rest = after;
    }
    out
}

fn fill_action(action: &Action, lane: usize) -> Action {
    match action {
        Action::Query(sql) => Action::Query(fill(sql, lane)),
        Action::Prepare(name, sql) => Action::Prepare(name.clone(), fill(sql, lane)),
        Action::InitDb(schema) => Action::InitDb(fill(schema, lane)),
        Action::ChangeUser(schema) => Action::ChangeUser(schema.as_deref().map(|schema| fill_text(schema, lane))),
        other => other.clone(),
    }
}
