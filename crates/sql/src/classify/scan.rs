//! The scan that every expression goes through, token by token.

use super::Classifier;
use crate::dialect::Family;
use crate::effect::{Effect, Value};
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Why};
use crate::words::W;

impl Classifier<'_> {
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
                self.counting.reported_by_server();
                self.cursor.bump();
            }
            W::Union | W::Except | W::Intersect => {
                self.counting.set_operation();
                self.scan_name();
            }
            W::For => self.for_update(),
            W::Lock => {
                self.primary(Why::LockingRead);
                self.cursor.bump();
            }
            W::Into => self.assign_into(),
            // `TABLE name` in the place of a query (MySQL).
            W::Table => {
                if self.kind == Some(Kind::Insert) {
                    self.counting.query();
                }
                self.uses_tables = true;
                self.cursor.bump();
            }
            W::From => {
                self.cursor.bump();
                // DUAL stands for no table.
                self.uses_tables |= !self.cursor.bytes().eq_ignore_ascii_case(b"dual");
            }
            W::Procedure => self.procedure_analyse(),
            W::Next | W::Previous => self.value_for(),
            W::With => self.with_inside(),
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

    fn scan_user_variable(&mut self) {
        // `'user'@'host'`: an account, not a variable. Behind a word it may be either, as in `SELECT@a:=1`.
        let account = self.cursor.before_end == self.cursor.token.start
            && matches!(self.cursor.before, TokenKind::String | TokenKind::QuotedIdentifier);
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
        // for the primary's. The variables that a SET reads are found anywhere.
        let in_set = self.kind == Some(Kind::Set);
        if !in_set || scope.is_global() {
            self.primary(Why::ServerState);
        }
    }
}
