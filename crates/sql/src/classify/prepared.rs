//! PREPARE, EXECUTE and DEALLOCATE as text.

use super::{Classifier, NESTING_MAX};
use crate::dialect::Family;
use crate::effect::Effect;
use crate::leaves::Leaves;
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Statement, Why};
use crate::text;
use crate::words::W;

/// The traces of a prepared text's execution.
struct Left {
    /// The state that it may leave on its connection.
    leaves: Leaves,
    /// It may announce a transaction's characteristics.
    announces: bool,
    /// It is known to read only.
    reads: bool,
    /// It is a definition.
    defines: bool,
}

impl Left {
    /// Nobody has read the text.
    const UNKNOWN: Left = Left { leaves: Leaves::OF_UNKNOWN_CODE, announces: true, reads: false, defines: false };
}

impl Classifier<'_> {
    pub(super) fn prepared(&mut self) {
        self.kind(Kind::PreparedText);
        match self.cursor.word {
            W::Prepare => self.prepare(),
            W::Deallocate => {
                self.cursor.bump();
                self.deallocate();
            }
            _ => self.execute(),
        }
    }

    fn prepare(&mut self) {
        self.primary(Why::SessionChange);
        self.cursor.bump();
        let Some(name) = self.identifier() else { return self.unknown() };
        if !self.cursor.accept(W::From) {
            return self.unknown();
        }
        let text = self.only_string().and_then(|bytes| String::from_utf8(bytes).ok());
        let left = text.as_ref().and_then(|text| self.left_by(text.as_bytes()));
        let Left { leaves, announces, reads, defines } = left.unwrap_or(Left::UNKNOWN);
        let (name, leaves) = (text::fold(&name), self.possible(leaves));
        self.effect(Effect::PrepareText { name, text, leaves, announces, reads, defines });
        self.scan();
    }

    /// The traces that the execution of a text leaves.
    fn left_by(&self, text: &[u8]) -> Option<Left> {
        if self.nesting >= NESTING_MAX {
            return None;
        }
        let mut classifier = Classifier::new(text, self.cursor.dialect(), self.functions);
        classifier.nesting = self.nesting + 1;
        classifier.run();
        let Statement { effects, access, kind, .. } = classifier.finish();
        let announces = effects.iter().any(Effect::may_announce);
        let each = effects.into_iter().map(|effect| match effect {
            Effect::Leaves(leaves) => leaves,
            Effect::TakeUserLock(_) => Leaves::USER_LOCKS,
            Effect::LockTables(_) | Effect::OpenHandler(_) | Effect::Role { .. } => Leaves::UNREPORTED,
            // A hint of MySQL's can set it, too, which no reply tells.
            Effect::Variable { name, .. } if name == "insert_id" => Leaves::UNREPORTED,
            // `SET @@x = …`: MySQL reports it.
            Effect::Variable { .. } if self.cursor.dialect().family == Family::MariaDb => Leaves::UNREPORTED,
            _ => Leaves::empty(),
        });
        let leaves = each.fold(Leaves::empty(), Leaves::union);
        Some(Left { leaves, announces, reads: access.only_reads(), defines: kind == Kind::Definition })
    }

    /// The string in hand if nothing else follows it but USING.
    pub(super) fn only_string(&self) -> Option<Vec<u8>> {
        let mut after = self.cursor;
        let mut value = Vec::new();
        while after.kind() == TokenKind::String {
            value.extend(text::string(after.token, after.text(), after.dialect()));
            after.step();
        }
        let whole = self.cursor.kind() == TokenKind::String && (after.at_end() || after.at(W::Using));
        whole.then_some(value)
    }

    /// DEALLOCATE PREPARE name, DROP PREPARE name: PREPARE is in hand.
    pub(super) fn deallocate(&mut self) {
        self.kind(Kind::PreparedText);
        self.primary(Why::SessionChange);
        self.cursor.bump();
        match self.identifier() {
            Some(name) => self.effect(Effect::DeallocateText { name: text::fold(&name) }),
            None => self.bad(),
        }
        self.skip();
    }

    fn execute(&mut self) {
        self.cursor.bump();
        self.insert_id_unsure = true;
        if self.cursor.accept(W::Immediate) {
            return self.execute_immediate();
        }
        self.primary(Why::SessionState);
        self.accounts = true;
        self.asks_in_code(Asks::all());
        match self.identifier() {
            Some(name) => self.effect(Effect::ExecuteText { name: text::fold(&name) }),
            None => self.bad(),
        }
        self.scan();
    }

    /// The literal is read as a text of its own: what it does is what this statement does.
    fn execute_immediate(&mut self) {
        match self.only_string() {
            Some(inner) if self.nesting < NESTING_MAX => {
                let mut classifier = Classifier::new(&inner, self.cursor.dialect(), self.functions);
                classifier.nesting = self.nesting + 1;
                classifier.run();
                let inner = classifier.finish();
                if let crate::statement::Access::Primary(why) = inner.access {
                    self.primary(why);
                }
                let of_all = if self.parts > 1 { Asks::ONLY_DIAGNOSTICS } else { Asks::empty() };
                self.asks |= inner.asks - of_all;
                self.asks_in_code(inner.asks);
                self.accounts |= inner.accounts;
                inner.effects.into_iter().for_each(|effect| self.effect(effect));
                self.transaction = inner.transaction.or(self.transaction);
            }
            _ => {
                self.primary(Why::Unknown);
                self.accounts = true;
                self.leaves(Leaves::OF_UNKNOWN_CODE);
                self.asks_in_code(Asks::all());
                self.effect(Effect::ExecuteText { name: String::new() });
                self.may_change_session();
            }
        }
        self.scan();
    }
}
