//! Why a limiter cannot be leased from.

use core::fmt;
use core::time::Duration;

use crate::algorithm::Algorithm;

/// Why a limiter cannot be leased from. Each names the value and what would do.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Algorithm, Leases, Limiter, Quota};
///
/// let builder = Limiter::builder(Quota::per_second(10)).algorithm(Algorithm::FixedWindow);
/// let error = builder.build()?.leased(Leases::of(Duration::from_millis(10))).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "leases: the limiter has FixedWindow; they need TokenBucket or Gcra"
/// );
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseError {
    /// A window's tokens come back all at once, so that a lease has no term in which it is as good as
    /// earned; and each call of a leaky bucket has a place of its own in the queue.
    Algorithm {
        /// The limiter's algorithm.
        algorithm: Algorithm,
    },
    /// The term is zero or longer than 64 bits of nanoseconds.
    Term {
        /// The term asked for.
        term: Duration,
    },
    /// The largest lease is of no token.
    Largest,
    /// The clock is to be read before no token.
    ClockEvery,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseError::Algorithm { algorithm } => {
                write!(f, "leases: the limiter has {algorithm:?}; they need TokenBucket or Gcra")
            }
            LeaseError::Term { term } => {
                let max = Duration::from_nanos(u64::MAX);
                write!(f, "leases: a term of {term:?}; it must be from 1ns to {max:?} (584 years)")
            }
            LeaseError::Largest => {
                f.write_str("leases: the largest is of 0 tokens; it must be of at least 1")
            }
            LeaseError::ClockEvery => {
                f.write_str("leases: the clock is read every 0 tokens; it must be at least 1")
            }
        }
    }
}

impl core::error::Error for LeaseError {}
