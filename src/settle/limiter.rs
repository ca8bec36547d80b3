//! Permits of the limiter of one state.

use crate::limiter::Limiter;
use crate::settle::{DetachedPermit, Permit, ReserveError, SettleError, reserve};

impl Limiter {
    /// Charges an estimate of what a call will cost, to be settled when it is known: see [`Permit`].
    ///
    /// # Errors
    ///
    /// * [`ReserveError::Refused`] if the quota refuses, with its answer;
    /// * [`ReserveError::WithoutPermits`] if the limiter was built without
    ///   [`permits`](crate::Builder::permits).
    ///
    /// ```
    /// use tollgate::{Limiter, Permits, Quota, ReserveError};
    ///
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve(8)?;
    /// match limiter.reserve(8) {
    ///     Err(ReserveError::Refused(answer)) => assert_eq!(answer.remaining(), 2),
    ///     _ => unreachable!("8 of 10 are out"),
    /// }
    /// permit.commit(2);
    /// assert!(limiter.reserve(8).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, estimate: u64) -> Result<Permit<'_>, ReserveError> {
        reserve(self.target(), estimate, self.timer.read())
    }

    /// [`reserve`](Limiter::reserve) at a time of the caller's. A permit that is dropped is settled by the
    /// limiter's own clock: who keeps another time calls [`commit_at`](Permit::commit_at) before.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Limiter::reserve).
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve_at(10, 0)?;
    /// assert!(limiter.reserve_at(1, 99_999_999).is_err());
    /// permit.commit_at(9, 99_999_999);
    /// assert!(limiter.reserve_at(1, 99_999_999).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_at(&self, estimate: u64, now: u64) -> Result<Permit<'_>, ReserveError> {
        reserve(self.target(), estimate, (now, 1))
    }

    /// Settles a detached permit, as [`Permit::commit`] does one that is not.
    ///
    /// # Errors
    ///
    /// [`SettleError`] if it is settled already, or of another limiter.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve(8)?.detach();
    /// assert_eq!(limiter.commit(&permit, 3), Ok(0));
    /// assert_eq!(limiter.peek().remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(&self, permit: &DetachedPermit, actual: u64) -> Result<u64, SettleError> {
        self.settle(permit, actual, || self.timer.now())
    }

    /// [`commit`](Limiter::commit) at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`commit`](Limiter::commit).
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// let permit = limiter.reserve_at(8, 0)?.detach();
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
        match permit.is_of(self) {
            true => permit.settle(self.target(), actual, clock),
            false => Err(SettleError::OtherLimiter),
        }
    }
}
