//! Administration, KILL and diagnostics.

use super::Classifier;
use crate::effect::{Effect, Value, Victim};
use crate::leaves::Leaves;
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Why};
use crate::text;
use crate::words::W;

impl Classifier<'_> {
    /// Maintenance, replication control, plugins and the like; most of them commit what is open.
    pub(super) fn admin(&mut self) {
        let commits = match self.cursor.word {
            W::Check
            | W::Optimize
            | W::Repair
            | W::Cache
            | W::Reset
            | W::Change
            | W::Start
            | W::Stop
            | W::Install
            | W::Uninstall
            | W::Clone => true,
            // CHECKSUM, PURGE, BINLOG, SHUTDOWN, RESTART.
            _ => false,
        };
        if commits {
            self.committing();
        }
        // BINLOG replays events through this very session.
        if self.cursor.at(W::Binlog) {
            self.leaves(Leaves::EVENTS);
            self.may_change_session();
        }
        self.plain(Kind::Administration, Why::Administration);
    }

    /// KILL [HARD | SOFT] [CONNECTION | QUERY [ID]] number, KILL … USER name.
    pub(super) fn kill(&mut self) {
        self.kind(Kind::Kill);
        self.primary(Why::Administration);
        self.cursor.bump();
        let (mut query_only, mut soft, mut user, mut query_id) = (false, false, false, false);
        while self.cursor.at_any(&[W::Hard, W::Soft, W::Connection, W::Query, W::User, W::Id]) {
            query_only |= self.cursor.at(W::Query);
            soft |= self.cursor.at(W::Soft);
            user |= self.cursor.at(W::User);
            query_id |= self.cursor.at(W::Id);
            self.cursor.bump();
            if user {
                break;
            }
        }
        if query_id {
            return self.skip();
        }
        if user {
            let victim = self.user_to_kill();
            self.effect(Effect::Kill { query_only, soft, victim });
            return self.skip();
        }
        let victim = self.connection_to_kill();
        self.effect(Effect::Kill { query_only, soft, victim });
        self.scan();
    }

    /// The connection that a KILL names, as far as the text says it. Looks ahead only.
    fn connection_to_kill(&self) -> Victim {
        let (token, text, dialect) = (self.cursor.token, self.cursor.text(), self.cursor.dialect());
        if !self.cursor.ahead().at_end() {
            return self.expression_to_kill();
        }
        let digits = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        match self.cursor.kind() {
            TokenKind::Number => digits(self.cursor.bytes()).map_or(Victim::Computed, Victim::Connection),
            TokenKind::String => {
                // As a server reads a string for a number.
                let value = text::string(token, text, dialect);
                let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
                Victim::Connection(digits(&value[..end]).unwrap_or(0))
            }
            TokenKind::UserVariable => Victim::UserVariable(text::user_variable(token, text, dialect)),
            TokenKind::Placeholder => Victim::Parameter,
            _ => Victim::Computed,
        }
    }

    fn expression_to_kill(&self) -> Victim {
        let mut cursor = self.cursor;
        if cursor.at(W::ConnectionId) {
            cursor.step();
            let empty = cursor.kind() == TokenKind::Open && cursor.ahead().kind() == TokenKind::Close;
            if empty && cursor.ahead().ahead().at_end() {
                return Victim::Own;
            }
        }
        while !cursor.at_end() {
            let words: [&[u8]; 3] = [b"LASTVAL", b"NEXTVAL", b"VALUE"];
            let word =
                cursor.kind() == TokenKind::Word && words.iter().any(|word| cursor.bytes().eq_ignore_ascii_case(word));
            if word || cursor.at(W::Select) {
                return Victim::Query;
            }
            cursor.step();
        }
        Victim::Computed
    }

    /// `name`, `name@host` or CURRENT_USER.
    fn user_to_kill(&mut self) -> Victim {
        let (token, text) = (self.cursor.token, self.cursor.text());
        let name = match token.kind {
            TokenKind::String => {
                String::from_utf8_lossy(&text::string(token, text, self.cursor.dialect())).into_owned()
            }
            _ => text::identifier(token, text).into_owned(),
        };
        if name.eq_ignore_ascii_case("current_user") {
            return Victim::User { name: None, host: None };
        }
        self.cursor.bump();
        let host = (self.cursor.kind() == TokenKind::UserVariable).then(|| self.user_variable());
        Victim::User { name: Some(name), host }
    }

    /// GET DIAGNOSTICS, SIGNAL, RESIGNAL.
    pub(super) fn diagnostics(&mut self) {
        self.kind(Kind::Diagnostics);
        self.primary(Why::SessionState);
        if !self.cursor.at(W::Get) {
            if self.cursor.bytes().eq_ignore_ascii_case(b"resignal") {
                // Its error stands behind the messages that are there.
                self.asks |= Asks::DIAGNOSTICS;
            }
            return self.scan();
        }
        self.asks |= Asks::DIAGNOSTICS | Asks::KEEPS_ROW_COUNT;
        self.diagnostics = self.diagnostics.saturating_add(1);
        if self.diagnostics == self.parts {
            self.asks |= Asks::ONLY_DIAGNOSTICS;
        }
        while !self.cursor.at_end() {
            if self.cursor.at_operator(b"=") && self.cursor.ahead().bytes().eq_ignore_ascii_case(b"row_count") {
                self.asks |= Asks::ROW_COUNT;
            }
            if self.cursor.kind() == TokenKind::UserVariable && self.cursor.ahead().at_operator(b"=") {
                let name = self.user_variable();
                self.assigned(name, Value::Unknown);
            }
            self.cursor.bump();
        }
    }
}
