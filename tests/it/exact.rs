//! P3, no drift: the reference's clock in units against exact fractions of a token.
//!
//! A bucket in fractions holds `tokens = min(burst, tokens + elapsed * limit / period)`. Fed with
//! the calls that the reference admits, it must have had the tokens for each, but for the one unit
//! by which a spell may begin early; and it must not have had them when the reference refused.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use proptest::prelude::*;
use tollgate::{Algorithm, Quota};

use crate::properties::{arb_bucket_quota, arb_steps};
use crate::reference::Reference;

/// A bucket in fractions of a token.
struct Exact {
    tokens: BigRational,
    burst: BigRational,
    rate: BigRational,
    last: u64,
}

fn ratio(number: impl Into<BigInt>) -> BigRational {
    BigRational::from(number.into())
}

impl Exact {
    fn new(quota: Quota) -> Exact {
        let burst = ratio(quota.burst_size());
        let rate = ratio(quota.limit()) / ratio(quota.period().as_nanos());
        Exact { tokens: burst.clone(), burst, rate, last: 0 }
    }

    /// The tokens there are at `now`.
    fn at(&mut self, now: u64) -> &BigRational {
        let earned = &self.rate * ratio(now - self.last);
        self.tokens = (&self.tokens + earned).min(self.burst.clone());
        self.last = now;
        &self.tokens
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::properties::cases()))]

    #[test]
    fn a_spell_begins_at_most_a_unit_early_and_nothing_adds_up(
        quota in arb_bucket_quota(),
        steps in arb_steps(),
    ) {
        let mut reference = Reference::new(Algorithm::TokenBucket, quota);
        let mut exact = Exact::new(quota);
        // One unit, in tokens: what passes in under two nanoseconds, or one token.
        let unit = (&exact.rate * ratio(2)).min(ratio(1));
        let mut now = 0_u64;
        for (wait, cost) in steps {
            now = now.saturating_add(wait).min(1 << 55);
            let answer = reference.check(cost, now);
            let tokens = exact.at(now).clone();
            let short = ratio(cost) - &tokens;
            if answer.allowed {
                prop_assert!(short <= unit, "early by {short} tokens");
                exact.tokens -= ratio(cost);
            } else {
                prop_assert!(short.is_positive(), "late: {tokens} tokens, {cost} asked");
            }
            let whole = quota.period().as_nanos().checked_rem(u128::from(quota.limit()));
            if whole == Some(0) {
                prop_assert!(!answer.allowed || short <= BigRational::zero(), "not on time");
            }
        }
    }
}

/// The rates of the promise, drained for as long as a token is early or late by nothing.
#[test]
fn odd_rates_keep_their_rate_through_a_busy_spell() {
    let rates = [
        (3, 1_000_000_000_u64),
        (7, 60_000_000_000),
        (997, 1_000_000_000),
        (12_500_000_000, 1_000_000_000),
    ];
    for (limit, period) in rates {
        let quota = Quota::new(limit, std::time::Duration::from_nanos(period)).burst(1);
        let limiter = tollgate::Limiter::new(quota).unwrap();
        assert!(limiter.check_at(1, 0).is_allowed());
        let periods = if limit > 1_000_000 { 0 } else { 3 };
        for token in 1..=limit * periods {
            // The spell began at 0, so token k comes at ceil(k * period / limit).
            let due = (u128::from(token) * u128::from(period)).div_ceil(u128::from(limit)) as u64;
            let spell_began_early = period % limit != 0;
            assert!(!limiter.check_at(1, due - 2).is_allowed(), "{limit}: token {token}");
            let exactly = limiter.check_at(1, due - 1).is_allowed();
            assert!(spell_began_early || !exactly, "{limit}: token {token} a nanosecond early");
            assert!(exactly || limiter.check_at(1, due).is_allowed(), "{limit}: token {token}");
        }
    }
}
