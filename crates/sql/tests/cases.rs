//! Runs the case files in `tests/cases`: SQL, then a line that says what it must be.
//!
//! ```text
//! %% a remark
//! @ mariadb 100600 modes=ANSI_QUOTES encoding=gbk     (what follows is read this way; `@ both` is the default)
//! SELECT 1
//! => select read
//! ```
//!
//! `{{bf5c}}` in SQL stands for those bytes. With `SQLUICE_UPDATE_CASES=1` the files are rewritten with what the code
//! answers now: read the difference before keeping it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use sqluice_sql::lexer::Lexer;
use sqluice_sql::{
    Access, Asks, Dialect, Effect, Encoding, Family, FunctionAccess, Functions, Hint, Leaves, Modes, Statement,
    TableName, TransactionStep, Value, Victim, classify, digest, digest_hash, encoding_of_charset, modes_from_sql_mode,
    tables,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Functions of the cases: their names tell their access.
struct Named;

impl Functions for Named {
    fn access(&self, _schema: Option<&str>, name: &str) -> FunctionAccess {
        match name.split('_').next() {
            Some("reads") => FunctionAccess::Reads,
            Some("writes") => FunctionAccess::Writes,
            _ => FunctionAccess::Unknown,
        }
    }

    fn leaves(&self, _schema: Option<&str>, name: &str) -> Leaves {
        if name.ends_with("_locks") { Leaves::USER_LOCKS } else { Leaves::empty() }
    }

    fn procedure_leaves(&self, _schema: Option<&str>, name: &str) -> Leaves {
        if name == "locks" { Leaves::USER_LOCKS } else { Leaves::empty() }
    }

    fn asks(&self, _schema: Option<&str>, name: &str) -> Asks {
        if name.ends_with("counts") { Asks::ROW_COUNT | Asks::LAST_INSERT_ID } else { Asks::empty() }
    }
}

const MARIADB: Dialect =
    Dialect { family: Family::MariaDb, version: 101119, modes: Modes::empty(), encoding: Encoding::Utf8 };
const MYSQL: Dialect =
    Dialect { family: Family::MySql, version: 80400, modes: Modes::empty(), encoding: Encoding::Utf8 };

struct Case {
    line: usize,
    dialects: Vec<Dialect>,
    sql: Vec<u8>,
    expected: String,
}

fn dialects(directive: &str) -> Option<Vec<Dialect>> {
    let mut words = directive.split_whitespace();
    let mut dialects = match words.next()? {
        "both" => vec![MARIADB, MYSQL],
        "mariadb" => vec![MARIADB],
        "mysql" => vec![MYSQL],
        _ => return None,
    };
    for word in words {
        for dialect in &mut dialects {
            match word.split_once('=') {
                Some(("modes", modes)) => dialect.modes = modes_from_sql_mode(modes),
                Some(("encoding", charset)) => dialect.encoding = encoding_of_charset(charset),
                Some(_) => return None,
                None => dialect.version = word.parse().ok()?,
            }
        }
    }
    Some(dialects)
}

fn bytes(sql: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("{{") {
        bytes.extend_from_slice(before.as_bytes());
        let (digits, after) = after.split_once("}}")?;
        for pair in digits.as_bytes().chunks(2) {
            bytes.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

fn parse(path: &Path, content: &str) -> Vec<Case> {
    let fail = |line: usize, why: &str| panic!("{}:{line}: {why}", path.display());
    let mut cases = Vec::new();
    let mut current = vec![MARIADB, MYSQL];
    let mut sql: Vec<&str> = Vec::new();
    let mut first = 0;
    for (index, line) in content.lines().enumerate() {
        let number = index + 1;
        if let Some(expected) = line.strip_prefix("=>") {
            if sql.is_empty() {
                fail(number, "an expectation without SQL");
            }
            let Some(sql) = bytes(&std::mem::take(&mut sql).join("\n")) else { fail(first, "bad bytes in {{ }}") };
            cases.push(Case { line: first, dialects: current.clone(), sql, expected: expected.trim().to_owned() });
        } else if sql.is_empty() && (line.is_empty() || line.starts_with("%%")) {
        } else if let Some(directive) = line.strip_prefix("@ ")
            && sql.is_empty()
        {
            match dialects(directive) {
                Some(dialects) => current = dialects,
                None => fail(number, "an unknown directive"),
            }
        } else {
            if sql.is_empty() {
                first = number;
            } else if line.is_empty() {
                fail(number, "SQL without an expectation");
            }
            sql.push(line);
        }
    }
    if !sql.is_empty() {
        fail(first, "SQL without an expectation");
    }
    cases
}

fn value(value: &Value) -> String {
    match value {
        Value::Literal(sql) => sql.clone(),
        Value::Default => "DEFAULT".to_owned(),
        Value::Unknown => "?".to_owned(),
    }
}

fn leaves(leaves: Leaves) -> String {
    let names: Vec<String> = leaves.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    names.join(",")
}

fn effect(effect: &Effect) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".to_owned());
    match effect {
        Effect::Schema(schema) => format!("schema {schema}"),
        Effect::Variable { name, value: to } => format!("var {name} = {}", value(to)),
        Effect::GlobalVariable { name } => format!("global {name}"),
        Effect::Names { charset, collation } => {
            let collate = collation.as_ref().map(|name| format!(" collate {name}")).unwrap_or_default();
            format!("names {}{collate}", charset.as_deref().unwrap_or("DEFAULT"))
        }
        Effect::CharacterSet(charset) => format!("charset {}", charset.as_deref().unwrap_or("DEFAULT")),
        Effect::UserVariable { name, value: to } => format!("@{name} = {}", value(to)),
        Effect::TransactionCharacteristics { session, read_only, isolation } => {
            let mut text = (if *session { "session-tx" } else { "next-tx" }).to_owned();
            if let Some(read_only) = read_only {
                text.push_str(if *read_only { " read-only" } else { " read-write" });
            }
            if let Some(isolation) = isolation {
                let _ = write!(text, " {isolation}");
            }
            text
        }
        Effect::CreateTemporaryTable(name) => format!("create-temporary {name}"),
        Effect::DropTable { names, temporary } => {
            format!("drop{} {}", if *temporary { "-temporary" } else { "" }, names.join(","))
        }
        Effect::LockTables(kind) => format!("lock {kind:?}").to_lowercase(),
        Effect::UnlockTables(kind) => format!("unlock {kind:?}").to_lowercase(),
        Effect::TakeUserLock(lock) => format!("take-lock {}", name(lock)),
        Effect::ReleaseUserLock(lock) => format!("release-lock {}", name(lock)),
        Effect::ReleaseAllUserLocks { surely } => format!("release-all-locks{}", if *surely { "!" } else { "" }),
        Effect::Leaves(what) => format!("leaves {}", leaves(*what)),
        Effect::OpenHandler(name) => format!("open-handler {name}"),
        Effect::CloseHandler(name) => format!("close-handler {name}"),
        Effect::XaStart => "xa-start".to_owned(),
        Effect::XaEnd { finished } => (if *finished { "xa-finished" } else { "xa-end" }).to_owned(),
        Effect::PrepareText { name: to, text, leaves: what, announces, reads, defines } => {
            let left = if what.is_empty() { String::new() } else { format!(" leaves {}", leaves(*what)) };
            let announces = if *announces { " announces" } else { "" };
            let kind = if *reads {
                " reads"
            } else if *defines {
                " defines"
            } else {
                ""
            };
            format!("prepare {to} = {}{left}{announces}{kind}", name(text))
        }
        Effect::ExecuteText { name } => format!("execute {}", if name.is_empty() { "?" } else { name }),
        Effect::DeallocateText { name } => format!("deallocate {name}"),
        Effect::WhileRunning { name } => format!("while-running:{name}"),
        Effect::FlushUserVariables => "flush-user-variables".to_owned(),
        Effect::CalcFoundRows => "calc-found-rows".to_owned(),
        Effect::CountsConnection => "counts-connection".to_owned(),
        Effect::Kill { query_only, soft, victim } => {
            let whom = match victim {
                Victim::Connection(id) => id.to_string(),
                Victim::Own => "own".to_owned(),
                Victim::UserVariable(name) => format!("@{name}"),
                Victim::Parameter => "parameter".to_owned(),
                Victim::Query => "query".to_owned(),
                Victim::Computed => "?".to_owned(),
                Victim::User { name: user, host } => {
                    format!("user {}@{}", name(user), host.as_deref().unwrap_or("?"))
                }
            };
            let (query, soft) = (if *query_only { "-query" } else { "" }, if *soft { "-soft" } else { "" });
            format!("kill{soft}{query} {whom}")
        }
        Effect::Role { text } => format!("text {text}"),
        Effect::MayChangeSession => "may-change-session".to_owned(),
    }
}

fn statement(statement: &Statement) -> String {
    let mut line = format!("{:?}", statement.kind).to_lowercase();
    match statement.access {
        Access::Read => line.push_str(" read"),
        Access::Primary(why) => {
            let _ = write!(line, " {why:?}");
        }
    }
    match statement.transaction {
        None => {}
        Some(TransactionStep::Begin { read_only, snapshot }) => {
            line.push_str(" [begin");
            if let Some(read_only) = read_only {
                line.push_str(if read_only { " read-only" } else { " read-write" });
            }
            line.push_str(if snapshot { " snapshot]" } else { "]" });
        }
        Some(TransactionStep::Commit { chain, release } | TransactionStep::Rollback { chain, release }) => {
            let commit = matches!(statement.transaction, Some(TransactionStep::Commit { .. }));
            line.push_str(if commit { " [commit" } else { " [rollback" });
            line.push_str(if chain { " chain" } else { "" });
            line.push_str(match release {
                Some(true) => " release]",
                Some(false) => " no-release]",
                None => "]",
            });
        }
        Some(TransactionStep::Savepoint) => line.push_str(" [savepoint]"),
        Some(TransactionStep::ImplicitCommit) => line.push_str(" [implicit-commit]"),
    }
    for (name, _) in statement.asks.iter_names() {
        let _ = write!(line, " asks:{name}");
    }
    match &statement.hint {
        None => {}
        Some(Hint::Primary) => line.push_str(" hint:primary"),
        Some(Hint::Replica) => line.push_str(" hint:replica"),
        Some(Hint::Consistency(level)) => {
            write!(line, " hint:consistency={}", format!("{level:?}").to_lowercase()).unwrap()
        }
        Some(Hint::Server(name)) => {
            let _ = write!(line, " hint:server={name}");
        }
    }
    if statement.parts != 1 {
        let _ = write!(line, " parts:{}", statement.parts);
    }
    if !statement.effects.is_empty() {
        let effects: Vec<String> = statement.effects.iter().map(effect).collect();
        let _ = write!(line, " | {}", effects.join("; "));
    }
    line
}

fn normalised(sql: &[u8], dialect: &Dialect) -> String {
    let digest = digest(sql, dialect);
    assert_eq!(digest.hash, digest_hash(sql, dialect));
    digest.text
}

fn tokens(sql: &[u8], dialect: &Dialect) -> String {
    let words: Vec<String> = Lexer::new(sql, dialect)
        .map(|token| format!("{:?} {}", token.kind, String::from_utf8_lossy(token.bytes(sql)).replace('\n', "\\n")))
        .collect();
    words.join(" | ")
}

fn named(sql: &[u8], dialect: &Dialect) -> String {
    let tables = match tables(sql, dialect) {
        Ok(tables) => tables,
        Err(unread) => return format!("unread {:?}", unread.reason),
    };
    let qualified = |schema: &Option<Box<str>>, name: &str| {
        schema.as_ref().map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"))
    };
    let of_tables = |names: &[TableName]| -> Vec<String> {
        names.iter().map(|table| qualified(&table.schema, &table.name)).collect()
    };
    let functions: Vec<String> =
        tables.functions.iter().map(|function| qualified(&function.schema, &function.name)).collect();
    let mut line = Vec::new();
    for (letter, names) in [("r", of_tables(&tables.read)), ("w", of_tables(&tables.written)), ("f", functions)] {
        if !names.is_empty() {
            line.push(format!("{letter}:{}", names.join(",")));
        }
    }
    if tables.defines {
        line.push("defines".to_owned());
    }
    line.join(" ")
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// Runs every case of a folder; at least `least` must be there, so that a lost file is noticed.
fn run(folder: &str, least: usize, answer: fn(&[u8], &Dialect) -> String) {
    let update = std::env::var_os("SQLUICE_UPDATE_CASES").is_some();
    let mut count = 0;
    let mut failures = String::new();
    for path in files(folder) {
        let content = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
        for case in parse(&path, &content) {
            count += 1;
            for dialect in &case.dialects {
                let found = answer(&case.sql, dialect);
                if found.trim_end() == case.expected {
                    continue;
                }
                if update {
                    let at = (case.line..).find(|&at| lines[at].starts_with("=>")).unwrap();
                    lines[at] = format!("=> {found}");
                    continue;
                }
                let sql = String::from_utf8_lossy(&case.sql).into_owned();
                let _ = writeln!(
                    failures,
                    "{}:{} ({:?}): {sql}\n  expected {}\n  found    {found}",
                    path.display(),
                    case.line,
                    dialect.family,
                    case.expected
                );
            }
        }
        if update {
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(count >= least, "only {count} cases in {folder}, at least {least} expected");
    println!("{folder}: {count} cases");
}

#[test]
fn statements_are_classified() {
    run("classify", 600, |sql, dialect| statement(&classify(sql, dialect, &Named)));
}

#[test]
fn statements_are_normalised() {
    run("digest", 40, normalised);
}

#[test]
fn texts_are_split_into_tokens() {
    run("lexer", 60, tokens);
}

#[test]
fn tables_are_named() {
    run("tables", 150, named);
}
