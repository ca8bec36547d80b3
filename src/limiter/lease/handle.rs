//! A thread's handle: what it holds, how it spends it, how it takes more, and how it gives it back.

use super::{LeaseDecision, LeasedLimiter};
use crate::cell::Charge;
use crate::decision::{Decision, Outcome};
use crate::probe::{Site, mutant};
use crate::reach::Reach;
use crate::sync::Relaxed;
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// One thread's way to a [`LeasedLimiter`]. It can be sent to another thread, but serves one at a time.
/// What it holds goes back when it is dropped.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Leases, Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_hour(100))?.leased(Leases::of(Duration::from_secs(60)))?;
/// let mut handle = limiter.handle();
/// assert!((0..100).all(|_| handle.check().is_allowed()));
/// assert!(!handle.check().is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LeaseHandle<'a> {
    pub(super) leased: &'a LeasedLimiter,
    pub(super) lease: Lease,
    /// Calls that were admitted since they were last counted.
    admitted: u64,
}

/// What a thread holds, and how much it will ask for next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// Tokens that may be spent before the clock is read.
    pub(super) ready: u64,
    /// Tokens besides.
    pub(super) rest: u64,
    /// How it was paid for.
    pub(super) charge: Charge,
    /// The moment that the charge was made for, in nanoseconds. It lies before the swap, so that a lease
    /// ends early rather than late.
    pub(super) taken_at: u64,
    pub(super) want: u64,
}

impl Lease {
    /// No terms have the last of all sequences.
    pub(super) const NONE: Lease = Lease {
        ready: 0,
        rest: 0,
        charge: Charge {
            index: 0,
            word: Word::zero(),
            position: 0,
            cost: 0,
            sequence: u64::MAX,
            given_back: 0,
        },
        taken_at: 0,
        want: 1,
    };

    fn held(&self) -> u64 {
        self.ready + self.rest
    }

    /// Holds so many tokens, `ready_max` of which may be spent without a look at the clock.
    fn hold(&mut self, tokens: u64, ready_max: u64) {
        self.ready = tokens.min(ready_max);
        self.rest = tokens - self.ready;
    }
}

impl<'a> LeaseHandle<'a> {
    pub(super) fn new(leased: &'a LeasedLimiter) -> LeaseHandle<'a> {
        LeaseHandle { leased, lease: Lease::NONE, admitted: 0 }
    }

    /// May this be done now? Costs one token if it may: `check_n(1)`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(1))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let mut handle = limiter.handle();
    /// assert!(handle.check().is_allowed());
    /// assert!(!handle.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check(&mut self) -> LeaseDecision {
        self.check_n(1)
    }

