//! Accounts from the rows of the servers' grant tables.

use std::sync::Arc;

use serde_json::Value;

use super::{Account, Verifier};

const NATIVE: &str = "mysql_native_password";

/// One row of `mysql.user` as text, of MySQL or of a MariaDB whose `mysql.global_priv` may not be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserRow<'a> {
    /// `Host`
    pub host: &'a str,
    /// `User`
    pub user: &'a str,
    /// `plugin`
    pub plugin: &'a str,
    /// `authentication_string`
    pub authentication_string: &'a str,
    /// `ssl_type`: empty, `ANY`, `X509` or `SPECIFIED`.
    pub ssl_type: &'a str,
    /// `account_locked` is `Y`; the view of MariaDB does not tell it.
    pub locked: bool,
}

impl UserRow<'_> {
    /// The account.
    pub fn account(&self) -> Account {
        Account {
            user: self.user.into(),
            host: self.host.into(),
            verifiers: vec![verifier(self.plugin, self.authentication_string)],
            locked: self.locked,
            tls_required: !self.ssl_type.is_empty(),
        }
    }
}

/// The account of one row of MariaDB's `mysql.global_priv`; `None` for a role, which nobody can log in as.
///
/// The JSON keys are those that the server itself writes: `plugin`, `authentication_string`, `auth_or` (further
/// ways, of which an empty object stands for the outer `plugin`), `account_locked`, `ssl_type` (0 none, 1 ANY,
/// 2 X509, 3 SPECIFIED), `is_role`.
///
/// # Errors
/// `Priv` is no JSON object; the text names the account.
pub fn from_global_priv(host: &str, user: &str, privileges: &str) -> Result<Option<Account>, String> {
    let bad = |why: &str| format!("mysql.global_priv of '{user}'@'{host}': {why}");
    let value: Value = serde_json::from_str(privileges).map_err(|_| bad("Priv is not JSON"))?;
    let object = value.as_object().ok_or_else(|| bad("Priv is not a JSON object"))?;
    let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
    if flag("is_role") {
        return Ok(None);
    }
    let verifier_of = |entry: &serde_json::Map<String, Value>| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        verifier(text("plugin"), text("authentication_string"))
    };
    let verifiers = match object.get("auth_or").and_then(Value::as_array) {
        Some(ways) => ways
            .iter()
            .filter_map(Value::as_object)
            .map(|way| verifier_of(if way.contains_key("plugin") { way } else { object }))
            .collect(),
        None => vec![verifier_of(object)],
    };
    Ok(Some(Account {
        user: user.into(),
        host: host.into(),
        verifiers,
        locked: flag("account_locked"),
        tls_required: object.get("ssl_type").and_then(Value::as_i64).is_some_and(|kind| kind > 0),
    }))
}

fn verifier(plugin: &str, authentication: &str) -> Verifier {
    match plugin {
        // Accounts from before plugins have no plugin.
        NATIVE | "" if authentication.is_empty() => Verifier::Empty,
        NATIVE | "" => match native_hash(authentication) {
            Some(hash) => Verifier::Native(hash),
            // Installers write words such as `invalid` here, so that no password fits.
            None => Verifier::Other(Arc::from(NATIVE)),
        },
        "caching_sha2_password" => Verifier::CachingSha2,
        other => Verifier::Other(other.into()),
    }
}

/// `*` and forty hexadecimal digits.
fn native_hash(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix('*')?.as_bytes();
    if digits.len() != 40 {
        return None;
    }
    let mut hash = [0; 20];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: u8| char::from(at).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9"; // PASSWORD('123456')

    fn native() -> Verifier {
        let Verifier::Native(hash) = verifier(NATIVE, HASH) else { panic!("not native") };
        assert_eq!((hash[0], hash[19]), (0x6b, 0xd9));
        Verifier::Native(hash)
    }

    #[test]
    fn global_priv_with_one_way() {
        let row = format!(r#"{{"access":0,"plugin":"mysql_native_password","authentication_string":"{HASH}"}}"#);
        let account = from_global_priv("%", "app", &row).unwrap().unwrap();
        assert_eq!(account.verifiers, [native()]);
        assert!(!account.locked && !account.tls_required);
    }

    #[test]
    fn global_priv_with_several_ways_keeps_their_order() {
        let row = format!(
            r#"{{"plugin":"mysql_native_password","authentication_string":"{HASH}","ssl_type":2,"account_locked":true,
                "auth_or":[{{"plugin":"unix_socket"}},{{}},{{"plugin":"ed25519","authentication_string":"x"}}]}}"#
        );
        let account = from_global_priv("localhost", "root", &row).unwrap().unwrap();
        assert_eq!(
            account.verifiers,
            [Verifier::Other("unix_socket".into()), native(), Verifier::Other("ed25519".into())]
        );
        assert!(account.locked && account.tls_required);
    }

    #[test]
    fn roles_are_no_accounts_and_nonsense_is_told() {
        assert_eq!(from_global_priv("", "readers", r#"{"access":1,"is_role":true}"#), Ok(None));
        let error = from_global_priv("%", "app", "[]").unwrap_err();
        assert!(error.contains("'app'@'%'") && error.contains("object"), "{error}");
        assert!(from_global_priv("%", "app", "{").is_err());
    }

    #[test]
    fn an_account_without_plugin_is_native_with_an_empty_password() {
        assert_eq!(from_global_priv("%", "old", "{}").unwrap().unwrap().verifiers, [Verifier::Empty]);
        assert_eq!(verifier(NATIVE, "invalid"), Verifier::Other(NATIVE.into()));
        assert_eq!(verifier(NATIVE, "*ZZ"), Verifier::Other(NATIVE.into()));
    }

    #[test]
    fn rows_of_mysql_user() {
        let row = UserRow {
            host: "10.%",
            user: "app",
            plugin: "caching_sha2_password",
            authentication_string: "$A$005$…",
            ssl_type: "ANY",
            locked: true,
        };
        let account = row.account();
        assert_eq!(account.verifiers, [Verifier::CachingSha2]);
        assert!(account.locked && account.tls_required);
        assert!(!UserRow::default().account().tls_required);
    }
}
