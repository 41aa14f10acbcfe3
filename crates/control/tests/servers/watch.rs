//! A control plane over a lab cluster, and waiting for what it publishes.

use stats::digests::NoDigests;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use admin::{AdminHandle, AdminTls, Sources};
use facts::accounts::Accounts;
use facts::catalog::Catalog;
use facts::published::Published;
use facts::view::{ServerId, View};
use lab::Replication;
use net::tls::{ClientTls, ClientTlsOptions};
use sqluice_control::{self as control, ClusterLink, Clusters, ControlHandle};

/// The key of the API.
const KEY: &str = "hush hush";
/// Longest wait for accounts, dictionaries and pages.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn parse(text: &str) -> config::Config {
    config::parse("test.toml", text, &config::SystemSource).unwrap_or_else(|errors| panic!("{errors}")).config
}

/// The admin listener of this control plane.
fn admin(config: &config::Config, control: &ControlHandle) -> AdminHandle {
    let sources = Sources {
        workers: Arc::new([]),
        digests: Arc::new(NoDigests),
        cache: None,
        tier: None,
        events: None,
        sessions: None,
        status: control.status(),
        steering: control.steering(),
        explainer: None,
    };
    let bound = admin::bind(&config.admin.as_ref().unwrap().address).unwrap();
    admin::start(bound, config, AdminTls::default(), sources).unwrap()
}

pub(crate) struct Watch<'a> {
    lab: &'a Replication,
    pub(crate) control: ControlHandle,
    admin: AdminHandle,
    pub(crate) link: ClusterLink,
    clusters: Clusters,
    published: Receiver<()>,
}

impl<'a> Watch<'a> {
    /// Watches all servers, under the names `s1`, `s2`, …; `more` are lines for the cluster's table.
    pub(crate) fn start(lab: &'a Replication, more: &str) -> Watch<'a> {
        let all: Vec<usize> = (0..lab.servers().len()).collect();
        let tls = ClientTls::new(&ClientTlsOptions::default()).unwrap();
        Watch::of(lab, tls, &config(lab, &all, lab::MONITOR_PASSWORD, more))
    }

    /// Watches servers at these addresses, without TLS.
    pub(crate) fn start_at(lab: &'a Replication, addresses: &[SocketAddr]) -> Watch<'a> {
        let servers = addresses.iter().copied().enumerate();
        Watch::of(lab, ClientTls::disabled(), &config_at(servers, lab::MONITOR_PASSWORD, ""))
    }

    fn of(lab: &'a Replication, tls: ClientTls, config: &config::Config) -> Watch<'a> {
        let link = ClusterLink { published: Arc::new(Published::new("main")), tls, etcd_tls: ClientTls::disabled() };
        let (sender, published) = channel();
        link.published.subscribe(Box::new(move || {
            let _ = sender.send(());
        }));
        let clusters: Clusters = [("main".into(), link.clone())].into();
        let control = control::start(config, &clusters, Arc::new([])).unwrap();
        let admin = admin(config, &control);
        Watch { lab, control, admin, link, clusters, published }
    }

    pub(crate) fn config(&self, servers: &[usize], password: &str, more: &str) -> config::Config {
        config(self.lab, servers, password, more)
    }

    pub(crate) fn reload(&mut self, config: config::Config) {
        self.admin.reload(&config, AdminTls::default());
        self.control.reload(&config, &self.clusters);
    }

    pub(crate) fn drain(&self) {
        self.admin.drain();
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.link.published.view.load_full()
    }

    pub(crate) fn id(&self, name: &str) -> ServerId {
        self.view().server_named(name).unwrap().id
    }

    /// Waits for a view; panics with the last one when it does not come.
    pub(crate) fn until(&self, what: &str, limit: Duration, is: impl Fn(&View) -> bool) -> Arc<View> {
        self.wait(what, limit, || self.view(), |view| is(view))
    }

    pub(crate) fn accounts(&self, are: impl Fn(&Accounts) -> bool) -> Arc<Accounts> {
        self.wait("accounts", LIMIT, || self.link.published.accounts.load_full(), |accounts| are(accounts))
    }

    pub(crate) fn catalog(&self, is: impl Fn(&Catalog) -> bool) -> Arc<Catalog> {
        self.wait("a catalog", LIMIT, || self.link.published.catalog.load_full(), |catalog| is(catalog))
    }

    /// Reads a page again and again until it is as wanted.
    pub(crate) fn until_page(&self, path: &str, is: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let (_, page) = self.get(path);
            if is(&page) {
                return page;
            }
            assert!(Instant::now() < deadline, "{path} stays\n{page}");
            // Wakes early when something is published.
            let _ = self.published.recv_timeout(Duration::from_millis(50));
        }
    }

    /// Status and body of a page of the admin listener.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, "")
    }

    /// The answer of the API as JSON.
    pub(crate) fn api(&self, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, text) = self.ask(method, &format!("/api/v1{path}"), body);
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {status} {text}"));
        (status, value)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn wait<T: std::fmt::Debug>(&self, what: &str, limit: Duration, get: impl Fn() -> T, is: impl Fn(&T) -> bool) -> T {
        let deadline = Instant::now() + limit;
        loop {
            let value = get();
            if is(&value) {
                return value;
            }
            match self.published.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no sign that {what}: {:#?}", get())
                }
            }
        }
    }
}

fn config(lab: &Replication, servers: &[usize], password: &str, more: &str) -> config::Config {
    config_at(servers.iter().map(|index| (*index, lab.server(*index).address())), password, more)
}

fn config_at(servers: impl Iterator<Item = (usize, SocketAddr)>, password: &str, more: &str) -> config::Config {
    let mut text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n\
         [listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n\
         [cluster.main]\nkind = \"replication\"\n{more}\n\
         monitor = {{ user = \"{}\", password = \"{password}\", interval_ms = 100, timeout_ms = 1000 }}\n",
        lab::MONITOR_USER
    );
    for (index, address) in servers {
        text.push_str(&format!("servers.s{} = {{ address = \"{address}\" }}\n", index + 1));
    }
    parse(&text)
}
