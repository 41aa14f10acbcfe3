//! Tags that clients put into comments, and the trace context among them.
//!
//! Two forms are read, in a comment that begins the text or ends it: sqlcommenter's `/*route='%2Fitems',traceparent='00-…-01'*/` and
//! marginalia's `/*application:Shop,controller:items*/`. Other comments are none of these: those that servers execute (`/*!`, `/*M!`),
//! hints to their optimizers (`/*+`), Sqluice's own (`/* sqluice: primary */`), and words.
//!
//! Sources: <https://google.github.io/sqlcommenter/spec/>, <https://www.w3.org/TR/trace-context/>.

use std::borrow::Cow;

use memchr::memmem::{find, rfind};

mod parent;

pub use parent::{TRACE_PARENT, TraceParent};

/// Longest comment that is looked at, without its marks.
const COMMENT_BYTES_MAX: usize = 4096;
/// Longest name of a tag.
pub const TAG_NAME_BYTES_MAX: usize = 64;
/// Most bytes of a value that are kept.
pub const TAG_VALUE_BYTES_MAX: usize = 256;

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// Its name, as it stands there.
    pub name: &'a str,
    /// Its value, decoded, up to [`TAG_VALUE_BYTES_MAX`].
    pub value: Cow<'a, str>,
}

/// A text and the insides of the comments with tags around it; they are empty where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parted<'a> {
    before: &'a [u8],
    statement: &'a [u8],
    behind: &'a [u8],
}

/// The text without comments that hold nothing but tags: for servers it means the same, and so does each text that becomes equal to it.
#[inline]
pub fn without_tags(text: &[u8]) -> &[u8] {
    if may_have_tags(text) { part(text).statement } else { text }
}

/// The comments with tags of a text, as another text that has no more than them; `None` if it has none.
pub fn only_tags(text: &[u8]) -> Option<Box<[u8]>> {
    let Parted { before, behind, .. } = if may_have_tags(text) { part(text) } else { return None };
    let comments: Vec<u8> = [before, behind]
        .iter()
        .filter(|inside| !inside.is_empty())
        .flat_map(|inside| [b"/*", *inside, b"*/"].concat())
        .collect();
    (!comments.is_empty()).then(|| comments.into())
}

/// Shows each tag of a text. Of two with the same name the last one counts for whoever goes by sqlcommenter's rules.
pub fn tags(text: &[u8], mut see: impl FnMut(Tag<'_>)) {
    if may_have_tags(text) {
        let Parted { before, behind, .. } = part(text);
        for inside in [before, behind] {
            // Of a comment with tags each item is one.
            items(inside).filter_map(Result::ok).for_each(|item| see(Tag { name: item.name, value: item.value() }));
        }
    }
}

/// The marks that stand at the ends of a text with tags.
#[inline]
fn may_have_tags(text: &[u8]) -> bool {
    matches!(text.last(), Some(b'/' | b';')) || text.first() == Some(&b'/')
}

fn part(text: &[u8]) -> Parted<'_> {
    let (before, rest) = leading(text).unwrap_or((&[], text));
    let (statement, behind) = trailing(rest).unwrap_or((rest, &[]));
    Parted { before, statement, behind }
}

/// The inside of the comment with tags that the text begins with, and the rest.
fn leading(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"/*")?;
    let end = find(inside.get(..inside.len().min(COMMENT_BYTES_MAX))?, b"*/")?;
    let (inside, rest) = (&inside[..end], &inside[end + 2..]);
    holds_tags(inside).then(|| (inside, rest.trim_ascii_start()))
}

/// The text before the comment with tags that it ends with, and the inside of that.
///
/// The text is not read from its start, so the comment may stand within something else. A text that ends with `*/` in a string, or
/// outside of everything, is refused by every server; in a comment to the end of the line nothing is lost; and that no other comment
/// is open is looked at here.
fn trailing(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let unended = text.strip_suffix(b";").unwrap_or(text);
    let has_end = unended.len() < text.len();
    let text = unended.trim_ascii_end().strip_suffix(b"*/")?;
    let from = text.len().saturating_sub(COMMENT_BYTES_MAX);
    let start = from + rfind(&text[from..], b"/*")?;
    let (statement, inside) = (&text[..start], &text[start + 2..]);
    // Behind the end of another statement the comment has an end of its own: servers take that for a statement that is empty.
    if has_end && memchr::memchr(b';', statement).is_some() {
        return None;
    }
    let closed = |open: usize| find(&statement[open + 2..], b"*/").is_some();
    // `--` without a space behind it begins no comment, but `-- ` does.
    let is_apart = statement.last() != Some(&b'-') && rfind(statement, b"/*").is_none_or(closed);
    (is_apart && holds_tags(inside)).then(|| (statement.trim_ascii_end(), inside))
}

