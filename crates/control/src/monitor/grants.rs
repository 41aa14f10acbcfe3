//! Reading what users may read, for the result cache.

use facts::grants::{AccountRow, GrantRows, Grants, Name};
use net::query::{Client, QueryError, ResultSet};
use serde_json::Value;
use wire::errno;

use super::dialect::Dialect;
use super::link::is_denied;

/// Where there are more rows of a kind, nothing is known.
const ROWS_MAX: usize = 100_000;

const SCHEMAS: &str = "SELECT Host, User, Db, Select_priv AS MaySelect FROM mysql.db";
const TABLES: &str =
    "SELECT Host, User, Db, Table_name AS Name, FIND_IN_SET('Select', Table_priv) AS MaySelect FROM mysql.tables_priv";
const PROXIES: &str = "SELECT Host, User FROM mysql.proxies_priv";

const MARIADB: [&str; 6] = [
    "SELECT Host, User, Priv FROM mysql.global_priv",
    SCHEMAS,
    TABLES,
    "SELECT Host, User, '' AS RoleHost, Role FROM mysql.roles_mapping",
    "SELECT Host, User, '' AS RoleHost, '' AS Role FROM mysql.roles_mapping WHERE FALSE",
    PROXIES,
];

const MYSQL: [&str; 6] = [
    "SELECT Host, User, IF(JSON_LENGTH(User_attributes, '$.Restrictions') > 0, 'N', Select_priv) AS MaySelect, \
     CONCAT(Super_priv, EXISTS (SELECT 1 FROM mysql.global_grants g WHERE g.HOST = u.Host AND g.USER = u.User \
     AND g.PRIV = 'CONNECTION_ADMIN')) AS More FROM mysql.user u",
    SCHEMAS,
    TABLES,
    "SELECT TO_HOST AS Host, TO_USER AS User, FROM_HOST AS RoleHost, FROM_USER AS Role FROM mysql.role_edges",
    "SELECT HOST AS Host, USER AS User, DEFAULT_ROLE_HOST AS RoleHost, DEFAULT_ROLE_USER AS Role FROM mysql.default_roles",
    PROXIES,
];

/// The rights, and why they are not known, if they are not.
pub(crate) struct Loaded {
    pub(crate) grants: Grants,
    pub(crate) unknown: String,
}

