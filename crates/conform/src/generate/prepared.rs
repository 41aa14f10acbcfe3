//! Prepared statements of the binary protocol.

use super::{Generator, Idea, query};
use crate::script::{Action, Value};

/// A prepared statement, by its name.
struct Statement(String);

impl Statement {
    fn prepare(&self, sql: impl Into<String>) -> Action {
        Action::Prepare(self.0.clone(), sql.into().into_bytes())
    }

    fn execute(&self, values: Vec<Value>) -> Action {
        Action::Execute { name: self.0.clone(), cursor: false, again: false, values }
    }

    /// The last execution of an idea once more, without the types of its values.
    fn again(&self, idea: &[Action]) -> Option<Action> {
        idea.iter().rev().find_map(|action| match action {
            Action::Execute { values, .. } => {
                Some(Action::Execute { name: self.0.clone(), cursor: false, again: true, values: values.clone() })
            }
            _ => None,
        })
    }
}

impl Generator {
    fn value(&mut self) -> Value {
        let number = self.fresh();
        match self.random.below(16) {
            0 => Value::Null,
            1 => Value::Tiny(-7),
            2 => Value::Short(-30_000),
            3 | 4 => Value::Int(number as i32),
            5 => Value::Big(i64::from(number) << 33),
            6 => Value::Unsigned(u64::MAX),
            7 => Value::Float(1.5),
            8 => Value::Double(-0.125),
            9 => Value::Decimal(format!("{number}.75")),
            10 | 11 => Value::Text(format!("text {number} ä").into_bytes()),
            12 => Value::Blob(vec![0, 0xff, b'\'', b'\\', b' ']),
            13 => Value::Date(2024, 2, 29),
            14 => Value::DateTime(2024, 12, 31, 86_399, 250_000),
            _ => Value::Time(true, 3, 3_723),
        }
    }

    /// A prepared statement's life. Only keepers open cursors and send long data, which keep the connection.
    pub(super) fn binary(&mut self) -> Idea {
        let statement = Statement(format!("s{}", self.fresh()));
        let (table, number) = (self.table(), self.fresh());
        let which = self.random.below(19);
        let mut idea = match which {
            0 | 8 | 9 => self.of_values(which, &statement),
            7 if self.keeper => vec![
                statement.prepare(format!("INSERT INTO {{a}}.g{} (v) VALUES (?)", self.me)),
                statement.execute(vec![Value::Text(b"bin".to_vec())]),
                query("SELECT @triggered"),
            ],
            1..=6 | 14..=17 => self.of_tables(which, &statement, &table, number),
            _ => of_session(which, &statement, &table, number),
        };
        if self.random.once_in(3) {
            idea.extend(statement.again(&idea));
        }
        if self.random.once_in(2) {
            idea.push(Action::Close(statement.0.clone()));
            if self.random.once_in(4) {
                idea.push(statement.execute(vec![Value::Int(1), Value::Int(1)]));
            }
        }
        idea
    }

    /// Statements whose parameters have random values.
    fn of_values(&mut self, which: usize, statement: &Statement) -> Idea {
        match which {
            0 => {
                let values = [(); 3].map(|()| vec![self.value(), self.value()]);
                let mut idea = vec![statement.prepare("SELECT ?, ? AS b")];
                idea.extend(values.into_iter().map(|values| statement.execute(values)));
                idea
            }
            8 => vec![statement.prepare("SET @u = ?"), statement.execute(vec![self.value()]), query("SELECT @u")],
            _ => vec![statement.prepare("SELECT @u, ?"), statement.execute(vec![self.value()])],
        }
    }

