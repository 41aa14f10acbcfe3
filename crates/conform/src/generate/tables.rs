//! Reading and writing tables, and defining them.

use lab::Family;

use super::{Generator, Idea, queries, query};
use crate::script::{Action, Step};

/// The tables that a script begins with: those that its steps name.
pub(super) fn set_up(sessions: usize, family: Family, steps: &[Step]) -> Vec<Step> {
    let mut sql = vec![
        "CREATE TABLE {a}.shared (id INT PRIMARY KEY, n INT, v VARCHAR(40), d DECIMAL(10,2), f DOUBLE, b BLOB, t DATETIME(3))"
            .to_owned(),
        "INSERT INTO {a}.shared VALUES (1, 10, 'one', 1.50, 0.25, x'00ff', '2024-02-29 12:34:56.789'), \
         (2, 20, 'zwei', -2.25, 1e10, '', '1999-12-31 23:59:59'), (3, NULL, NULL, NULL, NULL, NULL, NULL), \
         (4, 40, 'čtyři', 0, -0.5, 'x', '2020-01-01')"
            .to_owned(),
        "CREATE TABLE {a}.note (id INT AUTO_INCREMENT PRIMARY KEY, s INT, v VARCHAR(60))".to_owned(),
    ];
    let texts: Vec<String> = steps.iter().map(|step| step.action.to_string()).collect();
    for session in 1..=sessions {
        let named = |kind: &str| texts.iter().any(|text| names(text, &format!("{kind}{session}")));
        if named("t") || named("w") {
            for schema in ["{a}", "{b}"] {
                sql.push(format!(
                    "CREATE TABLE {schema}.t{session} (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE, v VARCHAR(20), \
                     n TINYINT)"
                ));
                sql.push(format!("INSERT INTO {schema}.t{session} (k, v, n) VALUES (1, 'a', 1), (2, 'b', NULL)"));
            }
        }
        if named("w") {
            sql.push(format!("CREATE VIEW {{a}}.w{session} AS SELECT id, v FROM {{a}}.t{session}"));
        }
        if named("g") {
            sql.push(format!("CREATE TABLE {{a}}.g{session} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))"));
            sql.push(format!(
                "CREATE TRIGGER {{a}}.tr{session} BEFORE INSERT ON {{a}}.g{session} FOR EACH ROW \
                 SET NEW.v = UPPER(NEW.v), @triggered = CONCAT('by ', NEW.v)"
            ));
        }
        if named("q") && family == Family::MariaDb {
            sql.push(format!("CREATE SEQUENCE {{a}}.q{session} START WITH 5 INCREMENT BY 3"));
        }
    }
    let of_family = if family == Family::MariaDb { SEQUENCES } else { &[] };
    for (name, text) in COMMON.iter().chain(of_family) {
        // Scripts about rights make their roles themselves.
        let is_made = *name == "{r1}" && texts.iter().any(|text| text.starts_with("CREATE ROLE"));
        if !is_made && texts.iter().any(|text| names(text, name)) {
            sql.push((*text).to_owned());
        }
    }
    sql.into_iter().map(|sql| Step { session: 0, action: query(sql) }).collect()
}

/// Tables that no session owns, by name.
const COMMON: &[(&str, &str)] = &[
    ("{r1}", "CREATE ROLE {r1}"),
    ("{r1}", "GRANT {r1} TO app"),
    ("mine", "CREATE TABLE {a}.mine (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))"),
    ("seen", "CREATE TABLE {a}.seen (id INT PRIMARY KEY, v VARCHAR(20))"),
    ("seen", "INSERT INTO {a}.seen VALUES (1, 'a'), (2, 'b')"),
    ("counting", "CREATE VIEW {a}.counting AS SELECT {lib}.f_nested(1) AS n"),
];

/// MariaDB's sequences, and tables and views that use them.
const SEQUENCES: &[(&str, &str)] = &[
    ("sq", "CREATE SEQUENCE {a}.sq START WITH 100 INCREMENT BY 10"),
    ("numbered", "CREATE SEQUENCE {a}.sn START WITH 7"),
    ("numbered", "CREATE TABLE {a}.numbered (id INT PRIMARY KEY DEFAULT (NEXTVAL({a}.sn)), v INT)"),
    ("next_number", "CREATE SEQUENCE {a}.sv"),
    ("next_number", "CREATE VIEW {a}.next_number AS SELECT NEXTVAL({a}.sv) AS n"),
];

