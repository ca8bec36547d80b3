//! A charge that is yet to be settled.

use core::fmt;

use crate::cell::Charge;
use crate::settle::{DetachedPermit, settle};
use crate::target::Target;

/// An estimate that is charged, for work whose cost is known when it is done. From
/// [`reserve`](crate::KeyedLimiter::reserve), on a limiter that is built for
/// [`Permits`](crate::Permits).
///
/// [`commit`](Permit::commit) settles it: what was estimated too much comes back, what was too little is
/// charged as a debt. Dropping it gives all of it back, unless the limiter
/// [keeps](crate::Permits::keep_dropped) what is dropped; `mem::forget` keeps it.
///
/// # What comes back
///
/// Never more than what would have been there without the charge. In any interval of length t, what a key
/// has kept of all that was admitted is at most `burst + debt + t * limit / period`, however many permits
/// are out at a time, and in whichever order they are settled. To hold that, less comes back than was
/// charged
///
/// * as time passes: what the rate has earned back of this charge since is there already;
/// * when others who came before or after it on the same key were given tokens back meanwhile: that much is
///   taken off. With a burst of some times what is in flight that is hardly seen;
/// * not at all while the key owes more than its burst: in debt, in a ban, or with a line of waiting
///   callers;
/// * not at all in a window that is over (of a sliding counter: once the key was charged in a later one), or
///   in another life of the key: after an eviction from a full
///   table, [`reset`](crate::KeyedLimiter::reset), or a change to other units of the quota
///   ([`set_quota`](crate::KeyedLimiter::set_quota)). What belongs to another key is never touched. A
///   life is told apart by four bits: a permit that is out while its cell sees just 16 evictions, resets
///   and changes of unit, and then its own key again, is taken for one of that life, and gives back
///   at most itself.
///
/// What others were given back is counted in 64 bits of nanoseconds or little longer units: 584 years of the
/// rate. Who is given back that much on one key while a permit is out (a burst of a day 213 000 times, of an
/// hour five million times) may get of that permit what is not left of it; at most itself, too.
///
/// It borrows the limiter; [`detach`](Permit::detach) makes a value of its own of it.
///
/// ```
/// use tollgate::{Clock, Limiter, Permits, Quota};
///
/// // A hundred thousand tokens of a language model a minute.
/// let builder = Limiter::builder(Quota::per_minute(100_000)).permits(Permits::new());
/// let limiter = builder.clock(Clock::manual().0).build()?;
/// let permit = limiter.reserve(4_000)?;
/// // The answer is there: it has taken 1 500.
/// permit.commit(1_500);
/// assert_eq!(limiter.peek().remaining(), 98_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a permit that is dropped is settled"]
pub struct Permit<'a> {
    target: Target<'a>,
    /// What was charged; nothing for an estimate of 0, or if a full table admitted it without a cell.
    charge: Option<Charge>,
    estimate: u64,
    is_settled: bool,
}

impl<'a> Permit<'a> {
    pub(crate) fn new(target: Target<'a>, charge: Option<Charge>, estimate: u64) -> Permit<'a> {
        Permit { target, charge, estimate, is_settled: false }
    }

    /// The tokens that were charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// assert_eq!(limiter.reserve(4)?.estimate(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// The work has cost so many tokens. Returns how many of them could not be charged, which is none
    /// unless the limiter [bounds debts](crate::Permits::debt), the cost is beyond nine years of the
    /// rate, or the table is full.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Permits, Quota};
    /// # use std::time::Duration;
    /// let builder = Limiter::builder(Quota::per_second(10)).permits(Permits::new());
    /// let limiter = builder.clock(Clock::manual().0).build()?;
    /// limiter.reserve(4)?.commit(3);
    /// assert_eq!(limiter.peek().remaining(), 7);
    /// assert_eq!(limiter.reserve(4)?.commit(25), 0);
    /// assert_eq!(limiter.peek().retry_after(), Some(Duration::from_millis(1_900)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "nearly always none")]
    pub fn commit(mut self, actual: u64) -> u64 {
        let timer = self.target.timer();
        self.settle(actual, || timer.now())
    }

    /// [`commit`](Permit::commit) at a time of the caller's, in nanoseconds of the limiter.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(1).burst(4)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve_at(4, 0)?;
    /// // A second later one of the four is back already.
    /// permit.commit_at(0, 1_000_000_000);
    /// assert_eq!(limiter.peek_at(4, 1_000_000_000).remaining(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "as in `commit`")]
    pub fn commit_at(mut self, actual: u64, now: u64) -> u64 {
        self.settle(actual, || now)
    }

    /// The work has cost nothing: `commit(0)`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// limiter.reserve(10)?.cancel();
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) {
        self.commit(0);
    }

    /// The work has cost what was estimated.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// limiter.reserve(4)?.keep();
    /// assert_eq!(limiter.peek().remaining(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(mut self) {
        self.is_settled = true;
    }

    /// The permit as a value that borrows nothing, to be settled through the limiter:
    /// [`KeyedLimiter::commit`](crate::KeyedLimiter::commit) or [`Limiter::commit`](crate::Limiter::commit).
    /// Dropped, it keeps what it has charged.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate::{Limiter, Permits, Quota, SettleError};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = Arc::new(limiter.reserve(10)?.detach());
    /// let other = Arc::clone(&permit);
    /// assert_eq!(limiter.commit(&permit, 4), Ok(0));
    /// // Whoever else has it, too, comes late.
    /// assert_eq!(limiter.commit(&other, 4), Err(SettleError::AlreadySettled));
    /// assert_eq!(limiter.peek().remaining(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(mut self) -> DetachedPermit {
        self.is_settled = true;
        DetachedPermit::new(self.target, self.charge, self.estimate)
    }

    fn settle(&mut self, actual: u64, clock: impl Fn() -> u64) -> u64 {
        self.is_settled = true;
        settle(self.target, self.charge.as_ref(), (self.estimate, actual), clock)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let keeps = self.target.books().is_some_and(|books| books.permits.keeps_dropped);
        if !self.is_settled && !keeps {
            let timer = self.target.timer();
            self.settle(0, || timer.now());
        }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("estimate", &self.estimate).finish_non_exhaustive()
    }
}
