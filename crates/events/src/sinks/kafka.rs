//! The settings of Kafka as a sink. The sink itself is part of builds with the feature `kafka`.

use std::fmt;
use std::path::PathBuf;

/// The key of each message, by which Kafka chooses its partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KafkaKey {
    /// None: messages are spread.
    None,
    /// The session, so that its events stay in order.
    #[default]
    Session,
    /// The user.
    User,
    /// The digest; logins have none.
    Digest,
}

/// The way of a login to Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaSasl {
    /// The password itself.
    Plain,
    /// SCRAM with SHA-256.
    Scram256,
    /// SCRAM with SHA-512.
    Scram512,
}

/// The account of a login to Kafka.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaLogin {
    /// The way.
    pub sasl: KafkaSasl,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for KafkaLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLogin").field("sasl", &self.sasl).field("user", &self.user).finish_non_exhaustive()
    }
}

/// TLS to Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// Certificates of authorities; `None` is the system's.
    pub ca_file: Option<PathBuf>,
    /// The own certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// The settings of Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSettings {
    /// Brokers to begin with: host and port, with commas between.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The key of messages.
    pub key: KafkaKey,
    /// TLS; `None` is without.
    pub tls: Option<KafkaTls>,
    /// The login; `None` is without.
    pub login: Option<KafkaLogin>,
}

/// Whether this build can write to Kafka.
pub const HAS_KAFKA: bool = cfg!(feature = "kafka");
