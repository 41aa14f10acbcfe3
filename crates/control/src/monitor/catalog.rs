//! Reading the servers' dictionaries: collations, stored functions, global variables.

mod functions;
mod hidden;
mod session_variables;
mod settings;

use std::collections::{BTreeMap, HashMap, HashSet};

use facts::catalog::{Catalog, Collation, Globals};
use net::query::{Client, QueryError, ResultSet};

use super::dialect::Dialect;
use super::link::is_denied;

/// Longer values of variables are of no use to a session and would only fill memory.
const VALUE_BYTES_MAX: usize = 4096;

/// A catalog whose number is still to be given, and why it is incomplete, if it is.
pub(crate) struct Loaded {
    pub(crate) catalog: Catalog,
    pub(crate) incomplete: Option<String>,
    /// It is the primary's.
    pub(crate) of_primary: bool,
    /// Variables that every session has a value of its own of.
    pub(crate) session_variables: Vec<String>,
}

/// Reads everything.
///
/// # Errors
/// The connection broke, or the server refuses what every user may ask.
pub(crate) async fn load(client: &mut Client, dialect: Dialect) -> Result<Loaded, QueryError> {
    let collations = read_collations(&client.query_one(collations_statement(dialect)).await?);
    let globals = load_globals(client).await?;
    let session_variables = session_variables::read(client, dialect).await?;
    let (mut routines, incomplete) = load_routines(client, dialect, &settings::names_of(&session_variables)).await?;
    let hidden = hidden::load(client, dialect, &mut routines, incomplete.is_none()).await?;
    let catalog = Catalog {
        number: 0,
        collations,
        own_words: own_words(&routines.functions),
        functions: routines.functions,
        function_leaves: routines.function_leaves,
        procedure_leaves: routines.procedure_leaves,
        routine_asks: routines.asks,
        packages: routines.packages,
        functions_complete: incomplete.is_none(),
        hidden,
        globals,
        of_primary: false,
        uneven: BTreeMap::default(),
        schemas: load_schemas(client).await?,
        recollated: BTreeMap::default(),
    };
    Ok(Loaded { catalog, incomplete, of_primary: false, session_variables })
}

/// The names of functions that are words of the servers' own.
fn own_words(functions: &functions::Functions) -> HashSet<String> {
    functions.keys().filter(|(_, name)| sql::is_server_word(name)).map(|(_, name)| name.clone()).collect()
}

/// Reads a server's global variables.
///
/// # Errors
/// The connection broke.
pub(crate) async fn load_globals(client: &mut Client) -> Result<Globals, QueryError> {
    Ok(read_globals(&client.query_one("SHOW GLOBAL VARIABLES").await?))
}

/// Reads the default collations of schemas.
async fn load_schemas(client: &mut Client) -> Result<HashMap<String, String>, QueryError> {
    let statement = "SELECT SCHEMA_NAME AS NAME, DEFAULT_COLLATION_NAME AS COLLATION FROM information_schema.SCHEMATA";
    let answer = client.query_one(statement).await?;
    let pair = |row| Some((answer.text(row, "NAME")?.into_owned(), answer.text(row, "COLLATION")?.into_owned()));
    Ok((0..answer.rows.len()).filter_map(pair).collect())
}

/// MariaDB 10.10 has collations that fit several character sets; which id they have with which stands in another table.
/// From 11.2 on that marks as defaults what `character_set_collations` makes such; asked for are the built-in ones.
fn collations_statement(dialect: Dialect) -> &'static str {
    if dialect.mariadb && dialect.number >= 110_201 {
        "SET STATEMENT character_set_collations = '' FOR \
         SELECT ID, CHARACTER_SET_NAME, FULL_COLLATION_NAME AS NAME, IS_DEFAULT \
         FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    } else if dialect.mariadb && dialect.number >= 101_001 {
        "SELECT ID, CHARACTER_SET_NAME, FULL_COLLATION_NAME AS NAME, IS_DEFAULT \
         FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    } else {
        "SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME AS NAME, IS_DEFAULT FROM information_schema.COLLATIONS"
    }
}

fn read_collations(answer: &ResultSet) -> HashMap<u16, Collation> {
    (0..answer.rows.len())
        .filter_map(|row| {
            let collation = Collation {
                charset: answer.text(row, "CHARACTER_SET_NAME")?.into(),
                name: answer.text(row, "NAME")?.into(),
                is_default: answer.text(row, "IS_DEFAULT").is_some_and(|text| text.eq_ignore_ascii_case("yes")),
            };
            Some((answer.text(row, "ID")?.parse().ok()?, collation))
        })
        .collect()
}