/// Ways to ask for the id that was inserted last.
const INSERT_IDS: [&str; 5] = [
    "SELECT LAST_INSERT_ID()",
    "SELECT @@last_insert_id, @@identity",
    "SELECT LAST_INSERT_ID() + 1, ROW_COUNT()",
    "SELECT LAST_INSERT_ID() FROM {a}.shared WHERE id < 3",
    "SELECT last_insert_id ( ) AS x",
];

/// Whether a text has this name in it, not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(of_word) && !text[at + name.len()..].starts_with(of_word))
}

impl Generator {
    pub(super) fn reads(&mut self) -> Idea {
        let (table, me) = (self.table(), self.me);
        let small = self.random.below(5);
        match self.random.below(22) {
            0 => queries([format!("SELECT * FROM {table} ORDER BY id")]),
            1 => queries(["SELECT * FROM {a}.shared ORDER BY id".into()]),
            2 => queries([format!("SELECT COUNT(*), SUM(k), GROUP_CONCAT(v ORDER BY id) FROM {table}")]),
            3 => queries([format!("SELECT id, v AS \"name\" FROM {{a}}.w{me} WHERE id > {small} ORDER BY 1 DESC")]),
            4 => queries(["SELECT 1, 'a', 2.50, 1e3, NULL, x'4142', DATE '2024-02-29', TRUE, -1".into()]),
            5 => queries([format!(
                "SELECT a.id, b.k FROM {{a}}.shared a LEFT JOIN {table} b ON a.id = b.id ORDER BY a.id, b.k"
            )]),
            6 => queries([format!("SELECT id FROM {table} ORDER BY id LIMIT 1"), "SELECT FOUND_ROWS()".into()]),
            7 => queries([
                format!("SELECT k FROM {table} UNION ALL SELECT n FROM {{a}}.shared ORDER BY 1"),
                "SELECT FOUND_ROWS(), ROW_COUNT()".into(),
            ]),
            8 => queries([format!("SHOW COLUMNS FROM {table}")]),
            9 => queries([format!("SHOW CREATE TABLE {table}")]),
            10 => queries([format!("SHOW TABLES FROM {{b}} LIKE 't{me}'"), "SELECT FOUND_ROWS()".into()]),
            11 => queries(["SHOW CHARACTER SET LIKE 'latin%'".into()]),
            12 => queries([format!("EXPLAIN SELECT * FROM {table} WHERE id = 1")]),
            13 => queries([format!("DESCRIBE {table} v")]),
            14 => queries(["SELECT CONNECTION_ID()".into()]),
            15 => queries([
                "SELECT CONNECTION_ID(), @@pseudo_thread_id, USER(), CURRENT_USER(), DATABASE(), VERSION()".into(),
            ]),
            16 => queries([format!("SELECT * FROM {table} WHERE id = 1 FOR UPDATE")]),
            17 => queries([format!("SELECT * FROM {table} WHERE id = 1 LOCK IN SHARE MODE")]),
            18 => queries([
                "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r".into(),
            ]),
            19 => queries([format!(
                "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{{b}}' AND TABLE_NAME = 't{me}'"
            )]),
            20 => queries(["SELECT RAND(3), SLEEP(0), BENCHMARK(1, 1), MD5('x'), CONVERT('ä' USING latin1)".into()]),
            _ => queries([format!("CHECKSUM TABLE {table}")]),
        }
    }

