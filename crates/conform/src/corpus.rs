//! Scripts of statements that other people wrote: MariaDB's own tests, two at a time, in sessions that share one connection.
//!
//! The random scripts of [`crate::generate`] try the statements that their author thought of. These files try what a server's authors
//! thought of. Their programs of `if` and `while` are not followed: a file counts up to the first of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::random::Random;
use crate::script::{Script, escape};

/// The tests of Debian's package mariadb-test-data.
pub const FOLDER: &str = "/usr/share/mysql/mysql-test/main";
/// Most statements of one file in a script.
const STATEMENTS_MAX: usize = 60;
/// Fewer make no script.
const STATEMENTS_MIN: usize = 8;
/// A longer text is none of these: its end was missed.
const TEXT_BYTES_MAX: usize = 3000;
/// Statements that are run at a time, at most, before the other session goes on.
const RUN_MAX: usize = 4;

/// Files with these in their names disturb the server, other sessions or replication, or take long.
#[rustfmt::skip]
const FILES_LEFT_OUT: &[&str] = &[
    "backup", "big", "binlog", "bootstrap", "crash", "debug", "event", "flush", "grant", "init", "kill", "lock_", "log", "long",
    "merge", "mysqld", "mysqlcheck", "mysql_", "opt_trace", "partition_", "passw", "perf", "plugin", "repl", "restart", "shutdown",
    "slow", "ssl", "stat_tables", "status", "upgrade", "user", "wait",
];

/// Statements begin with one of these.
#[rustfmt::skip]
const BEGINNINGS: &[&str] = &[
    "alter", "begin", "call", "commit", "create", "deallocate", "delete", "desc", "describe", "do", "drop", "execute", "get", "handler",
    "insert", "lock", "prepare", "release", "replace", "resignal", "rollback", "savepoint", "select", "set", "show", "signal", "start",
    "table", "truncate", "unlock", "update", "use", "values", "with",
];

/// Statements with one of these words differ from server to server or from run to run, or change more than their sessions.
#[rustfmt::skip]
const WORDS_LEFT_OUT: &[&str] = &[
    "analyze", "backup", "benchmark", "binary logs", "change master", "checksum", "connection_id", "create database", "create event", "create role", "create schema", "create server", "create user", "curdate", "current_date", "current_role",
    "current_time", "current_timestamp", "current_user", "curtime", "databases", "datadir", "deadlock", "drop database",
    "drop schema", "drop user", "dumpfile", "engine_", "event", "explain", "federated", "flush", "get_lock", "global", "grant",
    "handler_", "hostname", "information_schema", "innodb_", "install", "kill", "last_query_cost", "load data", "load_file",
    "localtime", "localtimestamp", "lock_wait", "max_session_mem_used", "mysql.", "mysqltest", "now", "open tables", "optimize",
    "optimizer_trace", "outfile", "performance_schema", "plugin", "processlist", "profil", "purge", "rand", "rename user", "repair",
    "reset", "revoke", "rownum", "schemas", "server_", "set password", "set role", "show create event", "show create function",
    "show create procedure", "show create trigger", "show engine", "show function", "show index", "show keys", "show procedure",
    "show table status", "show triggers", "shutdown", "slave", "sleep", "status", "sysdate", "timestamp =", "timestamp=", "tmpdir",
    "uninstall", "unix_timestamp", "user(", "utc_date", "utc_time", "utc_timestamp", "uuid", "version", "xa",
];

/// Scripts of these seeds, by their names.
///
/// # Errors
/// The tests are not there, or a script cannot be made of them.
pub fn scripts(first: u64, count: u64) -> anyhow::Result<Vec<(String, Script)>> {
    let files = files(Path::new(FOLDER))?;
    (first..first + count).map(|seed| Ok((format!("corpus-{seed}"), script(seed, &files)?))).collect()
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("{} is not there: install Debian's package mariadb-test-data", folder.display()))?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    files.retain(|path| !FILES_LEFT_OUT.iter().any(|part| name(path).contains(part)));
    files.sort();
    Ok(files)
}

/// Two files, each in a session and a schema of its own, some statements of one and then some of the other.
fn script(seed: u64, files: &[PathBuf]) -> anyhow::Result<Script> {
    /// More files without statements in a row are no accident.
    const TRIES_MAX: usize = 1000;
    let mut random = Random::new(seed);
    let mut of = Vec::new();
    for _ in 0..TRIES_MAX {
        if of.len() == 2 || files.is_empty() {
            break;
        }
        let file = &files[random.below(files.len())];
        let text = String::from_utf8_lossy(&std::fs::read(file)?).into_owned();
        let mut statements = statements(&text);
        statements.truncate(STATEMENTS_MAX);
        if statements.len() >= STATEMENTS_MIN {
            of.push((file, statements.into_iter()));
        }
    }
    let [(one, ones), (other, others)] = &mut of[..] else { bail!("too few tests with statements") };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let split = if random.once_in(2) { "auto" } else { "primary" };
    let mut text = format!("# {} {}\nsplit {split}\npool one\n", name(one), name(other));
    if random.once_in(2) {
        text.push_str("pipelines always\n");
    }
    text.push_str("1: USE {a}\n2: USE {b}\n");
    while ones.len() + others.len() > 0 {
        let (session, schema, from) = if random.once_in(2) { (1, "{a}", &mut *ones) } else { (2, "{b}", &mut *others) };
        for statement in from.by_ref().take(1 + random.below(RUN_MAX)) {
            text.push_str(&format!("{session}: {}\n", escape(in_schema(&statement, schema).as_bytes())));
        }
    }
    Script::parse(&text)
}

