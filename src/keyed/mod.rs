//! The keyed limiter: the face over the table. Deciding is here; `manage.rs` has the other verbs.

mod manage;

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use crate::builder::KeyedBuilder;
use crate::clock::Timer;
use crate::decision::Decision;
use crate::hash::{Hashed, KeyHasher};
use crate::memory::prefetch;
use crate::quota::{Quota, QuotaError};
use crate::table::{Call, Place, Table};
use crate::target::Target;

/// How many keys of a batch are in flight at once: enough to hide the latency of memory, few
/// enough for the lines to stay in the first-level cache.
const IN_FLIGHT: usize = 32;

/// A limit per key, for any key that can be hashed.
///
/// Keys are not stored: a key is two 64-bit hashes (see [`Hasher`](crate::Hasher) for the odds and
/// the threat model). Nothing is allocated by any call. The memory is fixed when the limiter is
/// built, and a key that owes nothing leaves no trace: its cell is used for another key when it is
/// needed, without changing any answer.
///
/// A decision on a known key is one cache line, and one compare-and-swap if it is admitted; a
/// refused one writes nothing. No call ever waits for another thread.
///
/// ```
/// use tollgate::{KeyedLimiter, Quota};
///
/// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(100))?;
/// if limiter.check("198.51.100.7").is_allowed() {
///     // serve it
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct KeyedLimiter<K: ?Sized> {
    pub(crate) table: Table,
    pub(crate) timer: Timer,
    hasher: KeyHasher<K>,
    capacity: usize,
}

