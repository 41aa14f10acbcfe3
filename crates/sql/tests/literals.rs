//! A secret in every place of a literal, in all statements of the cases: digests do not have it, and texts with replaced
//! literals neither.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside #[test] functions")]

use std::path::{Path, PathBuf};

use sqluice_sql::lexer::{Lexer, TokenKind};
use sqluice_sql::{Dialect, Encoding, Family, Modes, digest, replace_literals};

const TEXT: &str = "Zecret9";
const NUMBER: &str = "907041773";

const DIALECTS: [Dialect; 2] = [
    Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::Utf8 },
    Dialect { family: Family::MySql, version: 80_400, modes: Modes::empty(), encoding: Encoding::Utf8 },
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// The statements of a file of cases: all lines but remarks, directives and expectations.
fn statements(content: &str) -> Vec<String> {
    let (mut all, mut lines) = (Vec::new(), Vec::new());
    for line in content.lines() {
        if line.starts_with("=>") {
            all.push(std::mem::take(&mut lines).join("\n"));
        } else if !lines.is_empty() || !(line.is_empty() || line.starts_with("%%") || line.starts_with("@ ")) {
            lines.push(line);
        }
    }
    all
}

/// The text once for each of its literals, with a secret in that place.
fn with_secrets(text: &str, dialect: &Dialect) -> Vec<String> {
    let (mut lexer, mut all) = (Lexer::new(text.as_bytes(), dialect), Vec::new());
    loop {
        let token = lexer.next_token();
        let secret = match token.kind {
            TokenKind::End | TokenKind::Bad => return all,
            TokenKind::String => format!("'{TEXT}'"),
            TokenKind::Number | TokenKind::BitString => NUMBER.to_owned(),
            _ => continue,
        };
        let (Some(before), Some(behind)) = (text.get(..token.start), text.get(token.end..)) else { continue };
        all.push(format!("{before}{secret}{behind}"));
    }
}

#[test]
fn no_secret_in_the_place_of_a_literal_is_shown() {
    let (mut paths, mut tried, mut replaced) = (Vec::new(), 0, 0);
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"), &mut paths);
    for path in paths {
        for statement in statements(&std::fs::read_to_string(path).unwrap()) {
            for dialect in &DIALECTS {
                let secrets = with_secrets(&statement, dialect);
                tried += usize::from(!secrets.is_empty());
                for text in secrets {
                    let shows = |shown: &str| shown.contains(TEXT) || shown.contains(NUMBER);
                    let form = digest(text.as_bytes(), dialect).text;
                    assert!(!shows(&form), "{text}\n{form}");
                    let Some(shown) = replace_literals(text.as_bytes(), dialect, |_| "?".to_owned()) else { continue };
                    let shown = String::from_utf8_lossy(&shown);
                    assert!(!shows(&shown), "{text}\n{shown}");
                    replaced += 1;
                }
            }
        }
    }
    assert!(tried >= 600 && replaced >= 600, "{tried} statements with literals, {replaced} texts");
}
