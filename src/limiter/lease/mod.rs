//! The leased form of the limiter of one state: threads take tokens from its word some at a time, and
//! spend them without a locked instruction. `docs/leases.md` has the bound and its proof.

mod decision;
mod error;
mod handle;
#[cfg(test)]
mod search;

use core::time::Duration;

pub use decision::LeaseDecision;
pub use error::LeaseError;
pub use handle::LeaseHandle;

use crate::algorithm::Algorithm;
use crate::limiter::Limiter;
use crate::probe::Site;
use crate::sync::{Counter, Relaxed};

/// How tokens are leased: for how long, how many at a time, and how often their holder reads the clock.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Leases;
///
/// let leases = Leases::of(Duration::from_millis(10)).largest(32).clock_every(8);
/// assert_eq!(leases, Leases::of(Duration::from_millis(10)).clock_every(8).largest(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says how to lease; Limiter::leased does it"]
pub struct Leases {
    term: Duration,
    largest: u64,
    clock_every: u64,
}

impl Leases {
    /// Leases that are void after `term`, of up to 64 tokens, whose holder reads the clock before
    /// every 16th token. A term of some milliseconds loses nothing in speed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1_000_000))?;
    /// assert!(limiter.leased(Leases::of(Duration::ZERO)).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub const fn of(term: Duration) -> Leases {
        Leases { term, largest: 64, clock_every: 16 }
    }

    /// The most tokens in one lease, at least 1. Four times as many as the 64 of the start made calls half
    /// as fast again where it was measured.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Leases;
    /// assert_ne!(Leases::of(Duration::from_secs(1)).largest(8), Leases::of(Duration::from_secs(1)));
    /// ```
    pub const fn largest(mut self, tokens: u64) -> Leases {
        self.largest = tokens;
        self
    }

    /// The clock is read before a call that would be this token, or a later one, since it was read
    /// last; at least 1, which is a reading for each call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Leases;
    /// let strict = Leases::of(Duration::from_secs(1)).clock_every(1);
    /// assert_ne!(strict, Leases::of(Duration::from_secs(1)));
    /// ```
    pub const fn clock_every(mut self, tokens: u64) -> Leases {
        self.clock_every = tokens;
        self
    }
}

/// One limit that many cores hit at once, without one cache line that all of them fight for.
///
/// Each thread has a [handle](LeasedLimiter::handle), which takes tokens from the shared state in small
/// leases and spends them by itself: a call is a few instructions, none of them locked. A thread
/// begins with one token at a time, has twice as many while it spends them within half the term, and
/// half as many if they expire. No lease is larger than what the rate earns in a term, nor than the
/// tokens there are by twice the handles: near the limit, leases are of one token, and a call is as
/// with [`Limiter`].
///
/// # What it admits
///
/// With n handles, in any interval of length t, at most (and one unit, as of a token bucket):
///
/// ```text
/// burst + rate * t + min(rate * term + n * (clock_every - 1), n * (largest - 1))
/// ```
///
/// The guide derives it: [leases](crate::guide::leases). The first three terms are the limiter's own
/// bound with a burst that is longer by a term; the rest are tokens whose holders have not looked at
/// the clock. If the clock is set back, it is the second half of the minimum that holds. Since the
/// limiter was built, never more than `burst + rate * t`: leases are paid for before they are spent.
///
/// # When not to use it
///
/// Where fewer than some hundred thousand calls a second meet one limit, a plain [`Limiter`] is as
/// good and exact. While a thread holds tokens another may be refused, for a term at the most.
/// Calls are first come, first served only as far as leases are.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Leases, Limiter, Quota};
///
/// let limiter = Limiter::new(Quota::per_second(1_000_000).burst(10_000))?;
/// let limiter = limiter.leased(Leases::of(Duration::from_millis(1)))?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mut handle = limiter.handle();
///             assert!((0..1_000).all(|_| handle.check().is_allowed()));
///         });
///     }
/// });
/// assert_eq!(limiter.limiter().stats().admitted, 4_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Where a handle cannot be passed along, a thread can keep one of its own, if the limiter lives for
/// ever:
///
/// ```
/// use std::cell::RefCell;
/// use std::sync::LazyLock;
/// use std::time::Duration;
/// use tollgate::{LeaseHandle, LeasedLimiter, Leases, Limiter, Quota};
///
/// static LIMITER: LazyLock<LeasedLimiter> = LazyLock::new(|| {
///     let limiter = Limiter::new(Quota::per_second(1_000_000)).expect("the quota can be counted");
///     limiter.leased(Leases::of(Duration::from_millis(1))).expect("a bucket can be leased from")
/// });
/// thread_local! {
///     static HANDLE: RefCell<LeaseHandle<'static>> = RefCell::new(LIMITER.handle());
/// }
/// assert!(HANDLE.with_borrow_mut(|handle| handle.check().is_allowed()));
/// ```
#[derive(Debug)]
pub struct LeasedLimiter {
    limiter: Limiter,
    /// Nanoseconds.
    term: u64,
    largest: u64,
    /// The most tokens that are spent without a look at the clock.
    ready_max: u64,
    handles: Counter,
}

impl Limiter {
    /// The leased form, for a limit that many cores hit at once.
    ///
    /// # Errors
    ///
    /// [`LeaseError`] if the algorithm is none of [`Algorithm::TokenBucket`] and [`Algorithm::Gcra`], or
    /// one of the numbers is out of range.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1_000_000))?;
    /// let limiter = limiter.leased(Leases::of(Duration::from_millis(1)))?;
    /// assert!(limiter.handle().check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leased(self, leases: Leases) -> Result<LeasedLimiter, LeaseError> {
        let Leases { term, largest, clock_every } = leases;
        let algorithm = self.policy.algorithm();
        if !matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra) {
            return Err(LeaseError::Algorithm { algorithm });
        }
        let nanos = u64::try_from(term.as_nanos()).ok().filter(|&nanos| nanos > 0);
        let term = nanos.ok_or(LeaseError::Term { term })?;
        if largest == 0 {
            return Err(LeaseError::Largest);
        }
        let ready_max = clock_every.checked_sub(1).ok_or(LeaseError::ClockEvery)?;
        let handles = Counter::new(0);
        Ok(LeasedLimiter { limiter: self, term, largest, ready_max, handles })
    }
}

impl LeasedLimiter {
    /// A handle, for one thread; it holds no tokens yet.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(2))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let mut handle = limiter.handle();
    /// assert!(handle.check().is_allowed() && handle.check().is_allowed());
    /// assert!(!handle.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> LeaseHandle<'_> {
        // Relaxed: a number by which leases are made smaller; no bound rests on it.
        self.handles.fetch_add(1, Relaxed.at("lease/handle"));
        LeaseHandle::new(self)
    }

    /// The limiter that is leased from: its quota, statistics, and the other verbs.
    ///
    /// What handles hold is charged there already. A change of quota makes leases void at the next
    /// call of their holders, without giving anything back. `refund` and `reset` know nothing of
    /// leases: what they grant comes on top of what is held. Nor do `ban` and `penalize`: what is held
    /// may still be spent, for a term at the most. The statistics count a handle's calls when it next
    /// looks at the clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(2))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// limiter.limiter().set_quota(Quota::per_hour(0))?;
    /// assert!(!limiter.handle().check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}
