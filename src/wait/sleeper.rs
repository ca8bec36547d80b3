//! Timers: how a call that waits is woken.

use core::future::Future;
use core::time::Duration;

/// A source of timers, which is all that waiting needs of a runtime.
///
/// A timer may end early or late, however much: whoever wakes looks at the limiter's clock, and sleeps
/// on if its turn has not come. Late timers let calls go together that should have gone one by one:
/// with timers that are up to `late` late, at most `burst + (t + late) * limit / period` leave in an
/// interval of length t. No timer of a millisecond smooths a rate above a thousand a second. A timer
/// should run as fast as the limiter's clock; where that stands still, the call waits for ever.
///
/// Of no use to the blocking calls, which sleep by the standard library.
///
/// ```
/// use std::future::{Ready, ready};
/// use std::time::Duration;
/// use tollgate::Sleeper;
///
/// /// Blocks the thread instead, as a command line tool may.
/// struct Blocking;
///
/// impl Sleeper for Blocking {
///     type Sleep = Ready<()>;
///
///     fn sleep(&self, wait: Duration) -> Ready<()> {
///         std::thread::sleep(wait);
///         ready(())
///     }
/// }
/// ```
pub trait Sleeper {
    /// A timer that runs. Dropped, it should leave nothing behind.
    type Sleep: Future<Output = ()>;

    /// Starts a timer that ends after `wait`, which is an hour at the most.
    ///
    /// ```
    /// # use std::future::{Ready, ready};
    /// # use std::time::Duration;
    /// # use tollgate::Sleeper;
    /// # struct Never;
    /// # impl Sleeper for Never {
    /// #     type Sleep = Ready<()>;
    /// #     fn sleep(&self, _: Duration) -> Ready<()> { ready(()) }
    /// # }
    /// fn nap<S: Sleeper>(sleeper: &S) -> S::Sleep {
    ///     sleeper.sleep(Duration::from_millis(1))
    /// }
    /// # let _ = nap(&Never);
    /// ```
    fn sleep(&self, wait: Duration) -> Self::Sleep;
}

impl<S: Sleeper + ?Sized> Sleeper for &S {
    type Sleep = S::Sleep;

    fn sleep(&self, wait: Duration) -> S::Sleep {
        (**self).sleep(wait)
    }
}

/// The timers of tokio, by the feature `tokio`: rounded up to a millisecond.
///
/// As tokio has it, they need a runtime with its time driver on (`enable_time`), and without one they
/// panic; a call that panics so leaves its place in the line as one that is dropped.
///
/// ```
/// use tollgate::{Limiter, Quota, TokioSleeper};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let limiter = Limiter::new(Quota::per_second(500).burst(1))?;
/// for _ in 0..3 {
///     limiter.until_ready(TokioSleeper).await?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSleeper;

#[cfg(feature = "tokio")]
impl Sleeper for TokioSleeper {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, wait: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(wait)
    }
}

/// The timers of the crate `futures-timer`, by the feature of the same name: on any runtime, from a
/// thread of its own.
///
/// ```
/// use tollgate::{FuturesTimerSleeper, Limiter, Quota};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let limiter = Limiter::new(Quota::per_second(500).burst(1))?;
/// for _ in 0..3 {
///     limiter.until_ready(FuturesTimerSleeper).await?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "futures-timer")]
#[derive(Clone, Copy, Debug, Default)]
pub struct FuturesTimerSleeper;

#[cfg(feature = "futures-timer")]
impl Sleeper for FuturesTimerSleeper {
    type Sleep = futures_timer::Delay;

    fn sleep(&self, wait: Duration) -> futures_timer::Delay {
        futures_timer::Delay::new(wait)
    }
}
