//! Debts, penalties and bans of the limiter of one state.

use core::time::Duration;

use crate::debt::{self, DebtError};
use crate::decision::Decision;
use crate::limiter::Limiter;

impl Limiter {
    /// A check that may take on a debt: it is admitted if the cost is within the tokens that are there
    /// and `debt` more. For calls that must not be split, such as one large answer. Plain checks are
    /// refused until the debt is earned back.
    ///
    /// The answer is that of a bucket whose burst is larger by the debt: `limit`, `remaining` and
    /// `retry_after` count it. In any interval of length t the limiter is admitted at most
    /// `burst + debt + t * limit / period`, with the largest debt that any call may take on.
    ///
    /// # Errors
    ///
    /// [`DebtError::Algorithm`] if the algorithm is no bucket.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Limiter, Quota};
    ///
    /// let builder = Limiter::builder(Quota::per_second(10));
    /// let limiter = builder.clock(Clock::manual().0).build()?;
    /// assert!(!limiter.check_n(25).is_allowed());
    /// assert!(limiter.check_in_debt(25, 20)?.is_allowed());
    /// assert_eq!(limiter.check().retry_after(), Some(Duration::from_millis(1_600)));
    /// assert_eq!(limiter.check_in_debt(5, 20)?.remaining(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_in_debt(&self, cost: u64, debt: u64) -> Result<Decision, DebtError> {
        debt::check(self.target(), cost, debt, self.timer.read())
    }

    /// [`check_in_debt`](Limiter::check_in_debt) at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`check_in_debt`](Limiter::check_in_debt).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1))?;
    /// assert!(limiter.check_in_debt_at(3, 2, 0)?.is_allowed());
    /// assert!(!limiter.check_at(1, 2_999_999_999).is_allowed());
    /// assert!(limiter.check_at(1, 3_000_000_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_in_debt_at(&self, cost: u64, debt: u64, now: u64) -> Result<Decision, DebtError> {
        debt::check(self.target(), cost, debt, (now, 1))
    }

    /// Charges so many tokens for bad behaviour, whether they are there or not. Not counted as a
    /// decision. What is owed in all is cut to nine years of the rate.
    ///
    /// # Errors
    ///
    /// [`DebtError`] if the algorithm is no bucket.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Limiter, Quota};
    ///
    /// let builder = Limiter::builder(Quota::per_second(10));
    /// let limiter = builder.clock(Clock::manual().0).build()?;
    /// limiter.penalize(30)?;
    /// limiter.refund(5);
    /// assert_eq!(limiter.check().retry_after(), Some(Duration::from_millis(2_100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn penalize(&self, tokens: u64) -> Result<(), DebtError> {
        self.penalize_at(tokens, self.timer.now())
    }

    /// [`penalize`](Limiter::penalize) at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`penalize`](Limiter::penalize).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1))?;
    /// limiter.penalize_at(2, 0)?;
    /// assert!(!limiter.check_at(1, 1_999_999_999).is_allowed());
    /// assert!(limiter.check_at(1, 2_000_000_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn penalize_at(&self, tokens: u64, now: u64) -> Result<(), DebtError> {
        debt::penalize(self.target(), tokens, now)
    }

    /// Refuses the limiter every token for so long; up to nine years. Of two bans the longer holds, and no
    /// refund shortens one; [`reset`](Limiter::reset) lifts it. At its end the bucket is empty, and
    /// tokens come back from then on.
    ///
    /// A call that may take on a debt passes a ban that is no further ahead than its debt, and what a
    /// [`LeaseHandle`](crate::LeaseHandle) holds already may still be spent.
    ///
    /// A ban lasts as long by the quota that is in force when it is laid; a change to another rate
    /// stretches or shortens it with everything else that is owed, and a larger burst shortens it by what
    /// it is larger. Under a limit of 0 it has no end. One that ends before what is owed does adds a unit.
    ///
    /// # Errors
    ///
    /// [`DebtError`] if the algorithm is no bucket.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Limiter, Quota};
    ///
    /// let (clock, time) = Clock::manual();
    /// let builder = Limiter::builder(Quota::per_second(10));
    /// let limiter = builder.clock(clock).build()?;
    /// limiter.ban(Duration::from_secs(60))?;
    /// assert_eq!(limiter.check().retry_after(), Some(Duration::from_millis(60_100)));
    /// time.advance(Duration::from_millis(60_100));
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ban(&self, time: Duration) -> Result<(), DebtError> {
        let now = self.timer.now();
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.ban_at(now.saturating_add(nanos), now)
    }

    /// [`ban`](Limiter::ban) at a time of the caller's, until another.
    ///
    /// # Errors
    ///
    /// As [`ban`](Limiter::ban).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1_000_000))?;
    /// limiter.ban_at(7_000, 0)?;
    /// assert!(!limiter.check_at(1, 7_999).is_allowed());
    /// assert!(limiter.check_at(1, 8_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ban_at(&self, until: u64, now: u64) -> Result<(), DebtError> {
        debt::ban(self.target(), until, now)
    }
}
