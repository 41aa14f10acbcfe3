//! Lists of tables, as behind FROM and UPDATE: where in them a table's name must come.

use super::walk::{At, Step, Walk, unread};
use crate::dialect::Family;
use crate::lexer::{Token, TokenKind};
use crate::names::{NAMES_MAX, TableName, UnreadReason};
use crate::text;

impl Walk<'_> {
    /// A table or a view. The parenthesis of a derived table is for [`Walk::open`].
    pub(super) fn table_reference(&mut self) -> Step {
        let calls = self.cursor.ahead().kind() == TokenKind::Open;
        match self.word() {
            "select" => self.select(),
            "values" if calls || self.next_word() == "row" => {
                self.level().at = At::Expression;
                self.cursor.step();
            }
            "table" => {
                self.level().written = false;
                self.cursor.step();
            }
            "with" if self.begins_common() => self.common_list(),
            "lateral" if calls => self.cursor.step(),
            "dual" => {
                self.level().at = At::BehindTable;
                self.cursor.step();
            }
            "json_table" if calls => {
                self.level().at = At::BehindTable;
                self.cursor.step();
            }
            _ => {
                let written = self.level().written;
                if self.is_common() {
                    self.cursor.step();
                } else {
                    self.name(written)?;
                }
                if self.cursor.kind() == TokenKind::Open {
                    // A function that gives a table.
                    return unread(UnreadReason::Form);
                }
                self.level().at = At::BehindTable;
            }
        }
        Ok(())
    }

    /// Takes a table's name and notes it.
    pub(super) fn name(&mut self, written: bool) -> Step {
        let (mut schema, mut name) = (None, self.part()?);
        if self.cursor.kind() == TokenKind::Dot {
            self.cursor.step();
            // `DELETE FROM t.* USING …`
            if !(written && self.accept_star()) {
                schema = Some(std::mem::replace(&mut name, self.part()?));
            }
        }
        if self.cursor.kind() == TokenKind::Dot {
            self.cursor.step();
            if !(written && self.accept_star()) {
                return unread(UnreadReason::Form);
            }
        }
        let plain = |(token, text)| Box::from(&*text::identifier(token, text));
        let text = self.cursor.text();
        let name = TableName { schema: schema.map(|token| plain((token, text))), name: plain((name, text)) };
        let total = self.found.read.len() + self.found.written.len();
        let list = if written { &mut self.found.written } else { &mut self.found.read };
        if !list.contains(&name) {
            if total >= NAMES_MAX {
                return unread(UnreadReason::Limit);
            }
            list.push(name);
        }
        Ok(())
    }

    pub(super) fn part(&mut self) -> Step<Token> {
        if !self.cursor.at_name() {
            return unread(UnreadReason::Form);
        }
        self.check_encoding()?;
        let token = self.cursor.token;
        self.cursor.step();
        Ok(token)
    }

    fn accept_star(&mut self) -> bool {
        let found = self.cursor.at_operator(b"*");
        if found {
            self.cursor.step();
        }
        found
    }

    pub(super) fn behind_table(&mut self) -> Step {
        if self.cursor.kind() == TokenKind::Comma {
            self.level().at = At::Table;
            self.cursor.step();
            return Ok(());
        }
        let word = self.word();
        match word {
            "join" | "straight_join" => {
                self.may_use &= self.levels.len() > 1;
                self.level().at = At::Table;
            }
            // `USE INDEX FOR ORDER BY (…)`.
            "use" | "ignore" | "force" if ["index", "key"].contains(&self.next_word()) => {
                return self.skip_index_hint();
            }
            // `FOR SYSTEM_TIME FROM a TO b`; UPDATE and DELETE have `FOR PORTION OF p FROM a TO b`.
            "system_time" if self.next_word() == "from" => self.cursor.step(),
            "from" if !self.level().written => return unread(UnreadReason::Form),
            "using" if self.may_use && self.levels.len() == 1 => {
                self.may_use = false;
                // DELETE names its table by the alias: all tables that follow count.
                self.found.written.truncate(self.written_before);
                self.level().at = At::Table;
            }
            "select" => {
                self.select();
                return Ok(());
            }
            "table" => self.level().at = At::Table,
            "where" | "group" | "having" | "order" | "limit" | "into" | "procedure" | "lock" | "set" => self.end_list(),
            "for" if ["update", "share"].contains(&self.next_word()) => self.end_list(),
            "on" if self.next_word() == "duplicate" => self.end_list(),
            "returning" if self.cursor.dialect().family == Family::MariaDb => self.end_list(),
            "window" if self.begins_window() => self.end_list(),
            "union" => self.end_list(),
            "except" | "intersect" | "minus" if self.begins_query_behind() => self.end_list(),
            _ => {}
        }
        self.cursor.step();
        Ok(())
    }

    fn end_list(&mut self) {
        let level = self.level();
        (level.at, level.written) = (At::Expression, false);
    }

    /// Takes `USE INDEX [FOR …] (…)`.
    fn skip_index_hint(&mut self) -> Step {
        while !self.cursor.at_end() && self.cursor.kind() != TokenKind::Close {
            self.cursor.step();
        }
        if self.cursor.kind() != TokenKind::Close {
            return unread(UnreadReason::Form);
        }
        self.cursor.step();
        Ok(())
    }

    /// `WINDOW name AS`; the word alone may be an alias.
    fn begins_window(&self) -> bool {
        let name = self.cursor.ahead();
        name.at_name() && name.ahead().entry.text == "as"
    }

    /// Whether a query follows the word in hand.
    fn begins_query_behind(&self) -> bool {
        let next = self.cursor.ahead();
        next.kind() == TokenKind::Open
            || ["select", "all", "distinct", "values", "table", "with"].contains(&next.entry.text)
    }
}
