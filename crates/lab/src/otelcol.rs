//! A real OpenTelemetry collector in a temporary folder: it receives OTLP over HTTP, and writes what it gets into a file.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::POLL_INTERVAL;
use crate::server::{free_port, log_end};
use crate::{Daemon, LabError};

/// The environment variable that names the program, which `./dev otelcol` builds.
const PROGRAM: &str = "SQLUICE_OTELCOL";
/// Longest that it may take to serve, or to end.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a port is chosen anew because another process took it.
const TRIES: u32 = 5;
/// Its line when it serves.
const READY: &str = "Everything is ready";
/// Its line when another process has its port.
const PORT_TAKEN: &str = "address already in use";

/// The collector. It ends when this is dropped.
#[derive(Debug)]
pub struct OtelCollector {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    process: Option<Daemon>,
    /// Starts of it, each with a log and a file of its own.
    starts: u32,
}

impl OtelCollector {
    /// Starts it, and returns when it serves.
    ///
    /// # Errors
    /// [`LabError::Missing`] when the variable names no program, [`LabError::Start`] when it does not get there.
    pub fn start() -> Result<OtelCollector, LabError> {
        let named = std::env::var_os(PROGRAM).map(PathBuf::from).filter(|named| named.is_file());
        let program = named.ok_or_else(|| LabError::Missing {
            what: format!("the OpenTelemetry collector ({PROGRAM} names no program)"),
            remedy: "run `./dev otelcol`".to_owned(),
        })?;
        let mut tries = 0;
        loop {
            tries += 1;
            let folder = TempDir::with_prefix("sqluice-otelcol-").map_err(LabError::io("make a temporary folder"))?;
            let program = program.clone();
            let mut collector = OtelCollector { program, folder, port: free_port()?, process: None, starts: 0 };
            match collector.restart() {
                Err(LabError::Start { log, .. }) if log.contains(PORT_TAKEN) && tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(collector),
            }
        }
    }

    /// Its address for OTLP over HTTP.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// SIGTERM, and waits for its end: it writes down all that it has acknowledged.
    ///
    /// # Errors
    /// [`LabError::Start`] when it does not end.
    pub fn stop(&mut self) -> Result<(), LabError> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.signal("TERM")?;
        match process.wait(LIMIT)? {
            Some(_) => Ok(()),
            None => Err(self.failed(format!("did not end within {LIMIT:?}"))),
        }
    }

    /// Starts it after a stop, and returns when it serves.
    ///
    /// # Errors
    /// [`LabError::Start`] when it does not get there.
    pub fn restart(&mut self) -> Result<(), LabError> {
        self.starts += 1;
        let path = self.folder.path().join("config.yaml");
        std::fs::write(&path, self.settings()).map_err(LabError::file("write", &path))?;
        let path = self.log();
        let log = OpenOptions::new().create(true).append(true).open(&path).map_err(LabError::file("open", &path))?;
        let mut command = Command::new(&self.program);
        command.args(["--config", "file:config.yaml"]);
        command.stdout(log.try_clone().map_err(LabError::file("open", &path))?).stderr(log);
        let mut process = Daemon::start(command, self.folder.path())?;
        let deadline = Instant::now() + LIMIT;
        while !std::fs::read_to_string(&path).is_ok_and(|log| log.contains(READY)) {
            if let Some(status) = process.ended()? {
                return Err(self.failed(format!("ended ({status})")));
            }
            if Instant::now() >= deadline {
                return Err(self.failed(format!("was not ready after {LIMIT:?}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.process = Some(process);
        Ok(())
    }

    /// From now on each request gets the answer of a fault, or of none with `""`. tools/otelcol/main.go has the faults.
    ///
    /// # Errors
    /// [`LabError::Io`] when the file cannot be written.
    pub fn answer_with(&self, fault: &str) -> Result<(), LabError> {
        let (new, path) = (self.folder.path().join("fault.new"), self.folder.path().join("fault"));
        std::fs::write(&new, fault).map_err(LabError::file("write", &new))?;
        std::fs::rename(&new, &path).map_err(LabError::file("write", &path))
    }

    /// The requests that it has written down, each an object in OTLP's JSON, the oldest first.
    pub fn requests(&self) -> Vec<String> {
        let read = |start| std::fs::read_to_string(self.file(start)).unwrap_or_default();
        let whole = |text: String| text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned();
        let texts = (1..=self.starts).map(read).map(whole);
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    fn file(&self, start: u32) -> PathBuf {
        self.folder.path().join(format!("requests-{start}.jsonl"))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join(format!("log-{}", self.starts))
    }

    fn failed(&self, what: String) -> LabError {
        LabError::Start { port: self.port, what, log: log_end(&self.log(), 0) }
    }

    fn settings(&self) -> String {
        let pipeline = "{receivers: [otlp], processors: [fault], exporters: [file]}";
        format!(
            "receivers:\n  otlp:\n    protocols:\n      http: {{endpoint: \"127.0.0.1:{}\"}}\n\
             processors:\n  fault: {{file: {}}}\n\
             exporters:\n  file: {{path: {}, flush_interval: 50ms}}\n\
             service:\n  telemetry:\n    metrics: {{level: none}}\n\
             \x20 pipelines:\n    logs: {pipeline}\n    traces: {pipeline}\n    metrics: {pipeline}\n",
            self.port,
            quoted(&self.folder.path().join("fault")),
            quoted(&self.file(self.starts)),
        )
    }
}

/// A path as YAML's text.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}
