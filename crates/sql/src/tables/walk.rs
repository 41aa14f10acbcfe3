//! The walk over a text: its statements, and which of their parentheses hold a query.

use crate::cursor::Cursor;
use crate::dialect::{Dialect, Encoding, Modes};
use crate::lexer::TokenKind;
use crate::names::{DEPTH_MAX, Tables, Unread, UnreadReason};

/// Where in a statement the walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Anywhere but in a list of tables.
    Expression,
    /// A table must come, or what stands for one.
    Table,
    /// Behind a table in a list of them: aliases, hints, conditions of joins.
    BehindTable,
    /// Behind WITH or a comma in its list: a name must come.
    CommonName,
    /// Behind a query of WITH.
    BehindCommon,
    /// In `SET STATEMENT …`, before FOR.
    Settings,
}

/// One pair of parentheses, or the statement itself.
#[derive(Debug)]
pub(super) struct Level<'a> {
    pub(super) at: At,
    /// It holds a SELECT, so that FROM begins a list of tables. In `TRIM(x FROM y)` it does not.
    pub(super) query: bool,
    /// Tables named here are written.
    pub(super) written: bool,
    /// Names that WITH gave here, as written without quotes; tables by these names are none.
    pub(super) common: Vec<&'a [u8]>,
    /// The parentheses hold the query of this name of WITH.
    pub(super) defines: Option<&'a [u8]>,
    /// A list of WITH here is RECURSIVE.
    pub(super) recursive: bool,
}

impl Level<'_> {
    pub(super) fn new(at: At) -> Self {
        Level { at, query: false, written: false, common: Vec::new(), defines: None, recursive: false }
    }
}

pub(super) struct Walk<'a> {
    pub(super) cursor: Cursor<'a>,
    /// Never empty.
    pub(super) levels: Vec<Level<'a>>,
    /// Names in all levels' `common`.
    pub(super) common: usize,
    pub(super) found: Tables,
    /// In a DELETE whose tables to be deleted from stood before this: USING names the tables, until the first join.
    pub(super) may_use: bool,
    /// A USE was among the statements: unqualified names are not all in the same schema.
    pub(super) uses: bool,
    /// How many written names there were before the statement.
    pub(super) written_before: usize,
}

pub(super) type Step<T = ()> = Result<T, Unread>;

/// Ends the walk.
pub(super) fn unread<T>(reason: UnreadReason) -> Step<T> {
    Err(Unread { reason })
}

pub(super) fn walk(text: &[u8], dialect: &Dialect) -> Step<Tables> {
    if dialect.modes.contains(Modes::ORACLE) {
        return unread(UnreadReason::Oracle);
    }
    let mut walk = Walk {
        cursor: Cursor::new(text, dialect),
        levels: vec![Level::new(At::Expression)],
        common: 0,
        found: Tables::default(),
        may_use: false,
        uses: false,
        written_before: 0,
    };
    walk.text()?;
    if walk.uses && !(walk.found.read.is_empty() && walk.found.written.is_empty()) {
        return unread(UnreadReason::Schema);
    }
    Ok(walk.found)
}

impl<'a> Walk<'a> {
    fn text(&mut self) -> Step {
        loop {
            while self.cursor.kind() == TokenKind::Semicolon {
                self.cursor.step();
            }
            match self.cursor.kind() {
                TokenKind::End => return Ok(()),
                TokenKind::Bad => return unread(UnreadReason::Bad),
                _ => {}
            }
            self.levels.truncate(1);
            *self.level() = Level::new(At::Expression);
            (self.common, self.may_use, self.written_before) = (0, false, self.found.written.len());
            self.statement()?;
            while !self.cursor.at_end() {
                self.token()?;
            }
            if self.levels.len() != 1 || matches!(self.level().at, At::Table | At::CommonName) {
                return unread(UnreadReason::Form);
            }
        }
    }

