//! Transaction control and XA.

use super::Classifier;
use crate::dialect::Modes;
use crate::effect::Effect;
use crate::statement::{Kind, TransactionStep, Why};
use crate::words::W;

impl Classifier<'_> {
    pub(super) fn transaction(&mut self) {
        match self.cursor.word {
            W::Begin => self.begin(),
            W::Start => self.start(),
            W::Xa => self.xa(),
            W::Commit => {
                self.control();
                self.cursor.bump();
                let (chain, release) = self.completion();
                self.transaction = Some(TransactionStep::Commit { chain, release });
            }
            W::Rollback => self.rollback(),
            _ => {
                // SAVEPOINT name, RELEASE SAVEPOINT name.
                self.control();
                self.savepoint();
                self.skip();
            }
        }
    }

    fn control(&mut self) {
        self.kind(Kind::Transaction);
        self.primary(Why::Transaction);
    }

    /// A savepoint leaves a transaction that this very text began the more important fact.
    fn savepoint(&mut self) {
        if !matches!(self.transaction, Some(TransactionStep::Begin { .. })) {
            self.transaction = Some(TransactionStep::Savepoint);
        }
    }

    fn begin(&mut self) {
        let ahead = self.cursor.ahead();
        if ahead.at(W::Not) || self.cursor.dialect().modes.contains(Modes::ORACLE) {
            return self.compound();
        }
        self.control();
        self.cursor.bump();
        self.cursor.accept(W::Work);
        if !self.cursor.at_end() {
            return self.unknown();
        }
        self.transaction = Some(TransactionStep::Begin { read_only: None, snapshot: false });
    }

    fn start(&mut self) {
        if !self.cursor.ahead().at(W::Transaction) {
            return self.admin();
        }
        self.control();
        self.cursor.bump();
        self.cursor.bump();
        let mut read_only = None;
        let mut snapshot = false;
        while !self.cursor.at_end() {
            match self.cursor.word {
                W::Snapshot => snapshot = true,
                W::Only => read_only = Some(true),
                W::Write => read_only = Some(false),
                _ => {}
            }
            self.cursor.bump();
        }
        self.transaction = Some(TransactionStep::Begin { read_only, snapshot });
    }

    fn rollback(&mut self) {
        self.control();
        self.cursor.bump();
        self.cursor.accept(W::Work);
        if self.cursor.at(W::To) {
            self.savepoint();
            return self.skip();
        }
        let (chain, release) = self.completion();
        self.transaction = Some(TransactionStep::Rollback { chain, release });
    }

    /// [WORK] [AND [NO] CHAIN] [[NO] RELEASE]
    fn completion(&mut self) -> (bool, Option<bool>) {
        let (mut chain, mut release, mut no) = (false, None, false);
        while !self.cursor.at_end() {
            match self.cursor.word {
                W::Chain => chain = !no,
                W::Release => release = Some(!no),
                _ => {}
            }
            no = self.cursor.at(W::No);
            self.cursor.bump();
        }
        (chain, release)
    }

    fn xa(&mut self) {
        self.kind(Kind::Xa);
        self.primary(Why::Transaction);
        self.cursor.bump();
        match self.cursor.word {
            W::Start | W::Begin => self.effect(Effect::XaStart),
            W::Commit | W::Rollback => self.effect(Effect::XaEnd { finished: true }),
            W::End | W::Prepare => self.effect(Effect::XaEnd { finished: false }),
            _ => {}
        }
        self.skip();
    }
}
