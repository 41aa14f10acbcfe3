//! `[warm.NAME]`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{name_good, or_empty};
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::warm as keys;
use crate::{Warm, WarmStatement};

pub(super) fn read_all(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, Arc<Warm>> {
    let mut warms = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::WARM, name_good) {
        let cluster = or_empty(reader.text(&table, &keys::CLUSTER));
        if !cluster.is_empty() {
            places.clusters_used.push((cluster.clone(), table.place(&keys::CLUSTER), table.key(&keys::CLUSTER)));
        }
        let user = or_empty(reader.text(&table, &keys::USER));
        let schema = reader.text(&table, &keys::SCHEMA);
        let (file, statements) = match reader.file(&table, &keys::FILE) {
            Some((path, content)) => (path, statements(&content.bytes)),
            None => (PathBuf::new(), Vec::new()),
        };
        if statements.is_empty() && table.has(&keys::FILE) && file != PathBuf::new() {
            reader.problem(table.place(&keys::FILE), table.key(&keys::FILE), "the file has no statement");
        }
        let sessions = reader.number(&table, &keys::SESSIONS) as usize;
        warms.insert(name, Arc::new(Warm { cluster, user, schema, file, statements: statements.into(), sessions }));
    }
    warms
}

/// The statements of a file with the lines where they begin.
fn statements(text: &[u8]) -> Vec<WarmStatement> {
    let mut found = Vec::new();
    let mut open: Vec<u8> = Vec::new();
    let mut began = 0;
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1_u32..) {
        let trimmed = line.trim_ascii();
        if open.is_empty() {
            if trimmed.is_empty() || trimmed.starts_with(b"#") || trimmed == b"--" || trimmed.starts_with(b"-- ") {
                continue;
            }
            began = number;
        } else {
            open.push(b'\n');
        }
        let ended = line.trim_ascii_end().strip_suffix(b";");
        open.extend_from_slice(ended.unwrap_or(line.strip_suffix(b"\r").unwrap_or(line)));
        if ended.is_some() {
            push(&mut found, began, &mut open);
        }
    }
    push(&mut found, began, &mut open);
    found
}

fn push(found: &mut Vec<WarmStatement>, line: u32, open: &mut Vec<u8>) {
    let text = open.trim_ascii();
    if !text.is_empty() {
        found.push(WarmStatement { line, text: text.into() });
    }
    open.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_with_a_semicolon_at_the_end_of_a_line() {
        let text =
            b"-- pages\n\nSELECT 1 ;\r\n# more\nSELECT ';' AS a,\r\n  2\n;\n  SELECT 3; -- no end\nFROM t;\nSELECT 4\n";
        let found: Vec<_> =
            statements(text).iter().map(|one| (one.line, String::from_utf8_lossy(&one.text).into_owned())).collect();
        let expected =
            [(3, "SELECT 1"), (5, "SELECT ';' AS a,\n  2"), (8, "SELECT 3; -- no end\nFROM t"), (10, "SELECT 4")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
        assert!(statements(b"\n# nothing\n;\n").is_empty());
    }
}
