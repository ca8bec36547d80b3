//! Why there is no permit, or nothing to settle.

use core::fmt;

use crate::decision::Decision;

/// Why a limiter has given no permit. Nothing is charged then.
///
/// ```
/// use tollgate::{Limiter, Quota, ReserveError};
///
/// let limiter = Limiter::new(Quota::per_hour(10))?;
/// let error = limiter.reserve(4).unwrap_err();
/// assert!(matches!(error, ReserveError::WithoutPermits));
/// assert_eq!(error.to_string(), "reserve: the limiter was built without permits");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ReserveError {
    /// The quota refuses, as it would a check of the estimate: this is its answer.
    Refused(Decision),
    /// The limiter was built without [`permits`](crate::KeyedBuilder::permits).
    WithoutPermits,
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Refused(decision) => match decision.retry_after() {
                Some(wait) => write!(f, "reserve: refused for another {wait:?}"),
                None => write!(f, "reserve: refused for ever; the limit is {}", decision.limit()),
            },
            ReserveError::WithoutPermits => {
                f.write_str("reserve: the limiter was built without permits")
            }
        }
    }
}

impl core::error::Error for ReserveError {}

/// Why a detached permit was not settled. Nothing happens then.
///
/// ```
/// use tollgate::{Limiter, Permits, Quota, SettleError};
///
/// let builder = Limiter::builder(Quota::per_hour(10)).permits(Permits::new());
/// let (one, other) = (builder.clone().build()?, builder.build()?);
/// let permit = one.reserve(4)?.detach();
/// assert_eq!(other.commit(&permit, 1), Err(SettleError::OtherLimiter));
/// assert_eq!(one.commit(&permit, 1), Ok(0));
/// let error = one.commit(&permit, 1).unwrap_err();
/// assert_eq!(error.to_string(), "settle: the permit was settled before");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettleError {
    /// Somebody has settled it before.
    AlreadySettled,
    /// It is of another limiter.
    OtherLimiter,
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettleError::AlreadySettled => "settle: the permit was settled before",
            SettleError::OtherLimiter => "settle: the permit is of another limiter",
        })
    }
}

impl core::error::Error for SettleError {}
