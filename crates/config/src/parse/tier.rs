//! `[cache.tier]`

use super::{or_empty, secrets, tls};
use crate::read::{Reader, Table};
use crate::settings::{cluster, tier as keys};
use crate::{ServerTlsMode, Tier};

pub(super) fn read(reader: &mut Reader, cache: &Table) -> Option<Tier> {
    let table = reader.table(cache, &keys::TIER);
    let address = reader.address(&table, &keys::ADDRESS);
    let user = reader.text(&table, &keys::USER);
    let password_keys = [&keys::PASSWORD, &cluster::PASSWORD_FILE, &cluster::PASSWORD_ENV];
    secrets::exclude(reader, &table, &password_keys);
    let password = secrets::password(reader, &table, password_keys);
    let tls_table = reader.table(&table, &keys::TIER_TLS);
    let tls = tls::read(reader, &tls_table, &keys::TIER_TLS_MODE);
    let Some(address) = address else {
        let given = keys::TIER.settings.iter().find(|key| table.has(key));
        if let Some(key) = given.filter(|_| !table.has(&keys::ADDRESS)) {
            let message = "it has no effect without `address`, as in address = \"10.0.0.9:6379\"";
            reader.problem(table.place(key), table.key(key), message);
        }
        return None;
    };
    let tier = Tier {
        address,
        database: reader.number(&table, &keys::DATABASE),
        prefix: or_empty(reader.text(&table, &keys::PREFIX)),
        name: reader.text(&table, &keys::NAME).filter(|name| !name.is_empty()),
        connect_timeout: reader.duration(&table, &keys::CONNECT_TIMEOUT),
        forget: reader.duration(&table, &keys::FORGET),
        trust: reader.duration(&table, &keys::TRUST),
        user,
        password,
        lease: reader.duration(&table, &keys::LEASE),
        timeout: reader.duration(&table, &keys::TIMEOUT),
        tls,
    };
    if tier.user.is_some() && tier.password.is_none() {
        reader.problem(table.place(&keys::USER), table.key(&keys::USER), "a user needs a password beside it");
    }
    let is_near = matches!(&tier.address, crate::Address::Unix(_));
    if tier.tls.mode == ServerTlsMode::Disabled && tier.password.is_some() && !is_near {
        let message = "without TLS the password, and all answers, are readable on their way to the tier";
        reader.warn(tls_table.place(&keys::TIER_TLS_MODE), tls_table.key(&keys::TIER_TLS_MODE), message);
    }
    Some(tier)
}
