//! From the configuration to what the driver goes by.

use std::sync::Arc;

use cluster::driver::{Failover, GroupKind, Mode, PromotionRule, ServerSpec, Settings};
use cluster::galera::{Donors, GaleraRules};
use facts::view::Writers;

pub(super) fn settings(name: &Arc<str>, cluster: &config::Cluster) -> Settings {
    Settings {
        cluster: name.clone(),
        standalone: cluster.kind == config::ClusterKind::Standalone,
        group: match cluster.kind {
            config::ClusterKind::Galera => Some(GroupKind::Galera(galera(cluster.galera))),
            config::ClusterKind::GroupReplication => Some(GroupKind::GroupReplication),
            config::ClusterKind::Ndb => Some(GroupKind::Ndb),
            config::ClusterKind::Standalone | config::ClusterKind::Replication => None,
        },
        max_lag: cluster.max_lag,
        down_after: cluster.down_after,
        up_after: cluster.up_after,
        interval: cluster.monitor.interval,
        timeout: cluster.monitor.timeout,
        failover: failover(cluster),
    }
}

fn galera(wanted: config::Galera) -> GaleraRules {
    GaleraRules {
        writers: match wanted.writers {
            config::Writers::One => Writers::One,
            config::Writers::All => Writers::All,
        },
        donors: match wanted.donors {
            config::Donors::Avoid => Donors::Avoid,
            config::Donors::Use => Donors::Use,
        },
    }
}

fn failover(cluster: &config::Cluster) -> Failover {
    let promotion = &cluster.promotion;
    Failover {
        mode: match cluster.failover {
            // The group decides who belongs to it.
            _ if cluster.kind.is_group() => Mode::Off,
            config::Failover::Off => Mode::Off,
            config::Failover::Advise => Mode::Advise,
            config::Failover::Auto => Mode::Auto,
        },
        cooldown: promotion.cooldown,
        attempts_max: promotion.attempts_max,
        drain_max: promotion.drain,
        in_flight_max: promotion.in_flight,
        look_timeout: promotion.look_timeout,
        step_timeout: promotion.step_timeout,
        hook_timeout: promotion.hook_timeout,
        lag_max: promotion.max_lag,
        semi_sync_required: promotion.semi_sync_required,
        preferred_within: promotion.preferred_within,
        replace_unwritable: promotion.unwritable == config::Unwritable::Failover,
        majority_required: promotion.majority_required,
        lease_required: promotion.lease != config::Lease::Off,
        rejoin: promotion.rejoin,
        remembers: promotion.journal.is_some(),
        attaches: cluster.replication.user.is_some(),
        events: promotion.events,
        hook_before: !promotion.hook_before.is_empty(),
        hook_after: !promotion.hook_after.is_empty(),
    }
}

pub(super) fn specs(cluster: &config::Cluster) -> Vec<ServerSpec> {
    let spec = |(name, server): (&Arc<str>, &config::Server)| ServerSpec {
        name: name.clone(),
        address: server.address.to_string().into(),
        weight: server.weight,
        zone: server.zone.clone(),
        promotion: match server.promotion {
            config::PromotionRule::Prefer => PromotionRule::Prefer,
            config::PromotionRule::Neutral => PromotionRule::Neutral,
            config::PromotionRule::PreferNot => PromotionRule::PreferNot,
            config::PromotionRule::MustNot => PromotionRule::MustNot,
        },
    };
    cluster.servers.iter().map(spec).collect()
}
