//! The beginnings of values that COM_STMT_SEND_LONG_DATA has sent ahead of an execution, for its event.

use super::Session;
use super::query::Query;

/// Bytes of a value that are kept.
const BEGIN_BYTES_MAX: usize = 1024;

/// Values of one statement that are kept; of an execution with more of them no event has parameters.
const VALUES_MAX: usize = 64;

/// Statements of a session with such values that are kept.
const STATEMENTS_MAX: usize = 16;

/// The values that were sent ahead for the statements of a session.
#[derive(Debug, Default)]
pub(super) struct LongData(Option<Box<Kept>>);

/// Most sessions never have any.
#[derive(Debug, Default)]
struct Kept(Vec<OfStatement>);

#[derive(Debug)]
struct OfStatement {
    id: u32,
    /// There are more values than those that are kept.
    more: bool,
    values: Vec<LongValue>,
}

/// A value that was sent ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LongValue {
    /// The number of its parameter, from 0.
    pub parameter: u16,
    /// Its bytes.
    pub bytes: u64,
    /// The first of them.
    pub begin: Vec<u8>,
}

impl LongData {
    /// One more part of a value came.
    fn add(&mut self, id: u32, parameter: u16, part: &[u8]) {
        let Kept(all) = &mut **self.0.get_or_insert_default();
        let at = match all.iter().position(|of| of.id == id) {
            Some(at) => at,
            None if all.len() >= STATEMENTS_MAX => return,
            None => {
                all.push(OfStatement { id, more: false, values: Vec::new() });
                all.len() - 1
            }
        };
        let Some(of) = all.get_mut(at) else { return };
        let at = match of.values.iter().position(|value| value.parameter == parameter) {
            Some(at) => at,
            None if of.values.len() >= VALUES_MAX => return of.more = true,
            None => {
                of.values.push(LongValue { parameter, bytes: 0, begin: Vec::new() });
                of.values.len() - 1
            }
        };
        let Some(value) = of.values.get_mut(at) else { return };
        value.bytes += part.len() as u64;
        let kept = part.len().min(BEGIN_BYTES_MAX - value.begin.len());
        value.begin.extend_from_slice(&part[..kept]);
    }

    /// They were used, or are forgotten.
    fn end(&mut self, id: u32) {
        if let Some(kept) = &mut self.0 {
            let Kept(all) = &mut **kept;
            all.retain(|of| of.id != id);
            if all.is_empty() {
                self.0 = None;
            }
        }
    }

    /// The values that were sent ahead for a statement, if all of them are kept.
    pub(super) fn of(&self, id: u32) -> Option<&[LongValue]> {
        let of = self.0.as_ref()?.0.iter().find(|of| of.id == id)?;
        (!of.more).then_some(&of.values)
    }
}

impl Session {
    /// A server has long data for a statement: it keeps that for the next execution.
    pub(super) fn learn_long_data(&mut self, id: u32, query: &Query<'_>) {
        if !self.belief.pins.has_long_data(id) {
            // Those of before are gone with their connection.
            self.belief.long_data.end(id);
        }
        self.belief.pins.long_data(id, true);
        let arguments = query.request.payload().get(5..).unwrap_or_default();
        if let Some((parameter, part)) = arguments.split_first_chunk() {
            self.belief.long_data.add(id, u16::from_le_bytes(*parameter), part);
        }
    }

    /// Long data for a statement was used, or is forgotten.
    pub(super) fn end_long_data(&mut self, id: u32) {
        self.belief.pins.long_data(id, false);
        self.belief.long_data.end(id);
    }

    /// Whether this parameter of an execution was sent ahead of it.
    pub(super) fn was_sent_ahead(&self, id: u32, parameter: u16) -> bool {
        self.belief.pins.has_long_data(id)
            && self
                .belief
                .long_data
                .of(id)
                .is_some_and(|values| values.iter().any(|value| value.parameter == parameter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_and_lengths_are_kept_within_bounds() {
        let mut data = LongData::default();
        data.add(7, 1, b"some ");
        data.add(7, 1, b"text");
        data.add(7, 0, &[b'x'; BEGIN_BYTES_MAX + 5]);
        data.add(7, 0, b"y");
        data.add(8, 0, b"other");
        let value = |parameter, bytes, begin: &[u8]| LongValue { parameter, bytes, begin: begin.into() };
        assert_eq!(
            data.of(7).unwrap(),
            [value(1, 9, b"some text"), value(0, BEGIN_BYTES_MAX as u64 + 6, &[b'x'; BEGIN_BYTES_MAX])]
        );
        data.end(7);
        assert_eq!((data.of(7), data.of(8).map(<[_]>::len)), (None, Some(1)));
        (0..=VALUES_MAX as u16).for_each(|parameter| data.add(9, parameter, b"z"));
        assert_eq!(data.of(9), None, "one of them is not known");
        (100..200).for_each(|id| data.add(id, 0, b"z"));
        assert!(data.of(113).is_some() && data.of(114).is_none());
        (0..200).for_each(|id| data.end(id));
        assert!(data.0.is_none());
    }
}
