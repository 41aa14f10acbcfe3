//! `[events]`

mod kafka;
mod otlp;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::secrets;
use crate::read::{Reader, Table, quote};
use crate::settings::Setting;
use crate::settings::events as keys;
use crate::{
    EventFile, EventQueries, EventSink, EventSpool, EventSyslog, EventTarget, EventText, Events, EventsWhenFull,
    Secret, SinkQueries, SyslogFacility, SyslogProtocol, TraceKeep, patterns, suggest,
};

/// Most sinks.
const SINKS_MAX: usize = 32;
/// Least bytes of the key of hashed literals.
const HMAC_KEY_MIN: usize = 16;

pub(super) fn read(reader: &mut Reader, root: &Table, has_admin: bool) -> Events {
    let table = reader.table(root, &keys::EVENTS);
    let queries =
        reader.choice(&table, &keys::QUERIES, EventQueries::ALL, EventQueries::word).unwrap_or(EventQueries::Off);
    let slow = Duration::from_millis(reader.number(&table, &keys::SLOW).into());
    let sample = reader.number(&table, &keys::SAMPLE);
    let node = reader.text(&table, &keys::NODE).filter(|node| !node.is_empty());
    let when_full = reader.choice(&table, &keys::WHEN_FULL, EventsWhenFull::ALL, EventsWhenFull::word);
    let when_full = when_full.unwrap_or(EventsWhenFull::Drop);
    let wait_max = reader.duration(&table, &keys::WAIT_MAX);
    if when_full == EventsWhenFull::Drop && table.has(&keys::WAIT_MAX) {
        let message = "it has no effect without `when_full = \"wait\"`";
        reader.problem(table.place(&keys::WAIT_MAX), table.key(&keys::WAIT_MAX), message);
    }
    let hmac_key = read_hmac_key(reader, &table);
    let spool = read_spool(reader, &table);
    let sinks = read_sinks(reader, &table, slow.is_zero(), has_admin);
    if sinks.len() > SINKS_MAX {
        reader.problem(table.place(&keys::QUERIES), table.path(), format!("there are more than {SINKS_MAX} sinks"));
    }
    if hmac_key.is_none() && sinks.values().any(|sink| sink.text == EventText::Hmac) {
        let message = "a sink with `text = \"hmac\"` needs a key, as in hmac_key_file = \"/etc/sqluice/hmac-key\"";
        reader.problem(table.place(&keys::HMAC_KEY), table.key(&keys::HMAC_KEY), message);
    }
    let (tags, trace_sample, trace_keep) = (otlp::read_tags(reader, &table), 0, TraceKeep::Off);
    let events = Events {
        queries,
        slow,
        sample,
        node,
        when_full,
        wait_max,
        hmac_key,
        tags,
        trace_sample,
        trace_keep,
        spool,
        sinks,
    };
    let trace_sample = otlp::read_sample(reader, &table, events.has_spans());
    let trace_keep = otlp::read_keep(reader, &table, &events);
    Events { trace_sample, trace_keep, ..events }
}

fn read_hmac_key(reader: &mut Reader, table: &Table) -> Option<Secret> {
    let key_keys = [&keys::HMAC_KEY, &keys::HMAC_KEY_FILE, &keys::HMAC_KEY_ENV];
    secrets::exclude(reader, table, &key_keys);
    let key = secrets::password(reader, table, key_keys)?;
    if key.expose().len() < HMAC_KEY_MIN
        && let Some(setting) = key_keys.into_iter().find(|setting| table.has(setting))
    {
        let message = format!("a key of at least {HMAC_KEY_MIN} bytes is needed: a short one can be guessed");
        reader.problem(table.place(setting), table.key(setting), message);
    }
    Some(key)
}

fn read_spool(reader: &mut Reader, events: &Table) -> Option<EventSpool> {
    let table = reader.table(events, &keys::SPOOL);
    let path = reader.path(&table, &keys::SPOOL_PATH);
    let max_bytes = reader.size(&table, &keys::SPOOL_BYTES);
    let max_age = Duration::from_secs(reader.number(&table, &keys::SPOOL_AGE).into());
    if path.is_none() {
        refuse_without(reader, &table, keys::SPOOL.settings, "path = \"/var/lib/sqluice/spool\"");
    }
    Some(EventSpool { path: path?, max_bytes, max_age })
}

