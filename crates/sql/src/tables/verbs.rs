//! How each statement begins: what it writes stands there.

use super::walk::{At, Step, Walk, unread};
use crate::lexer::TokenKind;
use crate::names::UnreadReason;

impl Walk<'_> {
    /// Takes a statement's beginning; the walk goes on behind it.
    pub(super) fn statement(&mut self) -> Step {
        if self.cursor.kind() == TokenKind::Open {
            return Ok(());
        }
        match self.word() {
            "select" | "with" | "values" | "table" | "do" => Ok(()),
            "insert" | "replace" => self.insert(),
            "update" => self.update(),
            "delete" => self.delete(),
            "load" => self.load(),
            "set" => {
                self.cursor.step();
                match self.word() {
                    "statement" => self.level().at = At::Settings,
                    // They write the server's own tables.
                    "password" | "default" => return unread(UnreadReason::Statement),
                    _ => {}
                }
                Ok(())
            }
            // BEGIN NOT ATOMIC; START REPLICA.
            "begin" if self.next_word() == "not" => unread(UnreadReason::Statement),
            "start" if self.next_word() != "transaction" => unread(UnreadReason::Statement),
            "begin" | "start" | "commit" | "rollback" | "savepoint" | "release" | "kill" => self.without_tables(),
            "use" => {
                self.uses = true;
                self.without_tables()
            }
            "create" => self.create(),
            "alter" => self.alter(),
            "drop" => self.drop(),
            "rename" => self.rename(),
            "truncate" => self.truncate(),
            _ => unread(UnreadReason::Statement),
        }
    }

    /// To the end of a statement that names no tables.
    fn without_tables(&mut self) -> Step {
        while !self.cursor.at_end() {
            self.cursor.step();
        }
        Ok(())
    }

    fn modifiers(&mut self) {
        while self.accept(&["low_priority", "high_priority", "delayed", "ignore"]) {}
    }

    /// `INSERT [INTO] t [PARTITION (…)] [(columns)] …`: queries among what follows are found by the walk.
    fn insert(&mut self) -> Step {
        self.cursor.step();
        self.modifiers();
        self.accept(&["into"]);
        self.name(true)
    }

    /// Its tables stand in a list, as behind FROM.
    fn update(&mut self) -> Step {
        self.cursor.step();
        self.modifiers();
        self.written_list();
        Ok(())
    }

    fn written_list(&mut self) {
        let level = self.level();
        (level.at, level.written) = (At::Table, true);
    }

    /// `DELETE FROM t`, `DELETE FROM t, u USING list`, `DELETE t, u FROM list`: of the latter all tables of the list count.
    fn delete(&mut self) -> Step {
        self.cursor.step();
        self.may_use = self.word() == "from";
        while self.word() != "from" {
            let expected = self.cursor.at_name()
                || matches!(self.cursor.kind(), TokenKind::Comma | TokenKind::Dot)
                || self.cursor.at_operator(b"*");
            if !expected {
                return unread(UnreadReason::Form);
            }
            // `DELETE LOW_PRIORITY QUICK FROM t, u USING …`; a table may be called QUICK.
            let modifier = ["low_priority", "quick", "ignore", "history"].contains(&self.word());
            self.cursor.step();
            self.may_use = modifier && self.word() == "from" || self.may_use;
        }
        self.cursor.step();
        self.written_list();
        Ok(())
    }

    /// `LOAD DATA … INTO TABLE t …`; its SET may hold queries.
    fn load(&mut self) -> Step {
        self.cursor.step();
        if !self.accept(&["data", "xml"]) {
            return unread(UnreadReason::Statement);
        }
        while !self.cursor.at_end() && self.word() != "into" {
            self.cursor.step();
        }
        if !self.accept(&["into"]) || !self.accept(&["table"]) {
            return unread(UnreadReason::Form);
        }
        self.name(true)
    }
}
