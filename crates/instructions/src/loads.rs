//! The kinds of work that are counted.

use std::time::Duration;

use anyhow::Context as _;
use lab::{APP_DATABASE, APP_PASSWORD, APP_USER};
use net::Address;
use net::client::Target;
use net::query::{self, Client, Limits, Parameter, Statement};
use wire::Capabilities;
use wire::auth::Credential;
use wire::handshake::client::LoginRequest;

/// Longest wait for anything through a program that callgrind slows down.
const LIMIT: Duration = Duration::from_secs(60);
/// Rows of the table.
const ROWS: u32 = 1000;
/// Rows of a result of many rows.
const MANY: u32 = 100;

/// Parts in which a load is counted.
pub const PARTS: u32 = 8;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SELECT by the primary key, as text.
    PointSelect,
    /// The same, by a client without `DEPRECATE_EOF`: older connectors, and those that sysbench is built with.
    ClassicPoint,
    /// The point select, prepared.
    Execute,
    /// A result of [`MANY`] rows.
    Rows,
    /// The point select, other than ever before.
    NewPoint,
    /// [`MANY`] rows that nobody has asked for before.
    NewRows,
    /// A change of a session variable.
    Set,
    /// The point select of two sessions of different state that take turns on one connection.
    FixUp,
    /// BEGIN, a point select, an update by the primary key, COMMIT.
    Transaction,
    /// Connect, log in, one point select, leave.
    Connect,
}

/// A kind with its name and how often it is done.
#[derive(Debug)]
pub struct Load {
    /// Which.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// One piece of it, in a few words.
    pub what: &'static str,
    /// How many pieces are counted, in all [`PARTS`].
    pub times: u32,
    /// The program's rules.
    pub rules: Rules,
    /// Growth that is refused, as a share of the figure that is kept: above the spread between two runs of one program.
    pub growth_max: f64,
}

/// Growth that is refused for most kinds; two runs agree within 0.1 %, on machines at rest and busy ones.
const GROWTH_MAX: f64 = 0.01;
/// Growth that is refused where a reply comes in one piece or in two, as the machine will have it: each piece costs a turn of
/// the worker. Two machines differed by 10 %.
const GROWTH_BY_PIECES_MAX: f64 = 0.15;

/// Rules of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// So many that route; the last one fits the point select.
    Route(u32),
    /// One by which the point select is answered by the cache.
    Cache,
    /// None; each read that may share a connection does.
    Pipelines,
}

/// All kinds.
pub const LOADS: [Load; 17] = [
    load(Kind::PointSelect, "point_select", "SELECT of a row by its key, as text, on a replica", 4000),
    load(Kind::ClassicPoint, "classic_point_select", "the same for a client with EOF packets, as sysbench", 4000),
    load(Kind::Execute, "execute", "point_select, prepared", 4000),
    load(Kind::Rows, "rows", "SELECT of 100 rows (13 kB)", 2000),
    load(Kind::Set, "set", "SET of a session variable", 2000),
    // Two replies come together or not.
    by_pieces(load(Kind::FixUp, "fix_up", "the SELECT of a row, behind a session of another state", 2000)),
    load(Kind::Transaction, "transaction", "BEGIN, SELECT, UPDATE, COMMIT", 1000),
    // Clients and servers send the parts of a login as they come.
    by_pieces(load(Kind::Connect, "connect", "connect, log in, SELECT of a row, leave", 304)),
    ruled(
        load(Kind::PointSelect, "point_select_10_rules", "point_select with 10 rules, the last of which fits", 4000),
        Rules::Route(10),
    ),
    ruled(load(Kind::PointSelect, "point_select_1000_rules", "the same with 1,000 rules", 4000), Rules::Route(1000)),
    ruled(
        load(Kind::Execute, "execute_1000_rules", "execute with 1,000 rules, the last of which fits", 4000),
        Rules::Route(1000),
    ),
    ruled(
        load(Kind::PointSelect, "pipelined", "point_select on a pipeline, with no other read on it", 4000),
        Rules::Pipelines,
    ),
    ruled(load(Kind::Execute, "pipelined_execute", "execute on a pipeline, likewise", 4000), Rules::Pipelines),
    ruled(load(Kind::PointSelect, "cache_hit", "point_select, answered by the cache", 4000), Rules::Cache),
    ruled(load(Kind::Execute, "cache_hit_execute", "execute, answered by the cache", 4000), Rules::Cache),
    ruled(load(Kind::NewPoint, "cache_fill", "point_select, kept by the cache", 4000), Rules::Cache),
    ruled(load(Kind::NewRows, "cache_fill_rows", "rows, kept by the cache", 2000), Rules::Cache),
];

const fn load(kind: Kind, name: &'static str, what: &'static str, times: u32) -> Load {
    Load { kind, name, what, times, rules: Rules::Route(0), growth_max: GROWTH_MAX }
}

const fn by_pieces(load: Load) -> Load {
    Load { growth_max: GROWTH_BY_PIECES_MAX, ..load }
}

const fn ruled(load: Load, rules: Rules) -> Load {
    Load { rules, ..load }
}

impl Load {
    /// How many pieces a part has.
    pub fn part_times(&self) -> u32 {
        self.times / PARTS
    }

    /// How often it is done before it is counted: until all that is remembered is known, the answer to each question too.
    pub fn warm_up(&self) -> u32 {
        let some = self.times / 10 + 20;
        if self.rules == Rules::Cache { some.max(ROWS) } else { some }
    }
}

