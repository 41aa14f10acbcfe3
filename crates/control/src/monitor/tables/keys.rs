//! Primary keys by which rows can be identified.

use std::collections::{HashMap, HashSet};

use facts::tables::{KeyColumn, KeyKind, KeyRow, PrimaryKey, QualifiedName};
use net::query::ResultSet;

use super::name;

/// Collations that compare bytes, of character sets in which ASCII is ASCII.
const OF_BYTES: [&str; 11] = [
    "ascii_bin",
    "ascii_nopad_bin",
    "latin1_bin",
    "latin1_nopad_bin",
    "utf8_bin",
    "utf8_nopad_bin",
    "utf8mb3_bin",
    "utf8mb3_nopad_bin",
    "utf8mb4_bin",
    "utf8mb4_nopad_bin",
    "utf8mb4_0900_bin",
];

/// The known parts of one table.
#[derive(Default)]
struct KeyParts {
    /// Columns of its primary key by their places, from 1.
    columns: Vec<(usize, KeyColumn)>,
    /// One of them is of another kind, or only its beginning counts.
    is_unsure: bool,
    has_others: bool,
}

/// The keys of these tables, by their unique indexes and at least the columns of these.
pub(super) fn keys(tables: &ResultSet, indexes: &ResultSet, columns: &ResultSet) -> Vec<KeyRow> {
    let kinds: HashMap<(QualifiedName, String), (KeyKind, bool)> = (0..columns.rows.len())
        .filter_map(|row| {
            let table = name(columns, row, "TABLE_SCHEMA", "TABLE_NAME")?;
            let extra = columns.text(row, "EXTRA").unwrap_or_default().to_ascii_lowercase();
            let found = (kind(columns, row)?, extra.contains("auto_increment"));
            Some(((table, columns.text(row, "COLUMN_NAME")?.into_owned()), found))
        })
        .collect();
    let mut known: HashMap<QualifiedName, KeyParts> = HashMap::new();
    for row in 0..indexes.rows.len() {
        let Some(table) = name(indexes, row, "TABLE_SCHEMA", "TABLE_NAME") else { continue };
        let entry = known.entry(table.clone()).or_default();
        if indexes.text(row, "INDEX_NAME").as_deref() != Some("PRIMARY") {
            entry.has_others = true;
            continue;
        }
        let place = indexes.text(row, "SEQ_IN_INDEX").and_then(|place| place.parse().ok());
        let column = indexes.text(row, "COLUMN_NAME").map(std::borrow::Cow::into_owned);
        let whole = indexes.text(row, "SUB_PART").is_none();
        match (place, column) {
            (Some(place), Some(column)) if whole && column.is_ascii() => match kinds.get(&(table, column.clone())) {
                Some((kind, counts_up)) => {
                    let column = KeyColumn { name: column.into(), kind: *kind, counts_up: *counts_up };
                    entry.columns.push((place, column));
                }
                None => entry.is_unsure = true,
            },
            _ => entry.is_unsure = true,
        }
    }
    // Of a table with versions the key does not tell which of them.
    let plain: HashSet<QualifiedName> = (0..tables.rows.len())
        .filter(|row| tables.text(*row, "TABLE_TYPE").as_deref() == Some("BASE TABLE"))
        .filter_map(|row| name(tables, row, "TABLE_SCHEMA", "TABLE_NAME"))
        .collect();
    known
        .into_iter()
        .filter(|(table, known)| !known.is_unsure && !known.columns.is_empty() && plain.contains(table))
        .map(|(table, mut known)| {
            known.columns.sort_by_key(|(place, _)| *place);
            let columns = known.columns.into_iter().map(|(_, column)| column).collect();
            KeyRow { table, key: PrimaryKey { columns, is_only_unique: !known.has_others } }
        })
        .collect()
}

/// How a column's values are distinguished; `None` where that is not certain.
fn kind(columns: &ResultSet, row: usize) -> Option<KeyKind> {
    if columns.text(row, "GENERATION_EXPRESSION").is_some_and(|expression| !expression.is_empty()) {
        return None;
    }
    let bits = match &*columns.text(row, "DATA_TYPE")?.to_ascii_lowercase() {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" => 32,
        "bigint" => 64,
        "char" | "varchar" => {
            let collation = columns.text(row, "COLLATION_NAME")?;
            return OF_BYTES.contains(&&*collation).then_some(KeyKind::Text);
        }
        _ => return None,
    };
    let unsigned = columns.text(row, "COLUMN_TYPE")?.to_ascii_lowercase().contains("unsigned");
    Some(KeyKind::Integer { max: (1_i128 << (if unsigned { bits } else { bits - 1 })) - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn keys_are_known_whole_or_not_at_all() {
        let tables = table(
            "TABLE_SCHEMA|TABLE_NAME|TABLE_TYPE
             app|t|BASE TABLE
             app|part|BASE TABLE
             app|ci|BASE TABLE
             app|made|BASE TABLE
             app|hidden|BASE TABLE
             app|versions|SYSTEM VERSIONED",
        );
        let indexes = table(
            "TABLE_SCHEMA|TABLE_NAME|INDEX_NAME|SEQ_IN_INDEX|COLUMN_NAME|SUB_PART
             app|t|PRIMARY|2|b|NULL
             app|t|PRIMARY|1|a|NULL
             app|t|u|1|c|NULL
             app|part|PRIMARY|1|a|10
             app|ci|PRIMARY|1|a|NULL
             app|made|PRIMARY|1|a|NULL
             app|hidden|PRIMARY|1|a|NULL
             app|hidden|PRIMARY|2|b|NULL
             app|versions|PRIMARY|1|a|NULL
             app|other|u|1|a|NULL",
        );
        let columns = table(
            "TABLE_SCHEMA|TABLE_NAME|COLUMN_NAME|DATA_TYPE|COLUMN_TYPE|COLLATION_NAME|GENERATION_EXPRESSION|EXTRA
             app|t|a|varchar|varchar(10)|utf8mb4_bin|NULL|
             app|t|b|int|int unsigned|NULL||auto_increment
             app|part|a|varchar|varchar(10)|utf8mb4_bin|NULL|
             app|ci|a|varchar|varchar(10)|utf8mb4_general_ci|NULL|
             app|made|a|int|int(11)|NULL|b + 1|
             app|hidden|a|int|int(11)|NULL|NULL|
             app|versions|a|int|int(11)|NULL|NULL|
             app|other|a|int|int(11)|NULL|NULL|",
        );
        let known = keys(&tables, &indexes, &columns);
        let [KeyRow { table, key }] = &known[..] else { panic!("{known:?}") };
        assert_eq!((&*table.name, key.is_only_unique), ("t", false));
        let of = |column: &KeyColumn| (column.name.to_string(), column.kind, column.counts_up);
        let integer = KeyKind::Integer { max: i128::from(u32::MAX) };
        let expected = [("a".into(), KeyKind::Text, false), ("b".into(), integer, true)];
        assert_eq!(key.columns.iter().map(of).collect::<Vec<_>>(), expected);
    }
}
