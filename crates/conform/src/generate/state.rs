//! Changing the session, and asking what the last statement left.

use super::{Generator, Idea, queries, query};
use crate::script::Action;

/// Session variables and what they are set to. None of them pins.
pub(super) const VARIABLES: &[(&str, &[&str])] = &[
    (
        "sql_mode",
        &[
            "''",
            "'ANSI_QUOTES'",
            "'NO_BACKSLASH_ESCAPES'",
            "'STRICT_TRANS_TABLES'",
            "'ANSI'",
            "'TRADITIONAL'",
            "CONCAT(@@sql_mode,',NO_ZERO_DATE')",
            "DEFAULT",
            "@@global.sql_mode",
            "'PIPES_AS_CONCAT'",
            "'HIGH_NOT_PRECEDENCE,IGNORE_SPACE'",
            "'NO_AUTO_VALUE_ON_ZERO'",
            "'nonsense'",
        ],
    ),
    ("time_zone", &["'+00:00'", "'-05:30'", "'SYSTEM'", "DEFAULT", "CONCAT('+0', 3, ':00')", "'nowhere'"]),
    ("sql_select_limit", &["1", "3", "DEFAULT", "18446744073709551615"]),
    ("group_concat_max_len", &["4", "1024", "DEFAULT", "2*8"]),
    ("sql_safe_updates", &["0", "1", "ON", "OFF", "DEFAULT"]),
    ("sql_auto_is_null", &["0", "1", "DEFAULT"]),
    ("sql_quote_show_create", &["0", "1"]),
    ("foreign_key_checks", &["0", "1", "OFF", "DEFAULT"]),
    ("unique_checks", &["0", "1", "DEFAULT"]),
    ("wait_timeout", &["1000", "28800", "DEFAULT", "500 + 500"]),
    ("net_write_timeout", &["61", "DEFAULT", "-1"]),
    ("lc_time_names", &["'de_DE'", "'en_US'", "DEFAULT"]),
    ("lc_messages", &["'en_US'", "DEFAULT"]),
    ("div_precision_increment", &["0", "2", "9", "DEFAULT"]),
    ("default_week_format", &["0", "3", "DEFAULT"]),
    ("max_sort_length", &["64", "1024", "DEFAULT"]),
    ("max_error_count", &["0", "2", "64", "DEFAULT"]),
    ("sql_notes", &["0", "1", "DEFAULT"]),
    ("sql_warnings", &["0", "1"]),
    ("auto_increment_increment", &["1", "2", "5", "DEFAULT"]),
    ("auto_increment_offset", &["1", "2", "DEFAULT"]),
    ("character_set_results", &["NULL", "latin1", "utf8mb4", "'binary'", "DEFAULT"]),
    ("character_set_client", &["latin1", "utf8mb4", "DEFAULT", "utf16"]),
    ("collation_connection", &["utf8mb4_bin", "latin1_swedish_ci", "'utf8mb4_unicode_ci'", "DEFAULT"]),
    ("collation_server", &["utf8mb4_bin", "DEFAULT"]),
    ("default_storage_engine", &["InnoDB", "MyISAM", "DEFAULT"]),
    ("tmp_table_size", &["1048576", "DEFAULT"]),
    ("sort_buffer_size", &["100000", "DEFAULT"]),
    ("optimizer_switch", &["'mrr=on'", "DEFAULT"]),
    ("lock_wait_timeout", &["5", "DEFAULT"]),
    ("autocommit", &["1", "ON", "TRUE"]),
    ("timestamp", &["1700000000", "1700000000.25"]),
    ("sql_big_selects", &["1", "DEFAULT"]),
    ("nosuch_variable", &["1"]),
    ("max_connections", &["5"]),
    ("version", &["'x'"]),
    ("last_insert_id", &["77", "0"]),
    ("identity", &["78"]),
];

/// Character sets as SET names them.
const CHARACTER_SETS: [&str; 13] = [
    "NAMES utf8mb4",
    "NAMES latin1",
    "NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
    "NAMES binary",
    "NAMES DEFAULT",
    "NAMES cp1251",
    "NAMES gbk",
    "NAMES sjis",
    "NAMES nosuch",
    "CHARACTER SET latin1",
    "CHARACTER SET utf8mb4",
    "CHARSET DEFAULT",
    "NAMES utf8mb4 COLLATE utf8mb4_unicode_ci",
];

