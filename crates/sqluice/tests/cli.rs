//! The program from outside: arguments, exit codes, signals and messages.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sqluice");
/// Longest wait for anything, on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn sqluice(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A configuration in a folder of its own. Nobody answers at its server unless the test says so.
struct Fixture {
    folder: TempDir,
    listener: String,
    server: String,
    extra: String,
}

impl Fixture {
    fn new() -> Fixture {
        let (listener, server) = ("127.0.0.1:0".to_owned(), "127.0.0.1:1".to_owned());
        Fixture { folder: TempDir::new().unwrap(), listener, server, extra: String::new() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("sqluice.toml")
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.path().join("ready")
    }

    fn write(&self) -> PathBuf {
        let mut text = String::from("[cluster.main]\nkind = \"replication\"\n");
        writeln!(text, "monitor = {{ user = \"{}\", password = \"{}\" }}", lab::MONITOR_USER, lab::MONITOR_PASSWORD)
            .unwrap();
        writeln!(text, "servers.db1 = {{ address = \"{}\" }}", self.server).unwrap();
        writeln!(text, "[listener.app]\naddress = \"{}\"\ncluster = \"main\"\n{}", self.listener, self.extra).unwrap();
        std::fs::write(self.path(), text).unwrap();
        self.path()
    }

    fn run(&self) -> Running {
        self.run_as(Command::new(PROGRAM))
    }

    fn run_as(&self, mut command: Command) -> Running {
        let config = self.write();
        command.args(["run", "--config"]).arg(config).arg("--ready-file").arg(self.ready_file());
        Running::start(command)
    }

    /// Where a listener is, as the ready file says.
    fn address(&self, name: &str) -> String {
        let ready = std::fs::read_to_string(self.ready_file()).unwrap();
        let address = ready.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        address.unwrap_or_else(|| panic!("no {name} in {ready:?}")).to_owned()
    }
}

/// A process whose log lines are read while it runs. It is killed when this is dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: String,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                if line.map_err(drop).and_then(|line| sender.send(line).map_err(drop)).is_err() {
                    return;
                }
            }
        });
        Running { child, lines, seen: String::new() }
    }

    /// Reads lines until one has this in it, and gives that one.
    fn wait_for(&mut self, part: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    writeln!(self.seen, "{line}").unwrap();
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no {part:?} ({error}) after:\n{}", self.seen),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end, and gives its exit code.
    fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        // Its log ends when it does.
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => writeln!(self.seen, "{line}").unwrap(),
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap().code(),
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.seen),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_teaches_every_command() {
    let help = sqluice(&["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for command in
        ["run", "check", "init", "demo", "status", "switchover", "failover", "rejoin", "acknowledge", "server", "cache"]
    {
        assert!(help.contains(&format!("\n  {command} ")), "{command} in {help}");
        let of_command = sqluice(&[command, "--help"]);
        assert!(of_command.status.success());
        let of_command = text(&of_command.stdout);
        assert!(of_command.contains("Examples:\n  sqluice "), "{of_command}");
    }
    assert_eq!(text(&sqluice(&["--version"]).stdout), format!("sqluice {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments_are_told_apart_from_failures() {
    let wrong = sqluice(&["run", "--confg", "x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("--config"), "{}", text(&wrong.stderr));
    assert_eq!(sqluice(&[]).status.code(), Some(2));
}

#[test]
fn check_says_what_a_good_file_means() {
    let good = Fixture::new().write_and(|path| sqluice(&["check", "--config", path]));
    assert_eq!(good.status.code(), Some(0));
    assert!(text(&good.stdout).contains("is good: 1 cluster, 1 server, 1 listener"), "{}", text(&good.stdout));
}

#[test]
fn check_and_run_name_the_line_of_a_mistake() {
    let fixture = Fixture { extra: "splt = \"auto\"".into(), ..Fixture::new() };
    for command in ["check", "run"] {
        let bad = fixture.write_and(|path| sqluice(&[command, "--config", path]));
        assert_eq!(bad.status.code(), Some(1), "{command}");
        let reported = text(&bad.stderr);
        assert!(
            reported.contains("sqluice.toml:8:1: listener.app.splt:") && reported.contains("split"),
            "{command}: {reported}"
        );
    }
    let missing = sqluice(&["run", "--config", "/nowhere/sqluice.toml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("/nowhere/sqluice.toml: the file cannot be read"));
}

impl Fixture {
    fn write_and(&self, act: impl FnOnce(&str) -> Output) -> Output {
        act(self.write().to_str().unwrap())
    }
}

#[test]
fn a_taken_port_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let of_listener = Fixture { listener: address.clone(), ..Fixture::new() };
    let of_admin = Fixture { extra: format!("[admin]\naddress = \"{address}\""), ..Fixture::new() };
    for (fixture, key) in [(of_listener, "listener.app.address"), (of_admin, "admin.address")] {
        let mut running = fixture.run();
        assert_eq!(running.end(), Some(1));
        let errors: Vec<&str> = running.seen.lines().filter(|line| line.starts_with("error: ")).collect();
        let [error] = errors[..] else { panic!("not one error in {}", running.seen) };
        assert!(error.contains(key) && error.contains(&address) && error.contains("in use"), "{error}");
        assert!(!fixture.ready_file().exists());
    }
}

#[test]
fn sigterm_ends_an_idle_process_at_once() {
    let fixture = Fixture { extra: "[admin]\naddress = \"127.0.0.1:0\"\n".into(), ..Fixture::new() };
    let mut running = fixture.run();
    let ready = running.wait_for("sqluice is ready");
    let (app, admin) = (fixture.address("app"), fixture.address("admin"));
    assert!(ready.contains(&app) && ready.contains(env!("CARGO_PKG_VERSION")), "{ready}");
    TcpStream::connect(&app).unwrap();
    TcpStream::connect(&admin).unwrap();
    let asked = Instant::now();
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0), "{}", running.seen);
    // The drain's own limit is 30 s.
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert!(TcpStream::connect(&app).is_err() && TcpStream::connect(&admin).is_err());
}

#[test]
fn a_reload_with_a_mistake_changes_nothing() {
    let mut fixture = Fixture::new();
    let mut running = fixture.run();
    running.wait_for("sqluice is ready");
    let app = fixture.address("app");
    std::fs::write(fixture.path(), "[listener.app]\naddress = 7\n").unwrap();
    running.signal(Signal::HUP);
    let problem = running.wait_for("listener.app.address");
    assert!(problem.contains("ERROR") && problem.contains(":2:11:"), "{problem}");
    running.wait_for("the old configuration stays");
    TcpStream::connect(&app).unwrap();
    fixture.extra = "max_sessions = 5\n[proxy]\nworkers = 7\n".into();
    fixture.write();
    running.signal(Signal::HUP);
    assert!(running.wait_for("was read again").contains("listener.app changed"), "{}", running.seen);
    assert!(running.wait_for("waits for a restart").contains("proxy.workers = 7 (now 0)"), "{}", running.seen);
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0), "{}", running.seen);
}

#[test]
fn logs_are_json_when_asked_and_the_environment_sets_the_level() {
    let fixture = Fixture { extra: "[log]\nformat = \"json\"\nlevel = \"off\"\n".into(), ..Fixture::new() };
    let mut command = Command::new(PROGRAM);
    command.env("SQLUICE_LOG", "info");
    let mut running = fixture.run_as(command);
    let ready = running.wait_for("sqluice is ready");
    assert!(ready.starts_with('{') && ready.ends_with('}') && ready.contains("\"level\":\"INFO\""), "{ready}");
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(0), "{}", running.seen);
}

#[test]
fn too_low_a_limit_of_open_files_is_reported() {
    let fixture = Fixture { extra: "max_sessions = 5000\n".into(), ..Fixture::new() };
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 1000 && exec \"$0\" \"$@\"", PROGRAM]);
    let mut running = fixture.run_as(command);
    let warning = running.wait_for("LimitNOFILE");
    assert!(warning.contains("WARN") && warning.contains("limit=1000"), "{warning}");
    running.wait_for("sqluice is ready");
}

