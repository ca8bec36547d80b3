//! The limiter of one state: a global limit, or one that the caller keeps beside its own object.

use core::fmt;
use core::time::Duration;

use crossbeam_utils::CachePadded;

use crate::algorithm::Algorithm;
use crate::algorithm::sliding_log::Ask;
use crate::builder::{BuildError, Builder};
use crate::cell::{self, Attempt};
use crate::clock::Timer;
use crate::decision::{Decision, Outcome, Verdict};
use crate::memory::BuildMemoryError;
use crate::policy::{Policy, Walk};
use crate::quota::{Quota, QuotaError};
use crate::stats::{Counts, Stats};
use crate::sync::{Atomic, Ordering};
use crate::table::Rings;
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// One limit: a single state, without keys.
///
/// All threads decide on one word, so a limit that many cores hit at once goes as fast as one
/// cache line moves between them, some ten million decisions a second in all.
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
    policy: Policy,
    counts: Counts,
    timer: Timer,
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

    pub(crate) fn from_parts(policy: Policy, timer: Timer) -> Result<Limiter, BuildMemoryError> {
        let terms = policy.load();
        let idle = Word::live(terms.unseen(&terms.read_to_the_end(0)), 0, 0);
        let rings = Rings::new(1, terms.layout.shape.ring, false)?;
        let state = State(CachePadded::new(Atomic::new(idle)), rings);
        Ok(Limiter { state, policy, counts: Counts::new(), timer })
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
    #[inline]
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
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.decide(cost, self.timer.now(), self.timer.tick())
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
    #[inline]
    pub fn check_at(&self, cost: u64, now: u64) -> Decision {
        self.decide(cost, now, 1)
    }

    /// What [`check`](Limiter::check) would answer now; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10))?;
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn peek(&self) -> Decision {
        self.foresee(1, self.timer.now(), self.timer.tick())
    }

    /// What [`check_at`](Limiter::check_at) would answer; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10))?;
    /// assert!(!limiter.peek_at(11, 0).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_at(&self, cost: u64, now: u64) -> Decision {
        self.foresee(cost, now, 1)
    }

    /// Gives tokens back, never above a full bucket or below an empty window.
    ///
    /// It is the caller's grant, not an undo: what the passing of time has given back since the
    /// charge, it has given already.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(4);
    /// limiter.refund(3);
    /// assert_eq!(limiter.peek().remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, tokens: u64) {
        self.refund_at(tokens, self.timer.now());
    }

    /// Gives tokens back at a time of the caller's: see [`refund`](Limiter::refund).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_at(4, 0);
    /// limiter.refund_at(3, 0);
    /// assert_eq!(limiter.peek_at(1, 0).remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(&self, tokens: u64, now: u64) {
        loop {
            let (word, terms, reading) = self.look(now);
            let Some(time) = terms.give_back(word.time(), &reading, tokens) else { return };
            if cell::replace(&self.state.0, word, time, &terms) {
                return;
            }
        }
    }

    /// Makes the limiter as new: all tokens are there again.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(10);
    /// limiter.reset();
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self) {
        self.reset_at(self.timer.now());
    }

    /// Makes the limiter as new at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_at(10, 0);
    /// limiter.reset_at(0);
    /// assert_eq!(limiter.peek_at(1, 0).remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, now: u64) {
        loop {
            let (word, terms, _) = self.look(now);
            if cell::replace(&self.state.0, word, terms.cleared(word.time()), &terms) {
                return;
            }
        }
    }

    /// Puts another quota in force; see [`KeyedLimiter::set_quota`](crate::KeyedLimiter::set_quota).
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota cannot be counted; the old one then stays in force.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(10);
    /// limiter.set_quota(Quota::per_hour(20))?;
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota_at(quota, self.timer.now())
    }

    /// Puts another quota in force from a time of the caller's on.
    ///
    /// # Errors
    ///
    /// As [`set_quota`](Limiter::set_quota).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.set_quota_at(Quota::per_hour(20), 7)?;
    /// assert_eq!(limiter.quota(), Quota::per_hour(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(&self, quota: Quota, now: u64) -> Result<(), QuotaError> {
        self.policy.set_quota(&quota, now, &self.state)
    }

    /// The quota in force.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert_eq!(Limiter::new(Quota::per_hour(10))?.quota(), Quota::per_hour(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.policy.quota()
    }

    /// Time since the limiter was built, by its clock: what [`check_at`](Limiter::check_at) calls
    /// `now`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.now() < std::time::Duration::from_secs(60));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.timer.now())
    }

    /// Bytes that the limiter holds: 8 kB, nearly all of it statistics, and the ring of a sliding
    /// log; never more.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert!(Limiter::new(Quota::per_hour(10))?.memory() < 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Limiter>() + self.state.1.bytes() + self.counts.bytes()
    }

    /// What the limiter has done so far.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check();
    /// assert_eq!(limiter.stats().admitted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counts.snapshot()
    }

    #[inline]
    fn decide(&self, cost: u64, now: u64, tick: u32) -> Decision {
        if cost == 0 {
            return self.foresee(0, now, tick);
        }
        loop {
            let (word, terms, reading) = self.look(now);
            if terms.algorithm == Algorithm::SlidingWindowLog {
                match self.decide_log(word, &terms, &reading, cost) {
                    Some(verdict) => return verdict.decision(cost, tick),
                    None => continue,
                }
            }
            let attempt = cell::charge(&self.state.0, word, word.time(), &terms, &reading, cost);
            let (outcome, time) = match attempt {
                Attempt::Charged(time) => (Outcome::Admitted, time),
                Attempt::Refused(time) => (Outcome::Refused, time),
                Attempt::Moved => {
                    self.counts.retried();
                    continue;
                }
            };
            self.counts.decided(outcome);
            return Decision::new(outcome, &terms, &reading, time, cost, tick);
        }
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
        match &verdict {
            Some(verdict) => self.counts.decided(verdict.outcome),
            None => self.counts.retried(),
        }
        verdict
    }

    /// What a call would be told.
    fn foresee(&self, cost: u64, now: u64, tick: u32) -> Decision {
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
            let word = self.state.0.load(Ordering::Acquire);
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
