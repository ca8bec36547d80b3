//! Statistics without a locked instruction.
//!
//! A thread owns one of 64 slots while it lives, in every limiter the same one, and adds to it
//! with a plain load and store. Threads beyond that share the last slot and add with locked
//! instructions. A slot whose thread has ended goes to a later thread, who adds to what is there.

use core::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::decision::Outcome;
use crate::probe::{Site, mutant};
use crate::sync::{Counter, Relaxed, Tally};

/// Slots of a limiter, the shared one included. The model has two.
const SLOTS: usize = if cfg!(tollgate_loom_statistics) { 2 } else { 64 };

/// The slot of threads that own none.
const SHARED: usize = SLOTS - 1;

/// What a limiter has done since it was built, as a sum over its threads.
///
/// The counts are read one by one while threads go on counting, so they belong to about one
/// moment, not exactly. Each decision is counted once, as one of the first four; a call of cost 0 is
/// not counted.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
///
/// let limiter: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_hour(1)).build()?;
/// limiter.check("key");
/// limiter.check("key");
/// let stats = limiter.stats();
/// assert_eq!((stats.admitted, stats.refused), (1, 1));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls admitted by the quota.
    pub admitted: u64,
    /// Calls refused by the quota.
    pub refused: u64,
    /// Calls admitted because the table was full, by `Overflow::Admit`.
    pub admitted_full: u64,
    /// Calls refused because the table was full, by `Overflow::Refuse`.
    pub refused_full: u64,
    /// Live keys forgotten because the table was full, by `Overflow::EvictNearest`.
    pub evicted: u64,
    /// Idle keys forgotten to make room: no answer changes by it.
    pub reclaimed: u64,
    /// Swaps that were tried again because another thread came first.
    pub retries: u64,
    /// Tokens of settled permits that could not be charged: see [`Permits::debt`](crate::Permits::debt).
    pub unpaid: u64,
}

/// One thread's counts; a line for itself.
#[derive(Debug, Default)]
struct Slot {
    counts: [Tally; 8],
    /// How many of the thread's next calls are expected to be inserts.
    misses: Counter,
}

/// The slots of a limiter.
#[derive(Debug)]
pub(crate) struct Counts {
    slots: Box<[CachePadded<Slot>; SLOTS]>,
}

/// The slot of this thread, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    counts: &'a Counts,
    slot: usize,
}

impl Own<'_> {
    #[inline]
    pub(crate) fn decided(self, outcome: Outcome) {
        self.add(outcome as usize, 1);
    }

    /// Counts decisions that were made without a look at the limiter.
    pub(crate) fn decided_often(self, outcome: Outcome, calls: u64) {
        if calls > 0 {
            self.add(outcome as usize, calls);
        }
    }

    /// Whether the thread's last calls were inserts, so that the next may be one: a guess, by which its
    /// bucket's header is asked for with the home line, and it waits for memory once and not twice.
    #[inline]
    pub(crate) fn expects_insert(self) -> bool {
        // Relaxed: a guess.
        let misses = |slot: &Slot| slot.misses.load(Relaxed.at("stats/misses"));
        let expected = if self.slot < SHARED { misses(&self.counts.slots[self.slot]) } else { 0 };
        if expected > 0 {
            self.expect_misses(expected - 1);
        }
        expected > 0
    }

    #[cold]
    pub(crate) fn expect_misses(self, misses: u64) {
        if self.slot < SHARED {
            // Relaxed: a guess; no other thread writes this slot.
            self.counts.slots[self.slot].misses.store(misses, Relaxed.at("stats/expect"));
        }
    }

    #[inline]
    fn add(self, count: usize, calls: u64) {
        // To measure what counting costs (docs/performance.md).
        if cfg!(tollgate_no_statistics) {
            return;
        }
        if self.slot < SHARED {
            self.counts.add_own(self.slot, count, calls);
        } else {
            self.counts.add_otherwise(count, calls);
        }
    }
}

const EVICTED: usize = 4;
const RECLAIMED: usize = 5;
const RETRIES: usize = 6;
const UNPAID: usize = 7;

impl Counts {
    pub(crate) fn new() -> Counts {
        Counts { slots: Box::new(core::array::from_fn(|_| CachePadded::default())) }
    }

