//! EXPLAIN on a replica, for an operator: with the monitor's account, in a transaction that may write nothing, and limited in time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use admin::{Explain, Explained, Explainer, Later};
use config::Config;
use facts::published::Published;
use facts::view::{Health, Role, View};
use net::query::{Client, Limits, QueryError, ResultSet};
use wire::errno;

use crate::cluster_link::Clusters;
use crate::monitor;
use crate::monitor::link::{ServerAccess, is_denied};

/// Longest time for a connection, and for EXPLAIN.
const CONNECT_MAX: Duration = Duration::from_secs(3);
const EXPLAIN_MAX: Duration = Duration::from_secs(5);
/// The same on the server, which ends a statement whose client has gone.
const ON_SERVER_MS: u32 = 4_000;
/// Largest plan.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Asks replicas for plans.
pub struct Plans(RwLock<Arc<BTreeMap<Arc<str>, Cluster>>>);

/// A cluster, as the configuration has it.
struct Cluster {
    published: Arc<Published>,
    user: Arc<str>,
    servers: BTreeMap<Arc<str>, ServerAccess>,
}

impl Plans {
    /// For these clusters.
    pub fn new(config: &Config, links: &Clusters) -> Plans {
        Plans(RwLock::new(Arc::new(clusters(config, links))))
    }

    /// Takes a new configuration.
    pub fn reload(&self, config: &Config, links: &Clusters) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(clusters(config, links));
    }
}

fn clusters(config: &Config, links: &Clusters) -> BTreeMap<Arc<str>, Cluster> {
    let cluster = |(name, cluster): (&Arc<str>, &config::Cluster)| {
        let link = links.get(name)?;
        let access = |server: &Arc<str>| Some((server.clone(), monitor::access(cluster, &link.tls, server)?));
        let servers = cluster.servers.keys().filter_map(access).collect();
        let (published, user) = (link.published.clone(), cluster.monitor.user.clone());
        Some((name.clone(), Cluster { published, user, servers }))
    };
    config.clusters.iter().filter_map(cluster).collect()
}

impl Explainer for Plans {
    fn explain(&self, wanted: Explain) -> Later<Result<Explained, String>> {
        let clusters = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let gone = || format!("cluster '{}' is not watched", wanted.cluster);
            clusters.get(&*wanted.cluster).ok_or_else(gone)?.explain(&wanted).await
        })
    }
}

impl Cluster {
    async fn explain(&self, wanted: &Explain) -> Result<Explained, String> {
        let server = choose(&self.published.view.load(), wanted.server.as_deref())?;
        let access = self.servers.get(&server).ok_or_else(|| format!("server '{server}' is not watched"))?;
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: EXPLAIN_MAX };
        let client = access.open_for_one_statement(CONNECT_MAX, limits).await;
        let mut client = client.map_err(|failure| format!("{server}: {}", failure.text))?;
        let plan = ask(&mut client, &wanted.schema, &wanted.sample.0).await;
        plan.map(|result| shown(&server, &result)).map_err(|error| self.words(&server, &wanted.schema, &error))
    }

    /// The words of a failure: a grant that is missing, or the server's own where those name nothing but objects. Others may quote
    /// the sample, whose literals nobody shall see.
    fn words(&self, server: &str, schema: &str, error: &QueryError) -> String {
        let QueryError::Server(refusal) = error else { return format!("{server}: {error}") };
        let user = &self.user;
        let grant = match refusal.code {
            code if is_denied(code) => "SELECT",
            errno::ER_VIEW_NO_EXPLAIN => "SELECT, SHOW VIEW",
            errno::ER_NO_SUCH_TABLE | errno::ER_BAD_DB_ERROR => return format!("{server}: {error}"),
            code => {
                let state = refusal.sqlstate.as_deref().unwrap_or("HY000");
                return format!("{server} does not explain it: error {code}, SQLSTATE {state}");
            }
        };
        let on = if schema.is_empty() { "the schema's tables".to_owned() } else { format!("`{schema}`.*") };
        format!("{server}: {error}; the monitor's account lacks a right: GRANT {grant} ON {on} TO {user}")
    }
}

/// The server that explains: the named one, or a replica that is up.
fn choose(view: &View, named: Option<&str>) -> Result<Arc<str>, String> {
    if let Some(named) = named {
        let found = view.servers.iter().find(|server| &*server.name == named);
        return found.map(|server| server.name.clone()).ok_or_else(|| format!("there is no server '{named}'"));
    }
    let is_fit = |role: Role, health: Health| role == Role::Replica && health == Health::Up;
    let replica =
        view.servers.iter().filter(|server| is_fit(server.role, server.health)).min_by_key(|server| server.lag);
    let none = "no replica is up; name a server to ask, as in {\"server\": \"db1\"}";
    replica.map(|server| server.name.clone()).ok_or_else(|| none.to_owned())
}

async fn ask(client: &mut Client, schema: &str, text: &[u8]) -> Result<ResultSet, QueryError> {
    // The sample was read with these modes; nothing that EXPLAIN evaluates may write.
    client.query("SET sql_mode = ''").await?;
    limit_time(client).await?;
    if !schema.is_empty() {
        client.init_db(schema).await?;
    }
    client.query("START TRANSACTION READ ONLY").await?;
    client.query_one([b"EXPLAIN FORMAT=TRADITIONAL ", text].concat()).await
}

/// MariaDB and MySQL have different variables for it; a server without either has the client's limit alone.
async fn limit_time(client: &mut Client) -> Result<(), QueryError> {
    let seconds = f64::from(ON_SERVER_MS) / 1000.0;
    for set in [format!("SET max_statement_time = {seconds}"), format!("SET max_execution_time = {ON_SERVER_MS}")] {
        match client.query(&set).await {
            Ok(_) | Err(QueryError::Server(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn shown(server: &str, result: &ResultSet) -> Explained {
    let text = |value: &Option<Vec<u8>>| value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    Explained {
        server: server.to_owned(),
        columns: result.columns.iter().map(|column| column.name.clone()).collect(),
        rows: result.rows.iter().map(|row| row.iter().map(text).collect()).collect(),
    }
}