    /// May this be done now, at a cost of so many tokens? All of them are taken, or none. A cost
    /// of 0 is always admitted and changes nothing.
    ///
    /// A cost above what is held gives that back and takes a new lease.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let mut handle = limiter.handle();
    /// assert!(!handle.check_n(11).is_allowed());
    /// assert!(handle.check_n(10).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check_n(&mut self, cost: u64) -> LeaseDecision {
        let leased = self.leased;
        self.spend(cost, || leased.limiter.timer.read())
    }

    /// The real one: `now` is the time in nanoseconds since the limiter was built, by whichever
    /// clock the caller likes. A call that spends what is ready does not look at it.
    ///
    /// Who keeps time by another clock than the limiter's calls [`give_back_at`](Self::give_back_at)
    /// before the handle is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let mut handle = limiter.handle();
    /// assert!(handle.check_at(1, 5_000_000_000).is_allowed());
    /// assert!(!handle.check_at(1, 5_999_999_999).is_allowed());
    /// assert!(handle.check_at(1, 6_000_000_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check_at(&mut self, cost: u64, now: u64) -> LeaseDecision {
        self.spend(cost, || (now, 1))
    }

    /// Tokens that this handle holds: paid for, not spent. They may be void already.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// assert_eq!(limiter.handle().held(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held(&self) -> u64 {
        self.lease.held()
    }

    /// Gives back what is held, as far as time has not done so since it was taken: for a thread that is
    /// about to be idle.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Clock, Leases, Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(100)).clock(Clock::manual().0).build()?;
    /// let limiter = limiter.leased(Leases::of(Duration::from_secs(3_600)))?;
    /// let mut handle = limiter.handle();
    /// assert!((0..2).all(|_| handle.check().is_allowed()));
    /// assert_eq!((handle.held(), limiter.limiter().peek().remaining()), (1, 97));
    /// handle.give_back();
    /// assert_eq!((handle.held(), limiter.limiter().peek().remaining()), (0, 98));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_back(&mut self) {
        let leased = self.leased;
        self.give_back_by(|| leased.limiter.timer.now());
    }

    /// Gives back what is held at a time of the caller's: see [`give_back`](Self::give_back).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(9))?.leased(Leases::of(Duration::from_secs(3_600)))?;
    /// let mut handle = limiter.handle();
    /// assert!((0..2).all(|_| handle.check_at(1, 0).is_allowed()));
    /// handle.give_back_at(0);
    /// assert_eq!(limiter.limiter().peek_at(1, 0).remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_back_at(&mut self, now: u64) {
        self.give_back_by(|| now);
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a call is to be a few instructions in its caller")]
    fn spend(&mut self, cost: u64, clock: impl Fn() -> (u64, u32)) -> LeaseDecision {
        if cost <= self.lease.ready && self.is_of_quota() {
            self.lease.ready -= cost;
            self.admitted += u64::from(cost > 0);
            return LeaseDecision::ALLOWED;
        }
        self.look(cost, clock)
    }

    /// Looks at the clock, and at the shared word if no more is held.
    #[inline(never)]
    fn look(&mut self, cost: u64, clock: impl Fn() -> (u64, u32)) -> LeaseDecision {
        if cost == 0 {
            return LeaseDecision::ALLOWED;
        }
        self.count();
        let (now, tick) = clock();
        let (age, held) = (self.age(now), self.lease.held());
        match age {
            Some(_) if cost <= held => {
                self.lease.hold(held - cost, self.leased.ready_max);
                self.admitted += 1;
                return LeaseDecision::ALLOWED;
            }
            Some(age) => {
                if age < self.leased.term / 2 {
                    let twice = self.lease.charge.cost.saturating_mul(2);
                    self.lease.want = twice.min(self.leased.largest);
                }
                self.give_back_by(|| clock().0);
            }
            None => {
                if held > self.lease.charge.cost / 2 {
                    self.lease.want = (self.lease.charge.cost / 2).max(1);
                }
                self.lease.hold(0, 0);
            }
        }
        self.take(cost, now, tick)
    }

    /// How long ago the lease was taken, in nanoseconds, while it is good. It is not when its term is
    /// over, when the quota has changed, or when the clock was set back behind it.
    fn age(&self, now: u64) -> Option<u64> {
        let age = now.checked_sub(self.lease.taken_at)?;
        let is_in_term = age < self.leased.term || mutant("lease: spent after its term");
        (is_in_term && self.is_of_quota()).then_some(age)
    }

    /// Whether no other quota has been put in force since the lease was taken.
    #[inline]
    fn is_of_quota(&self) -> bool {
        self.leased.limiter.policy.is_in_force(self.lease.charge.sequence)
            || mutant("lease: kept under a new quota")
    }

    /// Takes a new lease, and spends `cost` of it.
    fn take(&mut self, cost: u64, now: u64, tick: u32) -> LeaseDecision {
        let limiter = &self.leased.limiter;
        let tokens =
            |time: u64, terms: &Terms, reading: &Reading| self.size(cost, terms, time, reading);
        let decided = limiter.charge_by(Reach::Burst, now, tokens);
        let (outcome, terms, reading) = (decided.outcome, decided.terms, decided.reading);
        limiter.counts.decided(outcome);
        if outcome == Outcome::Refused {
            self.lease.want = 1;
            let answer = terms.answer(decided.word.time(), &reading, cost);
            return LeaseDecision::refused(Decision::new(
                outcome,
                terms.algorithm,
                answer,
                cost,
                tick,
            ));
        }
        (self.lease.charge, self.lease.taken_at) = (decided.charge(), now);
        self.lease.hold(decided.cost - cost, self.leased.ready_max);
        LeaseDecision::ALLOWED
    }

    /// How many tokens the next lease is of: as many as this thread spends, but no more than its share
    /// of half of what there is, nor than what the rate earns in a term.
    fn size(&self, cost: u64, terms: &Terms, time: u64, reading: &Reading) -> u64 {
        let want = self.lease.want;
        if want <= cost {
            return cost;
        }
        // Relaxed: as in `LeasedLimiter::handle`.
        let handles = self.leased.handles.load(Relaxed.at("lease/handles"));
        let share =
            terms.answer(time, reading, cost).remaining() / handles.saturating_mul(2).max(1);
        let earned = terms.layout.slope.units(self.leased.term, 0) / terms.layout.unit;
        want.min(share).min(earned).max(cost)
    }

    fn give_back_by(&mut self, clock: impl Fn() -> u64) {
        let held = self.lease.held();
        if !mutant("lease: kept after it was given back") {
            self.lease.hold(0, 0);
        }
        // Nothing is left of a lease whose term is over, as none is larger than what is earned in a term.
        if held == 0 || !self.is_of_quota() {
            return;
        }
        let charge = Charge { cost: held, ..self.lease.charge };
        self.leased.limiter.take_back(&charge, &clock);
        if mutant("lease: given back twice") {
            self.leased.limiter.take_back(&charge, &clock);
        }
    }

    fn count(&mut self) {
        let admitted = core::mem::take(&mut self.admitted);
        self.leased.limiter.counts.own().decided_often(Outcome::Admitted, admitted);
    }
}

impl Drop for LeaseHandle<'_> {
    fn drop(&mut self) {
        self.count();
        self.give_back();
        // Relaxed: as in `LeasedLimiter::handle`.
        self.leased.handles.fetch_sub(1, Relaxed.at("lease/drop"));
    }
}
