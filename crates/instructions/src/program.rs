//! Sqluice under callgrind.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use lab::{MONITOR_PASSWORD, MONITOR_USER, Replication};
use net::Address;

use crate::loads::Rules;
use crate::profile::Profile;

/// Longest wait for the program to serve: callgrind makes it fifty times slower.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for callgrind to do what it is asked.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Sqluice looks at what is asked again in the first minute of so many seconds, from its start.
const LOOKS_EVERY_S: u64 = 8 * 60;
const LOOKS_S: u64 = 61;
/// The longest time for counting a load, and between the start and its being noticed.
const COUNTS_S: u64 = 50;
/// Between two looks at something that is waited for.
const PACE: Duration = Duration::from_millis(20);
/// A function that the worker runs and no other thread.
const OF_WORKER: &str = "sqluice_proxy::session::";

/// The program, running under callgrind until this is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    folder: PathBuf,
    address: Address,
    /// Profiles that callgrind has written so far.
    dumps: usize,
    began: Instant,
}

impl Program {
    /// Starts the program with one worker, one connection to each server and these rules; returns when it serves and knows them all.
    ///
    /// # Errors
    /// It does not start, or not in time: the error holds the end of its log.
    pub fn start(program: &Path, folder: &Path, servers: &Replication, rules: Rules) -> anyhow::Result<Program> {
        let (config, ready) = (folder.join("sqluice.toml"), folder.join("ready"));
        std::fs::write(&config, configuration(servers, rules)?)?;
        std::fs::set_permissions(&config, Permissions::from_mode(0o600))?;
        let log = std::fs::File::create(folder.join("log"))?;
        let child = Command::new("valgrind")
            // Valgrind counts each byte of `rep movsb`, which some processors' C library uses for long copies.
            .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1073741824")
            .args(["--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no", "--fair-sched=no"])
            .arg(format!("--callgrind-out-file={}", folder.join("profile").display()))
            .arg(format!("--vgdb-prefix={}", folder.join("vgdb").display()))
            .arg(program)
            .arg("run")
            .arg("--config")
            .arg(&config)
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("valgrind cannot start {}", program.display()))?;
        let mut started = Program {
            child,
            folder: folder.to_owned(),
            address: Address::Tcp { host: String::new(), port: 0 },
            dumps: 0,
            began: Instant::now(),
        };
        let text = started.wait("it listens", || std::fs::read_to_string(&ready).ok())?;
        started.began = Instant::now();
        let reported = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(str::to_owned).with_context(|| format!("no {name} in {text:?}"))
        };
        started.address = reported("app")?.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let (admin, replicas) = (reported("admin")?, servers.replicas().count());
        started.wait("it knows its servers", || knows(&admin, replicas).then_some(()))?;
        started.ask(&["instrumentation", "on"])?;
        Ok(started)
    }

    /// Where clients connect.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// Waits while the program looks at what is asked again, or will do so before a load is counted: it does that in one minute
    /// of eight, and what counts is what it does most of the time.
    pub fn wait_until_usual(&self) {
        let second = self.began.elapsed().as_secs() % LOOKS_EVERY_S;
        let left_s = match second {
            ..LOOKS_S => LOOKS_S - second,
            _ if second + COUNTS_S > LOOKS_EVERY_S => LOOKS_EVERY_S + LOOKS_S - second,
            _ => 0,
        };
        thread::sleep(Duration::from_secs(left_s));
    }

    /// Sets all counts to zero.
    ///
    /// # Errors
    /// Callgrind does not answer.
    pub fn zero(&mut self) -> anyhow::Result<()> {
        self.ask(&["zero"])
    }

    /// The worker's instructions since the counts were zero. Callgrind's own file of it is kept as `file`.
    ///
    /// # Errors
    /// Callgrind does not answer, or has written what cannot be read.
    pub fn dump(&mut self, file: &Path) -> anyhow::Result<Profile> {
        self.ask(&["dump"])?;
        self.dumps += 1;
        // Its files are named profile.DUMP-THREAD.
        let prefix = format!("profile.{}-", self.dumps);
        let mut workers = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let profile = Profile::parse(&std::fs::read_to_string(entry.path())?)?;
                if profile.has(OF_WORKER) {
                    workers.push(profile);
                    std::fs::copy(entry.path(), file).with_context(|| file.display().to_string())?;
                }
                std::fs::remove_file(entry.path())?;
            }
        }
        ensure!(workers.len() == 1, "{} threads ran sessions, instead of one", workers.len());
        workers.pop().context("no profile")
    }

    /// Gives callgrind a command.
    fn ask(&mut self, command: &[&str]) -> anyhow::Result<()> {
        let mut vgdb = Command::new("vgdb")
            .arg(format!("--pid={}", self.child.id()))
            .arg(format!("--vgdb-prefix={}", self.folder.join("vgdb").display()))
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start vgdb, which comes with valgrind")?;
        let deadline = Instant::now() + ASK_LIMIT;
        loop {
            match vgdb.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => break,
                None if Instant::now() > deadline => {
                    vgdb.kill()?;
                    break;
                }
                None => thread::sleep(PACE),
            }
        }
        let mut said = String::new();
        if let Some(mut stderr) = vgdb.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        vgdb.wait()?;
        bail!("callgrind did not do {command:?}: {}\n{}", said.trim(), self.log())
    }

    fn wait<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the program ended with {status} before {what}:\n{}", self.log());
            }
            ensure!(Instant::now() < deadline, "not within {} s: {what}:\n{}", START_LIMIT.as_secs(), self.log());
            thread::sleep(PACE);
        }
    }

    /// The end of what it has said.
    pub fn log(&self) -> String {
        const LINES: usize = 30;
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // All that was wanted of it is written; a process that is gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything on that is on by default. The monitor asks seldom: what it publishes is work for the worker, too.
fn configuration(servers: &Replication, rules: Rules) -> anyhow::Result<String> {
    let mut text = format!(
        "[proxy]\nworkers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [cluster.main]\nkind = \"replication\"\nslow_start_s = 0\n\
         [cluster.main.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\ninterval_ms = 5000\n\
         [cluster.main.tls]\nmode = \"disabled\"\n\
         [listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n"
    );
    // A pipeline needs one beside those that statements may need for themselves.
    let connections = if rules == Rules::Pipelines { 2 } else { 1 };
    if rules == Rules::Pipelines {
        writeln!(text, "pipelines = \"always\"")?;
    }
    for server in servers.servers() {
        let (id, address) = (server.server_id(), server.address());
        writeln!(text, "[cluster.main.servers.db{id}]\naddress = \"{address}\"\nmax_connections = {connections}")?;
    }
    let rules = match rules {
        Rules::Route(rules) => rules,
        Rules::Pipelines => 0,
        Rules::Cache => {
            let regex = "^SELECT .* FROM sbtest1 WHERE";
            writeln!(text, "[[rule]]\nname = \"c\"\ndigest_regex = \"{regex}\"")?;
            writeln!(text, "cache = \"on\"\ncache_ttl_ms = 3600000")?;
            0
        }
    };
    for number in 1..=rules {
        // The last one fits the point select.
        let table = if number == rules { "sbtest1".to_owned() } else { format!("other_{number}") };
        let regex = format!("^SELECT .* FROM {table} WHERE");
        writeln!(text, "[[rule]]\nname = \"r{number}\"\ndigest_regex = \"{regex}\"\nroute = \"replica\"")?;
    }
    Ok(text)
}

/// Whether there is a primary and `replicas` servers that take reads.
fn knows(admin: &str, replicas: usize) -> bool {
    let page = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: sqluice\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    };
    let Ok(page) = page() else { return false };
    let ones = |name: &str| page.lines().filter(|line| line.starts_with(name) && line.ends_with(" 1")).count();
    ones("sqluice_cluster_has_primary{") == 1 && ones("sqluice_server_serves_reads{") >= replicas
}
