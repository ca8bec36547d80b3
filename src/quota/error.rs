//! Why a quota cannot be used.

use core::fmt;
use core::time::Duration;

use crate::algorithm::Algorithm;

/// Why a quota cannot be used. Each names the value and what would fit.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Quota};
///
/// let error = Limiter::new(Quota::new(1, Duration::ZERO)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "quota: a period of 0ns; it must be from 1ns to 18446744073.709551615s (584 years)"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The period is zero or longer than 64 bits of nanoseconds.
    Period {
        /// The period asked for.
        period: Duration,
    },
    /// More tokens come back than can be counted: over 16 a nanosecond, or over one for GCRA.
    Rate {
        /// The limit asked for.
        limit: u64,
        /// The most that fits this period.
        limit_max: u64,
    },
    /// A token takes longer to come back than the nine years that a word can hold.
    Slow {
        /// The time that a token takes.
        interval: Duration,
    },
    /// Refilling the burst would take longer than the nine years that a word can hold.
    Burst {
        /// The burst asked for, in tokens.
        burst: u64,
        /// The most that fits this rate.
        burst_max: u64,
    },
    /// The window's index and count do not fit the word for ten years.
    Window {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
        /// The limit asked for.
        limit: u64,
        /// The most that fits this window.
        limit_max: u64,
    },
    /// A sliding log cannot be shaped so.
    Log {
        /// The largest limit asked for: the ring's length.
        ring: u64,
        /// The largest ring there is.
        ring_max: u64,
        /// The largest cost asked for; at most the largest limit.
        cost_max: u64,
    },
    /// The limit is beyond the sliding log's ring.
    LogLimit {
        /// The limit asked for.
        limit: u64,
        /// What the ring holds: the largest limit, chosen when the limiter was built.
        ring: u64,
    },
    /// The window is too short for the sliding log's tick, or too long for its range.
    LogWindow {
        /// The window asked for.
        period: Duration,
        /// The shortest that fits, in nanoseconds: 1024 ticks.
        window_min: u64,
        /// The longest that fits, in nanoseconds.
        window_max: u64,
    },
    /// A quota per call needs [`Algorithm::Gcra`](crate::Algorithm::Gcra), whose word does not depend on the quota.
    PerCall {
        /// The limiter's algorithm.
        algorithm: Algorithm,
    },
    /// The limiter is asked with a quota per call (`check_with`), so its debts are times that
    /// belong to no one quota, and a change of its own rate cannot settle them.
    AskedPerCall,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QuotaError::Period { period } => {
                let max = Duration::from_nanos(u64::MAX);
                write!(
                    f,
                    "quota: a period of {period:?}; it must be from 1ns to {max:?} (584 years)"
                )
            }
            QuotaError::Rate { limit, limit_max } => {
                write!(
                    f,
                    "quota: a limit of {limit}; with this period it must be at most {limit_max}"
                )
            }
            QuotaError::Slow { interval } => {
                write!(f, "quota: a token every {interval:?}; it must be at most 9.1 years")
            }
            QuotaError::Burst { burst, burst_max } => {
                write!(f, "quota: a burst of {burst}; at this rate it must be at most ")?;
                write!(f, "{burst_max} (nine years of tokens)")
            }
            QuotaError::Window { algorithm, limit, limit_max } => {
                write!(
                    f,
                    "quota: a limit of {limit}; with this window {algorithm:?} counts up to "
                )?;
                write!(f, "{limit_max} (a token bucket has no such bound)")
            }
            QuotaError::Log { ring, ring_max, cost_max } => {
                write!(f, "sliding log: a limit of up to {ring} at a cost of up to {cost_max}; ")?;
                write!(f, "the limit must be at most {ring_max}, and the cost at most the limit")
            }
            QuotaError::LogLimit { limit, ring } => {
                write!(
                    f,
                    "quota: a limit of {limit}; the sliding log was built for up to {ring} "
                )?;
                write!(f, "(see log_limit)")
            }
            QuotaError::LogWindow { period, window_min, window_max } => {
                let (min, max) =
                    (Duration::from_nanos(window_min), Duration::from_nanos(window_max));
                write!(
                    f,
                    "quota: a window of {period:?}; this sliding log needs {min:?} to {max:?} "
                )?;
                write!(f, "(a smaller log_limit or log_cost has finer ticks)")
            }
            QuotaError::PerCall { algorithm } => {
                write!(f, "quota per call: needs Algorithm::Gcra, the limiter has {algorithm:?}")
            }
            QuotaError::AskedPerCall => {
                write!(f, "quota: the limiter is asked with a quota per call; ")?;
                write!(f, "change the quota that the calls bring instead")
            }
        }
    }
}

impl core::error::Error for QuotaError {}
