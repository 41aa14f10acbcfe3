//! Statements that keep a backend connection: for keepers only.

use super::{Generator, Idea, queries, query};
use crate::script::Action;

impl Generator {
    pub(super) fn keeping(&mut self) -> Idea {
        match self.random.below(16) {
            0..=4 => self.transactions(),
            5..=6 => self.temporary_tables(),
            7 => self.locks(),
            8..=9 => self.prepared_text(),
            10..=11 => self.cursors(),
            12 => self.handlers(),
            13 => self.hidden_changes(),
            14 => self.one_shot(),
            _ => vec![Action::Reset, query("SELECT @@autocommit, @@sql_mode, DATABASE()")],
        }
    }

    fn temporary_tables(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        let name = format!("tmp{number}");
        match self.random.below(6) {
            0 => queries([
                format!("CREATE TEMPORARY TABLE {{a}}.{name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT)"),
                format!("INSERT INTO {{a}}.{name} (v) VALUES (1), (2)"),
                "SELECT LAST_INSERT_ID()".into(),
                format!("SELECT * FROM {{a}}.{name} ORDER BY id"),
                format!("DROP TEMPORARY TABLE {{a}}.{name}"),
                format!("SELECT * FROM {{a}}.{name}"),
            ]),
            1 => queries([
                "USE {a}".into(),
                format!("CREATE TEMPORARY TABLE {name} AS SELECT * FROM t{me}"),
                format!("SELECT COUNT(*) FROM {name}"),
                format!("DROP TABLE {name}"),
            ]),
            2 => queries([
                format!("CREATE TEMPORARY TABLE {{a}}.t{me} (only_here INT)"),
                format!("SELECT * FROM {{a}}.t{me}"),
                format!("DROP TABLE {{a}}.t{me}"),
                format!("SELECT COUNT(*) FROM {{a}}.t{me}"),
            ]),
            3 => queries([
                format!("CREATE TEMPORARY TABLE IF NOT EXISTS {{b}}.{name} LIKE {{a}}.shared"),
                format!("INSERT INTO {{b}}.{name} SELECT * FROM {{a}}.shared"),
                format!("SELECT id FROM {{b}}.{name} ORDER BY id"),
            ]),
            4 => queries([
                "CALL {lib}.p_temporary()".into(),
                "SELECT * FROM {lib}.made".into(),
                "DROP TEMPORARY TABLE IF EXISTS {lib}.made".into(),
            ]),
            _ => vec![
                query(format!("CREATE TEMPORARY TABLE {{a}}.{name} (id INT)")),
                Action::Reset,
                query(format!("SELECT * FROM {{a}}.{name}")),
            ],
        }
    }

    fn locks(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        let name = format!("{{a}}_{me}_{number}");
        match self.random.below(7) {
            0 => queries([
                format!("SELECT GET_LOCK('{name}', 0)"),
                format!("SELECT IS_FREE_LOCK('{name}'), IS_USED_LOCK('{name}') IS NULL"),
                format!("SELECT RELEASE_LOCK('{name}')"),
                format!("SELECT IS_FREE_LOCK('{name}')"),
            ]),
            1 => queries([format!("DO GET_LOCK('{name}', 0)"), "SELECT RELEASE_ALL_LOCKS()".into()]),
            2 => queries([
                format!("CALL {{lib}}.p_lock('{name}')"),
                format!("SELECT IS_FREE_LOCK('{name}')"),
                format!("SELECT RELEASE_LOCK('{name}')"),
            ]),
            3 => queries([
                format!("LOCK TABLES {{a}}.t{me} WRITE, {{a}}.shared READ"),
                format!("UPDATE {{a}}.t{me} SET v = 'l' WHERE k = 1"),
                "SELECT COUNT(*) FROM {a}.shared".into(),
                "SELECT COUNT(*) FROM {a}.note".into(),
                "UNLOCK TABLES".into(),
            ]),
            4 => queries([
                format!("LOCK TABLES {{a}}.t{me} READ"),
                format!("UPDATE {{a}}.t{me} SET v = 'l' WHERE k = 1"),
                "START TRANSACTION".into(),
                format!("UPDATE {{a}}.t{me} SET v = 'm' WHERE k = 1"),
                "COMMIT".into(),
                "SELECT COUNT(*) FROM {a}.shared".into(),
            ]),
            5 => queries([
                format!("SELECT GET_LOCK(CONCAT('{name}', 'x'), 0)"),
                format!("SELECT RELEASE_LOCK(CONCAT('{name}', 'x'))"),
            ]),
            _ => queries([format!("SELECT RELEASE_LOCK('{name}')"), format!("SELECT IS_USED_LOCK('{name}') IS NULL")]),
        }
    }