/// Whether a comment holds tags, and nothing else.
fn holds_tags(inside: &[u8]) -> bool {
    find(inside, b"*/").is_none() && !inside.is_empty() && items(inside).all(|item| item.is_ok())
}

/// A name and its value as they stand in the comment.
#[derive(Clone, Copy, Debug)]
struct Item<'a> {
    name: &'a str,
    value: &'a [u8],
    /// It stands in quotes, encoded.
    quoted: bool,
}

/// Bytes that are no tag.
#[derive(Debug)]
struct NoTag;

/// The items of a comment; behind bytes that are none nothing comes.
fn items(inside: &[u8]) -> impl Iterator<Item = Result<Item<'_>, NoTag>> {
    let mut rest = Some(inside).filter(|inside| !inside.is_empty());
    std::iter::from_fn(move || {
        let item = item(rest.take()?);
        if let Ok((_, behind)) = item {
            rest = behind;
        }
        Some(item.map(|(item, _)| item))
    })
}

/// The first item, and what stands behind the comma after it.
fn item(bytes: &[u8]) -> Result<(Item<'_>, Option<&[u8]>), NoTag> {
    let bytes = bytes.trim_ascii_start();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'%');
    let end = bytes.iter().position(|byte| !is_name(byte)).ok_or(NoTag)?;
    let name = std::str::from_utf8(&bytes[..end]).map_err(|_| NoTag)?;
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins_well || name.len() > TAG_NAME_BYTES_MAX || name.eq_ignore_ascii_case("sqluice") {
        return Err(NoTag);
    }
    let (value, quoted, rest) = match bytes[end..].trim_ascii_start() {
        [b'=', rest @ ..] => {
            let rest = rest.trim_ascii_start().strip_prefix(b"'").ok_or(NoTag)?;
            let end = quote_end(rest).ok_or(NoTag)?;
            (&rest[..end], true, rest[end + 1..].trim_ascii_start())
        }
        [b':', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
            (rest[..end].trim_ascii(), false, &rest[end..])
        }
        _ => return Err(NoTag),
    };
    if value.iter().any(u8::is_ascii_control) {
        return Err(NoTag);
    }
    match rest {
        [] => Ok((Item { name, value, quoted }, None)),
        [b',', rest @ ..] => Ok((Item { name, value, quoted }, Some(rest))),
        _ => Err(NoTag),
    }
}

/// Where the quote stands that ends a value.
fn quote_end(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    bytes.iter().position(|byte| {
        let ends = *byte == b'\'' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

impl<'a> Item<'a> {
    fn value(&self) -> Cow<'a, str> {
        if !self.quoted || !self.value.iter().any(|byte| matches!(byte, b'%' | b'\\')) {
            return cut(String::from_utf8_lossy(self.value));
        }
        let mut decoded = Vec::with_capacity(self.value.len());
        let mut rest = self.value;
        while let [byte, behind @ ..] = rest {
            let (byte, behind) = match (byte, behind) {
                (b'\\', [escaped, behind @ ..]) => (*escaped, behind),
                (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                    (digit(*high) << 4 | digit(*low), behind)
                }
                (byte, behind) => (*byte, behind),
            };
            decoded.push(byte);
            rest = behind;
        }
        cut(Cow::Owned(String::from_utf8_lossy(&decoded).into_owned()))
    }
}

/// A value up to [`TAG_VALUE_BYTES_MAX`].
pub fn cut_tag_value(value: &str) -> &str {
    let end = (0..=TAG_VALUE_BYTES_MAX.min(value.len())).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    &value[..end]
}

fn cut(value: Cow<'_, str>) -> Cow<'_, str> {
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(cut_tag_value(value)),
        Cow::Owned(mut value) => {
            value.truncate(cut_tag_value(&value).len());
            Cow::Owned(value)
        }
    }
}

#[cfg(test)]
mod tests;
