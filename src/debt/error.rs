//! Why a key cannot owe more than its burst.

use core::fmt;

use crate::algorithm::Algorithm;

/// Why a debt, a penalty or a ban could not be put down. Nothing is charged then.
///
/// ```
/// use tollgate::{Algorithm, DebtError, Limiter, Quota};
///
/// let builder = Limiter::builder(Quota::per_second(10)).algorithm(Algorithm::FixedWindow);
/// let error = builder.build()?.penalize(5).unwrap_err();
/// assert_eq!(error, DebtError::Algorithm { algorithm: Algorithm::FixedWindow });
/// assert_eq!(
///     error.to_string(),
///     "debt: the limiter has FixedWindow; it needs TokenBucket, Gcra or LeakyBucket"
/// );
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebtError {
    /// Only buckets can owe: [`Algorithm::TokenBucket`], [`Algorithm::Gcra`] and
    /// [`Algorithm::LeakyBucket`].
    Algorithm {
        /// The limiter's algorithm.
        algorithm: Algorithm,
    },
    /// The table has no cell for a key that is to be punished.
    Full,
}

impl fmt::Display for DebtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DebtError::Algorithm { algorithm } => write!(
                f,
                "debt: the limiter has {algorithm:?}; it needs TokenBucket, Gcra or LeakyBucket"
            ),
            DebtError::Full => f.write_str("debt: the table has no cell for the key"),
        }
    }
}

impl core::error::Error for DebtError {}
