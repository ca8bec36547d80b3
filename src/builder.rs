//! The builder: every choice that a limiter is made with, and the errors of a bad one.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::algorithm::sliding_log::Shape;
use crate::clock::Clock;
use crate::hash::{Hasher, KeyHasher, random_seed};
use crate::keyed::KeyedLimiter;
use crate::limiter::Limiter;
use crate::memory::BuildMemoryError;
use crate::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::table::Table;

/// What a full table does with a key that has no cell.
///
/// A table is full for a key when all 31 cells of the key's bucket hold live keys. While no more
/// than `capacity` keys are live, two in ten million find that. Idle keys are never in the way.
///
/// ```
/// use tollgate::{KeyedLimiter, Overflow, Quota};
///
/// let limiter: KeyedLimiter<str> =
///     KeyedLimiter::builder(Quota::per_second(10)).overflow(Overflow::Refuse).build()?;
/// assert!(limiter.check("key").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overflow {
    /// Forgets the key of the bucket with the least to lose, the one that is nearest to idle, and
    /// takes its cell. What that key still owed is forgiven, and counted in
    /// [`Stats::evicted`](crate::Stats::evicted). A flood of one-shot keys evicts itself first.
    #[default]
    EvictNearest,
    /// Refuses the call, and counts it in [`Stats::refused_full`](crate::Stats::refused_full).
    Refuse,
    /// Admits the call unlimited, and counts it in
    /// [`Stats::admitted_full`](crate::Stats::admitted_full).
    Admit,
}

/// The choices common to both limiters.
#[derive(Clone, Debug)]
struct Choices {
    quota: Quota,
    algorithm: Algorithm,
    clock: Clock,
    origin: Option<Duration>,
    /// The largest limit of a sliding log, if it is not the quota's.
    log_limit: Option<u64>,
    log_cost: u64,
}

impl Choices {
    fn new(quota: Quota) -> Choices {
        let (algorithm, clock) = (Algorithm::default(), Clock::default());
        Choices { quota, algorithm, clock, origin: None, log_limit: None, log_cost: 1 }
    }

    /// The policy and the clock, started.
    fn start(&self) -> Result<(Policy, crate::clock::Timer), QuotaError> {
        let (timer, unix) = self.clock.start();
        let nanos = |origin: Duration| u64::try_from(origin.as_nanos()).unwrap_or(u64::MAX);
        let unix = self.origin.map_or(unix, nanos);
        let shape = match self.algorithm {
            Algorithm::SlidingWindowLog => Shape {
                ring: self.log_limit.unwrap_or(self.quota.limit()).max(1),
                cost_max: self.log_cost.max(1),
            },
            _ => Shape::default(),
        };
        Ok((Policy::new(self.algorithm, &self.quota, shape, unix)?, timer))
    }
}

/// Makes a [`Limiter`]: see [`Limiter::builder`].
///
/// ```
/// use tollgate::{Algorithm, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(100)).algorithm(Algorithm::Gcra).build()?;
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder(Choices);

impl Builder {
    pub(crate) fn new(quota: Quota) -> Builder {
        Builder(Choices::new(quota))
    }

