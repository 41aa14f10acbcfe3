//! `[user.NAME]`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::secrets;
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::user as keys;
use crate::{Consistency, Credential, Pipelines, Secret, Split, User};

pub(super) fn read_all(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, User> {
    let mut users = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::USER, name_good) {
        let user = User {
            credential: read_credential(reader, &table),
            max_sessions: reader.number(&table, &keys::MAX_SESSIONS),
            max_connections: reader.number(&table, &keys::MAX_CONNECTIONS),
            split: reader.choice(&table, &keys::SPLIT, Split::ALL, Split::word),
            consistency: reader.choice(&table, &keys::CONSISTENCY, Consistency::ALL, Consistency::word),
            pipelines: reader.choice(&table, &keys::PIPELINES, Pipelines::ALL, Pipelines::word),
            cluster: reader.text(&table, &keys::CLUSTER),
        };
        if let Some(cluster) = &user.cluster
            && !cluster.is_empty()
        {
            let (place, key) = (table.place(&keys::CLUSTER), table.key(&keys::CLUSTER));
            places.clusters_used.push((cluster.clone(), place, key));
        }
        users.insert(name, user);
    }
    users
}

fn name_good(name: &str) -> Result<(), &'static str> {
    match (1..=128).contains(&name.len()) && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err("a user name has 1 to 128 bytes and no control characters"),
    }
}

fn read_credential(reader: &mut Reader, table: &Table) -> Credential {
    let [inline, file, variable] = [&keys::PASSWORD, &keys::PASSWORD_FILE, &keys::PASSWORD_ENV];
    secrets::exclude(reader, table, &[inline, file, variable, &keys::NATIVE_HASH]);
    let password = secrets::password(reader, table, [inline, file, variable]);
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
