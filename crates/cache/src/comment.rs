//! Orders to the cache in a statement's first comment: `/*nocache*/`, `/*wipe*/`, `/* sqluice: cache=off */`, `/*
//! sqluice: cache=wipe ttl=500 */`.

use std::time::Duration;

/// The order, and the text without the comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// A server shall answer, and that is not kept.
    pub off: bool,
    /// A server shall answer, and that is kept.
    pub anew: bool,
    /// An answer shall be no older than this.
    pub ttl: Option<Duration>,
    /// The statement: the comment is no part of the question.
    pub rest: &'a [u8],
}

/// Reads the comment that a text begins with. One that asks nothing of the cache is a part of the text like any other.
pub fn comment(text: &[u8]) -> Comment<'_> {
    let nothing = Comment { off: false, anew: false, ttl: None, rest: text };
    let Some(inside) = text.trim_ascii_start().strip_prefix(b"/*") else { return nothing };
    let Some(end) = inside.windows(2).take(COMMENT_BYTES_MAX).position(|two| two == b"*/") else { return nothing };
    let (words, rest) = (inside[..end].trim_ascii(), inside[end + 2..].trim_ascii_start());
    match () {
        () if words.eq_ignore_ascii_case(b"nocache") => Comment { off: true, rest, ..nothing },
        () if words.eq_ignore_ascii_case(b"wipe") => Comment { anew: true, rest, ..nothing },
        () => of_ours(words, rest).unwrap_or(nothing),
    }
}

/// Longer ones are none of the cache's.
const COMMENT_BYTES_MAX: usize = 256;

/// The words behind `sqluice:`; those that are not the cache's are left to others.
fn of_ours<'a>(words: &[u8], rest: &'a [u8]) -> Option<Comment<'a>> {
    let words = std::str::from_utf8(words).ok()?;
    let (head, words) = words.split_at_checked("sqluice:".len())?;
    if !head.eq_ignore_ascii_case("sqluice:") {
        return None;
    }
    let mut comment = Comment { off: false, anew: false, ttl: None, rest };
    let mut any = false;
    for word in words.split(|c: char| c.is_whitespace() || c == ',') {
        let Some((key, value)) = word.split_once('=') else { continue };
        if key.eq_ignore_ascii_case("cache") {
            comment.off |= value.eq_ignore_ascii_case("off");
            comment.anew |= value.eq_ignore_ascii_case("wipe");
            any = true;
        } else if key.eq_ignore_ascii_case("ttl") {
            comment.ttl = value.parse().ok().map(Duration::from_millis);
            any = true;
        }
    }
    any.then_some(comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_says_what_is_wanted() {
        let wanted = |off, anew, ttl: Option<u64>| (off, anew, ttl.map(Duration::from_millis));
        for (text, expected) in [
            ("/*nocache*/SELECT 1", wanted(true, false, None)),
            (" /* NoCache */ SELECT 1", wanted(true, false, None)),
            ("/*wipe*/ SELECT 1", wanted(false, true, None)),
            ("/* sqluice: cache=off */ SELECT 1", wanted(true, false, None)),
            ("/* Sqluice: ttl=500, cache=WIPE */ SELECT 1", wanted(false, true, Some(500))),
            ("/* sqluice: cache=on ttl=x */ SELECT 1", wanted(false, false, None)),
        ] {
            let comment = comment(text.as_bytes());
            assert_eq!((comment.off, comment.anew, comment.ttl), expected, "{text}");
            assert_eq!(comment.rest, b"SELECT 1", "{text}");
        }
    }

    #[test]
    fn all_else_is_a_part_of_the_text() {
        for text in [
            "SELECT 1",
            "SELECT 1 /*nocache*/",
            "/*!nocache*/ SELECT 1",
            "/* sqluice: replica */ SELECT 1",
            "/* no cache */ SELECT 1",
            "/*nocache",
            "/*",
            "/* sqlüice */ SELECT 1",
            "",
        ] {
            let comment = comment(text.as_bytes());
            assert_eq!((comment.off, comment.anew, comment.ttl, comment.rest), (false, false, None, text.as_bytes()));
        }
    }
}