    pub(super) fn writes(&mut self) -> Idea {
        let (table, me, number) = (self.table(), self.me, self.fresh());
        let key = 10 + number;
        let insert = format!("INSERT INTO {table} (k, v) VALUES ({key}, 'r{number}')");
        let read = format!("SELECT * FROM {table} ORDER BY id");
        let ask = self.one_of(&INSERT_IDS);
        match self.random.below(24) {
            0 | 1 => queries([insert, ask]),
            2 => queries([insert, read]),
            3 => queries([
                format!("INSERT INTO {table} (k, v) VALUES ({key}, 'x'), ({}, 'y'), ({}, 'z')", key + 1000, key + 2000),
                ask,
                "SELECT ROW_COUNT()".into(),
            ]),
            4 => queries([format!("INSERT INTO {table} (id, k) VALUES ({}, {key})", 500 + number), ask]),
            5 => {
                queries([insert, format!("INSERT INTO {table} (id, k) VALUES ({}, {})", 700 + number, key + 1000), ask])
            }
            6 => queries([
                format!("INSERT INTO {table} (k, v) VALUES (1, 'd') ON DUPLICATE KEY UPDATE v = 'dup{number}'"),
                ask,
                "SELECT ROW_COUNT()".into(),
            ]),
            7 => queries([
                format!("INSERT INTO {table} (k) VALUES (1) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), n = 3"),
                ask,
            ]),
            8 => queries([format!("REPLACE INTO {table} (k, v) VALUES (2, 're{number}')"), ask, read]),
            9 => queries([
                format!("UPDATE {table} SET v = CONCAT(v, 'u') WHERE k <= 2"),
                "SELECT ROW_COUNT()".into(),
                read,
            ]),
            10 => queries([format!("UPDATE {table} SET id = LAST_INSERT_ID(id + 300) WHERE k = 2"), ask]),
            11 => queries([format!("DELETE FROM {table} WHERE k > 2"), "SELECT ROW_COUNT()".into()]),
            12 => {
                queries([format!("INSERT INTO {table} (k, v) SELECT k + {key} * 10, v FROM {table} WHERE k < 3"), ask])
            }
            13 => queries([
                format!("INSERT IGNORE INTO {table} (k, v) VALUES (1, 'no'), ({key}, 'yes')"),
                ask,
                "SHOW WARNINGS".into(),
            ]),
            14 => queries([format!("SELECT LAST_INSERT_ID({number})"), "SELECT LAST_INSERT_ID()".into()]),
            15 if self.keeper => self.triggered(number),
            16 => queries([
                format!("INSERT INTO {{a}}.note (s, v) VALUES ({me}, 'note {number}')"),
                "SELECT s, v FROM {a}.note ORDER BY id".into(),
            ]),
            17 => queries([
                format!("UPDATE {{a}}.w{me} SET v = 'via view' WHERE id = 1"),
                format!("SELECT v FROM {{a}}.w{me} ORDER BY id"),
            ]),
            18 => queries([format!("{insert}; {ask}; {read}")]),
            19 => queries([format!("DO LAST_INSERT_ID({number})"), ask]),
            20 if self.mariadb() => {
                queries([format!("INSERT INTO {table} (k, v) VALUES ({key}, 'ret') RETURNING id, k, UPPER(v)"), ask])
            }
            21 if self.mariadb() && self.keeper => queries([
                format!("SELECT NEXTVAL({{a}}.q{me})"),
                format!("SELECT NEXT VALUE FOR {{a}}.q{me}, LASTVAL({{a}}.q{me})"),
            ]),
            22 if self.mariadb() && self.keeper => queries([
                format!("SELECT SETVAL({{a}}.q{me}, {})", 100 * number),
                format!("SELECT NEXTVAL({{a}}.q{me}) AS n"),
            ]),
            _ => queries([format!("DELETE FROM {table} WHERE k = {} LIMIT 1", key - 1), insert, ask]),
        }
    }

    /// A write whose trigger sets a user variable.
    fn triggered(&self, number: u32) -> Idea {
        let me = self.me;
        let mut idea = queries([
            format!("INSERT INTO {{a}}.g{me} (v) VALUES ('t{number}')"),
            "SELECT @triggered, LAST_INSERT_ID()".into(),
        ]);
        if !self.mariadb() {
            // Only what announces that the connection is kept finds no user variables of others on it there.
            idea.insert(0, query("BEGIN"));
            idea.push(query("COMMIT"));
        }
        idea
    }

