//! How a call waits.

use core::time::Duration;
use std::hash::{BuildHasher, RandomState};

/// The longest wait unless another is asked for.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How a call waits: at most how long, and with how much jitter.
///
/// The default is at most ten seconds, without jitter. The longest wait is also the longest line: a call
/// whose turn would come later is refused at once. Keep it small where callers may leave together,
/// as a line that they leave stands empty for up to so long (see [`Turn`](crate::Turn)).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Quota, WaitOptions};
///
/// const BRIEFLY: WaitOptions = WaitOptions::new().within(Duration::from_millis(50));
/// let limiter = Limiter::new(Quota::per_second(100).burst(1))?;
/// limiter.wait_with(1, BRIEFLY)?;
/// limiter.wait_with(1, BRIEFLY)?; // ten milliseconds later
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOptions {
    pub(super) max: Duration,
    pub(super) jitter: Duration,
}

impl WaitOptions {
    /// The default options.
    ///
    /// ```
    /// # use tollgate::WaitOptions;
    /// assert_eq!(WaitOptions::new(), WaitOptions::default());
    /// ```
    #[must_use]
    pub const fn new() -> WaitOptions {
        WaitOptions { max: WAIT_MAX, jitter: Duration::ZERO }
    }

    /// Waits at most so long; from zero, which is a plain check, to the nine years that a key can owe.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, WaitOptions};
    /// let limiter = Limiter::new(Quota::per_hour(1))?;
    /// let options = WaitOptions::new().within(Duration::ZERO);
    /// assert!(limiter.wait_with(1, options).is_ok());
    /// assert!(limiter.wait_with(1, options).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn within(self, max: Duration) -> WaitOptions {
        WaitOptions { max, ..self }
    }

    /// Adds up to so much to the wait of a call that has to wait, at random, evenly. It comes on top of
    /// the turn, and of the longest wait: never earlier, and in an interval of length t up to
    /// what the quota admits in t and the jitter. The calls of a leaky bucket no longer leave evenly.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, WaitOptions};
    /// let limiter = Limiter::new(Quota::per_second(1000))?;
    /// limiter.wait_with(1, WaitOptions::new().jitter(Duration::from_millis(1)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn jitter(self, jitter: Duration) -> WaitOptions {
        WaitOptions { jitter, ..self }
    }

    /// One call's jitter.
    pub(super) fn extra(&self) -> Duration {
        if self.jitter.is_zero() {
            return Duration::ZERO;
        }
        // Every `RandomState` hashes by keys of its own.
        let parts = RandomState::new().hash_one(self.jitter);
        let nanos = self.jitter.as_nanos().min(u128::from(u64::MAX));
        Duration::from_nanos(((nanos * u128::from(parts)) >> 64) as u64)
    }
}

impl Default for WaitOptions {
    fn default() -> WaitOptions {
        WaitOptions::new()
    }
}
