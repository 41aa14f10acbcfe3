//! SET in all its forms.

use super::Classifier;
use crate::cursor::Cursor;
use crate::effect::{Effect, Value};
use crate::leaves::Leaves;
use crate::lexer::TokenKind;
use crate::statement::{Kind, Why};
use crate::text;
use crate::words::W;

/// The scope of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// None was given.
    Default,
    Session,
    Global,
}

impl Scope {
    pub(super) fn is_global(self) -> bool {
        self == Scope::Global
    }

    fn of(name: &[u8]) -> Option<Scope> {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("session") || is("local") {
            Some(Scope::Session)
        } else if is("global") || is("persist") || is("persist_only") {
            Some(Scope::Global)
        } else {
            None
        }
    }
}

impl Classifier<'_> {
    pub(super) fn set(&mut self) {
        self.cursor.bump();
        match self.cursor.word {
            W::Statement => return self.set_statement(),
            W::Password => {
                let ahead = self.cursor.ahead();
                if ahead.at_operator(b"=") || ahead.at_any(&[W::For, W::To]) || ahead.kind() == TokenKind::Assign {
                    return self.set_password();
                }
            }
            W::Role => return self.set_text(Why::SessionChange, Kind::Set),
            W::Default if self.cursor.ahead().at(W::Role) => return self.plain(Kind::Account, Why::Account),
            W::Resource if self.cursor.ahead().at(W::Group) => return self.set_text(Why::SessionChange, Kind::Set),
            _ => {}
        }
        self.kind(Kind::Set);
        let mut scope = Scope::Default;
        loop {
            self.assignment(&mut scope);
            if !self.cursor.accept_kind(TokenKind::Comma) {
                break;
            }
        }
        if !self.cursor.at_end() {
            // A SET that could not be read to its end might change anything.
            self.primary(Why::Unknown);
            self.may_change_session();
        }
    }

    /// The statement's own text, for what no variable shows.
    fn set_text(&mut self, why: Why, kind: Kind) {
        self.kind(kind);
        self.primary(why);
        let start = self.cursor.token.start;
        self.skip();
        let end = self.cursor.before_end.max(start);
        let words = self.cursor.text().get(start..end).unwrap_or_default();
        self.effect(Effect::Role { text: format!("SET {}", String::from_utf8_lossy(words)) });
    }

    /// SET PASSWORD: an account changes, and the text holds a secret, so it is not kept.
    fn set_password(&mut self) {
        self.plain(Kind::Account, Why::Account);
        self.committing();
    }

    /// MariaDB: SET STATEMENT variable = value, … FOR statement: the values hold for that statement only.
    fn set_statement(&mut self) {
        self.cursor.bump();
        loop {
            if let Some(name) = self.identifier() {
                let name = name.to_lowercase();
                if name == "optimizer_trace" {
                    self.effect(Effect::Leaves(Leaves::TRACES));
                }
                // Behind the statement it has the value from before.
                self.insert_id_unsure |= matches!(&*name, "last_insert_id" | "identity" | "insert_id");
                self.effect(Effect::WhileRunning { name });
            }
            if self.cursor.kind() == TokenKind::Assign || self.cursor.at_operator(b"=") {
                self.cursor.bump();
            }
            self.scan_item(&[W::For]);
            if !self.cursor.accept_kind(TokenKind::Comma) {
                break;
            }
        }
        if self.cursor.accept(W::For) && self.nesting == 0 {
            self.nesting += 1;
            self.statement();
            self.nesting -= 1;
        } else {
            self.unknown();
        }
    }

    fn assignment(&mut self, scope: &mut Scope) {
        let mut given = Scope::Default;
        let ahead = self.cursor.ahead();
        let assigned = ahead.at_operator(b"=") || matches!(ahead.kind(), TokenKind::Assign | TokenKind::Dot);
        if !assigned
            && self.cursor.kind() == TokenKind::Word
            && let Some(found) = Scope::of(self.cursor.bytes())
        {
            given = found;
            *scope = found;
            self.cursor.bump();
        }
        match self.cursor.word {
            W::Names if !assigned => return self.set_names(),
            W::Charset if !assigned => return self.set_charset(),
            W::Character | W::Char if self.cursor.ahead().at(W::Set) => {
                self.cursor.bump();
                return self.set_charset();
            }
            W::Transaction if !self.cursor.ahead().at_operator(b"=") => return self.set_transaction(given),
            _ => {}
        }
        match self.cursor.kind() {
            TokenKind::UserVariable => {
                let name = self.user_variable();
                self.cursor.bump();
                let value = self.value();
                self.primary(Why::SessionChange);
                self.assigned(name, value);
            }
            TokenKind::SystemVariable => {
                let (found, name) = self.system_variable();
                let value = self.value();
                if found == Scope::Default && self.next_transaction(&name, &value) {
                    return;
                }
                // `@@x` without a scope word is the session's, whatever scope came before.
                self.system_variable_set(found, name, value);
            }
            TokenKind::Word | TokenKind::QuotedIdentifier => {
                let Some(mut name) = self.identifier() else { return };
                while self.cursor.accept_kind(TokenKind::Dot) {
                    let Some(part) = self.identifier() else { break };
                    name.push('.');
                    name.push_str(&part);
                }
                let value = self.value();
                self.system_variable_set(*scope, name.to_lowercase(), value);
            }
            _ => {
                self.primary(Why::Unknown);
                self.may_change_session();
                self.skip();
            }
        }
    }

    fn system_variable_set(&mut self, scope: Scope, name: String, value: Value) {
        // A dot in a name means a structured variable (a key cache, a named replication channel): the server's.
        if scope.is_global() || name.contains('.') {
            self.primary(Why::Administration);
            self.effect(Effect::GlobalVariable { name });
        } else if name.is_ascii() {
            self.primary(Why::SessionChange);
            self.effect(Effect::Variable { name, value });
        } else {
            // Accents count for nothing in names of variables (`utf8mb3_general_ci`; seen with MySQL 9.7): it may be any.
            self.primary(Why::SessionChange);
            self.may_change_session();
            self.leaves(Leaves::OF_UNKNOWN_CODE);
        }
    }

    /// `@@transaction_isolation` and the like without a scope word are the next transaction's. Gives whether it is one of them.
    fn next_transaction(&mut self, name: &str, value: &Value) -> bool {
        let literal = match value {
            Value::Literal(literal) => literal.trim_matches('\'').to_uppercase(),
            _ => String::new(),
        };
        let (read_only, isolation) = match name {
            "tx_isolation" | "transaction_isolation" => (None, Some(literal.replace('-', " "))),
            // Of READ WRITE only what says so is sure.
            "tx_read_only" | "transaction_read_only" => (Some(!matches!(&*literal, "0" | "OFF" | "FALSE")), None),
            _ => return false,
        };
        self.primary(Why::SessionChange);
        self.effect(Effect::TransactionCharacteristics { session: false, read_only, isolation });
        true
    }

    /// Takes `@@name`, `@@scope.name` and gives scope and lower-case name.
    pub(super) fn system_variable(&mut self) -> (Scope, String) {
        let token = self.cursor.token;
        let text = self.cursor.text();
        let first = text::system_variable(token, text);
        self.cursor.bump();
        let mut scope = Scope::Default;
        let mut name = first.to_lowercase();
        if self.cursor.kind() == TokenKind::Dot
            && let Some(found) = Scope::of(name.as_bytes())
        {
            scope = found;
            self.cursor.bump();
            name = self.identifier().unwrap_or_default().to_lowercase();
        }
        while self.cursor.kind() == TokenKind::Dot {
            self.cursor.bump();
            let Some(part) = self.identifier() else { break };
            name.push('.');
            name.push_str(&part.to_lowercase());
        }
        (scope, name)
    }

    /// Takes `= value` or `:= value`.
    fn value(&mut self) -> Value {
        if !self.cursor.accept_kind(TokenKind::Assign) {
            if !self.cursor.at_operator(b"=") {
                self.primary(Why::Unknown);
                self.may_change_session();
                self.skip();
                return Value::Unknown;
            }
            self.cursor.bump();
        }
        let mut after = self.cursor;
        let simple = simple_value(&mut after);
        if let Some(value) = simple
            && (after.at_end() || after.kind() == TokenKind::Comma)
        {
            self.cursor = after;
            return value;
        }
        self.scan_item(&[]);
        Value::Unknown
    }

    fn set_names(&mut self) {
        self.primary(Why::SessionChange);
        self.cursor.bump();
        if self.cursor.accept(W::Default) {
            return self.effect(Effect::Names { charset: None, collation: None });
        }
        let Some(charset) = self.charset_name() else { return };
        let mut collation = None;
        if self.cursor.accept(W::Collate) && !self.cursor.accept(W::Default) {
            collation = self.charset_name();
        }
        self.effect(Effect::Names { charset: Some(charset), collation });
    }

    fn set_charset(&mut self) {
        self.primary(Why::SessionChange);
        self.cursor.bump();
        if self.cursor.accept(W::Default) {
            return self.effect(Effect::CharacterSet(None));
        }
        if let Some(charset) = self.charset_name() {
            self.effect(Effect::CharacterSet(Some(charset)));
        }
    }

    fn charset_name(&mut self) -> Option<String> {
        let name = match self.cursor.kind() {
            TokenKind::String => {
                let bytes = text::string(self.cursor.token, self.cursor.text(), self.cursor.dialect());
                String::from_utf8_lossy(&bytes).to_lowercase()
            }
            TokenKind::Word | TokenKind::QuotedIdentifier => {
                text::identifier(self.cursor.token, self.cursor.text()).to_lowercase()
            }
            _ => {
                self.primary(Why::Unknown);
                self.may_change_session();
                self.skip();
                return None;
            }
        };
        self.cursor.bump();
        Some(name)
    }

    fn set_transaction(&mut self, scope: Scope) {
        self.cursor.bump();
        let mut read_only = None;
        let mut isolation = None;
        loop {
            if self.cursor.accept(W::Read) {
                read_only = Some(self.cursor.at(W::Only));
                self.cursor.bump();
            } else if self.cursor.accept(W::Isolation) {
                self.cursor.accept(W::Level);
                let mut level = String::new();
                while self.cursor.kind() == TokenKind::Word {
                    if !level.is_empty() {
                        level.push(' ');
                    }
                    level.push_str(&String::from_utf8_lossy(self.cursor.bytes()).to_uppercase());
                    self.cursor.bump();
                }
                isolation = Some(level);
            } else {
                break;
            }
            if !self.cursor.accept_kind(TokenKind::Comma) {
                break;
            }
        }
        if scope.is_global() {
            self.primary(Why::Administration);
            if isolation.is_some() {
                self.effect(Effect::GlobalVariable { name: "transaction_isolation".to_owned() });
            }
            if read_only.is_some() {
                self.effect(Effect::GlobalVariable { name: "transaction_read_only".to_owned() });
            }
        } else {
            self.primary(Why::SessionChange);
            let session = scope == Scope::Session;
            self.effect(Effect::TransactionCharacteristics { session, read_only, isolation });
        }
    }
}

