//! The limiter of one state: a global limit, or one that the caller keeps beside its own object.
//! Deciding is here; `charge.rs` has what is asked by other verbs, `manage.rs` the other
//! verbs.

mod charge;
mod lease;
mod manage;

use core::fmt;

pub use lease::{LeaseDecision, LeaseError, LeaseHandle, LeasedLimiter, Leases};

use crossbeam_utils::CachePadded;

use crate::algorithm::Algorithm;
use crate::algorithm::rule::{Buckets, Rule, WholeBuckets};
use crate::algorithm::sliding_log::Ask;
use crate::builder::{BuildError, Builder};
use crate::cell::{self, Books};
use crate::clock::Timer;
use crate::decision::{Decision, Outcome, Verdict};
use crate::memory::BuildMemoryError;
use crate::policy::{Policy, Walk};
use crate::probe::{Site, step};
use crate::quota::Quota;
use crate::reach::Reach;
use crate::settle::Permits;
use crate::stats::{Counts, Own};
use crate::sync::{Acquire, Atomic};
use crate::table::Rings;
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// One limit: a single state, without keys.
///
/// All threads decide on one word, so a limit that many cores hit at once goes as fast as one
/// cache line moves between them, some sixteen million decisions a second in all by two threads. Its
/// [leased form](Limiter::leased) goes many times as fast.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// static QUOTA: Quota = Quota::per_second(1000).burst(50);
/// let limiter = Limiter::new(QUOTA)?;
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter {
    state: State,
    /// Of a limiter that is built for permits.
    pub(crate) books: Option<Books>,
    pub(crate) policy: Policy,
    pub(crate) counts: Counts,
    pub(crate) timer: Timer,
}

/// The word, on a line of its own, and the ring of a log.
#[derive(Debug)]
struct State(CachePadded<Atomic<Word>>, Rings);

impl Walk for State {
    fn walk(&self, policy: &Policy) {
        while !cell::translate(&self.0, policy) {}
    }

    fn start(&self) {}

    fn is_done(&self) -> bool {
        false
    }
}

