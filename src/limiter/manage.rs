//! The verbs beside deciding: peek, refund, reset, quota, and what there is to know.

use core::time::Duration;

use crate::cell::{self, Books};
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::probe::mutant;
use crate::quota::{Quota, QuotaError};
use crate::stats::Stats;

impl Limiter {
    /// What [`check`](Limiter::check) would answer now; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10))?;
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn peek(&self) -> Decision {
        let (now, tick) = self.timer.read();
        self.foresee(1, now, tick)
    }

    /// What [`check_at`](Limiter::check_at) would answer; takes nothing, and is not counted.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_second(10))?;
    /// assert!(!limiter.peek_at(11, 0).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_at(&self, cost: u64, now: u64) -> Decision {
        self.foresee(cost, now, 1)
    }

    /// Gives tokens back, never above a full bucket or below an empty window.
    ///
    /// It is the caller's grant, not an undo: what the passing of time has given back since the
    /// charge, it has given already. While calls wait in line ([`Turn`](crate::Turn)) nothing is given
    /// back, as somebody else owns what has been charged since.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(4);
    /// limiter.refund(3);
    /// assert_eq!(limiter.peek().remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, tokens: u64) {
        self.refund_at(tokens, self.timer.now());
    }

    /// Gives tokens back at a time of the caller's: see [`refund`](Limiter::refund).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_at(4, 0);
    /// limiter.refund_at(3, 0);
    /// assert_eq!(limiter.peek_at(1, 0).remaining(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(&self, tokens: u64, now: u64) {
        loop {
            let asked =
                mutant("refund: asked before the word").then(|| self.policy.may_owe_beyond());
            let (word, terms, reading) = self.look(now);
            let may_owe_beyond = asked.unwrap_or_else(|| self.policy.may_owe_beyond());
            let is_line = may_owe_beyond && terms.is_beyond(word.time(), &reading);
            if is_line && !mutant("refund: line ignored") {
                return;
            }
            let Some(time) = terms.give_back(word.time(), &reading, tokens) else { return };
            if cell::replace(&self.state.0, word, word.at(time, terms.epoch())) {
                return;
            }
        }
    }

    /// Makes the limiter as new: all tokens are there again.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(10);
    /// limiter.reset();
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self) {
        self.reset_at(self.timer.now());
    }

    /// Makes the limiter as new at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_at(10, 0);
    /// limiter.reset_at(0);
    /// assert_eq!(limiter.peek_at(1, 0).remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, now: u64) {
        loop {
            let (word, terms, _) = self.look(now);
            if cell::replace(&self.state.0, word, cell::cleared(word, &terms)) {
                return;
            }
        }
    }

    /// Puts another quota in force; see [`KeyedLimiter::set_quota`](crate::KeyedLimiter::set_quota).
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota cannot be counted; the old one then stays in force.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check_n(10);
    /// limiter.set_quota(Quota::per_hour(20))?;
    /// assert_eq!(limiter.peek().remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota_at(quota, self.timer.now())
    }

    /// Puts another quota in force from a time of the caller's on.
    ///
    /// # Errors
    ///
    /// As [`set_quota`](Limiter::set_quota).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.set_quota_at(Quota::per_hour(20), 7)?;
    /// assert_eq!(limiter.quota(), Quota::per_hour(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_at(&self, quota: Quota, now: u64) -> Result<(), QuotaError> {
        self.policy.set_quota(&quota, now, &self.state)
    }

    /// The quota in force.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert_eq!(Limiter::new(Quota::per_hour(10))?.quota(), Quota::per_hour(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.policy.quota()
    }

    /// Time since the limiter was built, by its clock: what [`check_at`](Limiter::check_at) calls
    /// `now`.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// assert!(limiter.now() < std::time::Duration::from_secs(60));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.timer.now())
    }

    /// Bytes that the limiter holds: 8 kB, nearly all of it statistics, and the ring of a sliding
    /// log; never more.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// assert!(Limiter::new(Quota::per_hour(10))?.memory() < 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> usize {
        let books = self.books.as_ref().map_or(0, Books::bytes);
        let parts = self.state.1.bytes() + books + self.counts.bytes();
        size_of::<Limiter>() + parts + Policy::BYTES_APART
    }

    /// What the limiter has done so far.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let limiter = Limiter::new(Quota::per_hour(10))?;
    /// limiter.check();
    /// assert_eq!(limiter.stats().admitted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counts.snapshot()
    }
}
