//! Kafka as a sink, by librdkafka: acknowledged by all replicas, each message once for each producer (idempotence), and tried
//! without an end. The spool is the buffer, so librdkafka throws nothing away after a time of its own.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use serde::Deserialize;

use super::batch::{Batch, Row};
use super::kafka::{KafkaKey, KafkaSasl, KafkaSettings};

/// How long one try waits for acknowledgements. Messages stay under way behind that, and the next try goes on to wait.
const WAIT: Duration = Duration::from_secs(2);
/// The first pause between two looks at what came; each look in vain doubles it.
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Most bytes of a message. Brokers take a MiB unless they are told otherwise.
const MESSAGE_BYTES_MAX: usize = 1_000_000;

/// A producer, and the batch that is under way.
pub(super) struct KafkaOutput {
    settings: KafkaSettings,
    producer: Option<BaseProducer<Reports>>,
    under_way: Option<UnderWay>,
}

/// The rows of a batch.
struct UnderWay {
    /// The batch's next number, which names it.
    next: u64,
    rows: Vec<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has to be given to the producer.
    Unsent,
    /// The producer has it.
    Sent,
    /// All replicas have it.
    There,
}

/// The reports of librdkafka since the last look.
#[derive(Default)]
struct Reports {
    /// Acknowledgements and refusals: a message's row, and its error.
    came: Mutex<Vec<(usize, Option<KafkaError>)>>,
    /// Why no broker can be reached.
    trouble: Mutex<Option<String>>,
}

impl ClientContext for Reports {
    /// Several lines for each try to connect: the sink tells the reason once.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "kafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "kafka");
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        // That all brokers are down says less than the reason before it.
        if trouble.is_none() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *trouble = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, row: usize) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        self.came.lock().unwrap_or_else(PoisonError::into_inner).push((row, error));
    }
}

impl std::fmt::Debug for KafkaOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaOutput").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl KafkaOutput {
    /// A producer; it connects when it has something to send.
    pub(super) fn open(settings: &KafkaSettings) -> io::Result<KafkaOutput> {
        let producer = Some(producer(settings)?);
        Ok(KafkaOutput { settings: settings.clone(), producer, under_way: None })
    }

    /// Sends a batch and waits until all replicas have it. Gives the numbers of events that were too long: a gap was sent for them.
    pub(super) fn write(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        if self.under_way.as_ref().is_none_or(|under_way| under_way.next != batch.next) {
            self.under_way = Some(UnderWay { next: batch.next, rows: vec![State::Unsent; batch.len()] });
        }
        let written = self.send(batch, node);
        if let Some(error) = self.producer.as_ref().and_then(|producer| producer.client().fatal_error()) {
            // The broker does not know this producer any more. Records under way may come twice.
            tracing::warn!(error = error.1, "kafka: a new producer goes on");
            self.producer = None;
            let rows = self.under_way.iter_mut().flat_map(|under_way| &mut under_way.rows);
            rows.filter(|state| **state == State::Sent).for_each(|state| *state = State::Unsent);
            return Err(io::Error::other(error.1));
        }
        if written.is_ok() {
            self.under_way = None;
        }
        written
    }

    fn send(&mut self, batch: &Batch, node: &str) -> io::Result<u64> {
        let producer = match &mut self.producer {
            Some(producer) => producer,
            none => none.insert(producer(&self.settings)?),
        };
        let Some(under_way) = &mut self.under_way else { return Ok(0) };
        let mut too_long = 0;
        for (index, (row, line)) in batch.rows().enumerate() {
            let gap = (line.len() > MESSAGE_BYTES_MAX).then(|| gap(row, node));
            too_long += gap.as_ref().map_or(0, |_| row.last - row.first + 1);
            if under_way.rows.get(index) == Some(&State::Unsent) {
                put(producer, &self.settings, index, gap.as_deref().unwrap_or(line))?;
                under_way.rows[index] = State::Sent;
            }
        }
        let begun = Instant::now();
        let (mut refused, mut pause) = (None, PAUSE_MIN);
        loop {
            producer.poll(Duration::ZERO);
            let reports = producer.context();
            let came = std::mem::take(&mut *reports.came.lock().unwrap_or_else(PoisonError::into_inner));
            let came_none = came.is_empty();
            for (index, error) in came {
                let Some(state) = under_way.rows.get_mut(index) else { continue };
                *state = if error.is_some() { State::Unsent } else { State::There };
                refused = error.or(refused);
            }
            let waits = under_way.rows.iter().filter(|state| **state != State::There).count();
            match refused {
                Some(error) => return Err(io::Error::other(error)),
                None if waits == 0 => {
                    // It is over, and explains no later wait.
                    *reports.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return Ok(too_long);
                }
                None if begun.elapsed() >= WAIT => {
                    let trouble = reports.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let why = trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
                    return Err(io::Error::other(format!("{waits} events are not acknowledged yet{why}")));
                }
                None if came_none => pause = rest(pause),
                None => pause = PAUSE_MIN,
            }
        }
    }
}

