//! Answers that several processes share: what makes them comparable, and their form in the tier.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of this form; others are not understood.
const FORM: u8 = 1;

/// By what the tier tells whether an answer is good.
#[derive(Debug)]
pub struct InTier {
    /// Where the data was when it was read: the primary's address.
    pub primary: Box<str>,
    /// The keys of the tables that it was read from.
    pub tables: Box<[u64]>,
    /// The tier's tags of these, from before it was read.
    pub tags: Box<[u8]>,
    /// When these were asked for.
    tagged: Instant,
    /// When the tier was last asked whether they are its own and said so: in microseconds since then.
    good_us: AtomicU64,
}

impl InTier {
    /// With tags that were asked for at this moment.
    pub fn new(primary: Box<str>, tables: Box<[u64]>, tags: Box<[u8]>, tagged: Instant) -> InTier {
        InTier { primary, tables, tags, tagged, good_us: AtomicU64::new(0) }
    }

    /// It was good at this moment, or later.
    pub fn was_good(&self) -> Instant {
        self.tagged + Duration::from_micros(self.good_us.load(Ordering::Relaxed))
    }

    /// The tier was asked at this moment, and has said that it is good.
    pub fn is_good(&self, asked: Instant) {
        let since = asked.saturating_duration_since(self.tagged).as_micros();
        self.good_us.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Bytes that it takes besides itself.
    pub(crate) fn bytes(&self) -> usize {
        self.primary.len() + size_of_val(&*self.tables) + self.tags.len()
    }
}

/// An answer as it stands in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The question, whole.
    pub question: &'a [u8],
    /// The reply's packets.
    pub reply: &'a [u8],
    /// The tier's time before it was read, in milliseconds.
    pub read_ms: u64,
    /// How long a server took.
    pub took: Duration,
    /// Rows of the result.
    pub rows: u64,
    /// The value of FOUND_ROWS() after it, if the rows do not show it.
    pub found_rows: Option<u64>,
    /// The status flags at its end.
    pub status: u16,
}

impl<'a> Packed<'a> {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let took = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX);
        let mut bytes = vec![FORM, u8::from(self.found_rows.is_some())];
        bytes.extend_from_slice(&self.status.to_le_bytes());
        for number in [self.read_ms, took, self.rows, self.found_rows.unwrap_or_default(), self.question.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.question);
        bytes.extend_from_slice(self.reply);
        bytes
    }

    /// The answer in these bytes, if it is one to this question.
    pub fn parse(bytes: &'a [u8], question: &[u8]) -> Option<Packed<'a>> {
        let (&[form, has_found_rows, status @ ..], mut rest) = bytes.split_first_chunk::<4>()?;
        let mut number = || {
            let (number, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_le_bytes(*number))
        };
        let [read_ms, took, rows, found_rows, length] = [number()?, number()?, number()?, number()?, number()?];
        let (repeated, reply) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        (form == FORM && has_found_rows <= 1 && repeated == question).then_some(Packed {
            question: repeated,
            reply,
            read_ms,
            took: Duration::from_micros(took),
            rows,
            found_rows: (has_found_rows == 1).then_some(found_rows),
            status: u16::from_le_bytes(status),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_to_its_question_only() {
        let packed = Packed {
            question: b"SELECT 1",
            reply: b"reply",
            read_ms: 1_700_000_000_000,
            took: Duration::from_micros(77),
            rows: 3,
            found_rows: Some(9),
            status: 0x1234,
        };
        let bytes = packed.to_bytes();
        assert_eq!(Packed::parse(&bytes, b"SELECT 1"), Some(packed));
        assert_eq!(Packed::parse(&bytes, b"SELECT 2"), None);
        for end in 0..bytes.len() - packed.reply.len() {
            assert_eq!(Packed::parse(&bytes[..end], b"SELECT 1"), None);
        }
        for at in 0..44 {
            // Whatever stands there, nothing panics.
            let mut bytes = bytes.clone();
            bytes[at] = 0xff;
            let _ = Packed::parse(&bytes, b"SELECT 1");
        }
    }

    #[test]
    fn the_last_good_word_counts() {
        let now = Instant::now();
        let in_tier = InTier::new("".into(), [].into(), [].into(), now);
        assert_eq!(in_tier.was_good(), now);
        in_tier.is_good(now + Duration::from_secs(2));
        in_tier.is_good(now + Duration::from_secs(1));
        assert_eq!(in_tier.was_good(), now + Duration::from_secs(2));
    }
}
