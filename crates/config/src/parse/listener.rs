//! `[listener.NAME]` and `[user.NAME]`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::secrets::{self, PasswordKeys};
use super::{name_good, or_empty};
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::listener as keys;
use crate::{Credential, Listener, ListenerTls, Secret, Split, TlsMode, User};

pub(super) fn read_all(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, Listener> {
    let mut listeners = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::LISTENER, name_good) {
        let address = reader.address(&table, &keys::ADDRESS);
        let listener = Listener {
            address: address.clone().unwrap_or(crate::Address::Tcp { host: "".into(), port: 0 }),
            cluster: or_empty(reader.text(&table, &keys::CLUSTER)),
            split: reader.choice(&table, &keys::SPLIT, Split::ALL, Split::word).unwrap_or(Split::Auto),
            max_sessions: reader.number(&table, &keys::MAX_SESSIONS),
            max_sessions_per_user: reader.number(&table, &keys::MAX_SESSIONS_PER_USER),
            login_timeout: reader.duration(&table, &keys::LOGIN_TIMEOUT),
            idle_timeout: reader.duration(&table, &keys::IDLE_TIMEOUT),
            hold: reader.duration(&table, &keys::HOLD),
            max_packet: reader.size(&table, &keys::MAX_PACKET),
            local_infile: reader.flag(&table, &keys::LOCAL_INFILE),
            server_version: reader.text(&table, &keys::SERVER_VERSION),
            tls: read_tls(reader, &table),
        };
        if address.is_some() {
            let place = (table.place(&keys::ADDRESS), table.key(&keys::ADDRESS));
            places.listeners.insert(name.clone(), place);
        }
        if !listener.cluster.is_empty() {
            places.clusters_used.push((
                listener.cluster.clone(),
                table.place(&keys::CLUSTER),
                table.key(&keys::CLUSTER),
            ));
        }
        listeners.insert(name, listener);
    }
    listeners
}

fn read_tls(reader: &mut Reader, parent: &Table) -> ListenerTls {
    let table = reader.table(parent, &keys::TLS);
    let mode = reader.choice(&table, &keys::TLS_MODE, TlsMode::ALL, TlsMode::word).unwrap_or(TlsMode::Optional);
    secrets::paired(reader, &table, &keys::CERT_FILE, &keys::KEY_FILE);
    let tls = ListenerTls {
        mode,
        cert: secrets::certificate(reader, &table, &keys::CERT_FILE),
        key: secrets::private_key(reader, &table, &keys::KEY_FILE),
    };
    if tls.cert.is_some() && mode == TlsMode::Off {
        let message = "with mode = \"off\" no certificate is shown, so this file has no effect";
        reader.warn(table.place(&keys::CERT_FILE), table.key(&keys::CERT_FILE), message);
    }
    tls
}

pub(super) fn read_users(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, User> {
    let mut users = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::USER, user_name_good) {
        let user = User {
            credential: read_credential(reader, &table),
            max_sessions: reader.number(&table, &keys::USER_MAX_SESSIONS),
            max_connections: reader.number(&table, &keys::USER_MAX_CONNECTIONS),
            split: reader.choice(&table, &keys::USER_SPLIT, Split::ALL, Split::word),
            cluster: reader.text(&table, &keys::USER_CLUSTER),
        };
        if let Some(cluster) = &user.cluster
            && !cluster.is_empty()
        {
            let (place, key) = (table.place(&keys::USER_CLUSTER), table.key(&keys::USER_CLUSTER));
            places.clusters_used.push((cluster.clone(), place, key));
        }
        users.insert(name, user);
    }
    users
}

fn user_name_good(name: &str) -> Result<(), &'static str> {
    match (1..=128).contains(&name.len()) && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err("a user name has 1 to 128 bytes and no control characters"),
    }
}

fn read_credential(reader: &mut Reader, table: &Table) -> Credential {
    let all = [&keys::PASSWORD, &keys::PASSWORD_FILE, &keys::PASSWORD_ENV, &keys::NATIVE_HASH];
    secrets::exclude(reader, table, &all);
    let password_keys =
        PasswordKeys { inline: &keys::PASSWORD, file: &keys::PASSWORD_FILE, variable: &keys::PASSWORD_ENV };
    let password = secrets::password(reader, table, &password_keys);
    let hash = reader.secret(table, &keys::NATIVE_HASH).map(|text| match native_hash(&text) {
        Some(hash) => Secret::new(hash),
        None => {
            let message = "a hash is `*` and 40 hexadecimal digits, as mysql_native_password stores it";
            reader.problem(table.place(&keys::NATIVE_HASH), table.key(&keys::NATIVE_HASH), message);
            Secret::new([])
        }
    });
    match (password, hash) {
        (Some(password), _) => Credential::Password(password),
        (None, Some(hash)) => Credential::NativeHash(hash),
        (None, None) => Credential::Servers,
    }
}

/// The 20 bytes of `*` and 40 hexadecimal digits.
fn native_hash(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"*").filter(|digits| digits.len() == 40)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
