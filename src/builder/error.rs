//! Why a limiter could not be built.

use core::fmt;

use crate::algorithm::Algorithm;
use crate::memory::BuildMemoryError;
use crate::quota::QuotaError;

/// Why a limiter could not be built.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
///
/// let error = KeyedLimiter::<str>::builder(Quota::per_second(1)).capacity(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "capacity: 0 keys; it must be at least 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The algorithm cannot count the quota.
    Quota(QuotaError),
    /// The capacity is 0.
    Capacity,
    /// The algorithm cannot give back what a permit has charged: a log keeps every token until it ages
    /// out, and the calls of a leaky bucket have been told when to leave.
    Permits {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// There is not enough memory for the capacity.
    Memory {
        /// The bytes that the table needs.
        bytes: u128,
        /// The bytes that are available, where the system tells.
        available: Option<u64>,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Quota(error) => error.fmt(f),
            BuildError::Capacity => f.write_str("capacity: 0 keys; it must be at least 1"),
            BuildError::Permits { algorithm } => write!(
                f,
                "permits: {algorithm:?} cannot give tokens back; it must be TokenBucket, Gcra, \
                 FixedWindow or SlidingWindowCounter"
            ),
            BuildError::Memory { bytes, available: Some(available) } => {
                write!(f, "memory: the table needs {bytes} bytes, and {available} are available")
            }
            BuildError::Memory { bytes, available: None } => {
                write!(f, "memory: the table needs {bytes} bytes, more than can be had")
            }
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            BuildError::Quota(error) => Some(error),
            BuildError::Capacity | BuildError::Permits { .. } | BuildError::Memory { .. } => None,
        }
    }
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> BuildError {
        BuildError::Quota(error)
    }
}

impl From<BuildMemoryError> for BuildError {
    fn from(error: BuildMemoryError) -> BuildError {
        BuildError::Memory { bytes: error.bytes, available: error.available }
    }
}
