//! The promises of digests: statements that differ in literals alone are one, others are not, and no literal is told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use sqluice_sql::{Dialect, Encoding, Family, Modes, NoFunctions, classify, digest};

fn dialect(family: Family, modes: Modes) -> Dialect {
    let version = if family == Family::MariaDb { 101119 } else { 80400 };
    Dialect { family, version, modes, encoding: Encoding::Utf8 }
}

const FAMILIES: [Family; 2] = [Family::MariaDb, Family::MySql];

/// Statements with a `§` in the place of each literal, and no other literals.
const TEMPLATES: [&str; 16] = [
    "SELECT c FROM sbtest1 WHERE id=§",
    "select a, b FROM `t` WHERE a = § AND b LIKE § LIMIT §, §",
    "INSERT INTO t (a, b) VALUES (§, §), (§, §)",
    "INSERT INTO t VALUES (§, NOW()), (§, NOW()) ON DUPLICATE KEY UPDATE a = VALUES(a), b = §",
    "INSERT INTO t SET a = §, b = f(§)",
    "UPDATE t SET a = a + §, b = § WHERE c IN (§, §) AND d IN (§)",
    "DELETE FROM t WHERE a BETWEEN § AND § OR b = §",
    "SELECT * FROM t WHERE (a, b) IN ((§, §), (§, §))",
    "SET @a = §, @b = CONCAT(§, §)",
    "SET SESSION sort_buffer_size = §",
    "CALL p(§, @x, §)",
    "SELECT CASE WHEN a = § THEN § ELSE § END, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > §",
    "BEGIN; UPDATE t SET a = §; COMMIT",
    "PREPARE s FROM §",
    "CREATE TABLE t (a INT DEFAULT §, b VARCHAR(§) COMMENT §)",
    "EXPLAIN SELECT a FROM t WHERE b = §",
];

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,12}",
        "[0-9]{1,4}\\.[0-9]{1,4}",
        "0x[0-9a-f]{2,8}",
        "'[a-z (),;?=`@#-]{0,20}'",
        "'([a-z]|''|\\\\')*'",
        "N'[a-z]{0,5}'",
        "X'4142'",
        Just("?".to_owned()),
    ]
}

fn fill(template: &str, literals: &mut impl Iterator<Item = String>) -> String {
    let mut parts = template.split('§');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text.push_str(&literals.next().unwrap());
        text.push_str(part);
    }
    text
}

proptest! {
    #[test]
    fn statements_that_differ_in_literals_alone_are_one(
        template in 0..TEMPLATES.len(),
        literals in proptest::collection::vec(literal(), 20),
        spaces in 0..3usize,
    ) {
        let gap = [" ", "  \n", " /* why */ "][spaces];
        let one = fill(TEMPLATES[template], &mut std::iter::repeat("1".to_owned()));
        let other = fill(&TEMPLATES[template].replace(' ', gap), &mut literals.into_iter());
        for family in FAMILIES {
            let dialect = dialect(family, Modes::empty());
            let (one, found) = (digest(one.as_bytes(), &dialect), digest(other.as_bytes(), &dialect));
            prop_assert_eq!(&found.text, &one.text, "{}", other);
            prop_assert_eq!(found.hash, one.hash);
            prop_assert_eq!(classify(other.as_bytes(), &dialect, &NoFunctions).digest, one.hash);
            prop_assert!(!one.text.contains('§'));
        }
    }

    /// Long names are hashed in pieces: each byte must count, and so must the length.
    #[test]
    fn names_that_differ_are_two(name in "[a-z_]{1,60}", at in 0..60usize, more in "[a-z_]{1,9}") {
        let dialect = dialect(Family::MySql, Modes::empty());
        let hash = |name: &str| digest(format!("SELECT `{name}`").as_bytes(), &dialect).hash;
        let at = at % name.len();
        let changed = format!("{}0{}", &name[..at], &name[at + 1..]);
        for other in [changed, format!("{name}{more}"), format!("{more}{name}")] {
            prop_assert!(other == name || hash(&name) != hash(&other), "{} {}", name, other);
        }
    }
}

/// Over all cases: equal texts have equal hashes, and different texts different ones.
#[test]
fn hashes_are_equal_where_texts_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (mut hashes, mut texts): (HashMap<String, u64>, HashMap<u64, String>) = Default::default();
    let dialect = dialect(Family::MariaDb, Modes::empty());
    for topic in ["classify", "digest", "lexer"] {
        for entry in std::fs::read_dir(folder.join(topic)).unwrap() {
            let content = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for line in content.lines().filter(|line| !["=>", "%%", "@ "].iter().any(|mark| line.starts_with(mark))) {
                let found = digest(line.as_bytes(), &dialect);
                // There names become `?` that stay apart for the hash.
                let upper = found.text.to_uppercase();
                if upper.contains("PASSWORD") || upper.contains("IDENTIFIED") {
                    continue;
                }
                let hash = *hashes.entry(found.text.clone()).or_insert(found.hash);
                assert_eq!(hash, found.hash, "{line} as {}", found.text);
                let text = texts.entry(found.hash).or_insert(found.text.clone());
                assert_eq!(*text, found.text, "{line}");
            }
        }
    }
    assert!(texts.len() > 500, "{}", texts.len());
}