impl Generator {
    fn assignment(&mut self) -> (String, String) {
        let (name, values) = VARIABLES[self.random.below(VARIABLES.len())];
        let value = self.random.pick(values);
        let form = self.random.pick(&["", "", "SESSION ", "LOCAL ", "@@", "@@session.", "@@local."]);
        let equals = self.random.pick(&[" = ", "=", " := "]);
        (name.into(), format!("{form}{name}{equals}{value}"))
    }

    pub(super) fn sets(&mut self) -> Idea {
        let (name, assignment) = self.assignment();
        let ask = match (name.as_str(), self.random.below(3)) {
            ("timestamp", _) => "SELECT NOW(3), UNIX_TIMESTAMP(), @@timestamp".to_owned(),
            ("last_insert_id" | "identity", _) => "SELECT LAST_INSERT_ID(), @@identity".to_owned(),
            (_, 0) => format!("SHOW VARIABLES LIKE '{name}'"),
            _ => format!("SELECT @@{name}, @@session.{name}"),
        };
        let which = self.random.below(14);
        // Such a text may fail, and what a clock says then differs by itself.
        let clock = "SELECT NOW() > '2020-01-01', @@timestamp > 0";
        let ask = if name == "timestamp" && matches!(which, 5 | 11) { clock.to_owned() } else { ask };
        match which {
            0..=4 => queries([format!("SET {assignment}"), ask]),
            5 => {
                let (other, second) = self.assignment();
                let ask_other = if other == "timestamp" { clock.to_owned() } else { format!("SELECT @@{other}") };
                queries([format!("SET {assignment}, {second}"), ask, ask_other])
            }
            6 => {
                let names = self.random.pick(&CHARACTER_SETS);
                let ask = "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, \
                           @@collation_connection, 'ä', HEX('ä'), COLLATION('x')";
                queries([format!("SET {names}"), ask.into()])
            }
            7 if self.mariadb() => {
                let (name, values) =
                    [("sql_mode", "'ANSI_QUOTES'"), ("group_concat_max_len", "4"), ("sort_buffer_size", "20000")]
                        [self.random.below(3)];
                queries([format!("SET STATEMENT {name} = {values} FOR SELECT @@{name}"), format!("SELECT @@{name}")])
            }
            8 => self.characteristics(),
            9 => queries([
                "SET timestamp = 1600000000".into(),
                "SELECT NOW(), CURDATE()".into(),
                "SET timestamp = DEFAULT".into(),
                "SELECT @@timestamp > 1700000000".into(),
            ]),
            // The time differs by itself.
            10 if name != "timestamp" => {
                queries([format!("SET @saved = @@{name}, {assignment}"), format!("SET SESSION {name} = @saved"), ask])
            }
            11 => queries([format!("SET {assignment}; SELECT 1"), ask]),
            12 => queries([format!("SET GLOBAL {name} = DEFAULT"), format!("SELECT @@global.{name} IS NULL")]),
            _ => queries(["SET sql_mode = DEFAULT, NAMES utf8mb4".into(), "SELECT @@sql_mode".into()]),
        }
    }

    /// The characteristics of all transactions to come.
    fn characteristics(&mut self) -> Idea {
        let characteristics = self.random.pick(&[
            "ISOLATION LEVEL READ COMMITTED",
            "ISOLATION LEVEL REPEATABLE READ",
            "ISOLATION LEVEL SERIALIZABLE",
            "READ ONLY",
            "READ WRITE",
            "ISOLATION LEVEL READ UNCOMMITTED, READ WRITE",
        ]);
        let names = if self.mariadb() {
            "@@tx_isolation, @@tx_read_only"
        } else {
            "@@transaction_isolation, @@transaction_read_only"
        };
        let table = self.table();
        queries([
            format!("SET SESSION TRANSACTION {characteristics}"),
            format!("SELECT {names}"),
            format!("UPDATE {table} SET v = 'iso' WHERE k = 1"),
        ])
    }

