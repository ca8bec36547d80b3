//! Other crates that limit rates.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pingora_limits::rate::Rate;
use ratelimit::Ratelimiter;
use throttlecrab::AdaptiveStore;

use crate::contender::{Contender, Entrant, Key, Path};

/// pingora's estimator counts a key in a sketch of its own size, which many keys share: one is
/// refused for what others did. It is measured for what a call costs, not for what it answers.
struct Sketch {
    rate: Rate,
    limit: isize,
}

impl<K: Key> Contender<K> for Sketch {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.rate.observe(key, 1) <= self.limit
    }
}

/// throttlecrab is asked with `&mut`, so a server with threads keeps it under a lock.
struct Locked {
    limiter: Mutex<throttlecrab::RateLimiter<AdaptiveStore>>,
    path: Path,
}

impl<K: Key> Contender<K> for Locked {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        let (burst, period) = (i64::from(self.path.burst()), self.path.period().as_secs() as i64);
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let text = key.text().unwrap_or_default();
        let answer = limiter.rate_limit(text, burst, burst, period, 1, SystemTime::now());
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}

impl Contender<()> for Ratelimiter {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.try_wait().is_ok()
    }
}

impl Contender<()> for leaky_bucket::RateLimiter {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.try_acquire(1)
    }
}

/// Those with a state per key, and why the others are not among them.
pub fn keyed<K: Key>(keys: usize, path: Path) -> Vec<Entrant<K>> {
    let limit = if path == Path::Refused { 1 } else { isize::MAX };
    let rate = Rate::new(Duration::from_secs(86_400));
    vec![
        Entrant::new("pingora-limits", Sketch { rate, limit }),
        throttlecrab(keys, path),
        Entrant::left_out("ratelimit", "one state, no keys"),
        Entrant::left_out("leaky-bucket", "one state, no keys"),
    ]
}

fn throttlecrab<K: Key>(keys: usize, path: Path) -> Entrant<K> {
    let name = "throttlecrab";
    if K::from_number(0).text().is_none() {
        return Entrant::left_out(name, "keys are strings only");
    }
    if path == Path::Refused {
        return Entrant::left_out(name, "a burst of 1 is not limited (see the exact cases)");
    }
    let store = AdaptiveStore::with_capacity(keys);
    let limiter = Mutex::new(throttlecrab::RateLimiter::new(store));
    Entrant::new(name, Locked { limiter, path })
}

/// Those with one state.
pub fn one_state(path: Path) -> Vec<Entrant<()>> {
    let (burst, period) = (u64::from(path.burst()), path.period());
    let ratelimit = Ratelimiter::builder(burst)
        .period(period)
        .max_tokens(burst)
        .initial_available(burst)
        .build()
        .expect("a limit that fits");
    let burst = burst as usize;
    let leaky = leaky_bucket::RateLimiter::builder()
        .max(burst)
        .initial(burst)
        .refill(burst)
        .interval(period)
        .build();
    vec![Entrant::new("ratelimit", ratelimit), Entrant::new("leaky-bucket", leaky)]
}
