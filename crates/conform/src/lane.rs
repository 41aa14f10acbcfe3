//! A lane runs one script after the other: it has schemas and a Sqluice of its own, and shares the servers.

mod house;
mod mismatch;
mod names;
mod sessions;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use wire::auth::Credential;

pub use mismatch::Mismatch;
pub(crate) use names::fill_text;

use house::House;
use names::{fill, fill_action};
use sessions::{Met, Sessions};

use crate::client::Entrance;
use crate::differences::Differences;
use crate::generate::LIBRARY;
use crate::script::{Action, Script, Step};
use crate::world::World;

/// Longest wait for Sqluice to know its servers, and for replicas to catch up.
const SOON: Duration = Duration::from_secs(30);

/// How often the schemas are cleaned before that counts as failed; each waits for locks for a second.
const CLEAN_TRIES: usize = 10;

/// One lane.
pub struct Lane<'a> {
    world: &'a World,
    index: usize,
    differences: Differences,
    /// Connections to each server that usual scripts have.
    connections: usize,
    /// The Sqluice of usual scripts, once one was run. Scripts [whose sessions share](Script::shared) one connection have
    /// one of their own.
    house: Option<House>,
    direct: Client,
    primary: Client,
    /// Where the schemas are prepared: the primary itself, or through Sqluice, whose cache would not see it otherwise.
    workshop: Client,
    /// The lane's administrator on the server that is asked directly, and on the primary.
    administrators: [Client; 2],
    /// The script before may have made accounts.
    has_accounts: bool,
    cached: bool,
    replicas: Vec<Client>,
    /// The position that the replicas are known to have.
    position: String,
    /// How many steps were compared.
    pub compared: u64,
    /// How many steps were left out, because another session held the only connection.
    pub skipped: u64,
    /// Reads that shared a connection with reads of other sessions.
    pub pipelined: u64,
}