    pub(super) fn user_variables(&mut self) -> Idea {
        let number = self.fresh();
        let value = match self.random.below(18) {
            0 => "NULL".to_owned(),
            1 => number.to_string(),
            2 => format!("-{number}"),
            3 => format!("{number}.50"),
            4 => "1.5e3".into(),
            5 => "'text'".into(),
            6 => "'it''s \\\\ back'".into(),
            7 => "x'00ff27'".into(),
            8 => "_latin1'l\\n'".into(),
            9 => "_utf8mb4'ž' COLLATE utf8mb4_bin".into(),
            10 => "18446744073709551615".into(),
            11 => "CONCAT('a', 'b')".into(),
            12 => "(SELECT COUNT(*) FROM {a}.shared)".into(),
            13 => "(SELECT d FROM {a}.shared WHERE id = 2)".into(),
            14 => "b'101'".into(),
            15 => "1/3".into(),
            16 => "DATE '2024-02-29'".into(),
            _ => "@other".into(),
        };
        let ask = "SELECT @u, HEX(@u), COLLATION(@u), COERCIBILITY(@u), @u + 0, @U IS NULL, @other".to_owned();
        match self.random.below(11) {
            0..=3 => queries([format!("SET @u = {value}"), ask]),
            4 => queries([
                format!("SET @u = {value}, @other = @u, @`quoted name` = 5"),
                ask,
                "SELECT @`quoted name`, @'quoted name'".into(),
            ]),
            5 => queries([format!("SELECT {value} INTO @u"), ask]),
            6 => queries([format!("SELECT @u := {value}"), ask]),
            7 => queries(["SELECT n, v FROM {a}.shared WHERE id = 1 INTO @u, @other".into(), ask]),
            8 => queries(["SELECT n FROM {a}.shared ORDER BY id INTO @u".into(), "SHOW WARNINGS".into(), ask]),
            9 => queries([format!("SET @u := {value}; SELECT @u"), ask]),
            _ => queries([
                "SET @counter = 0".into(),
                "SELECT id, @counter := @counter + 1 AS c FROM {a}.shared ORDER BY id".into(),
                "SELECT @counter".into(),
            ]),
        }
    }

    pub(super) fn schema(&mut self) -> Idea {
        let schema = self.one_of(&["{a}", "{b}", "{lib}", "{a}", "nosuch_schema"]);
        let ask = query("SELECT DATABASE(), SCHEMA(), @@character_set_database, @@collation_database");
        let me = self.me;
        let read = query(format!("SELECT COUNT(*) FROM t{me}"));
        let go = match self.random.below(3) {
            0 => Action::InitDb(schema.into_bytes()),
            1 => query(format!("USE {schema}")),
            _ => query(format!("USE `{schema}`; SELECT 1")),
        };
        vec![go, ask, read]
    }

