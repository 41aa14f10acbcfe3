//! The open end of a sink.

use std::io;

use super::Target;
use super::batch::Batch;
use super::file::FileOutput;
#[cfg(feature = "kafka")]
use super::kafka_output::KafkaOutput;
use super::otlp::OtlpOutput;
use super::stdout::StdoutOutput;
use super::syslog::SyslogOutput;

/// The open end of a sink. A batch whose write has failed comes again until it succeeds.
#[derive(Debug)]
pub(super) enum Output {
    File(FileOutput),
    Stdout(StdoutOutput),
    Syslog(SyslogOutput),
    Otlp(Box<OtlpOutput>),
    #[cfg(feature = "kafka")]
    Kafka(Box<KafkaOutput>),
}

impl Output {
    /// Opens a file; connections are made by the first write.
    pub(super) fn open(target: &Target, node: &str) -> io::Result<Output> {
        match target {
            Target::File(file) => Ok(Output::File(FileOutput::open(file)?)),
            Target::Stdout => Ok(Output::Stdout(StdoutOutput::open()?)),
            Target::Syslog(syslog) => Ok(Output::Syslog(SyslogOutput::new(syslog, node))),
            Target::Otlp(otlp) => Ok(Output::Otlp(Box::new(OtlpOutput::open(otlp)?))),
            #[cfg(feature = "kafka")]
            Target::Kafka(kafka) => Ok(Output::Kafka(Box::new(KafkaOutput::open(kafka)?))),
            #[cfg(not(feature = "kafka"))]
            Target::Kafka(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "this build is without Kafka")),
        }
    }

    /// Writes all lines, or fails. Gives the numbers of events that it can never take, for which it has a gap now.
    pub(super) fn write(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        match self {
            Output::File(file) => file.write(batch).map(|()| 0),
            Output::Stdout(stdout) => stdout.write(batch).map(|()| 0),
            Output::Syslog(syslog) => syslog.write(batch, node),
            Output::Otlp(otlp) => otlp.write(batch, node),
            #[cfg(feature = "kafka")]
            Output::Kafka(kafka) => kafka.write(batch, node),
        }
    }

    /// The work of each second.
    pub(super) fn upkeep(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.upkeep(),
            // A request is over with its write.
            Output::Stdout(_) | Output::Otlp(_) => Ok(()),
            // It connects again on threads of its own.
            #[cfg(feature = "kafka")]
            Output::Kafka(_) => Ok(()),
            Output::Syslog(syslog) => syslog.upkeep(),
        }
    }

    /// Gives a file another name now, or makes it anew if it was moved; nothing for others.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.rotate(),
            _ => Ok(()),
        }
    }

    /// Whether the sink's cursor may follow each write at once. A file says by its last line how far it is; its cursor must not be
    /// ahead of what its disk has.
    pub(super) fn survives_kill(&self) -> bool {
        !matches!(self, Output::File(_))
    }
}
