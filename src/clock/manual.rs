//! A clock that is moved by hand.

use core::time::Duration;
use std::sync::Arc;

use crate::probe::Site;
use crate::sync::{Acquire, Nanos, Relaxed, Release};

/// Moves the time of a [`Clock::manual`](crate::Clock::manual). Clones move the same time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
///
/// let (_clock, time) = Clock::manual();
/// time.advance(Duration::from_secs(2));
/// time.set(Duration::from_secs(1)); // it may go back
/// assert_eq!(time.now(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    pub(super) nanos: Arc<Nanos>,
}

impl ManualClock {
    /// Moves the time forward, to 584 years at the most.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Clock;
    /// let (_clock, time) = Clock::manual();
    /// time.advance(Duration::from_millis(5));
    /// assert_eq!(time.now(), Duration::from_millis(5));
    /// ```
    pub fn advance(&self, by: Duration) {
        let by = nanos(by);
        let forward = |now: u64| Some(now.saturating_add(by));
        // Release: as in `set`. The closure never declines.
        let _ = self.nanos.fetch_update(Release.at("clock/advance"), Relaxed, forward);
    }

    /// Sets the time since the start, forward or back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Clock;
    /// let (_clock, time) = Clock::manual();
    /// time.set(Duration::from_secs(60));
    /// assert_eq!(time.now(), Duration::from_secs(60));
    /// ```
    pub fn set(&self, to: Duration) {
        // Release: what was done before the time was moved is seen by who reads the new time.
        // Pairs with the Acquire in `Timer::read_slowly`.
        self.nanos.store(nanos(to), Release.at("clock/set"));
    }

    /// The time since the start.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Clock;
    /// assert_eq!(Clock::manual().1.now(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn now(&self) -> Duration {
        // Acquire: as in `Timer::read_slowly`.
        Duration::from_nanos(self.nanos.load(Acquire.at("clock/now")))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
