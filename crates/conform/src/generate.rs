//! Random scripts: many sessions that change their state, interleaved, the same for the same seed.
//!
//! Sessions own their tables, so that nobody waits for locks and the order of steps is the order of effects. A few
//! sessions, the *keepers*, do what keeps a backend connection (transactions, temporary tables, locks, cursors); there
//! are fewer of them than connections in the lane's pool. All others must get by with what is left, and do only what
//! never pins for longer than a statement: should Sqluice pin one all the same, the pool runs dry and that shows.

mod keeping;
mod leaving;
mod looking;
mod mixing;
mod prepared;
mod rights;
mod sharing;
mod state;
mod tables;
mod transactions;

use std::collections::VecDeque;

use lab::Family;

pub use sharing::share;

use crate::random::Random;
use crate::script::{Action, Login, Script, Step};

/// Routines that scripts of a lane share: Sqluice reads what functions do only now and then, so they stay.
pub const LIBRARY: &str = "
DROP DATABASE IF EXISTS {lib};
CREATE DATABASE {lib} CHARACTER SET utf8mb4;
USE {lib};
CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(80));
CREATE TABLE counter (id INT PRIMARY KEY, n INT);
INSERT INTO counter SELECT 0, 0;
INSERT INTO counter VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 0), (12, 0);
DELIMITER //
CREATE FUNCTION f_plain(x INT) RETURNS INT DETERMINISTIC NO SQL RETURN x + 1 //
CREATE FUNCTION f_reads(x INT) RETURNS INT READS SQL DATA RETURN (SELECT n FROM counter WHERE id = x) //
CREATE FUNCTION f_counts(x INT) RETURNS INT MODIFIES SQL DATA
BEGIN UPDATE counter SET n = n + 1 WHERE id = x; RETURN (SELECT n FROM counter WHERE id = x); END //
CREATE FUNCTION f_nested(x INT) RETURNS INT MODIFIES SQL DATA RETURN f_counts(x) + 0 //
CREATE FUNCTION f_remembers(x INT) RETURNS INT NO SQL
BEGIN SET @remembered = x; RETURN x; END //
CREATE PROCEDURE p_rows(x INT) BEGIN SELECT x AS a; SELECT x + 1 AS b, 'z' AS c; END //
CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20))
BEGIN SET b = a * 2; SET c = CONCAT(c, a); END //
CREATE PROCEDURE p_counts(x INT) BEGIN UPDATE counter SET n = n + 1 WHERE id = x; SELECT n FROM counter WHERE id = x; END //
CREATE PROCEDURE p_logs(x VARCHAR(80)) BEGIN INSERT INTO log (v) VALUES (x); END //
CREATE PROCEDURE p_fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'as it was told', MYSQL_ERRNO = 31001; END //
CREATE PROCEDURE p_handles()
BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN GET DIAGNOSTICS CONDITION 1 @caught = MESSAGE_TEXT; END; SELECT nosuch FROM counter; SELECT @caught; END //
CREATE PROCEDURE p_mode() BEGIN SET SESSION sql_mode = 'ANSI_QUOTES'; SET @from_procedure = 7; END //
CREATE PROCEDURE p_zone() BEGIN SET time_zone = '+07:00'; END //
CREATE PROCEDURE p_temporary() BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS made (id INT); INSERT INTO made VALUES (1); END //
CREATE PROCEDURE p_lock(x VARCHAR(60)) BEGIN DO GET_LOCK(x, 0); END //
CREATE PROCEDURE p_begins() BEGIN START TRANSACTION; UPDATE counter SET n = n + 1 WHERE id = 0; END //
CREATE PROCEDURE p_begins_and_fails()
BEGIN START TRANSACTION; UPDATE counter SET n = n + 1 WHERE id = 0; SIGNAL SQLSTATE '45000'; END //
CREATE PROCEDURE p_sets_and_fails()
BEGIN SET SESSION sql_mode = 'ANSI_QUOTES', @from_procedure = 8; SIGNAL SQLSTATE '45000'; END //
CREATE PROCEDURE p_variable(x INT) BEGIN SET @from_procedure = x; END //
DELIMITER ;
";

/// The properties of a script besides its seed.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The servers' family.
    pub family: Family,
    /// Sessions that may keep connections.
    pub keepers: usize,
    /// Everything goes to the primary.
    pub primary_only: bool,
    /// All reads that may share a connection with others do.
    pub pipelined: bool,
}

