//! What a call on a lease is told.

use core::time::Duration;

use crate::decision::Decision;

/// The answer to a call on a [`LeaseHandle`](crate::LeaseHandle). Only a refusal says more than that.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Leases, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(1)).clock(Clock::manual().0).build()?;
/// let limiter = limiter.leased(Leases::of(Duration::from_millis(1)))?;
/// let mut handle = limiter.handle();
/// assert!(handle.check().is_allowed());
/// assert_eq!(handle.check().retry_after(), Some(Duration::from_secs(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LeaseDecision(Option<Decision>);

impl LeaseDecision {
    pub(super) const ALLOWED: LeaseDecision = LeaseDecision(None);

    pub(super) fn refused(decision: Decision) -> LeaseDecision {
        LeaseDecision(Some(decision))
    }

    /// Whether the call may go ahead.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(0))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// assert!(!limiter.handle().check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.0.is_none()
    }

    /// How long to wait before the same call is admitted: zero if it was, `None` for never. A promise,
    /// as [`Decision::retry_after`] is; what other handles hold may be back before.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(5))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let mut handle = limiter.handle();
    /// assert_eq!(handle.check().retry_after(), Some(Duration::ZERO));
    /// assert_eq!(handle.check_n(6).retry_after(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.0 {
            None => Some(Duration::ZERO),
            Some(refusal) => refusal.retry_after(),
        }
    }

    /// What the shared state answered, if it refused.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Leases, Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(5))?.leased(Leases::of(Duration::from_secs(1)))?;
    /// let answer = limiter.handle().check_n(6);
    /// assert_eq!(answer.refusal().map(|decision| decision.limit()), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn refusal(&self) -> Option<&Decision> {
        self.0.as_ref()
    }
}
