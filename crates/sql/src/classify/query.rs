//! SELECT and the clauses of queries: WITH, INTO, FOR UPDATE, PROCEDURE.

use super::Classifier;
use crate::dialect::Family;
use crate::effect::Value;
use crate::lexer::TokenKind;
use crate::statement::{Kind, Why};
use crate::words::W;

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

    /// WITH inside a statement, where it may also be a word of another clause.
    pub(super) fn with_inside(&mut self) {
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

    /// FOR in a query: FOR UPDATE and FOR SHARE take locks.
    pub(super) fn for_update(&mut self) {
        self.cursor.bump();
        if self.cursor.at_any(&[W::Update, W::Share]) {
            self.primary(Why::LockingRead);
            self.cursor.bump();
        }
    }

    /// PROCEDURE in a query: no other than ANALYSE() is known.
    pub(super) fn procedure_analyse(&mut self) {
        self.cursor.bump();
        if self.cursor.at(W::Analyse) {
            self.counting.reported_by_server();
            self.cursor.bump();
        } else {
            self.primary(Why::Unknown);
        }
    }

    /// INTO in a query.
    pub(super) fn assign_into(&mut self) {
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
}
