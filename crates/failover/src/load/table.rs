//! The tables of the load, and its statements.

use std::fmt::Write as _;

/// All tables.
pub(crate) const NAMES: [&str; 5] = ["keyed", "counted", "moved", "balance", "clock"];

/// Tokens of a client lie between its number and the next one's, multiplied by this.
pub(crate) const TOKENS_MAX: i64 = 1_000_000_000;

/// Makes the tables, with a balance for each client.
///
/// A token is a client's number for one write; it is never used again. Only `keyed` makes it unique: elsewhere a write that is done
/// twice leaves two rows.
pub(crate) fn schema(clients: u32) -> String {
    let mut sql = "CREATE TABLE app.keyed (token BIGINT PRIMARY KEY);\n\
         CREATE TABLE app.counted (id BIGINT AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL, KEY (token));\n\
         CREATE TABLE app.moved (id BIGINT AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL, KEY (token));\n\
         CREATE TABLE app.balance (client BIGINT PRIMARY KEY, n BIGINT NOT NULL);\n\
         CREATE TABLE app.clock (id INT PRIMARY KEY, tick BIGINT NOT NULL);\n\
         INSERT INTO app.clock VALUES (1, 0);\n"
        .to_owned();
    for client in 0..clients {
        let _ = writeln!(sql, "INSERT INTO app.balance VALUES ({client}, 0);");
    }
    sql
}

/// The statements of a client, with `?` for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sql {
    /// Is a row there that this client has written?
    Read,
    /// An insert with a key of the client's own.
    Keyed,
    /// An insert whose key the server makes.
    Counted,
    /// The transaction's insert.
    Move,
    /// The transaction's update of the client's own row.
    Update,
    /// The rows that the transaction sees.
    Look,
}

impl Sql {
    pub(crate) const ALL: [Sql; 6] = [Sql::Read, Sql::Keyed, Sql::Counted, Sql::Move, Sql::Update, Sql::Look];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Sql::Read => "SELECT token FROM keyed WHERE token = ?",
            Sql::Keyed => "INSERT INTO keyed (token) VALUES (?)",
            Sql::Counted => "INSERT INTO counted (token) VALUES (?)",
            Sql::Move => "INSERT INTO moved (token) VALUES (?)",
            Sql::Update => "UPDATE balance SET n = n + 1 WHERE client = ?",
            Sql::Look => "SELECT n FROM balance WHERE client = ?",
        }
    }

    /// With the number in its place.
    pub(crate) fn with(self, number: i64) -> String {
        self.text().replace('?', &number.to_string())
    }
}