/// The longest string value that is remembered, in bytes; longer ones count as unknown.
const VALUE_MAX: usize = 4096;

/// Takes a literal, a signed number, a bare word or DEFAULT.
fn simple_value(cursor: &mut Cursor<'_>) -> Option<Value> {
    let text = cursor.text();
    let mut sign = "";
    if cursor.at_operator(b"-") || cursor.at_operator(b"+") {
        sign = if cursor.at_operator(b"-") { "-" } else { "" };
        cursor.bump();
        if cursor.kind() != TokenKind::Number {
            return None;
        }
    }
    let sql = match cursor.kind() {
        TokenKind::Number | TokenKind::BitString => {
            format!("{sign}{}", String::from_utf8_lossy(cursor.bytes()))
        }
        // A national string has a character set of its own.
        TokenKind::String if matches!(cursor.bytes().first(), Some(b'n' | b'N')) => return None,
        TokenKind::String => {
            let mut value = Vec::new();
            // Strings side by side are one string.
            while cursor.kind() == TokenKind::String {
                value.extend(text::string(cursor.token, text, cursor.dialect()));
                cursor.bump();
            }
            if value.len() > VALUE_MAX {
                return None;
            }
            return text::literal(&value, cursor.dialect().encoding).map(Value::Literal);
        }
        TokenKind::QuotedIdentifier => {
            text::literal(text::identifier(cursor.token, text).as_bytes(), cursor.dialect().encoding)?
        }
        TokenKind::Word if cursor.at(W::Default) => {
            cursor.bump();
            return Some(Value::Default);
        }
        TokenKind::Word if cursor.bytes().is_ascii() => String::from_utf8_lossy(cursor.bytes()).into_owned(),
        _ => return None,
    };
    cursor.bump();
    Some(Value::Literal(sql))
}
