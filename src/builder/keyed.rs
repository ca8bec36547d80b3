//! The builder of keyed limiters.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::time::Duration;

use super::{BuildError, Choices, Overflow};
use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::hash::{Hasher, KeyHasher, random_seed};
use crate::keyed::KeyedLimiter;
use crate::quota::Quota;
use crate::settle::Permits;
use crate::table::Table;

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

    /// The limiter's time 0: see [`Builder::origin`](crate::Builder::origin).
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

    /// Builds the limiter for calls whose cost is known only afterwards: see [`Permit`](crate::Permit).
    /// Takes the bytes a key of capacity to 96 at the most.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_hour(10))
    ///     .capacity(1_000_000)
    ///     .permits(Permits::new())
    ///     .build()?;
    /// assert!(limiter.memory() <= 96 * 1_000_000);
    /// limiter.reserve("key", 8)?.commit(3);
    /// assert_eq!(limiter.peek("key").remaining(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permits(mut self, permits: Permits) -> Self {
        self.choices.permits = Some(permits);
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

    /// Builds the limiter, and touches its memory: ten million keys (400 MB) took a second where this
    /// was measured.
    ///
    /// # Errors
    ///
    /// * [`BuildError::Quota`] if the algorithm cannot count the quota;
    /// * [`BuildError::Capacity`] if the capacity is 0;
    /// * [`BuildError::Permits`] if the algorithm cannot give back what permits have charged;
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
        let permits = self.choices.permits;
        let table = Table::new(self.capacity, self.lazy, policy, self.overflow, permits)?;
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
