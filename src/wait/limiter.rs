//! The verbs of a limiter of one state.

use core::time::Duration;

use crate::limiter::Limiter;
use crate::wait::error::WaitError;
use crate::wait::options::WaitOptions;
use crate::wait::sleep::{block_until_ready, sleep_until_ready};
use crate::wait::sleeper::Sleeper;
use crate::wait::turn::Turn;

impl Limiter {
    /// Waits for its turn and takes a token: `until_ready_n(1, sleeper)`.
    ///
    /// ```
    /// # use std::future::{Ready, ready};
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, Sleeper, WaitError};
    /// # struct Blocking;
    /// # impl Sleeper for Blocking {
    /// #     type Sleep = Ready<()>;
    /// #     fn sleep(&self, wait: Duration) -> Ready<()> { std::thread::sleep(wait); ready(()) }
    /// # }
    /// async fn fetch(limiter: &Limiter, sleeper: impl Sleeper) -> Result<(), WaitError> {
    ///     limiter.until_ready(sleeper).await?;
    ///     // at the limiter's rate from here on
    ///     Ok(())
    /// }
    /// # let limiter = Limiter::new(Quota::per_second(1000).burst(1))?;
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # for _ in 0..2 {
    /// #     assert!(Box::pin(fetch(&limiter, Blocking)).as_mut().poll(&mut context).is_ready());
    /// # }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`until_ready_with`](Limiter::until_ready_with).
    pub fn until_ready<S: Sleeper>(
        &self,
        sleeper: S,
    ) -> impl Future<Output = Result<(), WaitError>> + use<'_, S> {
        self.until_ready_n(1, sleeper)
    }

    /// Waits for its turn and takes so many tokens, ten seconds at the most.
    ///
    /// # Errors
    ///
    /// As [`until_ready_with`](Limiter::until_ready_with).
    ///
    /// ```
    /// # use tollgate::{Limiter, Sleeper, WaitError};
    /// async fn send(limiter: &Limiter, size: u64, by: impl Sleeper) -> Result<(), WaitError> {
    ///     limiter.until_ready_n(size, by).await
    /// }
    /// ```
    pub fn until_ready_n<S: Sleeper>(
        &self,
        cost: u64,
        sleeper: S,
    ) -> impl Future<Output = Result<(), WaitError>> + use<'_, S> {
        self.until_ready_with(cost, sleeper, WaitOptions::new())
    }

    /// Waits for its turn and takes so many tokens, by other options. The call stands in line from the
    /// **first poll** of the future on, not from when it is made: one that is never polled costs
    /// nothing. [`Turn`] says what becomes of one that is dropped or forgotten, and of changes
    /// meanwhile. The call is counted as admitted when it is let into the line. A cost of 0 does
    /// not wait.
    ///
    /// Not for a call that has other things to wait for at the same time and may take whichever comes
    /// first: each attempt that is dropped may cost its tokens. Ask with
    /// [`check`](Limiter::check) there.
    ///
    /// # Errors
    ///
    /// [`WaitError`], before anything is charged, if the turn would come too late or never, or if there is
    /// no line; and while it waits, if a change of the quota puts the turn off for ever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Sleeper, WaitError, WaitOptions};
    /// const PATIENT: WaitOptions = WaitOptions::new().within(Duration::from_secs(60));
    ///
    /// async fn report(limiter: &Limiter, sleeper: impl Sleeper) -> Result<(), WaitError> {
    ///     limiter.until_ready_with(1, sleeper, PATIENT).await
    /// }
    /// ```
    pub fn until_ready_with<S: Sleeper>(
        &self,
        cost: u64,
        sleeper: S,
        options: WaitOptions,
    ) -> impl Future<Output = Result<(), WaitError>> + use<'_, S> {
        sleep_until_ready(self.target(), cost, sleeper, options)
    }

    /// Blocks the thread until its turn, and takes a token: `wait_n(1)`.
    ///
    /// # Errors
    ///
    /// As [`until_ready_with`](Limiter::until_ready_with).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(1000).burst(1))?;
    /// for _ in 0..3 {
    ///     limiter.wait()?; // a millisecond between two
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self) -> Result<(), WaitError> {
        self.wait_n(1)
    }

    /// Blocks the thread until its turn, ten seconds at the most, and takes so many tokens.
    ///
    /// # Errors
    ///
    /// As [`until_ready_with`](Limiter::until_ready_with).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, WaitError};
    /// let limiter = Limiter::new(Quota::per_second(1000).burst(5))?;
    /// limiter.wait_n(5)?;
    /// assert_eq!(limiter.wait_n(6), Err(WaitError::Never { cost: 6, burst: 5 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_n(&self, cost: u64) -> Result<(), WaitError> {
        self.wait_with(cost, WaitOptions::new())
    }

    /// Blocks the thread until its turn by other options, and takes so many tokens. It sleeps by the
    /// standard library, so the limiter's clock must go with real time: by a
    /// [manual](crate::Clock::manual) clock it waits until another thread moves that.
    ///
    /// # Errors
    ///
    /// As [`until_ready_with`](Limiter::until_ready_with).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, WaitOptions};
    /// let limiter = Limiter::new(Quota::per_second(1000).burst(1))?;
    /// limiter.wait_with(1, WaitOptions::new().within(Duration::from_millis(5)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_with(&self, cost: u64, options: WaitOptions) -> Result<(), WaitError> {
        block_until_ready(self.target(), cost, options)
    }

    /// Takes a place in the line, for at most so long: see [`Turn`].
    ///
    /// # Errors
    ///
    /// [`WaitError`], before anything is charged, if the turn would come too late or never, or if there is
    /// no line.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10).burst(1))?;
    /// let mut turn = limiter.line_up(1, Duration::from_secs(1))?;
    /// assert_eq!(turn.remaining()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn line_up(&self, cost: u64, max: Duration) -> Result<Turn<'_>, WaitError> {
        self.line_up_at(cost, max, self.timer.now())
    }

    /// [`line_up`](Limiter::line_up) at a time of the caller's, in nanoseconds of the limiter.
    ///
    /// # Errors
    ///
    /// As [`line_up`](Limiter::line_up).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, WaitError};
    /// let limiter = Limiter::new(Quota::per_second(10).burst(1))?;
    /// limiter.check_at(1, 0);
    /// let (wait, max) = (Duration::from_millis(100), Duration::from_millis(99));
    /// assert_eq!(limiter.line_up_at(1, max, 0).err(), Some(WaitError::TooLong { wait, max }));
    /// assert!(limiter.line_up_at(1, wait, 0).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn line_up_at(&self, cost: u64, max: Duration, now: u64) -> Result<Turn<'_>, WaitError> {
        Turn::new(self.target(), cost, max, now)
    }
}
