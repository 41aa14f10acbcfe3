//! CREATE, ALTER, DROP, RENAME, TRUNCATE, IMPORT.

use super::Classifier;
use crate::dialect::Family;
use crate::effect::Effect;
use crate::lexer::TokenKind;
use crate::statement::{Kind, Opens, Why};
use crate::words::W;

/// The objects of definitions.
const OBJECTS: [W; 11] = [
    W::Table,
    W::Index,
    W::View,
    W::Trigger,
    W::Function,
    W::Procedure,
    W::Package,
    W::Event,
    W::Database,
    W::Schema,
    W::Sequence,
];

impl Classifier<'_> {
    pub(super) fn definition(&mut self) {
        self.opens = self.opened();
        match self.cursor.word {
            W::Create => self.create(),
            W::Drop => self.drop(),
            W::Alter => self.alter(),
            W::Rename if self.cursor.ahead().at(W::User) => self.account(),
            // RENAME TABLE, TRUNCATE, IMPORT TABLE.
            _ => self.define(),
        }
    }

    /// The tables that it opens: its own with TRUNCATE, a trigger's, those of a view, those in which MariaDB keeps routines and
    /// events.
    fn opened(&self) -> Opens {
        let (verb, mariadb) = (self.cursor.word, self.cursor.dialect().family == Family::MariaDb);
        let mut object = self.cursor.ahead();
        while !object.at_end() && object.kind() != TokenKind::Semicolon && !object.at_any(&OBJECTS) {
            object.bump();
        }
        match (verb, object.word) {
            (W::Create, W::Trigger) => Opens::Tables,
            (W::Create, W::View | W::Function | W::Procedure | W::Event) if mariadb => Opens::Tables,
            (W::Drop, W::Trigger | W::Function | W::Procedure) => Opens::IfThere,
            (W::Drop, W::Event | W::Database | W::Schema) if mariadb => Opens::IfThere,
            (W::Truncate, _) if mariadb => Opens::Tables,
            (W::Truncate | W::Rename, _) | (W::Alter, W::Table) if !mariadb => Opens::LockedTables,
            _ => Opens::Untold,
        }
    }

    fn define(&mut self) {
        self.committing();
        self.plain(Kind::Definition, Why::Definition);
    }

    fn alter(&mut self) {
        let object = self.cursor.ahead();
        if object.at_any(&[W::User, W::Role]) {
            return self.account();
        }
        self.cursor.bump();
        // ALTER EVENT … DO holds a body; ALTER DEFINER = … EVENT too.
        self.skip_to(&[W::Event, W::Table, W::Database, W::Schema, W::Procedure, W::Function, W::View]);
        if self.cursor.at(W::Event) {
            return self.routine();
        }
        self.define();
    }

    fn create(&mut self) {
        self.cursor.bump();
        if self.cursor.accept(W::Or) {
            self.cursor.accept(W::Replace);
        }
        if self.cursor.at_any(&[W::User, W::Role]) {
            return self.account();
        }
        if self.cursor.at(W::Temporary) {
            return self.create_temporary();
        }
        // DEFINER = account, AGGREGATE, SQL SECURITY, ALGORITHM and the like stand before the object's word.
        loop {
            match self.cursor.word {
                W::Procedure | W::Function | W::Trigger | W::Event | W::Package => return self.routine(),
                W::Table => return self.create_table(),
                W::Definer | W::Aggregate | W::If | W::Not | W::Exists => self.cursor.bump(),
                W::None if self.cursor.at_end() => return self.define(),
                W::Index | W::Database | W::Schema | W::View | W::Server | W::Sequence | W::Tablespace => {
                    return self.define();
                }
                _ => self.cursor.bump(),
            }
        }
    }

    fn create_table(&mut self) {
        self.committing();
        self.kind(Kind::Definition);
        self.primary(Why::Definition);
        self.table_query();
    }

    /// Column definitions hold nothing that runs now; a query at the end does.
    fn table_query(&mut self) {
        self.skip_to(&[W::Select, W::With, W::Values]);
        if self.cursor.at(W::Values) {
            // PARTITION … VALUES LESS THAN, or VALUES ROW(…): a query may still follow the former.
            self.cursor.bump();
            if self.cursor.at_any(&[W::Less, W::In]) {
                self.skip_to(&[W::Select, W::With]);
            }
        }
        self.scan();
    }

    /// CREATE TEMPORARY TABLE commits nothing; nor does CREATE TEMPORARY SEQUENCE.
    fn create_temporary(&mut self) {
        self.kind(Kind::Definition);
        self.primary(Why::Definition);
        self.cursor.bump();
        if !self.cursor.at_any(&[W::Table, W::Sequence]) {
            return self.unknown();
        }
        self.cursor.bump();
        self.skip_existence();
        match self.name() {
            Some(name) => self.effect(Effect::CreateTemporaryTable(name)),
            None => return self.unknown(),
        }
        self.table_query();
    }

    /// IF EXISTS, IF NOT EXISTS.
    fn skip_existence(&mut self) {
        if self.cursor.at(W::If) {
            self.cursor.bump();
            self.cursor.accept(W::Not);
            self.cursor.accept(W::Exists);
        }
    }

    fn drop(&mut self) {
        self.cursor.bump();
        match self.cursor.word {
            W::Prepare => return self.deallocate(),
            W::User | W::Role => return self.account(),
            _ => {}
        }
        let temporary = self.cursor.accept(W::Temporary);
        if !self.cursor.at_any(&[W::Table, W::Tables, W::Sequence]) {
            return self.define();
        }
        self.kind(Kind::Definition);
        self.primary(Why::Definition);
        if !temporary {
            self.committing();
        }
        self.cursor.bump();
        self.skip_existence();
        let mut names = Vec::new();
        while let Some(name) = self.name() {
            names.push(name);
            if !self.cursor.accept_kind(TokenKind::Comma) {
                break;
            }
        }
        if names.is_empty() {
            return self.unknown();
        }
        self.effect(Effect::DropTable { names, temporary });
        self.skip();
    }
}
