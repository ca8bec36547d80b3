//! What the fuzz targets share: a script of calls, and the reference that the answers are held
//! against. The reference is the tests' own.

pub mod course;
pub mod crowd;
pub mod fractions;
pub mod program;
#[path = "../../tests/it/reference.rs"]
pub mod reference;
pub mod script;

use reference::Reference;
use script::Script;
use tollgate::{Algorithm, Builder, Clock, Limiter, Quota};

/// The largest cost that a quota can ever admit.
pub fn most(algorithm: Algorithm, quota: Quota) -> u64 {
    if is_bucket(algorithm) { quota.burst_size() } else { quota.limit() }
}

/// Whether tokens come back with time.
pub fn is_bucket(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
}

/// The builder of the script's limiter of one state.
pub fn builder(script: &Script) -> Builder {
    Limiter::builder(script.quotas[0])
        .algorithm(script.algorithm)
        .log_limit(script.ring)
        .log_cost(script.cost_max)
        .clock(Clock::manual().0)
}

/// The reference of a key that was never seen.
pub fn reference(script: &Script) -> Reference {
    match script.algorithm {
        Algorithm::SlidingWindowLog => {
            Reference::log(script.quotas[0], script.ring, script.cost_max)
        }
        algorithm => Reference::new(algorithm, script.quotas[0]),
    }
}
