//! Reading the servers' accounts.

use facts::accounts::rows::{PasswordAge, UserRow, from_global_priv};
use facts::accounts::{Account, Accounts};
use net::query::{Client, QueryError, ResultSet};
use wire::errno;

use super::dialect::Dialect;
use super::link::is_denied;

const MARIADB: &str = "SELECT Host, User, Priv, @@default_password_lifetime AS DaysMax, UNIX_TIMESTAMP() AS Now \
     FROM mysql.global_priv";
/// The view of MariaDB, for who may read it but not the table below it; it does not tell which accounts are locked, and
/// of several ways to log in it tells one.
const MARIADB_VIEW: &str = "SELECT Host, User, plugin, authentication_string, ssl_type, \
     ssl_cipher, x509_issuer, x509_subject, 'N' AS account_locked, password_expired AS Expired, max_statement_time \
     FROM mysql.user WHERE is_role = 'N'";
/// The table of older servers, which MariaDB reads where `mysql.global_priv` is missing: in a datadir of MySQL 5.7, for example.
/// Which columns it has differs.
const MARIADB_TABLE: &str = "SELECT * FROM mysql.user";
const MYSQL: &str = "SELECT Host, User, plugin, authentication_string, ssl_type, ssl_cipher, x509_issuer, x509_subject, \
     account_locked, IF(password_expired = 'Y' OR (COALESCE(password_lifetime, @@default_password_lifetime) > 0 AND \
     password_last_changed + INTERVAL COALESCE(password_lifetime, @@default_password_lifetime) DAY < NOW()), 'Y', 'N') \
     AS Expired FROM mysql.user";
/// The same, and which accounts the server blocks after some wrong passwords (since 8.0.19).
const MYSQL_LOCKING: &str = "SELECT Host, User, plugin, authentication_string, ssl_type, ssl_cipher, x509_issuer, x509_subject, \
     account_locked, IF(password_expired = 'Y' OR (COALESCE(password_lifetime, @@default_password_lifetime) > 0 AND \
     password_last_changed + INTERVAL COALESCE(password_lifetime, @@default_password_lifetime) DAY < NOW()), 'Y', 'N') \
     AS Expired, IF(JSON_EXTRACT(User_attributes, '$.Password_locking') IS NULL, 'N', 'Y') AS Locks FROM mysql.user";
const MYSQL_LOCKING_SINCE: u32 = 80_019;
/// For a monitor that was given the right to these columns only.
const MYSQL_FEWER: &str = "SELECT Host, User, plugin, authentication_string, IF(ssl_type = 'SPECIFIED', 'UNKNOWN', ssl_type) \
     AS ssl_type, account_locked FROM mysql.user";

/// The accounts, and complaints about rows that could not be understood.
pub(crate) struct Loaded {
    pub(crate) accounts: Accounts,
    pub(crate) complaints: Vec<String>,
}

/// Reads all accounts; `number` becomes theirs.
///
/// # Errors
/// The connection broke. Missing rights are no error: the accounts are not readable then.
pub(crate) async fn load(client: &mut Client, dialect: Dialect, number: u64) -> Result<Loaded, QueryError> {
    let mut denied = None;
    let setting = client.query_one("SELECT @@skip_name_resolve").await?;
    let resolves_names = setting.scalar().as_deref() == Some("0");
    let statements: &[&str] = match dialect.mariadb {
        true => &[MARIADB, MARIADB_VIEW],
        false if dialect.number >= MYSQL_LOCKING_SINCE => &[MYSQL_LOCKING, MYSQL, MYSQL_FEWER],
        false => &[MYSQL, MYSQL_FEWER],
    };
    for statement in statements {
        match client.query_one(statement).await {
            Ok(answer) => return Ok(read(&answer, number, resolves_names)),
            Err(error) if error.code().is_some_and(is_denied) => {
                denied.get_or_insert_with(|| error.to_string());
            }
            Err(error) if dialect.mariadb && error.code() == Some(errno::ER_NO_SUCH_TABLE) => {
                return Ok(read(&client.query_one(MARIADB_TABLE).await?, number, resolves_names));
            }
            Err(error) => return Err(error),
        }
    }
    let accounts = Accounts { number, readable: false, resolves_names, accounts: Vec::new() };
    Ok(Loaded { accounts, complaints: denied.into_iter().collect() })
}

