//! The quota: how much, per how long, how much at once.

mod error;

use core::fmt;
use core::time::Duration;

pub use error::QuotaError;

/// How much a key may do: `limit` tokens per `period`, at most `burst` of them at once.
///
/// A quota is a plain value made by `const` functions. It is checked when a limiter is built
/// with it, or when it is handed to `set_quota`: see [`QuotaError`].
///
/// * `limit` is the number of tokens that come back in one `period`; for windows, the number that
///   may be spent in one window. A limit of 0 never refills, and a window of limit 0 refuses
///   everything.
/// * `period` is at least one nanosecond. For windows it is the window's length, and windows are
///   aligned to the Unix epoch.
/// * `burst` is what may be spent at one instant after a long pause. It is `limit` unless set, and
///   windows ignore it. A burst of 0 refuses everything.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// const API: Quota = Quota::per_second(100).burst(20);
/// assert_eq!((API.limit(), API.period(), API.burst_size()), (100, Duration::from_secs(1), 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: u64,
    period: Duration,
    burst: Burst,
}

/// How the burst was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    /// A number of tokens.
    Tokens(u64),
    /// GCRA's tolerance: how far before its theoretical arrival time a call may come.
    Tolerance(Duration),
}

impl Quota {
    /// `limit` tokens per `period`, and a burst of as many.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// assert_eq!(Quota::new(5, Duration::from_millis(100)).burst_size(), 5);
    /// ```
    #[must_use]
    pub const fn new(limit: u64, period: Duration) -> Quota {
        Quota { limit, period, burst: Burst::Tokens(limit) }
    }

    /// `limit` tokens a second.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_second(3).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub const fn per_second(limit: u64) -> Quota {
        Quota::new(limit, Duration::from_secs(1))
    }

    /// `limit` tokens a minute.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(3).period(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn per_minute(limit: u64) -> Quota {
        Quota::new(limit, Duration::from_secs(60))
    }

    /// `limit` tokens an hour.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_hour(3).period(), Duration::from_secs(3_600));
    /// ```
    #[must_use]
    pub const fn per_hour(limit: u64) -> Quota {
        Quota::new(limit, Duration::from_secs(3_600))
    }

    /// `limit` tokens a day of 86 400 seconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_day(3).period(), Duration::from_secs(86_400));
    /// ```
    #[must_use]
    pub const fn per_day(limit: u64) -> Quota {
        Quota::new(limit, Duration::from_secs(86_400))
    }

    /// GCRA's own terms: one call per `interval`, and a call may come up to `tolerance` before
    /// its theoretical arrival time. A tolerance of 0 allows no burst at all: one call, then a
    /// whole interval. Any tolerance is kept to the nanosecond under [`Algorithm::Gcra`](crate::Algorithm::Gcra); other
    /// algorithms take the whole tokens in it, `tolerance / interval + 1`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// let quota = Quota::gcra(Duration::from_millis(100), Duration::from_millis(250));
    /// assert_eq!((quota.limit(), quota.burst_size()), (1, 3));
    /// ```
    #[must_use]
    pub const fn gcra(interval: Duration, tolerance: Duration) -> Quota {
        Quota { limit: 1, period: interval, burst: Burst::Tolerance(tolerance) }
    }

    /// The same quota with another burst, in tokens.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_second(100).burst(7).burst_size(), 7);
    /// ```
    #[must_use]
    pub const fn burst(self, burst: u64) -> Quota {
        Quota { burst: Burst::Tokens(burst), ..self }
    }

    /// Tokens per period.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(3).limit(), 3);
    /// ```
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period in which `limit` tokens come back, or the window's length.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(3).period(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Tokens that may be spent at one instant after a long pause.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(3).burst_size(), 3);
    /// ```
    #[must_use]
    pub const fn burst_size(&self) -> u64 {
        match self.burst {
            Burst::Tokens(tokens) => tokens,
            Burst::Tolerance(tolerance) => {
                if self.period.is_zero() {
                    return u64::MAX;
                }
                let tokens = tolerance.as_nanos() / self.period.as_nanos();
                if tokens >= u64::MAX as u128 { u64::MAX } else { tokens as u64 + 1 }
            }
        }
    }

    /// The period in nanoseconds, checked.
    pub(crate) fn period_nanos(&self) -> Result<u64, QuotaError> {
        match u64::try_from(self.period.as_nanos()) {
            Ok(nanos) if nanos > 0 => Ok(nanos),
            _ => Err(QuotaError::Period { period: self.period }),
        }
    }

    /// GCRA's tolerance, if the quota was given by it.
    pub(crate) fn tolerance_nanos(&self) -> Option<u128> {
        match self.burst {
            Burst::Tolerance(tolerance) => Some(tolerance.as_nanos()),
            Burst::Tokens(_) => None,
        }
    }

    /// The quota as words, to be published beside its terms.
    pub(crate) fn to_words(self) -> [u64; 6] {
        let (kind, burst, nanos) = match self.burst {
            Burst::Tokens(tokens) => (0, tokens, 0),
            Burst::Tolerance(tolerance) => (1, tolerance.as_secs(), tolerance.subsec_nanos()),
        };
        let period = self.period;
        let (seconds, subsecond) = (period.as_secs(), u64::from(period.subsec_nanos()));
        [self.limit, seconds, subsecond, kind, burst, u64::from(nanos)]
    }

    /// The quota that [`to_words`](Quota::to_words) took apart.
    pub(crate) fn from_words(words: [u64; 6]) -> Quota {
        let [limit, seconds, subsecond, kind, burst, nanos] = words;
        let burst = match kind {
            0 => Burst::Tokens(burst),
            _ => Burst::Tolerance(Duration::new(burst, nanos as u32)),
        };
        Quota { limit, period: Duration::new(seconds, subsecond as u32), burst }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {:?}, burst {}", self.limit, self.period, self.burst_size())
    }
}