    pub(super) fn level(&mut self) -> &mut Level<'a> {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// The keyword in hand in lower case, or nothing.
    pub(super) fn word(&self) -> &'static str {
        self.cursor.entry.text
    }

    /// The keyword behind the one in hand, or nothing.
    pub(super) fn next_word(&self) -> &'static str {
        self.cursor.ahead().entry.text
    }

    pub(super) fn accept(&mut self, words: &[&str]) -> bool {
        let found = words.contains(&self.word());
        if found {
            self.cursor.step();
        }
        found
    }

    /// Looks at one token, or at the few that belong together.
    pub(super) fn token(&mut self) -> Step {
        self.check_encoding()?;
        match self.cursor.kind() {
            TokenKind::Open => self.open(),
            TokenKind::Close => self.close(),
            _ => match self.level().at {
                At::Expression => self.in_expression(),
                At::Table => self.table_reference(),
                At::BehindTable => self.behind_table(),
                At::CommonName => self.common_name(),
                At::BehindCommon => self.behind_common(),
                At::Settings => self.in_settings(),
            },
        }
    }

    /// A byte beyond ASCII may be white space, or another character in the server's own character set.
    pub(super) fn check_encoding(&self) -> Step {
        let named = matches!(self.cursor.kind(), TokenKind::Word | TokenKind::QuotedIdentifier);
        if named && !self.cursor.bytes().is_ascii() {
            let is_utf8 = self.cursor.dialect().encoding == Encoding::Utf8;
            if !is_utf8 || std::str::from_utf8(self.cursor.bytes()).is_err() {
                return unread(UnreadReason::Encoding);
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Step {
        if self.levels.len() >= DEPTH_MAX {
            return unread(UnreadReason::Limit);
        }
        let level = self.level();
        let (at, written) = (level.at, level.written);
        let inner = match at {
            // A join in parentheses, or a derived table: a SELECT will tell.
            At::Table => Level { written, ..Level::new(At::Table) },
            At::Expression | At::BehindTable | At::Settings => Level::new(At::Expression),
            At::CommonName => return unread(UnreadReason::Form),
            At::BehindCommon => {
                level.at = At::Expression;
                Level::new(At::Expression)
            }
        };
        self.levels.push(inner);
        self.cursor.step();
        Ok(())
    }

    fn close(&mut self) -> Step {
        let Some(closed) = self.levels.pop().filter(|_| !self.levels.is_empty()) else {
            self.levels.push(Level::new(At::Expression));
            return unread(UnreadReason::Form);
        };
        if matches!(closed.at, At::Table | At::CommonName) {
            return unread(UnreadReason::Form);
        }
        self.common -= closed.common.len();
        self.cursor.step();
        let level = self.level();
        if let Some(name) = closed.defines {
            level.at = At::BehindCommon;
            level.common.push(name);
            self.common += 1;
        } else if level.at == At::Table {
            level.at = At::BehindTable;
        }
        Ok(())
    }

    fn in_expression(&mut self) -> Step {
        let is_query = self.level().query;
        match self.word() {
            "select" => self.select(),
            "with" if self.begins_common() => self.common_list(),
            "table" => {
                self.cursor.step();
                self.level().at = At::Table;
                self.level().written = false;
            }
            "from" if is_query => {
                self.cursor.step();
                self.level().at = At::Table;
            }
            "nextval" | "lastval" | "setval" if self.cursor.ahead().kind() == TokenKind::Open => {
                return unread(UnreadReason::Sequence);
            }
            "next" | "previous" if self.next_word() == "value" && self.cursor.ahead().ahead().entry.text == "for" => {
                return unread(UnreadReason::Sequence);
            }
            _ => self.cursor.step(),
        }
        Ok(())
    }

    pub(super) fn select(&mut self) {
        let level = self.level();
        (level.at, level.query, level.written) = (At::Expression, true, false);
        self.cursor.step();
    }

    fn in_settings(&mut self) -> Step {
        let is_for = self.word() == "for";
        self.cursor.step();
        if is_for {
            self.level().at = At::Expression;
            return self.statement();
        }
        Ok(())
    }
}