impl<'a> Lane<'a> {
    /// Makes the lane's schemas and starts its Sqluice. It runs on the current thread's runtime.
    ///
    /// # Errors
    /// Something did not start.
    pub async fn start(world: &'a World, index: usize, connections: usize, cached: bool) -> anyhow::Result<Lane<'a>> {
        for server in [world.direct(), world.cluster().primary()] {
            server.sql(&fill_text(LIBRARY, index)).context("the lane's own schema")?;
            server.sql(&fill_text(&administrator(world.family()), index)).context("the lane's administrator")?;
            let to = lab::APP_USER;
            let grants = match world.family() {
                // `clean` needs the first, Sqluice reads user variables by the second, and BINLOG needs the third.
                Family::MySql => format!(
                    "GRANT XA_RECOVER_ADMIN ON *.* TO {to};\n\
                     GRANT SELECT ON performance_schema.user_variables_by_thread TO {to};\n\
                     GRANT BINLOG_ADMIN ON *.* TO {to};"
                ),
                Family::MariaDb => format!("GRANT BINLOG REPLAY ON *.* TO {to};"),
            };
            server.sql(&grants).context("privileges")?;
        }
        if cached || world.family() == Family::MariaDb {
            // The cache goes by the definitions of tables and views. MariaDB shows views and defaults to who may read them.
            let grant = format!("GRANT SELECT ON *.* TO {}", lab::MONITOR_USER);
            world.cluster().primary().sql(&grant).context("the monitor's privileges")?;
        }
        let mut replicas = Vec::new();
        for replica in world.cluster().replicas() {
            replicas.push(control(&server_address(replica)?, lab::APP_USER).await?);
        }
        let (direct, primary) = (server_address(world.direct())?, server_address(world.cluster().primary())?);
        let administrator = fill_text("{admin}", index);
        let house = if cached { Some(House::start(world, connections, true, index).await?) } else { None };
        let workshop = house.as_ref().map_or(&primary, |house| house.to_primary());
        let mut lane = Lane {
            world,
            index,
            differences: Differences::load()?,
            connections,
            workshop: control(workshop, lab::APP_USER).await?,
            house,
            administrators: [control(&direct, &administrator).await?, control(&primary, &administrator).await?],
            direct: control(&direct, lab::APP_USER).await?,
            primary: control(&primary, lab::APP_USER).await?,
            has_accounts: true,
            cached,
            replicas,
            position: String::new(),
            compared: 0,
            skipped: 0,
            pipelined: 0,
        };
        lane.sync().await?;
        Ok(lane)
    }

    /// How many steps the result cache has answered.
    pub fn hits(&self) -> u64 {
        self.house.as_ref().map_or(0, House::hits)
    }

    /// Runs a script to its first difference.
    ///
    /// # Errors
    /// The script could not be run: a server is gone, or its preparation failed.
    pub async fn run(&mut self, script: &Script) -> anyhow::Result<Option<Mismatch>> {
        self.clean().await?;
        let house = match self.house.take_if(|_| !script.shared) {
            Some(house) => house,
            // Of its own, so that nothing comes from the script before.
            None if script.shared => House::start(self.world, 1, false, self.index).await?,
            None => House::start(self.world, self.connections, false, self.index).await?,
        };
        // The workshop is one of a cache's sessions.
        let others = usize::from(self.cached && !script.shared);
        let mut sessions = Sessions::new(script, others);
        let pipelined = house.pipelined();
        let found = self.run_with(script, &house, &mut sessions).await;
        self.pipelined += house.pipelined() - pipelined;
        self.end_prepared(script, &mut sessions).await;
        if script.shared && found.is_ok() {
            sessions.leave_all(&house, &mut self.direct).await?;
        }
        if script.shared {
            house.stop().await;
        } else {
            self.house = Some(house);
        }
        found
    }

    /// Ends XA transactions that were prepared in the sessions that prepared them. Another session that rolls one back while
    /// its own one leaves loses it on MariaDB 10.11: XA RECOVER lists it no more, and its locks stay until the server is
    /// started again.
    async fn end_prepared(&self, script: &Script, sessions: &mut Sessions) {
        for Step { session, action } in &script.steps {
            let Some(pair) = sessions.find(*session) else { continue };
            let Some(id) = action.sql().and_then(|sql| sql.strip_prefix(b"XA PREPARE ")) else { continue };
            let end = Action::Query(fill(&[b"XA ROLLBACK ", id].concat(), self.index));
            for probe in [&mut pair.direct, &mut pair.through] {
                // It is over already, most often.
                let _ = probe.act(&end, &self.differences).await;
            }
        }
    }

    async fn run_with(
        &mut self,
        script: &Script,
        house: &House,
        sessions: &mut Sessions,
    ) -> anyhow::Result<Option<Mismatch>> {
        let direct = server_address(self.world.direct())?;
        let through = house.front(script).clone();
        let lane = self.index;
        let entrance = |address: &net::Address, session: &usize| Entrance {
            address: address.clone(),
            login: script.logins.get(session).copied().unwrap_or_default(),
            lane,
        };
        let entrances = |session: &usize| [entrance(&direct, session), entrance(&through, session)];
        let mut last = 0;
        let mut set_up = Vec::new();
        for (at, Step { session, action }) in script.steps.iter().enumerate() {
            let action = fill_action(action, self.index);
            if *session == 0 {
                let Action::Query(sql) = action else { bail!("session 0 sends SQL text only") };
                set_up.push(sql);
                last = 0;
                continue;
            }
            if !set_up.is_empty() {
                let statements = std::mem::take(&mut set_up);
                self.set_up(&statements).await?;
                house.knows_code(&statements).await?;
            }
            if sessions.waits(*session, house).await? {
                self.skipped += 1;
                continue;
            }
            // A session sees its own writes at once; those of others only where replicas have them.
            if last != *session && !script.primary_only {
                self.sync().await?;
            }
            last = *session;
            if self.cached {
                house.knows_tables().await?;
            }
            let met = match sessions.enter(*session, entrances(session), &self.differences).await? {
                None => sessions.act(*session, &action, &self.differences, house, &mut self.direct).await?,
                Some(met) => met,
            };
            match met {
                Met::Same => self.compared += 1,
                Met::Nothing => self.skipped += 1,
                Met::Difference { at_login, direct, through } => {
                    let action = if at_login { "(login)".to_owned() } else { action.to_string() };
                    return Ok(Some(Mismatch { step: at, action, direct, through }));
                }
            }
        }
        Ok(None)
    }

    /// Runs statements on the servers themselves.
    async fn set_up(&mut self, statements: &[Vec<u8>]) -> anyhow::Result<()> {
        for run in statements.chunk_by(|a, b| is_of_accounts(a) == is_of_accounts(b)) {
            let sql = run.join(&b";\n"[..]);
            let of_accounts = is_of_accounts(&run[0]);
            self.has_accounts |= of_accounts;
            let [direct, through] = match &mut self.administrators {
                [direct, through] if of_accounts => [direct, through],
                _ => [&mut self.direct, &mut self.workshop],
            };
            let text = || String::from_utf8_lossy(&sql).into_owned();
            let (direct, through) = tokio::join!(direct.query(&sql), through.query(&sql));
            direct.with_context(text)?;
            through.with_context(text)?;
        }
        self.sync().await
    }

    /// Empty schemas, as each script finds them. The locks of the script before end a little later.
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
        if std::mem::take(&mut self.has_accounts) {
            let drop = fill_text("DROP USER IF EXISTS {u1}, {u2}; DROP ROLE IF EXISTS {r1}, {r2}", self.index);
            for administrator in &mut self.administrators {
                administrator.query(&drop).await?;
            }
        }
        self.set_up(&[fill_text(CLEAN, self.index).into_bytes()]).await
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
        if let Some(house) = self.house {
            house.stop().await;
        }
    }
}

