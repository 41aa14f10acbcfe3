//! WITH: the names that it gives to queries stand for no tables.

use super::walk::{At, Level, Step, Walk, unread};
use crate::lexer::TokenKind;
use crate::names::{DEPTH_MAX, NAMES_MAX, UnreadReason};
use crate::text;

impl Walk<'_> {
    /// `WITH [RECURSIVE] name AS` or `name (`: other clauses begin with WITH, too.
    pub(super) fn begins_common(&self) -> bool {
        let mut ahead = self.cursor.ahead();
        if ahead.entry.text == "recursive" {
            ahead.step();
        }
        ahead.at_name() && {
            let behind = ahead.ahead();
            behind.entry.text == "as" || behind.kind() == TokenKind::Open
        }
    }

    pub(super) fn common_list(&mut self) {
        self.cursor.step();
        let recursive = self.accept(&["recursive"]);
        let level = self.level();
        (level.at, level.recursive) = (At::CommonName, recursive);
    }

    /// `name [(columns)] AS (`.
    pub(super) fn common_name(&mut self) -> Step {
        let token = self.part()?;
        let name = text::unquoted(token, self.cursor.text());
        if self.cursor.kind() == TokenKind::Open {
            while !self.cursor.at_end() && self.cursor.kind() != TokenKind::Close {
                self.cursor.step();
            }
            self.cursor.step();
        }
        if !self.accept(&["as"]) || self.cursor.kind() != TokenKind::Open {
            return unread(UnreadReason::Form);
        }
        if self.levels.len() >= DEPTH_MAX || self.common >= NAMES_MAX {
            return unread(UnreadReason::Limit);
        }
        self.cursor.step();
        let common = if self.level().recursive { vec![name] } else { Vec::new() };
        self.common += common.len();
        self.levels.push(Level { common, defines: Some(name), ..Level::new(At::Expression) });
        Ok(())
    }

    pub(super) fn behind_common(&mut self) -> Step {
        if self.cursor.kind() == TokenKind::Comma {
            self.level().at = At::CommonName;
            self.cursor.step();
            return Ok(());
        }
        // MariaDB: CYCLE columns RESTRICT.
        if self.word() == "cycle" {
            while !self.cursor.at_end() && !self.accept(&["restrict"]) {
                self.cursor.step();
            }
            return Ok(());
        }
        self.level().at = At::Expression;
        if self.levels.len() == 1 && ["update", "delete", "insert", "replace"].contains(&self.word()) {
            return self.statement();
        }
        Ok(())
    }

    /// Whether WITH gave the name in hand. In another case, or with marks inside, it may be a table's.
    pub(super) fn is_common(&self) -> bool {
        let name = text::unquoted(self.cursor.token, self.cursor.text());
        self.cursor.at_name()
            && self.cursor.ahead().kind() != TokenKind::Dot
            && !name.iter().any(|byte| matches!(byte, b'`' | b'"'))
            && self.levels.iter().any(|level| level.common.contains(&name))
    }
}