/// Sleeps, and gives the length of the next pause. A poll with a timeout would go on until that is over, whatever came, and
/// keep the core busy for its last millisecond (rdkafka 0.39).
fn rest(pause: Duration) -> Duration {
    std::thread::sleep(pause);
    (pause * 2).min(PAUSE_MAX)
}

/// Gives a line to the producer, and waits for room there.
fn put(producer: &BaseProducer<Reports>, settings: &KafkaSettings, row: usize, line: &[u8]) -> io::Result<()> {
    let key = key(settings.key, line);
    let mut record = BaseRecord::with_opaque_to(&settings.topic, row).payload(line);
    record.key = key.as_deref().map(str::as_bytes);
    let (begun, mut pause) = (Instant::now(), PAUSE_MIN);
    while let Err((error, again)) = producer.send(record) {
        let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
        if !is_full || begun.elapsed() >= WAIT {
            return Err(io::Error::other(error));
        }
        producer.poll(Duration::ZERO);
        pause = rest(pause);
        record = again;
    }
    Ok(())
}

/// The key of an event's message.
fn key(kind: KafkaKey, line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Keys<'a> {
        session: Option<u64>,
        #[serde(borrow)]
        user: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        digest: Option<std::borrow::Cow<'a, str>>,
    }
    if kind == KafkaKey::None {
        return None;
    }
    let keys: Keys<'_> = serde_json::from_slice(line).ok()?;
    match kind {
        KafkaKey::None => None,
        KafkaKey::Session => keys.session.map(|session| session.to_string()),
        KafkaKey::User => keys.user.map(std::borrow::Cow::into_owned),
        KafkaKey::Digest => keys.digest.map(std::borrow::Cow::into_owned),
    }
}

/// The line of a gap in the place of one that is too long.
fn gap(row: Row, node: &str) -> Vec<u8> {
    let mut line = Vec::new();
    crate::line::gap(row.first, row.last - row.first + 1, node, std::time::SystemTime::now(), &mut line);
    line.truncate(line.trim_ascii_end().len());
    line
}

fn producer(settings: &KafkaSettings) -> io::Result<BaseProducer<Reports>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &settings.brokers)
        .set("client.id", "sqluice")
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("compression.type", "zstd")
        .set("linger.ms", "5")
        // Nothing is thrown away after a time: the events wait until Kafka has them.
        .set("message.timeout.ms", "0")
        .set("message.max.bytes", MESSAGE_BYTES_MAX.saturating_add(16 << 10).to_string())
        // A topic that was deleted may come back soon.
        .set("topic.metadata.refresh.interval.ms", "5000")
        .set("reconnect.backoff.max.ms", "1000");
    let protocol = match (&settings.tls, &settings.login) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &settings.tls {
        config.set("ssl.ca.location", tls.ca_file.as_ref().map_or("probe".into(), |file| file.display().to_string()));
        if let Some((certificate, key)) = &tls.own {
            config.set("ssl.certificate.location", certificate.display().to_string());
            config.set("ssl.key.location", key.display().to_string());
        }
    }
    if let Some(login) = &settings.login {
        let mechanism = match login.sasl {
            KafkaSasl::Plain => "PLAIN",
            KafkaSasl::Scram256 => "SCRAM-SHA-256",
            KafkaSasl::Scram512 => "SCRAM-SHA-512",
        };
        config.set("sasl.mechanism", mechanism).set("sasl.username", &login.user).set("sasl.password", &login.password);
    }
    config.create_with_context(Reports::default()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = br#"{"v":1,"session":12,"user":"a\"b","digest":"00ab"}"#;

    #[test]
    fn keys_come_from_the_event() {
        for (kind, line, expected) in [
            (KafkaKey::None, LINE, None),
            (KafkaKey::Session, LINE, Some("12")),
            (KafkaKey::User, LINE, Some("a\"b")),
            (KafkaKey::Digest, LINE, Some("00ab")),
            (KafkaKey::Session, br#"{"v":1,"kind":"gap"}"#, None),
            (KafkaKey::User, b"no event", None),
        ] {
            assert_eq!(key(kind, line).as_deref(), expected, "{kind:?}");
        }
    }
}