    /// The algorithm: [`Algorithm::TokenBucket`] unless set.
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(1)).algorithm(Algorithm::LeakyBucket);
    /// assert!(builder.build()?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn algorithm(mut self, algorithm: Algorithm) -> Builder {
        self.0.algorithm = algorithm;
        self
    }

    /// The clock: [`Clock::precise`] unless set.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(1)).clock(Clock::manual().0);
    /// assert!(builder.build()?.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.0.clock = clock;
        self
    }

    /// The limiter's time 0 as a time since the Unix epoch, to which windows are aligned. Unless
    /// set it is the wall clock's time at build, or 0 for a manual clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Clock, Limiter, Quota};
    ///
    /// // Time 0 lies 40 s into a minute, so the window ends after 20 s.
    /// let limiter = Limiter::builder(Quota::per_minute(5))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual().0)
    ///     .origin(Duration::from_secs(100))
    ///     .build()?;
    /// assert_eq!(limiter.check().reset_after(), Some(Duration::from_secs(20)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn origin(mut self, since_unix_epoch: Duration) -> Builder {
        self.0.origin = Some(since_unix_epoch);
        self
    }

    /// The largest limit that a sliding log can be given: see [`KeyedBuilder::log_limit`].
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(5)).algorithm(Algorithm::SlidingWindowLog);
    /// let limiter = builder.log_limit(10).build()?;
    /// assert!(limiter.set_quota(Quota::per_second(10)).is_ok());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_limit(mut self, limit: u64) -> Builder {
        self.0.log_limit = Some(limit);
        self
    }

    /// The largest cost that a sliding log admits: see [`KeyedBuilder::log_cost`].
    ///
    /// ```
    /// # use tollgate::{Algorithm, Limiter, Quota};
    /// let builder = Limiter::builder(Quota::per_second(5)).algorithm(Algorithm::SlidingWindowLog);
    /// assert!(builder.log_cost(3).build()?.check_n(3).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_cost(mut self, cost: u64) -> Builder {
        self.0.log_cost = cost;
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    ///
    /// [`BuildError::Quota`] if the algorithm cannot count the quota.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let error = Limiter::builder(Quota::per_second(u64::MAX)).build().unwrap_err();
    /// assert!(error.to_string().contains("at most 16000000000"));
    /// ```
    pub fn build(self) -> Result<Limiter, BuildError> {
        let (policy, timer) = self.0.start()?;
        Ok(Limiter::from_parts(policy, timer)?)
    }
}

/// Makes a [`KeyedLimiter`]: see [`KeyedLimiter::builder`].
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{Algorithm, KeyedLimiter, Overflow, Quota};
///
/// let limiter: KeyedLimiter<IpAddr> = KeyedLimiter::builder(Quota::per_minute(600).burst(50))
///     .algorithm(Algorithm::LeakyBucket)
///     .capacity(200_000)
///     .overflow(Overflow::Refuse)
///     .build()?;
/// assert!(limiter.check(&IpAddr::from([192, 0, 2, 1])).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct KeyedBuilder<K: ?Sized> {
    choices: Choices,
    capacity: usize,
    overflow: Overflow,
    lazy: bool,
    seed: Option<u64>,
    hasher: MakeHasher<K>,
    key: PhantomData<fn(&K)>,
}

/// Makes the key hasher from a seed, when the limiter is built.
type MakeHasher<K> = Box<dyn FnOnce(u64) -> KeyHasher<K> + Send>;

/// Keys of capacity unless set: 2.8 MB.
const DEFAULT_CAPACITY: usize = 1 << 16;

