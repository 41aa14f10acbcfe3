//! Sinks: the places where events go. Each has a thread of its own, so that a slow one holds no other.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::block::{Block, micros};
use crate::join::ends_within;
use crate::masks::Masks;
use crate::number;
use crate::redaction::Literals;
use crate::spool::Spool;
use counts::SinkCounts;
use output::Output;
use runner::{Runner, Shared};
use source::Source;

pub use batch::Takes;
pub use counts::SinkFigures;
pub use file::FileSettings;
pub use kafka::{HAS_KAFKA, KafkaKey, KafkaLogin, KafkaSasl, KafkaSettings, KafkaTls};
pub use otlp::{MetricsPush, OtlpSettings, PushTarget};
pub use rotated::Rotation;
pub use syslog::{SyslogAddress, SyslogSettings};

mod batch;
mod counts;
mod file;
mod kafka;
#[cfg(feature = "kafka")]
mod kafka_output;
mod otlp;
mod output;
mod rotated;
mod runner;
mod source;
mod stdout;
mod syslog;

/// How long the end of the process waits for sinks.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The settings of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSettings {
    /// Its name in metrics and in the log, which is its path in the settings below `events`.
    pub name: String,
    /// The queries that it takes.
    pub takes: Takes,
    /// The literals of statements there.
    pub literals: Literals,
    /// The values that it shall not have.
    pub masks: Masks,
    /// The place.
    pub target: Target,
}

/// The place of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file.
    File(FileSettings),
    /// Standard output.
    Stdout,
    /// A receiver of syslog.
    Syslog(SyslogSettings),
    /// Kafka.
    Kafka(KafkaSettings),
    /// An OpenTelemetry collector.
    Otlp(OtlpSettings),
}

impl SinkSettings {
    /// Its target, for the operator.
    pub(crate) fn words(&self) -> String {
        match &self.target {
            Target::File(file) => format!("cannot open {}", file.path.display()),
            Target::Stdout => "cannot use standard output".to_owned(),
            Target::Syslog(_) => "cannot begin with syslog".to_owned(),
            Target::Kafka(_) => "cannot begin with Kafka".to_owned(),
            Target::Otlp(_) => "cannot begin with OTLP".to_owned(),
        }
    }

    /// The number behind the last one that its file has; `None` if it has none, or no file.
    fn next_in_file(&self) -> Option<u64> {
        let Target::File(file) = &self.target else { return None };
        number::next_in(&file.path)
    }
}

/// The number of the first event of this process: the one behind the last that a file of before has.
pub(crate) fn next_in_files(sinks: &[SinkSettings]) -> u64 {
    sinks.iter().filter_map(SinkSettings::next_in_file).max().unwrap_or(1)
}

/// All sinks.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    running: Mutex<Vec<Running>>,
    /// At least one of them wants all literals, or hashed ones.
    texts: AtomicBool,
    hashes: AtomicBool,
    /// Where events wait for the sinks; without one they wait in memory.
    spool: Option<Arc<Spool>>,
}

#[derive(Debug)]
struct Running {
    name: String,
    shared: Arc<Shared>,
    thread: std::thread::JoinHandle<()>,
}

impl Sinks {
    /// Opens sinks, for events from the number `next` on, and those that wait for them in the spool.
    ///
    /// # Errors
    /// The first sink that cannot be opened, with its settings' name; no thread runs then.
    pub(crate) fn start(
        settings: &[SinkSettings],
        node: &str,
        next: u64,
        spool: Option<Arc<Spool>>,
    ) -> Result<Sinks, (String, io::Error)> {
        let open = |sink: &SinkSettings| match Output::open(&sink.target, node) {
            Ok(output) => Ok((sink.clone(), output)),
            Err(error) => Err((sink.name.clone(), error)),
        };
        let opened = settings.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let sinks = Sinks { spool, ..Sinks::default() };
        sinks.note_texts(settings);
        for (sink, output) in opened {
            let name = sink.name.clone();
            sinks.begin(sink, node, Some(output), next).map_err(|error| (name, error))?;
        }
        Ok(sinks)
    }

    /// Hands over a block, without a wait.
    pub(crate) fn push(&self, block: &Arc<Block>) {
        match &self.spool {
            Some(spool) => spool.queue.push(block),
            None => self.lock().iter().for_each(|running| running.shared.queue.push(block)),
        }
    }

