//! The books of a limiter that is built for permits: how much has been given back on each cell.
//!
//! A permit remembers the key's time after its charge. Whatever is given back on the key afterwards
//! lowers the word below that time, and the permit has to know by how much, or it would give back what
//! another has given back already. Two counters, as no swap reaches a word and a counter at once:
//!
//! ```text
//!   begun   rises before the word is lowered      what a permit takes off its own end when it settles
//!   ended   rises after it                        what a permit was told before its charge
//! ```
//!
//! What is on its way between the two counts against every permit. Whoever stops there lets others give
//! back less, never more.

use crate::memory::{BuildMemoryError, Run};
use crate::probe::{Site, mutant};
use crate::settle::Permits;
use crate::sync::{Acquire, Atomic, Counter, Relaxed, Release};

/// The books of a run of cells, and what the limiter does with its permits.
#[derive(Debug)]
pub(crate) struct Books {
    counts: Run<Atomic<u64>>,
    pub(crate) permits: Permits,
    /// Tells the limiter from others, for permits that are detached from it.
    pub(crate) limiter: u64,
}

/// The last number of a limiter.
static LIMITERS: Counter = Counter::new(0);

/// The book of one cell, in units of its words; both counts only rise, and wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Book<'a> {
    begun: &'a Atomic<u64>,
    ended: &'a Atomic<u64>,
}

impl Books {
    pub(crate) fn new(
        cells: usize,
        permits: Permits,
        lazy: bool,
    ) -> Result<Books, BuildMemoryError> {
        let counts = Run::new(cells.saturating_mul(2), lazy)?;
        // Relaxed: a number that nobody else has.
        let limiter = LIMITERS.fetch_add(1, Relaxed.at("book/limiter"));
        Ok(Books { counts, permits, limiter })
    }

    /// The book of a cell.
    pub(crate) fn of(&self, cell: usize) -> Option<Book<'_>> {
        match self.counts.get(2 * cell..2 * cell + 2)? {
            [begun, ended] => Some(Book { begun, ended }),
            _ => None,
        }
    }

    /// Bytes of the books.
    pub(crate) fn bytes(&self) -> usize {
        self.counts.bytes()
    }
}

impl Book<'_> {
    /// What a permit is told before its charge.
    pub(crate) fn ended(&self) -> u64 {
        let ended = if mutant("book: one counter") { self.begun } else { self.ended };
        // Acquire: whoever has ended has lowered the word before, and the charge that follows must come
        // after that in the word's order. Pairs with the Release in `end`.
        ended.load(Acquire.at("book/ended"))
    }

    /// What has been begun.
    pub(crate) fn begun(&self) -> u64 {
        // Relaxed: whether one was missed is seen by the swap in `begin`; and all that a permit was told
        // of as ended has been begun, as the Acquire in `ended` has seen.
        self.begun.load(Relaxed.at("book/begun"))
    }

    /// Begins to give so much back; false if another has begun since `seen`.
    pub(crate) fn begin(&self, seen: u64, units: u64) -> bool {
        if mutant("book: begun by adding") {
            self.add(units);
            return true;
        }
        let next = seen.wrapping_add(units);
        // Relaxed: of two that begin, the later one has seen the earlier, and that is all that is asked.
        self.begun.compare_exchange(seen, next, Relaxed.at("book/begin"), Relaxed).is_ok()
    }

    /// Begins, whatever others have begun: for who does not depend on it.
    pub(crate) fn add(&self, units: u64) {
        // Relaxed: as in `begin`.
        self.begun.fetch_add(units, Relaxed.at("book/add"));
    }

    /// So much of what was begun needs no more attention.
    pub(crate) fn end(&self, units: u64) {
        // Release: brings the lowered word along. Pairs with the Acquire in `ended`.
        self.ended.fetch_add(units, Release.at("book/end"));
    }
}
