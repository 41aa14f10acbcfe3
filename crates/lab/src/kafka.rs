//! A real Kafka broker in a temporary folder: one node in KRaft mode.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::in_path;
use crate::client::POLL_INTERVAL;
use crate::server::{TlsFiles, free_port, log_end};
use crate::{Daemon, LabError};

/// Longest that the broker may take to serve.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The folder with the jars, which `./dev kafka` fetches.
const FOLDER_VARIABLE: &str = "SQLUICE_KAFKA";
/// The broker's line when it serves.
const READY: &str = "Kafka Server started";
/// The name of its cluster: any 16 bytes in base64.
const CLUSTER_ID: &str = "c3FsdWljZS1vZi10ZXN0cw";
/// The user who logs in where TLS is spoken.
pub const KAFKA_USER: &str = "sqluice";
/// That user's password.
pub const KAFKA_PASSWORD: &str = "events-Kafka-1";

/// A broker. It ends when this is dropped.
#[derive(Debug)]
pub struct Kafka {
    java: PathBuf,
    jars: PathBuf,
    folder: TempDir,
    port: u16,
    /// The port where TLS and a login are needed.
    secure_port: u16,
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
        Kafka::start_with(None)
    }

    /// Starts a broker that has a second address, at which clients speak TLS and log in.
    ///
    /// # Errors
    /// As [`Kafka::start`].
    pub fn start_secured(tls: &TlsFiles) -> Result<Kafka, LabError> {
        Kafka::start_with(Some(tls))
    }

    fn start_with(tls: Option<&TlsFiles>) -> Result<Kafka, LabError> {
        let missing = |what: &str, remedy: &str| LabError::Missing { what: what.to_owned(), remedy: remedy.to_owned() };
        let java = in_path("java")
            .ok_or_else(|| missing("Java (looked for `java` in PATH)", "install default-jre-headless"))?;
        let jars = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from).filter(|folder| folder.is_dir());
        let jars = jars.ok_or_else(|| missing("Kafka (SQLUICE_KAFKA names no folder)", "run `./dev kafka`"))?;
        let folder = TempDir::with_prefix("sqluice-kafka-").map_err(LabError::io("make a temporary folder"))?;
        let (port, controller, secure_port) = (free_port()?, free_port()?, free_port()?);
        let (more_listener, security) = match tls {
            None => (String::new(), String::new()),
            Some(tls) => (format!(",SECURE://127.0.0.1:{secure_port}"), security(tls, folder.path())?),
        };
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more_listener}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_listener}\ncontroller.listener.names=CONTROLLER\n\
             log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\nnum.partitions=2\n\
             {security}",
            folder.path().join("data").display()
        );
        let path = folder.path().join("server.properties");
        std::fs::write(&path, settings).map_err(LabError::file("write", &path))?;
        let mut kafka = Kafka { java, jars, folder, port, secure_port, process: None, starts: 0 };
        let account = format!("SCRAM-SHA-512=[name={KAFKA_USER},password={KAFKA_PASSWORD}]");
        let arguments = ["format", "-t", CLUSTER_ID, "-c", "server.properties", "--add-scram", &account];
        kafka.run("kafka.tools.StorageTool", &arguments)?;
        kafka.restart()?;
        Ok(kafka)
    }

    /// Where clients reach it: host and port.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where clients reach it that speak TLS and log in.
    pub fn secure_endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.secure_port)
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
        let of_topic = ["--bootstrap-server", &endpoint, "--topic", topic];
        // TOPIC:PARTITION:OFFSET. A consumer that is not told where to stop stops before it has begun on a busy machine.
        let ends = self.run("org.apache.kafka.tools.GetOffsetShell", &of_topic)?;
        let offset = |line: &str| line.rsplit(':').next().and_then(|offset| offset.parse::<u64>().ok());
        let count: u64 = ends.lines().filter_map(offset).sum();
        if count == 0 {
            return Ok(String::new());
        }
        let count = count.to_string();
        let all = ["--from-beginning", "--max-messages", &count, "--timeout-ms", "60000"];
        self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", &[&of_topic[..], &all].concat())
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

/// The settings of the address with TLS. Kafka reads key and certificate from one file.
fn security(tls: &TlsFiles, folder: &Path) -> Result<String, LabError> {
    let mut store = String::new();
    for path in [&tls.key, &tls.certificate] {
        store.push_str(&std::fs::read_to_string(path).map_err(LabError::file("read", path))?);
    }
    let path = folder.join("store.pem");
    std::fs::write(&path, store).map_err(LabError::file("write", &path))?;
    let module = "org.apache.kafka.common.security";
    Ok(format!(
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL\n\
         inter.broker.listener.name=PLAINTEXT\nsasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN\n\
         listener.name.secure.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
         listener.name.secure.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
         user_{KAFKA_USER}=\"{KAFKA_PASSWORD}\";\n\
         ssl.keystore.type=PEM\nssl.keystore.location={}\n",
        path.display()
    ))
}
