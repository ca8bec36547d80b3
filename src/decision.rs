//! The decision: the answer, and what a caller may ask of it afterwards.

use core::fmt;
use core::time::Duration;

use crate::algorithm::{Algorithm, Answer};
use crate::terms::{Reading, Terms};

/// How a decision came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted,
    Refused,
    /// Admitted without a cell, by `Overflow::Admit`.
    AdmittedFull,
    /// Refused for want of a cell, by `Overflow::Refuse`.
    RefusedFull,
}

impl Outcome {
    #[inline]
    pub(crate) fn is_allowed(self) -> bool {
        matches!(self, Outcome::Admitted | Outcome::AdmittedFull)
    }
}

/// How a call was decided, and what can be asked of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) algorithm: Algorithm,
    pub(crate) answer: Answer,
}

impl Verdict {
    /// As the decision of a peek, which has charged nothing.
    pub(crate) fn foreseen(&self, cost: u64, tick: u32) -> Decision {
        Decision { is_foreseen: true, ..self.decision(cost, tick) }
    }
}

impl Verdict {
    /// `time` is the key's time after the call.
    pub(crate) fn new(
        outcome: Outcome,
        terms: &Terms,
        reading: &Reading,
        time: u64,
        cost: u64,
    ) -> Verdict {
        let answer = terms.answer(time, reading, cost);
        Verdict { outcome, algorithm: terms.algorithm, answer }
    }

    pub(crate) fn decision(&self, cost: u64, tick: u32) -> Decision {
        Decision::new(self.outcome, self.algorithm, self.answer, cost, tick)
    }
}

/// The answer to "may this key do this now?".
///
/// It is a plain value, made under one quota and belonging to it whatever changes later. The
/// answer itself costs nothing to read; [`remaining`](Decision::remaining) and the waits are
/// computed when they are asked for (a division each).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Limiter, Quota};
///
/// let (clock, time) = Clock::manual();
/// let limiter = Limiter::builder(Quota::per_second(2)).clock(clock).build()?;
///
/// let first = limiter.check();
/// assert!(first.is_allowed());
/// assert_eq!((first.limit(), first.remaining()), (2, 1));
///
/// limiter.check();
/// let third = limiter.check();
/// assert!(!third.is_allowed());
/// assert_eq!(third.retry_after(), Some(Duration::from_millis(500)));
///
/// time.advance(Duration::from_millis(500));
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct Decision {
    outcome: Outcome,
    /// Whether an admitted call is to be held.
    queued: bool,
    /// The clock's tick in nanoseconds, to which waits are rounded up; 1 for an exact clock.
    tick: u32,
    /// Whether the cost is not in the answer, because it was not charged.
    is_foreseen: bool,
    cost: u64,
    answer: Answer,
}

// A batch of 32 answers fits the first-level cache with room to spare.
const _: () = assert!(size_of::<Decision>() <= 96);

impl Decision {
    /// `tick` is that of the clock.
    #[inline]
    pub(crate) fn new(
        outcome: Outcome,
        algorithm: Algorithm,
        answer: Answer,
        cost: u64,
        tick: u32,
    ) -> Decision {
        let queued = algorithm == Algorithm::LeakyBucket;
        Decision { outcome, queued, tick, is_foreseen: false, cost, answer }
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the call may go ahead.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert!(!Limiter::new(Quota::per_second(0))?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome.is_allowed()
    }

    /// Whether the table had no cell for the key, so that the overflow policy answered and not
    /// the quota. Never for a [`Limiter`](crate::Limiter).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_second(10)).build()?;
    /// assert!(!limiter.check("key").is_full());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        matches!(self.outcome, Outcome::AdmittedFull | Outcome::RefusedFull)
    }

