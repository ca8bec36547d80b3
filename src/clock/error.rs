//! Why a coarse clock could not be had.

use core::fmt;
use core::time::Duration;

/// Why a coarse clock could not be had.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
///
/// let error = Clock::coarse(Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "coarse clock: a tick of 0ns; it must be from 100µs to 1s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockError {
    /// The tick is out of range.
    Tick {
        /// The tick asked for.
        tick: Duration,
    },
    /// The thread could not be started: the system has none left.
    Start,
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockError::Tick { tick } => {
                write!(f, "coarse clock: a tick of {tick:?}; it must be from 100µs to 1s")
            }
            ClockError::Start => {
                write!(f, "coarse clock: its thread could not be started; ")?;
                write!(f, "use Clock::precise, which needs none")
            }
        }
    }
}

impl core::error::Error for ClockError {}