impl<K: Hash + ?Sized + 'static> KeyedBuilder<K> {
    pub(crate) fn new(quota: Quota) -> KeyedBuilder<K> {
        KeyedBuilder {
            choices: Choices::new(quota),
            capacity: DEFAULT_CAPACITY,
            overflow: Overflow::default(),
            lazy: false,
            seed: None,
            hasher: Box::new(|seed| KeyHasher::new(Hasher::default(), seed)),
            key: PhantomData,
        }
    }

    /// The algorithm: [`Algorithm::TokenBucket`] unless set.
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.algorithm(Algorithm::Gcra).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.choices.algorithm = algorithm;
        self
    }

    /// The clock: [`Clock::precise`] unless set.
    ///
    /// ```
    /// # use tollgate::{Clock, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.clock(Clock::manual().0).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.choices.clock = clock;
        self
    }

    /// The limiter's time 0: see [`Builder::origin`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.origin(Duration::ZERO).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn origin(mut self, since_unix_epoch: Duration) -> Self {
        self.choices.origin = Some(since_unix_epoch);
        self
    }

    /// The largest limit that a sliding log can be given, now or by `set_quota`: the length of its
    /// rings, at most 1 048 576; the quota's limit unless set. Costs 24 bytes a key of capacity for
    /// each unit, and the tick of its stamps grows with it: 16 ns for 10, 1 us for 1000. Other
    /// algorithms ignore it.
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota, QuotaError};
    /// let limiter = KeyedLimiter::<u64>::builder(Quota::per_second(5))
    ///     .algorithm(Algorithm::SlidingWindowLog)
    ///     .log_limit(10)
    ///     .build()?;
    /// assert!(limiter.set_quota(Quota::per_second(10)).is_ok());
    /// let beyond = limiter.set_quota(Quota::per_second(11));
    /// assert_eq!(beyond, Err(QuotaError::LogLimit { limit: 11, ring: 10 }));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_limit(mut self, limit: u64) -> Self {
        self.choices.log_limit = Some(limit);
        self
    }

    /// The largest cost that a sliding log admits: 1 unless set, at most its largest limit. A call
    /// that costs more is refused, for ever. The tick of its stamps grows with it. Other algorithms
    /// ignore it.
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<u64>::builder(Quota::per_second(5))
    ///     .algorithm(Algorithm::SlidingWindowLog)
    ///     .log_cost(3)
    ///     .build()?;
    /// assert!(limiter.check_n(&7, 3).is_allowed());
    /// assert_eq!(limiter.check_n(&7, 4).retry_after(), None);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn log_cost(mut self, cost: u64) -> Self {
        self.choices.log_cost = cost;
        self
    }

    /// How many live keys the table is made for: 65 536 unless set. A key is live while it owes
    /// something; idle keys do not count. At most 48 bytes of memory each, taken when the limiter
    /// is built and never more, and 9 kB for the limiter itself.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(1_000_000).build()?;
    /// assert!(limiter.memory() <= 48 * 1_000_000);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// What a full table does: [`Overflow::EvictNearest`] unless set.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Overflow, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.overflow(Overflow::Admit).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// The seed of the hash functions, for runs that must repeat; random unless set. Keep it
    /// secret if keys come from strangers.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.seed(42).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How keys are hashed: [`Hasher::ahash`] unless set.
    ///
    /// ```
    /// # use tollgate::{Hasher, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(builder.hasher(Hasher::siphash()).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn hasher(mut self, hasher: Hasher) -> Self {
        self.hasher = Box::new(move |seed| KeyHasher::new(hasher, seed));
        self
    }

    /// Keys are hashed by a hasher of your own. It is called twice a decision, with two different
    /// prefixes before the key, through a pointer. All 64 bits must be good, and a stranger must
    /// not be able to guess them: keys whose hashes agree share a budget.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let own = std::hash::RandomState::new();
    /// let builder = KeyedLimiter::<str>::builder(Quota::per_second(1)).custom_hasher(own);
    /// assert!(builder.build()?.check("key").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn custom_hasher(mut self, hasher: impl BuildHasher + Send + Sync + 'static) -> Self {
        self.hasher = Box::new(|seed| KeyHasher::custom(hasher, seed));
        self
    }

    /// Whether memory is left untouched at build. It then becomes resident page by page, with a
    /// page fault inside a decision each time: for tables that are made large in case.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(10_000_000);
    /// assert!(builder.lazy_memory(true).build()?.check(&1).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lazy_memory(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    /// Builds the limiter, and touches its memory: about a second for 10 GB.
    ///
    /// # Errors
    ///
    /// * [`BuildError::Quota`] if the algorithm cannot count the quota;
    /// * [`BuildError::Capacity`] if the capacity is 0;
    /// * [`BuildError::Memory`] if there is not enough memory.
    ///
    /// ```
    /// # use tollgate::{BuildError, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1));
    /// assert!(matches!(builder.capacity(usize::MAX).build(), Err(BuildError::Memory { .. })));
    /// ```
    pub fn build(self) -> Result<KeyedLimiter<K>, BuildError> {
        if self.capacity == 0 {
            return Err(BuildError::Capacity);
        }
        let (policy, timer) = self.choices.start()?;
        let table = Table::new(self.capacity, self.lazy, policy, self.overflow)?;
        let hasher = (self.hasher)(self.seed.unwrap_or_else(random_seed));
        Ok(KeyedLimiter::from_parts(table, timer, hasher, self.capacity))
    }
}

impl<K: ?Sized> fmt::Debug for KeyedBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuilder")
            .field("choices", &self.choices)
            .field("capacity", &self.capacity)
            .field("overflow", &self.overflow)
            .field("lazy", &self.lazy)
            .finish_non_exhaustive()
    }
}

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
            BuildError::Capacity | BuildError::Memory { .. } => None,
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
