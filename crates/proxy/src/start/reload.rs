//! Taking a new configuration while sessions run.

use std::sync::{Arc, PoisonError};

use config::Config;
use policy::rules::RuleSet;

use super::settings::{caches, cluster_settings, listener_tls};
use super::{Proxy, StartError};
use crate::shared::Mail;

impl Proxy {
    /// Takes a new configuration without dropping a session: servers, users, limits and TLS. The configuration's difference
    /// names the settings that need a restart.
    ///
    /// # Errors
    /// A TLS setting is of no use, or rules cannot be put together: nothing was changed then.
    pub fn reload(&self, config: Config) -> Result<(), StartError> {
        let clusters: Vec<_> =
            self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut new_clusters = Vec::new();
        for cluster in clusters {
            if let Some(mut settings) = cluster_settings(&config, &cluster.name)? {
                let way = |config: &Config| {
                    let wanted = config.clusters.get(&cluster.name)?;
                    Some((wanted.tls.clone(), wanted.compression, wanted.proxy_protocol))
                };
                let changed = way(&config) != way(&self.shared.config.load());
                settings.tls_number = cluster.settings.load().tls_number + u64::from(changed);
                new_clusters.push((cluster, settings));
            }
        }
        let mut new_listeners = Vec::new();
        for (name, running) in self.listeners().iter() {
            if let Some(settings) = config.listeners.get(name) {
                let old = running.shared.settings.load_full();
                // A certificate that Sqluice made itself stays: clients may have remembered it.
                let made_before = old.tls == settings.tls && settings.tls.cert.is_none();
                let tls = if made_before { None } else { Some(listener_tls(name, settings)?) };
                new_listeners.push((running.shared.clone(), settings.clone(), tls));
            }
        }
        let new_rules = match config.rules == self.shared.config.load().rules {
            true => None,
            false => Some(RuleSet::new(&config.rules).map_err(StartError::Rules)?),
        };
        for (cluster, settings) in new_clusters {
            cluster.settings.store(Arc::new(settings));
            cluster.set_limits();
            for mailbox in self.mailboxes.iter() {
                // A worker that has ended needs no news.
                let _ = mailbox.send(Mail::Published(cluster.name.clone()));
            }
        }
        for (listener, settings, tls) in new_listeners {
            listener.settings.store(Arc::new(settings));
            if let Some(tls) = tls {
                listener.tls.store(Arc::new(tls));
            }
        }
        if caches(&config.rules) {
            let clusters = self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner);
            clusters.values().for_each(|cluster| cluster.published.watch_tables());
        }
        let clusters = self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner);
        crate::follow::begin(&config, clusters.values(), self.shared.tier.as_ref());
        drop(clusters);
        self.shared.config.store(Arc::new(config));
        if let Some(rules) = new_rules {
            self.shared.rules.store(rules.map(Arc::new));
            for mailbox in self.mailboxes.iter() {
                // A worker that has ended needs no rules.
                let _ = mailbox.send(Mail::Rules);
            }
        }
        Ok(())
    }
}
