//! A bucket in fractions of a token, without units: the bound that no change of quota may break.
//!
//! It knows nothing of how the engine counts. It holds what the key owes as an exact number, earned
//! back at exactly the rate in force, and is never stricter than the definition: it judges by the
//! latest clock there was. So the engine may be stricter, and must not be more generous by more
//! than the one unit by which a busy spell may begin early.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use tollgate::Quota;

/// A debt of more nanoseconds than this is cut to it: docs/guarantees.md.
const OWED_MAX: u64 = 1 << 58;

/// One key.
#[derive(Clone, Debug)]
pub struct Fractions {
    quota: Quota,
    /// The moment from which the line of the quota in force runs; before it, time stands still.
    origin: u64,
    /// The latest time there was.
    latest: u64,
    /// The point of the line up to which everything is spent.
    spent: BigRational,
    /// By how much a spell may have begun early, in tokens.
    early: BigRational,
    /// Tokens taken in all: no more can be owed.
    taken: BigInt,
    /// The largest debt that is not cut.
    owed_max: BigRational,
}

fn ratio(number: impl Into<BigInt>) -> BigRational {
    BigRational::from(number.into())
}

fn rate(quota: Quota) -> BigRational {
    BigRational::new(quota.limit().into(), quota.period().as_nanos().into())
}

/// What comes back in the nine years after which a debt is cut. Where nothing comes back, none is.
fn owed_max(quota: Quota) -> BigRational {
    match quota.limit() {
        0 => ratio(u64::MAX) * ratio(u64::MAX),
        _ => rate(quota) * ratio(OWED_MAX),
    }
}

/// What passes in the two nanoseconds that a unit lasts at the most, or the one token that it is at
/// the most.
fn unit(quota: Quota) -> BigRational {
    (rate(quota) * ratio(2)).min(ratio(1))
}

impl Fractions {
    pub fn new(quota: Quota) -> Fractions {
        let (early, owed_max) = (unit(quota), owed_max(quota));
        let (spent, taken) = (BigRational::zero(), BigInt::zero());
        Fractions { quota, origin: 0, latest: 0, spent, early, taken, owed_max }
    }

    /// Tokens earned back since the line began.
    fn line(&self, now: u64) -> BigRational {
        rate(self.quota) * ratio(now.saturating_sub(self.origin))
    }

    /// What is owed, by the latest clock there was.
    fn owed(&self) -> BigRational {
        (&self.spent - self.line(self.latest)).max(BigRational::zero())
    }

    /// Comes to know of a moment, whatever is done at it.
    pub fn see(&mut self, now: u64) {
        self.latest = self.latest.max(now);
        if self.owed_max < ratio(self.taken.clone()) {
            let most = self.line(now) + &self.owed_max;
            self.spent = self.spent.clone().min(most);
        }
    }

    /// Takes the cost of an admitted call; false if it was not there to be taken.
    #[must_use]
    pub fn takes(&mut self, cost: u64, now: u64) -> bool {
        // Each change carries fractions of a unit to 2^-64; a script has fewer than 2^10.
        let rounding = BigRational::new(1.into(), BigInt::from(1_u64 << 54));
        let most = ratio(self.quota.burst_size()) + &self.early + rounding;
        let is_there = self.owed() + ratio(cost) <= most;
        self.spent = self.spent.clone().max(self.line(now)) + ratio(cost);
        self.taken += cost;
        is_there
    }

    pub fn refund(&mut self, tokens: u64, now: u64) {
        let line = self.line(now);
        if self.spent > line {
            self.spent = (&self.spent - ratio(tokens)).max(line);
        }
    }

    pub fn reset(&mut self) {
        self.spent = BigRational::zero();
        self.taken = BigInt::zero();
    }

    pub fn set_quota(&mut self, quota: Quota, now: u64) {
        // At the same rate the line goes on, and a clock behind this moment does not stand still.
        if rate(quota) != rate(self.quota) {
            self.spent = self.owed();
            self.origin = self.origin.max(now);
        }
        self.early = self.early.clone().max(unit(quota));
        (self.quota, self.owed_max) = (quota, owed_max(quota));
        self.see(now);
    }
}
