//! Rings: the stamps of a sliding log's tokens, a ring beside each cell.
//!
//! A slot belongs to whoever the cell belongs to, and is never cleared: what a key has not written
//! it does not read. Slots are only ever raised, so it does not matter who writes a stamp, or how
//! late; see `algorithm/sliding_log`.

use crate::algorithm::sliding_log::{Slots, last_commit};
use crate::memory::{BuildMemoryError, Run};
use crate::probe::{Site, mutant};
use crate::sync::{Acquire, Atomic, Relaxed, Release};
use crate::terms::Terms;

/// The rings of a run of cells; none of them has a slot but under a sliding log.
#[derive(Debug)]
pub(crate) struct Rings {
    slots: Run<Atomic<u64>>,
    length: usize,
}

/// One cell's ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a>(&'a [Atomic<u64>]);

impl Rings {
    /// Rings of `length` slots for so many cells.
    pub(crate) fn new(cells: usize, length: u64, lazy: bool) -> Result<Rings, BuildMemoryError> {
        // A length that does not fit has more slots than there can be memory.
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let slots = Run::new(cells.saturating_mul(length), lazy)?;
        Ok(Rings { slots, length })
    }

    /// The ring of a cell.
    pub(crate) fn of(&self, cell: usize) -> Ring<'_> {
        let first = cell * self.length;
        Ring(self.slots.get(first..first + self.length).unwrap_or_default())
    }

    /// Bytes of the rings.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.bytes()
    }
}

impl Slots for Ring<'_> {
    fn stamp(&self, slot: u64) -> u64 {
        // Acquire: a stamp of a later commit brings the head of that commit along, so that the
        // re-read or the swap of the head that follows sees that it has moved. Pairs with the
        // Release in `fill`.
        self.0.get(slot as usize).map_or(0, |slot| slot.load(Acquire.at("ring/stamp")))
    }
}

impl Ring<'_> {
    /// Writes the stamps of the last commit of the head `time`, which was loaded with Acquire, if
    /// they are not there yet.
    pub(crate) fn fill(&self, terms: &Terms, time: u64) {
        let (stamp, slots) = last_commit(terms, time);
        for slot in slots.filter_map(|slot| self.0.get(slot as usize)) {
            // Relaxed: nearly always the stamp is there. A swap of the head that follows does not
            // depend on who wrote it, and a reader of that head reads no older stamp than this.
            if slot.load(Relaxed.at("ring/filled")) < stamp {
                // Release: brings the head that this stamp belongs to along. Pairs with the
                // Acquire in `stamp`.
                if mutant("ring: stamp stored") {
                    slot.store(stamp, Relaxed);
                    continue;
                }
                slot.fetch_max(stamp, Release.at("ring/fill"));
            }
        }
    }
}
