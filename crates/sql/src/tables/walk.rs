//! The walk over a text: which parentheses hold a query, and where in it a table's name must come.

use super::{DEPTH_MAX, NAMES_MAX, TableName, Tables, Unread, UnreadReason};
use crate::cursor::Cursor;
use crate::lexer::{Token, TokenKind};
use crate::statement::{Dialect, Encoding, Family, Modes};
use crate::text;

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
    query: bool,
    /// Tables named here are written.
    pub(super) written: bool,
    /// Names that WITH gave here, as written without quotes; tables by these names are none.
    common: Vec<&'a [u8]>,
    /// The parentheses hold the query of this name of WITH.
    defines: Option<&'a [u8]>,
    /// A list of WITH here is RECURSIVE.
    recursive: bool,
}

impl Level<'_> {
    fn new(at: At) -> Self {
        Level { at, query: false, written: false, common: Vec::new(), defines: None, recursive: false }
    }
}

pub(super) struct Walk<'a> {
    pub(super) cursor: Cursor<'a>,
    /// Never empty.
    levels: Vec<Level<'a>>,
    /// Names in all levels' `common`.
    common: usize,
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
    fn check_encoding(&self) -> Step {
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

    fn select(&mut self) {
        let level = self.level();
        (level.at, level.query, level.written) = (At::Expression, true, false);
        self.cursor.step();
    }

    /// A table or a view. The parenthesis of a derived table is for [`Walk::open`].
    fn table_reference(&mut self) -> Step {
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

    fn part(&mut self) -> Step<Token> {
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

    /// Whether WITH gave the name in hand. In another case, or with marks inside, it may be a table's.
    fn is_common(&self) -> bool {
        let name = text::unquoted(self.cursor.token, self.cursor.text());
        self.cursor.at_name()
            && self.cursor.ahead().kind() != TokenKind::Dot
            && !name.iter().any(|byte| matches!(byte, b'`' | b'"'))
            && self.levels.iter().any(|level| level.common.contains(&name))
    }

    fn behind_table(&mut self) -> Step {
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

    /// `WITH [RECURSIVE] name AS` or `name (`: other clauses begin with WITH, too.
    fn begins_common(&self) -> bool {
        let mut ahead = self.cursor.ahead();
        if ahead.entry.text == "recursive" {
            ahead.step();
        }
        ahead.at_name() && {
            let behind = ahead.ahead();
            behind.entry.text == "as" || behind.kind() == TokenKind::Open
        }
    }

    fn common_list(&mut self) {
        self.cursor.step();
        let recursive = self.accept(&["recursive"]);
        let level = self.level();
        (level.at, level.recursive) = (At::CommonName, recursive);
    }

    /// `name [(columns)] AS (`.
    fn common_name(&mut self) -> Step {
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

    fn behind_common(&mut self) -> Step {
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
