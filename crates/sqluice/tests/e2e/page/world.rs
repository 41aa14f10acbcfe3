//! Servers, the program in front of them, and clients that keep both busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::{Family, Replication, ReplicationOptions};
use net::query::{Client, Limits};
use tokio::task::JoinHandle;

use crate::support::{Front, SOON, all, app, blocking};

pub const ADMIN_KEY: &str = "open everything";
pub const OPERATE_KEY: &str = "open some";
pub const VIEW_KEY: &str = "only look";
/// No statement of this test runs for so long by itself.
const LONG_S: u32 = 300;

const TABLES: &str = "USE app;
    CREATE TABLE app.items (id INT PRIMARY KEY, name VARCHAR(40), price INT);
    INSERT INTO app.items SELECT seq, CONCAT('item ', seq), seq * 3 FROM seq_1_to_500;
    CREATE TABLE app.orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT, at TIMESTAMP DEFAULT NOW());
    CREATE TABLE app.pages (id INT PRIMARY KEY, body VARCHAR(200));
    INSERT INTO app.pages SELECT seq, REPEAT('x', 100) FROM seq_1_to_20;
    CREATE TABLE app.planned (id INT PRIMARY KEY, k VARCHAR(20), KEY by_k (k));
    INSERT INTO app.planned SELECT seq, CONCAT('k', seq) FROM seq_1_to_20";

const RULES: &str = "[[rule]]\nname = \"pages\"\ntable = \"app.pages\"\naccess = \"read\"\ncache = \"on\"\ncache_ttl_ms = 2000\n\
    [[rule]]\nname = \"no-full-delete\"\ndigest_regex = '^DELETE FROM [^ ]+$'\nrefuse = \"a DELETE needs a WHERE\"\n\
    [[rule]]\nname = \"reports\"\nuser = \"reports\"\naccess = \"read\"\nroute = \"server:db2\"\n";

/// A server pair with Sqluice in front, and its clients.
pub struct World {
    pub front: Front,
    servers: Arc<Replication>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl World {
    pub async fn start() -> World {
        let options = ReplicationOptions { init_sql: TABLES.into(), ..ReplicationOptions::new(Family::MariaDb, 1) };
        let servers = Arc::new(blocking(move || Replication::start(options).unwrap()).await);
        let front = Front::start(&servers, |setup| {
            setup.proxy += "\ndigests_max = 2000";
            setup.admin = "sql_address = \"127.0.0.1:0\"\n".into();
            setup.admin +=
                &format!("key = \"{ADMIN_KEY}\"\noperate_key = \"{OPERATE_KEY}\"\nview_key = \"{VIEW_KEY}\"");
            setup.cluster +=
                &format!("\nreplication = {{ user = \"{}\", password = \"{}\" }}", lab::REPL_USER, lab::REPL_PASSWORD);
            setup.more = format!(
                "[events]\nqueries = \"all\"\n[history]\npath = \"history.sqlite\"\nexplain_every_s = 1\n{RULES}"
            );
        })
        .await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for number in 0..6 {
            let (target, stop) = (front.target(), stop.clone());
            clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // A kill and a switchover end sessions; their clients come again.
                    if let Ok(mut client) = Client::connect(&target, app(), Limits::default()).await {
                        let _ = turn(&mut client, number, &stop).await;
                    }
                }
            }));
        }
        World { front, servers, stop, clients }
    }

    /// A client that runs a statement for long. It ends when the statement is killed.
    pub async fn long(&self, marker: &str) -> JoinHandle<()> {
        let mut client = self.front.client().await;
        let text = format!("SELECT SLEEP({LONG_S}) AS {marker} FROM app.items WHERE id = 1");
        tokio::spawn(async move {
            let _ = client.query(text).await;
        })
    }

    /// The monitor's account may explain reads of the application.
    pub async fn let_monitor_read(&self) {
        let servers = self.servers.clone();
        let grant = format!("GRANT SELECT ON app.* TO {}@'%'", lab::MONITOR_USER);
        blocking(move || {
            servers.primary().sql(&grant).unwrap();
            servers.wait_in_sync(SOON).unwrap();
        })
        .await;
    }

    /// All replicas have what the primary has.
    pub async fn in_sync(&self) {
        let servers = self.servers.clone();
        blocking(move || servers.wait_in_sync(SOON).unwrap()).await;
    }

    /// A transaction that nobody goes on with.
    pub async fn idle_transaction(&self) -> Client {
        let mut client = self.front.client().await;
        all(&mut client, "BEGIN").await;
        all(&mut client, "UPDATE app.items SET price = price + 1 WHERE id = 500").await;
        client
    }

    pub async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        drop(self.front);
        blocking(move || drop(self.servers)).await;
    }
}

/// The work of one client until it is stopped, or fails.
async fn turn(client: &mut Client, number: u32, stop: &AtomicBool) -> Option<()> {
    for n in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let id = n % 20 + 1;
        client.query(format!("SELECT name, price FROM app.items WHERE id = {}", number * 20 + id)).await.ok()?;
        client.query(format!("SELECT body FROM app.pages WHERE id = {id}")).await.ok()?;
        client.query("SELECT COUNT(*), SUM(price) FROM app.items").await.ok()?;
        match n % 10 {
            0 => drop(client.query(format!("INSERT INTO app.orders (item) VALUES ({id})")).await.ok()?),
            3 => drop(client.query("INSERT INTO app.items VALUES (1, 'twice', 0)").await),
            5 => drop(client.query("DELETE FROM app.items").await),
            7 => drop(client.query("SELECT nothing FROM app.items").await),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    None
}