fn read(answer: &ResultSet, number: u64, resolves_names: bool) -> Loaded {
    let mut complaints = Vec::new();
    let mut accounts: Vec<Account> = Vec::with_capacity(answer.rows.len());
    for row in 0..answer.rows.len() {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        let (host, user) = (text("Host"), text("User"));
        if let Some(privileges) = answer.text(row, "Priv") {
            let number = |column: &str| text(column).parse().unwrap_or(0);
            let age = PasswordAge { days_max: number("DaysMax"), now: number("Now") };
            match from_global_priv(&host, &user, &privileges, age) {
                Ok(account) => accounts.extend(account),
                Err(complaint) => complaints.push(complaint),
            }
            continue;
        }
        let is_set = |column: &str| text(column).eq_ignore_ascii_case("y");
        if is_set("is_role") {
            continue;
        }
        let string = Some(text("authentication_string")).filter(|string| !string.is_empty());
        let row = UserRow {
            host: &host,
            user: &user,
            plugin: &text("plugin"),
            authentication_string: &string.unwrap_or_else(|| text("Password")),
            ssl_type: &text("ssl_type"),
            ssl_cipher: &text("ssl_cipher"),
            x509_issuer: &text("x509_issuer"),
            x509_subject: &text("x509_subject"),
            locked: is_set("account_locked"),
            expired: is_set("Expired") || is_set("password_expired"),
            counts_failures: is_set("Locks"),
            max_statement_time: &text("max_statement_time"),
        };
        accounts.push(row.account());
    }
    Loaded { accounts: Accounts::sorted(number, resolves_names, accounts), complaints }
}

#[cfg(test)]
mod tests {
    use facts::accounts::{TlsDemand, Verifier};

    use super::*;
    use crate::monitor::dialect::tests::table;

    #[test]
    fn accounts_of_mariadb() {
        let loaded = read(
            &table(
                r#"Host|User|Priv
                %|app|{"plugin":"mysql_native_password","authentication_string":""}
                |readers|{"is_role":true}
                %|odd|nonsense
                localhost|root|{"plugin":"unix_socket"}"#,
            ),
            5,
            true,
        );
        let names: Vec<_> = loaded.accounts.accounts.iter().map(|a| format!("{}@{}", a.user, a.host)).collect();
        assert_eq!(names, ["root@localhost", "app@%"]);
        assert_eq!(loaded.accounts.accounts[1].verifiers, [Verifier::Empty]);
        assert!(loaded.accounts.readable && loaded.accounts.number == 5);
        assert_eq!(loaded.complaints.len(), 1);
        assert!(loaded.complaints[0].contains("'odd'@'%'"));
    }

    #[test]
    fn accounts_of_mariadb_with_the_table_of_older_servers() {
        let loaded = read(
            &table(
                "Host|User|Password|plugin|authentication_string|account_locked|password_expired|is_role
                 %|app|*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29|||N|N|N
                 %|gone|||||Y|N
                 %|none||||Y|N|N
                 |readers|||||N|Y",
            ),
            1,
            true,
        );
        let [app, gone, none] = &loaded.accounts.accounts[..] else { panic!("{:?}", loaded.accounts) };
        assert!(matches!(app.verifiers[..], [Verifier::Native(_)]) && !app.locked && !app.expired);
        assert!(gone.expired && none.locked && none.verifiers == [Verifier::Empty]);
    }

    #[test]
    fn accounts_of_mysql() {
        let loaded = read(
            &table(
                "Host|User|plugin|authentication_string|ssl_type|account_locked
                 %|app|caching_sha2_password|$A$005$x|ANY|N
                 %|gone|caching_sha2_password|$A$005$x||Y",
            ),
            1,
            true,
        );
        let [app, gone] = &loaded.accounts.accounts[..] else { panic!("{:?}", loaded.accounts) };
        assert_eq!(app.verifiers, [Verifier::CachingSha2(None)]);
        assert!(app.tls == TlsDemand::Tls && !app.locked && gone.tls == TlsDemand::None && gone.locked);
    }
}
