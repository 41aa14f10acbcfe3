//! Statements that make, change and drop tables.

use super::walk::{At, Step, Walk, unread};
use crate::lexer::TokenKind;
use crate::names::UnreadReason;

impl Walk<'_> {
    /// `IF [NOT] EXISTS`.
    fn existence(&mut self) {
        if self.accept(&["if"]) {
            self.accept(&["not"]);
            self.accept(&["exists"]);
        }
    }

    pub(super) fn create(&mut self) -> Step {
        self.cursor.step();
        if self.accept(&["or"]) {
            self.accept(&["replace"]);
        }
        if self.accept(&["unique", "fulltext", "spatial", "vector"]) || self.word() == "index" {
            return self.index();
        }
        self.accept(&["temporary"]);
        if !self.accept(&["table"]) {
            return unread(UnreadReason::Definition);
        }
        self.found.defines = true;
        self.existence();
        self.name(true)?;
        let in_parens = self.cursor.kind() == TokenKind::Open && self.next_word() == "like";
        if in_parens {
            self.cursor.step();
        }
        if self.accept(&["like"]) {
            self.name(false)?;
            if in_parens {
                self.cursor.step();
            }
            return Ok(());
        }
        // A table of the MERGE engine reads others, and so does one behind a connection.
        self.refuse_other_tables()
    }

    /// `CREATE INDEX i ON t`, `DROP INDEX i ON t`.
    fn index(&mut self) -> Step {
        self.found.defines = true;
        while !self.cursor.at_end() && self.word() != "on" {
            self.cursor.step();
        }
        if !self.accept(&["on"]) {
            return unread(UnreadReason::Definition);
        }
        self.name(true)
    }

    /// Nothing that follows may say where else rows are.
    fn refuse_other_tables(&self) -> Step {
        let mut ahead = self.cursor;
        while !ahead.at_end() {
            let union = ahead.entry.text == "union" && !is_query(ahead.ahead().entry.text);
            if union && (ahead.ahead().at_operator(b"=") || ahead.ahead().kind() == TokenKind::Open) {
                return unread(UnreadReason::Definition);
            }
            ahead.step();
        }
        Ok(())
    }

    pub(super) fn alter(&mut self) -> Step {
        self.cursor.step();
        self.accept(&["online"]);
        self.accept(&["ignore"]);
        if !self.accept(&["table"]) {
            return unread(UnreadReason::Definition);
        }
        self.found.defines = true;
        self.existence();
        self.name(true)?;
        self.refuse_other_tables()?;
        while !self.cursor.at_end() {
            // RENAME [TO | AS | =] t; RENAME COLUMN, INDEX, KEY and the like name no table.
            if self.accept(&["rename"]) {
                if ["column", "index", "key", "constraint"].contains(&self.word()) {
                    continue;
                }
                if !self.accept(&["to", "as"]) && self.cursor.at_operator(b"=") {
                    self.cursor.step();
                }
                self.name(true)?;
            } else if self.accept(&["table"]) {
                // EXCHANGE PARTITION p WITH TABLE t, CONVERT PARTITION p TO TABLE t and back.
                self.name(true)?;
            } else {
                self.cursor.step();
            }
        }
        Ok(())
    }

    pub(super) fn drop(&mut self) -> Step {
        self.cursor.step();
        if self.word() == "index" {
            return self.index();
        }
        self.accept(&["temporary"]);
        if !self.accept(&["table", "tables"]) {
            return unread(UnreadReason::Definition);
        }
        self.found.defines = true;
        self.existence();
        let level = self.level();
        (level.at, level.written) = (At::Table, true);
        Ok(())
    }

    /// `RENAME TABLE a TO b, c TO d`.
    pub(super) fn rename(&mut self) -> Step {
        self.cursor.step();
        if !self.accept(&["table", "tables"]) {
            return unread(UnreadReason::Definition);
        }
        self.found.defines = true;
        self.existence();
        loop {
            self.name(true)?;
            // WAIT 5, NOWAIT.
            while !self.cursor.at_end() && self.word() != "to" {
                self.cursor.step();
            }
            if !self.accept(&["to"]) {
                return unread(UnreadReason::Form);
            }
            self.name(true)?;
            if self.cursor.kind() != TokenKind::Comma {
                return Ok(());
            }
            self.cursor.step();
        }
    }

    pub(super) fn truncate(&mut self) -> Step {
        self.cursor.step();
        self.accept(&["table"]);
        self.name(true)
    }
}

fn is_query(word: &str) -> bool {
    ["select", "all", "distinct", "values", "table", "with"].contains(&word)
}
