//! A Galera group of MariaDB servers.
//!
//! All begin with a copy of one datadir, so the group needs no state transfer at its start. A server that comes back gets
//! what it missed from another one's cache; one that missed more than fits there does not come back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::accounts::accounts_sql;
use crate::{Family, LabError, Server, ServerOptions, group};

/// Where packages put the library.
const PROVIDERS: [&str; 4] = [
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib64/galera/libgalera_smm.so",
];
/// Longest that a server may take to read its position after it was killed.
const RECOVER_LIMIT: Duration = Duration::from_secs(60);
/// The program that servers run to hand their state over. It knows only the case in which the cache has what is missing:
/// then it carries no more than a position from one server to the other.
const TRANSFER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --role) role=$2 ;;
    --address) address=$2 ;;
    --datadir) datadir=$2 ;;
    --gtid) gtid=$2 ;;
    --gtid-domain-id) domain=$2 ;;
    --parent) parent=$2 ;;
    --bypass) bypass=yes ;;
    esac
    shift
done
case $role in
joiner)
    box=${datadir%/}/transfer
    rm -f "$box"
    echo "ready $box"
    while [ ! -s "$box" ]; do
        kill -0 "$parent" 2>/dev/null || exit 1
        sleep 0.02
    done
    cat "$box"
    ;;
donor)
    [ -n "$bypass" ] || exit 1
    echo continue
    echo "$gtid $domain" >"$address.new" && mv "$address.new" "$address"
    echo "done $gtid"
    ;;
esac
"#;

/// The kind of group to start.
#[derive(Debug, Clone)]
pub struct GaleraOptions {
    /// How many servers.
    pub servers: usize,
    /// More options for the library, such as `evs.suspect_timeout=PT1S`, separated by semicolons.
    pub provider_options: String,
    /// More configuration lines for all servers.
    pub config: Vec<String>,
    /// Statements that root runs once, after the accounts are made.
    pub init_sql: String,
}

impl GaleraOptions {
    /// A group of so many servers with the standard accounts and the library's own defaults.
    pub fn new(servers: usize) -> GaleraOptions {
        GaleraOptions { servers, provider_options: String::new(), config: Vec::new(), init_sql: String::new() }
    }
}

/// A Galera group.
#[derive(Debug)]
pub struct Galera {
    servers: Vec<Server>,
    _programs: TempDir,
}

impl Galera {
    /// Starts all servers, with the accounts made, and waits until they are synced.
    ///
    /// # Errors
    /// When the library is missing, or a server does not start; nothing stays behind.
    pub fn start(options: &GaleraOptions) -> Result<Galera, LabError> {
        let provider = provider()?;
        group::start(|| start(options, &provider))
    }

    /// All servers, in the order of their index.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One server by its index; its `server_id` is one more.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// Starts a server again, after a stop or a kill; when no other one runs, it forms the group anew.
    ///
    /// # Errors
    /// When it does not start, or is not synced in time.
    pub fn restart(&self, index: usize) -> Result<(), LabError> {
        let server = self.server(index);
        server.stop()?;
        let mut arguments = vec![format!("--wsrep-start-position={}", position(server)?)];
        if group::is_alone(&self.servers, index) {
            let state = server.folder().join("data/grastate.dat");
            let text = fs::read_to_string(&state).map_err(LabError::file("read", &state))?;
            let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
            fs::write(&state, text).map_err(LabError::file("write", &state))?;
            arguments.push("--wsrep-new-cluster".to_owned());
        }
        server.set_arguments(&arguments);
        server.restart()?;
        self.wait_synced(index)
    }

    /// Waits until a server belongs to the group and has all that the others have.
    ///
    /// # Errors
    /// [`LabError::Start`] when it is not so in time.
    pub fn wait_synced(&self, index: usize) -> Result<(), LabError> {
        wait_for(self.server(index), "wsrep_local_state_comment", "Synced")
    }

    /// Waits until a server sees a group of so many members.
    ///
    /// # Errors
    /// [`LabError::Start`] when it is not so in time.
    pub fn wait_members(&self, index: usize, members: usize) -> Result<(), LabError> {
        wait_for(self.server(index), "wsrep_cluster_size", &members.to_string())
    }

    /// Puts a server into the state of a donor, or takes it out: it stays in the group and may fall behind.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn set_desync(&self, index: usize, on: bool) -> Result<(), LabError> {
        self.server(index).sql(&format!("SET GLOBAL wsrep_desync = {}", u8::from(on))).map(drop)
    }

    /// Has a server refuse statements of clients, or serve them again.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn set_reject_queries(&self, index: usize, on: bool) -> Result<(), LabError> {
        let value = if on { "ALL" } else { "NONE" };
        self.server(index).sql(&format!("SET GLOBAL wsrep_reject_queries = {value}")).map(drop)
    }

    /// Cuts a server off from the others, or lets them talk again. Clients reach it all the while.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn isolate(&self, index: usize, on: bool) -> Result<(), LabError> {
        let value = u8::from(on);
        self.server(index).sql(&format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'")).map(drop)
    }
}

