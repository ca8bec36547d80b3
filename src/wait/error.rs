//! Why a call does not wait.

use core::fmt;
use core::time::Duration;

use crate::algorithm::Algorithm;

/// Why a call does not wait, or no longer. Nothing is charged then.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Limiter, Quota, WaitError};
///
/// let limiter = Limiter::builder(Quota::per_minute(1)).clock(Clock::manual().0).build()?;
/// limiter.check();
/// let error = limiter.wait().unwrap_err();
/// let (wait, max) = (Duration::from_secs(60), Duration::from_secs(10));
/// assert_eq!(error, WaitError::TooLong { wait, max });
/// assert_eq!(error.to_string(), "wait: the turn is in 60s; the call waits at most 10s");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The turn would come later than the call may wait for it.
    TooLong {
        /// The wait for a turn, had the call been made by one who may wait so long.
        wait: Duration,
        /// The longest wait that was allowed.
        max: Duration,
    },
    /// No turn would ever come: the cost is above the burst, or the tokens are spent and the limit
    /// is 0. Also of a call that waits already, when the quota is changed so.
    Never {
        /// The cost asked for.
        cost: u64,
        /// The burst.
        burst: u64,
    },
    /// There is no place: the queue of a leaky bucket is full, or the table has no cell for the key.
    Full {
        /// When there is one again, nobody else having called; `None` for never.
        retry_after: Option<Duration>,
    },
    /// Only buckets have lines: [`Algorithm::TokenBucket`], [`Algorithm::Gcra`] and
    /// [`Algorithm::LeakyBucket`].
    Algorithm {
        /// The limiter's algorithm.
        algorithm: Algorithm,
    },
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WaitError::TooLong { wait, max } => {
                write!(f, "wait: the turn is in {wait:?}; the call waits at most {max:?}")
            }
            WaitError::Never { cost, burst } if cost > burst => {
                write!(f, "wait: a cost of {cost}; it must be at most the burst, {burst}")
            }
            WaitError::Never { .. } => f.write_str("wait: no token ever comes back"),
            WaitError::Full { retry_after: Some(wait) } => {
                write!(f, "wait: there is no place to wait at; one may be free in {wait:?}")
            }
            WaitError::Full { retry_after: None } => {
                f.write_str("wait: there is no place to wait at, and none will be free")
            }
            WaitError::Algorithm { algorithm } => {
                write!(f, "wait: needs a bucket algorithm, the limiter has {algorithm:?}")
            }
        }
    }
}

impl core::error::Error for WaitError {}
