//! State that changes now and then: clusters, servers, journals, rules, settings.

use std::sync::Arc;

use admin::{ClusterStatus, Lines};

use super::{Rows, Schema, View};
use crate::cells::{Row, row};
use crate::columns::{int, real, text};
use crate::views::gather::Gathered;

/// Lines of each cluster's journal that are shown: the newest.
const JOURNAL_MAX: usize = 10_000;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "clusters",
        schema: Schema::Main,
        about: "Clusters, with their primary and their faults.",
        columns: &[
            text("cluster"),
            text("kind"),
            text("primary_server"),
            int("view"),
            int("epoch"),
            int("hold_writes"),
            text("failover"),
            text("lease"),
            int("lease_held"),
            int("servers"),
            int("servers_up"),
            text("diagnoses"),
        ],
        needs: &[],
        rows: Rows::Of(clusters),
    },
    View {
        name: "servers",
        schema: Schema::Main,
        about: "Servers: role, health, lag, and the reason of their state.",
        columns: &[
            text("cluster"),
            text("server"),
            text("address"),
            text("role"),
            text("health"),
            int("serves_reads"),
            real("lag_ms"),
            int("fenced"),
            text("reason"),
            int("weight"),
            text("zone"),
            text("version"),
            int("read_only"),
            text("gtid_executed"),
            text("semi_sync"),
            text("source"),
            text("receiver"),
            text("applier"),
            text("replication_error"),
            real("probe_ms"),
            int("probes"),
            int("probe_failures"),
        ],
        needs: &[],
        rows: Rows::Of(servers),
    },
    View {
        name: "journal",
        schema: Schema::Main,
        about: "Decisions and steps of failover, the newest of each cluster.",
        columns: &[
            text("cluster"),
            int("number"),
            int("at_ms"),
            int("run"),
            int("epoch"),
            text("kind"),
            int("step"),
            text("server"),
            text("text"),
        ],
        needs: &[],
        rows: Rows::Of(journal),
    },
    View {
        name: "rules",
        schema: Schema::Main,
        about: "The rules in their order, with their hits.",
        columns: &[int("position"), text("rule"), int("enabled"), text("matchers"), text("action"), int("hits")],
        needs: &[],
        rows: Rows::Of(rules),
    },
    View {
        name: "settings",
        schema: Schema::Main,
        about: "Settings with their values in effect; secrets are hidden.",
        columns: &[text("setting"), text("value"), int("is_set"), text("applies")],
        needs: &[],
        rows: Rows::Of(settings),
    },
];

fn clusters(gathered: &Gathered) -> Vec<Row> {
    let of = |(name, status): (&Arc<str>, &Arc<dyn ClusterStatus>)| {
        let (view, figures) = (status.published().view.load_full(), status.figures());
        let kind = gathered.settings.config.clusters.get(name).map(|cluster| cluster.kind.to_string());
        let primary = view.primary.and_then(|id| view.server(id)).map(|server| server.name.to_string());
        let up = view.servers.iter().filter(|server| server.health == facts::view::Health::Up).count();
        let diagnoses: Vec<&str> = figures.diagnoses.iter().map(|diagnosis| &*diagnosis.text).collect();
        row![
            &**name,
            kind,
            primary,
            view.number,
            view.epoch,
            view.hold_writes,
            figures.failover,
            figures.lease.clone(),
            figures.lease.map(|_| figures.lease_held),
            view.servers.len(),
            up,
            diagnoses.join("; "),
        ]
    };
    gathered.shared.clusters().iter().map(of).collect()
}

fn servers(gathered: &Gathered) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cluster, status) in &gathered.shared.clusters() {
        let (view, figures) = (status.published().view.load_full(), status.figures());
        for server in view.servers.iter() {
            let own = figures.servers.get(&server.name);
            let report = own.and_then(|own| own.report.as_ref());
            let channel = report.and_then(|report| report.channels.first());
            rows.push(row![
                &**cluster,
                &*server.name,
                &*server.address,
                server.role.word(),
                server.health.word(),
                server.serves_reads,
                own.and_then(|own| own.lag).or(server.lag),
                server.fenced,
                &*server.reason,
                server.weight,
                &*server.zone,
                report.map(|report| &*report.version),
                report.map(|report| report.read_only),
                report.map(|report| &*report.gtid_executed),
                report.map(|report| report.semi_sync),
                channel.map(|channel| &*channel.source),
                channel.map(|channel| channel.receiver),
                channel.map(|channel| channel.applier),
                channel.map(|channel| &*channel.error),
                own.and_then(|own| own.probe_time),
                own.map(|own| own.probes),
                own.map(|own| own.failures.iter().map(|(_, count)| count).sum::<u64>()),
            ]);
        }
    }
    rows
}

fn journal(gathered: &Gathered) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cluster, status) in &gathered.shared.clusters() {
        for line in status.journal(Lines::All, JOURNAL_MAX) {
            rows.push(row![
                &**cluster,
                line.number,
                line.at,
                line.run,
                line.epoch,
                line.kind.word(),
                line.step,
                line.server.as_deref(),
                line.text,
            ]);
        }
    }
    rows
}

/// The hits of each rule, in the order of the rules.
pub(super) fn rule_hits(gathered: &Gathered) -> Vec<u64> {
    let counts: Vec<_> = gathered.shared.sources.workers.iter().map(|worker| worker.rules.get()).collect();
    let hits = |name: &str| {
        counts.iter().flat_map(|counts| counts.iter()).filter(|(known, _)| *known == name).map(|(_, hits)| hits).sum()
    };
    gathered.settings.config.rules.iter().map(|rule| hits(&rule.name)).collect()
}

fn rules(gathered: &Gathered) -> Vec<Row> {
    let hits = rule_hits(gathered);
    let of = |(index, rule): (usize, &config::Rule)| {
        let matchers = rule.matchers.in_words().join(" and ");
        row![index + 1, &*rule.name, rule.enabled, matchers, rule.action_in_words(), hits[index]]
    };
    gathered.settings.config.rules.iter().enumerate().map(of).collect()
}

fn settings(gathered: &Gathered) -> Vec<Row> {
    let applies = |apply| if apply == config::settings::Apply::Restart { "restart" } else { "reload" };
    let given = &gathered.settings.config.given;
    given.iter().map(|given| row![&*given.path, &*given.value, given.set, applies(given.apply)]).collect()
}
