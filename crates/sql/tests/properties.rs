//! Properties for any bytes: no panic, an answer in linear time, and never a read that is not one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use sqluice_sql::lexer::{Lexer, TokenKind};
use sqluice_sql::{
    Access, DIGEST_TEXT_MAX, Dialect, Effect, Encoding, Family, Kind, Memo, Modes, NoFunctions, Value, classify,
    digest, digest_hash, rewrite, tables,
};
use std::path::Path;

fn dialect() -> impl Strategy<Value = Dialect> {
    let family =
        prop_oneof![Just((Family::MariaDb, 101119)), Just((Family::MySql, 80400)), Just((Family::MySql, 50744))];
    let encoding = prop_oneof![
        Just(Encoding::AsciiSafe),
        Just(Encoding::Utf8),
        Just(Encoding::Big5),
        Just(Encoding::Gbk),
        Just(Encoding::Sjis),
        Just(Encoding::Gb18030)
    ];
    (family, encoding, 0u8..32).prop_map(|((family, version), encoding, modes)| Dialect {
        family,
        version,
        modes: Modes::from_bits_truncate(modes),
        encoding,
    })
}

/// The SQL of every case file, as it stands there.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut texts = Vec::new();
    for topic in ["classify", "digest", "lexer", "tables"] {
        for entry in std::fs::read_dir(folder.join(topic)).unwrap() {
            let content = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let sql = content.lines().filter(|line| !["=>", "%%", "@ "].iter().any(|mark| line.starts_with(mark)));
            texts.extend(sql.filter(|line| !line.is_empty()).map(str::to_owned));
        }
    }
    assert!(texts.len() > 1000, "the case files are found");
    texts
}

fn check(text: &[u8], dialect: &Dialect) {
    let statement = classify(text, dialect, &NoFunctions);
    if statement.kind == Kind::Unknown {
        assert!(matches!(statement.access, Access::Primary(_)), "what is unknown stays on the primary");
    }
    let normalised = digest(text, dialect);
    assert!(normalised.text.len() <= DIGEST_TEXT_MAX);
    assert_eq!(normalised.hash, digest_hash(text, dialect));
    assert_eq!(normalised.hash, statement.digest, "classification finds the hash on its way");
    let _ = tables(text, dialect);
    let known =
        [rewrite::OwnValue::ConnectionId(u64::MAX), rewrite::OwnValue::RowCount(-1), rewrite::OwnValue::FoundRows(0)];
    let _ = rewrite::functions(text, dialect, &known);
    let mut end = 0;
    let mut lexer = Lexer::new(text, dialect);
    loop {
        let token = lexer.next_token();
        assert!(token.start >= end && token.end >= token.start && token.end <= text.len(), "tokens advance");
        end = token.end;
        if token.kind == TokenKind::End {
            break;
        }
    }
}

fn dialects() -> Vec<Dialect> {
    let mut dialects = Vec::new();
    for (family, version) in [(Family::MariaDb, 101119), (Family::MySql, 80400)] {
        for modes in [Modes::empty(), Modes::all()] {
            for encoding in [Encoding::Utf8, Encoding::Gbk] {
                dialects.push(Dialect { family, version, modes, encoding });
            }
        }
    }
    dialects
}

#[test]
fn cases_cut_at_any_byte_are_answered() {
    let dialects = dialects();
    for text in texts() {
        for end in 0..=text.len() {
            check(&text.as_bytes()[..end], &dialects[end % dialects.len()]);
        }
    }
}

#[test]
fn cases_are_answered_in_every_dialect() {
    let dialects = dialects();
    for text in texts() {
        for dialect in &dialects {
            check(text.as_bytes(), dialect);
        }
    }
}

/// Deep nesting does not blow the stack, and what repeats does not take for ever.
#[test]
fn long_and_deep_texts_are_answered() {
    let dialect = dialects()[0];
    let pieces = [
        "(",
        "WITH a AS (",
        "SELECT (",
        "VALUES (1), (",
        "((1,2),",
        "f(",
        "a.",
        "'",
        "`",
        "/*",
        "/*! ",
        "/*!99999 ",
        "@",
        "--\n",
        "CASE ",
        "BEGIN ",
        "IF(",
        "EXPLAIN ",
        "SET STATEMENT a=1 FOR ",
        ";",
        "SET a=",
        "_x ",
        "'a' ",
        "1,",
        "INSERT INTO t ",
        "EXECUTE IMMEDIATE '",
        "\\",
        "x'0",
        "@@",
        "- ",
        "ROW(1),",
        "SELECT CONNECTION_ID(),",
        "(1,1,1,x",
    ];
    for piece in pieces {
        for prefix in ["", "SELECT ", "INSERT INTO t VALUES ", "CREATE PROCEDURE p() ", "SET @a = "] {
            let text = format!("{prefix}{}", piece.repeat(8_000));
            check(text.as_bytes(), &dialect);
        }
    }
}

