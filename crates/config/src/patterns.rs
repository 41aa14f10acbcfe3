//! The regular expressions of rules: many at once over one text.
//!
//! They are read as bytes, whatever the character set: `.` is any byte, classes such as `\w` are ASCII. The case of ASCII
//! letters makes no difference unless `(?-i)` says so; `^` and `$` are the ends of the whole text.

use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternID, PatternSet, meta};

/// Most memory of one expression, in bytes.
const ONE_MAX: usize = 1 << 20;
/// Most memory of all expressions together, in bytes.
const ALL_MAX: usize = 64 << 20;
/// Memory in which one searcher keeps what it has found out about expressions, in bytes: for each byte of their text, at
/// least and at most. When it is too small, a search is thousands of times slower; seen with 10,000 expressions.
const CACHE_FACTOR: usize = 80;
const CACHE_MIN: usize = 2 << 20;
const CACHE_MAX: usize = 64 << 20;

/// Several expressions that are looked for in one pass. A search takes no lock and no memory.
#[derive(Clone, Debug)]
pub struct Patterns(meta::Regex);

/// The memory of a search. Made for one [`Patterns`], kept by its searcher.
#[derive(Debug)]
pub struct PatternMatches {
    cache: meta::Cache,
    found: PatternSet,
}

fn rules() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false).case_insensitive(true).dot_matches_new_line(true)
}

/// Checks one expression, and gives the bytes of memory that it takes.
///
/// # Errors
/// The mistake in it, in a few words.
pub fn check(pattern: &str) -> Result<usize, String> {
    let parsed = syntax::parse_with(pattern, &rules()).map_err(|error| {
        // A picture with a caret, and the reason in the last line.
        let said = error.to_string();
        said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    let settings = NFA::config().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(ONE_MAX));
    let nfa = NFA::compiler().configure(settings).build_from_hir(&parsed);
    nfa.map(|nfa| nfa.memory_usage()).map_err(|_| format!("it takes more than {} KiB of memory", ONE_MAX >> 10))
}

/// Checks what several expressions take together, as [`check`] has told it for each.
///
/// # Errors
/// It is too much.
pub fn check_all(bytes: usize) -> Result<(), String> {
    match bytes > ALL_MAX {
        true => Err(format!("the regular expressions of all rules together take more than {} MiB", ALL_MAX >> 20)),
        false => Ok(()),
    }
}

impl Patterns {
    /// Makes one search of several expressions, each of which [`check`] has found good.
    ///
    /// # Errors
    /// They cannot be put together, in the library's words.
    pub fn new(patterns: &[&str]) -> Result<Patterns, String> {
        let text: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let settings = meta::Config::new()
            .match_kind(MatchKind::All)
            .utf8_empty(false)
            // Where something is found is of no matter; memory for that would grow with the square of their number.
            .which_captures(WhichCaptures::None)
            .auto_prefilter(false)
            .hybrid_cache_capacity((CACHE_FACTOR * text).clamp(CACHE_MIN, CACHE_MAX))
            .nfa_size_limit(Some(2 * ALL_MAX));
        let built = meta::Builder::new().configure(settings).syntax(rules()).build_many(patterns);
        built.map(Patterns).map_err(|error| error.to_string())
    }

    /// The memory that a search needs.
    pub fn matches(&self) -> PatternMatches {
        PatternMatches { cache: self.0.create_cache(), found: PatternSet::new(self.0.pattern_len()) }
    }
}

impl PatternMatches {
    /// Finds out which of the expressions are in the text.
    pub fn search(&mut self, patterns: &Patterns, text: &[u8]) {
        self.found.clear();
        patterns.0.which_overlapping_matches_with(&mut self.cache, &Input::new(text), &mut self.found);
    }

    /// Whether the last search has found the expression of this number.
    pub fn has(&self, index: u32) -> bool {
        PatternID::new(index as usize).is_ok_and(|id| self.found.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], text: &[u8]) -> Vec<u32> {
        let patterns = Patterns::new(patterns).unwrap();
        let mut matches = patterns.matches();
        // Nothing of an earlier search is left.
        matches.search(&patterns, b"something else");
        matches.search(&patterns, text);
        (0..10).filter(|index| matches.has(*index)).collect()
    }

    #[test]
    fn all_that_fit_are_found_whatever_the_case_and_the_bytes() {
        let patterns = ["^select .* from a", "(?-i)^select", "b$", "x.y", "é", r"\d{3}"];
        assert_eq!(found(&patterns, b"SELECT 1 FROM a JOIN b"), [0, 2]);
        assert_eq!(found(&patterns, b"select 1,\n2 from A"), [0, 1]);
        assert_eq!(found(&patterns, b"x\xffy 123"), [3, 5]);
        assert_eq!(found(&patterns, "an é".as_bytes()), [4]);
        assert_eq!(found(&patterns, b""), []);
        assert_eq!(found(&["", "a"], b""), [0]);
    }

    #[test]
    fn a_thousand_that_do_not_fit_hide_none() {
        let mut texts: Vec<String> = (1..1_000).map(|n| format!("^SELECT .* FROM other_{n}( |$)")).collect();
        texts.push("^SELECT c FROM sbtest[0-9]+".into());
        let patterns: Vec<&str> = texts.iter().map(String::as_str).collect();
        let patterns = Patterns::new(&patterns).unwrap();
        let mut matches = patterns.matches();
        assert!(matches.cache.memory_usage() < 4 << 20, "{} bytes", matches.cache.memory_usage());
        for (text, expected) in [("SELECT c FROM sbtest1 WHERE id = ?", 999), ("SELECT a, b FROM other_77", 76)] {
            matches.search(&patterns, text.as_bytes());
            assert_eq!((0..1_000).filter(|index| matches.has(*index)).collect::<Vec<u32>>(), [expected], "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(check("a(b").unwrap_err().contains("unclosed"));
        assert!(check("[é]").is_err(), "a class of bytes has no place for it");
        assert!(check("((a{500}){500}){500}").unwrap_err().contains("memory"));
        assert!(check("^SELECT").unwrap() < 10_000);
        assert!(check_all(1 << 20).is_ok() && check_all(1 << 30).is_err());
    }
}