    /// Where this thread counts; looked up while there is something to wait for.
    #[inline]
    pub(crate) fn own(&self) -> Own<'_> {
        Own { counts: self, slot: SLOT.with(Cell::get) }
    }

    /// Counts a decision.
    #[inline]
    pub(crate) fn decided(&self, outcome: Outcome) {
        self.own().decided(outcome);
    }

    #[cold]
    pub(crate) fn evicted(&self) {
        self.add(EVICTED);
    }

    #[cold]
    pub(crate) fn reclaimed(&self) {
        self.add(RECLAIMED);
    }

    #[cold]
    pub(crate) fn retried(&self) {
        self.add(RETRIES);
    }

    #[cold]
    pub(crate) fn unpaid(&self, tokens: u64) {
        self.own().add(UNPAID, tokens);
    }

    fn add(&self, count: usize) {
        self.own().add(count, 1);
    }

    /// Counts in the slot of this thread.
    #[inline]
    fn add_own(&self, slot: usize, count: usize, calls: u64) {
        let counter = &self.slots[slot].counts[count];
        // Relaxed, and no locked instruction: no other thread writes this slot.
        let counted = counter.load(Relaxed.at("stats/own"));
        // Relaxed: as above.
        counter.store(counted.wrapping_add(calls), Relaxed.at("stats/own_store"));
    }

    /// Counts for a thread that has not asked for a slot yet, or has none of its own.
    #[cold]
    #[inline(never)]
    fn add_otherwise(&self, count: usize, calls: u64) {
        let slot = own_slot();
        if slot < SHARED {
            self.add_own(slot, count, calls);
        } else {
            // Relaxed: a sum; nothing is read by it.
            self.slots[SHARED].counts[count].fetch_add(calls, Relaxed.at("stats/shared"));
        }
    }

    /// The sums.
    pub(crate) fn snapshot(&self) -> Stats {
        let sum = |count: usize| {
            // Relaxed: counts belong to about one moment.
            let counts =
                self.slots.iter().map(|slot| slot.counts[count].load(Relaxed.at("stats/sum")));
            counts.fold(0, u64::wrapping_add)
        };
        Stats {
            admitted: sum(Outcome::Admitted as usize),
            refused: sum(Outcome::Refused as usize),
            admitted_full: sum(Outcome::AdmittedFull as usize),
            refused_full: sum(Outcome::RefusedFull as usize),
            evicted: sum(EVICTED),
            reclaimed: sum(RECLAIMED),
            retries: sum(RETRIES),
            unpaid: sum(UNPAID),
        }
    }

    /// Bytes of the slots.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(not(tollgate_loom_statistics))]
thread_local! {
    /// This thread's slot, or `SLOTS` while it has not asked for one. Without a destructor, so
    /// that reading it is one load.
    static SLOT: Cell<usize> = const { Cell::new(SLOTS) };
    /// Gives the slot back when the thread ends.
    static LEASE: Lease = Lease::take();
}

#[cfg(tollgate_loom_statistics)]
crate::sync::model_thread_local! {
    static SLOT: Cell<usize> = Cell::new(SLOTS);
    static LEASE: Lease = Lease::take();
}

fn own_slot() -> usize {
    let slot = SLOT.with(Cell::get);
    if slot < SLOTS { slot } else { ask_for_slot() }
}

fn ask_for_slot() -> usize {
    // A thread that is ending has no lease any more, and counts in the shared slot.
    let slot = LEASE.try_with(|lease| lease.0.get()).unwrap_or(SHARED);
    SLOT.with(|own| own.set(slot));
    slot
}

/// The slots that threads own, a bit each. A lock, and not a hot one: a thread comes here twice.
#[cfg(not(tollgate_loom_statistics))]
static OWNED: std::sync::Mutex<u64> = std::sync::Mutex::new(1 << SHARED);

#[cfg(tollgate_loom_statistics)]
crate::sync::model_static! {
    static ref OWNED: crate::sync::Mutex<u64> = crate::sync::Mutex::new(1 << SHARED);
}

fn with_owned<T>(change: impl FnOnce(&mut u64) -> T) -> T {
    change(&mut OWNED.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// A slot for as long as the thread lives.
struct Lease(Cell<usize>);

impl Lease {
    fn take() -> Lease {
        with_owned(|owned| {
            let slot = (owned.trailing_ones() as usize).min(SHARED);
            if !mutant("statistics: a slot for two threads") {
                *owned |= 1 << slot;
            }
            Lease(Cell::new(slot))
        })
    }

    fn give_back(&self) {
        // From here on this thread counts in the shared slot, as its own may be another's soon.
        let _ = SLOT.try_with(|own| own.set(SHARED));
        let slot = self.0.replace(SHARED);
        if slot != SHARED {
            // The lock orders this thread's last plain store before the next owner's first load.
            with_owned(|owned| *owned &= !(1 << slot));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Gives the thread's slot back, as its end would: loom ends a thread after it can be joined.
#[cfg(tollgate_loom_statistics)]
pub fn end_of_thread() {
    LEASE.with(Lease::give_back);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than slots, and slots that change hands: nothing is lost.
    #[test]
    fn every_count_arrives() {
        let (rounds, calls) = if cfg!(miri) { (2, 2) } else { (3, 100) };
        let counts = Counts::new();
        for _ in 0..rounds {
            std::thread::scope(|scope| {
                for _ in 0..SLOTS + 8 {
                    scope.spawn(|| (0..calls).for_each(|_| counts.decided(Outcome::Refused)));
                }
            });
        }
        assert_eq!(counts.snapshot().refused, rounds * (SLOTS as u64 + 8) * calls);
    }
}
