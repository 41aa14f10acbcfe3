//! The log of transactions, and the obstacles to a replay.

use std::rc::Rc;

use sql::{Dialect, Encoding, Family, Modes, NoFunctions};
use wire::exchange::Expect;

use super::*;
use crate::error::Refusal;

const LIMITS: Limits = Limits { bytes_max: 1 << 20, statements_max: 10 };

fn log() -> TransactionLog {
    log_within(LIMITS)
}

fn log_within(limits: Limits) -> TransactionLog {
    log_of(&Pins::default(), limits)
}

fn log_of(pins: &Pins, limits: Limits) -> TransactionLog {
    TransactionLog::new((&Arc::default(), 0), &Target::Pinned, pins, limits)
}

fn query<'r>(request: &'r Request, text: &str) -> Query<'r> {
    let dialect =
        Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
    let statement = Rc::new(sql::classify(text.as_bytes(), &dialect, &NoFunctions));
    Query::new(request, Command::Query, statement, Body::AsCame, Expect::Results)
}

fn note(log: &mut TransactionLog, text: &str) {
    note_outcome(log, text, &Outcome::default());
}

fn note_outcome(log: &mut TransactionLog, text: &str, outcome: &Outcome) {
    let mut packets = Vec::new();
    packet::append(&mut packets, 0, &[&[3], text.as_bytes()].concat());
    let request = Request::again(&packets, 0);
    log.note((&query(&request, text), outcome), None, (&Arc::default(), 0));
}

fn texts(log: &TransactionLog) -> Vec<String> {
    let text = |entry| String::from_utf8_lossy(&log.request(entry).payload()[1..]).into_owned();
    log.entries().iter().map(text).collect()
}

#[test]
fn a_transaction_is_kept_from_what_announces_it_to_its_end() {
    let mut log = log();
    for text in ["SET TRANSACTION READ WRITE", "BEGIN", "SELECT 1", "SAVEPOINT a"] {
        note(&mut log, text);
    }
    assert_eq!(texts(&log), ["SET TRANSACTION READ WRITE", "BEGIN", "SELECT 1", "SAVEPOINT a"]);
    assert!(!log.wrote);
    note(&mut log, "INSERT INTO t VALUES (17)");
    assert!(log.wrote && log.holds_behind(3, 17) && !log.holds_behind(4, 17));
    note(&mut log, "COMMIT AND CHAIN");
    assert_eq!(texts(&log), ["SET TRANSACTION READ WRITE", "BEGIN"]);
    assert!(!log.wrote && log.obstacle().is_none());
    note(&mut log, "INSERT INTO t VALUES (1)");
    note(&mut log, "BEGIN");
    assert_eq!(texts(&log), ["BEGIN"], "what was open is committed");
}

#[test]
fn a_transaction_that_is_too_long_costs_nothing_more() {
    for limits in [Limits { statements_max: 2, ..LIMITS }, Limits { bytes_max: 1500, ..LIMITS }] {
        let mut log = log_within(limits);
        note(&mut log, "BEGIN");
        for _ in 0..20 {
            note(&mut log, &format!("SELECT '{}'", "x".repeat(100)));
        }
        assert!(log.obstacle().is_some_and(|why| why.contains("_max)")), "{:?}", log.obstacle());
        assert!(log.bytes.capacity() == 0 && log.entries.capacity() == 0);
        note(&mut log, "BEGIN");
        assert!(log.obstacle().is_none(), "the next one is kept");
    }
}

#[test]
fn what_cannot_be_run_again_is_an_obstacle() {
    for (text, why) in [
        ("CALL p()", "CALL"),
        ("SELECT GET_LOCK('a', 1)", "a user lock"),
        ("SELECT a INTO OUTFILE '/tmp/a' FROM t", "a file"),
        ("CREATE TEMPORARY TABLE x (a INT)", "a temporary table"),
        ("SET @@sort_buffer_size = @@sort_buffer_size + 1", "only the server knows"),
        ("LOAD DATA LOCAL INFILE 'a' INTO TABLE t", "LOAD DATA LOCAL"),
        ("EXECUTE s", "PREPARE or EXECUTE"),
        ("INSERT INTO t VALUES (1); COMMIT; BEGIN", "several statements"),
        ("gibberish", "unknown form"),
    ] {
        let mut log = log();
        note(&mut log, "BEGIN");
        note(&mut log, text);
        assert!(log.obstacle().is_some_and(|found| found.contains(why)), "{text}: {:?}", log.obstacle());
    }
    for text in [
        "SELECT NOW()",
        "SET @a = 1, sql_mode = ''",
        "SET @a = (SELECT MAX(a) FROM t)",
        "SELECT a INTO @a FROM t LIMIT 1",
        "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)",
        "UPDATE t SET a = 1 LIMIT 1",
        "USE app",
    ] {
        let mut log = log();
        note(&mut log, "BEGIN");
        note(&mut log, text);
        assert_eq!(log.obstacle(), None, "{text}");
    }
    let mut log = log();
    let refusal = Refusal { code: 1205, sqlstate: *b"HY000", message: String::new() };
    note_outcome(&mut log, "SELECT 1", &Outcome { error: Some(refusal), ..Outcome::default() });
    assert!(log.obstacle().is_some_and(|why| why.contains("timeout")));
}

#[test]
fn a_session_that_is_pinned_already_has_more_to_lose() {
    let mut pins = Pins::default();
    pins.put(Pin::FoundRows, true);
    assert!(log_of(&pins, LIMITS).obstacle().is_none());
    pins.put(Pin::Handler, true);
    assert!(log_of(&pins, LIMITS).obstacle().is_some());
    assert!(!is_whole_with(&pins));
    pins.put(Pin::Handler, false);
    pins.put(Pin::Transaction, true);
    assert!(is_whole_with(&pins));
    pins.hidden_user_variables(true);
    assert!(!is_whole_with(&pins));
}