/// Statements that carry a password, with a `§` in its place.
const SECRETIVE: [&str; 27] = [
    "CREATE USER 'u'@'h' IDENTIFIED BY §",
    "CREATE USER IF NOT EXISTS u IDENTIFIED BY §, v IDENTIFIED BY §",
    "CREATE USER u IDENTIFIED WITH caching_sha2_password BY § REQUIRE SSL ACCOUNT LOCK",
    "CREATE USER u IDENTIFIED WITH mysql_native_password AS §",
    "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD(§) OR mysql_native_password USING §",
    "CREATE OR REPLACE USER u@localhost IDENTIFIED BY PASSWORD §",
    "ALTER USER u IDENTIFIED BY § REPLACE § RETAIN CURRENT PASSWORD",
    "ALTER USER USER() IDENTIFIED BY §",
    "ALTER USER u IDENTIFIED WITH p BY § AND IDENTIFIED WITH q AS §",
    "alter user u identified by §",
    "SET PASSWORD = §",
    "SET PASSWORD = PASSWORD(§)",
    "SET PASSWORD FOR 'u'@'h' = § REPLACE §",
    "SET PASSWORD FOR u = OLD_PASSWORD(§)",
    "SELECT 1; SET PASSWORD = §",
    "/*!50000 SET PASSWORD = § */",
    "SET STATEMENT max_statement_time=1 FOR SET PASSWORD = §",
    "GRANT ALL ON *.* TO u IDENTIFIED BY § WITH GRANT OPTION",
    "GRANT USAGE ON d.* TO u@h IDENTIFIED BY PASSWORD §",
    "CHANGE MASTER TO MASTER_HOST='h', MASTER_USER='u', MASTER_PASSWORD=§",
    "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = §, SOURCE_PORT = 1",
    "START SLAVE USER='u' PASSWORD=§",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD §)",
    "ALTER SERVER s OPTIONS (PASSWORD §)",
    "EXPLAIN UPDATE mysql.user SET authentication_string = § WHERE user = 1",
    "DO SLEEP(1), PASSWORD(§)",
    "PREPARE s FROM 'SET PASSWORD = \"Zecret9\"'",
];

/// The quotes that a client may put around a password, and those that it may forget.
#[test]
fn passwords_are_never_reported() {
    let quoted =
        ["'Zecret9'", "\"Zecret9\"", "'a''Zecret9'", "X'Zecret9'", "'Zecret9' 'Zecret9'", "'Zecret9", "_utf8'Zecret9'"];
    let bare = ["Zecret9", "`Zecret9`", "*Zecret9", "a.Zecret9", "(Zecret9)", "@Zecret9", "$Zecret9", "`Zecret9"];
    for family in FAMILIES {
        for modes in [Modes::empty(), Modes::ANSI_QUOTES, Modes::NO_BACKSLASH_ESCAPES, Modes::all()] {
            let dialect = dialect(family, modes);
            for template in SECRETIVE {
                // Where any expression may stand, a name is a name.
                let any_expression = ["EXPLAIN", "DO", "PREPARE"].iter().any(|verb| template.starts_with(verb));
                let is_ansi = modes.contains(Modes::ANSI_QUOTES);
                let forms = quoted.iter().filter(|form| !any_expression || !is_ansi || !form.starts_with('"'));
                let forms = forms.chain(bare.iter().filter(|_| !any_expression));
                for form in forms {
                    let text = template.replace('§', form);
                    let found = digest(text.as_bytes(), &dialect);
                    assert!(!found.text.contains("Zecret9"), "{text}\n{}", found.text);
                }
            }
        }
    }
}

/// A column that is no password is still told.
#[test]
fn columns_called_password_hide_nothing() {
    let dialect = dialect(Family::MariaDb, Modes::empty());
    for text in [
        "SELECT id FROM users WHERE password = ? AND name = ?",
        "UPDATE users SET password = ?, changed = NOW() WHERE id = ?",
        "INSERT INTO users(name, password, mail) VALUES (...)",
        "ALTER TABLE users ADD password INT, ADD mail INT",
        "CREATE TABLE users(password INT, mail INT)",
    ] {
        assert_eq!(digest(text.as_bytes(), &dialect).text, text);
    }
}
