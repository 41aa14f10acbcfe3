//! The shared cache in the answer of `/api/v1/cache`.

use serde_json::{Value, json};

use crate::shared::Shared;

/// How it is; null without one.
pub(super) fn page(shared: &Shared) -> Value {
    let Some(tier) = &shared.tier else { return Value::Null };
    let status = tier.status();
    let counts = status.counts;
    let latency = tier.latency_us().snapshot();
    json!({
        "address": tier.address(),
        "server": status.server,
        "state": status.state.word(),
        "trouble": status.trouble,
        "members": status.members,
        "found": counts.found,
        "good": counts.good,
        "missed": counts.missed,
        "closed": counts.closed,
        "unasked": counts.unasked,
        "timeouts": counts.timeouts,
        "errors": counts.errors,
        "puts": counts.puts,
        "unput": counts.unput,
        "reports": counts.reports,
        "unreported": counts.unreported,
        "connects": counts.connects,
        "latency_us": { "p50": latency.quantile(0.5), "p99": latency.quantile(0.99) },
    })
}

/// Ends all answers of this cluster, or of all, for all processes.
pub(super) fn wipe(shared: &Shared, cluster: Option<&str>) {
    let Some(tier) = &shared.tier else { return };
    for name in shared.clusters().keys().filter(|name| cluster.is_none_or(|wanted| wanted == &***name)) {
        tier.note(name, tier::TierWrite::Anything);
    }
}
