use proptest::prelude::*;

use super::*;
use crate::lexer::{Lexer, TokenKind};
use crate::{Dialect, Encoding, Family, Modes};

const DIALECT: Dialect =
    Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 };

fn tags_of(text: &str) -> String {
    let mut seen = Vec::new();
    tags(text.as_bytes(), |tag| seen.push(format!("{}={}", tag.name, tag.value)));
    seen.join(" ")
}

fn stripped(text: &str) -> &str {
    str::from_utf8(without_tags(text.as_bytes())).unwrap()
}

#[test]
fn both_forms_are_read_at_both_ends() {
    for (text, expected) in [
        ("SELECT 1 /*application='Shop',route='%2Fitems%2F%3Cid%3E'*/", "application=Shop route=/items/<id>"),
        (
            "SELECT 1 /*application:Shop,controller:items,line:/app/a.rb:12:in `x'*/",
            "application=Shop controller=items line=/app/a.rb:12:in `x'",
        ),
        ("/* application:Shop , job:mail */ SELECT 1", "application=Shop job=mail"),
        ("/*a='1'*/ SELECT 1 /*b:2*/;", "a=1 b=2"),
        ("SELECT 1/*a='it\\'s',b='100%',c=''*/", "a=it's b=100% c="),
        ("SELECT 1 /*a='%FF%00'*/ ;", "a=\u{fffd}\0"),
        ("/*a:1*/", "a=1"),
    ] {
        assert_eq!(tags_of(text), expected, "{text}");
        assert!(["SELECT 1", ""].contains(&stripped(text)), "{text}");
    }
}

#[test]
fn other_comments_stay_and_have_no_tags() {
    for text in [
        "SELECT 1",
        "SELECT 1;",
        "SELECT /*+ NO_ICP(t) */ 1 /*+ a='1' */",
        "SELECT 1 /*!50000 , 2 */",
        "SELECT 1 /*M!100000 , 2 */",
        "/*! SELECT 1 /*a='1'*/",
        "/*!50000 a='1'*/",
        "SELECT 1 /*!99999 x /*a='1'*/ */",
        "/* sqluice: primary */ SELECT 1",
        "SELECT 1 /* sqluice: cache=off */",
        "/*nocache*/ SELECT 1",
        "SELECT 1 /* all of it */",
        "SELECT 1 /* TODO: this, and that */",
        "SELECT 1 /* a = 1 */",
        "SELECT 1 /* a='1' b='2' */",
        "SELECT 1 /* a='1 */",
        "SELECT 1 /*a='1',*/",
        "SELECT 1 /*,a='1'*/",
        "SELECT 1 /**/",
        "SELECT 1 /*/",
        "SELECT 1 /* open /*a='1'*/",
        "SELECT 1 --/*a='1'*/",
        "SELECT 1 /*a='1\n'*/",
        "SELECT /*a='1'*/ 1",
        "/*a='1'",
        "/*",
        "*/",
        "/",
        ";",
        "",
    ] {
        assert_eq!((stripped(text), tags_of(text).as_str()), (text, ""), "{text}");
        assert_eq!(only_tags(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn names_values_and_comments_have_bounds() {
    let value = "ü".repeat(TAG_VALUE_BYTES_MAX);
    assert_eq!(tags_of(&format!("SELECT 1 /*a='{value}'*/")), format!("a={}", &value[..TAG_VALUE_BYTES_MAX]));
    let name = "n".repeat(TAG_NAME_BYTES_MAX);
    assert_eq!(tags_of(&format!("SELECT 1 /*{name}:1*/")), format!("{name}=1"));
    for text in [
        format!("SELECT 1 /*{name}n:1*/"),
        format!("SELECT 1 /*a:{}*/", "x".repeat(COMMENT_BYTES_MAX)),
        format!("/*a:{}*/ SELECT 1", "x".repeat(COMMENT_BYTES_MAX)),
    ] {
        assert_eq!((stripped(&text), tags_of(&text).as_str()), (&*text, ""), "{text}");
    }
}

#[test]
fn tags_are_kept_apart_from_their_text() {
    let text = b"/*a:1*/ SELECT ? /*b='2'*/";
    let kept = only_tags(text).unwrap();
    assert_eq!(&*kept, b"/*a:1*//*b='2'*/");
    assert_eq!(tags_of(str::from_utf8(&kept).unwrap()), "a=1 b=2");
    assert_eq!(&*only_tags(b"SELECT ? /*b='2'*/").unwrap(), b"/*b='2'*/");
}

/// The tokens of a text; `None` if no server reads it.
fn tokens(text: &[u8]) -> Option<Vec<(TokenKind, Vec<u8>)>> {
    let tokens: Vec<_> = Lexer::new(text, &DIALECT).map(|token| (token.kind, token.bytes(text).to_vec())).collect();
    let is_read = tokens.iter().all(|(kind, _)| *kind != TokenKind::Bad)
        // No statement ends with an operator.
        && tokens.windows(2).all(|two| two[0].0 != TokenKind::Operator || two[1].0 != TokenKind::Semicolon)
        && tokens.last().is_none_or(|(kind, _)| *kind != TokenKind::Operator);
    is_read.then_some(tokens)
}

/// Pieces that open, close and hide comments.
fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "SELECT 1",
        " ",
        "'",
        "\"",
        "`",
        "/*",
        "*/",
        "--",
        "-- ",
        "#",
        "\n",
        "\\",
        "a='1'",
        "b:2",
        ",",
        "/*a='1'*/",
        "/*b:2*/",
        "/*!",
        "/*+",
        "/",
        "*",
        ";",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// A text that a server takes means the same without its tags.
    #[test]
    fn a_text_means_the_same_without_tags(text in text()) {
        let without = without_tags(text.as_bytes());
        let ends = |tokens: Option<Vec<(TokenKind, Vec<u8>)>>| {
            let mut tokens = tokens?;
            tokens.pop_if(|(kind, _)| *kind == TokenKind::Semicolon);
            Some(tokens)
        };
        if let Some(tokens_with) = ends(tokens(text.as_bytes())) {
            prop_assert_eq!(Some(tokens_with), ends(tokens(without)), "{} | {:?}", text, std::str::from_utf8(without));
        }
    }

    /// Texts that become equal mean the same, if a server takes what they become.
    #[test]
    fn what_is_taken_away_is_a_comment(text in text(), spaces in " {0,2}") {
        let tagged = format!("{text}{spaces}/*a='1'*/");
        if tokens(text.as_bytes()).is_some() && without_tags(tagged.as_bytes()) == text.trim_end().as_bytes() {
            prop_assert_eq!(tokens(text.as_bytes()), tokens(tagged.as_bytes()), "{}", tagged);
        }
    }

    /// No bytes make it fail.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64), tagged in any::<bool>()) {
        let mut text = bytes.clone();
        if tagged {
            text = [b"SELECT 1 /*a='", &*bytes, b"'*/"].concat();
        }
        tags(&text, |tag| assert!(tag.value.len() <= TAG_VALUE_BYTES_MAX));
        without_tags(&text);
        TraceParent::parse(&bytes);
    }
}
