//! Statements that may hold `;` without ending: the bodies of routines, triggers and events, and compound statements.

use super::Classifier;
use crate::dialect::Modes;
use crate::leaves::Leaves;
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Why};
use crate::words::W;

impl Classifier<'_> {
    /// CREATE of a routine, trigger or event: the body is stored, not run.
    pub(super) fn routine(&mut self) {
        self.kind(Kind::Definition);
        self.primary(Why::Definition);
        self.committing();
        if self.cursor.dialect().modes.contains(Modes::ORACLE) {
            // Declarations before BEGIN hold `;` too. The rest of the text is taken as the body; should another
            // statement follow it, its effects are covered by what is noted here.
            self.may_change_session();
            return self.take_all();
        }
        if self.cursor.at(W::Event) {
            // Its schedule is computed now.
            self.schedule();
        }
        self.body();
    }

    /// The name and the schedule of an event, up to DO. The words ahead of an expression are no functions.
    fn schedule(&mut self) {
        const AHEAD: [&[u8]; 4] = [b"AT", b"EVERY", b"STARTS", b"ENDS"];
        while !self.cursor.at_end() && !self.cursor.at(W::Do) {
            match AHEAD.iter().any(|word| self.cursor.bytes().eq_ignore_ascii_case(word)) {
                true => self.cursor.bump(),
                false => self.scan_token(),
            }
        }
    }

    /// BEGIN NOT ATOMIC … END, IF, LOOP and the like outside a routine.
    pub(super) fn compound(&mut self) {
        self.kind(Kind::Compound);
        self.primary(Why::Procedure);
        self.may_change_session();
        self.insert_id_unsure = true;
        let rest = self.cursor.text().get(self.cursor.token.start..).unwrap_or_default();
        let of_routines = self.functions.leaves_of_named(&String::from_utf8_lossy(rest));
        self.leaves(Leaves::of_compound(rest, self.cursor.dialect()) | of_routines);
        self.asks_in_code(Asks::all());
        match self.at_oracle_code() {
            // Declarations hold `;` too.
            true => self.take_all(),
            false => self.body(),
        }
    }

    /// MariaDB's Oracle mode: whether a block with declarations, or a label before it, or an assignment without SET begins here.
    pub(super) fn at_oracle_code(&self) -> bool {
        let assigns = || self.cursor.at_name() && self.cursor.ahead().kind() == TokenKind::Assign;
        self.cursor.dialect().modes.contains(Modes::ORACLE)
            && (self.cursor.bytes().eq_ignore_ascii_case(b"DECLARE") || self.cursor.at_operator(b"<<") || assigns())
    }

    /// Takes the rest of the text.
    pub(super) fn take_all(&mut self) {
        while !matches!(self.cursor.kind(), TokenKind::End | TokenKind::Bad) {
            self.cursor.bump();
        }
    }

    pub(super) fn call(&mut self) {
        self.kind(Kind::Call);
        self.primary(Why::Procedure);
        self.may_change_session();
        self.insert_id_unsure = true;
        self.cursor.bump();
        let mut names = [self.identifier(), None];
        if self.cursor.accept_kind(TokenKind::Dot) {
            names[1] = self.identifier();
        }
        let of = |schema, name| (self.functions.procedure_leaves(schema, name), self.functions.asks(schema, name));
        let (leaves, asks) = match &names {
            [Some(name), None] => of(None, name),
            [Some(schema), Some(name)] => of(Some(schema), name),
            _ => (Leaves::OF_UNKNOWN_CODE, Asks::all()),
        };
        self.leaves(leaves);
        self.asks_in_code(asks);
        // OUT and INOUT parameters assign variables; which parameters are such, only the procedure knows.
        self.variables_assigned = true;
        self.scan();
    }

    /// Skips a body up to the `;` outside all of its blocks.
    ///
    /// BEGIN and CASE open a block wherever they stand; IF, LOOP, WHILE, REPEAT and FOR only where a statement can
    /// begin, for IF() and REPEAT() are functions too. END closes one, and takes the word after it along.
    fn body(&mut self) {
        let mut depth = 0usize;
        // A body may begin right after the parameters of a routine.
        let mut header = true;
        let mut statement_begins = true;
        loop {
            match self.cursor.kind() {
                TokenKind::End | TokenKind::Bad => return,
                TokenKind::Semicolon if depth == 0 => return,
                _ => {}
            }
            let word = self.cursor.word;
            let label = self.cursor.kind() == TokenKind::Other && self.cursor.bytes() == b":";
            let opens = match word {
                W::Begin | W::Case => true,
                W::If | W::Loop | W::While | W::Repeat | W::For => {
                    statement_begins || (header && self.cursor.before == TokenKind::Close)
                }
                _ => false,
            };
            statement_begins = label
                || self.cursor.kind() == TokenKind::Semicolon
                || matches!(word, W::Begin | W::Then | W::Else | W::Do | W::Loop | W::Repeat | W::Row);
            self.cursor.bump();
            header = header && depth == 0 && !opens;
            if opens {
                depth += 1;
            } else if word == W::End {
                depth = depth.saturating_sub(1);
                if self.cursor.at_any(&[W::If, W::Case, W::Loop, W::While, W::Repeat, W::For]) {
                    self.cursor.bump();
                }
            }
        }
    }
}
