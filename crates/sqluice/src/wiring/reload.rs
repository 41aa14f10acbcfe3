//! The changes that a reload puts into effect, and those that it cannot.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::diff::without_restart;
use config::{Changes, Config, diff};

/// The effect of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The changes in effect.
    pub changes: Changes,
    /// The changes that wait for the next start, one line each.
    pub waiting: Vec<String>,
}

/// The configuration that takes effect when `new` comes while `old` is in effect.
///
/// Values that only a start reads stay as they are, and so do the sets of clusters and listeners.
pub(super) fn plan(old: &Config, new: Config) -> (Config, Reloaded) {
    let wanted = diff(old, &new);
    let mut waiting: Vec<String> = Vec::new();
    for wait in &wanted.restart {
        waiting.push(format!("{} = {} (now {})", wait.key, shown(&wait.new), shown(&wait.old)));
    }
    for (table, names) in [("cluster", &wanted.clusters), ("listener", &wanted.listeners)] {
        waiting.extend(names.added.iter().map(|name| format!("{table}.{name}, which is new")));
        waiting.extend(names.removed.iter().map(|name| format!("{table}.{name}, which is gone from the file")));
    }
    let mut effective = without_restart(old, new);
    keep_set(&mut effective.clusters, &old.clusters);
    keep_set(&mut effective.listeners, &old.listeners);
    let changes = diff(old, &effective);
    (effective, Reloaded { changes, waiting })
}

fn keep_set<T: Clone>(new: &mut BTreeMap<Arc<str>, T>, old: &BTreeMap<Arc<str>, T>) {
    new.retain(|name, _| old.contains_key(name));
    for (name, value) in old {
        new.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(extra: &str) -> Config {
        let text = format!(
            "[cluster.main]\nkind = \"replication\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.a = {{ address = \"h:1\" }}\n\
             [cluster.other]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.z = {{ address = \"h:9\" }}\n\
             [listener.z]\naddress = \"127.0.0.1:0\"\ncluster = \"other\"\n\
             {extra}"
        );
        config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config
    }

    #[test]
    fn users_and_limits_take_effect_at_once() {
        let old = config("[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n");
        let new = config(
            "[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nmax_sessions = 7\n\
             [user.bob]\nmax_sessions = 3\n",
        );
        let (effective, reloaded) = plan(&old, new);
        assert_eq!(reloaded.waiting, Vec::<String>::new());
        assert_eq!(reloaded.changes.to_string(), "listener.app changed, user.bob added");
        assert_eq!(effective.listeners["app"].max_sessions, 7);
        assert_eq!(effective.users["bob"].max_sessions, 3);
    }

    #[test]
    fn what_needs_a_start_stays_and_is_reported() {
        let old = config("[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n[proxy]\nworkers = 2\n");
        let new = config(
            "[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"other\"\n\
             [listener.new]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n[proxy]\nworkers = 4\n",
        );
        let (effective, reloaded) = plan(&old, new);
        assert_eq!(
            reloaded.waiting,
            [
                "proxy.workers = 4 (now 2)",
                "listener.app.cluster = \"other\" (now \"main\")",
                "listener.new, which is new",
            ]
        );
        assert_eq!(effective.proxy.workers, 2);
        assert_eq!(effective.listeners.keys().map(|name| &**name).collect::<Vec<_>>(), ["app", "z"]);
        assert_eq!(&*effective.listeners["app"].cluster, "main");
        assert!(reloaded.changes.is_empty(), "{}", reloaded.changes);
    }

    #[test]
    fn a_listener_that_is_gone_from_the_file_goes_on_until_the_next_start() {
        let old = config("[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n");
        let (effective, reloaded) = plan(&old, config(""));
        assert_eq!(reloaded.waiting, ["listener.app, which is gone from the file"]);
        assert!(effective.listeners.contains_key("app"));
    }
}
