//! Readings of accounts and dictionaries, each over a connection of its own. Their errors are in words.

use std::time::Duration;

use facts::catalog::{Catalog, Globals};
use net::query::{Client, Limits};

use super::super::dialect::{self, Dialect};
use super::super::link::{ServerAccess, query_failure};
use super::super::{accounts, catalog, grants, tables};

/// Longest wait for one answer; a reading asks a handful of things.
const LIMITS: Limits = Limits { reply_bytes_max: 64 << 20, timeout: Duration::from_secs(10) };
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A replica that takes longer is left out until the next reading.
const CONNECT_TIMEOUT_REPLICA: Duration = Duration::from_millis(500);

/// Reads the accounts from the first source that answers.
pub(super) async fn read_accounts(sources: &[ServerAccess], number: u64) -> Result<accounts::Loaded, String> {
    let mut problem = String::new();
    for source in sources {
        match connect(source).await {
            Ok((mut client, dialect)) => match accounts::load(&mut client, dialect, number).await {
                Ok(loaded) => return Ok(loaded),
                Err(error) => problem = query_failure(&error).text.to_string(),
            },
            Err(why) => problem = why,
        }
    }
    Err(problem)
}

/// Reads what statements do to tables.
pub(super) async fn read_tables(primary: &ServerAccess) -> Result<tables::Loaded, String> {
    let (mut client, dialect) = connect(primary).await?;
    tables::load(&mut client, dialect).await.map_err(|error| query_failure(&error).text.to_string())
}

/// Reads the users' rights.
pub(super) async fn read_grants(primary: &ServerAccess) -> Result<grants::Loaded, String> {
    let (mut client, dialect) = connect(primary).await?;
    grants::load(&mut client, dialect).await.map_err(|error| query_failure(&error).text.to_string())
}

/// Reads the catalog from the first source that answers. `knows_primary`: the first of the sources is the primary.
pub(super) async fn read_catalog(
    sources: &[ServerAccess],
    before: &Catalog,
    knows_primary: bool,
) -> Result<catalog::Loaded, String> {
    let mut problem = String::new();
    for (index, source) in sources.iter().enumerate() {
        match connect(source).await {
            Ok((mut client, dialect)) => match catalog::load(&mut client, dialect).await {
                Ok(mut loaded) => {
                    loaded.of_primary = knows_primary && index == 0;
                    if !loaded.of_primary && before.of_primary {
                        loaded.catalog.globals.clone_from(&before.globals);
                    }
                    loaded.catalog.of_primary = loaded.of_primary || before.of_primary;
                    let others = read_globals(&sources[index + 1..]).await;
                    let names = loaded.session_variables.iter().map(String::as_str);
                    loaded.catalog.find_uneven(before, &others, names);
                    loaded.catalog.find_recollated(before);
                    return Ok(loaded);
                }
                Err(error) => problem = query_failure(&error).text.to_string(),
            },
            Err(why) => problem = why,
        }
    }
    Err(problem)
}

/// The global variables of those servers that answer.
async fn read_globals(servers: &[ServerAccess]) -> Vec<Globals> {
    let mut globals = Vec::new();
    for server in servers {
        let Ok(mut client) = server.open(CONNECT_TIMEOUT_REPLICA, LIMITS).await else { continue };
        if let Ok(read) = catalog::load_globals(&mut client).await {
            globals.push(read);
        }
    }
    globals
}

async fn connect(source: &ServerAccess) -> Result<(Client, Dialect), String> {
    let client = source.open(CONNECT_TIMEOUT, LIMITS).await.map_err(|failure| failure.text.to_string())?;
    let dialect = Dialect::of(&dialect::greeting(client.greeting()));
    Ok((client, dialect))
}