fn read_sinks(
    reader: &mut Reader,
    events: &Table,
    none_is_slow: bool,
    has_admin: bool,
) -> BTreeMap<Arc<str>, EventSink> {
    let mut sinks: BTreeMap<Arc<str>, EventSink> = BTreeMap::new();
    let mut paths: Vec<std::path::PathBuf> = Vec::new();
    let mut add = |reader: &mut Reader, name: Arc<str>, table: &Table, target: EventTarget| {
        if let EventTarget::File(file) = &target {
            if paths.contains(&file.path) {
                let (place, key) = (table.place(&keys::PATH), table.key(&keys::PATH));
                reader.problem(place, key, "another sink writes this file");
            }
            paths.push(file.path.clone());
        }
        let (queries, text) = read_choice(reader, table, none_is_slow);
        let (mask, mask_fields) = read_masks(reader, table);
        sinks.insert(name, EventSink { queries, text, mask, mask_fields, target });
    };
    let table = reader.table(events, &keys::FILE);
    let path = reader.path(&table, &keys::PATH);
    let file = path.map(|path| read_file(reader, &table, path));
    match file {
        Some(file) => add(reader, "file".into(), &table, EventTarget::File(file)),
        None => refuse_without(reader, &table, keys::FILE.settings, "path = \"/var/log/sqluice/events.jsonl\""),
    }
    for (name, table) in reader.named(events, &keys::FILES, name_good) {
        if let Some(path) = reader.path(&table, &keys::FURTHER_PATH) {
            let file = read_file(reader, &table, path);
            add(reader, format!("files.{name}").into(), &table, EventTarget::File(file));
        }
    }
    let table = reader.table(events, &keys::STDOUT);
    match reader.flag(&table, &keys::STDOUT_ENABLED) {
        true => add(reader, "stdout".into(), &table, EventTarget::Stdout),
        // The choice is looked at all the same, so that mistakes are found.
        false => drop((read_choice(reader, &table, false), read_masks(reader, &table))),
    }
    for (name, table) in reader.named(events, &keys::SYSLOG, name_good) {
        if let Some(syslog) = read_syslog(reader, &table) {
            add(reader, format!("syslog.{name}").into(), &table, EventTarget::Syslog(syslog));
        }
    }
    for (name, table) in reader.named(events, &keys::kafka::KAFKA, name_good) {
        if let Some(kafka) = kafka::read(reader, &table) {
            add(reader, format!("kafka.{name}").into(), &table, EventTarget::Kafka(kafka));
        }
    }
    for (name, table) in reader.named(events, &keys::otlp::OTLP, name_good) {
        if let Some(otlp) = otlp::read(reader, &table, has_admin) {
            add(reader, format!("otlp.{name}").into(), &table, EventTarget::Otlp(otlp));
        }
    }
    sinks
}

fn name_good(name: &str) -> Result<(), &'static str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=64).contains(&name.len()) && name.bytes().all(is_good) {
        true => Ok(()),
        false => Err("the name of a sink has 1 to 64 letters, digits, - and _"),
    }
}

/// Reports a key of a table that is not in use.
fn refuse_without(reader: &mut Reader, table: &Table, settings: &[&'static Setting], example: &str) {
    if let Some(key) = settings.iter().find(|key| table.has(key)) {
        let (wanted, _) = example.split_once(' ').unwrap_or((example, ""));
        let message = format!("it has no effect without `{wanted}`, as in {example}");
        reader.problem(table.place(key), table.key(key), message);
    }
}

fn read_file(reader: &mut Reader, table: &Table, path: std::path::PathBuf) -> EventFile {
    EventFile {
        path,
        rotate_size: reader.size(table, &keys::ROTATE_SIZE),
        rotate: Duration::from_secs(reader.number(table, &keys::ROTATE_AGE).into()),
        keep: reader.number(table, &keys::KEEP) as usize,
        compress: reader.flag(table, &keys::COMPRESS),
    }
}

fn read_syslog(reader: &mut Reader, table: &Table) -> Option<EventSyslog> {
    let protocol = reader.choice(table, &keys::SYSLOG_PROTOCOL, SyslogProtocol::ALL, SyslogProtocol::word);
    let facility = reader.choice(table, &keys::SYSLOG_FACILITY, SyslogFacility::ALL, SyslogFacility::word);
    let address = reader.address(table, &keys::SYSLOG_ADDRESS)?;
    let (protocol, facility) = (protocol.unwrap_or(SyslogProtocol::Tcp), facility.unwrap_or(SyslogFacility::Local0));
    Some(EventSyslog { address, protocol, facility })
}

/// The expressions and the fields that a sink masks.
fn read_masks(reader: &mut Reader, table: &Table) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
    let mask = reader.texts(table, &keys::MASK);
    for pattern in &mask {
        if let Err(why) = patterns::check(pattern) {
            let message = format!("{} is no regular expression that can be used: {why}", quote(pattern));
            reader.problem(table.place(&keys::MASK), table.key(&keys::MASK), message);
        }
    }
    let fields = reader.texts(table, &keys::MASK_FIELDS);
    if let Some(wrong) = fields.iter().find(|field| !keys::MASKED_FIELDS.contains(&&***field)) {
        let message = format!("{} is no field that can be masked", quote(wrong));
        let allowed = keys::MASKED_FIELDS.map(quote).join(", ");
        let hint = suggest::nearest(wrong, keys::MASKED_FIELDS.into_iter());
        let hint = hint.map(|near| format!("did you mean {}?", quote(near)));
        let (place, key) = (table.place(&keys::MASK_FIELDS), table.key(&keys::MASK_FIELDS));
        reader.problem_with(place, key, message, Some(allowed), hint);
    }
    (mask, fields)
}

