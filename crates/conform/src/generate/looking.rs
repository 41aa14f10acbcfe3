//! Questions of a session whose answers must show nothing of other sessions.

use super::{Generator, Idea, queries, query};
use crate::script::Action;

impl Generator {
    /// Questions about what `actor` may have left on a connection.
    pub(super) fn looking(&mut self, actor: usize) -> Idea {
        let one = self.question(actor);
        match self.random.below(10) {
            0 => vec![Action::Reset, one],
            1 => vec![Action::ChangeUser(Some("{a}".into()), None), one],
            2 => match one {
                Action::Query(sql) => {
                    let name = format!("s{}", self.fresh());
                    let execute =
                        Action::Execute { name: name.clone(), cursor: false, again: false, values: Vec::new() };
                    vec![Action::Prepare(name.clone(), sql), execute, Action::Close(name)]
                }
                other => vec![other],
            },
            3 | 4 => vec![one, self.question(actor)],
            _ => vec![one],
        }
    }

    fn question(&mut self, actor: usize) -> Action {
        let maria = self.mariadb();
        let isolation = if maria {
            "SELECT @@tx_isolation, @@tx_read_only"
        } else {
            "SELECT @@transaction_isolation, @@transaction_read_only"
        };
        let text = match self.random.below(38) {
            0 | 1 => "SELECT @zz IS NULL, @u IS NULL, @other IS NULL, @made IS NULL, @x IS NULL, @c IS NULL".into(),
            2 => "SELECT @@insert_id, @@last_insert_id, @@identity, LAST_INSERT_ID()".into(),
            3 => "SELECT LAST_INSERT_ID()".into(),
            4 => "SELECT ABS(@@timestamp - UNIX_TIMESTAMP(SYSDATE())) < 1000, NOW() > '2026-01-01'".into(),
            5 => isolation.into(),
            6..=8 => "INSERT INTO {a}.mine (v) VALUES ('n')".into(),
            9 => "SELECT MAX(id), COUNT(*) FROM {a}.mine".into(),
            10 if maria => "SELECT @@in_transaction".into(),
            11 => "SELECT IS_USED_LOCK('{a}_l1') IS NULL, IS_FREE_LOCK('{a}_l2')".into(),
            12 => "SELECT RELEASE_LOCK('{a}_l1'), RELEASE_LOCK('{a}_l2')".into(),
            13 => "SELECT GET_LOCK('{a}_l1', 0), RELEASE_LOCK('{a}_l1')".into(),
            14 => "SELECT RELEASE_ALL_LOCKS()".into(),
            15 => "SELECT * FROM {a}.tmp".into(),
            16 | 17 => format!("SELECT COUNT(*), MAX(k) FROM {{a}}.t{actor}"),
            18 => "SELECT @@sql_mode, @@sql_log_bin, @@autocommit, DATABASE(), CURRENT_USER()".into(),
            19 => "SELECT CURRENT_ROLE(), @@completion_type, @@profiling".into(),
            20 => "SELECT ROW_COUNT(), FOUND_ROWS()".into(),
            21 => self.one_of(&["SHOW WARNINGS", "SHOW COUNT(*) ERRORS", "SHOW ERRORS", "SELECT @@warning_count"]),
            22 => self.one_of(&["EXECUTE p1", "DEALLOCATE PREPARE p1", "HANDLER h1 READ FIRST", "UNLOCK TABLES"]),
            23 => self.one_of(&["ROLLBACK TO a", "RELEASE SAVEPOINT a", "COMMIT", "ROLLBACK"]),
            // A session that asks for it keeps the connection.
            24 if maria && self.keeper => "SELECT LASTVAL({a}.sq), PREVIOUS VALUE FOR {a}.sq".into(),
            25 => "SELECT RAND() < 0.00001".into(),
            26 => {
                let name = self.one_of(&["last_insert_id", "insert_id", "sql_mode", "identity", "tx_read_only"]);
                format!("SHOW VARIABLES LIKE '{name}'")
            }
            27 => "SELECT v FROM {a}.seen WHERE id = 1".into(),
            28 => "UPDATE {a}.mine SET v = 'm' WHERE id = 1".into(),
            29 => "SELECT @@character_set_client, @@collation_connection, @@time_zone, @@sql_select_limit".into(),
            30 => "BEGIN; INSERT INTO {a}.mine (v) VALUES ('b'); COMMIT".into(),
            31 if maria && self.random.once_in(2) => {
                "SELECT @@join_cache_level, @@group_concat_max_len, @@gtid_domain_id, @@sort_buffer_size".into()
            }
            31 => "SELECT @@session.sql_mode, @@foreign_key_checks, @@unique_checks, @@sql_safe_updates".into(),
            32 => "SELECT CONNECTION_ID()".into(),
            33 => "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()".into(),
            34 => "SELECT @@pseudo_thread_id = CONNECTION_ID()".into(),
            35 if !maria => {
                "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()".into()
            }
            36 => format!("SELECT n FROM {{lib}}.counter WHERE id = {actor}"),
            _ => "SELECT 1".into(),
        };
        query(text)
    }

    /// The end of a program's work: it tidies up, or does not.
    pub(super) fn end(&mut self) -> Idea {
        match self.random.below(16) {
            0 => queries(["COMMIT".into()]),
            1 => queries(["ROLLBACK".into()]),
            2 | 3 => vec![Action::Reset],
            4 => vec![Action::ChangeUser(Some("{a}".into()), None)],
            5..=8 => vec![Action::Quit],
            9 | 10 => vec![Action::Cut],
            11 => queries(["ROLLBACK; SET autocommit = 1".into(), "DO RELEASE_ALL_LOCKS()".into()]),
            12 => queries(["UNLOCK TABLES".into(), "COMMIT".into(), "SET autocommit = 1".into()]),
            13 => queries(["COMMIT; SELECT 1; SELECT nosuch".into(), "SET autocommit = 1".into()]),
            14 => vec![Action::Reconnect],
            _ => queries(["SET autocommit = 1".into(), "DROP TEMPORARY TABLE IF EXISTS {a}.tmp".into()]),
        }
    }

    /// The same statement, in one of the ways to send it: most often as a text.
    pub(super) fn sent(&mut self, sql: String) -> Idea {
        let name = format!("s{}", self.fresh());
        match self.random.below(30) {
            0..=4 => {
                let execute = Action::Execute { name: name.clone(), cursor: false, again: false, values: Vec::new() };
                let mut idea = vec![Action::Prepare(name.clone(), sql.into_bytes()), execute];
                if self.random.once_in(2) {
                    idea.push(Action::Close(name));
                }
                idea
            }
            5 | 6 => {
                let mut idea = queries([format!("PREPARE p1 FROM '{}'", sql.replace('\'', "''")), "EXECUTE p1".into()]);
                if self.random.once_in(2) {
                    idea.push(query("DEALLOCATE PREPARE p1"));
                }
                idea
            }
            7 => queries([format!("{sql}; SELECT 1")]),
            8 => queries([format!("SELECT 1; {sql}")]),
            9 if self.mariadb() => queries([format!("EXECUTE IMMEDIATE '{}'", sql.replace('\'', "''"))]),
            // Locks that routines take are told by no server.
            10 if self.mariadb() && !sql.contains("_LOCK(") => queries([format!("BEGIN NOT ATOMIC {sql}; END")]),
            _ => vec![query(sql)],
        }
    }
}
