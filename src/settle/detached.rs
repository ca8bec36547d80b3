//! A permit that borrows nothing.

use core::fmt;

use crate::cell::Charge;
use crate::limiter::Limiter;
use crate::probe::Site;
use crate::settle::{SettleError, settle};
use crate::sync::{Atomic, Relaxed};
use crate::table::{Table, Token};
use crate::target::Target;

/// A [`Permit`](crate::Permit) without its limiter, from [`detach`](crate::Permit::detach): for work that is
/// handed on, or that is settled by whoever comes first.
///
/// It is settled once, whoever tries: it can be shared, and a second attempt is told so. One that is
/// dropped unsettled keeps what it has charged. It is of no use after its limiter is gone.
///
/// ```
/// use std::collections::HashMap;
/// use tollgate::{DetachedPermit, KeyedLimiter, Permits, Quota};
///
/// let limiter: KeyedLimiter<str> =
///     KeyedLimiter::builder(Quota::per_minute(100_000)).permits(Permits::new()).build()?;
/// let mut running: HashMap<u32, DetachedPermit> = HashMap::new();
/// running.insert(17, limiter.reserve("tenant", 4_000)?.detach());
/// // Job 17 reports what it has taken.
/// if let Some(permit) = running.remove(&17) {
///     assert_eq!(limiter.commit(&permit, 3_500), Ok(0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it keeps what it has charged until it is settled"]
pub struct DetachedPermit {
    /// The limiter's number.
    limiter: u64,
    /// Where the key lives, in a table.
    place: Option<Token>,
    charge: Option<Charge>,
    estimate: u64,
    /// 1 once it is settled.
    settled: Atomic<u64>,
}

impl DetachedPermit {
    pub(super) fn new(target: Target<'_>, charge: Option<Charge>, estimate: u64) -> DetachedPermit {
        let limiter = target.books().map_or(u64::MAX, |books| books.limiter);
        let place = match target {
            Target::Key(_, _, place) => Some(place.token()),
            Target::State(_) => None,
        };
        DetachedPermit { limiter, place, charge, estimate, settled: Atomic::new(0) }
    }

    /// The tokens that were charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let limiter = Limiter::builder(Quota::per_hour(10)).permits(Permits::new()).build()?;
    /// assert_eq!(limiter.reserve(4)?.detach().estimate(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Where its key lives in this table, if it is of this table.
    pub(super) fn place_in<'a>(&self, table: &'a Table) -> Option<crate::table::Place<'a>> {
        let books = table.books.as_ref()?;
        self.place.filter(|_| books.limiter == self.limiter).and_then(|token| table.at(token))
    }

    /// Whether it is of this limiter of one state.
    pub(super) fn is_of(&self, limiter: &Limiter) -> bool {
        limiter.books.as_ref().is_some_and(|books| books.limiter == self.limiter)
    }

    /// Settles it with the limiter that it is of.
    pub(super) fn settle(
        &self,
        target: Target<'_>,
        actual: u64,
        clock: impl Fn() -> u64,
    ) -> Result<u64, SettleError> {
        // Relaxed: which of those who try is first, and nothing else.
        let first = self.settled.compare_exchange(0, 1, Relaxed.at("permit/settled"), Relaxed);
        first.map_err(|_| SettleError::AlreadySettled)?;
        Ok(settle(target, self.charge.as_ref(), (self.estimate, actual), clock))
    }
}

impl fmt::Debug for DetachedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: for people.
        let is_settled = self.settled.load(Relaxed.at("permit/shown")) == 1;
        f.debug_struct("DetachedPermit")
            .field("estimate", &self.estimate)
            .field("is_settled", &is_settled)
            .finish_non_exhaustive()
    }
}