    /// The name of the first sink for which so many bytes have to wait, or of the spool.
    pub(crate) fn crowded(&self, bytes: usize) -> Option<String> {
        if let Some(spool) = &self.spool {
            return spool.queue.is_crowded(bytes).then(|| "spool".to_owned());
        }
        let running = self.lock();
        running.iter().find(|running| running.shared.queue.is_crowded(bytes)).map(|running| running.name.clone())
    }

    /// A wait for all that are crowded was in vain.
    pub(crate) fn give_up(&self, bytes: usize) {
        if let Some(spool) = &self.spool {
            return spool.queue.give_up();
        }
        let running = self.lock();
        let crowded = running.iter().filter(|running| running.shared.queue.is_crowded(bytes));
        crowded.for_each(|running| running.shared.queue.give_up());
    }

    /// Whether a sink wants all literals.
    pub(crate) fn shows_texts(&self) -> bool {
        self.texts.load(Ordering::Relaxed)
    }

    /// Whether a sink wants hashed literals.
    pub(crate) fn shows_hashes(&self) -> bool {
        self.hashes.load(Ordering::Relaxed)
    }

    /// Begins new sinks, ends those that are gone, and brings changes to the others. `next` is the number of the next event.
    pub(crate) fn reload(&self, settings: &[SinkSettings], node: &str, next: u64) {
        self.note_texts(settings);
        let names: BTreeSet<&str> = settings.iter().map(|sink| &*sink.name).collect();
        let gone = |running: &mut Running| !names.contains(&*running.name);
        let gone: Vec<Running> = self.lock().extract_if(.., gone).collect();
        for running in gone {
            running.shared.quit();
            self.spool.iter().for_each(|spool| spool.forget(&running.name));
        }
        for sink in settings {
            let running =
                self.lock().iter().find(|running| running.name == sink.name).map(|found| found.shared.clone());
            match running {
                Some(shared) => shared.change(sink.clone(), node),
                None => {
                    let name = sink.name.clone();
                    if let Err(error) = self.begin(sink.clone(), node, None, next) {
                        tracing::error!(sink = name, %error, "no thread for this sink of events");
                    }
                }
            }
        }
        self.spool.iter().for_each(|spool| spool.wake());
    }

    /// Has files get other names now.
    pub(crate) fn rotate(&self) {
        self.lock().iter().for_each(|running| running.shared.rotate());
        self.spool.iter().for_each(|spool| spool.wake());
    }

    /// Has each sink write what waits, and ends their threads. One that cannot write, or hangs, is left alone.
    pub(crate) fn stop(&self) {
        let mut running = std::mem::take(&mut *self.lock());
        running.iter().for_each(|sink| sink.shared.finish());
        // From now on nothing comes.
        self.spool.iter().for_each(|spool| spool.stop());
        let until = Instant::now() + STOP_MAX;
        for sink in running.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let (waiting, keeps) = (sink.shared.queue.numbers(), self.spool.is_some());
            if !ends_within(sink.thread, left, "a sink of events") && !keeps {
                tracing::error!(
                    sink = sink.name,
                    ?waiting,
                    "this sink of events did not end in time; it may lack events"
                );
            }
        }
    }

    /// The figures of each sink.
    pub(crate) fn figures(&self) -> Vec<SinkFigures> {
        let now = micros(SystemTime::now());
        self.lock().iter().map(|sink| sink.shared.counts.figures(&sink.name, now)).collect()
    }

    fn begin(&self, settings: SinkSettings, node: &str, output: Option<Output>, next: u64) -> io::Result<()> {
        let (name, in_file) = (settings.name.clone(), settings.next_in_file());
        let source = match &self.spool {
            Some(spool) => Source::spool(spool, &name, in_file, next)?,
            // A file that was there before, and whose last line is older, lacks the events since then.
            None if output.is_some() && settings.takes == Takes::All => {
                (Source::Memory, in_file.map_or(next, |from| from.min(next)))
            }
            None => (Source::Memory, next),
        };
        let shared = Arc::new(Shared::new(SinkCounts::default()));
        let runner = Runner::new(settings, node, shared.clone(), output, source);
        let thread = std::thread::Builder::new().name(format!("sink-{name}")).spawn(move || runner.run())?;
        self.lock().push(Running { name, shared, thread });
        Ok(())
    }

    fn note_texts(&self, settings: &[SinkSettings]) {
        let any = |literals| settings.iter().any(|sink| sink.literals == literals);
        self.texts.store(any(Literals::All), Ordering::Relaxed);
        self.hashes.store(any(Literals::Hashed), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
