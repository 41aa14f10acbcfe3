//! The settings of events, as their crate takes them.

use std::sync::Arc;
use std::time::Duration;

use config::{
    Config, EventKafka, EventOtlp, EventSink, EventTarget, EventText, EventsWhenFull, SinkQueries, SyslogProtocol,
};
use events::{
    FileSettings, HmacKey, KafkaKey, KafkaLogin, KafkaSasl, KafkaSettings, KafkaTls, Literals, Masks, OtlpSettings,
    PushTarget, Rotation, SinkSettings, SpoolSettings, SyslogAddress, SyslogSettings, Takes, Target,
};

/// The settings of events.
///
/// # Errors
/// The expressions of a sink cannot be put together.
pub(super) fn event_settings(config: &Config) -> anyhow::Result<events::Settings> {
    let config::Events { node, when_full, wait_max, hmac_key, spool, sinks, .. } = &config.events;
    let settings = |(name, sink): (&Arc<str>, &EventSink)| {
        sink_settings(name, sink).map_err(|why| anyhow::anyhow!("events.{name}.mask: {why}"))
    };
    Ok(events::Settings {
        node: node.as_deref().unwrap_or_default().to_owned(),
        sinks: sinks.iter().map(settings).collect::<anyhow::Result<_>>()?,
        wait_max: if *when_full == EventsWhenFull::Wait { *wait_max } else { Duration::ZERO },
        hmac_key: hmac_key.as_ref().map(|key| HmacKey::new(key.expose())),
        spool: spool.as_ref().map(|spool| SpoolSettings {
            path: spool.path.clone(),
            bytes_max: spool.max_bytes,
            age_max: spool.max_age,
        }),
    })
}

fn sink_settings(name: &str, sink: &EventSink) -> Result<SinkSettings, String> {
    let takes = match sink.queries {
        SinkQueries::Off => Takes::Off,
        SinkQueries::Errors => Takes::Errors,
        SinkQueries::Slow => Takes::Slow,
        SinkQueries::Writes => Takes::Writes,
        SinkQueries::All => Takes::All,
    };
    let literals = match sink.text {
        EventText::Form => Literals::None,
        EventText::Hmac => Literals::Hashed,
        EventText::Text => Literals::All,
    };
    let masks = Masks::new(&sink.mask, &sink.mask_fields)?;
    let (target, takes) = match &sink.target {
        EventTarget::Otlp(otlp) => {
            // Spans are of queries that the sink's choice may leave out: it chooses by itself.
            let logs = if otlp.logs { Some(takes) } else { None };
            let takes = match (otlp.traces, otlp.logs) {
                (true, _) => Takes::All,
                (false, true) => takes,
                (false, false) => Takes::Off,
            };
            (Target::Otlp(otlp_settings(otlp, logs)), takes)
        }
        other => (target(other), takes),
    };
    Ok(SinkSettings { name: name.to_owned(), takes, literals, masks, target })
}

fn target(target: &EventTarget) -> Target {
    match target {
        EventTarget::File(file) => Target::File(FileSettings {
            path: file.path.clone(),
            rotation: Rotation {
                size_max: file.rotate_size,
                age_max: file.rotate,
                keep: file.keep,
                compress: file.compress,
            },
        }),
        EventTarget::Stdout => Target::Stdout,
        EventTarget::Syslog(syslog) => {
            let address = match (&syslog.address, syslog.protocol) {
                (config::Address::Unix(path), _) => SyslogAddress::Unix(path.to_path_buf()),
                (address, SyslogProtocol::Udp) => SyslogAddress::Udp(address.to_string()),
                (address, SyslogProtocol::Tcp) => SyslogAddress::Tcp(address.to_string()),
            };
            Target::Syslog(SyslogSettings { address, facility: syslog.facility.number() })
        }
        EventTarget::Kafka(kafka) => Target::Kafka(kafka_settings(kafka)),
        EventTarget::Otlp(otlp) => Target::Otlp(otlp_settings(otlp, Some(Takes::All))),
    }
}

/// The collectors that get metrics.
pub(super) fn push_targets(config: &Config) -> Vec<PushTarget> {
    let node = config.events.node.as_deref().unwrap_or_default();
    let target = |(name, sink): (&Arc<str>, &EventSink)| match &sink.target {
        EventTarget::Otlp(otlp) if !otlp.metrics.is_zero() => Some(PushTarget {
            name: name.as_ref().to_owned(),
            every: otlp.metrics,
            node: node.to_owned(),
            otlp: otlp_settings(otlp, None),
        }),
        _ => None,
    };
    config.events.sinks.iter().filter_map(target).collect()
}

fn otlp_settings(otlp: &EventOtlp, logs: Option<Takes>) -> OtlpSettings {
    let text = |value: &config::Secret| String::from_utf8_lossy(value.expose()).into_owned();
    OtlpSettings {
        endpoint: otlp.endpoint.as_ref().to_owned(),
        header: otlp.header.as_ref().map(|(name, value)| (name.as_ref().to_owned(), text(value))),
        ca_file: otlp.ca_file.clone(),
        gzip: otlp.compression == config::OtlpCompression::Gzip,
        logs,
        spans: otlp.traces,
    }
}

fn kafka_settings(kafka: &EventKafka) -> KafkaSettings {
    let key = match kafka.key {
        config::KafkaKey::Session => KafkaKey::Session,
        config::KafkaKey::User => KafkaKey::User,
        config::KafkaKey::Digest => KafkaKey::Digest,
        config::KafkaKey::None => KafkaKey::None,
    };
    let sasl = |sasl| match sasl {
        config::KafkaSasl::Off => None,
        config::KafkaSasl::Plain => Some(KafkaSasl::Plain),
        config::KafkaSasl::Scram256 => Some(KafkaSasl::Scram256),
        config::KafkaSasl::Scram512 => Some(KafkaSasl::Scram512),
    };
    let login = kafka.login.as_ref().and_then(|login| {
        let password = String::from_utf8_lossy(login.password.expose()).into_owned();
        Some(KafkaLogin { sasl: sasl(login.sasl)?, user: login.user.as_ref().to_owned(), password })
    });
    KafkaSettings {
        brokers: kafka.brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        topic: kafka.topic.as_ref().to_owned(),
        key,
        tls: kafka.tls.as_ref().map(|tls| KafkaTls { ca_file: tls.ca_file.clone(), own: tls.own.clone() }),
        login,
    }
}
