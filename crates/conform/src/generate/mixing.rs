//! State that begins in one way and ends in another: in statements that set it for themselves alone, in texts that fail halfway, in
//! expressions that lock, on connections that are reset or change their user in the midst. For MariaDB.

use super::{Generator, Idea, queries, query};
use crate::script::{Action, Value};

impl Generator {
    pub(super) fn mixing(&mut self) -> Idea {
        match self.random.below(6) {
            0 => self.ended_in_the_midst(),
            1 => self.for_one_statement(),
            2 => self.halfway(),
            3 => self.locks_in_expressions(),
            4 => self.messages_between(),
            _ => self.unscoped(),
        }
    }

    /// Something that keeps the connection, and a reset or a change of the user while it does.
    fn ended_in_the_midst(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let name = format!("s{number}");
        let prepare = |sql: String| Action::Prepare(name.clone(), sql.into_bytes());
        let open = Action::Execute { name: name.clone(), cursor: true, again: false, values: Vec::new() };
        let mut idea = match self.random.below(10) {
            0 => queries(["BEGIN".into(), format!("INSERT INTO {table} (k) VALUES ({})", 3_000_000 + number)]),
            1 => queries(["SELECT GET_LOCK('{a}_l1', 0)".into()]),
            2 => queries([format!("LOCK TABLES {table} WRITE")]),
            3 => queries(["CREATE TEMPORARY TABLE {a}.tmp (id INT)".into()]),
            4 => queries(["PREPARE p1 FROM 'SELECT 1'".into()]),
            5 => queries([format!("SET insert_id = {}", 20_000 + number * 10)]),
            6 => queries(["SET TRANSACTION READ ONLY".into()]),
            7 => queries([format!("HANDLER {table} OPEN AS h1")]),
            8 => vec![prepare(format!("SELECT id, v FROM {table} ORDER BY id")), open, Action::Fetch(name.clone(), 1)],
            _ => queries(["SELECT 1/0".into(), format!("SET @x = {number}, sql_mode = 'ANSI_QUOTES'")]),
        };
        idea.push(match self.random.below(3) {
            0 => Action::Reset,
            1 => Action::ChangeUser(Some("{a}".into()), None),
            _ => Action::ChangeUser(None, None),
        });
        let ask = self.one_of(&[
            "SELECT @@in_transaction, @@insert_id, @x, @@sql_mode, LAST_INSERT_ID()",
            "SELECT IS_FREE_LOCK('{a}_l1'), ROW_COUNT(), FOUND_ROWS()",
            "SELECT * FROM {a}.tmp",
            "EXECUTE p1",
            "HANDLER h1 READ FIRST",
            "SHOW WARNINGS",
        ]);
        idea.push(query(ask));
        idea.push(query(format!("INSERT INTO {table} (k) VALUES ({})", 3_100_000 + number)));
        idea
    }

    /// SET STATEMENT … FOR.
    fn for_one_statement(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let sets = self.one_of(&[
            "timestamp = 1000000000",
            "last_insert_id = 77",
            "sql_mode = 'ANSI_QUOTES'",
            "time_zone = '+01:00'",
            "tx_read_only = 1",
            "tx_isolation = 'SERIALIZABLE'",
            "autocommit = 0",
            "max_error_count = 0",
            "sort_buffer_size = 65536, max_statement_time = 9",
            "rand_seed1 = 5, rand_seed2 = 6",
            "foreign_key_checks = 0, unique_checks = 0",
            "sql_select_limit = 1",
        ]);
        let statement = match self.random.below(10) {
            0 => format!("INSERT INTO {table} (k) VALUES ({})", 3_200_000 + number),
            1 => "SELECT nosuch".into(),
            2 => "BEGIN".into(),
            3 => format!("SET @x = {number}"),
            4 => "SELECT RAND() > 2, 1/0".into(),
            5 => "CALL {lib}.p_variable(5)".into(),
            6 => format!("SELECT id FROM {table} ORDER BY id"),
            7 => "SET SESSION group_concat_max_len = 512".into(),
            8 => "PREPARE p1 FROM 'SELECT @@sql_mode'".into(),
            _ => format!("UPDATE {table} SET v = 's' WHERE k = 1"),
        };
        let mut idea = self.sent(format!("SET STATEMENT {sets} FOR {statement}"));
        idea.push(query(
            "SELECT @@sql_mode, @@time_zone, @@autocommit, @@tx_read_only, @@tx_isolation, @@sort_buffer_size",
        ));
        idea.push(query("SELECT NOW() > '2026-01-01', LAST_INSERT_ID(), @@in_transaction, @x"));
        idea.push(query("COMMIT"));
        idea
    }

