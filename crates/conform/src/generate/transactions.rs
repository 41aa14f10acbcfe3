//! Transactions: those that are begun, those of XA, and the characteristics that the next one is to have.

use super::{Generator, Idea, queries, query};

impl Generator {
    pub(super) fn transactions(&mut self) -> Idea {
        let (table, me, number) = (self.table(), self.me, self.fresh());
        let write = format!("INSERT INTO {table} (k, v) VALUES ({}, 'trx')", 300_000 + number);
        let read = format!("SELECT * FROM {table} ORDER BY id");
        let which = self.random.below(19);
        let mut idea = match which {
            7..=9 => without_autocommit(which, write, read),
            12 | 13 => with_characteristics(which, &table, write, read),
            14 | 15 => of_xa(which, number, write, read),
            16.. => with_session_state(which, write, read),
            _ => begun(which, &table, &format!("{{a}}.z{me}_{number}"), write, read),
        };
        if self.random.once_in(8) {
            idea.pop();
        }
        idea
    }

    /// Characteristics of the next transaction, and what uses them up.
    pub(super) fn next_transaction(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let characteristics = self.one_of(&[
            "SET TRANSACTION READ ONLY",
            "SET TRANSACTION READ ONLY",
            "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
            "SET TRANSACTION READ WRITE",
            if self.family == lab::Family::MySql {
                "SET @@transaction_read_only = 1"
            } else {
                "SET TRANSACTION READ ONLY; SELECT 1"
            },
        ]);
        let mut idea = self.sent(characteristics);
        for _ in 0..self.random.below(3) {
            idea.extend(self.between());
        }
        let write = match self.random.below(4) {
            0 => format!("DELETE FROM {table} WHERE k = {number}"),
            1 => format!("UPDATE {table} SET n = 1 WHERE k = 1"),
            _ => format!("INSERT INTO {table} (k) VALUES ({})", 700_000 + number),
        };
        idea.extend(self.sent(write));
        idea
    }

    pub(super) fn savepoints(&mut self) -> Idea {
        let table = self.table();
        let mut idea = Vec::new();
        match self.random.below(4) {
            0 | 1 => idea.push(query("SET autocommit = 0")),
            2 => idea.push(query("BEGIN")),
            _ => {}
        }
        for _ in 0..3 + self.random.below(6) {
            let number = self.fresh();
            let name = self.one_of(&["a", "a", "b", "c"]);
            let sql = match self.random.below(14) {
                0..=3 => format!("SAVEPOINT {name}"),
                4 | 5 => format!("ROLLBACK TO {name}"),
                6 => format!("RELEASE SAVEPOINT {name}"),
                7..=9 => format!("INSERT INTO {table} (k) VALUES ({})", 900_000 + number),
                10 => format!("SELECT MAX(k) FROM {table}"),
                11 => "SELECT 1".into(),
                12 => format!("INSERT INTO {table} (k) VALUES (1)"),
                _ => {
                    idea.extend(self.between());
                    continue;
                }
            };
            idea.extend(self.sent(sql));
        }
        let end =
            self.one_of(&["COMMIT", "COMMIT", "ROLLBACK", "SET autocommit = 1", "ROLLBACK AND CHAIN", "SELECT 1"]);
        idea.push(query(end));
        idea.push(query(format!("SELECT COUNT(*), MAX(k) FROM {table}")));
        if self.random.below(4) > 0 {
            idea.push(query("SET autocommit = 1"));
        }
        idea
    }

    /// Read-only transactions, in which replicas answer, and what ends that.
    pub(super) fn read_only(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let mut idea = queries([
            self.one_of(&["START TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY; BEGIN"]),
            format!("SELECT COUNT(*) FROM {table}"),
        ]);
        for _ in 0..1 + self.random.below(2) {
            let sql = match self.random.below(10) {
                0 => "SET @c = CONNECTION_ID()".into(),
                1 => "SELECT @c := n FROM {a}.shared WHERE id = 1".into(),
                2 => format!("LOCK TABLE {table} WRITE"),
                3 => "SELECT GET_LOCK('{a}_l1', 0)".into(),
                4 => format!("UPDATE {table} SET v = 'r' WHERE k = 1"),
                5 => "CREATE TEMPORARY TABLE {a}.tmp (id INT)".into(),
                6 => format!("SELECT * FROM {table} WHERE k = 1 FOR UPDATE"),
                7 => "SAVEPOINT a".into(),
                8 => format!("SET @zz = {number}"),
                _ => {
                    idea.extend(self.between());
                    continue;
                }
            };
            idea.extend(self.sent(sql));
        }
        let end = self.one_of(&["COMMIT", "ROLLBACK", "UNLOCK TABLES", "BEGIN", "SELECT @c IS NULL"]);
        idea.push(query(end));
        idea.extend(queries(["UNLOCK TABLES".into(), "COMMIT".into()]));
        idea.push(query(format!("INSERT INTO {table} (k) VALUES ({})", 1_300_000 + number)));
        idea
    }
}