    pub(super) fn definitions(&mut self) -> Idea {
        let (me, number) = (self.me, self.fresh());
        match self.random.below(9) {
            0 => queries([
                format!("CREATE TABLE {{a}}.x{me}_{number} (id INT PRIMARY KEY, v INT) COMMENT 'x'"),
                format!("INSERT INTO {{a}}.x{me}_{number} VALUES (1, 2)"),
                format!("SELECT * FROM {{a}}.x{me}_{number}"),
                format!("DROP TABLE {{a}}.x{me}_{number}"),
            ]),
            1 => queries([
                format!("ALTER TABLE {{a}}.t{me} ADD COLUMN c{number} INT DEFAULT {number}"),
                format!("SELECT * FROM {{a}}.t{me} ORDER BY id"),
            ]),
            2 => queries([
                format!("TRUNCATE TABLE {{b}}.t{me}"),
                format!("INSERT INTO {{b}}.t{me} (k) VALUES (1)"),
                "SELECT LAST_INSERT_ID()".into(),
            ]),
            3 => queries([
                format!("CREATE OR REPLACE VIEW {{a}}.w{me} AS SELECT id, v FROM {{a}}.t{me} WHERE id < 100"),
                format!("SHOW CREATE VIEW {{a}}.w{me}"),
            ]),
            4 => queries(["DROP TABLE IF EXISTS {a}.nosuch".into(), "SHOW WARNINGS".into()]),
            5 => queries([
                format!("RENAME TABLE {{b}}.t{me} TO {{b}}.r{me}"),
                format!("SELECT COUNT(*) FROM {{b}}.r{me}"),
                format!("RENAME TABLE {{b}}.r{me} TO {{b}}.t{me}"),
            ]),
            6 => queries([format!("CREATE TABLE IF NOT EXISTS {{a}}.t{me} (id INT)"), "SHOW WARNINGS".into()]),
            7 => queries([
                format!("CREATE INDEX i{number} ON {{a}}.t{me} (v)"),
                format!("DROP INDEX i{number} ON {{a}}.t{me}"),
            ]),
            _ => queries([
                format!("CREATE TABLE {{a}}.y{me}_{number} AS SELECT k, v FROM {{a}}.t{me} ORDER BY id"),
                "SELECT ROW_COUNT()".into(),
                format!("DROP TABLE {{a}}.y{me}_{number}"),
            ]),
        }
    }

    pub(super) fn odd_texts(&mut self) -> Idea {
        let table = self.table();
        let number = self.fresh();
        match self.random.below(14) {
            0 => queries([format!("  \n\t/* a comment */ SELECT /*! 1 + */ 2 -- the end\n  FROM {table} ORDER BY id LIMIT 1")]),
            1 => queries(["SELECT /*!99999 nonsense */ 1".into()]),
            2 => queries(["/*M!100100 SELECT 1 */ ".into()]),
            3 => queries(["/*!40101 SET @old = @@sql_mode */;".into(), "SELECT @old IS NULL".into()]),
            4 => queries([format!("SELECT 'it''s', \"two\"\"q\", 'back\\\\slash', '\\n', 'a' 'b', N'n', {number}")]),
            5 => vec![Action::Query(b"SELECT '\xe4\xf6\xfc' AS x, HEX('\xe4')".to_vec())],
            6 => vec![Action::Query("SELECT 'äöü€' AS `spaltenname ä`, LENGTH('€'), CHAR_LENGTH('€'), HEX('€')".into())],
            7 => queries(["SELECT _latin1'x' COLLATE latin1_bin, _utf8mb4 x'C3A4', _binary 'b', CHARSET(_latin1'x'), COLLATION('x')".into()]),
            8 => queries(["".into()]),
            9 => queries([";".into()]),
            10 => queries(["-- only a comment\n".into()]),
            11 => queries([format!("SELECT 1; SELECT 2; ; UPDATE {table} SET v = 'm' WHERE k = 1; SELECT 3;")]),
            12 => queries([format!("SELECT 1; SELEC 2; SELECT 3 FROM {table}")]),
            _ => queries(["(SELECT 1) UNION (SELECT 2) ORDER BY 1".into(), "VALUES (1, 2), (3, 4)".into()]),
        }
    }
}
