//! Reading the primary's tables, views, triggers, foreign keys and primary keys, by which Sqluice knows what a statement touches.

mod columns;
mod keys;

use facts::tables::{Cascade, ComputedColumns, QualifiedName, TableCatalog, TableKind, TableRow, TableRows};
use net::query::{Client, QueryError, ResultSet};
use sql::{Encoding, Family, Modes};

use super::dialect::Dialect;

/// Where there are more tables, or more of anything else, nothing is known of them.
const ROWS_MAX: usize = 100_000;

const OWN_SCHEMAS: &str = "('information_schema', 'performance_schema', 'mysql', 'sys')";

/// A catalogue, and what keeps it from being complete, if anything does.
pub(crate) struct Loaded {
    pub(crate) catalog: TableCatalog,
    pub(crate) incomplete: String,
}

/// Reads everything.
///
/// # Errors
/// The connection broke, or the server refuses what every user may ask.
pub(crate) async fn load(client: &mut Client, dialect: Dialect) -> Result<Loaded, QueryError> {
    // MariaDB shows the queries of views as the session's sql_mode would have them written.
    client.query_one("SET SESSION sql_mode = ''").await?;
    let case = client.query_one("SELECT @@lower_case_table_names AS NUMBER").await?;
    let rights = rights(&client.query_one("SHOW GRANTS").await?);
    let limit = ROWS_MAX + 1;
    let tables = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {limit}"
    );
    let views = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS \
         WHERE TABLE_SCHEMA NOT IN {OWN_SCHEMAS} LIMIT {limit}"
    );
    let triggers = format!(
        "SELECT DISTINCT EVENT_OBJECT_SCHEMA AS TABLE_SCHEMA, EVENT_OBJECT_TABLE AS TABLE_NAME \
         FROM information_schema.TRIGGERS LIMIT {limit}"
    );
    let cascades = format!(
        "SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONSTRAINT_SCHEMA AS TABLE_SCHEMA, TABLE_NAME \
         FROM information_schema.REFERENTIAL_CONSTRAINTS \
         WHERE DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') LIMIT {limit}"
    );
    let mut answers = Vec::new();
    for statement in [tables, views, triggers, cascades] {
        answers.push(client.query_one(statement).await?);
    }
    let [tables, views, triggers, cascades] = &answers[..] else { return Ok(nothing(String::new())) };
    if answers.iter().any(|answer| answer.rows.len() > ROWS_MAX) {
        return Ok(nothing(format!("there are more than {ROWS_MAX} tables, or triggers, or foreign keys")));
    }
    let columns = columns::read(client, dialect.mariadb).await?;
    let computed = dialect
        .mariadb
        .then(|| columns.as_ref().map_or_else(ComputedColumns::default, |all| columns::computed(&all.columns)));
    let knows_columns = columns.is_some();
    let unseen = computed.as_ref().filter(|_| knows_columns).map_or(0, |computed| columns::unseen(tables, computed));
    let rows = TableRows {
        folds_case: case.text(0, "NUMBER").is_none_or(|number| number != "0"),
        dialect: sql_dialect(dialect),
        tables: read_tables(tables, views),
        with_triggers: rights.triggers.then(|| names(triggers, "TABLE_SCHEMA", "TABLE_NAME")),
        cascades: read_cascades(cascades),
        keys: columns.map(|all| keys::keys(tables, &all.indexes, &all.columns)).unwrap_or_default(),
        computed,
    };
    let incomplete = incomplete(&rights, unseen, knows_columns);
    Ok(Loaded { catalog: TableCatalog::new(&rows), incomplete })
}

/// The missing knowledge, in words; `unseen` tables may have columns that the monitor user cannot see.
fn incomplete(rights: &Rights, unseen: usize, knows_columns: bool) -> String {
    let mut lacks = Vec::new();
    if !rights.triggers {
        lacks.push("TRIGGER (so that each write counts for all tables)".to_owned());
    }
    if !rights.views {
        lacks.push("SHOW VIEW (so that a view may be any table)".to_owned());
    }
    if unseen > 0 {
        lacks.push(format!(
            "REFERENCES or SELECT (so that {unseen} tables may have columns that differ by time or session, and answers from them are not kept)"
        ));
    }
    let mut incomplete = Vec::new();
    if !lacks.is_empty() {
        incomplete.push(format!("the monitor user lacks, ON *.*, {}", lacks.join(" and ")));
    }
    if !knows_columns {
        incomplete.push(format!(
            "the server does not tell columns, or there are more than {} of those that count (so that answers end by table, and with \
             MariaDB none are kept)",
            columns::COLUMNS_MAX
        ));
    }
    incomplete.join("; ")
}

fn nothing(incomplete: String) -> Loaded {
    Loaded { catalog: TableCatalog::default(), incomplete }
}

fn sql_dialect(dialect: Dialect) -> sql::Dialect {
    let family = if dialect.mariadb { Family::MariaDb } else { Family::MySql };
    sql::Dialect { family, version: dialect.number, modes: Modes::empty(), encoding: Encoding::Utf8 }
}