/// Statements ahead of each script.
const CLEAN: &str = "
DROP DATABASE IF EXISTS {a};
DROP DATABASE IF EXISTS {b};
CREATE DATABASE {a} CHARACTER SET utf8mb4;
CREATE DATABASE {b} CHARACTER SET latin1;
DELETE FROM {lib}.log;
ALTER TABLE {lib}.log AUTO_INCREMENT = 1;
UPDATE {lib}.counter SET n = 0
";

/// The lane's administrator: it makes accounts and gives rights, and like the application sees nothing past `read_only`.
fn administrator(family: Family) -> String {
    let (identified, more) = match family {
        Family::MariaDb => (format!("VIA mysql_native_password USING PASSWORD('{}')", lab::APP_PASSWORD), ""),
        Family::MySql => {
            (format!("WITH caching_sha2_password BY '{}'", lab::APP_PASSWORD), ", CREATE ROLE, ROLE_ADMIN")
        }
    };
    format!(
        "DROP USER IF EXISTS {{admin}};\nCREATE USER {{admin}} IDENTIFIED {identified};\n\
         GRANT {}, CREATE USER{more} ON *.* TO {{admin}} WITH GRANT OPTION;\n",
        lab::APP_PRIVILEGES
    )
}

/// A statement that the lane's administrator runs.
fn is_of_accounts(sql: &[u8]) -> bool {
    let begins = ["GRANT", "REVOKE", "SET DEFAULT ROLE", "SET PASSWORD"];
    let kinds = ["CREATE", "DROP", "ALTER"].map(|verb| [format!("{verb} USER"), format!("{verb} ROLE")]);
    let mut words = begins.into_iter().map(str::to_owned).chain(kinds.into_iter().flatten());
    words.any(|words| sql.get(..words.len()).is_some_and(|head| head.eq_ignore_ascii_case(words.as_bytes())))
}

fn server_address(server: &lab::Server) -> anyhow::Result<net::Address> {
    let address = server.address().to_string();
    address.parse().map_err(|error| anyhow!("{address}: {error}"))
}

async fn control(address: &net::Address, user: &str) -> anyhow::Result<Client> {
    let target = Target::plain(address.clone(), SOON);
    let login = query::login(user, Credential::password(lab::APP_PASSWORD));
    Ok(Client::connect(&target, login, Limits { timeout: SOON + SOON, ..Limits::default() }).await?)
}