    /// Statements that read and write tables.
    fn of_tables(&self, which: usize, statement: &Statement, table: &str, number: u32) -> Idea {
        let me = self.me;
        let key = |number: u32| Value::Int(100_000 + number as i32);
        match which {
            1 => vec![
                statement.prepare(format!("SELECT id, k, v FROM {table} WHERE k <= ? ORDER BY id")),
                statement.execute(vec![Value::Int(2)]),
                statement.execute(vec![Value::Null]),
            ],
            2 => vec![
                statement.prepare(format!("INSERT INTO {table} (k, v) VALUES (?, ?)")),
                statement.execute(vec![key(number), Value::Text(b"p".to_vec())]),
                query("SELECT LAST_INSERT_ID(), ROW_COUNT()"),
                statement.execute(vec![key(number), Value::Null]),
                query("SHOW WARNINGS"),
            ],
            3 => vec![
                statement.prepare("SELECT * FROM {a}.shared ORDER BY id"),
                statement.execute(vec![]),
                statement.execute(vec![]),
            ],
            4 => vec![
                statement.prepare(format!("SELECT * FROM t{me} ORDER BY id")),
                query("USE {b}"),
                statement.execute(vec![]),
                query("SELECT DATABASE()"),
            ],
            5 => vec![
                statement.prepare(format!("SELECT * FROM {{a}}.t{me} WHERE id = ?")),
                statement.execute(vec![Value::Big(1)]),
                query(format!("ALTER TABLE {{a}}.t{me} ADD COLUMN p{number} VARCHAR(5) DEFAULT 'new'")),
                statement.execute(vec![Value::Big(1)]),
            ],
            6 => vec![statement.prepare("SELECT nosuch FROM {a}.shared"), statement.execute(vec![])],
            14 => vec![
                statement.prepare(format!("UPDATE {table} SET v = ?, n = ? WHERE k = ?")),
                statement.execute(vec![Value::Text(b"upd".to_vec()), Value::Int(9999), Value::Int(1)]),
                query("SHOW WARNINGS"),
            ],
            15 => vec![
                statement.prepare("SELECT 1; SELECT 2"),
                statement.prepare("SELECT ? + ? FROM {a}.shared LIMIT ?"),
                statement.execute(vec![Value::Int(1), Value::Double(0.5), Value::Int(2)]),
            ],
            16 => vec![
                statement.prepare(format!("SELECT {{lib}}.f_counts({me})")),
                statement.execute(vec![]),
                query(format!("SELECT n FROM {{lib}}.counter WHERE id = {me}")),
            ],
            _ => vec![
                statement.prepare("SELECT d, f, t, b, v FROM {a}.shared WHERE id IN (?, ?) ORDER BY id"),
                statement.execute(vec![Value::Int(1), Value::Int(4)]),
                Action::ResetStatement(statement.0.clone()),
                statement.execute(vec![Value::Int(2), Value::Int(3)]),
            ],
        }
    }

    pub(super) fn cursors(&mut self) -> Idea {
        let name = format!("s{}", self.fresh());
        let prepare = |sql: &str| Action::Prepare(name.clone(), sql.into());
        let open = |values: Vec<Value>| Action::Execute { name: name.clone(), cursor: true, again: false, values };
        let fetch = |rows| Action::Fetch(name.clone(), rows);
        let between = query("SELECT 'between'");
        match self.random.below(6) {
            0 => vec![
                prepare("SELECT id, v FROM {a}.shared ORDER BY id"),
                open(vec![]),
                fetch(2),
                fetch(5),
                fetch(1),
                Action::Close(name.clone()),
            ],
            1 => vec![
                prepare("SELECT id, v FROM {a}.shared WHERE id > ? ORDER BY id"),
                open(vec![Value::Int(1)]),
                fetch(1),
                between,
                fetch(1),
                Action::ResetStatement(name.clone()),
                fetch(1),
            ],
            2 => vec![
                prepare("SELECT id FROM {a}.shared ORDER BY id"),
                open(vec![]),
                Action::Close(name.clone()),
                fetch(1),
            ],
            3 => vec![
                prepare("SELECT id FROM {a}.shared WHERE id > 1000"),
                open(vec![]),
                fetch(1),
                Action::Close(name.clone()),
            ],
            4 => vec![prepare("UPDATE {lib}.counter SET n = n WHERE id = 0"), open(vec![]), fetch(1)],
            _ => {
                let mut idea = vec![
                    prepare("SELECT ?, LENGTH(?)"),
                    Action::LongData(name.clone(), 0, b"long ".to_vec()),
                    Action::LongData(name.clone(), 0, b"data \xc3\xa4".to_vec()),
                    Action::Execute {
                        name: name.clone(),
                        cursor: false,
                        again: false,
                        values: vec![Value::Long, self.value()],
                    },
                    Action::LongData(name.clone(), 1, b"again".to_vec()),
                    Action::ResetStatement(name.clone()),
                ];
                // MySQL converts to the types of the execution before, which is not kept with long data.
                if self.mariadb() {
                    let values = vec![self.value(), Value::Int(5)];
                    idea.push(Action::Execute { name: name.clone(), cursor: false, again: false, values });
                }
                idea.push(Action::Close(name.clone()));
                idea
            }
        }
    }
}

/// Statements that ask for the state of their session, or change it.
fn of_session(which: usize, statement: &Statement, table: &str, number: u32) -> Idea {
    match which {
        10 => {
            vec![query("USE {lib}"), statement.prepare("CALL {lib}.p_rows(?)"), statement.execute(vec![Value::Int(3)])]
        }
        11 => vec![
            statement.prepare("SELECT LAST_INSERT_ID(), CONNECTION_ID()"),
            statement.execute(vec![]),
            query(format!("INSERT INTO {table} (k) VALUES ({})", 200_000 + number)),
            statement.execute(vec![]),
        ],
        12 => vec![
            statement.prepare("SELECT FOUND_ROWS(), ROW_COUNT()"),
            query("SELECT * FROM {a}.shared ORDER BY id"),
            statement.execute(vec![]),
        ],
        13 => vec![
            statement.prepare("SET sql_mode = 'ANSI_QUOTES'"),
            statement.execute(vec![]),
            query("SELECT @@sql_mode"),
        ],
        _ => {
            vec![statement.prepare("SHOW WARNINGS"), query("SELECT nosuch FROM {a}.shared"), statement.execute(vec![])]
        }
    }
}