/// Reads everything.
///
/// # Errors
/// The connection broke. A table that the monitor user may not read is no error.
pub(crate) async fn load(client: &mut Client, dialect: Dialect) -> Result<Loaded, QueryError> {
    let unknown = |why: String| Ok(Loaded { grants: Grants::default(), unknown: why });
    let mut answers = Vec::with_capacity(MYSQL.len());
    for statement in if dialect.mariadb { MARIADB } else { MYSQL } {
        match client.query_one(format!("{statement} LIMIT {}", ROWS_MAX + 1)).await {
            Ok(answer) if answer.rows.len() > ROWS_MAX => {
                return unknown(format!("there are more than {ROWS_MAX} rows of grants"));
            }
            Ok(answer) => answers.push(answer),
            // Columns and tables that an old version does not have.
            Err(error)
                if error.code().is_some_and(|code| {
                    is_denied(code) || [errno::ER_BAD_FIELD_ERROR, errno::ER_NO_SUCH_TABLE].contains(&code)
                }) =>
            {
                return unknown(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let mut switches = [false; 2];
    if !dialect.mariadb {
        for (switch, name) in switches.iter_mut().zip(["activate_all_roles_on_login", "partial_revokes"]) {
            match client.query_one(format!("SELECT @@GLOBAL.{name} AS Switch")).await {
                Ok(answer) => *switch = answer.text(0, "Switch").is_some_and(|text| text == "1"),
                // Before 8.0.16 there is none of the second.
                Err(error) if error.code() == Some(errno::ER_UNKNOWN_SYSTEM_VARIABLE) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Loaded { grants: Grants::new(&rows(&answers, switches)), unknown: String::new() })
}

fn rows(answers: &[ResultSet], [all_roles, literal_patterns]: [bool; 2]) -> GrantRows {
    let mut rows = GrantRows { all_roles, literal_patterns, ..GrantRows::default() };
    let [accounts, schemas, tables, roles, defaults, proxies] = answers else { return rows };
    let text = |answer: &ResultSet, row: usize, column: &str| answer.text(row, column).unwrap_or_default().into_owned();
    let name = |answer: &ResultSet, row: usize| -> Name { (text(answer, row, "User"), text(answer, row, "Host")) };
    let role = |answer: &ResultSet, row: usize| -> Name { (text(answer, row, "Role"), text(answer, row, "RoleHost")) };
    for row in 0..accounts.rows.len() {
        let of = name(accounts, row);
        if let Some(privileges) = accounts.text(row, "Priv") {
            let (account, default) = of_mariadb(of.clone(), &privileges);
            rows.accounts.push(account);
            rows.defaults.extend(default.map(|role| (of, (role, String::new()))));
        } else {
            let (reads, more) = (text(accounts, row, "MaySelect") == "Y", text(accounts, row, "More"));
            rows.accounts.push(AccountRow { name: of, is_role: false, reads, more });
        }
    }
    for row in 0..schemas.rows.len() {
        rows.schemas.push((name(schemas, row), text(schemas, row, "Db"), text(schemas, row, "MaySelect") == "Y"));
    }
    for row in 0..tables.rows.len() {
        let (schema, table) = (text(tables, row, "Db"), text(tables, row, "Name"));
        let reads = text(tables, row, "MaySelect").parse::<u64>().is_ok_and(|place| place > 0);
        rows.tables.push((name(tables, row), schema, table, reads));
    }
    rows.roles.extend((0..roles.rows.len()).map(|row| (name(roles, row), role(roles, row))));
    rows.defaults.extend((0..defaults.rows.len()).map(|row| (name(defaults, row), role(defaults, row))));
    // MySQL and MariaDB begin with a row by which root may become anybody.
    rows.proxies.extend((0..proxies.rows.len()).map(|row| text(proxies, row, "User")));
    rows
}

/// One row of `mysql.global_priv`: `access` has a bit for each right, SELECT is the first.
fn of_mariadb(name: Name, privileges: &str) -> (AccountRow, Option<String>) {
    let value: Value = serde_json::from_str(privileges).unwrap_or_default();
    let access = value.get("access").and_then(Value::as_u64).unwrap_or(0);
    let is_role = value.get("is_role").and_then(Value::as_bool).unwrap_or(false);
    let default = value.get("default_role").and_then(Value::as_str).filter(|role| !role.is_empty());
    let account = AccountRow { name, is_role, reads: access & 1 != 0, more: access.to_string() };
    (account, default.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn rights_of_mariadb() {
        let answers = [
            table(
                r#"Host|User|Priv
                %|app|{"access":0,"default_role":"readers"}
                %|all|{"access":1}
                |readers|{"access":0,"is_role":true}
                %|odd|nonsense"#,
            ),
            table("Host|User|Db|MaySelect\n%|odd|app|Y\n%|all|app|N"),
            table("Host|User|Db|Name|MaySelect\n|readers|app|t|1\n|readers|app|u|0"),
            table("Host|User|RoleHost|Role\n%|app||readers"),
            table("Host|User|RoleHost|Role"),
            table("Host|User\nlocalhost|root"),
        ];
        let grants = Grants::new(&rows(&answers, [false, false]));
        assert!(grants.reads("app", "app", "t") && !grants.reads("app", "app", "u"));
        assert!(grants.reads_everything("all") && !grants.reads_everything("odd") && grants.reads("odd", "app", "u"));
        assert!(grants.fingerprint("readers").is_none() && grants.fingerprint("root").is_none());
    }

    #[test]
    fn rights_of_mysql() {
        let answers = [
            table("Host|User|MaySelect|More\n%|app|N|N0\n%|all|Y|N0\n%|admin|Y|N1\n%|r|N|N0"),
            table("Host|User|Db|MaySelect\n%|r|app|Y"),
            table("Host|User|Db|Name|MaySelect"),
            table("Host|User|RoleHost|Role\n%|app|%|r"),
            table("Host|User|RoleHost|Role\n%|app|%|r"),
            table("Host|User"),
        ];
        let grants = Grants::new(&rows(&answers, [false, false]));
        assert!(grants.reads("app", "app", "t") && !grants.reads("app", "other", "t"));
        assert_ne!(grants.fingerprint("all"), grants.fingerprint("admin"), "one goes without init_connect");
    }
}
