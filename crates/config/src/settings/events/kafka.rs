//! `[events.kafka.NAME]`

use super::super::{Form, Kind, Section, Setting, Word, live};
use super::{MASK, MASK_FIELDS, SINK_QUERIES, TEXT};
use crate::{KafkaKey, KafkaSasl};

/// `kafka` of the events
pub static KAFKA: Section = Section {
    key: "kafka",
    form: Form::Named,
    doc: "Topics of Kafka, in builds with the feature `kafka`. The value of each message is the event's JSON object. All \
          replicas have a message before Sqluice goes on (acks=all), and the producer is idempotent.",
    settings: &[
        &BROKERS,
        &TOPIC,
        &KEY,
        &SINK_QUERIES,
        &TEXT,
        &MASK,
        &MASK_FIELDS,
        &TLS,
        &CA_FILE,
        &CERT_FILE,
        &KEY_FILE,
        &SASL,
        &USER,
        &PASSWORD,
        &PASSWORD_FILE,
        &PASSWORD_ENV,
    ],
    sections: &[],
};

/// `brokers`
pub static BROKERS: Setting =
    live("brokers", Kind::Addresses, "Some brokers, at most 64. Sqluice asks them for the others.")
        .required()
        .example("[\"10.0.0.11:9092\", \"10.0.0.12:9092\"]");
/// `topic`
pub static TOPIC: Setting =
    live("topic", Kind::Text { default: None, max: 249 }, "The topic.").required().example("\"sqluice.events\"");
/// `key`
pub static KEY: Setting = live(
    "key",
    Kind::Choice {
        default: Some(KafkaKey::Session.word()),
        words: &[
            Word::new(KafkaKey::Session.word(), "the session: its events stay in order"),
            Word::new(KafkaKey::User.word(), "the user"),
            Word::new(KafkaKey::Digest.word(), "the digest; other events than queries have no key"),
            Word::new(KafkaKey::None.word(), "none: messages are spread over the partitions"),
        ],
    },
    "The key of each message. Messages with the same key go to the same partition.",
);
/// `tls`
pub static TLS: Setting =
    live("tls", Kind::Flag { default: false }, "Whether connections are encrypted. The brokers' names are verified.");
/// `ca_file`
pub static CA_FILE: Setting =
    live("ca_file", Kind::Path, "A PEM file with the certificates of authorities. Without it, those of the system.")
        .example("\"/etc/sqluice/kafka-ca.pem\"");
/// `cert_file`
pub static CERT_FILE: Setting = live("cert_file", Kind::Path, "The own certificate (PEM), if the brokers want one.")
    .example("\"/etc/sqluice/kafka.pem\"");
/// `key_file`
pub static KEY_FILE: Setting =
    live("key_file", Kind::Path, "The key of the own certificate (PEM).").example("\"/etc/sqluice/kafka-key.pem\"");
/// `sasl`
pub static SASL: Setting = live(
    "sasl",
    Kind::Choice {
        default: Some(KafkaSasl::Off.word()),
        words: &[
            Word::new(KafkaSasl::Off.word(), "no login"),
            Word::new(KafkaSasl::Plain.word(), "the password itself; only with `tls`"),
            Word::new(KafkaSasl::Scram256.word(), "a proof of the password, with SHA-256"),
            Word::new(KafkaSasl::Scram512.word(), "the same with SHA-512"),
        ],
    },
    "The login to the brokers.",
);
/// `user`
pub static USER: Setting =
    live("user", Kind::Text { default: None, max: 256 }, "The user of the login.").example("\"sqluice\"");
/// `password`
pub static PASSWORD: Setting =
    live("password", Kind::Secret, "The password of the login. A file or the environment keeps it out of this file.");
/// `password_file`
pub static PASSWORD_FILE: Setting =
    live("password_file", Kind::Path, "A file with the password; Sqluice ignores one line end after it.");
/// `password_env`
pub static PASSWORD_ENV: Setting = live("password_env", Kind::Variable, "An environment variable with the password.");
