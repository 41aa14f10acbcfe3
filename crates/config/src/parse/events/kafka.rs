//! `[events.kafka.NAME]`

use crate::parse::secrets;
use crate::read::{Reader, Table};
use crate::settings::events::kafka as keys;
use crate::{Address, EventKafka, EventKafkaLogin, EventKafkaTls, KafkaKey, KafkaSasl};

/// Most brokers to begin with.
const BROKERS_MAX: usize = 64;

pub(super) fn read(reader: &mut Reader, table: &Table) -> Option<EventKafka> {
    let brokers = reader.addresses(table, &keys::BROKERS);
    let topic = reader.text(table, &keys::TOPIC);
    let key = reader.choice(table, &keys::KEY, KafkaKey::ALL, KafkaKey::word).unwrap_or(KafkaKey::Session);
    let tls = read_tls(reader, table);
    let login = read_login(reader, table, tls.is_some());
    let is_good = |name: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !name.is_empty() && name.bytes().all(good)
    };
    if topic.as_ref().is_some_and(|topic| !is_good(topic)) {
        let message = "the name of a topic has letters, digits, dots, _ and -";
        reader.problem(table.place(&keys::TOPIC), table.key(&keys::TOPIC), message);
    }
    let is_far = |broker: &Address| matches!(broker, Address::Tcp { .. });
    let are_wrong = brokers.len() > BROKERS_MAX || !brokers.iter().all(is_far);
    if table.has(&keys::BROKERS) && (brokers.is_empty() || are_wrong) {
        let message = format!("a broker is needed, as in [\"10.0.0.11:9092\"], and at most {BROKERS_MAX}");
        reader.problem(table.place(&keys::BROKERS), table.key(&keys::BROKERS), message);
    }
    Some(EventKafka { brokers, topic: topic?, key, tls, login })
}

fn read_tls(reader: &mut Reader, table: &Table) -> Option<EventKafkaTls> {
    let is_on = reader.flag(table, &keys::TLS);
    let [ca_file, certificate, key] =
        [&keys::CA_FILE, &keys::CERT_FILE, &keys::KEY_FILE].map(|setting| reader.path(table, setting));
    if certificate.is_some() != key.is_some() {
        let message = "`cert_file` and `key_file` belong together";
        reader.problem(table.place(&keys::CERT_FILE), table.key(&keys::CERT_FILE), message);
    }
    if !is_on && (ca_file.is_some() || certificate.is_some()) {
        let message = "files of certificates have no effect without `tls = true`";
        reader.problem(table.place(&keys::TLS), table.key(&keys::TLS), message);
    }
    is_on.then(|| EventKafkaTls { ca_file, own: certificate.zip(key) })
}

fn read_login(reader: &mut Reader, table: &Table, is_encrypted: bool) -> Option<EventKafkaLogin> {
    let sasl = reader.choice(table, &keys::SASL, KafkaSasl::ALL, KafkaSasl::word).unwrap_or(KafkaSasl::Off);
    let password_keys = [&keys::PASSWORD, &keys::PASSWORD_FILE, &keys::PASSWORD_ENV];
    let (user, password) = secrets::account(reader, table, &keys::USER, password_keys);
    let place = table.place(&keys::SASL);
    match (sasl, user, password) {
        (KafkaSasl::Off, None, None) => None,
        (KafkaSasl::Off, ..) => {
            reader.problem(place, table.key(&keys::SASL), "a user and a password have no effect without `sasl`");
            None
        }
        (sasl, Some(user), Some(password)) => {
            if sasl == KafkaSasl::Plain && !is_encrypted {
                let message = "without `tls` the password is readable on its way";
                reader.warn(place, table.key(&keys::SASL), message);
            }
            if std::str::from_utf8(password.expose()).is_err() {
                let message = "the password of Kafka is text (UTF-8)";
                reader.problem(table.place(&keys::PASSWORD), table.key(&keys::PASSWORD), message);
            }
            Some(EventKafkaLogin { sasl, user, password })
        }
        _ => {
            reader.problem(place, table.key(&keys::SASL), "a login needs `user` and a password");
            None
        }
    }
}
