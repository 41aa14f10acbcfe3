//! One primary and one replica for all tests of this binary, and a proxy for each test that wants its own limits.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use config::{MemorySource, parse};
use facts::accounts::{Account, Accounts, TlsDemand, Verifier};
use facts::catalog::{Catalog, Collation};
use facts::published::Published;
use facts::view::{Flavour, Health, Role, ServerId, ServerView, View};
use lab::{Family, Replication, ReplicationOptions};
use net::client::{Target, connect};
use net::query::{self, Client, Limits};
use wire::auth::{Credential, native};

/// The servers, started once; they go with this process.
pub fn servers() -> &'static Replication {
    static SERVERS: OnceLock<Replication> = OnceLock::new();
    // Questions about the server itself go to the primary; what a view reads does not show.
    let init_sql = "CREATE VIEW app.port AS SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES \
                    WHERE VARIABLE_NAME = 'PORT'";
    let options = || ReplicationOptions { init_sql: init_sql.into(), ..ReplicationOptions::new(Family::MariaDb, 1) };
    SERVERS.get_or_init(|| Replication::start(options()).unwrap())
}

/// A running data plane.
pub struct Front {
    pub address: net::Address,
    pub stats: stats::Workers,
}

impl Front {
    /// Starts one with these lines added to the cluster's pool and to the listener.
    pub fn start(pool: &str, listener: &str) -> Front {
        let (primary, replica) = (servers().primary().address(), servers().server(1).address());
        let text = format!(
            "[cluster.main]\nkind = \"replication\"\nmonitor = {{ user = \"sqluice\", password = \"x\" }}\n\
             servers.db1 = {{ address = \"{primary}\" }}\nservers.db2 = {{ address = \"{replica}\" }}\n\
             [cluster.main.pool]\n{pool}\n\
             [listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{listener}\n\
             [proxy]\nworkers = 2\n"
        );
        let loaded = parse("test.toml", &text, &MemorySource::default()).unwrap_or_else(|errors| panic!("{errors}"));
        let published = Arc::new(Published::new("main"));
        let (tell, reported) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                publish(&published).await;
                let clusters = HashMap::from([(Arc::from("main"), published)]);
                let proxy = sqluice_proxy::Proxy::start(loaded.config, &clusters, None, Vec::new()).await.unwrap();
                tell.send((proxy.address("app").unwrap(), proxy.stats())).unwrap();
                std::future::pending::<()>().await;
            });
        });
        let (address, stats) = reported.recv().unwrap();
        Front { address: address.parse().unwrap(), stats }
    }

    /// Logs in as the application.
    pub async fn client(&self) -> Client {
        self.client_with(|_| {}).await
    }

    /// Logs in as the application with changes to the login.
    pub async fn client_with(&self, change: impl FnOnce(&mut wire::handshake::client::LoginRequest)) -> Client {
        let target = Target::plain(self.address.clone(), Duration::from_secs(10));
        let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        login.schema = Some(lab::APP_DATABASE.into());
        change(&mut login);
        Client::connect(&target, login, Limits::default()).await.unwrap()
    }

    /// The sum of a count over all workers.
    pub fn sum(&self, count: impl Fn(&stats::WorkerStats) -> u64) -> u64 {
        self.stats.iter().map(|worker| count(worker)).sum()
    }

    /// Sessions pinned now, in words. The last statement of `client` is counted when its next command is answered.
    pub async fn pins(&self, client: &mut Client) -> Vec<&'static str> {
        client.ping().await.unwrap();
        let mut words = Vec::new();
        for worker in self.stats.iter() {
            words.extend(worker.pins.iter().filter(|(_, gauge)| gauge.get() > 0).map(|(word, _)| word));
        }
        words
    }
}

/// One value of a one-row result.
pub async fn value(client: &mut Client, sql: &str) -> String {
    let result = client.query_one(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    result.scalar().map_or("NULL".into(), |text| text.into_owned())
}

/// The port of the server that answers: tells primary and replica apart.
pub async fn port(client: &mut Client) -> u16 {
    value(client, "SELECT * FROM app.port").await.parse().unwrap()
}

async fn publish(published: &Published) {
    let target = Target::plain(servers().primary().address().to_string().parse().unwrap(), Duration::from_secs(10));
    let connected = connect(&target, query::login("app", Credential::password("app-secret"))).await.unwrap();
    let greeting = connected.greeting.clone();
    let mut client = Client::new(connected, Limits::default());
    let mut catalog = Catalog { number: 1, functions_complete: true, ..Catalog::default() };
    let collations = client
        .query_one("SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME, IS_DEFAULT FROM information_schema.COLLATIONS")
        .await
        .unwrap();
    for row in &collations.rows {
        let text = |index: usize| String::from_utf8(row[index].clone().unwrap_or_default()).unwrap();
        let collation = Collation { charset: text(1).into(), name: text(2).into(), is_default: text(3) == "Yes" };
        if let Ok(id) = text(0).parse() {
            catalog.collations.insert(id, collation);
        }
    }
    for row in &client.query_one("SHOW GLOBAL VARIABLES").await.unwrap().rows {
        let text = |index: usize| String::from_utf8_lossy(row[index].as_deref().unwrap_or_default()).into_owned();
        catalog.globals.insert(text(0).to_lowercase(), text(1));
    }
    published.publish_catalog(catalog);
    published.catalog_was_read(published.catalog_request());
    let stage2 = native::stage2(&native::stage1(lab::APP_PASSWORD.as_bytes()));
    let account = Account {
        user: "app".into(),
        host: "%".into(),
        verifiers: vec![Verifier::Native(stage2)],
        locked: false,
        expired: false,
        counts_failures: false,
        tls: TlsDemand::None,
        statement_time: None,
    };
    published.publish_accounts(Accounts::sorted(1, true, vec![account]));
    let server = |id: u16, role: Role| ServerView {
        id: ServerId(id),
        name: format!("db{}", id + 1).into(),
        address: servers().server(usize::from(id)).address().to_string().into(),
        resolved: None,
        role,
        health: Health::Up,
        lag: Some(Duration::ZERO),
        serves_reads: role == Role::Replica,
        fenced: false,
        weight: 100,
        zone: "".into(),
        reason: "".into(),
    };
    published.publish_view(View {
        number: 1,
        epoch: 1,
        hold_writes: false,
        group: None,
        same_data: false,
        cluster: "main".into(),
        primary: Some(ServerId(0)),
        servers: Arc::from([server(0, Role::Primary), server(1, Role::Replica)]),
        flavour: Some(Arc::new(Flavour {
            mariadb: true,
            greeting_version: greeting.server_version.as_str().into(),
            number: 101_119,
            capabilities: greeting.capabilities.bits(),
            auth_plugin: greeting.plugin.as_str().into(),
            collation: greeting.collation,
        })),
        monitor_denied: false,
    });
}
