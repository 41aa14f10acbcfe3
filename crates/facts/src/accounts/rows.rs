//! Accounts from the rows of the servers' grant tables.

use std::sync::Arc;

use serde_json::Value;

use wire::auth::base64;
use wire::auth::parsec::ExtSalt;
use wire::auth::sha_crypt::ShaCrypt;

use super::{Account, TlsDemand, Verifier};

const NATIVE: &str = "mysql_native_password";
const SHA2: &str = "caching_sha2_password";
const SHA256: &str = "sha256_password";
const ED25519: &str = "ed25519";
const PARSEC: &str = "parsec";

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
    /// `ssl_type`: empty, `ANY`, `X509` or `SPECIFIED`; `UNKNOWN` is the last without the columns below.
    pub ssl_type: &'a str,
    /// `ssl_cipher`, of `SPECIFIED`; empty if none is.
    pub ssl_cipher: &'a str,
    /// `x509_issuer`, likewise.
    pub x509_issuer: &'a str,
    /// `x509_subject`, likewise.
    pub x509_subject: &'a str,
    /// `account_locked` is `Y`; the view of MariaDB does not tell it.
    pub locked: bool,
    /// The password has expired, by command or by age.
    pub expired: bool,
    /// MySQL counts wrong passwords of it: FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME are set.
    pub counts_failures: bool,
    /// `max_statement_time` in seconds, which MariaDB has; empty or 0 if the account has none.
    pub max_statement_time: &'a str,
}

impl UserRow<'_> {
    /// The account.
    pub fn account(&self) -> Account {
        Account {
            user: self.user.into(),
            host: self.host.into(),
            verifiers: vec![verifier(self.plugin, self.authentication_string)],
            locked: self.locked,
            expired: self.expired,
            counts_failures: self.counts_failures,
            tls: match self.ssl_type {
                "" => TlsDemand::None,
                "ANY" => TlsDemand::Tls,
                "X509" => TlsDemand::Certificate,
                "UNKNOWN" => TlsDemand::Unknown,
                // A type that is not known here demands all that is named, and a certificate.
                _ => TlsDemand::These {
                    cipher: self.ssl_cipher.into(),
                    issuer: self.x509_issuer.into(),
                    subject: self.x509_subject.into(),
                },
            },
            statement_time: statement_time(self.max_statement_time.parse().unwrap_or_default()),
        }
    }
}

/// The rules of a MariaDB server for the age of passwords.
#[derive(Clone, Copy, Debug, Default)]
pub struct PasswordAge {
    /// `default_password_lifetime` in days; 0 is no end.
    pub days_max: i64,
    /// Its clock, in seconds since 1970.
    pub now: i64,
}

impl PasswordAge {
    fn has_expired(self, object: &serde_json::Map<String, Value>) -> bool {
        let number = |key: &str| object.get(key).and_then(Value::as_i64);
        let days = number("password_lifetime").filter(|days| *days >= 0).unwrap_or(self.days_max);
        match number("password_last_changed") {
            // The value that PASSWORD EXPIRE writes.
            Some(0) => true,
            Some(changed) => days > 0 && self.now.saturating_sub(changed) > days.saturating_mul(24 * 60 * 60),
            None => false,
        }
    }
}

