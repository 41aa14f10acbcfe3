//! The program itself, in front of servers.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lab::Replication;
use net::client::{ConnectError, Target};
use net::query::{self, Client, Limits};
use net::tls::{ClientTls, ClientTlsOptions, ServerTlsMode};
use tempfile::TempDir;
use wire::auth::Credential;
use wire::handshake::client::LoginRequest;

use super::{Metrics, Ran, SOON, run, signal, until};

/// The sections of a configuration file: what a test adds to each.
pub struct Setup {
    pub proxy: String,
    pub admin: String,
    pub kind: &'static str,
    pub cluster: String,
    pub monitor: String,
    pub interval_ms: u32,
    pub servers: Vec<String>,
    pub pool: String,
    pub server_tls: String,
    /// Where the first listener listens.
    pub listener_address: String,
    pub listener: String,
    pub listener_tls: String,
    /// Whole sections, such as users.
    pub more: String,
}

impl Setup {
    fn new(addresses: &[String]) -> Setup {
        let line =
            |(index, address): (usize, &String)| format!("servers.db{} = {{ address = \"{address}\" }}", index + 1);
        Setup {
            proxy: "workers = 2\ndrain_ms = 200".into(),
            admin: String::new(),
            kind: "replication",
            cluster: "slow_start_s = 0".into(),
            monitor: format!("user = \"{}\"\npassword = \"{}\"", lab::MONITOR_USER, lab::MONITOR_PASSWORD),
            interval_ms: 100,
            servers: addresses.iter().enumerate().map(line).collect(),
            pool: String::new(),
            server_tls: "mode = \"disabled\"".into(),
            listener_address: "127.0.0.1:0".into(),
            listener: String::new(),
            listener_tls: String::new(),
            more: String::new(),
        }
    }

    fn text(&self) -> String {
        let Setup {
            proxy,
            admin,
            kind,
            cluster,
            monitor,
            interval_ms,
            pool,
            server_tls,
            listener,
            listener_tls,
            more,
            ..
        } = self;
        let address = &self.listener_address;
        let servers = self.servers.join("\n");
        format!(
            "[proxy]\n{proxy}\n[admin]\naddress = \"127.0.0.1:0\"\n{admin}\n\
             [cluster.main]\nkind = \"{kind}\"\n{cluster}\n{servers}\n\
             [cluster.main.monitor]\ninterval_ms = {interval_ms}\n{monitor}\n\
             [cluster.main.pool]\n{pool}\n[cluster.main.tls]\n{server_tls}\n\
             [listener.app]\naddress = \"{address}\"\ncluster = \"main\"\n{listener}\n\
             [listener.app.tls]\n{listener_tls}\n{more}\n"
        )
    }
}

/// The program, running. Dropped, it is asked to stop and must do so.
pub struct Front {
    child: Child,
    folder: TempDir,
    setup: Setup,
    stopped: bool,
    /// Where clients connect.
    pub address: String,
    /// Where metrics and health are.
    pub admin: String,
}

/// A login as the lab's application.
pub fn app() -> LoginRequest {
    let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
    login.schema = Some(lab::APP_DATABASE.into());
    login
}

impl Front {
    /// Starts the program with changes to the usual configuration; returns when it serves and knows all servers.
    pub async fn start(servers: &Replication, change: impl FnOnce(&mut Setup)) -> Front {
        let addresses: Vec<String> = servers.servers().iter().map(|server| server.address().to_string()).collect();
        let front = Front::start_on(&addresses, change).await;
        front.knows(addresses.len() - 1).await;
        front
    }

