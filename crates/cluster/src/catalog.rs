//! What the servers know that the data plane must know too: collations and stored functions.

use std::collections::HashMap;
use std::sync::Arc;

/// What a stored function declares of its data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineAccess {
    /// NO SQL, CONTAINS SQL, READS SQL DATA.
    Reads,
    /// MODIFIES SQL DATA.
    Writes,
}

/// A character set and collation, as the numeric id of the handshake names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    /// Character set, for example `utf8mb4`.
    pub charset: Arc<str>,
    /// Collation, for example `utf8mb4_general_ci`.
    pub name: Arc<str>,
    /// It is the character set's default.
    pub is_default: bool,
}

/// A snapshot of the servers' dictionaries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Grows with each change, so that remembered classifications can be dropped.
    pub number: u64,
    /// By handshake id.
    pub collations: HashMap<u16, Collation>,
    /// Stored functions by (schema, name), both in lower case.
    pub functions: HashMap<(String, String), RoutineAccess>,
    /// Whether `functions` could be read completely; if not, every unknown function means the primary.
    pub functions_complete: bool,
    /// Global values of system variables that a fresh connection starts with, names in lower case
    /// (`sql_mode`, `character_set_server`, `autocommit`, `init_connect`, `transaction_isolation`, `time_zone`, …).
    pub globals: HashMap<String, String>,
}

impl Catalog {
    /// The data access of a stored function; an unqualified name is looked up in every schema and must agree.
    pub fn function(&self, schema: Option<&str>, name: &str) -> Option<RoutineAccess> {
        let name = name.to_lowercase();
        if let Some(schema) = schema {
            return self.functions.get(&(schema.to_lowercase(), name)).copied();
        }
        let mut found = None;
        for ((_, candidate), access) in &self.functions {
            if *candidate == name {
                match (found, access) {
                    (_, RoutineAccess::Writes) => return Some(RoutineAccess::Writes),
                    _ => found = Some(RoutineAccess::Reads),
                }
            }
        }
        found
    }
}
