//! What several limits said together.

use core::fmt;
use core::time::Duration;

use crate::joint::Ask;

/// The answer of several limits to one call: see [`check_all`](crate::check_all).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Quota, check_all_at};
///
/// let (often, rarely) = (Limiter::new(Quota::per_second(2))?, Limiter::new(Quota::per_hour(3))?);
/// let mut asks = [often.ask(2), rarely.ask(2)];
/// let first = check_all_at(&mut asks, 0);
/// assert!(first.is_allowed());
/// assert_eq!(first.remaining(), 0);
///
/// let second = check_all_at(&mut asks, 0);
/// assert_eq!(second.refused_by(), Some(1));
/// assert_eq!(second.retry_after(), Some(Duration::from_secs(1200)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct JointDecision {
    refused_by: Option<usize>,
    tightest: Spare,
    retry_after: Option<Duration>,
    delay: Duration,
}

/// What can be spent of a limit: so many units, of which a token has so many. The division is left to
/// who asks for tokens.
#[derive(Clone, Copy)]
pub(crate) struct Spare {
    pub(crate) units: u64,
    pub(crate) unit: u64,
}

impl Spare {
    /// The one with fewer tokens.
    #[inline]
    fn tighter(self, other: Spare) -> Spare {
        let across = |a: Spare, b: Spare| u128::from(a.units) * u128::from(b.unit);
        if across(other, self) < across(self, other) { other } else { self }
    }
}

impl JointDecision {
    /// Of asks that have been answered.
    #[inline]
    pub(super) fn of(asks: &[Ask<'_>]) -> JointDecision {
        let mut joint = JointDecision {
            refused_by: None,
            tightest: Spare { units: u64::MAX, unit: 1 },
            retry_after: Some(Duration::ZERO),
            delay: Duration::ZERO,
        };
        for (at, ask) in asks.iter().enumerate() {
            joint.tightest = joint.tightest.tighter(ask.spare());
            if ask.outcome().is_allowed() {
                joint.delay = joint.delay.max(ask.delay());
            } else {
                joint.refuse(at, ask.decision().retry_after());
            }
        }
        if joint.refused_by.is_some() {
            joint.delay = Duration::ZERO;
        }
        joint
    }

    #[cold]
    fn refuse(&mut self, at: usize, wait: Option<Duration>) {
        // Never is the longest wait of all; and every other is longer than none.
        let is_longer = self.retry_after.is_some_and(|longest| wait.is_none_or(|w| w > longest));
        if is_longer {
            (self.retry_after, self.refused_by) = (wait, Some(at));
        }
    }

    /// Whether the call may go ahead. If not, no limit was charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, check_all};
    /// assert!(!check_all(&mut [Limiter::new(Quota::per_second(0))?.ask(1)]).is_allowed());
    /// assert!(check_all(&mut []).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.refused_by.is_none()
    }

    /// Which of the asks refused: of several, the one to wait for the longest.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, check_all};
    /// let (wide, narrow) = (Limiter::new(Quota::per_hour(9))?, Limiter::new(Quota::per_hour(0))?);
    /// assert_eq!(check_all(&mut [wide.ask(1), narrow.ask(1)]).refused_by(), Some(1));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn refused_by(&self) -> Option<usize> {
        self.refused_by
    }

    /// The fewest tokens that remain with any of the limits, after the call; `u64::MAX` where none
    /// was asked.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, check_all};
    /// let (wide, narrow) = (Limiter::new(Quota::per_hour(9))?, Limiter::new(Quota::per_hour(3))?);
    /// assert_eq!(check_all(&mut [wide.ask(1), narrow.ask(1)]).remaining(), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.tightest.units / self.tightest.unit.max(1)
    }

    /// How long to wait before all limits admit the same call, nobody else having called: the
    /// longest of their waits, zero if the call was admitted, `None` for never. One nanosecond
    /// earlier it is refused.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, check_all_at};
    /// let (fast, slow) = (Limiter::new(Quota::per_second(1))?, Limiter::new(Quota::per_minute(1))?);
    /// let mut asks = [fast.ask(1), slow.ask(1)];
    /// assert_eq!(check_all_at(&mut asks, 0).retry_after(), Some(Duration::ZERO));
    /// assert_eq!(check_all_at(&mut asks, 0).retry_after(), Some(Duration::from_secs(60)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// How long to hold an admitted call so that every leaky bucket among the limits lets calls out
    /// at its rate: the longest of their [`delay`](crate::Decision::delay)s.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Algorithm, Limiter, Quota, check_all_at};
    /// let queue = Limiter::builder(Quota::per_second(10).burst(3))
    ///     .algorithm(Algorithm::LeakyBucket)
    ///     .build()?;
    /// let mut asks = [queue.ask(1)];
    /// assert_eq!(check_all_at(&mut asks, 0).delay(), Duration::ZERO);
    /// assert_eq!(check_all_at(&mut asks, 0).delay(), Duration::from_millis(100));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }
}

impl fmt::Debug for JointDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointDecision")
            .field("refused_by", &self.refused_by())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("delay", &self.delay())
            .finish()
    }
}