impl Limiter {
    /// A token bucket by the precise clock.
    ///
    /// # Errors
    ///
    /// [`BuildError::Quota`] if the quota cannot be counted.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert!(Limiter::new(Quota::per_second(10))?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(quota: Quota) -> Result<Limiter, BuildError> {
        Limiter::builder(quota).build()
    }

    /// Starts to build one with other choices.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(10)).algorithm(Algorithm::FixedWindow);
    /// assert!(builder.build()?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(quota: Quota) -> Builder {
        Builder::new(quota)
    }

    pub(crate) fn from_parts(
        policy: Policy,
        timer: Timer,
        permits: Option<Permits>,
    ) -> Result<Limiter, BuildMemoryError> {
        let terms = policy.load();
        let idle = Word::live(terms.unseen(&terms.read_to_the_end(0)), 0, 0);
        let rings = Rings::new(1, terms.layout.shape.ring, false)?;
        let state = State(CachePadded::new(Atomic::new(idle)), rings);
        let books = permits.map(|permits| Books::new(1, permits, false)).transpose()?;
        Ok(Limiter { state, books, policy, counts: Counts::new(), timer })
    }

    /// May this be done now? Costs one token if it may: `check_n(1)`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(1))?;
    /// assert!(limiter.check().is_allowed());
    /// assert!(!limiter.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// May this be done now, at a cost of so many tokens? All of them are taken, or none. A cost
    /// of 0 is always admitted and changes nothing.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// assert!(!limiter.check_n(11).is_allowed());
    /// assert!(limiter.check_n(10).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.decide(cost, || self.timer.read())
    }

    /// The real one: `now` is the time in nanoseconds since the limiter was built, by whichever
    /// clock the caller likes. It may stand still, step back and jump.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1))?;
    /// assert!(limiter.check_at(1, 5_000_000_000).is_allowed());
    /// assert!(!limiter.check_at(1, 5_999_999_999).is_allowed());
    /// assert!(limiter.check_at(1, 6_000_000_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check_at(&self, cost: u64, now: u64) -> Decision {
        self.decide(cost, || (now, 1))
    }

    /// The clock is read between the terms and the word, as in the table.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    fn decide(&self, cost: u64, clock: impl FnOnce() -> (u64, u32)) -> Decision {
        let algorithm = self.policy.algorithm();
        if !algorithm.is_bucket() || cost == 0 {
            return self.decide_otherwise(cost, clock());
        }
        let Some(terms) = WholeBuckets::load(&self.policy, algorithm) else {
            return self.decide_otherwise(cost, clock());
        };
        step("terms loaded");
        let own = self.counts.own();
        let (now, tick) = clock();
        let word = self.glance();
        if let Some(reading) = WholeBuckets::read(&terms, now)
            && let Some(settled) = self.attempt::<WholeBuckets>(own, word, cost, (terms, reading))
        {
            return WholeBuckets::decision(settled, (&terms, &reading), cost, tick);
        }
        self.decide_the_long_way(cost, (now, tick))
    }

    /// The word. Terms must have been loaded before.
    #[inline]
    fn glance(&self) -> Word {
        // Acquire: as in `look`.
        self.state.0.load(Acquire.at("state/attempt"))
    }

    /// Out of the way of the buckets with whole clocks, which most limiters are.
    #[inline(never)]
    fn decide_otherwise(&self, cost: u64, (now, tick): (u64, u32)) -> Decision {
        let algorithm = self.policy.algorithm();
        if algorithm.is_bucket()
            && cost > 0
            && let Some(terms) = Buckets::load(&self.policy, algorithm)
            && let Some(reading) = Buckets::read(&terms, now)
        {
            step("terms loaded");
            let (own, word) = (self.counts.own(), self.glance());
            if let Some(settled) = self.attempt::<Buckets>(own, word, cost, (terms, reading)) {
                return Buckets::decision(settled, (&terms, &reading), cost, tick);
            }
        }
        self.decide_the_long_way(cost, (now, tick))
    }

    /// The one attempt that nearly always does: a bucket, in the current epoch, and nobody else at
    /// it. Everything else goes the long way, which starts over.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    fn attempt<R: Rule>(
        &self,
        own: Own<'_>,
        word: Word,
        cost: u64,
        (terms, reading): (Terms, Reading),
    ) -> Option<(Outcome, u64)> {
        // After the clock was read: a change that came before it is not missed.
        if word.epoch() != terms.epoch() || !self.policy.is_current(&terms) {
            return None;
        }
        cell::attempt::<R>(&self.state.0, word, cost, (terms, reading), own)
    }

    #[cold]
    #[inline(never)]
    fn decide_the_long_way(&self, cost: u64, (now, tick): (u64, u32)) -> Decision {
        if cost == 0 {
            return self.foresee(0, now, tick);
        }
        let (verdict, _) = self.charge(Reach::Burst, cost, now);
        self.counts.decided(verdict.outcome);
        verdict.decision(cost, tick)
    }

    fn decide_log(
        &self,
        word: Word,
        terms: &Terms,
        reading: &Reading,
        cost: u64,
    ) -> Option<Verdict> {
        let State(cell, rings) = &self.state;
        let ask = Ask { cost, charges: true, floor: 0 };
        let verdict = cell::decide_log(cell, rings.of(0), word, word.time(), (terms, reading), ask);
        if verdict.is_none() {
            self.counts.retried();
        }
        verdict
    }

    /// What a call would be told.
    pub(crate) fn foresee(&self, cost: u64, now: u64, tick: u32) -> Decision {
        let (mut word, mut terms, mut reading) = self.look(now);
        while terms.algorithm == Algorithm::SlidingWindowLog {
            let State(cell, rings) = &self.state;
            let (ring, under) = (rings.of(0), (&terms, &reading));
            let (time, foreseen) = (word.time(), Ask { cost, charges: false, floor: 0 });
            if let Some(verdict) = cell::decide_log(cell, ring, word, time, under, foreseen) {
                return verdict.foreseen(cost, tick);
            }
            (word, terms, reading) = self.look(now);
        }
        let time = word.time();
        let admitted = terms.charge(time, &reading, cost).is_some();
        let outcome = if admitted { Outcome::Admitted } else { Outcome::Refused };
        Verdict::new(outcome, &terms, &reading, time, cost).foreseen(cost, tick)
    }

    /// The word, in the current epoch, and terms that were in force after it was loaded.
    #[inline]
    fn look(&self, now: u64) -> (Word, Terms, Reading) {
        loop {
            let (terms, reading) = self.policy.read(now, None, &self.state);
            // Acquire: the terms of the word's epoch are seen with it. Pairs with the Release that
            // wrote it.
            let word = self.state.0.load(Acquire.at("state/word"));
            if !self.policy.is_current(&terms) {
                continue;
            }
            if word.epoch() == terms.epoch() {
                return (word, terms, reading);
            }
            cell::translate(&self.state.0, &self.policy);
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("quota", &self.quota())
            .field("now", &self.now())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