    pub(super) fn diagnostics(&mut self) -> Idea {
        let (table, number) = (self.table(), self.fresh());
        let which = self.random.below(20);
        let cause = match which {
            0 => "SELECT nosuch FROM {a}.shared".to_owned(),
            1 => "SELECT * FROM {a}.nosuch".into(),
            2 => "SELEC 1".into(),
            3 => format!("INSERT INTO {table} (k) VALUES (1)"),
            4 => "SELECT 1/0, CAST('12abc' AS SIGNED)".into(),
            5 => format!("INSERT IGNORE INTO {table} (k, n) VALUES ({number}0000, 999), ({number}0001, -999)"),
            6 => "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 30001".into(),
            7 => "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'a warning', MYSQL_ERRNO = 30002".into(),
            8 => "DROP TABLE IF EXISTS {a}.nosuch, {b}.nosuch".into(),
            9 => "SELECT CONVERT('x' USING nosuch)".into(),
            10 => "CALL nosuch()".into(),
            11 => "SELECT * FROM {a}.shared WHERE nosuch = 1".into(),
            12 => format!("UPDATE {table} SET n = 'abc' WHERE k = 1"),
            13 => "SELECT nosuch_function(1)".into(),
            14 => "SELECT INET_ATON('x'), STR_TO_DATE('x', '%Y')".into(),
            15 => "GRANT ALL ON *.* TO nobody".into(),
            16 => "SELECT * FROM (SELECT 1 AS a, 1 AS a) AS x".into(),
            17 => format!(
                "SELECT 'a very long text that is in the message because the syntax is wrong and it goes on for more than one hundred and twenty-eight characters, {number}' FROM WHERE"
            ),
            18 => format!("ALTER TABLE {table} ADD COLUMN k INT"),
            _ => "SELECT 1".into(),
        };
        // On another connection there are as many messages, of which a single short one is the very one. The last cause
        // leaves those of a statement before.
        let stand_ins = matches!(which, 2 | 4 | 5 | 8 | 14 | 17 | 19);
        let ask = match self.random.below(12) {
            7 | 10.. if stand_ins => "SHOW WARNINGS",
            0..=2 => "SHOW WARNINGS",
            3 => "SHOW ERRORS",
            4 => "SHOW COUNT(*) WARNINGS",
            5 => "SHOW COUNT(*) ERRORS",
            6 => "SELECT @@warning_count, @@error_count",
            7 => "SHOW WARNINGS LIMIT 1",
            8 | 9 => "GET DIAGNOSTICS @number = NUMBER",
            _ => "GET DIAGNOSTICS CONDITION 1 @errno = MYSQL_ERRNO, @text = MESSAGE_TEXT",
        };
        let mut idea = vec![query(cause), query(ask)];
        if ask.starts_with("GET") {
            idea.push(query("SELECT @number, @rows, @state, @errno, @text"));
        }
        match self.random.below(4) {
            0 => idea.push(query("SHOW WARNINGS")),
            1 => idea.push(query("SELECT ROW_COUNT(), FOUND_ROWS()")),
            2 => idea.push(query("SELECT @@error_count, @@warning_count")),
            _ => {}
        }
        idea
    }

    /// Called from within their schema: one of another schema pins, because the server then tells a change of which nobody
    /// can say whether it is only the schema's.
    pub(super) fn routines(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        let mut idea = match self.random.below(12) {
            0 => queries([format!("SELECT {{lib}}.f_plain({number})")]),
            1 => queries([format!("SELECT {{lib}}.f_reads({me}), {{lib}}.f_plain(1)")]),
            2 => queries([
                format!("SELECT {{lib}}.f_counts({me})"),
                format!("SELECT n FROM {{lib}}.counter WHERE id = {me}"),
            ]),
            3 => queries([
                format!("DO {{lib}}.f_counts({me})"),
                format!("SELECT n FROM {{lib}}.counter WHERE id = {me}"),
            ]),
            4 => queries([format!("CALL {{lib}}.p_rows({number})")]),
            5 => {
                queries([format!("SET @c = 'c{number}'"), "CALL {lib}.p_out(4, @b, @c)".into(), "SELECT @b, @c".into()])
            }
            6 => queries([format!("CALL {{lib}}.p_counts({me})"), "SELECT ROW_COUNT()".into()]),
            7 => queries([format!("CALL {{lib}}.p_logs('from {me}')"), "SELECT LAST_INSERT_ID()".into()]),
            8 => queries(["CALL {lib}.p_fails()".into(), "SHOW WARNINGS".into()]),
            9 => queries(["CALL {lib}.p_handles()".into(), "SELECT @caught".into()]),
            10 => queries([format!("SELECT f_plain({number})"), "SELECT `f_plain`(1) FROM {a}.shared".into()]),
            _ => queries(["SHOW CREATE FUNCTION {lib}.f_plain".into()]),
        };
        if !self.keeper {
            idea.insert(0, query("USE {lib}"));
        }
        idea
    }

    pub(super) fn commands(&mut self) -> Idea {
        let ask = query("SELECT @@sql_mode, @u, DATABASE(), @@autocommit, LAST_INSERT_ID()");
        match self.random.below(9) {
            0 | 1 => vec![Action::Reset, ask],
            2 => vec![Action::ChangeUser(Some("{b}".into()), None), ask],
            3 => vec![Action::ChangeUser(None, None), ask],
            4 => vec![Action::Ping],
            5 => vec![Action::SetOption(false), query("SELECT 1; SELECT 2"), Action::SetOption(true)],
            6 => vec![Action::SetOption(true), query("SELECT 1; SELECT 2")],
            7 => vec![Action::InitDb(b"{a}".to_vec()), Action::FieldList(format!("t{}", self.me))],
            _ => vec![Action::Ping, ask],
        }
    }
}
