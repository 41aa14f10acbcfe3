//! Statements that change data: INSERT, REPLACE, UPDATE, DELETE, LOAD.

use super::Classifier;
use crate::lexer::TokenKind;
use crate::statement::{Asks, Kind, Why};
use crate::words::W;

/// Words that INSERT is given as values and that are no ids.
const PLAIN_VALUES: [&[u8]; 11] = [
    b"value",
    b"null",
    b"default",
    b"true",
    b"false",
    b"now",
    b"current_timestamp",
    b"utc_timestamp",
    b"curdate",
    b"sysdate",
    b"localtime",
];

impl Classifier<'_> {
    /// INSERT and REPLACE: the table's column list must not be taken for a call.
    pub(super) fn insert(&mut self) {
        self.kind(Kind::Insert);
        self.primary(Why::Writes);
        self.cursor.bump();
        while self.cursor.at_any(&[W::LowPriority, W::HighPriority, W::Delayed, W::Ignore]) {
            self.insert_id_unsure |= self.cursor.at(W::Ignore);
            self.cursor.bump();
        }
        self.cursor.accept(W::Into);
        self.skip_name();
        if self.cursor.accept(W::Partition) && self.cursor.kind() == TokenKind::Open {
            self.skip_parens();
        }
        // A column list holds names only; a query in parentheses begins with a verb.
        if self.cursor.kind() == TokenKind::Open
            && !self.cursor.ahead().at_any(&[W::Select, W::With, W::Values, W::Table])
            && self.cursor.ahead().kind() != TokenKind::Open
        {
            self.skip_parens();
        }
        self.insert_id_unsure |= !self.inserts_plain_values();
        if self.cursor.accept(W::With) {
            self.cte_list();
        }
        self.scan();
    }

    /// Whether every value from here on stands in the text or is a time: none can be an id that nobody sees.
    fn inserts_plain_values(&self) -> bool {
        let mut ahead = self.cursor;
        let assigns = ahead.at(W::Set);
        loop {
            let plain = match ahead.kind() {
                TokenKind::End | TokenKind::Semicolon => return true,
                TokenKind::Number | TokenKind::String | TokenKind::Placeholder => true,
                TokenKind::Comma | TokenKind::Open | TokenKind::Close => true,
                TokenKind::QuotedIdentifier | TokenKind::Dot => assigns,
                TokenKind::Operator => ahead.at_operator(b"-") || assigns && ahead.at_operator(b"="),
                TokenKind::Word if ahead.word == W::None => assigns && ahead.ahead().kind() != TokenKind::Open,
                TokenKind::Word => {
                    ahead.at_any(&[W::Values, W::Set])
                        || PLAIN_VALUES.iter().any(|word| ahead.bytes().eq_ignore_ascii_case(word))
                }
                _ => false,
            };
            if !plain {
                return false;
            }
            ahead.step();
        }
    }

    fn skip_name(&mut self) {
        while self.cursor.at_name() {
            self.cursor.bump();
            if !self.cursor.accept_kind(TokenKind::Dot) {
                return;
            }
        }
    }

    /// UPDATE and DELETE.
    pub(super) fn change(&mut self, kind: Kind) {
        self.kind(kind);
        self.primary(Why::Writes);
        self.cursor.bump();
        self.note_tables(kind);
        self.scan();
    }

    /// LOAD DATA, LOAD XML and LOAD INDEX.
    pub(super) fn load(&mut self) {
        self.cursor.bump();
        if self.cursor.at(W::Index) {
            return self.plain(Kind::Administration, Why::Administration);
        }
        self.kind(Kind::Load);
        self.insert_id_unsure = true;
        self.primary(Why::Writes);
        self.variables_assigned = true;
        // LOAD DATA [LOW_PRIORITY | CONCURRENT] [LOCAL] INFILE; LOAD XML likewise.
        while !self.cursor.at_end() && !self.cursor.at(W::Into) && self.cursor.kind() != TokenKind::String {
            if self.cursor.at(W::Local) {
                self.asks |= Asks::LOCAL_FILE;
            }
            self.cursor.bump();
        }
        self.skip_to(&[W::Into]);
        self.cursor.accept(W::Into);
        self.scan();
    }
}
