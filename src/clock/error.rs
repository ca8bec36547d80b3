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
/// assert_eq!(error.to_string(), "coarse clock: a tick of 0ns; it must be from 1ns to 1s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockError {
    /// The tick is out of range.
    Tick {
        /// The tick asked for.
        tick: Duration,
    },
    /// The process has a coarse clock already, with another tick.
    Running {
        /// The tick of the clock that runs.
        tick: Duration,
    },
    /// The kernel does not keep time by the processor's counter, which a coarse clock needs.
    Counter,
    /// The thread could not be started: another part of the process runs quanta's upkeep, or the
    /// system has no thread left.
    Start,
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockError::Tick { tick } => {
                write!(f, "coarse clock: a tick of {tick:?}; it must be from 1ns to 1s")
            }
            ClockError::Running { tick } => {
                write!(f, "coarse clock: one with a tick of {tick:?} is running; ")?;
                write!(f, "use the same tick, or drop its handle first")
            }
            ClockError::Counter => {
                write!(f, "coarse clock: the kernel does not trust the processor's counter; ")?;
                write!(f, "use Clock::precise, which then reads the system's clock")
            }
            ClockError::Start => {
                write!(f, "coarse clock: its thread could not be started; ")?;
                write!(f, "is quanta's upkeep running in this process already?")
            }
        }
    }
}

impl core::error::Error for ClockError {}