/// The account of one row of MariaDB's `mysql.global_priv`; `None` for a role, which cannot log in.
///
/// The JSON keys are those that the server itself writes: `plugin`, `authentication_string`, `auth_or` (further
/// ways, of which an empty object stands for the outer `plugin`), `account_locked`, `ssl_type` (0 none, 1 ANY,
/// 2 X509, 3 SPECIFIED), `password_last_changed` (seconds; 0 is expired), `password_lifetime` (days; -1 is the server's
/// default, 0 no end), `max_statement_time` (seconds), `is_role`.
///
/// # Errors
/// `Priv` is no JSON object; the text names the account.
pub fn from_global_priv(host: &str, user: &str, privileges: &str, age: PasswordAge) -> Result<Option<Account>, String> {
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
        expired: age.has_expired(object),
        counts_failures: false,
        tls: match object.get("ssl_type").and_then(Value::as_i64).unwrap_or(0) {
            ..=0 => TlsDemand::None,
            1 => TlsDemand::Tls,
            2 => TlsDemand::Certificate,
            _ => {
                let text = |key: &str| Arc::from(object.get(key).and_then(Value::as_str).unwrap_or_default());
                TlsDemand::These {
                    cipher: text("ssl_cipher"),
                    issuer: text("x509_issuer"),
                    subject: text("x509_subject"),
                }
            }
        },
        statement_time: statement_time(object.get("max_statement_time").and_then(Value::as_f64).unwrap_or_default()),
    }))
}

