//! Forms of statements that were refused: who asks again is not judged again.

use std::cell::Cell;

use super::Refusal;

/// Slots for refused forms. The digest selects the slot; a newer form replaces the older one.
const SLOTS: usize = 512;

/// The digest of a refused form, and the reason.
type Slot = Cell<(u64, Option<Refusal>)>;

/// The forms that [`super::judge`] refused, by their digests, within one cluster. All statements of a form are judged alike but for what
/// the session's `sql_mode` makes of their text: that may keep one from the cache, and lets none in.
#[derive(Debug)]
pub struct RefusedForms {
    slots: Box<[Slot]>,
}

impl Default for RefusedForms {
    fn default() -> RefusedForms {
        RefusedForms { slots: vec![Cell::new((0, None)); SLOTS].into() }
    }
}

impl RefusedForms {
    /// Why a form was refused, if that is remembered.
    pub fn get(&self, digest: u64) -> Option<Refusal> {
        let (known, refusal) = self.slot(digest)?.get();
        refusal.filter(|_| known == digest)
    }

    /// A form is refused. That of no text is not remembered.
    pub fn note(&self, digest: u64, refusal: Refusal) {
        if let Some(slot) = self.slot(digest).filter(|_| digest != 0) {
            slot.set((digest, Some(refusal)));
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.set((0, None)));
    }

    fn slot(&self, digest: u64) -> Option<&Slot> {
        self.slots.get(digest as usize % SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_known_until_another_takes_its_place() {
        let refused = RefusedForms::default();
        assert_eq!((refused.get(0), refused.get(7)), (None, None));
        refused.note(0, Refusal::NoTable);
        refused.note(7, Refusal::Volatile);
        assert_eq!((refused.get(0), refused.get(7)), (None, Some(Refusal::Volatile)));
        refused.note(7 + SLOTS as u64, Refusal::Function);
        assert_eq!((refused.get(7), refused.get(7 + SLOTS as u64)), (None, Some(Refusal::Function)));
        refused.clear();
        assert_eq!(refused.get(7 + SLOTS as u64), None);
    }
}
