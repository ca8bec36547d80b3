//! The crate governor, as it is by default, with our hasher, and with a coarse clock.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::OnceLock;

use governor::clock::{Clock, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use super::{BESIDE_COARSE, TICK, UPKEEP};
use crate::contender::{Contender, Entrant, Key, Path};

type Keyed<K, S, C> =
    RateLimiter<K, DashMapStateStore<K, S>, C, NoOpMiddleware<<C as Clock>::Instant>>;

impl<K, S, C> Contender<K> for Keyed<K, S, C>
where
    K: Key,
    S: BuildHasher + Clone + Send + Sync,
    C: Clock + Send + Sync,
    C::Instant: Send + Sync,
{
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.check_key(key).is_ok()
    }
}

impl Contender<()> for DefaultDirectRateLimiter {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.check().is_ok()
    }
}

fn quota(path: Path) -> Quota {
    let burst = NonZeroU32::new(path.burst()).expect("no path has a burst of 0");
    Quota::with_period(path.interval()).expect("no path has an interval of 0").allow_burst(burst)
}

/// With the standard library's hasher.
pub fn default<K: Key>(path: Path) -> Entrant<K> {
    let hasher = RandomState::new();
    Entrant::new("governor", RateLimiter::dashmap_with_hasher(quota(path), hasher))
}

/// With our hasher.
pub fn with_ahash<K: Key>(path: Path) -> Entrant<K> {
    let hasher = ahash::RandomState::new();
    Entrant::new("governor-ahash", RateLimiter::dashmap_with_hasher(quota(path), hasher))
}

/// With its coarse clock, which moves as often as ours; a process can run one.
fn with_upkeep<K: Key>(path: Path) -> Entrant<K> {
    static CLOCK: OnceLock<Option<QuantaUpkeepClock>> = OnceLock::new();
    let clock = CLOCK.get_or_init(|| QuantaUpkeepClock::from_interval(TICK).ok());
    match clock.clone() {
        Some(clock) => Entrant::new(UPKEEP, RateLimiter::dashmap_with_clock(quota(path), clock)),
        None => Entrant::left_out(UPKEEP, "its clock cannot run"),
    }
}

/// With one state per key.
pub fn keyed<K: Key>(path: Path, is_coarse: bool) -> Vec<Entrant<K>> {
    let upkeep = match is_coarse {
        true => with_upkeep(path),
        false => Entrant::left_out(UPKEEP, BESIDE_COARSE),
    };
    vec![default(path), with_ahash(path), upkeep]
}

/// With one state.
pub fn one_state(path: Path) -> Entrant<()> {
    Entrant::new("governor", RateLimiter::direct(quota(path)))
}