    /// A text of several changes that fails behind some of them.
    fn halfway(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let mut parts = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            parts.push(match self.random.below(14) {
                0 => format!("SET @x = {number}"),
                1 => "SET sql_mode = 'ANSI_QUOTES'".into(),
                2 => "SET time_zone = '+04:00', @u = 5".into(),
                3 => "SET @@sort_buffer_size = 70000".into(),
                4 => "USE {b}".into(),
                5 => "SET NAMES latin1".into(),
                6 => "SET TRANSACTION READ ONLY".into(),
                7 => "DO GET_LOCK('{a}_l1', 0)".into(),
                8 => "DO RELEASE_ALL_LOCKS()".into(),
                9 => format!("SET insert_id = {}", 30_000 + number * 10),
                10 => "BEGIN".into(),
                11 => format!("INSERT INTO {table} (k) VALUES ({})", 3_300_000 + number),
                12 => "SET autocommit = 0".into(),
                _ => "CREATE TEMPORARY TABLE {a}.tmp (id INT)".into(),
            });
        }
        parts.push(self.one_of(&["SELECT nosuch", "SELEC 1", "SELECT * FROM {a}.nosuch", "CALL nosuch()"]));
        if self.random.once_in(3) {
            parts.push("SELECT 1".into());
        }
        let mut idea = queries([parts.join("; ")]);
        idea.push(query(
            "SELECT @x, @u, @@sql_mode, @@time_zone, DATABASE(), @@character_set_client, @@sort_buffer_size",
        ));
        idea.push(query("SELECT @@autocommit, @@in_transaction, IS_FREE_LOCK('{a}_l1'), @@insert_id"));
        idea.push(query(format!("INSERT INTO {table} (k) VALUES ({})", 3_400_000 + number)));
        idea.push(query("COMMIT"));
        idea.push(query("SET NAMES utf8mb4, autocommit = 1"));
        idea
    }

    /// User locks that values, conditions and inner queries take.
    fn locks_in_expressions(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let mut idea = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let name = self.one_of(&["{a}_l1", "{a}_L1", "{a}_l2"]);
            let function = self.one_of(&["GET_LOCK", "GET_LOCK", "RELEASE_LOCK"]);
            let call = match &*function {
                "GET_LOCK" => format!("GET_LOCK('{name}', 0)"),
                _ => format!("RELEASE_LOCK('{name}')"),
            };
            let sql = match self.random.below(7) {
                0 => format!("INSERT INTO {table} (k, n) VALUES ({}, {call})", 3_500_000 + number * 10),
                1 => format!("UPDATE {table} SET n = {call} WHERE k = 1"),
                2 => format!("SET @x = {call}"),
                3 => format!("DELETE FROM {table} WHERE {call} = 5"),
                4 => format!("WITH x AS (SELECT {call} AS g) SELECT g FROM x"),
                5 => format!("SELECT (SELECT {call}), COUNT(*) FROM {table}"),
                _ => format!("SELECT id FROM {{a}}.shared WHERE id < 3 ORDER BY {call}, id"),
            };
            idea.push(query(sql));
        }
        idea.push(query("SELECT IS_FREE_LOCK('{a}_l1'), IS_FREE_LOCK('{a}_l2')"));
        if self.random.once_in(2) {
            idea.push(query("DO RELEASE_ALL_LOCKS()"));
        }
        idea
    }

    /// Messages, and what asks for them, with other sessions between.
    fn messages_between(&mut self) -> Idea {
        let number = self.fresh();
        let cause = self.one_of(&[
            "SELECT 1/0, CAST('a' AS SIGNED)",
            "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'w'",
            "DROP TABLE IF EXISTS {a}.nosuch",
            "SELECT nosuch FROM {a}.shared",
            "CALL {lib}.p_fails()",
        ]);
        let mut idea = Vec::new();
        if self.random.once_in(4) {
            idea.push(query(self.one_of(&["SET max_error_count = 1", "SET sql_notes = 0"])));
        }
        idea.extend(self.sent(cause));
        for _ in 0..1 + self.random.below(2) {
            idea.push(query(self.one_of(&[
                "SHOW WARNINGS",
                "SHOW ERRORS",
                "SHOW COUNT(*) WARNINGS",
                "SELECT @@warning_count",
                "GET DIAGNOSTICS @n = NUMBER",
                "RESIGNAL",
            ])));
        }
        idea.push(query(format!("SET max_error_count = DEFAULT, sql_notes = DEFAULT, @x = {number}")));
        idea
    }

    /// Variables that a SET without a scope gives values, or a parameter.
    fn unscoped(&mut self) -> Idea {
        let name = format!("s{}", self.fresh());
        let set = self.one_of(&[
            "SET @@optimizer_switch = 'mrr=on', @@join_cache_level = 3",
            "SET @@innodb_lock_wait_timeout = 3, @@low_priority_updates = 1",
            "SET character_set_filesystem = latin1, collation_database = utf8mb4_bin",
            "SET gtid_domain_id = 3",
            "SET @@old_mode = DEFAULT, @@system_versioning_asof = '2020-01-01 00:00:00'",
            "BEGIN NOT ATOMIC SET @@join_cache_level = 4; SET @@time_zone = '+01:00'; END",
            "IF 1 THEN SET @@group_concat_max_len = 5; END IF",
        ]);
        let mut idea = self.sent(set);
        if self.random.once_in(2) {
            let values = vec![Value::Int(7)];
            idea.push(Action::Prepare(name.clone(), b"SET @@group_concat_max_len = ?".to_vec()));
            idea.push(Action::Execute { name: name.clone(), cursor: false, again: false, values });
            idea.push(Action::Close(name));
        }
        idea.push(query("SELECT @@optimizer_switch LIKE '%mrr=on%', @@join_cache_level, @@innodb_lock_wait_timeout"));
        idea.push(query(
            "SELECT @@character_set_filesystem, @@collation_database, @@gtid_domain_id, @@group_concat_max_len",
        ));
        idea
    }
}
