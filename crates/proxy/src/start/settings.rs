//! The settings of clusters and listeners, made from the configuration.

use config::Config;
use net::stream::Keepalive;
use net::tls::{ClientCertificates, ClientTls, ClientTlsOptions, Pem, ServerTls, ServerTlsOptions};
use wire::compress::Algorithm;
use wire::proxy_header::Version;

use super::StartError;
use crate::shared::ClusterSettings;

/// The client side and the server side of what one cluster is configured to be.
pub(super) fn cluster_settings(config: &Config, name: &str) -> Result<Option<ClusterSettings>, StartError> {
    let Some(cluster) = config.clusters.get(name) else { return Ok(None) };
    let key = format!("cluster.{name}.tls");
    let options = ClientTlsOptions::from_config(&cluster.tls, &key);
    let tls = ClientTls::new(&options).map_err(|error| StartError::Tls { key, error })?;
    let logs_tell = matches!(
        cluster.kind,
        config::ClusterKind::Replication | config::ClusterKind::GroupReplication | config::ClusterKind::Galera
    );
    Ok(Some(ClusterSettings {
        pool: cluster.pool.clone(),
        tls: tls.telling(cluster.send_passwords),
        tls_number: 0,
        compression: match cluster.compression {
            config::ServerCompression::Off => None,
            config::ServerCompression::Zlib => Some(Algorithm::Zlib),
            config::ServerCompression::Zstd => Some(Algorithm::Zstd),
        },
        announce: match cluster.proxy_protocol {
            config::ProxyOut::Off => None,
            config::ProxyOut::V1 => Some(Version::V1),
            config::ProxyOut::V2 => Some(Version::V2),
        },
        keepalive: Keepalive::after(cluster.pool.keepalive, cluster.pool.user_timeout),
        monitor: cluster.monitor.clone(),
        slow_start: cluster.slow_start,
        max_lag: cluster.max_lag,
        is_standalone: cluster.kind == config::ClusterKind::Standalone && cluster.servers.len() == 1,
        logs_tell,
        mark_writes: cluster.mark_writes && logs_tell,
        zone: config.proxy.zone.clone(),
        own_limits: cluster.servers.iter().map(|(name, server)| (name.clone(), server.max_connections)).collect(),
    }))
}

pub(super) fn listener_tls(name: &str, listener: &config::Listener) -> Result<Option<ServerTls>, StartError> {
    let tls = &listener.tls;
    if tls.mode == config::TlsMode::Off {
        return Ok(None);
    }
    let options = ServerTlsOptions {
        min_version: tls.min_version,
        clients: match (&tls.client_ca, tls.client_cert) {
            (None, _) => ClientCertificates::NotAsked,
            (Some(ca), config::ClientCert::Optional) => ClientCertificates::Optional(Pem::of(ca)),
            (Some(ca), config::ClientCert::Required) => ClientCertificates::Required(Pem::of(ca)),
        },
    };
    let made = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            let key = Pem::read_from(format!("listener.{name}.tls.key_file"), key.expose());
            ServerTls::with(Some((&Pem::of(cert), &key)), &options)
        }
        _ => ServerTls::with(None, &options),
    };
    made.map(Some).map_err(|error| StartError::Tls { key: format!("listener.{name}.tls"), error })
}

/// Whether the result cache is used: it must know what statements touch.
pub(super) fn caches(rules: &[config::Rule]) -> bool {
    rules.iter().any(|rule| rule.enabled && rule.cache.is_some_and(|cache| cache.mode != config::CacheMode::Off))
}
