//! The builders: every choice that a limiter is made with, and the errors of a bad one.

mod error;
mod keyed;
mod overflow;

use core::time::Duration;

pub use error::BuildError;
pub use keyed::KeyedBuilder;
pub use overflow::Overflow;

use crate::algorithm::Algorithm;
use crate::algorithm::sliding_log::Shape;
use crate::clock::{Clock, Timer};
use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::quota::Quota;
use crate::settle::Permits;

/// The choices common to both limiters.
#[derive(Clone, Debug)]
struct Choices {
    quota: Quota,
    algorithm: Algorithm,
    clock: Clock,
    origin: Option<Duration>,
    /// The largest limit of a sliding log, if it is not the quota's.
    log_limit: Option<u64>,
    log_cost: u64,
    permits: Option<Permits>,
}

impl Choices {
    fn new(quota: Quota) -> Choices {
        let (algorithm, clock) = (Algorithm::default(), Clock::default());
        Choices {
            quota,
            algorithm,
            clock,
            origin: None,
            log_limit: None,
            log_cost: 1,
            permits: None,
        }
    }

    /// The policy and the clock, started.
    fn start(&self) -> Result<(Policy, Timer), BuildError> {
        let algorithm = self.algorithm;
        let is_final = matches!(algorithm, Algorithm::LeakyBucket | Algorithm::SlidingWindowLog);
        if is_final && self.permits.is_some() {
            return Err(BuildError::Permits { algorithm });
        }
        let (timer, unix) = self.clock.start();
        let nanos = |origin: Duration| u64::try_from(origin.as_nanos()).unwrap_or(u64::MAX);
        let unix = self.origin.map_or(unix, nanos);
        let shape = match self.algorithm {
            Algorithm::SlidingWindowLog => Shape {
                ring: self.log_limit.unwrap_or(self.quota.limit()).max(1),
                cost_max: self.log_cost.max(1),
            },
            _ => Shape::default(),
        };
        Ok((Policy::new(self.algorithm, &self.quota, shape, unix)?, timer))
    }
}

/// Makes a [`Limiter`]: see [`Limiter::builder`].
///
/// ```
/// use tollgate::{Algorithm, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(100)).algorithm(Algorithm::Gcra).build()?;
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder(Choices);

impl Builder {
    pub(crate) fn new(quota: Quota) -> Builder {
        Builder(Choices::new(quota))
    }

    /// The algorithm: [`Algorithm::TokenBucket`] unless set.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(1)).algorithm(Algorithm::LeakyBucket);
    /// assert!(builder.build()?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn algorithm(mut self, algorithm: Algorithm) -> Builder {
        self.0.algorithm = algorithm;
        self
    }

    /// The clock: [`Clock::precise`] unless set.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(1)).clock(Clock::manual().0);
    /// assert!(builder.build()?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.0.clock = clock;
        self
    }

    /// The limiter's time 0 as a time since the Unix epoch, to which windows are aligned. Unless
    /// set it is the wall clock's time at build, or 0 for a manual clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Clock, Limiter, Quota};
    ///
    /// // Time 0 lies 40 s into a minute, so the window ends after 20 s.
    /// let limiter = Limiter::builder(Quota::per_minute(5))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual().0)
    ///     .origin(Duration::from_secs(100))
    ///     .build()?;
    /// assert_eq!(limiter.check().reset_after(), Some(Duration::from_secs(20)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn origin(mut self, since_unix_epoch: Duration) -> Builder {
        self.0.origin = Some(since_unix_epoch);
        self
    }

    /// The largest limit that a sliding log can be given: see [`KeyedBuilder::log_limit`].
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(5)).algorithm(Algorithm::SlidingWindowLog);
    /// let limiter = builder.log_limit(10).build()?;
    /// assert!(limiter.set_quota(Quota::per_second(10)).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_limit(mut self, limit: u64) -> Builder {
        self.0.log_limit = Some(limit);
        self
    }

    /// The largest cost that a sliding log admits: see [`KeyedBuilder::log_cost`].
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(5)).algorithm(Algorithm::SlidingWindowLog);
    /// assert!(builder.log_cost(3).build()?.check_n(3).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_cost(mut self, cost: u64) -> Builder {
        self.0.log_cost = cost;
        self
    }

    /// Builds the limiter for calls whose cost is known only afterwards: see [`Permit`](crate::Permit).
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// limiter.reserve(8)?.commit(3);
    /// assert_eq!(limiter.peek().remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permits(mut self, permits: Permits) -> Builder {
        self.0.permits = Some(permits);
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    ///
    /// * [`BuildError::Quota`] if the algorithm cannot count the quota;
    /// * [`BuildError::Permits`] if it cannot give back what permits have charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let error = Limiter::builder(Quota::per_second(u64::MAX)).build().unwrap_err();
    /// assert!(error.to_string().contains("at most 16000000000"));
    /// ```
    pub fn build(self) -> Result<Limiter, BuildError> {
        let (policy, timer) = self.0.start()?;
        Ok(Limiter::from_parts(policy, timer, self.0.permits)?)
    }
}
