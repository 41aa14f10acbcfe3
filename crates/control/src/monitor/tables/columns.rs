//! Columns and indexes, as far as it counts for what is read of a table.

use facts::tables::{ComputedColumns, QualifiedName};
use net::query::{Client, QueryError, ResultSet};

use super::{OWN_SCHEMAS, ROWS_MAX, name};

/// Where there are more, nothing is known of any.
pub(super) const COLUMNS_MAX: usize = 4 * ROWS_MAX;

/// Columns of keys, first ones and computed ones, and unique indexes.
pub(super) struct Columns {
    /// Of each table the primary key's; with MariaDB also the first one, and those that are computed.
    pub(super) columns: ResultSet,
    /// The columns of unique indexes.
    pub(super) indexes: ResultSet,
}

/// Reads both. `None` where the server does not tell them, or there are too many.
///
/// # Errors
/// The connection broke.
pub(super) async fn read(client: &mut Client, mariadb: bool) -> Result<Option<Columns>, QueryError> {
    // MySQL has no computed column that differs by time or session.
    let which = if mariadb {
        "COLUMN_KEY = 'PRI' OR ORDINAL_POSITION = 1 OR IS_GENERATED = 'ALWAYS'"
    } else {
        "COLUMN_KEY = 'PRI'"
    };
    let columns = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COLLATION_NAME, GENERATION_EXPRESSION, EXTRA \
         FROM information_schema.COLUMNS WHERE ({which}) AND TABLE_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {}",
        COLUMNS_MAX + 1
    );
    let indexes = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS \
         WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {}",
        COLUMNS_MAX + 1
    );
    let mut answers = Vec::new();
    for statement in [columns, indexes] {
        match client.query_one(statement).await {
            Ok(answer) if answer.rows.len() <= COLUMNS_MAX => answers.push(answer),
            Ok(_) => return Ok(None),
            Err(error) if error.code().is_some() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(<[ResultSet; 2]>::try_from(answers).ok().map(|[columns, indexes]| Columns { columns, indexes }))
}

/// The columns of a MariaDB server that are computed when they are read. A user who sees one column of a table is taken
/// to see all.
pub(super) fn computed(columns: &ResultSet) -> ComputedColumns {
    let mut computed = ComputedColumns::default();
    for row in 0..columns.rows.len() {
        let Some(table) = name(columns, row, "TABLE_SCHEMA", "TABLE_NAME") else { continue };
        let extra = columns.text(row, "EXTRA").unwrap_or_default().to_ascii_uppercase();
        let is_stored = extra.contains("STORED") || extra.contains("PERSISTENT");
        if let Some(expression) =
            columns.text(row, "GENERATION_EXPRESSION").filter(|text| !text.is_empty() && !is_stored)
        {
            computed.expressions.push((table.clone(), expression.into_owned()));
        }
        computed.seen.insert(table);
    }
    computed
}

/// The number of these tables without a user known to see a column.
pub(super) fn unseen(tables: &ResultSet, computed: &ComputedColumns) -> usize {
    let is_table = |row: &usize| !matches!(tables.text(*row, "TABLE_TYPE").as_deref(), Some("VIEW") | None);
    let names =
        (0..tables.rows.len()).filter(is_table).filter_map(|row| name(tables, row, "TABLE_SCHEMA", "TABLE_NAME"));
    names.filter(|table: &QualifiedName| !computed.seen.contains(table)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn columns_that_are_computed_when_they_are_read_are_known_where_columns_are_seen() {
        let columns = table(
            "TABLE_SCHEMA|TABLE_NAME|COLUMN_NAME|GENERATION_EXPRESSION|EXTRA
             app|t|id|NULL|
             app|t|who|current_user()|VIRTUAL GENERATED
             app|t|kept|`id` + 1|STORED GENERATED
             app|u|id|NULL|auto_increment",
        );
        let name = |name: &str| QualifiedName { schema: "app".into(), name: name.into() };
        let computed = computed(&columns);
        assert_eq!(computed.expressions, [(name("t"), "current_user()".to_owned())]);
        let tables = table(
            "TABLE_SCHEMA|TABLE_NAME|TABLE_TYPE
             app|t|BASE TABLE
             app|u|BASE TABLE
             app|v|VIEW
             app|hidden|BASE TABLE",
        );
        assert_eq!(unseen(&tables, &computed), 1, "{:?}", computed.seen);
    }
}
