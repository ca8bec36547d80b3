//! Permits of a keyed limiter.

use core::hash::Hash;

use crate::keyed::KeyedLimiter;
use crate::settle::{DetachedPermit, Permit, ReserveError, SettleError, reserve};
use crate::target::Target;

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// Charges a key an estimate of what a call will cost, to be settled when it is known: see [`Permit`].
    ///
    /// # Errors
    ///
    /// * [`ReserveError::Refused`] if the quota refuses, with its answer;
    /// * [`ReserveError::WithoutPermits`] if the limiter was built without
    ///   [`permits`](crate::KeyedBuilder::permits).
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Permits, Quota, ReserveError};
    ///
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve("key", 8)?;
    /// match limiter.reserve("key", 8) {
    ///     Err(ReserveError::Refused(answer)) => assert_eq!(answer.remaining(), 2),
    ///     _ => unreachable!("8 of 10 are out"),
    /// }
    /// permit.commit(2);
    /// assert!(limiter.reserve("key", 8).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: &K, estimate: u64) -> Result<Permit<'_>, ReserveError> {
        reserve(self.target(key), estimate, self.timer.read())
    }

    /// [`reserve`](KeyedLimiter::reserve) at a time of the caller's. A permit that is dropped is settled by the
    /// limiter's own clock: who keeps another time calls [`commit_at`](Permit::commit_at) before.
    ///
    /// # Errors
    ///
    /// As [`reserve`](KeyedLimiter::reserve).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_second(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve_at("key", 10, 0)?;
    /// assert!(limiter.reserve_at("key", 1, 99_999_999).is_err());
    /// permit.commit_at(9, 99_999_999);
    /// assert!(limiter.reserve_at("key", 1, 99_999_999).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(&self, key: &K, estimate: u64, now: u64) -> Result<Permit<'_>, ReserveError> {
        reserve(self.target(key), estimate, (now, 1))
    }

    /// Settles a detached permit, as [`Permit::commit`] does one that is not.
    ///
    /// # Errors
    ///
    /// [`SettleError`] if it is settled already, or of another limiter.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve("key", 8)?.detach();
    /// assert_eq!(limiter.commit(&permit, 3), Ok(0));
    /// assert_eq!(limiter.peek("key").remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(&self, permit: &DetachedPermit, actual: u64) -> Result<u64, SettleError> {
        self.settle(permit, actual, || self.timer.now())
    }

    /// [`commit`](KeyedLimiter::commit) at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`commit`](KeyedLimiter::commit).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve_at("key", 8, 0)?.detach();
    /// assert_eq!(limiter.commit_at(&permit, 3, 0), Ok(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_at(
        &self,
        permit: &DetachedPermit,
        actual: u64,
        now: u64,
    ) -> Result<u64, SettleError> {
        self.settle(permit, actual, || now)
    }

    fn settle(
        &self,
        permit: &DetachedPermit,
        actual: u64,
        clock: impl Fn() -> u64,
    ) -> Result<u64, SettleError> {
        let place = permit.place_in(&self.table).ok_or(SettleError::OtherLimiter)?;
        permit.settle(Target::Key(&self.table, &self.timer, place), actual, clock)
    }
}