/// Memory for what a text does is bounded, and what goes beyond the bound is not lost but makes it opaque.
#[test]
fn effects_are_bounded() {
    let dialect = dialects()[0];
    let few = classify("SET @a=1;".repeat(200).as_bytes(), &dialect, &NoFunctions);
    assert_eq!((few.effects.len(), few.parts), (200, 200));
    let many = classify("SET @a=1;".repeat(100_000).as_bytes(), &dialect, &NoFunctions);
    assert_eq!((many.effects.len(), many.parts), (257, u16::MAX));
    assert_eq!(many.effects.last(), Some(&Effect::MayChangeSession));
    let long = classify(format!("SET @a='{}'", "x".repeat(10_000)).as_bytes(), &dialect, &NoFunctions);
    assert_eq!(long.effects, [Effect::UserVariable { name: "a".to_owned(), value: Value::Unknown }]);
}

/// Clauses that make a SELECT more than a read, wherever a comment or white space may stand between their words.
const LOCKING: [&str; 6] =
    ["FOR UPDATE", "FOR SHARE", "LOCK IN SHARE MODE", "INTO @x", "INTO OUTFILE 'x'", "FOR UPDATE NOWAIT"];
const GAPS: [&str; 7] = [" ", "\n", "/**/", " /* x ' */ ", " -- it's\n", "#\"\n", "\t/*! */\r\n"];
const SHELLS: [(&str, &str); 9] = [
    ("", ""),
    ("/*! ", " */"),
    ("/*!40101 ", "*/"),
    ("'a\\'b' FROM t ", ""),
    ("'it''s' FROM t ", " -- '"),
    ("\"a\" \"b\" FROM t ", ";"),
    ("`a``b` FROM t ", "; SELECT 2"),
    ("(SELECT 1 FROM u ", ") FROM t"),
    ("/* comment */ 1 FROM t ", "/* ' */"),
];

/// A query that reads tables named `tN`, in ever other forms, and how many: all from `t0` on.
fn query() -> impl Strategy<Value = String> {
    // `#` is a table; numbers are given at the end.
    let plain = prop_oneof![
        Just("SELECT a, b FROM #, # x LEFT JOIN # USING (a, b), #"),
        Just("SELECT TRIM(a FROM b), f(c, d) FROM db.# AS y, (# JOIN #) WHERE a IN (1, 2) ORDER BY a, b LIMIT 1, 2"),
        Just("WITH c AS (SELECT 1 FROM #), d (e, f) AS (SELECT * FROM c, #) SELECT * FROM c, # NATURAL JOIN d, #"),
        Just("SELECT a FROM # USE INDEX FOR ORDER BY (i, j), # PARTITION (p, q) JOIN # ON (a, b) = (c, d), #"),
        Just("SELECT sum(a) OVER (PARTITION BY b, c) FROM #, # GROUP BY a, b WITH ROLLUP HAVING a > 1"),
    ]
    .prop_map(str::to_owned);
    plain.prop_recursive(5, 40, 2, |inner| {
        let pair = (inner.clone(), inner);
        let form = prop_oneof![
            Just("SELECT (?), a FROM #, (?) AS x (a, b), # JOIN #"),
            Just("SELECT * FROM ((?) UNION ALL (?)) u, # WHERE EXISTS (?) AND b"),
            Just("(?) UNION (?) ORDER BY a, b"),
            Just("SELECT CASE WHEN a IN (?) THEN 1 ELSE f((?), 2) END FROM # WINDOW w AS (ORDER BY (?), a)"),
            Just("WITH RECURSIVE r AS (? UNION SELECT * FROM r, #), s AS (?) SELECT * FROM r, #, s, #"),
            Just("SELECT * FROM # JOIN # ON a = (?) AND SUBSTRING((?) FROM 1 FOR 2), # FOR UPDATE"),
        ];
        (form, pair).prop_map(|(form, (first, second))| {
            let mut inner = [first, second].into_iter().cycle();
            form.chars().map(|c| if c == '?' { inner.next().unwrap() } else { c.to_string() }).collect()
        })
    })
}

/// Gives each mark a table of its own.
fn numbered(form: &str) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    for part in form.split('#') {
        if !text.is_empty() {
            text.push_str(&format!("t{count}"));
            count += 1;
        }
        text.push_str(part);
    }
    (text, count)
}

