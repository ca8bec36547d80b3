//! The limiters that are held against each other, under the same quotas.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tollgate::{KeyedLimiter, Quota};

/// A key is idle ten seconds after its only call, and never out of tokens here.
const INTERVAL: Duration = Duration::from_secs(10);
const BURST: u32 = 1_000_000;

/// Never used up: an interval of a microsecond, counted in nanoseconds.
pub const AMPLE: u32 = 1_000_000;

/// Admits or refuses a call of one token.
pub trait Limits: Sync {
    fn admits(&self, key: u64) -> bool;
}

impl Limits for KeyedLimiter<u64> {
    fn admits(&self, key: u64) -> bool {
        self.check(&key).is_allowed()
    }
}

impl Limits for DefaultKeyedRateLimiter<u64> {
    fn admits(&self, key: u64) -> bool {
        self.check_key(&key).is_ok()
    }
}

fn ours(quota: Quota, keys: u64) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(quota).capacity(keys as usize).build().expect("memory for the keys")
}

pub fn slow_ours(keys: u64) -> KeyedLimiter<u64> {
    ours(Quota::new(1, INTERVAL).burst(BURST.into()), keys)
}

pub fn slow_governor() -> DefaultKeyedRateLimiter<u64> {
    let quota = governor::Quota::with_period(INTERVAL).expect("not zero");
    RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(BURST).expect("not zero")))
}

pub fn ample_ours(keys: u64) -> KeyedLimiter<u64> {
    filled(ours(Quota::per_second(AMPLE.into()), keys), keys)
}

pub fn ample_governor(keys: u64) -> DefaultKeyedRateLimiter<u64> {
    let limit = NonZeroU32::new(AMPLE).expect("not zero");
    filled(RateLimiter::keyed(governor::Quota::per_second(limit)), keys)
}

pub fn filled<L: Limits>(limiter: L, keys: u64) -> L {
    assert!((0..keys).all(|key| limiter.admits(key)), "a new key is admitted");
    limiter
}
