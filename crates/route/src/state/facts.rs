//! Facts that follow from a state for each statement.

use facts::catalog::Catalog;
use sql::{Dialect, Family};

use super::{StateMap, schema_hash};

/// Facts that follow from a state for each statement, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct StateFacts {
    /// Of the state: for another one these facts are no good.
    pub fingerprint: u64,
    /// How servers read the client's text.
    pub dialect: Dialect,
    /// Whether autocommit is on.
    pub autocommit: bool,
    /// Whether transactions are READ ONLY unless they say otherwise.
    pub reads_only: bool,
    /// Whether each statement of a transaction sees what is committed by then and no more, unless the transaction says otherwise.
    /// False if it is not known.
    pub reads_newest: bool,
    /// Whether statements may see what others have not committed, unless their transaction says otherwise.
    pub reads_uncommitted: bool,
    /// Whether `column IS NULL` may ask for the session's last AUTO_INCREMENT number.
    pub null_is_last_id: bool,
    /// [`StateMap::releases`], once somebody has asked.
    pub releases: Option<bool>,
    /// [`StateMap::is_traced`], once somebody has asked.
    pub is_traced: Option<bool>,
    /// Of the schema's name: tells digests of different schemas apart.
    pub schema_hash: u64,
    /// Whether names without a schema may be those of tables that list connections.
    pub in_schema_of_ids: bool,
    /// Whether the tables of the schema tell of one server.
    pub in_system_schema: bool,
}

impl StateMap {
    /// Whether autocommit is on.
    pub fn autocommit(&self, catalog: &Catalog) -> bool {
        !self.variable_or_global("autocommit", catalog).is_some_and(is_off)
    }

    /// Whether transactions of this session are READ ONLY unless they say otherwise.
    pub fn reads_only(&self, catalog: &Catalog) -> bool {
        let value = self.variable_or_global("tx_read_only", catalog);
        let value = value.or_else(|| catalog.globals.get("transaction_read_only").map(String::as_str));
        value.is_some_and(|value| !is_off(value))
    }

    fn isolation<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a str> {
        let global = |name: &str| catalog.globals.get(name).map(String::as_str);
        self.variable("tx_isolation").or_else(|| global("transaction_isolation")).or_else(|| global("tx_isolation"))
    }

    fn null_is_last_id(&self, catalog: &Catalog) -> bool {
        self.variable_or_global("sql_auto_is_null", catalog).is_some_and(|value| !is_off(value))
    }

    /// Whether what this session writes goes to the binary log, if the server has one.
    pub fn logs_writes(&self) -> bool {
        !self.variable("sql_log_bin").is_some_and(is_off)
    }

    /// Whether the server closes the connection behind each COMMIT and ROLLBACK that does not say NO RELEASE.
    pub fn releases(&self, catalog: &Catalog) -> bool {
        let completion = self.variable_or_global("completion_type", catalog);
        completion.is_some_and(|completion| completion == "2" || completion.eq_ignore_ascii_case("RELEASE"))
    }

    /// Whether the server keeps, for this connection, how its statements went: `profiling` or `optimizer_trace` is on.
    pub fn is_traced(&self) -> bool {
        self.variable("profiling").is_some_and(|value| !is_off(value))
            || self.variable("optimizer_trace").is_some_and(|value| value.contains("enabled=on"))
    }

    /// How a server of this family and version would read text in this state.
    pub fn dialect(&self, catalog: &Catalog, family: Family, version: u32) -> Dialect {
        let value = |name: &str| self.variable_or_global(name, catalog).unwrap_or_default();
        let modes = sql::modes_from_sql_mode(value("sql_mode"));
        let encoding = sql::encoding_of_charset(value("character_set_client"));
        Dialect { family, version, modes, encoding }
    }

    /// The facts of this state that statements need.
    pub fn facts(&self, catalog: &Catalog, family: Family, version: u32) -> StateFacts {
        let isolation = self.isolation(catalog);
        let isolates = |level: &str| isolation.is_some_and(|own| own.eq_ignore_ascii_case(level));
        StateFacts {
            fingerprint: self.fingerprint,
            dialect: self.dialect(catalog, family, version),
            autocommit: self.autocommit(catalog),
            reads_only: self.reads_only(catalog),
            reads_newest: isolates("READ-COMMITTED"),
            reads_uncommitted: isolates("READ-UNCOMMITTED"),
            null_is_last_id: self.null_is_last_id(catalog),
            releases: None,
            is_traced: None,
            schema_hash: schema_hash(self.schema.as_deref()),
            in_schema_of_ids: self.schema.as_deref().is_some_and(sql::connections::is_schema_of_ids),
            in_system_schema: self.schema.as_deref().is_some_and(is_system_schema),
        }
    }
}

/// Whether a schema is one whose tables tell of one server.
fn is_system_schema(schema: &str) -> bool {
    const SCHEMAS: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];
    SCHEMAS.iter().any(|name| name.eq_ignore_ascii_case(schema))
}

fn is_off(value: &str) -> bool {
    matches!(value, "0" | "OFF" | "off" | "FALSE" | "false")
}