fn read_globals(answer: &ResultSet) -> Globals {
    (0..answer.rows.len())
        .filter_map(|row| {
            let name = answer.text(row, "Variable_name")?.to_lowercase();
            let value = answer.text(row, "Value").unwrap_or_default();
            // Positions change with every transaction, and would make every catalog a new one.
            let of_use = !name.contains("gtid") && value.len() <= VALUE_BYTES_MAX;
            of_use.then(|| (name, value.into_owned()))
        })
        .collect()
}

/// The routines and, if some may be missing, why. Both families kept them in `mysql.proc`; MySQL 8 has only the view,
/// which shows bodies, and functions at all, as far as rights reach.
async fn load_routines(
    client: &mut Client,
    dialect: Dialect,
    variables: &HashSet<String>,
) -> Result<(functions::Routines, Option<String>), QueryError> {
    let from_table = dialect.mariadb || dialect.number < 80_000;
    if from_table {
        // MariaDB's packages hold functions that the table does not list one by one; they stay unknown, and keep what the package
        // remembers for the session.
        let statement = "SELECT db AS SCHEMA_NAME, name AS NAME, type AS TYPE, sql_data_access AS ACCESS, \
                         body_utf8 AS BODY FROM mysql.proc WHERE type IN ('FUNCTION', 'PROCEDURE', 'PACKAGE BODY')";
        match client.query_one(statement).await {
            Ok(answer) => return Ok((functions::read(&answer, variables), None)),
            Err(error) if error.code().is_some_and(is_denied) => {
                let why = format!("the monitor user may not read mysql.proc: {error}");
                return Ok((visible_routines(client, variables).await?, Some(why)));
            }
            Err(error) => return Err(error),
        }
    }
    let routines = visible_routines(client, variables).await?;
    let grants = client.query_one("SHOW GRANTS").await?;
    let complete = grants.rows.iter().filter_map(|row| row.first()?.as_deref()).any(|grant| {
        let grant = String::from_utf8_lossy(grant).to_uppercase();
        grant.contains(" ON *.* ") && ["SHOW_ROUTINE", "ALL PRIVILEGES"].iter().any(|right| grant.contains(right))
            || grant.starts_with("GRANT SELECT") && grant.contains(" ON *.* ")
    });
    let why = (!complete).then(|| "the monitor user lacks SHOW_ROUTINE (GRANT SHOW_ROUTINE ON *.* TO …)".to_owned());
    Ok((routines, why))
}

async fn visible_routines(client: &mut Client, variables: &HashSet<String>) -> Result<functions::Routines, QueryError> {
    let statement = "SELECT ROUTINE_SCHEMA AS SCHEMA_NAME, ROUTINE_NAME AS NAME, ROUTINE_TYPE AS TYPE, \
                     SQL_DATA_ACCESS AS ACCESS, ROUTINE_DEFINITION AS BODY FROM information_schema.ROUTINES \
                     WHERE ROUTINE_TYPE IN ('FUNCTION', 'PROCEDURE', 'PACKAGE BODY')";
    Ok(functions::read(&client.query_one(statement).await?, variables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn collations_are_read_and_those_without_a_character_set_are_left_out() {
        let collations = read_collations(&table(
            "ID|CHARACTER_SET_NAME|NAME|IS_DEFAULT
             45|utf8mb4|utf8mb4_general_ci|Yes
             46|utf8mb4|utf8mb4_bin|
             NULL|NULL|uca1400_ai_ci|NULL
             2304|utf8mb4|utf8mb4_uca1400_ai_ci|",
        ));
        assert_eq!(collations.len(), 3);
        assert!(collations[&45].is_default && !collations[&46].is_default);
        assert_eq!(&*collations[&2304].name, "utf8mb4_uca1400_ai_ci");
    }

    #[test]
    fn variables_that_change_by_themselves_are_left_out() {
        let globals = read_globals(&table(
            "Variable_name|Value
             SQL_Mode|ANSI_QUOTES
             gtid_current_pos|0-1-7
             init_connect|",
        ));
        assert_eq!(globals["sql_mode"], "ANSI_QUOTES");
        assert_eq!(globals["init_connect"], "");
        assert_eq!(globals.len(), 2);
    }

    #[test]
    fn the_statement_for_collations_fits_the_server() {
        let ask = |mariadb, number| collations_statement(Dialect { mariadb, number });
        assert!(ask(true, 101_106).contains("APPLICABILITY") && !ask(true, 101_106).contains("SET STATEMENT"));
        assert!(ask(true, 110_806).contains("APPLICABILITY") && ask(true, 110_806).contains("SET STATEMENT"));
        assert!(!ask(true, 100_600).contains("APPLICABILITY"));
        assert!(!ask(false, 90_700).contains("APPLICABILITY"));
    }
}
