//! Steps that leave something on a connection: values of one use, locks, sequences, texts that fail halfway.

use super::{Generator, Idea, queries, query};
use crate::script::Action;

impl Generator {
    pub(super) fn leaving(&mut self) -> Idea {
        let ideas = if self.mariadb() { 28 } else { 22 };
        match self.random.below(ideas) {
            22.. => self.mixing(),
            20 => self.assigned_inside(),
            21 => self.roles(),
            0..=3 => self.next_transaction(),
            4..=6 => self.next_value(),
            7..=9 => self.savepoints(),
            10..=12 => self.user_locks(),
            13..=14 => self.sequences(),
            15..=16 => self.failing_text(),
            17 => self.shadows(),
            18 => self.read_only(),
            _ => self.asked_oddly(),
        }
    }

    /// A statement that comes between one that prepares something and one that uses it.
    pub(super) fn between(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        let table = self.table();
        let sql = match self.random.below(40) {
            0 => "SELECT 1".into(),
            1 => "SELECT DATABASE()".into(),
            2 => "SELECT @@last_insert_id".into(),
            3 => "DO 1".into(),
            4 => self.one_of(&[
                "SHOW VARIABLES LIKE 'last_insert_id'",
                "SHOW VARIABLES LIKE 'insert_id'",
                "SHOW VARIABLES LIKE 'identity'",
                "SHOW WARNINGS",
                "SHOW TABLES FROM {b}",
            ]),
            5 => format!("SET @x = {number}"),
            6 => "USE {a}".into(),
            7 | 8 => format!("SELECT COUNT(*) FROM {table}"),
            9 => format!("INSERT INTO {table} (k, v) VALUES ({}, 'n')", 600_000 + number),
            10 => "SELECT nosuch FROM {a}.shared".into(),
            11 => "SELEC 1".into(),
            12 => format!("INSERT INTO {table} (k) VALUES (1)"),
            13 => self.one_of(&["BEGIN", "START TRANSACTION", "START TRANSACTION READ WRITE"]),
            14 => self.one_of(&["COMMIT", "ROLLBACK"]),
            15 if self.mariadb() => "SELECT @@tx_isolation, @@tx_read_only".into(),
            15 => "SELECT @@transaction_isolation, @@transaction_read_only".into(),
            16 => return vec![Action::Ping],
            17 => return vec![Action::InitDb(b"{a}".to_vec())],
            18 => "SET autocommit = 0".into(),
            19 => "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".into(),
            20 => "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{a}'".into(),
            21 => format!("DELETE FROM {table} WHERE k > 5"),
            22 => format!("SELECT {{lib}}.f_reads({me})"),
            23 => format!("CALL {{lib}}.p_counts({me})"),
            24 => "SELECT 1; SELECT 2".into(),
            25 => "SELECT * FROM {a}.nosuch".into(),
            26 => "SELECT LAST_INSERT_ID(), ROW_COUNT()".into(),
            27 => "SELECT RAND() < 0.00001".into(),
            28 => "SELECT NOW() > '2026-01-01', @@timestamp > 1700000000".into(),
            29 => format!("SELECT * FROM {table} WHERE 1 = 0"),
            30 => format!("PREPARE p1 FROM 'UPDATE {table} SET v = 1 WHERE k = 1'"),
            31 => "EXECUTE p1".into(),
            32 => "SET @u = (SELECT MAX(id) FROM {a}.shared)".into(),
            33 => format!("SELECT MAX(id) FROM {table} INTO @u"),
            34 => "SET NAMES latin1".into(),
            35 => format!("SHOW CREATE TABLE {table}"),
            36 => format!("EXPLAIN SELECT * FROM {table}"),
            37 => format!("UPDATE {table} SET v = 'b' WHERE id = @unset"),
            38 => "SET SESSION TRANSACTION READ WRITE".into(),
            _ => "VALUES (1)".to_owned(),
        };
        let sql = if sql == "VALUES (1)" && !self.mariadb() { "SELECT 3".into() } else { sql };
        self.sent(sql)
    }