/// The tests' own schema is the session's.
fn in_schema(statement: &str, schema: &str) -> String {
    let words = statement.to_ascii_lowercase();
    if words.split_whitespace().eq(["use", "test"]) {
        return format!("USE {schema}");
    }
    statement.replace("test.", &format!("{schema}."))
}

/// The statements of a test that tell something here, up to the first line that is a program.
fn statements(test: &str) -> Vec<String> {
    let (mut found, mut text, mut delimiter) = (Vec::new(), String::new(), String::from(";"));
    for line in test.lines() {
        let words = line.trim();
        if text.is_empty() {
            if words.is_empty() || words.starts_with(['#', '-']) {
                continue;
            }
            if let Some(other) = words.strip_prefix("delimiter ").or_else(|| words.strip_prefix("DELIMITER ")) {
                let other =
                    other.trim().strip_suffix(delimiter.as_str()).filter(|rest| !rest.is_empty()).unwrap_or(other);
                other.trim().clone_into(&mut delimiter);
                continue;
            }
            if words.starts_with(['{', '}']) || words.starts_with("if") || words.starts_with("while") {
                break;
            }
        }
        text.push_str(line);
        if let Some(statement) =
            words.strip_suffix(delimiter.as_str()).and(text.trim().strip_suffix(delimiter.as_str()))
        {
            found.extend(Some(statement.trim().to_owned()).filter(|statement| tells(statement)));
            text.clear();
        } else if text.len() > TEXT_BYTES_MAX {
            break;
        } else {
            text.push('\n');
        }
    }
    found
}

/// Whether a statement is one, and shows the same on every server and in every run.
fn tells(statement: &str) -> bool {
    let words = statement.to_ascii_lowercase();
    let first = words.split(|character: char| !character.is_ascii_alphabetic()).next().unwrap_or_default();
    let readable = !statement.contains(['$', '{', '}', '\u{fffd}']);
    BEGINNINGS.contains(&first) && readable && !WORDS_LEFT_OUT.iter().any(|word| has_word(&words, word))
}

/// Whether a word begins somewhere in a text; where it ends with a letter, it ends there, too.
fn has_word(text: &str, word: &str) -> bool {
    let letter = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let goes_on = letter(word.as_bytes().last()) && !word.ends_with('_') && letter(bytes.get(at + word.len()));
        !letter(at.checked_sub(1).and_then(|before| bytes.get(before))) && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "--echo a test\nSELECT 1;\nselect now();\nSELECT nowhere\n  FROM t;\ndelimiter |;\nCREATE PROCEDURE p()\n\
                        BEGIN SELECT 1; END|\ndelimiter ;|\nCALL p();\nlet $i=1;\nSELECT $i;\nif ($i)\n{\nSELECT 2;\n}\n";

    #[test]
    fn statements_of_a_test_count_up_to_its_program() {
        let expected =
            ["SELECT 1", "SELECT nowhere\n  FROM t", "CREATE PROCEDURE p()\nBEGIN SELECT 1; END", "CALL p()"];
        assert_eq!(statements(TEST), expected);
    }

    #[test]
    fn words_are_left_out_as_whole_words() {
        assert!(tells("SELECT a FROM known") && !tells("SELECT NOW()") && !tells("LOAD DATA INFILE 'x'"));
        assert!(!tells("SET @@global.x = 1") && !tells("SELECT @@innodb_x") && tells("SELECT xa_y"));
    }

    #[test]
    fn the_tests_schema_is_the_sessions() {
        assert_eq!(in_schema("use test", "{a}"), "USE {a}");
        assert_eq!(in_schema("SELECT * FROM test.t1", "{b}"), "SELECT * FROM {b}.t1");
    }

    #[test]
    fn a_seed_makes_one_script() {
        let folder = std::env::temp_dir().join(format!("sqluice-corpus-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "SELECT 1;\n".repeat(STATEMENTS_MIN);
        ["one.test", "two.test", "big.test", "one.txt"]
            .iter()
            .for_each(|name| std::fs::write(folder.join(name), &text).unwrap());
        let files = files(&folder).unwrap();
        assert_eq!(files.len(), 2);
        let again = || script(7, &files).unwrap().to_string();
        assert_eq!(again(), again());
        assert!(script(7, &[]).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
