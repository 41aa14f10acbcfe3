//! `etcd` of a cluster.

use super::{or_empty, secrets, tls};
use crate::read::{Reader, Table};
use crate::settings::{cluster, etcd as keys, failover};
use crate::{Etcd, Lease, Promotion, ServerTlsMode};

pub(super) fn read(reader: &mut Reader, parent: &Table, promotion: &Promotion) -> Etcd {
    let table = reader.table(parent, &keys::ETCD);
    let endpoints = reader.addresses(&table, &keys::ENDPOINTS);
    let password_keys = [&keys::ETCD_PASSWORD, &cluster::PASSWORD_FILE, &cluster::PASSWORD_ENV];
    let (user, password) = secrets::account(reader, &table, &keys::ETCD_USER, password_keys);
    let prefix = or_empty(reader.text(&table, &keys::PREFIX));
    let tls_table = reader.table(&table, &keys::ETCD_TLS);
    let tls = tls::read(reader, &tls_table, &keys::ETCD_TLS_MODE);
    let wanted = promotion.lease == Lease::Etcd;
    if wanted && endpoints.is_empty() && reader.whole_document() {
        let place =
            if table.has(&keys::ENDPOINTS) { table.place(&keys::ENDPOINTS) } else { parent.place(&failover::LEASE) };
        let message = "with promotion.lease = \"etcd\" an endpoint is needed, as in [\"10.0.0.11:2379\"]";
        reader.problem(place, table.key(&keys::ENDPOINTS), message);
    }
    if !wanted && table.has(&keys::ENDPOINTS) {
        let message = "it has an effect with promotion.lease = \"etcd\" only";
        reader.warn(table.place(&keys::ENDPOINTS), table.key(&keys::ENDPOINTS), message);
    }
    if tls.mode == ServerTlsMode::Disabled && user.is_some() {
        let message = "without TLS the password is readable on its way to etcd";
        reader.warn(tls_table.place(&keys::ETCD_TLS_MODE), tls_table.key(&keys::ETCD_TLS_MODE), message);
    }
    Etcd { endpoints, user, password, prefix, tls }
}
