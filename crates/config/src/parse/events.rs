//! `[events]`

use std::time::Duration;

use crate::read::{Reader, Table};
use crate::settings::events as keys;
use crate::{EventFile, EventQueries, EventText, Events};

pub(super) fn read(reader: &mut Reader, root: &Table) -> Events {
    let table = reader.table(root, &keys::EVENTS);
    Events {
        queries: reader
            .choice(&table, &keys::QUERIES, EventQueries::ALL, EventQueries::word)
            .unwrap_or(EventQueries::Off),
        slow: Duration::from_millis(reader.number(&table, &keys::SLOW).into()),
        sample: reader.number(&table, &keys::SAMPLE),
        node: reader.text(&table, &keys::NODE).filter(|node| !node.is_empty()),
        file: read_file(reader, &table),
    }
}

fn read_file(reader: &mut Reader, events: &Table) -> Option<EventFile> {
    let table = reader.table(events, &keys::FILE);
    let path = reader.path(&table, &keys::PATH);
    let text = reader.choice(&table, &keys::TEXT, EventText::ALL, EventText::word).unwrap_or(EventText::Form);
    let (size, age) = (reader.size(&table, &keys::ROTATE_SIZE), reader.number(&table, &keys::ROTATE_AGE));
    let (keep, compress) = (reader.number(&table, &keys::KEEP), reader.flag(&table, &keys::COMPRESS));
    let Some(path) = path else {
        let given = keys::FILE.settings.iter().find(|key| table.has(key));
        if let Some(key) = given {
            let message = "it has no effect without `path`, as in path = \"/var/log/sqluice/events.jsonl\"";
            reader.problem(table.place(key), table.key(key), message);
        }
        return None;
    };
    if text == EventText::Text {
        let message = "the file of events holds whatever clients send, passwords within statements included";
        reader.warn(table.place(&keys::TEXT), table.key(&keys::TEXT), message);
    }
    Some(EventFile {
        path,
        text,
        rotate_size: size,
        rotate: Duration::from_secs(age.into()),
        keep: keep as usize,
        compress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    fn parsed(extra: &str) -> Result<crate::Loaded, crate::Errors> {
        let text = format!(
            "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{extra}"
        );
        crate::parse("x.toml", &text, &MemorySource::default())
    }

    #[test]
    fn without_a_table_only_logins_are_events_and_there_is_no_file() {
        let events = parsed("").unwrap().config.events;
        let expected = Events { queries: EventQueries::Off, slow: Duration::ZERO, sample: 1, node: None, file: None };
        assert_eq!(events, expected);
    }

    #[test]
    fn a_file_with_texts_is_warned_of() {
        let text = "[events]\nqueries = \"all\"\nslow_ms = 500\n[events.file]\npath = \"/e\"\ntext = \"text\"\n";
        let loaded = parsed(text).unwrap();
        assert_eq!(loaded.config.events.slow, Duration::from_millis(500));
        let file = loaded.config.events.file.unwrap();
        assert_eq!((file.text, file.rotate_size, file.keep, file.compress), (EventText::Text, 256 << 20, 10, true));
        assert!(loaded.warnings.iter().any(|warning| warning.to_string().contains("whatever clients send")));
    }

    #[test]
    fn a_file_needs_a_path() {
        let errors = parsed("[events.file]\nkeep = 3\n").unwrap_err().to_string();
        assert!(errors.contains("it has no effect without `path`"), "{errors}");
        let errors = parsed("[events]\nqueries = \"some\"\n").unwrap_err().to_string();
        assert!(errors.contains("events.queries"), "{errors}");
    }
}
