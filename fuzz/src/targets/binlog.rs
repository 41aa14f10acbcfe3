//! Events of binary logs: any bytes are an event or an error, and a text that an event has stands at its end.

use wire::binlog::{Event, EventKind};

/// See the module.
pub fn run(data: &[u8]) {
    for mariadb in [false, true] {
        let Ok(event) = Event::parse(mariadb, data) else { continue };
        if let EventKind::Query { text, .. } | EventKind::Annotate(text) = event.kind {
            assert!(data.ends_with(text));
        }
    }
}