/// Seconds in the form of the variable.
fn statement_time(seconds: f64) -> Option<Arc<str>> {
    (seconds > 0.0).then(|| format!("{seconds:.6}").into())
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
        SHA2 | SHA256 if authentication.is_empty() => Verifier::Empty,
        SHA2 => Verifier::CachingSha2(ShaCrypt::parse(authentication)),
        SHA256 => Verifier::Sha256(ShaCrypt::parse(authentication)),
        ED25519 => match base64::decode(authentication).and_then(|key| key.try_into().ok()) {
            Some(key) => Verifier::Ed25519(key),
            None => Verifier::Other(plugin.into()),
        },
        PARSEC => match ExtSalt::parse_stored(authentication) {
            Some((salt, key)) => Verifier::Parsec { salt, key },
            None => Verifier::Other(plugin.into()),
        },
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
        let account = from_global_priv("%", "app", &row, PasswordAge::default()).unwrap().unwrap();
        assert_eq!(account.verifiers, [native()]);
        assert!(!account.locked && account.tls == TlsDemand::None);
    }

    #[test]
    fn global_priv_with_several_ways_keeps_their_order() {
        let row = format!(
            r#"{{"plugin":"mysql_native_password","authentication_string":"{HASH}","ssl_type":2,"account_locked":true,
                "auth_or":[{{"plugin":"unix_socket"}},{{}},{{"plugin":"ed25519","authentication_string":"x"}}]}}"#
        );
        let account = from_global_priv("localhost", "root", &row, PasswordAge::default()).unwrap().unwrap();
        assert_eq!(
            account.verifiers,
            [Verifier::Other("unix_socket".into()), native(), Verifier::Other("ed25519".into())],
            "an ed25519 key of another length is none"
        );
        assert!(account.locked && account.tls == TlsDemand::Certificate);
    }

    #[test]
    fn roles_are_no_accounts_and_nonsense_is_reported() {
        assert_eq!(from_global_priv("", "readers", r#"{"access":1,"is_role":true}"#, PasswordAge::default()), Ok(None));
        let error = from_global_priv("%", "app", "[]", PasswordAge::default()).unwrap_err();
        assert!(error.contains("'app'@'%'") && error.contains("object"), "{error}");
        assert!(from_global_priv("%", "app", "{", PasswordAge::default()).is_err());
    }

    #[test]
    fn an_account_without_plugin_is_native_with_an_empty_password() {
        assert_eq!(
            from_global_priv("%", "old", "{}", PasswordAge::default()).unwrap().unwrap().verifiers,
            [Verifier::Empty]
        );
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
            ..UserRow::default()
        };
        let account = row.account();
        assert_eq!(account.verifiers, [Verifier::CachingSha2(None)]);
        assert!(account.locked && account.tls == TlsDemand::Tls);
        assert_eq!(UserRow::default().account().tls, TlsDemand::None);
        assert_eq!(UserRow { ssl_type: "UNKNOWN", ..row }.account().tls, TlsDemand::Unknown);
        let strict = UserRow { ssl_type: "SPECIFIED", ssl_cipher: "C", x509_issuer: "I", x509_subject: "S", ..row };
        let these = TlsDemand::These { cipher: "C".into(), issuer: "I".into(), subject: "S".into() };
        assert_eq!(strict.account().tls, these);
    }

    /// The hashes that MariaDB 11.8 and MySQL 9.7 store for the password `secret`.
    #[test]
    fn stored_hashes_fit_their_password_only() {
        let stored = [
            (NATIVE, "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"),
            (SHA2, "$A$00A$i9=b/\"1=D\x11C.\x1cv@yf\x12\x07\x09oenSjbY.I5/EptpP9sCafVbMC3N4KhJQ4BbEuiNjJZD"),
            (SHA256, "$5$NHBCzPVRK11?&$W6r6wMMPuF07XDSUMDNFk0Zk0Q5sAjdn2OoImYnrDB2"),
            (ED25519, "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY"),
            (PARSEC, "P0:lzcd+gKtErRZPi4D5DHNWoZ0:mAC7GVyARJUoWcdD73WPB4w9hbA6NuOMMfSHEs7fIb8"),
        ];
        for (plugin, hash) in stored {
            let verifier = verifier(plugin, hash);
            assert!(!matches!(verifier, Verifier::Other(_)), "{plugin}");
            assert_eq!(verifier.fits(b"secret"), Some(true), "{plugin}");
            for wrong in [&b"Secret"[..], b"", b"secret "] {
                assert_eq!(verifier.fits(wrong), Some(false), "{plugin}");
            }
            // With the plugins that sign, the empty password has a key like any other.
            let signs = matches!(plugin, ED25519 | PARSEC);
            let empty = if signs { Verifier::Other(plugin.into()) } else { Verifier::Empty };
            assert_eq!(super::verifier(plugin, ""), empty);
            let shown = format!("{verifier:?}");
            assert!(shown.ends_with("(…)"), "{shown}");
        }
        assert_eq!(Verifier::Empty.fits(b""), Some(true));
        assert_eq!(Verifier::Empty.fits(b"x"), Some(false));
        assert_eq!(verifier("pam", "mariadb").fits(b"x"), None);
        assert_eq!(verifier(SHA2, "$A$FFF$too much work").fits(b"x"), None);
        assert_eq!(verifier(ED25519, "short"), Verifier::Other(ED25519.into()));
        assert_eq!(verifier(PARSEC, "P9:x:y"), Verifier::Other(PARSEC.into()));
    }

    #[test]
    fn passwords_expire_by_command_and_by_age() {
        let day = 24 * 60 * 60;
        for (row, days_max, expired) in [
            (r#"{"password_last_changed":0,"password_lifetime":-1}"#, 0, true),
            (r#"{"password_last_changed":1000}"#, 0, false),
            (r#"{"password_last_changed":1000}"#, 2, true),
            (r#"{"password_last_changed":1000,"password_lifetime":-1}"#, 2, true),
            (r#"{"password_last_changed":1000,"password_lifetime":0}"#, 2, false),
            (r#"{"password_last_changed":1000,"password_lifetime":3}"#, 2, false),
            (r#"{"password_last_changed":1000,"password_lifetime":1}"#, 0, true),
            ("{}", 1, false),
        ] {
            let age = PasswordAge { days_max, now: 1001 + 2 * day };
            let account = from_global_priv("%", "app", row, age).unwrap().unwrap();
            assert_eq!(account.expired, expired, "{row} {days_max}");
        }
    }

    #[test]
    fn global_priv_with_names_that_a_certificate_must_have() {
        let row =
            r#"{"ssl_type":3,"ssl_cipher":"TLS_AES_256_GCM_SHA384","x509_issuer":"/CN=b","x509_subject":"/CN=a"}"#;
        let account = from_global_priv("%", "app", row, PasswordAge::default()).unwrap().unwrap();
        let these = TlsDemand::These {
            cipher: "TLS_AES_256_GCM_SHA384".into(),
            issuer: "/CN=b".into(),
            subject: "/CN=a".into(),
        };
        assert_eq!(account.tls, these);
    }
}