fn provider() -> Result<PathBuf, LabError> {
    PROVIDERS.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| LabError::Missing {
        what: format!("libgalera_smm.so, Galera's library (looked for: {}),", PROVIDERS.join(", ")),
        remedy: "install it with `apt-get install galera-4`, or run `./dev install`".to_owned(),
    })
}

fn start(options: &GaleraOptions, provider: &Path) -> Result<Galera, LabError> {
    let programs = tempfile::Builder::new()
        .prefix("sqluice-galera-")
        .tempdir()
        .map_err(LabError::io("make a folder for programs"))?;
    let program = programs.path().join("wsrep_sst_lab");
    fs::write(&program, TRANSFER).map_err(LabError::file("write", &program))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(LabError::file("change", &program))?;
    let ports = group::free_ports(options.servers * 2)?;
    let make = |index: usize, seed: Option<PathBuf>| {
        let (group, transfers) = ports.split_at(options.servers);
        let mut server = ServerOptions {
            server_id: u32::try_from(index + 1).unwrap_or(u32::MAX),
            gtid: false,
            config: lines(options, provider, group, index, transfers[index]),
            seed,
            programs: Some(programs.path().to_path_buf()),
            ..ServerOptions::new(Family::MariaDb)
        };
        server.config.extend(options.config.iter().cloned());
        Server::prepare(server)
    };
    let begin = |server: &mut Server, forms: bool| {
        let arguments = if forms { vec!["--wsrep-new-cluster".to_owned()] } else { Vec::new() };
        server.set_arguments(&arguments);
        server.launch()?;
        wait_for(server, "wsrep_local_state_comment", "Synced")
    };
    // The datadir that all begin with has a place in the group's history, which a fresh one has not.
    let mut seed = make(0, None)?;
    begin(&mut seed, true)?;
    seed.sql(&accounts_sql(Family::MariaDb))?;
    if !options.init_sql.is_empty() {
        seed.sql(&options.init_sql)?;
    }
    seed.stop()?;
    let datadir = seed.folder().join("data");
    for name in ["galera.cache", "gvwstate.dat"] {
        let file = datadir.join(name);
        if file.exists() {
            fs::remove_file(&file).map_err(LabError::file("remove", &file))?;
        }
    }
    let mut servers = Vec::new();
    for index in 0..options.servers {
        servers.push(make(index, Some(datadir.clone()))?);
    }
    for (index, server) in servers.iter_mut().enumerate() {
        begin(server, index == 0)?;
    }
    Ok(Galera { servers, _programs: programs })
}

/// One server's configuration beside that of all servers of the lab.
fn lines(options: &GaleraOptions, provider: &Path, group: &[u16], index: usize, transfers: u16) -> Vec<String> {
    let members: Vec<String> = group.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let (own, more) = (group[index], &options.provider_options);
    let provider_options = format!(
        "base_port={own};gmcast.listen_addr=tcp://127.0.0.1:{own};ist.recv_addr=127.0.0.1:{transfers};\
         gcache.size=64M;{more}"
    );
    vec![
        "binlog_format=ROW".to_owned(),
        "innodb_autoinc_lock_mode=2".to_owned(),
        "wsrep_on=ON".to_owned(),
        format!("wsrep_provider={}", provider.display()),
        "wsrep_cluster_name=lab".to_owned(),
        format!("wsrep_cluster_address=gcomm://{}", members.join(",")),
        format!("wsrep_node_address=127.0.0.1:{own}"),
        format!("wsrep_node_name=node{}", index + 1),
        "wsrep_sst_method=lab".to_owned(),
        format!("wsrep_provider_options=\"{provider_options}\""),
    ]
}

/// Where in the group's history a server that does not run has stopped: as its state file says, or, after a kill, as its
/// tables say.
fn position(server: &Server) -> Result<String, LabError> {
    let path = server.folder().join("data/grastate.dat");
    let text = fs::read_to_string(&path).map_err(LabError::file("read", &path))?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap_or_default();
    if value("seqno:") != "-1" {
        return Ok(format!("{}:{}", value("uuid:"), value("seqno:")));
    }
    let printed = server.run_once("--wsrep-recover", RECOVER_LIMIT)?;
    let reported =
        printed.lines().find_map(|line| line.split_once("Recovered position: ")).map(|(_, position)| position);
    let failed = || LabError::Start { port: server.port(), what: "tells no position".to_owned(), log: printed.clone() };
    // Behind it may stand a GTID.
    reported.and_then(|reported| reported.split_whitespace().next()).map(str::to_owned).ok_or_else(failed)
}

fn wait_for(server: &Server, name: &str, value: &str) -> Result<(), LabError> {
    group::wait_for(server, name, value, || {
        let reported = server.sql(&format!("SHOW STATUS LIKE '{name}'"))?;
        Ok(reported.trim().split('\t').nth(1).unwrap_or_default().to_owned())
    })
}
