//! Names in expressions: of functions that are called, of tables that tell of one server, of sequences.

use super::Classifier;
use crate::connections;
use crate::dialect::{Encoding, Modes};
use crate::leaves::Leaves;
use crate::lexer::{Token, TokenKind};
use crate::statement::{Asks, Why};
use crate::text;
use crate::words::{Entry, W};

/// Schemas whose tables tell of one server: what runs there, how it is set, what it has logged or counted.
const SERVER_SCHEMAS: [&str; 3] = ["performance_schema", "mysql", "sys"];

/// Tables of `information_schema` that every server of a cluster answers alike. The others tell of one server, if only by
/// estimates and times.
const SAME_EVERYWHERE: [&str; 18] = [
    "applicable_roles",
    "character_sets",
    "check_constraints",
    "collation_character_set_applicability",
    "collations",
    "column_privileges",
    "columns",
    "key_column_usage",
    "keywords",
    "parameters",
    "referential_constraints",
    "routines",
    "schema_privileges",
    "schemata",
    "sql_functions",
    "table_constraints",
    "table_privileges",
    "views",
];

/// A name that may turn out to be a function's.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) token: Token,
    pub(super) entry: &'static Entry,
    /// The token before it.
    pub(super) before: TokenKind,
}

impl Classifier<'_> {
    /// An identifier, perhaps qualified, perhaps the name of a function that is called.
    pub(super) fn scan_name(&mut self) {
        let mut name = Name { token: self.cursor.token, entry: self.cursor.entry, before: self.cursor.before };
        let alias = matches!(self.cursor.before_word, W::As | W::Into | W::Table) || name.before == TokenKind::Close;
        if self.cursor.dialect().encoding == Encoding::AsciiSafe && self.cursor.bytes().iter().any(is_maybe_space) {
            self.primary(Why::Unknown);
        }
        self.cursor.bump();
        let mut schema = None;
        let mut ends_in_dot = false;
        while self.cursor.kind() == TokenKind::Dot {
            self.cursor.bump();
            if !self.cursor.at_name() {
                ends_in_dot = true;
                break;
            }
            schema = Some(name.token);
            name.token = self.cursor.token;
            self.cursor.bump();
        }
        if let Some(schema) = schema {
            self.server_table(schema, name.token);
        }
        if self.cursor.kind() == TokenKind::Open && !ends_in_dot {
            if !alias {
                match schema {
                    Some(schema) => self.stored_function(Some(schema), name.token),
                    None => self.function(name),
                }
            }
        } else if schema.is_some() && self.cursor.dialect().modes.contains(Modes::ORACLE) {
            let member = text::identifier(name.token, self.cursor.text());
            if member.eq_ignore_ascii_case("nextval") {
                self.next_value();
            } else if member.eq_ignore_ascii_case("currval") {
                self.last_value();
            }
        } else if self.cursor.behind_rowcount().is_some() {
            // That of a cursor, too, but in vain.
            self.asks |= Asks::ROW_COUNT;
            self.primary(Why::SessionState);
        }
    }

    /// NEXT VALUE FOR and PREVIOUS VALUE FOR, or names like their first words.
    pub(super) fn value_for(&mut self) {
        let next = self.cursor.at(W::Next);
        self.cursor.bump();
        if self.cursor.accept(W::Value) && self.cursor.at(W::For) {
            if next { self.next_value() } else { self.last_value() }
        }
    }

    /// NEXTVAL(): the connection remembers what it gave.
    pub(super) fn next_value(&mut self) {
        self.sequence();
        self.leaves(Leaves::SEQUENCES);
    }

    /// LASTVAL(): a session that asks once will ask again, perhaps behind a write that calls NEXTVAL() unseen.
    pub(super) fn last_value(&mut self) {
        self.asks |= Asks::SEQUENCE_VALUE;
        self.next_value();
    }

    /// A sequence is asked, which is a table.
    pub(super) fn sequence(&mut self) {
        self.primary(Why::Sequence);
        self.uses_tables = true;
    }

    /// A qualified name, perhaps of a table that tells of one server.
    fn server_table(&mut self, schema: Token, table: Token) {
        let text = self.cursor.text();
        // A name with a doubled mark inside is none of these, with or without it.
        let (schema, table) = (text::unquoted(schema, text), text::unquoted(table, text));
        let is = |name: &[u8], word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let of_one_server = match schema.len() {
            18 if is(schema, "information_schema") => !SAME_EVERYWHERE.iter().any(|word| is(table, word)),
            3 | 5 | 18 => SERVER_SCHEMAS.iter().any(|word| is(schema, word)),
            _ => false,
        };
        if of_one_server {
            self.primary(Why::ServerState);
            if !is(schema, "information_schema") || connections::id_table(schema, table).is_some() {
                self.asks |= Asks::SERVER_IDS;
            }
            if ["session_variables", "system_variables", "variables_by_thread"].iter().any(|word| is(table, word)) {
                self.asks |= Asks::LAST_INSERT_ID;
            }
            if is(table, "session_connect_attrs") || is(table, "session_account_connect_attrs") {
                self.asks |= Asks::CONNECT_ATTRIBUTES;
            }
        }
    }
}

/// Bytes that are a no-break space in some single-byte character sets (koi8, Macintosh, DOS code pages) and a letter
/// in others: a word that holds one may be two words to the server.
fn is_maybe_space(byte: &u8) -> bool {
    matches!(byte, 0x9a | 0xca | 0xff)
}
