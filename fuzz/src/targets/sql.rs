//! SQL text in every family, mode and character set.

use std::cell::RefCell;
use std::collections::HashSet;

use sql::lexer::{Lexer, TokenKind};
use sql::{
    Access, DIGEST_TEXT_MAX, Dialect, Encoding, Family, Kind, Memo, Modes, NAMES_MAX, NoFunctions, Statement, classify,
    digest, digest_hash, only_tags, rewrite, tables, tags, text, without_tags,
};

use crate::Input;

const FAMILIES: [(Family, u32); 4] =
    [(Family::MariaDb, 101_119), (Family::MySql, 80_400), (Family::MySql, 50_744), (Family::MariaDb, 110_800)];
const ENCODINGS: [Encoding; 6] =
    [Encoding::Utf8, Encoding::AsciiSafe, Encoding::Big5, Encoding::Gbk, Encoding::Sjis, Encoding::Gb18030];

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::default();
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (family, version) = input.one_of(&FAMILIES);
    let encoding = input.one_of(&ENCODINGS);
    let modes = Modes::from_bits_truncate(input.byte());
    let dialect = Dialect { family, version, modes, encoding };
    let text = input.remaining();
    let is_good = spans(text, &dialect);
    let statement = classify(text, &dialect, &NoFunctions);
    if statement.kind == Kind::Unknown {
        assert!(matches!(statement.access, Access::Primary(_)), "what is unknown stays on the primary");
    }
    MEMO.with_borrow_mut(|memo| {
        // Nothing of earlier texts may show in it.
        assert_eq!(*memo.classify(text, &dialect, &NoFunctions), statement);
    });
    digests(text, &dialect, is_good);
    rewrites(text, &dialect);
    literals(text, &dialect);
    named(text, &dialect, &statement);
    tagged(text);
}

/// Gives whether a server could read the text to its end.
fn spans(text: &[u8], dialect: &Dialect) -> bool {
    let mut lexer = Lexer::new(text, dialect);
    let (mut end, mut is_good) = (0, true);
    loop {
        let token = lexer.next_token();
        is_good &= token.kind != TokenKind::Bad;
        assert!(token.start >= end && token.end >= token.start && token.end <= text.len());
        assert_eq!(token.bytes(text).len(), token.end - token.start);
        end = token.end;
        if token.kind == TokenKind::End {
            return is_good;
        }
        // A part that is missing at the end has no bytes.
        let missing = token.kind == TokenKind::Bad && token.end == text.len();
        assert!(token.end > token.start || missing, "a token of no bytes");
        let _ = text::identifier(token, text);
        let _ = text::user_variable(token, text, dialect);
        let _ = text::string(token, text, dialect);
    }
}

/// Taking tags away leaves a part of the text, and the tags that are kept apart are the same.
fn tagged(text: &[u8]) {
    let without = without_tags(text);
    assert!(
        without.len() <= text.len() && (without.is_empty() || text.windows(without.len()).any(|part| part == without))
    );
    let shown = |text: &[u8]| {
        let mut seen = Vec::new();
        tags(text, |tag| seen.push((tag.name.to_owned(), tag.value.into_owned())));
        seen
    };
    assert_eq!(shown(text), only_tags(text).map_or_else(Vec::new, |kept| shown(&kept)));
}

/// A digest has its bound, and its hash without it is the same.
fn digests(text: &[u8], dialect: &Dialect, is_good: bool) {
    let once = digest(text, dialect);
    assert!(once.text.len() <= DIGEST_TEXT_MAX);
    assert_eq!(once.hash, digest_hash(text, dialect));
    // White space ahead says nothing.
    if is_good {
        let ahead = [b"\n\t /* x */", text].concat();
        let again = digest(&ahead, dialect);
        assert_eq!((again.text, again.hash), (once.text, once.hash));
    }
}

/// Names of tables stand in the text, are not too many, and are found again in a query around it.
fn named(text: &[u8], dialect: &Dialect, statement: &Statement) {
    let Ok(found) = tables(text, dialect) else { return };
    assert!(found.read.len() + found.written.len() <= NAMES_MAX && found.functions.len() <= NAMES_MAX);
    let words: HashSet<String> = Lexer::new(text, dialect)
        .take_while(|token| token.kind != TokenKind::End)
        .map(|token| text::identifier(token, text).into_owned())
        .collect();
    for table in found.read.iter().chain(&found.written) {
        let parts = table.schema.iter().chain([&table.name]);
        assert!(parts.into_iter().all(|part| words.contains(&**part)), "{table:?} stands nowhere");
    }
    if statement.kind != Kind::Select || statement.parts != 1 || !found.written.is_empty() {
        return;
    }
    let around = [b"SELECT 1 FROM `around`, (", text, b"\n) AS x WHERE 1 IN (", text, b"\n)"].concat();
    if let Ok(wider) = tables(&around, dialect) {
        assert!(wider.written.is_empty());
        assert!(found.read.iter().all(|table| wider.read.contains(table)), "{found:?} {wider:?}");
    }
}

/// A text from which known functions were taken has none of them left; but MySQL keeps FOUND_ROWS(), for the server to warn of.
fn rewrites(text: &[u8], dialect: &Dialect) {
    let known =
        [rewrite::OwnValue::ConnectionId(u64::MAX), rewrite::OwnValue::RowCount(-1), rewrite::OwnValue::FoundRows(0)];
    let gone = if dialect.family == Family::MySql { &known[..2] } else { &known[..] };
    if let Some(rewritten) = rewrite::functions(text, dialect, &known) {
        assert_eq!(
            rewrite::functions(&rewritten.text, dialect, gone),
            None,
            "{}",
            String::from_utf8_lossy(&rewritten.text)
        );
        spans(&rewritten.text, dialect);
    }
}

/// A value written as a literal is one literal, and reads as the value.
fn literals(value: &[u8], dialect: &Dialect) {
    // Values are written for statements of Sqluice's own, which are read without this mode.
    let Some(literal) = text::literal(value, dialect.encoding) else { return };
    let dialect = Dialect { modes: Modes::empty(), ..*dialect };
    let literal = literal.as_bytes();
    let mut lexer = Lexer::new(literal, &dialect);
    let mut token = lexer.next_token();
    if token.kind == TokenKind::Introducer {
        token = lexer.next_token();
        assert_eq!(token.kind, TokenKind::BitString);
    } else {
        assert_eq!(text::string(token, literal, &dialect), value);
    }
    assert_eq!((token.end, lexer.next_token().kind), (literal.len(), TokenKind::End));
}
