//! How the models are played: in orders that seeds give.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers as a seed gives them.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// Plays a world of each seed below `seeds` for so many steps, and then hands it to `look`; or only that of the seed that `SEED` names, and
/// gives false.
pub fn play<W>(
    (seeds, steps): (u64, usize),
    new: fn(&mut Random) -> W,
    step: fn(&mut W, &mut Random),
    mut look: impl FnMut(&W),
) -> bool {
    let play = |seed: u64| {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut world = new(&mut random);
        (0..steps).for_each(|_| step(&mut world, &mut random));
        world
    };
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        play(seed);
        return false;
    }
    for seed in 0..seeds {
        let world = catch_unwind(AssertUnwindSafe(|| play(seed)));
        look(&world.unwrap_or_else(|_| panic!("SEED={seed} plays it again")));
    }
    true
}
