//! Forms of statements that were refused: who asks again is not judged again.

use std::cell::Cell;

use super::Refusal;

/// Forms that are remembered, each in the place that its digest tells; a newer one takes the place.
const PLACES: usize = 512;

/// A digest, and why that form was refused.
type Place = Cell<(u64, Option<Refusal>)>;

/// The forms that [`super::judge`] refused, by their digests, within one cluster. All statements of a form are judged alike but for what
/// the session's `sql_mode` makes of their text: that may keep one from the cache, and lets none in.
#[derive(Debug)]
pub struct RefusedForms {
    places: Box<[Place]>,
}

impl Default for RefusedForms {
    fn default() -> RefusedForms {
        RefusedForms { places: vec![Cell::new((0, None)); PLACES].into() }
    }
}

impl RefusedForms {
    /// Why a form was refused, if that is remembered.
    pub fn get(&self, digest: u64) -> Option<Refusal> {
        let (known, refusal) = self.place(digest)?.get();
        refusal.filter(|_| known == digest)
    }

    /// A form is refused. That of no text is not remembered.
    pub fn note(&self, digest: u64, refusal: Refusal) {
        if let Some(place) = self.place(digest).filter(|_| digest != 0) {
            place.set((digest, Some(refusal)));
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.places.iter().for_each(|place| place.set((0, None)));
    }

    fn place(&self, digest: u64) -> Option<&Place> {
        self.places.get(digest as usize % PLACES)
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
        refused.note(7 + PLACES as u64, Refusal::Function);
        assert_eq!((refused.get(7), refused.get(7 + PLACES as u64)), (None, Some(Refusal::Function)));
        refused.clear();
        assert_eq!(refused.get(7 + PLACES as u64), None);
    }
}
