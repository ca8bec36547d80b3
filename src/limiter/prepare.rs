//! A decision in two steps, for a call that asks several limits: up to its swap, and back.

use crate::algorithm::rule::{Buckets, Rule, WholeBuckets, Windows};
use crate::cell::{self, Prepared};
use crate::charge::Charge;
use crate::limiter::Limiter;
use crate::probe::step;
use crate::terms::Terms;

impl Limiter {
    /// The attempt up to its swap, for a call that is one of several; `None` also if it is refused.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    pub(crate) fn prepare(&self, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let algorithm = self.policy.algorithm();
        if !algorithm.is_bucket() || cost == 0 {
            return None;
        }
        let terms = WholeBuckets::load(&self.policy, algorithm)?;
        self.prepare_by::<WholeBuckets>(terms, cost, now)
    }

    /// [`prepare`](Self::prepare) for what is not a bucket with a whole clock. On its own, so that the one
    /// for most limiters is written where it belongs and not copied.
    #[inline(never)]
    pub(crate) fn prepare_otherwise(&self, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let algorithm = self.policy.algorithm();
        if cost > 0 && algorithm.is_bucket() {
            let terms = Buckets::load(&self.policy, algorithm)?;
            let is_whole = terms.layout.slope.is_whole();
            if is_whole { None } else { self.prepare_by::<Buckets>(terms, cost, now) }
        } else if cost > 0 && algorithm.has_windows() {
            self.prepare_by::<Windows>(Windows::load(&self.policy, algorithm)?, cost, now)
        } else {
            None
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    fn prepare_by<R: Rule>(&self, terms: Terms, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let reading = R::read(&terms, now)?;
        step("terms loaded");
        let word = self.glance();
        if word.epoch() != terms.epoch() || !self.policy.is_current(&terms) {
            return None;
        }
        Prepared::new::<R>((0, &self.state.0), word, cost, (terms, reading))
    }

    /// Takes a charge back, by the clock as it is then.
    pub(crate) fn take_back(&self, charge: &Charge, clock: impl Fn() -> u64) {
        cell::take_back(&self.state.0, || true, charge, &self.policy, clock);
    }
}