proptest! {
    #[test]
    fn no_table_of_a_query_is_missed(form in query(), write in 0..4usize) {
        let begin = ["", "INSERT INTO w ", "UPDATE w SET a = 1 WHERE b IN (", "DELETE w FROM w WHERE b IN ("][write];
        let (text, count) = numbered(&format!("{begin}{form}{}", if write > 1 { ")" } else { "" }));
        for dialect in dialects() {
            let Ok(found) = tables(text.as_bytes(), &dialect) else {
                let modes = dialect.modes.contains(Modes::ORACLE);
                prop_assert!(modes || count > 100, "{} is not read: {:?}", text, tables(text.as_bytes(), &dialect));
                continue;
            };
            for number in 0..count {
                let name = format!("t{number}");
                prop_assert!(found.read.iter().any(|table| *table.name == *name), "{} lacks {}: {:?}", text, name, found);
            }
            prop_assert_eq!(found.written.len(), usize::from(write > 0));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(text in proptest::collection::vec(any::<u8>(), 0..200), dialect in dialect()) {
        check(&text, &dialect);
    }

    #[test]
    fn any_mix_of_sql_marks_is_answered(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("SELECT"), Just("SET"), Just("WITH"), Just("AS"), Just("("), Just(")"), Just("'"), Just("\""), Just("`"),
                Just("/*"), Just("*/"), Just("/*!"), Just("/*!50000"), Just("/*M!"), Just("--"), Just(" "), Just("\n"), Just(";"),
                Just("@"), Just("@@"), Just("."), Just(","), Just("="), Just(":="), Just("\\"), Just("x"), Just("0x"), Just("1e"),
                Just("FOR"), Just("UPDATE"), Just("BEGIN"), Just("END"), Just("CREATE"), Just("PROCEDURE"), Just("EXPLAIN"),
                Just("STATEMENT"), Just("VALUES"), Just("INTO"), Just("EXECUTE IMMEDIATE"), Just("CASE"), Just("é")
            ],
            0..60,
        ),
        dialect in dialect(),
    ) {
        check(pieces.concat().as_bytes(), &dialect);
        check(pieces.join(" ").as_bytes(), &dialect);
    }

    #[test]
    fn mutated_cases_are_answered(
        index in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        dialect in dialect(),
    ) {
        thread_local!(static TEXTS: Vec<String> = texts());
        TEXTS.with(|texts| {
            let mut text = index.get(texts).clone().into_bytes();
            for (at, byte) in &changes {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            check(&text, &dialect);
        });
    }

    /// A clause that takes locks or writes somewhere is never missed.
    #[test]
    fn executed_clauses_are_never_reads(
        clause in 0..LOCKING.len(),
        gaps in proptest::collection::vec(0..GAPS.len(), 6),
        shell in 0..SHELLS.len(),
        upper in any::<bool>(),
        family in prop_oneof![Just((Family::MariaDb, 101119u32)), Just((Family::MySql, 80400))],
    ) {
        // A line comment inside `/*! … */` would swallow its end.
        let inside_comment = SHELLS[shell].0.starts_with("/*!");
        let mut sql = format!("SELECT {}{}", if inside_comment { "1 FROM t " } else { "" }, SHELLS[shell].0);
        if shell == 0 {
            sql.push_str("1 FROM t ");
        }
        for (index, word) in LOCKING[clause].split(' ').enumerate() {
            if index > 0 {
                sql.push_str(if inside_comment { " " } else { GAPS[gaps[index]] });
            }
            sql.push_str(&if upper { word.to_owned() } else { word.to_lowercase() });
        }
        sql.push_str(SHELLS[shell].1);
        let dialect = Dialect { family: family.0, version: family.1, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let statement = classify(sql.as_bytes(), &dialect, &NoFunctions);
        prop_assert!(statement.access != Access::Read, "{sql}");
    }

    /// Words in a string, a quoted name or a plain comment are never taken for code.
    #[test]
    fn quoted_clauses_stay_reads(clause in 0..LOCKING.len(), quote in 0..4usize) {
        let clause = LOCKING[clause].replace('\'', "");
        let sql = match quote {
            0 => format!("SELECT '{clause}' FROM t"),
            1 => format!("SELECT \"{clause}\" FROM t"),
            2 => format!("SELECT `{clause}` FROM t"),
            _ => format!("SELECT 1 /* {clause} */ FROM t"),
        };
        let dialect = dialects()[0];
        prop_assert_eq!(classify(sql.as_bytes(), &dialect, &NoFunctions).access, Access::Read);
    }
}

/// The text with other digits, and other letters in its strings.
fn with_other_literals(text: &str, seed: u64) -> String {
    let mut state = seed | 1;
    let mut next = |below: u8| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8 % below
    };
    let mut quoted = false;
    let other = text.chars().map(|c| match c {
        '\'' => {
            quoted = !quoted;
            c
        }
        '0'..='9' => char::from(b'0' + next(10)),
        'a'..='z' | 'A'..='Z' if quoted => char::from(b'a' + next(26)),
        _ => c,
    });
    other.collect()
}

#[test]
fn what_is_remembered_is_what_would_be_read() {
    let mut found = 0;
    for text in texts() {
        for dialect in dialects() {
            let mut memo = Memo::default();
            let mut before = None;
            for seed in 0..4 {
                let text = with_other_literals(&text, seed);
                let statement = memo.classify(text.as_bytes(), &dialect, &NoFunctions);
                assert_eq!(*statement, classify(text.as_bytes(), &dialect, &NoFunctions), "{text} in {dialect:?}");
                found += usize::from(before.as_ref().is_some_and(|before| std::rc::Rc::ptr_eq(before, &statement)));
                before = Some(statement);
            }
        }
    }
    assert!(found > 1000, "only {found} were remembered at all");
}
