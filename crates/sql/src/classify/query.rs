//! SELECT and what changes data: the scan that every expression goes through.

use super::Classifier;
use crate::leaves::Leaves;
use crate::lexer::{Token, TokenKind};
use crate::statement::{Asks, Effect, Encoding, Family, Kind, Modes, Value, Why};
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

/// How deep lists of WITH are read inside one another. In deeper ones a name with columns counts as a call, which only
/// makes the statement more careful; the bound keeps the stack small.
const WITH_DEPTH_MAX: u8 = 16;

impl Classifier<'_> {
    /// SELECT, TABLE, VALUES, parenthesised and WITH.
    pub(super) fn query(&mut self) {
        if self.cursor.at(W::With) {
            return self.with();
        }
        let values =
            self.kind.is_none() && self.cursor.at(W::Values) && self.cursor.dialect().family == Family::MariaDb;
        let start = self.cursor.token.start;
        if self.cursor.kind() == TokenKind::Open {
            self.counting.begins_in_parentheses();
        }
        self.kind(Kind::Select);
        self.scan();
        if values {
            let text = self.cursor.text().get(start..).unwrap_or_default().to_ascii_lowercase();
            self.counting.values(&text);
        }
    }

    /// WITH: what follows the list may be a SELECT or a change.
    fn with(&mut self) {
        self.cursor.bump();
        self.cte_list();
        match self.cursor.word {
            W::Update => self.change(Kind::Update),
            W::Delete => self.change(Kind::Delete),
            W::Insert | W::Replace => self.insert(),
            W::Select | W::Values | W::Table => self.query(),
            _ if self.cursor.kind() == TokenKind::Open => self.query(),
            _ => self.unknown(),
        }
    }

    /// The list after WITH: names with column lists, which look like calls, and queries in parentheses.
    pub(super) fn cte_list(&mut self) {
        self.cursor.accept(W::Recursive);
        while self.cursor.at_name() {
            self.cursor.bump();
            if self.cursor.kind() == TokenKind::Open {
                self.skip_parens();
            }
            if !self.cursor.accept(W::As) || self.cursor.kind() != TokenKind::Open {
                return;
            }
            self.scan_parens();
            // MariaDB: CYCLE columns RESTRICT.
            if self.cursor.accept(W::Cycle) {
                self.skip_to(&[W::Restrict]);
                self.cursor.bump();
            }
            if !self.cursor.accept_kind(TokenKind::Comma) {
                return;
            }
        }
    }

    /// Skips a parenthesised list that holds names only.
    pub(super) fn skip_parens(&mut self) {
        let mut depth = 0usize;
        while !self.cursor.at_end() {
            match self.cursor.kind() {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.cursor.bump();
            if depth == 0 {
                return;
            }
        }
    }

    /// Looks at every token up to the end of the statement.
    pub(super) fn scan(&mut self) {
        while !self.cursor.at_end() {
            self.scan_token();
        }
    }

    /// Looks at the tokens of one parenthesised part, parentheses included.
    pub(super) fn scan_parens(&mut self) {
        let mut depth = 0usize;
        while !self.cursor.at_end() {
            match self.cursor.kind() {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.scan_token();
            if depth == 0 {
                return;
            }
        }
    }

    /// Looks at the tokens up to a comma outside parentheses, or one of these words, or the end.
    pub(super) fn scan_item(&mut self, stop: &[W]) {
        let mut depth = 0usize;
        while !self.cursor.at_end() {
            match self.cursor.kind() {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                TokenKind::Comma if depth == 0 => return,
                _ if depth == 0 && self.cursor.at_any(stop) => return,
                _ => {}
            }
            self.scan_token();
        }
    }

    /// Looks at one token, or at the few that belong together.
    pub(super) fn scan_token(&mut self) {
        match self.cursor.kind() {
            TokenKind::Word => self.scan_word(),
            TokenKind::QuotedIdentifier => self.scan_name(),
            TokenKind::UserVariable => self.scan_user_variable(),
            TokenKind::SystemVariable => self.scan_system_variable(),
            TokenKind::Assign => {
                self.primary(Why::AssignsVariable);
                self.cursor.bump();
            }
            _ => self.cursor.bump(),
        }
    }

    fn scan_word(&mut self) {
        match self.cursor.word {
            W::None => self.scan_name(),
            W::Select => {
                self.counting.query();
                self.cursor.bump();
            }
            W::Limit => self.limit(),
            // FETCH FIRST, and OFFSET without LIMIT: both words are reserved.
            W::Fetch | W::Offset if self.cursor.dialect().family == Family::MariaDb => {
                self.counting.told_by_server();
                self.cursor.bump();
            }
            W::Union | W::Except | W::Intersect => {
                self.counting.set_operation();
                self.scan_name();
            }
            W::For => {
                self.cursor.bump();
                if self.cursor.at_any(&[W::Update, W::Share]) {
                    self.primary(Why::LockingRead);
                    self.cursor.bump();
                }
            }
            W::Lock => {
                self.primary(Why::LockingRead);
                self.cursor.bump();
            }
            W::Into => self.assign_into(),
            W::From => {
                self.cursor.bump();
                // DUAL stands for no table.
                self.uses_tables |= !self.cursor.bytes().eq_ignore_ascii_case(b"dual");
            }
            W::Procedure => {
                self.cursor.bump();
                if self.cursor.at(W::Analyse) {
                    self.counting.told_by_server();
                    self.cursor.bump();
                } else {
                    self.primary(Why::Unknown);
                }
            }
            W::Next | W::Previous => {
                let next = self.cursor.at(W::Next);
                self.cursor.bump();
                if self.cursor.accept(W::Value) && self.cursor.at(W::For) {
                    if next { self.next_value() } else { self.last_value() }
                }
            }
            W::With => {
                // Lists of names with columns stand only where a query can begin.
                let query = matches!(self.cursor.before, TokenKind::Open | TokenKind::Semicolon)
                    || matches!(self.cursor.before_word, W::As | W::Is);
                self.cursor.bump();
                if query && self.with_depth < WITH_DEPTH_MAX {
                    self.with_depth += 1;
                    self.cte_list();
                    self.with_depth -= 1;
                }
            }
            W::SqlCalcFoundRows => {
                if !self.effects.contains(&Effect::CalcFoundRows) {
                    self.effect(Effect::CalcFoundRows);
                }
                self.cursor.bump();
            }
            // None of these can stand in a read; being here means that the text is not what it seems.
            W::Update | W::Delete | W::Create | W::Drop | W::Alter | W::Grant | W::Revoke | W::Call | W::Load => {
                self.primary(Why::Writes);
                self.cursor.bump();
            }
            W::Insert | W::Replace if self.cursor.ahead().kind() != TokenKind::Open => {
                self.primary(Why::Writes);
                self.cursor.bump();
            }
            _ => self.scan_name(),
        }
    }

    /// INTO in a query.
    fn assign_into(&mut self) {
        self.primary(Why::Into);
        self.cursor.bump();
        while self.cursor.kind() == TokenKind::UserVariable {
            let name = self.user_variable();
            self.assigned(name, Value::Unknown);
            self.cursor.bump();
            if !self.cursor.accept_kind(TokenKind::Comma) {
                break;
            }
        }
    }

    fn scan_user_variable(&mut self) {
        // `'user'@'host'`: an account, not a variable.
        let account = self.cursor.before_end == self.cursor.token.start
            && matches!(self.cursor.before, TokenKind::String | TokenKind::QuotedIdentifier | TokenKind::Word);
        if account {
            return self.cursor.bump();
        }
        self.asks |= Asks::USER_VARIABLES;
        let ahead = self.cursor.ahead();
        if ahead.kind() == TokenKind::Assign || self.variables_assigned {
            let name = self.user_variable();
            self.assigned(name, Value::Unknown);
            if !self.variables_assigned {
                self.primary(Why::AssignsVariable);
            }
        }
        self.cursor.bump();
    }

    fn scan_system_variable(&mut self) {
        self.asks |= Asks::SYSTEM_VARIABLES;
        let (scope, name) = self.system_variable();
        match name.as_str() {
            "last_insert_id" | "identity" => {
                self.asks |= Asks::LAST_INSERT_ID;
                self.primary(Why::SessionState);
            }
            "warning_count" | "error_count" => {
                self.asks |= Asks::DIAGNOSTICS;
                self.primary(Why::SessionState);
            }
            "pseudo_thread_id" => self.asks |= Asks::CONNECTION_ID,
            "in_transaction" | "rand_seed1" | "rand_seed2" | "insert_id" => {
                self.asks |= Asks::CONNECTION;
                self.primary(Why::SessionState);
            }
            _ => {}
        }
        // Many speak of the server alone, and the others begin as that server's own defaults. A client takes all of them
        // for the primary's. What a SET reads is found anywhere.
        let in_set = self.kind == Some(Kind::Set);
        if !in_set || scope.is_global() {
            self.primary(Why::ServerState);
        }
    }

    /// An identifier, perhaps qualified, perhaps the name of a function that is called.
    fn scan_name(&mut self) {
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
            if !is(schema, "information_schema") || crate::connections::id_table(schema, table).is_some() {
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