/// The privileges of the monitor user.
#[derive(Debug, PartialEq, Eq)]
struct Rights {
    triggers: bool,
    views: bool,
}

/// Rights on everything; what is granted by schema does not tell what is hidden, nor does a right of which parts are revoked.
fn rights(grants: &ResultSet) -> Rights {
    let grants: Vec<String> = grants
        .rows
        .iter()
        .filter_map(|row| Some(String::from_utf8_lossy(row.first()?.as_deref()?).to_uppercase()))
        .collect();
    let revoked = grants.iter().any(|grant| grant.starts_with("REVOKE"));
    let has = |right: &str| {
        let listed = |grant: &String| {
            let list = grant.strip_prefix("GRANT ").and_then(|grant| grant.split_once(" ON *.* "));
            list.is_some_and(|(list, _)| {
                list.split(',').any(|granted| [right, "ALL PRIVILEGES"].contains(&granted.trim()))
            })
        };
        !revoked && grants.iter().any(listed)
    };
    Rights { triggers: has("TRIGGER"), views: has("SHOW VIEW") }
}

fn name(answer: &ResultSet, row: usize, schema: &str, name: &str) -> Option<QualifiedName> {
    let text = |column: &str| answer.text(row, column).map(std::borrow::Cow::into_owned);
    Some(QualifiedName { schema: text(schema)?, name: text(name)? })
}

fn names(answer: &ResultSet, schema: &str, table: &str) -> Vec<QualifiedName> {
    (0..answer.rows.len()).filter_map(|row| name(answer, row, schema, table)).collect()
}

fn read_tables(tables: &ResultSet, views: &ResultSet) -> Vec<TableRow> {
    let views: std::collections::HashMap<QualifiedName, String> = (0..views.rows.len())
        .filter_map(|row| {
            let definition = views.text(row, "VIEW_DEFINITION").filter(|text| !text.is_empty())?;
            Some((name(views, row, "TABLE_SCHEMA", "TABLE_NAME")?, definition.into_owned()))
        })
        .collect();
    (0..tables.rows.len())
        .filter_map(|row| {
            let name = name(tables, row, "TABLE_SCHEMA", "TABLE_NAME")?;
            let engine = || tables.text(row, "ENGINE").unwrap_or_default().into_owned();
            let kind = match &*tables.text(row, "TABLE_TYPE")? {
                "BASE TABLE" | "SYSTEM VERSIONED" => TableKind::Table { engine: engine() },
                "VIEW" => TableKind::View { definition: views.get(&name).cloned() },
                _ => TableKind::Other,
            };
            Some(TableRow { name, kind })
        })
        .collect()
}

fn read_cascades(answer: &ResultSet) -> Vec<Cascade> {
    let parents = names(answer, "UNIQUE_CONSTRAINT_SCHEMA", "REFERENCED_TABLE_NAME");
    let children = names(answer, "TABLE_SCHEMA", "TABLE_NAME");
    parents.into_iter().zip(children).map(|(parent, child)| Cascade { parent, child }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    fn of(grants: &str) -> (bool, bool) {
        let Rights { triggers, views } = rights(&table(&format!("Grants\n{grants}")));
        (triggers, views)
    }

    #[test]
    fn only_rights_on_everything_count() {
        assert_eq!(of("GRANT SELECT, TRIGGER, SHOW VIEW ON *.* TO `m`@`%`"), (true, true));
        assert_eq!(of("GRANT ALL PRIVILEGES ON *.* TO `m`@`%` WITH GRANT OPTION"), (true, true));
        assert_eq!(of("GRANT TRIGGER ON `app`.* TO `m`@`%`\nGRANT SHOW VIEW ON *.* TO `m`@`%`"), (false, true));
        assert_eq!(of("GRANT CREATE VIEW ON *.* TO `m`@`%`"), (false, false));
        assert_eq!(of("GRANT TRIGGER ON *.* TO `m`@`%`\nREVOKE TRIGGER ON `app`.* FROM `m`@`%`"), (false, false));
    }

    #[test]
    fn what_may_not_be_seen_of_a_view_is_unknown() {
        let tables = table(
            "TABLE_SCHEMA|TABLE_NAME|TABLE_TYPE|ENGINE
             app|t|BASE TABLE|InnoDB
             app|v|VIEW|NULL
             app|w|VIEW|NULL
             app|s|SEQUENCE|InnoDB",
        );
        let views = table("TABLE_SCHEMA|TABLE_NAME|VIEW_DEFINITION\napp|v|select 1\napp|w|");
        let kinds: Vec<TableKind> = read_tables(&tables, &views).into_iter().map(|row| row.kind).collect();
        let view = |definition: Option<&str>| TableKind::View { definition: definition.map(str::to_owned) };
        let table = TableKind::Table { engine: "InnoDB".into() };
        assert_eq!(kinds, [table, view(Some("select 1")), view(None), TableKind::Other]);
    }
}
