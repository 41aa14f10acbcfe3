//! A copy of a reply for the result cache, up to a bound: what is larger is let go while the reply streams on.

use cache::Refusal;
use wire::packet::{self, First};

/// The copy.
#[derive(Debug)]
pub struct Copied {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// How much came.
    came: usize,
    failed: Option<Refusal>,
}

impl Copied {
    /// An empty one that keeps so many bytes at most.
    pub fn new(bytes_max: usize) -> Copied {
        Copied { bytes: Vec::new(), bytes_max, came: 0, failed: None }
    }

    /// These go to the client.
    pub fn take(&mut self, bytes: &[u8]) {
        self.came = self.came.saturating_add(bytes.len());
        if self.came > self.bytes_max {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A packet goes to the client that is written anew.
    pub fn take_packet(&mut self, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        write(&mut bytes);
        begun.end(&mut bytes, sequence);
        self.take(&bytes);
    }

    /// It is of no use.
    pub fn give_up(&mut self, refusal: Refusal) {
        self.failed = Some(refusal);
        self.bytes = Vec::new();
    }

    /// The whole reply.
    ///
    /// # Errors
    /// Why there is none.
    pub fn into_reply(self) -> Result<Box<[u8]>, Refusal> {
        self.fits(self.bytes_max)?;
        Ok(self.bytes.into())
    }

    /// The whole reply, if it is there.
    pub fn reply(&self) -> Option<&[u8]> {
        self.fits(self.bytes_max).ok().map(|()| &*self.bytes)
    }

    /// Whether all of it came, and is no longer than this.
    ///
    /// # Errors
    /// Why not.
    pub fn fits(&self, bytes_max: usize) -> Result<(), Refusal> {
        match self.failed {
            Some(refusal) => Err(refusal),
            None if self.came > bytes_max => Err(Refusal::TooLarge),
            None => Ok(()),
        }
    }
}

/// The payloads of a reply, up to the first one that is cut.
pub fn packets_of(reply: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = reply;
    std::iter::from_fn(move || match packet::first(rest, usize::MAX) {
        First::Whole { payload, taken, .. } => {
            rest = &rest[taken..];
            Some(payload)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_let_go() {
        let mut copied = Copied::new(5);
        copied.take(b"abc");
        copied.take(b"de");
        assert_eq!(copied.into_reply().unwrap(), b"abcde"[..].into());
        let mut copied = Copied::new(5);
        for _ in 0..3 {
            copied.take(b"abc");
            assert!(copied.bytes.capacity() <= 8);
        }
        assert_eq!((copied.fits(9), copied.into_reply()), (Ok(()), Err(Refusal::TooLarge)));
        let mut copied = Copied::new(5);
        copied.give_up(Refusal::Changes);
        assert_eq!(copied.into_reply(), Err(Refusal::Changes));
    }
}