    fn next_value(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let set = match self.random.below(12) {
            0..=2 => format!("SET insert_id = {}", 3_000 + number * 10),
            3 => format!("SET last_insert_id = {}", 400 + number),
            4 => format!("SET identity = {}", 500 + number),
            5 => format!("SET timestamp = {}", 1_000_000_000 + number),
            6 => "SET rand_seed1 = 5, rand_seed2 = 7".into(),
            7 => format!("SET insert_id = {}, last_insert_id = {number}", 6_000 + number * 10),
            8 => format!("SET insert_id = {}; SELECT 1", 9_000 + number * 10),
            9 => format!("SET @@session.timestamp = {}, @zz = {number}", 1_100_000_000 + number),
            10 if self.mariadb() => {
                format!("SET STATEMENT insert_id = {}, timestamp = 1200000000 FOR SELECT NOW()", 12_000 + number * 10)
            }
            _ => format!("SET @@insert_id := {}", 15_000 + number * 10),
        };
        let mut idea = self.sent(set);
        for _ in 0..self.random.below(3) {
            idea.extend(self.between());
        }
        let use_it = match self.random.below(6) {
            0 => "SELECT @@insert_id, @@last_insert_id, @@identity".into(),
            1 => "SELECT RAND() < 0.00001".into(),
            2 => format!("DELETE FROM {table}"),
            _ => format!("INSERT INTO {table} (k) VALUES ({})", 800_000 + number),
        };
        idea.extend(self.sent(use_it));
        if self.random.once_in(2) {
            idea.push(query("SELECT LAST_INSERT_ID()"));
        }
        if self.random.once_in(4) {
            idea.push(query("SET timestamp = DEFAULT"));
        }
        idea
    }

    fn user_locks(&mut self) -> Idea {
        let mut idea = Vec::new();
        for _ in 0..2 + self.random.below(5) {
            let name = self.one_of(&["{a}_l1", "{a}_l1", "{a}_l2"]);
            let (head, tail) = name.split_at(4);
            let sql = match self.random.below(18) {
                0..=4 => format!("SELECT GET_LOCK('{name}', 0)"),
                5 => format!("DO GET_LOCK('{name}', 0)"),
                6 => format!("SELECT GET_LOCK(CONCAT('{head}', '{tail}'), 0)"),
                7 => format!("SET @l = '{name}'; SELECT GET_LOCK(@l, 0)"),
                8 => format!("SELECT GET_LOCK('{{a}}_l1', 0), GET_LOCK('{name}', 0)"),
                9..=11 => format!("SELECT RELEASE_LOCK('{name}')"),
                12 => format!("SELECT RELEASE_LOCK(CONCAT('{head}', '{tail}'))"),
                13 => format!("DO RELEASE_LOCK('{name}'), RELEASE_LOCK('{{a}}_l2')"),
                14 => format!("SELECT IS_FREE_LOCK('{name}'), IS_USED_LOCK('{name}') = CONNECTION_ID()"),
                15 => "SELECT RELEASE_ALL_LOCKS()".into(),
                16 => format!("SELECT id FROM {{a}}.shared WHERE id < 3 AND GET_LOCK('{name}', 0) ORDER BY id"),
                _ => format!("SELECT IF(1 = 0, GET_LOCK('{name}', 0), 7), IFNULL(RELEASE_LOCK('{{a}}_l1'), 9)"),
            };
            idea.extend(self.sent(sql));
        }
        match self.random.below(4) {
            0 => idea.push(query("DO RELEASE_ALL_LOCKS()")),
            1 => idea.push(query("SELECT RELEASE_LOCK('{a}_l1'), RELEASE_LOCK('{a}_l1'), RELEASE_LOCK('{a}_l2')")),
            _ => {}
        }
        idea
    }

