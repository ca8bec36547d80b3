//! The verbs beside deciding: peek, refund, reset, quota, and what there is to know.

use core::hash::Hash;
use core::time::Duration;

use crate::decision::Decision;
use crate::keyed::KeyedLimiter;
use crate::quota::{Quota, QuotaError};
use crate::stats::Stats;
use crate::table::{Call, Table};

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// What [`check`](KeyedLimiter::check) would answer now; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(10))?;
    /// assert_eq!(limiter.peek("key").remaining(), 10);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self, key: &K) -> Decision {
        let (now, tick) = self.timer.read();
        let call = Call::new(self.place(key), 1, now);
        self.table.peek(&call).foreseen(1, tick)
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
        let call = Call::new(self.place(key), cost, now);
        self.table.peek(&call).foreseen(cost, 1)
    }

    /// What [`check_with`](KeyedLimiter::check_with) would answer now; takes nothing, and is not
    /// counted.
    ///
    /// # Errors
    ///
    /// As [`check_with`](KeyedLimiter::check_with).
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_second(1)).algorithm(Algorithm::Gcra).build()?;
    /// assert_eq!(limiter.peek_with("key", 1, Quota::per_second(9))?.remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_with(&self, key: &K, cost: u64, quota: Quota) -> Result<Decision, QuotaError> {
        let layout = Some(self.table.policy.lay_out_per_call(&quota)?);
        let (now, tick) = self.timer.read();
        let call = Call { layout, ..Call::new(self.place(key), cost, now) };
        Ok(self.table.peek(&call).foreseen(cost, tick))
    }

    /// Gives tokens back to a key, never above a full bucket or below an empty window. A key that
    /// owes nothing is left alone.
    ///
    /// It is the caller's grant, not an undo: what the passing of time has given back since the
    /// charge, it has given already. If the key was evicted in between, its debt was forgiven
    /// then, and a refund forgives again. While calls wait in the key's line ([`Turn`](crate::Turn))
    /// nothing is given back, as somebody else owns what has been charged since.
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
        self.table.refund(&Call::new(self.place(key), tokens, now));
    }

    /// Gives tokens of another quota back: those that
    /// [`check_with`](KeyedLimiter::check_with) took. Plain [`refund`](KeyedLimiter::refund) gives
    /// back tokens of the limiter's own quota.
    ///
    /// # Errors
    ///
    /// As [`check_with`](KeyedLimiter::check_with).
    ///
    /// ```
    /// # use tollgate::{Algorithm, KeyedLimiter, Quota};
    /// let paid = Quota::per_hour(9);
    /// let limiter: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_hour(1)).algorithm(Algorithm::Gcra).build()?;
    /// limiter.check_with("key", 9, paid)?;
    /// limiter.refund_with("key", 2, paid)?;
    /// assert_eq!(limiter.peek_with("key", 1, paid)?.remaining(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_with(&self, key: &K, tokens: u64, quota: Quota) -> Result<(), QuotaError> {
        let layout = Some(self.table.policy.lay_out_per_call(&quota)?);
        let (place, now) = (self.place(key), self.timer.now());
        self.table.refund(&Call { layout, ..Call::new(place, tokens, now) });
        Ok(())
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
        self.reset_at(key, self.timer.now());
    }

    /// Makes a key as one that was never seen, at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1))?;
    /// limiter.check_at("key", 1, 0);
    /// limiter.reset_at("key", 0);
    /// assert!(limiter.check_at("key", 1, 0).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset_at(&self, key: &K, now: u64) {
        self.table.reset(&Call::new(self.place(key), 0, now));
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
    /// Most changes cost microseconds; one that needs other units (a rate slower than any before,
    /// or a million times faster) walks the table, some 20 ms for a million keys, while decisions
    /// go on. Callers exclude each other: a second one waits for the first.
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

    /// About how many keys are live, which means that they owe something, by the limiter's clock.
    /// Counted in up to 16 384 buckets that lie evenly over the table, and scaled to all of them:
    /// exact up to a capacity of 196 608, within half a percent of the capacity beyond. Takes a few
    /// milliseconds.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(10))?;
    /// limiter.check("key");
    /// assert_eq!(limiter.len(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "an estimate, which cannot tell none from few")]
    pub fn len(&self) -> usize {
        self.len_at(self.timer.now())
    }

    /// About how many keys are live at a time of the caller's: see [`len`](KeyedLimiter::len).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(1))?;
    /// limiter.check_at("key", 1, 0);
    /// assert_eq!((limiter.len_at(0), limiter.len_at(1_000_000_000)), (1, 0));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn len_at(&self, now: u64) -> usize {
        self.table.len(now)
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
}
