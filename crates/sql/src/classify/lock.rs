//! LOCK, UNLOCK, FLUSH, BACKUP, HANDLER.

use super::Classifier;
use crate::effect::{Effect, LockKind};
use crate::lexer::TokenKind;
use crate::statement::{Kind, Why};
use crate::words::W;

impl Classifier<'_> {
    pub(super) fn lock(&mut self) {
        match self.cursor.word {
            W::Lock => {
                let instance = self.cursor.ahead().at(W::Instance);
                self.lock_kind(Effect::LockTables(if instance { LockKind::Instance } else { LockKind::Tables }));
                self.cursor.bump();
                // LOCK TABLES commits; LOCK INSTANCE FOR BACKUP and LOCK STATS do not.
                if self.cursor.at_any(&[W::Table, W::Tables]) {
                    self.committing();
                }
            }
            W::Unlock => {
                // It commits only when LOCK TABLES holds tables: the status flags of the reply tell.
                let instance = self.cursor.ahead().at(W::Instance);
                self.lock_kind(Effect::UnlockTables(if instance { LockKind::Instance } else { LockKind::Tables }));
            }
            W::Flush => self.flush(),
            W::Backup => {
                self.cursor.bump();
                self.lock_kind(match self.cursor.word {
                    W::Unlock => Effect::UnlockTables(LockKind::BackupLock),
                    W::Lock => Effect::LockTables(LockKind::BackupLock),
                    _ if self.cursor.ahead().at(W::End) => Effect::UnlockTables(LockKind::BackupStage),
                    _ => Effect::LockTables(LockKind::BackupStage),
                });
            }
            _ => self.handler(),
        }
        self.skip();
    }

    fn lock_kind(&mut self, effect: Effect) {
        self.kind(Kind::Lock);
        self.primary(Why::Locks);
        self.effect(effect);
    }

    /// FLUSH: locks when WITH READ LOCK or FOR EXPORT ends it, administration otherwise.
    fn flush(&mut self) {
        self.committing();
        self.cursor.bump();
        while !self.cursor.at_end() {
            if self.cursor.at_any(&[W::Lock, W::Export]) {
                return self.lock_kind(Effect::LockTables(LockKind::Tables));
            }
            if self.cursor.at(W::Status) {
                self.effect(Effect::CountsConnection);
            }
            self.accounts |= self.cursor.at(W::Privileges);
            if self.cursor.bytes().eq_ignore_ascii_case(b"user_variables") {
                self.effect(Effect::FlushUserVariables);
            }
            self.cursor.bump();
        }
        self.kind(Kind::Administration);
        self.primary(Why::Administration);
    }

    fn handler(&mut self) {
        self.kind(Kind::Handler);
        self.primary(Why::Locks);
        self.cursor.bump();
        let Some(name) = self.name() else { return self.bad() };
        match self.cursor.word {
            W::Open => {
                self.cursor.bump();
                self.cursor.accept(W::As);
                let alias = if self.cursor.at_name() { self.name() } else { None };
                self.effect(Effect::OpenHandler(alias.unwrap_or(name)));
            }
            W::Close => self.effect(Effect::CloseHandler(name)),
            // READ: its WHERE clause may call functions.
            _ => {
                while !self.cursor.at_end() && self.cursor.kind() != TokenKind::Open {
                    self.cursor.bump();
                }
                self.scan();
            }
        }
    }
}
