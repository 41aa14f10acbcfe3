//! The text of a set of GTIDs: `uuid:1-5:7,uuid:tag:1-3`.

use std::fmt;

use super::{GtidSet, Interval, Source};

impl GtidSet {
    /// Reads a set; white space may stand between its parts. `None` if it isn't one.
    pub fn parse(text: &str) -> Option<GtidSet> {
        let mut set = GtidSet::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let mut pieces = part.split(':').map(str::trim);
            let uuid = parse_uuid(pieces.next()?)?;
            let mut source = Source { uuid, tag: "".into() };
            let mut intervals = Vec::new();
            let mut is_empty = true;
            for piece in pieces {
                if piece.starts_with(|first: char| first.is_ascii_digit()) {
                    intervals.push(parse_interval(piece)?);
                    is_empty = false;
                } else {
                    set.put(source, std::mem::take(&mut intervals));
                    source = Source { uuid, tag: parse_tag(piece)? };
                    is_empty = true;
                }
            }
            if is_empty {
                return None;
            }
            set.put(source, intervals);
        }
        Some(set)
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (source, intervals)) in self.sources.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let hex = format!("{:032x}", source.uuid);
            write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])?;
            if !source.tag.is_empty() {
                write!(f, ":{}", source.tag)?;
            }
            for (first, last) in intervals {
                if first == last { write!(f, ":{first}")? } else { write!(f, ":{first}-{last}")? }
            }
        }
        Ok(())
    }
}

pub(super) fn parse_uuid(text: &str) -> Option<u128> {
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let good = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if good { u128::from_str_radix(&digits, 16).ok() } else { None }
}

/// A letter or underscore, then at most 31 letters, digits and underscores.
fn parse_tag(text: &str) -> Option<Box<str>> {
    let good = (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    good.then(|| text.to_ascii_lowercase().into())
}

fn parse_interval(text: &str) -> Option<Interval> {
    let number = |text: &str| -> Option<u64> {
        let text = text.trim();
        let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if good { text.parse().ok() } else { None }
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first >= 1 && first <= last).then_some((first, last))
}