    /// The burst of a bucket, or the limit of a window, in tokens.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10).burst(25))?;
    /// assert_eq!(limiter.check().limit(), 25);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.answer.limit()
    }

    /// Whole tokens that could be spent at the time of the decision, after it.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// assert_eq!(limiter.check_n(3).remaining(), 7);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.is_full() {
            return 0;
        }
        self.answer.remaining()
    }

    /// How long to wait before the same call is admitted: zero if it was, `None` for never.
    ///
    /// After exactly this wait the same call is admitted, nobody else having called; one
    /// nanosecond earlier it is refused. It never is where the cost is above the burst or the
    /// limit is 0. With a coarse clock the wait is rounded up to the clock's tick. When the table
    /// is full, it is the time until a cell falls idle.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10))?;
    /// assert_eq!(limiter.check().retry_after(), Some(Duration::ZERO));
    /// assert_eq!(limiter.check_n(11).retry_after(), None);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            Outcome::Admitted | Outcome::AdmittedFull => Some(Duration::ZERO),
            // A refusal never says that no wait is needed, not even one that came about at the very
            // end of a clock's range, or in a bucket whose cells were all being taken.
            Outcome::Refused => self.whole_ticks(self.answer.wait(self.cost)?.max(1)),
            Outcome::RefusedFull => self.whole_ticks(self.answer.restored_in()?.max(1)),
        }
    }

    /// How long until everything is back and the key is as new, nobody having called: `None` for
    /// never, which is a limit of 0.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(Clock::manual().0).build()?;
    /// assert_eq!(limiter.check_n(3).reset_after(), Some(Duration::from_millis(300)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        self.whole_ticks(self.answer.restored_in()?)
    }

    /// How long until one token more can be spent than after this call, nobody having called; `None` if all
    /// are there, or no more will come. A sliding log knows it only of what it has refused, and says of
    /// what it has admitted when all is back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(Clock::manual().0).build()?;
    /// assert_eq!(limiter.peek().next_after(), None);
    /// assert_eq!(limiter.check_n(3).next_after(), Some(Duration::from_millis(100)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn next_after(&self) -> Option<Duration> {
        let nanos = match self.answer {
            Answer::Log(_) if self.is_allowed() => self.answer.restored_in(),
            Answer::Log(_) => self.answer.wait(self.cost),
            _ => self.answer.wait(self.answer.remaining().saturating_add(1)),
        };
        self.whole_ticks(nanos.filter(|&nanos| nanos > 0)?)
    }

    /// How long to hold this call so that calls leave at the quota's rate: for an admitted call of
    /// [`Algorithm::LeakyBucket`], else zero. From a queue of limit 0 nothing ever leaves: 584 years.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use tollgate::{Algorithm, Clock, Limiter, Quota};
    ///
    /// let limiter = Limiter::builder(Quota::per_second(10).burst(3))
    ///     .algorithm(Algorithm::LeakyBucket)
    ///     .clock(Clock::manual().0)
    ///     .build()?;
    /// let delays = [(); 3].map(|()| limiter.check().delay().as_millis());
    /// assert_eq!(delays, [0, 100, 200]);
    /// assert!(!limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        if !self.queued || self.cost == 0 || self.outcome != Outcome::Admitted {
            return Duration::ZERO;
        }
        let charged = if self.is_foreseen { 0 } else { self.cost };
        Duration::from_nanos(self.answer.departs_in(charged).unwrap_or(u64::MAX))
    }

    /// Waits end at a tick of the clock. A coarse clock may be a tick behind when the wait begins
    /// and another when it ends.
    fn whole_ticks(&self, nanos: u64) -> Option<Duration> {
        let tick = u64::from(self.tick);
        if nanos == 0 || tick == 1 {
            return Some(Duration::from_nanos(nanos));
        }
        let ticks = nanos.checked_next_multiple_of(tick)?.checked_add(tick);
        Some(Duration::from_nanos(ticks?))
    }
}

/// A refusal that was never asked for: what to fill a slice with before
/// [`check_many`](crate::KeyedLimiter::check_many) writes the answers into it.
impl Default for Decision {
    fn default() -> Decision {
        let (outcome, answer) = (Outcome::Refused, Answer::default());
        Decision { outcome, queued: false, tick: 1, is_foreseen: false, cost: 1, answer }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.is_allowed())
            .field("full", &self.is_full())
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}
