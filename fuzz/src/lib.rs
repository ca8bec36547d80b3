//! What the fuzz targets share: a script of calls, and the reference that the answers are held
//! against. The reference is the tests' own.

pub mod course;
pub mod crowd;
pub mod fractions;
#[path = "../../tests/it/reference.rs"]
pub mod reference;
pub mod script;

use std::time::Duration;

use course::Course;
use reference::{Answer, Reference};
use script::Script;
use tollgate::{Algorithm, Builder, Clock, Decision, Limiter, Quota};

/// What windows count further ahead of the clock than this may be lost when their length changes:
/// docs/guarantees.md, "The range".
const TEN_YEARS: u64 = 315_576_000 * 1_000_000_000;

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

/// Whether time is cut into windows.
fn has_windows(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindowCounter)
}

/// Whether a change of quota is one that the reference follows. In windows of less than four
/// nanoseconds no count fits the engine's word, so that it cannot tell a key that was seen from one
/// that was not; and what windows count far ahead of the clock may be lost.
pub fn is_followed(algorithm: Algorithm, course: &Course, quota: Quota) -> bool {
    let is_countable = |quota: Quota| quota.period() >= Duration::from_nanos(4);
    let is_near = course.latest - course.now <= TEN_YEARS;
    !has_windows(algorithm) || (is_near && is_countable(quota) && is_countable(course.quota))
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