    fn sequences(&mut self) -> Idea {
        let me = self.me;
        let mut idea = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            let number = self.fresh();
            // Writes that hide in reads; MySQL has no sequences.
            let which = if self.mariadb() { self.random.below(19) } else { 14 + self.random.below(5) };
            let sql = match which {
                0..=2 => "SELECT NEXTVAL({a}.sq)".into(),
                3 => "SELECT NEXT VALUE FOR {a}.sq".into(),
                4 | 5 => "SELECT LASTVAL({a}.sq)".into(),
                6 => "SELECT PREVIOUS VALUE FOR {a}.sq".into(),
                7 => "DO NEXTVAL({a}.sq)".into(),
                8 => "SELECT DEFAULT(id) FROM {a}.numbered".into(),
                9 => format!("INSERT INTO {{a}}.numbered (v) VALUES ({number})"),
                10 => "SELECT n FROM {a}.next_number".into(),
                11 => format!("SELECT SETVAL({{a}}.sq, {})", 1_000 * number),
                12 => "SET @u = NEXTVAL({a}.sq)".into(),
                13 => "SELECT LASTVAL({a}.sn), LASTVAL({a}.sv) FROM {a}.numbered, {a}.next_number LIMIT 1".into(),
                14 => format!("SELECT {{lib}}.f_nested({me})"),
                15 => "SELECT n FROM {a}.counting".into(),
                16 => format!("SELECT n FROM {{lib}}.counter WHERE id IN (1, {me}) ORDER BY id"),
                17 => format!("SELECT id FROM {{a}}.shared WHERE id < 3 AND {{lib}}.f_counts({me}) > 0 ORDER BY id"),
                _ => {
                    idea.extend(self.between());
                    continue;
                }
            };
            idea.extend(self.sent(sql));
        }
        idea
    }

    /// Several statements in one text, of which one fails behind others that left something.
    fn failing_text(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let sets = [
            format!("SET @zz = {number}"),
            "SET sql_mode = 'ANSI_QUOTES'".into(),
            format!("BEGIN; INSERT INTO {table} (k) VALUES ({})", 1_000_000 + number),
            format!("SET insert_id = {}", 20_000 + number * 10),
            "USE {b}".into(),
            "SET TRANSACTION READ ONLY".into(),
            "CREATE TEMPORARY TABLE {a}.tmp (id INT)".into(),
            "SELECT GET_LOCK('{a}_l1', 0)".into(),
            "PREPARE p1 FROM 'SELECT 5'".into(),
            "SET NAMES latin1".into(),
            format!("INSERT INTO {table} (k) VALUES ({})", 1_100_000 + number),
            "SET autocommit = 0".into(),
            format!("SET @zz = {number}, @u = @zz + 1"),
            format!("SELECT {number} INTO @zz"),
            format!("SELECT @zz := {number}"),
            format!("SET timestamp = {}", 1_300_000_000 + number),
            "SET SESSION TRANSACTION READ ONLY".into(),
            format!("SELECT LAST_INSERT_ID({number})"),
            "SELECT SQL_CALC_FOUND_ROWS id FROM {a}.shared LIMIT 1".into(),
            "CALL {lib}.p_variable(3)".into(),
        ];
        let first = sets[self.random.below(sets.len())].clone();
        let second =
            if self.random.once_in(3) { sets[self.random.below(sets.len())].clone() } else { "SELECT 1".into() };
        let fails = self.one_of(&["SELECT nosuch", "SELEC 1", "SELECT * FROM {a}.nosuch", "CALL nosuch()", "SELECT 2"]);
        let ask = self.one_of(&[
            "SELECT @zz, @u, @@sql_mode, DATABASE()",
            "SELECT LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT()",
            "SELECT ROW_COUNT(), @@autocommit",
            "SELECT NOW() > '2026-01-01'",
            "EXECUTE p1",
            "SELECT IS_FREE_LOCK('{a}_l1')",
        ]);
        let mut idea = queries([format!("{first}; {second}; {fails}"), ask]);
        if self.random.once_in(2) {
            idea.push(query(format!("INSERT INTO {table} (k) VALUES ({})", 1_200_000 + number)));
        }
        if self.random.once_in(2) {
            idea.push(query("SET SESSION TRANSACTION READ WRITE"));
        }
        idea
    }

    /// User variables that get values in the midst of statements.
    fn assigned_inside(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let sql = match self.random.below(9) {
            0 => format!("UPDATE {table} SET n = (@x := 5) WHERE k = 1"),
            1 => format!("INSERT INTO {table} (k) VALUES (@x := {})", 1_400_000 + number),
            2 => format!("DELETE FROM {table} WHERE k = (@x := 2)"),
            3 => "SELECT id FROM {a}.shared WHERE (@u := id) > 2 ORDER BY id LIMIT 1".into(),
            4 => "SELECT 1 UNION SELECT @other := 7".into(),
            5 => "DO @zz := 8".into(),
            6 => "SELECT n, v INTO @x, @made FROM {a}.shared WHERE id = 2".into(),
            7 => "SET sql_select_limit = DEFAULT, @zz = CONCAT('a', CONNECTION_ID() > 0), @c = @zz".into(),
            _ => "CALL {lib}.p_out(3, @x, @c)".into(),
        };
        let mut idea = self.sent(sql);
        idea.push(query("SELECT @x, @u, @other, @zz, @made, @c IS NULL"));
        idea
    }

    /// A role that the application may have.
    fn roles(&mut self) -> Idea {
        let mut idea = self.sent("SET ROLE {r1}".into());
        idea.push(query("SELECT CURRENT_ROLE()"));
        if self.random.once_in(2) {
            idea.extend(self.sent("SET ROLE NONE".into()));
        }
        idea
    }

    /// Temporary tables that hide others.
    fn shadows(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        let mut idea = match self.random.below(4) {
            0 => queries([
                format!("CREATE TEMPORARY TABLE {{a}}.t{me} (k INT)"),
                format!("INSERT INTO {{a}}.t{me} VALUES (-5)"),
                format!("SELECT * FROM {{a}}.t{me}"),
                format!("DROP TABLE {{a}}.t{me}"),
                format!("SELECT COUNT(*) FROM {{a}}.t{me}"),
            ]),
            1 => queries([
                "CREATE TEMPORARY TABLE {a}.tmp (id INT AUTO_INCREMENT PRIMARY KEY, v INT)".into(),
                format!("INSERT INTO {{a}}.tmp (v) VALUES ({number})"),
                "SELECT * FROM {a}.tmp".into(),
                "DROP TEMPORARY TABLE {a}.tmp".into(),
            ]),
            2 => queries([
                "CREATE TEMPORARY TABLE {a}.seen AS SELECT 1 AS id, 'hidden' AS v".into(),
                "SELECT v FROM {a}.seen".into(),
                "ALTER TABLE {a}.seen RENAME TO {a}.tmp".into(),
                "SELECT v FROM {a}.seen WHERE id = 1".into(),
                "DROP TABLE IF EXISTS {a}.tmp".into(),
            ]),
            _ => queries([
                "CREATE TEMPORARY TABLE {a}.tmp (id INT)".into(),
                "CREATE TEMPORARY TABLE {a}.tmp (id INT)".into(),
                "DROP TEMPORARY TABLE {a}.tmp, {a}.nosuch".into(),
                "SELECT * FROM {a}.tmp".into(),
            ]),
        };
        if self.random.once_in(4) {
            idea.pop();
        }
        idea
    }

    /// FOUND_ROWS() and its like behind what sets them in ways of its own.
    fn asked_oddly(&mut self) -> Idea {
        let (table, me) = (self.table(), self.me);
        let offset = self.random.below(3);
        // Behind a CALL, FOUND_ROWS() of MySQL is a gap.
        let which = if self.mariadb() { self.random.below(16) } else { 7 + self.random.below(9) };
        let cause = match which {
            0 => format!("SELECT id FROM {table} ORDER BY id OFFSET {offset} ROWS FETCH NEXT 1 ROWS ONLY"),
            1 => "SELECT id FROM {a}.shared ORDER BY id LIMIT 1, 2".into(),
            2 => format!("UPDATE {table} SET v = 'o'; SET NAMES utf8mb4"),
            3 => format!("UPDATE {table} SET v = 'p'; USE {{a}}"),
            4 => format!("UPDATE {table} SET v = 'q'; BEGIN; COMMIT"),
            5 => format!("DELETE FROM {table} WHERE k = 2; CALL {{lib}}.p_out(1, @b, @c)"),
            6 => format!("SELECT id FROM {{a}}.shared; CALL {{lib}}.p_counts({me})"),
            7 => "BEGIN".into(),
            8 => "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT".into(),
            9 => "SELECT id FROM {a}.shared UNION SELECT 9 LIMIT 2".into(),
            10 => "SELECT id FROM {a}.shared WHERE 1 = 0".into(),
            11 => "SELECT SQL_CALC_FOUND_ROWS id FROM {a}.shared LIMIT 2; SELECT 1".into(),
            12 => format!("INSERT INTO {table} (k) SELECT 2000000 + id FROM {{a}}.shared"),
            13 => format!("SET @x = (SELECT COUNT(*) FROM {table})"),
            14 => "SELECT id FROM {a}.shared INTO @u".into(),
            _ => "SHOW TABLES FROM {b}".into(),
        };
        let ask = self.one_of(&[
            "SELECT FOUND_ROWS()",
            "SELECT ROW_COUNT()",
            "SELECT FOUND_ROWS(), ROW_COUNT()",
            "SELECT ROW_COUNT() FROM {a}.shared WHERE id = 1",
            "SHOW WARNINGS LIMIT 1",
        ]);
        let before = self.one_of(&[
            "SELECT id FROM {a}.shared WHERE id < 3",
            "SELECT 1",
            // MySQL leaves FOUND_ROWS() as it was there, which is a gap.
            if self.mariadb() { "UPDATE {a}.seen SET v = 'x' WHERE 1 = 0" } else { "SELECT 2" },
        ]);
        let mut idea = queries([before]);
        idea.extend(self.sent(cause));
        idea.extend(self.sent(ask));
        idea.push(query("SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID()"));
        idea.push(query("COMMIT"));
        idea
    }
}