#[test]
fn a_second_sigint_does_not_wait_for_a_transaction() {
    let server = lab::Server::start(lab::ServerOptions {
        init_sql: lab::accounts_sql(lab::Family::MariaDb),
        ..lab::ServerOptions::new(lab::Family::MariaDb)
    })
    .unwrap();
    let fixture = Fixture { server: server.address().to_string(), ..Fixture::new() };
    let mut running = fixture.run();
    running.wait_for("sqluice is ready");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let target = net::client::Target::plain(fixture.address("app").parse().unwrap(), LIMIT);
    let password = wire::auth::Credential::Password(zeroize::Zeroizing::new(lab::APP_PASSWORD.into()));
    let client = runtime.block_on(async {
        let login = net::query::login(lab::APP_USER, password);
        let mut client = net::query::Client::connect(&target, login, Default::default()).await.unwrap();
        client.query("BEGIN").await.unwrap();
        client.query("CREATE TABLE app.t (a INT)").await.unwrap();
        client.query("BEGIN").await.unwrap();
        client.query("INSERT INTO app.t VALUES (1)").await.unwrap();
        client
    });
    running.signal(Signal::INT);
    assert!(running.wait_for("stopping").contains("sessions=1"), "{}", running.seen);
    running.wait_for("sessions are still there");
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(130), "{}", running.seen);
    drop(client);
    // A transaction without a COMMIT is rolled back.
    assert_eq!(server.sql("SELECT COUNT(*) FROM app.t").unwrap(), "0\n");
}

