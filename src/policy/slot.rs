//! A publication: terms, translation and quota as words.

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Algorithm, Layout, Side, Translation};
use crate::probe::Site;
use crate::quota::Quota;
use crate::slope::Slope;
use crate::sync::{Acquire, Atomic, Release};
use crate::terms::Terms;

/// Words of the terms; every decision loads them.
const TERMS: usize = 9;
/// Words of a sliding log's shape, which only a log loads.
const SHAPE: usize = 2;
/// Words of the translation and the quota, which few ask for.
const TRANSLATION: usize = 8;
const QUOTA: usize = 6;

/// One publication. On lines of its own, as every decision reads it and only a change writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot {
    terms: [Atomic<u64>; TERMS],
    shape: [Atomic<u64>; SHAPE],
    translation: [Atomic<u64>; TRANSLATION],
    quota: [Atomic<u64>; QUOTA],
}

#[inline]
fn load(field: &Atomic<u64>) -> u64 {
    // Acquire: whoever sees a field of a later publication also sees the sequence that came
    // before that store, and so that its slot was replaced. Pairs with the store in `write`.
    field.load(Acquire.at("slot/load"))
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot {
            terms: [(); TERMS].map(|()| Atomic::new(0)),
            shape: [(); SHAPE].map(|()| Atomic::new(0)),
            translation: [(); TRANSLATION].map(|()| Atomic::new(0)),
            quota: [(); QUOTA].map(|()| Atomic::new(0)),
        }
    }

    pub(super) fn write(&self, terms: &Terms, translation: &Translation, quota: &Quota) {
        let Terms { layout, origin, base, phase, .. } = *terms;
        let Layout { slope, unit, room, count_bits, shape } = layout;
        let Slope { whole, high, low } = slope;
        let count_bits = u64::from(count_bits);
        let terms = [whole, high, low, unit, room, origin, base, count_bits, phase];
        let Translation { from, to } = *translation;
        let side = |side: Side| [side.position, side.phase, side.unit, side.count_bits];
        let translation = side(from).into_iter().chain(side(to));
        let rest = self.shape.iter().chain(&self.translation).chain(&self.quota);
        let fields = self.terms.iter().chain(rest);
        let shape = [shape.ring, shape.cost_max];
        let rest = shape.into_iter().chain(translation).chain(quota.to_words());
        let values = terms.into_iter().chain(rest);
        for (field, value) in fields.zip(values) {
            // Release: brings the sequence that is in force now to whoever reads this field too
            // early, and so makes that reader start over. Pairs with `load`.
            field.store(value, Release.at("slot/store"));
        }
    }

    #[inline]
    pub(super) fn read_terms(&self, sequence: u64, algorithm: Algorithm) -> Terms {
        // One by one, so that they stay in registers.
        let field = |index: usize| load(&self.terms[index]);
        let slope = Slope { whole: field(0), high: field(1), low: field(2) };
        let (unit, room, count_bits) = (field(3), field(4), field(7) as u32);
        let shape = if algorithm == Algorithm::SlidingWindowLog {
            let [ring, cost_max] = self.shape.each_ref().map(load);
            Shape { ring, cost_max }
        } else {
            Shape::default()
        };
        let layout = Layout { slope, unit, room, count_bits, shape };
        let (origin, base, phase) = (field(5), field(6), field(8));
        Terms { sequence, algorithm, layout, origin, base, phase, beyond: 0, at_least: 0 }
    }

    /// The terms of a bucket whose clock rises by a whole number of units a nanosecond: the first
    /// line of the slot, and constants that leave nothing of the rest. `None` for other clocks.
    #[inline]
    pub(super) fn read_whole_terms(&self, sequence: u64, algorithm: Algorithm) -> Option<Terms> {
        let field = |index: usize| load(&self.terms[index]);
        let slope = Slope { whole: field(0), high: field(1), low: field(2) };
        let (unit, room, origin, base) = (field(3), field(4), field(5), field(6));
        let slope = slope.is_whole().then_some(Slope { high: 0, low: 0, ..slope })?;
        let layout = Layout { slope, unit, room, count_bits: 0, shape: Shape::default() };
        // What has passed of a unit is never completed.
        Some(Terms { sequence, algorithm, layout, origin, base, phase: 0, beyond: 0, at_least: 0 })
    }

    pub(super) fn read_translation(&self) -> Translation {
        let field = |index: usize| load(&self.translation[index]);
        let side = |at: usize| Side {
            position: field(at),
            phase: field(at + 1),
            unit: field(at + 2),
            count_bits: field(at + 3),
        };
        Translation { from: side(0), to: side(4) }
    }

    pub(super) fn read_quota(&self) -> Quota {
        Quota::from_words(self.quota.each_ref().map(load))
    }
}