/// Transactions that BEGIN and its like open; one of them makes the table `made`.
fn begun(which: usize, table: &str, made: &str, write: String, read: String) -> Idea {
    match which {
        0 => queries(["BEGIN".into(), write, read, "COMMIT".into()]),
        1 => queries(["START TRANSACTION".into(), write, "ROLLBACK".into(), read]),
        2 => queries(["START TRANSACTION READ ONLY".into(), read, write, "COMMIT".into()]),
        3 => queries(["START TRANSACTION WITH CONSISTENT SNAPSHOT".into(), read, write, "COMMIT".into()]),
        4 => queries([
            "BEGIN WORK".into(),
            write,
            "SAVEPOINT a".into(),
            format!("DELETE FROM {table} WHERE k = 1"),
            "ROLLBACK TO a".into(),
            read,
            "RELEASE SAVEPOINT a".into(),
            "COMMIT".into(),
        ]),
        5 => queries(["BEGIN".into(), write, "COMMIT AND CHAIN".into(), read, "ROLLBACK AND NO CHAIN".into()]),
        6 => queries([
            "BEGIN".into(),
            write,
            format!("CREATE TABLE {made} (id INT)"),
            "SELECT 1".into(),
            "ROLLBACK".into(),
            format!("DROP TABLE {made}"),
        ]),
        10 => queries(["BEGIN".into(), "SELEC 1".into(), write, "BEGIN".into(), read, "COMMIT".into()]),
        _ => queries(["BEGIN; SELECT 1".into(), format!("{write}; COMMIT; {read}")]),
    }
}

/// Transactions that no statement opens.
fn without_autocommit(which: usize, write: String, read: String) -> Idea {
    match which {
        7 => queries([
            "SET autocommit = 0".into(),
            read.clone(),
            write,
            "COMMIT".into(),
            read,
            "SET autocommit = 1".into(),
        ]),
        8 => queries(["SET autocommit = 0".into(), write, "SET autocommit = 1".into(), read]),
        _ => queries([
            "SET autocommit = 0".into(),
            "SELECT 1".into(),
            "SELECT nosuch".into(),
            write,
            "ROLLBACK".into(),
            read,
            "SET @@autocommit = ON".into(),
        ]),
    }
}

/// Transactions with characteristics that were set ahead of them.
fn with_characteristics(which: usize, table: &str, write: String, read: String) -> Idea {
    match which {
        12 => queries([
            "SET TRANSACTION READ ONLY".into(),
            "BEGIN".into(),
            write,
            "ROLLBACK".into(),
            format!("UPDATE {table} SET n = 1 WHERE k = 1"),
        ]),
        _ => queries([
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED".into(),
            "START TRANSACTION".into(),
            read,
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE".into(),
            "COMMIT".into(),
        ]),
    }
}

/// Transactions of XA: one that is prepared and committed, one that is rolled back.
fn of_xa(which: usize, number: u32, write: String, read: String) -> Idea {
    match which {
        14 => queries([
            format!("XA START '{{a}}x{number}'"),
            write,
            format!("XA END '{{a}}x{number}'"),
            format!("XA PREPARE '{{a}}x{number}'"),
            format!("XA COMMIT '{{a}}x{number}'"),
            read,
        ]),
        _ => queries([
            format!("XA BEGIN '{{a}}y{number}'"),
            write,
            read.clone(),
            format!("XA END '{{a}}y{number}'"),
            "SELECT 1".into(),
            format!("XA ROLLBACK '{{a}}y{number}'"),
            read,
        ]),
    }
}

/// Transactions that ask for the state of their session, or change it.
fn with_session_state(which: usize, write: String, read: String) -> Idea {
    match which {
        16 => queries([
            "BEGIN".into(),
            write,
            "SELECT LAST_INSERT_ID(), ROW_COUNT()".into(),
            "SHOW WARNINGS".into(),
            "COMMIT".into(),
            "SELECT LAST_INSERT_ID()".into(),
        ]),
        17 => queries([
            "BEGIN".into(),
            read,
            "USE {b}".into(),
            write,
            "SET @in_transaction = 4".into(),
            "COMMIT".into(),
            "SELECT DATABASE(), @in_transaction".into(),
        ]),
        _ => queries([
            "BEGIN".into(),
            write,
            "SET sql_mode = 'ANSI_QUOTES'".into(),
            "SELECT \"v\" FROM {a}.shared WHERE id = 1".into(),
            "ROLLBACK".into(),
            "SELECT @@sql_mode".into(),
        ]),
    }
}
