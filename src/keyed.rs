//! The keyed limiter: the face over the table.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use crate::builder::KeyedBuilder;
use crate::clock::Timer;
use crate::decision::Decision;
use crate::hash::KeyHasher;
use crate::memory::prefetch;
use crate::quota::{Quota, QuotaError};
use crate::stats::Stats;
use crate::table::{Call, Place, Table};

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
    table: Table,
    timer: Timer,
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
    #[inline]
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
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision {
        // The line is on its way while the clock is read.
        let place = self.place(key);
        let now = self.timer.now();
        self.table.decide(place, cost, now, self.timer.tick())
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
    #[inline]
    pub fn check_at(&self, key: &K, cost: u64, now: u64) -> Decision {
        self.table.decide(self.place(key), cost, now, 1)
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
        self.decide_with(key, cost, &quota, self.timer.now(), self.timer.tick())
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
        self.decide_many(keys, decisions, self.timer.now(), self.timer.tick())
    }

    /// [`check_many`](KeyedLimiter::check_many) at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{Decision, KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<u64> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// let mut decisions = [Decision::default(); 2];
    /// limiter.check_many_at(&[7, 7], 0, &mut decisions);
    /// assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_many_at<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        now: u64,
        decisions: &mut [Decision],
    ) -> usize {
        self.decide_many(keys, decisions, now, 1)
    }

    /// What [`check`](KeyedLimiter::check) would answer now; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(10))?;
    /// assert_eq!(limiter.peek("key").remaining(), 10);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self, key: &K) -> Decision {
        let call = Call { place: self.place(key), cost: 1, now: self.timer.now(), layout: None };
        self.table.peek(&call).decision(1, self.timer.tick())
    }

    /// What [`check_at`](KeyedLimiter::check_at) would answer; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(10))?;
    /// assert!(!limiter.peek_at("key", 11, 0).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_at(&self, key: &K, cost: u64, now: u64) -> Decision {
        self.table.peek(&Call { place: self.place(key), cost, now, layout: None }).decision(cost, 1)
    }

    /// Gives tokens back to a key, never above a full bucket or below an empty window. A key that
    /// owes nothing is left alone.
    ///
    /// It is the caller's grant, not an undo: what the passing of time has given back since the
    /// charge, it has given already. If the key was evicted in between, its debt was forgiven
    /// then, and a refund forgives again.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.check_n("key", 4);
    /// limiter.refund("key", 3);
    /// assert_eq!(limiter.peek("key").remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, key: &K, tokens: u64) {
        self.refund_at(key, tokens, self.timer.now());
    }

    /// Gives tokens back at a time of the caller's: see [`refund`](KeyedLimiter::refund).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.check_at("key", 4, 0);
    /// limiter.refund_at("key", 3, 0);
    /// assert_eq!(limiter.peek_at("key", 1, 0).remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund_at(&self, key: &K, tokens: u64, now: u64) {
        self.table.refund(&Call { place: self.place(key), cost: tokens, now, layout: None });
    }

    /// Makes a key as one that was never seen.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// limiter.check("key");
    /// limiter.reset("key");
    /// assert!(limiter.check("key").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset(&self, key: &K) {
        let now = self.timer.now();
        self.table.reset(&Call { place: self.place(key), cost: 0, now, layout: None });
    }

    /// Puts another quota in force for all keys, while threads decide.
    ///
    /// No decision sees half of it, and none waits for it. What a key has spent and not yet earned
    /// back is settled under the old quota at that instant and carried over whole: raising 10 to
    /// 20 gives the 10 in between once, lowering 10 to 5 with 3 spent leaves 2. For windows it is
    /// the running window's count that is carried over; under another window length, into the
    /// window in which the change lies. A key that owes nothing simply has the new burst.
    ///
    /// A decision that is under way while this returns may still be made under the old quota.
    /// Most changes cost microseconds; one that needs other units (a much slower rate than any
    /// before) walks the table, about 50 ms for a million keys, while decisions go on. Callers
    /// exclude each other: a second one waits for the first.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota cannot be counted; the old one then stays in force.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.check_n("key", 3);
    /// limiter.set_quota(Quota::per_hour(5))?;
    /// assert_eq!(limiter.peek("key").remaining(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota_at(quota, self.timer.now())
    }

    /// Puts another quota in force from a time of the caller's on.
    ///
    /// # Errors
    ///
    /// As [`set_quota`](KeyedLimiter::set_quota).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.set_quota_at(Quota::per_hour(20), 7)?;
    /// assert_eq!(limiter.quota(), Quota::per_hour(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(&self, quota: Quota, now: u64) -> Result<(), QuotaError> {
        self.table.policy.set_quota(&quota, now, &self.table)
    }

    /// The quota in force.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// assert_eq!(limiter.quota(), Quota::per_hour(10));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.table.policy.quota()
    }

    /// Time since the limiter was built, by its clock: what [`check_at`](KeyedLimiter::check_at)
    /// calls `now`.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.now() < std::time::Duration::from_secs(60));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.timer.now())
    }

    /// How many live keys the table was made for.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// assert_eq!(limiter.capacity(), 65_536);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// About how many keys are live, which means that they owe something. Counted in up to 4096
    /// buckets that lie evenly over the table, and scaled to all of them: exact up to a capacity
    /// of 49 152, within about half a percent of the capacity beyond. Takes up to a millisecond.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_hour(10)).capacity(1_000).build()?;
    /// limiter.check("key");
    /// assert_eq!(limiter.len(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len(self.timer.now())
    }

    /// Whether about no key is live: `len() == 0`.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.is_empty());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the limiter holds: fixed when it was built, and never more. At most 48 for each
    /// key of capacity, from a capacity of 2 000 on.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter = KeyedLimiter::<str>::builder(Quota::per_hour(10)).capacity(2_000).build()?;
    /// assert!(limiter.memory() <= 48 * 2_000);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<Table>() + self.table.memory()
    }

    /// What the limiter has done so far.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.check("key");
    /// assert_eq!(limiter.stats().admitted, 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.table.counts.snapshot()
    }

    #[inline]
    fn place(&self, key: &K) -> Place<'_> {
        let place = self.table.place(self.hasher.hash(key));
        prefetch(&place.home_cells()[1]);
        place
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
        let call = Call { place: self.place(key), cost, now, layout };
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
            let mut places = [None; IN_FLIGHT];
            for (place, key) in places.iter_mut().zip(keys) {
                *place = Some(self.place(key.borrow()));
            }
            for (place, decision) in places.into_iter().flatten().zip(decisions) {
                *decision = self.table.decide(place, 1, now, tick);
            }
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
