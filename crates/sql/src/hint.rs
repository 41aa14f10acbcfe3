//! Routing comments.

use crate::statement::{Hint, HintConsistency};

/// The hint in the words after `sqluice:`; the first known word counts, unknown ones are ignored.
pub(crate) fn parse(words: &[u8]) -> Option<Hint> {
    let words = std::str::from_utf8(words).ok()?;
    words.split(|character: char| character.is_whitespace() || character == ',').find_map(|word| {
        if word.eq_ignore_ascii_case("primary") {
            return Some(Hint::Primary);
        }
        if word.eq_ignore_ascii_case("replica") {
            return Some(Hint::Replica);
        }
        let (key, name) = word.split_once('=')?;
        if key.eq_ignore_ascii_case("consistency") {
            let is = |word: &str| name.eq_ignore_ascii_case(word);
            return match () {
                () if is("none") => Some(Hint::Consistency(HintConsistency::None)),
                () if is("session") => Some(Hint::Consistency(HintConsistency::Session)),
                () if is("cluster") => Some(Hint::Consistency(HintConsistency::Cluster)),
                () if is("table") => Some(Hint::Consistency(HintConsistency::Table)),
                () => None,
            };
        }
        (key.eq_ignore_ascii_case("server") && !name.is_empty()).then(|| Hint::Server(name.to_owned()))
    })
}