/// Makes and fills the table: rows as those of sysbench.
pub fn tables() -> String {
    let digits = |length: usize| format!("RPAD('', {length}, CONCAT(LPAD(seq * 7919, 11, '0'), '-'))");
    format!(
        "CREATE TABLE {APP_DATABASE}.sbtest1 (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, \
         pad CHAR(60) NOT NULL, KEY k_1 (k));\n\
         INSERT INTO {APP_DATABASE}.sbtest1 SELECT seq, seq, {}, {} FROM {APP_DATABASE}.seq_1_to_{ROWS};\n",
        digits(119),
        digits(59),
    )
}

/// The clients of a load; each connects when it is needed.
#[derive(Debug)]
pub struct Clients {
    target: Target,
    open: Vec<(Client, Option<Statement>)>,
    /// They get EOF packets behind columns and rows.
    classic: bool,
    /// Which row is next.
    row: u32,
    /// How many new questions there were.
    new: u32,
}

impl Clients {
    /// None yet.
    pub fn new(address: Address) -> Clients {
        Clients { target: Target::plain(address, LIMIT), open: Vec::new(), classic: false, row: 0, new: 0 }
    }

    /// Does a piece of work this many times, one after the other.
    ///
    /// # Errors
    /// A connection is lost, or a statement fails.
    pub async fn run(&mut self, kind: Kind, times: u32) -> anyhow::Result<()> {
        self.classic = kind == Kind::ClassicPoint;
        for turn in 0..times {
            self.row = self.row % ROWS + 1;
            let id = self.row;
            match kind {
                Kind::PointSelect | Kind::ClassicPoint => self.point_select(0, id).await?,
                Kind::Execute => self.execute(id).await?,
                Kind::Rows => self.rows(0, &many(id), MANY as usize).await?,
                Kind::NewPoint => {
                    let sql = format!("SELECT c FROM sbtest1 WHERE id={id} AND k<{}", self.next_new());
                    self.rows(0, &sql, 1).await?;
                }
                Kind::NewRows => {
                    let sql = format!("{} AND k<{}", many(id), self.next_new());
                    self.rows(0, &sql, MANY as usize).await?;
                }
                Kind::Set => self.change(0, &format!("SET SESSION sort_buffer_size = {}", 65_536 + id)).await?,
                Kind::FixUp => self.fix_up(turn, id).await?,
                Kind::Transaction => {
                    self.change(0, "BEGIN").await?;
                    self.point_select(0, id).await?;
                    self.change(0, &format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {id}")).await?;
                    self.change(0, "COMMIT").await?;
                }
                Kind::Connect => {
                    self.point_select(0, id).await?;
                    self.leave().await?;
                }
            }
        }
        Ok(())
    }

    /// A number that is larger than all keys and was not given before.
    fn next_new(&mut self) -> u32 {
        self.new += 1;
        1_000_000 + self.new
    }

    /// Ends all clients.
    ///
    /// # Errors
    /// A connection was lost.
    pub async fn leave(&mut self) -> anyhow::Result<()> {
        for (client, _) in self.open.drain(..) {
            client.quit().await?;
        }
        Ok(())
    }

    async fn client(&mut self, index: usize) -> anyhow::Result<&mut (Client, Option<Statement>)> {
        while self.open.len() <= index {
            let limits = Limits { timeout: LIMIT, ..Limits::default() };
            let mut login = login();
            login.capabilities.set(Capabilities::DEPRECATE_EOF, !self.classic);
            self.open.push((Client::connect(&self.target, login, limits).await?, None));
        }
        self.open.get_mut(index).context("no such client")
    }

    async fn point_select(&mut self, index: usize, id: u32) -> anyhow::Result<()> {
        self.rows(index, &format!("SELECT c FROM sbtest1 WHERE id={id}"), 1).await
    }

    async fn rows(&mut self, index: usize, sql: &str, rows: usize) -> anyhow::Result<()> {
        let results = self.client(index).await?.0.query(sql).await?;
        anyhow::ensure!(results.len() == 1 && results[0].rows.len() == rows, "{sql} gave something else");
        Ok(())
    }

    async fn change(&mut self, index: usize, sql: &str) -> anyhow::Result<()> {
        self.client(index).await?.0.query(sql).await?;
        Ok(())
    }

    async fn execute(&mut self, id: u32) -> anyhow::Result<()> {
        let (client, prepared) = self.client(0).await?;
        let statement = match prepared {
            Some(statement) => *statement,
            None => *prepared.insert(client.prepare("SELECT c FROM sbtest1 WHERE id=?").await?),
        };
        let results = client.execute(&statement, &[Parameter::Int(i64::from(id))]).await?;
        anyhow::ensure!(results.len() == 1 && results[0].rows.len() == 1, "the execution gave something else");
        Ok(())
    }

    async fn fix_up(&mut self, turn: u32, id: u32) -> anyhow::Result<()> {
        for (index, zone) in ["+01:00", "+02:00"].into_iter().enumerate() {
            if self.open.len() <= index {
                self.change(index, &format!("SET time_zone = '{zone}', sql_mode = 'ANSI', @tenant = {index}")).await?;
            }
        }
        self.point_select((turn % 2) as usize, id).await
    }
}

fn many(id: u32) -> String {
    let from = id.min(ROWS - MANY + 1);
    format!("SELECT c FROM sbtest1 WHERE id BETWEEN {from} AND {}", from + MANY - 1)
}

fn login() -> LoginRequest {
    let mut login = query::login(APP_USER, Credential::password(APP_PASSWORD));
    login.schema = Some(APP_DATABASE.into());
    login
}
