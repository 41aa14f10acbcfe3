//! `promotion` and `replication` of a cluster.

use super::secrets;
use crate::read::{Reader, Table};
use crate::settings::{cluster, failover as keys};
use crate::{Lease, Promotion, ReplicationAccount, ReplicationTls, Unwritable};

pub(super) fn read_promotion(reader: &mut Reader, parent: &Table, servers: usize) -> Promotion {
    let table = reader.table(parent, &keys::PROMOTION);
    let promotion = Promotion {
        cooldown: reader.duration(&table, &keys::COOLDOWN),
        attempts_max: reader.number(&table, &keys::ATTEMPTS_MAX),
        drain: reader.duration(&table, &keys::DRAIN),
        in_flight: reader.duration(&table, &keys::IN_FLIGHT),
        look_timeout: reader.duration(&table, &keys::LOOK_TIMEOUT),
        step_timeout: reader.duration(&table, &keys::STEP_TIMEOUT),
        max_lag: reader.duration(&table, &keys::PROMOTION_MAX_LAG),
        preferred_within: reader.duration(&table, &keys::PREFERRED_WITHIN),
        semi_sync_required: reader.flag(&table, &keys::SEMI_SYNC_REQUIRED),
        unwritable: reader
            .choice(&table, &keys::UNWRITABLE, Unwritable::ALL, Unwritable::word)
            .unwrap_or(Unwritable::Advise),
        majority_required: reader.flag(&table, &keys::MAJORITY_REQUIRED),
        rejoin: reader.flag(&table, &keys::REJOIN),
        events: reader.flag(&table, &keys::EVENTS),
        event_scheduler: reader.flag(&table, &keys::EVENT_SCHEDULER),
        lease: reader.choice(&table, &keys::LEASE, Lease::ALL, Lease::word).unwrap_or(Lease::Off),
        lease_time: reader.duration(&table, &keys::LEASE_TIME),
        hook_before: reader.command(&table, &keys::HOOK_BEFORE),
        hook_after: reader.command(&table, &keys::HOOK_AFTER),
        hook_timeout: reader.duration(&table, &keys::HOOK_TIMEOUT),
        journal: reader.path(&table, &keys::JOURNAL),
    };
    if promotion.lease == Lease::Majority && servers < 3 {
        let message = "with fewer than three servers there is no majority without one of them, so nothing is promoted when it \
                       is lost";
        reader.warn(table.place(&keys::LEASE), table.key(&keys::LEASE), message);
    }
    if promotion.unwritable == Unwritable::Failover && !promotion.semi_sync_required {
        let message = "without `semi_sync_required = true` nothing proves that no write is lost, so such a primary is not replaced";
        reader.warn(table.place(&keys::UNWRITABLE), table.key(&keys::UNWRITABLE), message);
    }
    promotion
}

pub(super) fn read_replication(reader: &mut Reader, parent: &Table) -> ReplicationAccount {
    let table = reader.table(parent, &keys::REPLICATION);
    let password_keys = [&keys::REPLICATION_PASSWORD, &cluster::PASSWORD_FILE, &cluster::PASSWORD_ENV];
    let (user, password) = secrets::account(reader, &table, &keys::REPLICATION_USER, password_keys);
    let tls = reader.choice(&table, &keys::REPLICATION_TLS, ReplicationTls::ALL, ReplicationTls::word);
    ReplicationAccount { user, password, tls: tls.unwrap_or(ReplicationTls::Auto) }
}