    fn prepared_text(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let name = format!("p{number}");
        let mut idea = match self.random.below(7) {
            0 => queries([
                format!("PREPARE {name} FROM 'SELECT ? + 1'"),
                "SET @x = 4".into(),
                format!("EXECUTE {name} USING @x"),
            ]),
            1 => queries([
                "SET @text = 'SELECT COUNT(*) FROM {a}.shared'".into(),
                format!("PREPARE {name} FROM @text"),
                format!("EXECUTE {name}"),
                format!("EXECUTE {name}"),
            ]),
            2 => queries([
                format!("PREPARE {name} FROM 'INSERT INTO {table} (k) VALUES (?)'"),
                format!("SET @k = {}", 400_000 + number),
                format!("EXECUTE {name} USING @k"),
                "SELECT LAST_INSERT_ID(), ROW_COUNT()".into(),
            ]),
            3 => queries([
                format!("PREPARE {name} FROM 'SET @made = 9'"),
                format!("EXECUTE {name}"),
                "SELECT @made".into(),
            ]),
            4 => queries([format!("PREPARE {name} FROM 'SELEC'"), format!("EXECUTE {name}")]),
            5 if self.mariadb() => queries([
                "EXECUTE IMMEDIATE 'SELECT 1 AS immediate'".into(),
                "SET @text = 'SET @made = 10'".into(),
                "EXECUTE IMMEDIATE @text".into(),
                "SELECT @made".into(),
            ]),
            _ => queries([
                format!("PREPARE {name} FROM 'SET sql_mode = ''ANSI_QUOTES'''"),
                format!("EXECUTE {name}"),
                "SELECT @@sql_mode".into(),
            ]),
        };
        if !self.random.once_in(4) {
            idea.push(query(format!("DEALLOCATE PREPARE {name}")));
            idea.push(query(format!("EXECUTE {name}")));
        }
        idea
    }

    fn handlers(&mut self) -> Idea {
        let (table, me) = (self.table(), self.me);
        queries([
            format!("HANDLER {table} OPEN AS h{me}"),
            format!("HANDLER h{me} READ FIRST"),
            format!("HANDLER h{me} READ NEXT LIMIT 2"),
            format!("HANDLER h{me} READ `PRIMARY` = (2)"),
            format!("HANDLER h{me} CLOSE"),
            format!("HANDLER h{me} READ NEXT"),
        ])
    }

    /// Routines that change the session behind the text's back.
    fn hidden_changes(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        match self.random.below(9) {
            0 => queries(["CALL {lib}.p_mode()".into(), "SELECT @@sql_mode, @from_procedure".into()]),
            1 => queries(["CALL {lib}.p_zone()".into(), "SELECT @@time_zone".into()]),
            2 => queries([format!("CALL {{lib}}.p_variable({number})"), "SELECT @from_procedure".into()]),
            3 => queries([
                "CALL {lib}.p_begins()".into(),
                "SELECT n >= 0 FROM {lib}.counter WHERE id = 0".into(),
                "ROLLBACK".into(),
            ]),
            7 => queries([
                "CALL {lib}.p_begins_and_fails()".into(),
                "SELECT n >= 0 FROM {lib}.counter WHERE id = 0".into(),
                "ROLLBACK".into(),
            ]),
            8 => queries(["CALL {lib}.p_sets_and_fails()".into(), "SELECT @@sql_mode, @from_procedure".into()]),
            4 => queries([format!("SELECT {{lib}}.f_remembers({number})"), "SELECT @remembered".into()]),
            5 if self.mariadb() => queries([
                format!("BEGIN NOT ATOMIC SET @compound = {number}; SET time_zone = '+02:00'; END"),
                "SELECT @compound, @@time_zone".into(),
            ]),
            _ => queries([format!("CALL {{lib}}.p_counts({me})"), format!("SELECT NEXTVAL({{a}}.q{me}), 1")]),
        }
    }

    fn one_shot(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        match self.random.below(6) {
            0 => queries([
                format!("SET insert_id = {}", 5_000 + number),
                format!("INSERT INTO {table} (k) VALUES ({})", 500_000 + number),
                "SELECT LAST_INSERT_ID()".into(),
            ]),
            1 => queries([
                format!("SELECT SQL_CALC_FOUND_ROWS id FROM {table} ORDER BY id LIMIT 1"),
                "SELECT FOUND_ROWS()".into(),
                "SELECT FOUND_ROWS()".into(),
            ]),
            2 => queries(["SET rand_seed1 = 5, rand_seed2 = 7".into(), "SELECT RAND()".into(), "SELECT RAND()".into()]),
            3 => queries([
                "SET timestamp = 1000000000 + 5".into(),
                "SELECT NOW()".into(),
                "SET timestamp = DEFAULT".into(),
            ]),
            4 => queries(["SET ROLE NONE".into(), "SELECT CURRENT_ROLE()".into()]),
            _ => queries([
                "SET completion_type = 1".into(),
                "BEGIN".into(),
                "COMMIT".into(),
                "SELECT 1".into(),
                "SET completion_type = DEFAULT".into(),
                "COMMIT".into(),
            ]),
        }
    }
}