/// The variables whose global values scripts set to their defaults.
pub fn global_variables() -> impl Iterator<Item = &'static str> {
    state::VARIABLES.iter().map(|(name, _)| *name)
}

/// The script of a seed.
pub fn generate(seed: u64, shape: Shape) -> Script {
    let mut random = Random::new(seed);
    let sessions = 4 + random.below(9);
    let steps = 60 + random.below(120);
    let mut script = Script { primary_only: shape.primary_only, pipelined: shape.pipelined, ..Script::default() };
    script.title.push(format!("seed {seed}"));
    for session in 1..=sessions {
        let login = login(&mut random);
        if login != Login::default() {
            script.logins.insert(session, login);
        }
    }
    let mut generator = Generator { random, family: shape.family, me: 0, keeper: false, number: 0 };
    let mut queues = vec![VecDeque::new(); sessions + 1];
    let mut made = 0;
    while made < steps {
        let session = 1 + generator.random.below(sessions);
        // Some stay for a few steps, as programs do.
        for _ in 0..1 + generator.random.below(3) {
            if queues[session].is_empty() {
                generator.me = session;
                generator.keeper = session <= shape.keepers;
                queues[session].extend(generator.idea());
            }
            if let Some(action) = queues[session].pop_front() {
                script.steps.push(Step { session, action });
                made += 1;
            }
        }
    }
    let tables = tables::set_up(sessions, shape.family, &script.steps);
    script.steps.splice(0..0, tables);
    script
}

fn login(random: &mut Random) -> Login {
    Login {
        classic_eof: random.once_in(3),
        no_tracking: random.once_in(2),
        found_rows: random.once_in(6),
        single_statements: random.once_in(10),
        ..Login::default()
    }
}

/// Makes steps for one session at a time.
struct Generator {
    random: Random,
    family: Family,
    /// The session.
    me: usize,
    /// It may keep a connection.
    keeper: bool,
    /// Makes names and values differ.
    number: u32,
}

/// Steps that belong together, for one session; others come between them.
type Idea = Vec<Action>;

impl Generator {
    fn idea(&mut self) -> Idea {
        if self.keeper && self.random.once_in(2) {
            return if self.random.once_in(3) { self.leaving() } else { self.keeping() };
        }
        match self.random.below(20) {
            0..=2 => self.reads(),
            3..=5 => self.writes(),
            6..=8 => self.sets(),
            9..=10 => self.user_variables(),
            11 => self.schema(),
            12..=13 => self.binary(),
            14..=15 => self.diagnostics(),
            16 => self.routines(),
            17 if self.random.once_in(2) => {
                let actor = 1 + self.random.below(2);
                self.looking(actor)
            }
            17 => self.definitions(),
            18 => self.commands(),
            _ => self.odd_texts(),
        }
    }

    fn mariadb(&self) -> bool {
        self.family == Family::MariaDb
    }

    fn fresh(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// A session's own table, in one of the schemas.
    fn table(&mut self) -> String {
        let schema = self.random.pick(&["{a}", "{a}", "{a}", "{b}"]);
        format!("{schema}.t{}", self.me)
    }

    fn one_of(&mut self, ideas: &[&str]) -> String {
        self.random.pick(ideas).to_owned()
    }
}

fn query(sql: impl Into<String>) -> Action {
    Action::Query(sql.into().into_bytes())
}

fn queries<const N: usize>(sql: [String; N]) -> Idea {
    sql.into_iter().map(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_script_and_its_text_gives_it_back() {
        for seed in 0..300 {
            let shape =
                Shape { family: Family::MariaDb, keepers: 2, primary_only: seed % 2 == 0, pipelined: seed % 3 == 0 };
            let script = generate(seed, shape);
            assert_eq!(script, generate(seed, shape), "seed {seed}");
            let text = script.to_string();
            assert_eq!(Script::parse(&text).unwrap(), script, "seed {seed}:\n{text}");
            let script = share(seed, shape);
            assert_eq!(script, share(seed, shape), "seed {seed}");
            let text = script.to_string();
            assert_eq!(Script::parse(&text).unwrap(), script, "seed {seed}:\n{text}");
        }
    }
}
