//! The history itself.

use std::sync::atomic::{AtomicU64, Ordering};

use super::names::*;
use super::{Page, Shared, family};
use crate::history::KeeperFigures;

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let figures = shared.history.get().map(|keeper| keeper.figures());
    let count = |pick: fn(&KeeperFigures) -> &AtomicU64| figures.map_or(0, |own| pick(own).load(Ordering::Relaxed));
    family(page, HISTORY_BYTES).sample(&[], count(|own| &own.bytes));
    family(page, HISTORY_FAILURES).sample(&[], count(|own| &own.failures));
    family(page, HISTORY_LEFT_OUT).sample(&[], count(|own| &own.left_out));
}