impl<K: Hash + ?Sized + 'static> KeyedLimiter<K> {
    /// A token bucket per key by the precise clock, for 65 536 live keys.
    ///
    /// # Errors
    ///
    /// As [`KeyedBuilder::build`](crate::KeyedBuilder::build).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<u64> = KeyedLimiter::new(Quota::per_second(10))?;
    /// assert!(limiter.check(&7).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(quota: Quota) -> Result<KeyedLimiter<K>, crate::BuildError> {
        KeyedLimiter::builder(quota).build()
    }

    /// Starts to build one with other choices.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_second(10)).capacity(1_000).build()?;
    /// assert!(limiter.check("key").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn builder(quota: Quota) -> KeyedBuilder<K> {
        KeyedBuilder::new(quota)
    }
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    pub(crate) fn from_parts(
        table: Table,
        timer: Timer,
        hasher: KeyHasher<K>,
        capacity: usize,
    ) -> KeyedLimiter<K> {
        KeyedLimiter { table, timer, hasher, capacity }
    }

    /// May this key do this now? Costs one token if it may: `check_n(key, 1)`.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// assert!(limiter.check("one").is_allowed());
    /// assert!(!limiter.check("one").is_allowed());
    /// assert!(limiter.check("other").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check(&self, key: &K) -> Decision {
        self.check_n(key, 1)
    }

    /// May this key do this now, at a cost of so many tokens? All of them are taken, or none. A
    /// cost of 0 is always admitted and changes nothing.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// assert!(!limiter.check_n("key", 11).is_allowed());
    /// assert!(limiter.check_n("key", 10).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision {
        // The line is on its way while the clock is read.
        self.table.decide(self.hash_and_place(key), cost, || self.timer.read())
    }

    /// The real one: `now` is the time in nanoseconds since the limiter was built, by whichever
    /// clock the caller likes. It may stand still, step back, jump, and differ between threads.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(1))?;
    /// assert!(limiter.check_at("key", 1, 5_000_000_000).is_allowed());
    /// assert!(!limiter.check_at("key", 1, 5_999_999_999).is_allowed());
    /// assert!(limiter.check_at("key", 1, 6_000_000_000).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "measured: what the caller does not ask for is not written"
    )]
    pub fn check_at(&self, key: &K, cost: u64, now: u64) -> Decision {
        self.table.decide(self.hash_and_place(key), cost, || (now, 1))
    }

    /// Decides under a quota that the call brings: per key, per tier, in one table. For
    /// [`Algorithm::Gcra`](crate::Algorithm::Gcra) only, whose word means the same under every
    /// quota: what a key owes is a time, and each call judges that time by its own quota. Costs a
    /// division more than [`check_n`](KeyedLimiter::check_n).
    ///
    /// Under a quota of limit 0 every cost above 0 is refused.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the algorithm is another, or if the quota cannot be counted.
    ///
    /// ```
    /// use tollgate::{Algorithm, KeyedLimiter, Quota};
    ///
    /// const FREE: Quota = Quota::per_minute(10);
    /// const PAID: Quota = Quota::per_minute(1_000);
    ///
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(FREE).algorithm(Algorithm::Gcra).build()?;
    /// assert_eq!(limiter.check_with("alice", 1, PAID)?.limit(), 1_000);
    /// assert_eq!(limiter.check_with("bob", 1, FREE)?.limit(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check_with(&self, key: &K, cost: u64, quota: Quota) -> Result<Decision, QuotaError> {
        let (now, tick) = self.timer.read();
        self.decide_with(key, cost, &quota, now, tick)
    }

    /// [`check_with`](KeyedLimiter::check_with) at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`check_with`](KeyedLimiter::check_with).
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota};
    /// # let quota = Quota::per_second(2);
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(quota).algorithm(Algorithm::Gcra).build()?;
    /// assert!(!limiter.check_with_at("key", 3, quota, 0)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_with_at(
        &self,
        key: &K,
        cost: u64,
        quota: Quota,
        now: u64,
    ) -> Result<Decision, QuotaError> {
        self.decide_with(key, cost, &quota, now, 1)
    }

    /// Decides a batch at one reading of the clock, a token each, in order, and writes the answers
    /// into `decisions`. Keys and answers are paired from the front; what is left over on either
    /// side is not touched. Returns how many were decided.
    ///
    /// The keys' memory is fetched ahead, 32 at a time, so on a large table a batch is several
    /// times faster than as many single checks.
    ///
    /// ```
    /// use tollgate::{Decision, KeyedLimiter, Quota};
    ///
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// let mut decisions = [Decision::default(); 3];
    /// assert_eq!(limiter.check_many(&["a", "b", "a"], &mut decisions), 3);
    /// assert_eq!(decisions.map(|decision| decision.is_allowed()), [true, true, false]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_many<Q: Borrow<K>>(&self, keys: &[Q], decisions: &mut [Decision]) -> usize {
        let (now, tick) = self.timer.read();
        self.decide_many(keys, decisions, now, tick)
    }

    /// [`check_many`](KeyedLimiter::check_many) at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{Decision, KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<u64> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// let mut decisions = [Decision::default(); 2];
    /// limiter.check_many_at(&[7, 7], &mut decisions, 0);
    /// assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_many_at<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        decisions: &mut [Decision],
        now: u64,
    ) -> usize {
        self.decide_many(keys, decisions, now, 1)
    }

    /// Hashes a key, and asks for its line.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    fn hash_and_place(&self, key: &K) -> (Hashed, Place<'_>) {
        self.hash_and_prefetch(key, self.table.counts.own().expects_insert())
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    fn hash_and_prefetch(&self, key: &K, expects_insert: bool) -> (Hashed, Place<'_>) {
        let hashed = self.hasher.hash(key);
        let place = self.table.place(hashed);
        prefetch(place.home_line());
        if expects_insert {
            place.bucket.prefetch();
        }
        (hashed, place)
    }

    #[inline]
    pub(crate) fn target(&self, key: &K) -> Target<'_> {
        Target::Key(&self.table, &self.timer, self.place(key))
    }

    /// Where a key lives; its line is asked for.
    #[inline]
    pub(crate) fn place(&self, key: &K) -> Place<'_> {
        self.hash_and_place(key).1
    }

    fn decide_with(
        &self,
        key: &K,
        cost: u64,
        quota: &Quota,
        now: u64,
        tick: u32,
    ) -> Result<Decision, QuotaError> {
        let layout = Some(self.table.policy.lay_out_per_call(quota)?);
        let call = Call { layout, ..Call::new(self.place(key), cost, now) };
        Ok(self.table.decide_the_long_way(&call, tick))
    }

    fn decide_many<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        decisions: &mut [Decision],
        now: u64,
        tick: u32,
    ) -> usize {
        let count = keys.len().min(decisions.len());
        let (keys, decisions) = (&keys[..count], &mut decisions[..count]);
        for (keys, decisions) in keys.chunks(IN_FLIGHT).zip(decisions.chunks_mut(IN_FLIGHT)) {
            let mut hashes = [Hashed::default(); IN_FLIGHT];
            let expects_insert = self.table.counts.own().expects_insert();
            for (hashed, key) in hashes.iter_mut().zip(keys) {
                *hashed = self.hash_and_prefetch(key.borrow(), expects_insert).0;
            }
            self.table.decide_all(&hashes[..keys.len()], decisions, now, tick);
        }
        count
    }
}

impl<K: Hash + ?Sized> fmt::Debug for KeyedLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.quota())
            .field("capacity", &self.capacity)
            .field("now", &self.now())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