    /// Starts the program in front of servers at these addresses; returns when it listens.
    pub async fn start_on(addresses: &[String], change: impl FnOnce(&mut Setup)) -> Front {
        let folder = TempDir::new().unwrap();
        let mut setup = Setup::new(addresses);
        change(&mut setup);
        let (config, ready) = (folder.path().join("sqluice.toml"), folder.path().join("ready"));
        std::fs::write(&config, setup.text()).unwrap();
        std::fs::set_permissions(&config, Permissions::from_mode(0o600)).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_sqluice"))
            .args(["run", "--config"])
            .arg(&config)
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let (address, admin) = (String::new(), String::new());
        let mut front = Front { child, folder, setup, stopped: false, address, admin };
        let deadline = Instant::now() + SOON;
        let ready = loop {
            if let Ok(Some(status)) = front.child.try_wait() {
                front.stopped = true;
                panic!("the program ended at once with {status}:\n{}", front.log());
            }
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break text;
            }
            assert!(Instant::now() < deadline, "not ready in {SOON:?}:\n{}", front.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        front.address = reported(&ready, "app");
        front.admin = reported(&ready, "admin");
        front
    }

    /// Waits until there is a primary and as many servers take reads as there should be.
    pub async fn knows(&self, readers: usize) {
        until("a primary and replicas that serve", async || {
            let metrics = self.metrics().await;
            let serving = metrics.sum("sqluice_server_serves_reads", &[]);
            let primary = metrics.sum("sqluice_cluster_has_primary", &[]);
            (primary >= 1.0 && serving >= readers as f64).then_some(())
        })
        .await;
    }

    /// Where the clients of another listener connect.
    pub fn address_of(&self, listener: &str) -> String {
        reported(&std::fs::read_to_string(self.file("ready")).unwrap(), listener)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where clients of another listener connect.
    pub fn listener(&self, name: &str) -> String {
        reported(&std::fs::read_to_string(self.file("ready")).unwrap(), name)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    pub async fn metrics(&self) -> Metrics {
        Metrics::read(&self.admin).await
    }

    /// The figures with all in them that these clients were answered: a reply may be out before it is counted, but what the
    /// same session is answered next is not.
    pub async fn metrics_behind<const N: usize>(&self, clients: [&mut Client; N]) -> Metrics {
        for client in clients {
            client.ping().await.unwrap();
        }
        self.metrics().await
    }

    /// Waits until sessions are pinned for exactly these reasons. A pin is counted right after the reply that began it.
    pub async fn is_pinned_by(&self, reasons: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let pins = self.metrics().await.pins();
            if pins == reasons {
                return;
            }
            assert!(Instant::now() < deadline, "pinned by {pins:?}, not by {reasons:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Writes another configuration and sends SIGHUP. When it takes effect is the test's to see.
    pub fn reload(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
        self.reload_text(&self.setup.text());
    }

    /// The same with any text.
    pub fn reload_text(&self, text: &str) {
        std::fs::write(self.file("sqluice.toml"), text).unwrap();
        signal(self.pid(), "HUP");
    }

    /// Runs the program once more with the same file, until it ends.
    pub async fn start_another(&self) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sqluice"));
        command.args(["run", "--config"]).arg(self.file("sqluice.toml"));
        run(command, "").await
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.stopped = true;
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {SOON:?}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Where clients connect, on plain TCP.
    pub fn target(&self) -> Target {
        Target::plain(self.address.parse().unwrap(), Duration::from_secs(60))
    }

    /// Connects with TLS or without.
    pub async fn connect(&self, login: LoginRequest, tls: ClientTls) -> Result<Client, ConnectError> {
        let target = Target { tls, ..self.target() };
        Client::connect(&target, login, Limits { timeout: Duration::from_secs(60), ..Limits::default() }).await
    }

    /// The application, on plain TCP.
    pub async fn client(&self) -> Client {
        self.connect(app(), ClientTls::disabled()).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Some user without a schema, on plain TCP.
    pub async fn login(&self, user: &str, password: &str) -> Result<Client, ConnectError> {
        self.connect(query::login(user, Credential::password(password)), ClientTls::disabled()).await
    }

    /// The code and message that a login is refused with.
    pub async fn refused(&self, user: &str, password: &str) -> (u16, String) {
        match self.login(user, password).await {
            Ok(_) => panic!("{user} was let in"),
            Err(error) => {
                let said = error.server_error().unwrap_or_else(|| panic!("{user}: {error}"));
                (said.code, said.message.clone())
            }
        }
    }

    /// Arguments with which the ordinary client finds it, as the application.
    pub fn cli(&self, program: &Path) -> Command {
        let port = self.address.rsplit(':').next().unwrap();
        let mut command = Command::new(program);
        // Without --comments it takes the hints out.
        command.args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--batch",
            "--skip-column-names",
            "--comments",
        ]);
        command.args([format!("--port={port}"), format!("--user={}", lab::APP_USER), lab::APP_DATABASE.into()]);
        command.env("MYSQL_PWD", lab::APP_PASSWORD);
        command
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if !self.stopped {
            signal(self.pid(), "TERM");
        }
        let deadline = Instant::now() + SOON;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().unwrap_or_default();
            std::thread::sleep(Duration::from_millis(2));
        }
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let log = self.log();
        if std::thread::panicking() {
            let from = log.len().saturating_sub(6000);
            eprintln!("--- the end of the program's log ---\n{}", log.get(from..).unwrap_or(&log));
            return;
        }
        assert!(status.is_some(), "it did not stop in {SOON:?} after SIGTERM:\n{log}");
        assert!(!log.contains("panicked") && !log.contains("workers did not end"), "{log}");
    }
}

/// Finds an address in the ready file.
fn reported(ready: &str, name: &str) -> String {
    let line = ready.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {ready:?}")).to_owned()
}

/// TLS as a client that checks nothing.
pub fn any_certificate() -> ClientTls {
    ClientTls::new(&ClientTlsOptions { mode: ServerTlsMode::Required, ..ClientTlsOptions::default() }).unwrap()
}
