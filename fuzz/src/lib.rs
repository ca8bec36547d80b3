//! What the fuzz targets share: a script of calls, and the reference that the answers are held
//! against. The reference is the tests' own.

pub mod course;
pub mod crowd;
pub mod fractions;
#[path = "../../tests/it/reference.rs"]
pub mod reference;
pub mod script;

use std::time::Duration;

use reference::{Answer, Reference};
use script::Script;
use tollgate::{Algorithm, Builder, Clock, Decision, Limiter, Quota};

/// The decision in the reference's terms.
pub fn answer(decision: &Decision) -> Answer {
    let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).expect("64 bits of nanoseconds");
    Answer {
        allowed: decision.is_allowed(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after().map(nanos),
        reset_after: decision.reset_after().map(nanos),
        delay: nanos(decision.delay()),
    }
}

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
