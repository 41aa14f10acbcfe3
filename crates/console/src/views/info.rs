//! `information_schema`: what tools ask for to list tables, columns and variables. `SHOW` reads it, too.

use super::{INFORMATION, Rows, SCHEMAS, Schema, View, all};
use crate::cells::{Row, Value, row};
use crate::columns::{ColumnKind, int, text};
use crate::variables;

pub(super) const VIEWS: &[View] = &[
    View {
        name: "SCHEMATA",
        schema: Schema::Information,
        about: "The schemas of the console.",
        columns: &[
            text("CATALOG_NAME"),
            text("SCHEMA_NAME"),
            text("DEFAULT_CHARACTER_SET_NAME"),
            text("DEFAULT_COLLATION_NAME"),
            text("SQL_PATH"),
        ],
        needs: &[],
        rows: Rows::Of(|_| {
            SCHEMAS.iter().map(|name| row!["def", *name, "utf8mb4", "utf8mb4_bin", Value::Null]).collect()
        }),
    },
    View {
        name: "TABLES",
        schema: Schema::Information,
        about: "The views of the console.",
        columns: &[
            text("TABLE_CATALOG"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("TABLE_TYPE"),
            text("ENGINE"),
            int("VERSION"),
            text("ROW_FORMAT"),
            int("TABLE_ROWS"),
            int("DATA_LENGTH"),
            text("CREATE_TIME"),
            text("TABLE_COLLATION"),
            text("TABLE_COMMENT"),
        ],
        needs: &[],
        rows: Rows::Of(|_| tables()),
    },
    View {
        name: "COLUMNS",
        schema: Schema::Information,
        about: "The columns of the views.",
        columns: &[
            text("TABLE_CATALOG"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("COLUMN_NAME"),
            int("ORDINAL_POSITION"),
            text("COLUMN_DEFAULT"),
            text("IS_NULLABLE"),
            text("DATA_TYPE"),
            int("CHARACTER_MAXIMUM_LENGTH"),
            int("CHARACTER_OCTET_LENGTH"),
            int("NUMERIC_PRECISION"),
            int("NUMERIC_SCALE"),
            int("DATETIME_PRECISION"),
            text("CHARACTER_SET_NAME"),
            text("COLLATION_NAME"),
            text("COLUMN_TYPE"),
            text("COLUMN_KEY"),
            text("EXTRA"),
            text("PRIVILEGES"),
            text("COLUMN_COMMENT"),
            text("GENERATION_EXPRESSION"),
        ],
        needs: &[],
        rows: Rows::Of(|_| columns()),
    },
    View {
        name: "SESSION_VARIABLES",
        schema: Schema::Information,
        about: "The system variables that clients ask for.",
        columns: &[text("VARIABLE_NAME"), text("VARIABLE_VALUE")],
        needs: &[],
        rows: Rows::Of(|_| variables::ALL.iter().map(|(name, value)| row![*name, *value]).collect()),
    },
    View {
        name: "GLOBAL_VARIABLES",
        schema: Schema::Information,
        about: "The same.",
        columns: &[text("VARIABLE_NAME"), text("VARIABLE_VALUE")],
        needs: &[],
        rows: Rows::Of(|_| variables::ALL.iter().map(|(name, value)| row![*name, *value]).collect()),
    },
    View {
        name: "COLLATIONS",
        schema: Schema::Information,
        about: "The one collation.",
        columns: &[
            text("COLLATION_NAME"),
            text("CHARACTER_SET_NAME"),
            int("ID"),
            text("IS_DEFAULT"),
            text("IS_COMPILED"),
            int("SORTLEN"),
        ],
        needs: &[],
        rows: Rows::Of(|_| vec![row!["utf8mb4_bin", "utf8mb4", 46_u16, "Yes", "Yes", 1_u16]]),
    },
    View {
        name: "ENGINES",
        schema: Schema::Information,
        about: "The one engine.",
        columns: &[text("ENGINE"), text("SUPPORT"), text("COMMENT"), text("TRANSACTIONS")],
        needs: &[],
        rows: Rows::Of(|_| vec![row!["SQLITE", "DEFAULT", "Snapshots in memory, read-only", "NO"]]),
    },
    empty(
        "STATISTICS",
        "Indexes: there are none.",
        &[
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            int("NON_UNIQUE"),
            text("INDEX_NAME"),
            int("SEQ_IN_INDEX"),
            text("COLUMN_NAME"),
            text("COLLATION"),
            int("CARDINALITY"),
        ],
    ),
    empty(
        "KEY_COLUMN_USAGE",
        "Keys: there are none.",
        &[
            text("CONSTRAINT_NAME"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("COLUMN_NAME"),
            int("ORDINAL_POSITION"),
            int("POSITION_IN_UNIQUE_CONSTRAINT"),
            text("REFERENCED_TABLE_SCHEMA"),
            text("REFERENCED_TABLE_NAME"),
            text("REFERENCED_COLUMN_NAME"),
        ],
    ),
    empty(
        "TABLE_CONSTRAINTS",
        "Constraints: there are none.",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("CONSTRAINT_NAME"),
            text("TABLE_SCHEMA"),
            text("TABLE_NAME"),
            text("CONSTRAINT_TYPE"),
        ],
    ),
    empty(
        "REFERENTIAL_CONSTRAINTS",
        "Foreign keys: there are none.",
        &[
            text("CONSTRAINT_SCHEMA"),
            text("CONSTRAINT_NAME"),
            text("UNIQUE_CONSTRAINT_SCHEMA"),
            text("UNIQUE_CONSTRAINT_NAME"),
            text("UPDATE_RULE"),
            text("DELETE_RULE"),
            text("TABLE_NAME"),
            text("REFERENCED_TABLE_NAME"),
        ],
    ),
    empty(
        "ROUTINES",
        "Routines: there are none.",
        &[
            text("SPECIFIC_NAME"),
            text("ROUTINE_SCHEMA"),
            text("ROUTINE_NAME"),
            text("ROUTINE_TYPE"),
            text("ROUTINE_COMMENT"),
        ],
    ),
    empty("TRIGGERS", "Triggers: there are none.", &[text("TRIGGER_SCHEMA"), text("TRIGGER_NAME")]),
    empty("VIEWS", "Views of MySQL's kind: there are none.", &[text("TABLE_SCHEMA"), text("TABLE_NAME")]),
    empty("EVENTS", "Events of MySQL's kind: there are none.", &[text("EVENT_SCHEMA"), text("EVENT_NAME")]),
];

const fn empty(name: &'static str, about: &'static str, columns: &'static [crate::columns::Column]) -> View {
    View { name, schema: Schema::Information, about, columns, needs: &[], rows: Rows::Of(|_| Vec::new()) }
}

/// Each view with each schema that has it.
fn listed() -> impl Iterator<Item = (&'static str, &'static View)> {
    SCHEMAS.into_iter().flat_map(|schema| all().filter(move |view| view.is_in(schema)).map(move |view| (schema, view)))
}

fn tables() -> Vec<Row> {
    let of = |(schema, view): (&'static str, &'static View)| {
        let kind = if schema == INFORMATION { "SYSTEM VIEW" } else { "BASE TABLE" };
        row![
            "def",
            schema,
            view.name,
            kind,
            "SQLITE",
            10_u16,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            "utf8mb4_bin",
            view.about,
        ]
    };
    listed().map(of).collect()
}

fn columns() -> Vec<Row> {
    let mut rows = Vec::new();
    for (schema, view) in listed() {
        for (index, column) in view.columns.iter().enumerate() {
            let is_text = column.kind == ColumnKind::Text;
            let data_type = column.kind.word().to_ascii_lowercase();
            let column_type = if is_text { "varchar(65535)".to_owned() } else { data_type.clone() };
            rows.push(row![
                "def",
                schema,
                view.name,
                column.name,
                index + 1,
                Value::Null,
                "YES",
                data_type,
                is_text.then_some(65_535_u32),
                is_text.then_some(4 * 65_535_u32),
                (!is_text).then_some(19_u16),
                (column.kind == ColumnKind::Integer).then_some(0_u16),
                Value::Null,
                is_text.then_some("utf8mb4"),
                is_text.then_some("utf8mb4_bin"),
                column_type,
                "",
                "",
                "select",
                "",
                "",
            ]);
        }
    }
    rows
}
