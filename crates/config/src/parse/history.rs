//! `[history]`

use crate::History;
use crate::read::{Reader, Table};
use crate::settings::history as keys;

pub(super) fn read(reader: &mut Reader, root: &Table, has_admin: bool) -> Option<History> {
    let table = reader.table(root, &keys::HISTORY);
    let (path, size_max) = (reader.path(&table, &keys::PATH), reader.size(&table, &keys::SIZE_MAX));
    let explain_every = reader.duration(&table, &keys::EXPLAIN_EVERY);
    let Some(path) = path else {
        for key in [&keys::SIZE_MAX, &keys::EXPLAIN_EVERY].into_iter().filter(|key| table.has(key)) {
            let message = "it has no effect without `path`, as in path = \"/var/lib/sqluice/history.sqlite\"";
            reader.problem(table.place(key), table.key(key), message);
        }
        return None;
    };
    if !has_admin {
        let message = "history is read through the admin listener: set admin.address";
        reader.problem(table.place(&keys::PATH), table.key(&keys::PATH), message);
    }
    Some(History { path, size_max, explain_every })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    fn parsed(extra: &str) -> Result<Option<History>, String> {
        let text = format!(
            "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{extra}"
        );
        let loaded = crate::parse("x.toml", &text, &MemorySource::default());
        loaded.map(|loaded| loaded.config.history).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_path_makes_a_history_and_needs_the_admin_listener() {
        const ADMIN: &str = "[admin]\naddress = \"127.0.0.1:0\"\n";
        assert_eq!(parsed(""), Ok(None));
        let history = parsed(&format!("{ADMIN}[history]\npath = \"/h\"\n")).unwrap().unwrap();
        assert_eq!((history.path.to_str(), history.size_max), (Some("/h"), 512 << 20));
        assert!(history.explain_every.is_zero());
        let words = parsed(&format!("{ADMIN}[history]\nexplain_every_s = 60\n")).unwrap_err();
        assert!(words.contains("no effect without `path`"), "{words}");
        assert!(parsed("[history]\npath = \"/h\"\n").unwrap_err().contains("set admin.address"));
        let words = parsed(&format!("{ADMIN}[history]\nsize_max = \"9MiB\"\n")).unwrap_err();
        assert!(words.contains("no effect without `path`"), "{words}");
    }
}
