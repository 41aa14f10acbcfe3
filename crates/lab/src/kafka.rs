//! A real Kafka broker in a temporary folder: one node in KRaft mode.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::in_path;
use crate::client::POLL_INTERVAL;
use crate::server::{free_port, log_end};
use crate::{Daemon, LabError};

/// Longest that the broker may take to serve.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The folder with the jars, which `./dev kafka` fetches.
const FOLDER_VARIABLE: &str = "SQLUICE_KAFKA";
/// The broker's line when it serves.
const READY: &str = "Kafka Server started";
/// The name of its cluster: any 16 bytes in base64.
const CLUSTER_ID: &str = "c3FsdWljZS1vZi10ZXN0cw";

/// A broker. It ends when this is dropped.
#[derive(Debug)]
pub struct Kafka {
    java: PathBuf,
    jars: PathBuf,
    folder: TempDir,
    port: u16,
    process: Option<Daemon>,
    /// Starts of it, each with a log of its own.
    starts: u32,
}

impl Kafka {
    /// Starts a broker, and returns when it serves.
    ///
    /// # Errors
    /// [`LabError::Missing`] when this machine has no Java or no jars, [`LabError::Start`] when it does not get there.
    pub fn start() -> Result<Kafka, LabError> {
        let missing = |what: &str, remedy: &str| LabError::Missing { what: what.to_owned(), remedy: remedy.to_owned() };
        let java = in_path("java")
            .ok_or_else(|| missing("Java (looked for `java` in PATH)", "install default-jre-headless"))?;
        let jars = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from).filter(|folder| folder.is_dir());
        let jars = jars.ok_or_else(|| missing("Kafka (SQLUICE_KAFKA names no folder)", "run `./dev kafka`"))?;
        let folder = TempDir::with_prefix("sqluice-kafka-").map_err(LabError::io("make a temporary folder"))?;
        let (port, controller) = (free_port()?, free_port()?);
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\nnum.partitions=2\n",
            folder.path().join("data").display()
        );
        let path = folder.path().join("server.properties");
        std::fs::write(&path, settings).map_err(LabError::file("write", &path))?;
        let mut kafka = Kafka { java, jars, folder, port, process: None, starts: 0 };
        let arguments = ["format", "-t", CLUSTER_ID, "-c", "server.properties"];
        kafka.run("kafka.tools.StorageTool", &arguments)?;
        kafka.restart()?;
        Ok(kafka)
    }

    /// Where clients reach it: host and port.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL; waits until it is gone.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it after a kill, with what it has on its disk, and returns when it serves.
    ///
    /// # Errors
    /// [`LabError::Start`] when it does not get there.
    pub fn restart(&mut self) -> Result<(), LabError> {
        self.starts += 1;
        let path = self.folder.path().join(format!("log-{}", self.starts));
        let log = OpenOptions::new().create(true).append(true).open(&path).map_err(LabError::file("open", &path))?;
        let mut command = self.command("kafka.Kafka", &["server.properties"]);
        command.stdout(log.try_clone().map_err(LabError::file("open", &path))?).stderr(log);
        self.process = Some(Daemon::start(command, self.folder.path())?);
        self.wait_ready(&path)
    }

    /// Makes a topic of one partition.
    ///
    /// # Errors
    /// The tool's words.
    pub fn create_topic(&self, topic: &str) -> Result<(), LabError> {
        self.topics(&["--create", "--partitions", "1", "--topic", topic])
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// The tool's words.
    pub fn delete_topic(&self, topic: &str) -> Result<(), LabError> {
        self.topics(&["--delete", "--topic", topic])
    }

    /// All messages of a topic, one a line, as Kafka's own consumer reads them.
    ///
    /// # Errors
    /// The tool's words.
    pub fn messages(&self, topic: &str) -> Result<String, LabError> {
        let endpoint = self.endpoint();
        let arguments = ["--bootstrap-server", &endpoint, "--topic", topic, "--from-beginning", "--timeout-ms", "4000"];
        self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments)
    }

    fn topics(&self, arguments: &[&str]) -> Result<(), LabError> {
        let endpoint = self.endpoint();
        let arguments = [&["--bootstrap-server", &endpoint], arguments].concat();
        self.run("org.apache.kafka.tools.TopicCommand", &arguments).map(drop)
    }

    fn command(&self, class: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.java);
        command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-cp").arg(self.jars.join("*")).arg(class).args(arguments);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, class: &str, arguments: &[&str]) -> Result<String, LabError> {
        let output = self.command(class, arguments).output().map_err(LabError::io("run a tool of Kafka"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let log = [output.stdout, output.stderr].concat();
        let what = format!("{class} ended ({})", output.status);
        Err(LabError::Start { port: self.port, what, log: String::from_utf8_lossy(&log).into_owned() })
    }

    fn wait_ready(&mut self, log: &Path) -> Result<(), LabError> {
        let deadline = Instant::now() + START_LIMIT;
        let port = self.port;
        let failed = |what: String| LabError::Start { port, what, log: log_end(log, 0) };
        loop {
            let ended = self.process.as_mut().map(Daemon::ended).transpose()?.flatten();
            if let Some(status) = ended {
                return Err(failed(format!("ended ({status})")));
            }
            if std::fs::read_to_string(log).is_ok_and(|log| log.contains(READY)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(failed(format!("was not ready after {START_LIMIT:?}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}