/// Starts a command whose reader has gone before it writes.
fn without_a_reader(arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).stdout(writer).output().unwrap();
    (done.status.code(), text(&done.stderr))
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let fixture =
        Fixture { extra: "[admin]\naddress = \"127.0.0.1:0\"\nkey = \"0123456789abcdef\"\n".into(), ..Fixture::new() };
    let mut running = fixture.run();
    running.wait_for("sqluice is ready");
    let (path, admin) = (fixture.path(), fixture.address("admin"));
    let place = ["--config", path.to_str().unwrap(), "--admin", &admin];
    for (command, code) in [
        (&["status"][..], 1),
        (&["status", "--json"], 1),
        (&["cache"], 0),
        (&["cache", "digests"], 0),
        (&["cache", "warm", "--show"], 0),
        (&["switchover", "--json"], 1),
        (&["check"], 0),
        (&["init", "--grants-only", "--family", "mysql"], 0),
    ] {
        let place = match command[0] {
            "check" => &place[..2],
            "init" => &["--output", "/nowhere/x.toml"],
            _ => &place[..],
        };
        // There is no primary, and no server to switch to.
        let (ended, said) = without_a_reader(&[command, place].concat());
        assert!(
            ended == Some(code) && !said.contains("panicked") && !said.contains("error"),
            "{command:?}: {ended:?} {said}"
        );
    }
    // Neither is one of complaints.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut nobody = Command::new(PROGRAM).args(["check", "--config", "/nowhere"]).stderr(writer).spawn().unwrap();
    assert_eq!(nobody.wait().unwrap().code(), Some(1));
}

#[test]
fn log_lines_that_cannot_be_written_stop_nothing() {
    let fixture = Fixture { extra: "[admin]\naddress = \"127.0.0.1:0\"\n".into(), ..Fixture::new() };
    let config = fixture.write();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--config"]).arg(config).arg("--ready-file").arg(fixture.ready_file());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full).spawn().unwrap();
    let deadline = Instant::now() + LIMIT;
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if fixture.ready_file().exists() {
            break None;
        }
        assert!(Instant::now() < deadline, "it is not ready");
    };
    assert_eq!(ended, None);
    TcpStream::connect(fixture.address("app")).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_demo_runs_without_an_error_and_leaves_nothing_behind() {
    let temporary = TempDir::new().unwrap();
    let output = Command::new(PROGRAM)
        .args(["demo", "--seconds", "5", "--plain"])
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (reported, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{reported}\n{errors}");
    assert!(reported.contains(" 0 errors that clients saw"), "{reported}\n{errors}");
    assert!(reported.contains("all 3 servers have the same data"), "{reported}");
    assert!(reported.contains(&format!("-u {} -p{}", lab::APP_USER, lab::APP_PASSWORD)), "{reported}");
    assert!(reported.contains("page:     http://127.0.0.1:") && reported.contains("/   key: "), "{reported}");
    let console = reported.lines().find(|line| line.starts_with("console:  ")).unwrap_or_else(|| panic!("{reported}"));
    assert!(console.contains(" -u admin -p") && console.ends_with("-e 'SHOW TABLES'"), "{console}");
    for replica in ["db2", "db3"] {
        let total = reported.lines().find(|line| line.starts_with(&format!("  {replica} (replica): "))).unwrap();
        assert!(!total.contains(": 0 reads"), "{total}");
    }
    assert_eq!(servers_folders(temporary.path()), Vec::<String>::new());
}

#[test]
fn the_demo_says_what_is_in_its_way() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = sqluice(&["demo", "--plain", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let reported = text(&output.stderr);
    assert!(reported.starts_with(&format!("error: port {port} ")) && reported.contains("--port"), "{reported}");
    let output = Command::new(PROGRAM).args(["demo", "--plain"]).env("SQLUICE_MARIADBD", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let reported = text(&output.stderr);
    assert!(reported.contains("/nowhere") && reported.contains("./dev demo"), "{reported}");
}

/// The folders that the lab leaves, beside the templates of empty servers, which are for the next time.
fn servers_folders(temporary: &Path) -> Vec<String> {
    let names = std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("sqluice-lab")).collect()
}