/// The choice of a sink, and the part of texts in it.
fn read_choice(reader: &mut Reader, table: &Table, none_is_slow: bool) -> (SinkQueries, EventText) {
    let queries =
        reader.choice(table, &keys::SINK_QUERIES, SinkQueries::ALL, SinkQueries::word).unwrap_or(SinkQueries::All);
    if queries == SinkQueries::Slow && none_is_slow {
        let message = "without `events.slow_ms` no query is slow, and only errors are written";
        reader.warn(table.place(&keys::SINK_QUERIES), table.key(&keys::SINK_QUERIES), message);
    }
    let text = reader.choice(table, &keys::TEXT, EventText::ALL, EventText::word).unwrap_or(EventText::Form);
    if text == EventText::Text {
        let message = "this sink of events holds whatever clients send, passwords within statements included";
        reader.warn(table.place(&keys::TEXT), table.key(&keys::TEXT), message);
    }
    (queries, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    pub(super) fn parsed(extra: &str) -> Result<crate::Loaded, crate::Errors> {
        let text = format!(
            "[cluster.main]\nkind = \"standalone\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.a = {{ address = \"h:1\" }}\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n{extra}"
        );
        crate::parse("x.toml", &text, &MemorySource::default())
    }

    #[test]
    fn without_a_table_only_logins_are_events_and_there_is_no_file() {
        let events = parsed("").unwrap().config.events;
        let expected = Events {
            queries: EventQueries::Off,
            slow: Duration::ZERO,
            sample: 1,
            node: None,
            when_full: EventsWhenFull::Drop,
            wait_max: Duration::from_secs(10),
            hmac_key: None,
            tags: events.tags.clone(),
            trace_sample: 0,
            trace_keep: TraceKeep::Off,
            spool: None,
            sinks: BTreeMap::new(),
        };
        assert_eq!(events, expected);
    }

    #[test]
    fn a_file_with_texts_is_warned_of() {
        let text = "[events]\nqueries = \"all\"\nslow_ms = 500\n[events.file]\npath = \"/e\"\ntext = \"text\"\n";
        let loaded = parsed(text).unwrap();
        assert_eq!(loaded.config.events.slow, Duration::from_millis(500));
        let sink = &loaded.config.events.sinks["file"];
        let EventTarget::File(file) = &sink.target else { panic!("{sink:?}") };
        assert_eq!((sink.text, file.rotate_size, file.keep, file.compress), (EventText::Text, 256 << 20, 10, true));
        assert!(loaded.warnings.iter().any(|warning| warning.to_string().contains("whatever clients send")));
    }

    #[test]
    fn a_file_needs_a_path() {
        let errors = parsed("[events.file]\nkeep = 3\n").unwrap_err().to_string();
        assert!(errors.contains("it has no effect without `path`"), "{errors}");
        let errors = parsed("[events]\nqueries = \"some\"\n").unwrap_err().to_string();
        assert!(errors.contains("events.queries"), "{errors}");
    }

    #[test]
    fn sinks_have_names_and_choices() {
        let text = "[events.file]\npath = \"/a\"\n[events.files.slow]\npath = \"/b\"\nqueries = \"slow\"\n\
            [events.stdout]\nenabled = true\n[events.syslog.siem]\naddress = \"unix:/dev/log\"\nfacility = \"auth\"\n";
        let loaded = parsed(text).unwrap();
        let sinks = loaded.config.events.sinks;
        let names: Vec<&str> = sinks.keys().map(|name| &**name).collect();
        assert_eq!(names, ["file", "files.slow", "stdout", "syslog.siem"]);
        assert_eq!(sinks["files.slow"].queries, SinkQueries::Slow);
        assert!(loaded.warnings.iter().any(|warning| warning.to_string().contains("no query is slow")));
        let EventTarget::Syslog(syslog) = &sinks["syslog.siem"].target else { panic!() };
        assert_eq!((syslog.facility.number(), syslog.protocol), (4, SyslogProtocol::Tcp));
        for (text, error) in [
            ("[events.file]\npath = \"/a\"\n[events.files.b]\npath = \"/a\"\n", "another sink writes this file"),
            ("[events.files.\"a b\"]\npath = \"/a\"\n", "the name of a sink has 1 to 64"),
            ("[events.syslog.x]\nprotocol = \"udp\"\n", "this key is missing"),
        ] {
            let said = parsed(text).unwrap_err().to_string();
            assert!(said.contains(error), "{said}");
        }
    }

    #[test]
    fn hashes_need_a_good_key_and_masks_good_expressions() {
        let with = |key: &str, more: &str| {
            parsed(&format!("[events]\n{key}\n[events.file]\npath = \"/a\"\n{more}"))
                .map_err(|errors| errors.to_string())
        };
        let loaded = with("hmac_key = \"sixteen or more.\"", "text = \"hmac\"\nmask = ['[0-9]+']\n").unwrap();
        assert!(!format!("{:?}", loaded.config).contains("sixteen"));
        let sink = &loaded.config.events.sinks["file"];
        assert_eq!((sink.text, &*sink.mask[0], loaded.config.events.has_texts()), (EventText::Hmac, "[0-9]+", true));
        for (key, more, error) in [
            ("", "text = \"hmac\"\n", "needs a key"),
            ("hmac_key = \"hush-hush\"", "", "at least 16 bytes"),
            ("hmac_key = \"sixteen or more.\"\nhmac_key_env = \"X\"", "", "exclude each other"),
            ("", "mask = [\"a(b\"]\n", "no regular expression that can be used"),
            ("", "mask = [\"\"]\n", "an empty text means nothing"),
            ("", "mask_fields = [\"clients\"]\n", "did you mean \"client\"?"),
        ] {
            let said = with(key, more).unwrap_err();
            assert!(said.contains(error) && !said.contains("hush-hush"), "{said}");
        }
    }

    #[test]
    fn kafka_has_a_login_only_with_all_its_parts() {
        let with = |more: &str| {
            parsed(&format!("[events.kafka.audit]\nbrokers = [\"h:9092\"]\ntopic = \"a.b\"\n{more}"))
                .map_err(|errors| errors.to_string())
        };
        let EventTarget::Kafka(kafka) = &with("").unwrap().config.events.sinks["kafka.audit"].target else { panic!() };
        assert_eq!((&*kafka.topic, &kafka.login, &kafka.tls), ("a.b", &None, &None));
        let login = "sasl = \"plain\"\nuser = \"u\"\npassword = \"open sesame\"\n";
        let loaded = with(login).unwrap();
        assert!(loaded.warnings.iter().any(|warning| warning.to_string().contains("readable on its way")));
        assert!(!format!("{:?}", loaded.config).contains("open sesame"));
        for (more, error) in [
            ("sasl = \"plain\"\n", "a login needs `user` and a password"),
            ("user = \"u\"\npassword = \"p\"\n", "no effect without `sasl`"),
            ("ca_file = \"/x\"\n", "no effect without `tls = true`"),
            ("tls = true\ncert_file = \"/x\"\n", "belong together"),
        ] {
            let said = with(more).unwrap_err();
            assert!(said.contains(error), "{said}");
        }
        let said = parsed("[events.kafka.x]\nbrokers = []\ntopic = \"a b\"\n").unwrap_err().to_string();
        assert!(said.contains("a broker is needed") && said.contains("the name of a topic"), "{said}");
    }
}
