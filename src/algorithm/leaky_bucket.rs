//! Leaky bucket: a queue with a constant outflow.
//!
//! **Definition.** Calls enter a queue of `burst` places and leave it first in, first out, one
//! token's worth per `period / limit`. A call that finds no room is refused. The answer carries
//! the delay until its departure, and the caller holds the call for that long.
//!
//! **Source.** Turner, "New directions in communications", 1986: the leaky bucket as a queue.
//!
//! **How.** The queue's end is the token bucket's v: what is owed is what stands in the queue.
//! Admission is therefore the token bucket's; what this file adds is the departure. At 10 a
//! second with burst 3, four simultaneous calls get 0, 100, 200 ms, and a refusal.
//!
//! **Worst case.** Out of the queue: `1 + t * limit / period` in any interval of length t. Into
//! it: as the token bucket.

use crate::terms::{Reading, Terms};

/// The first nanosecond at which an admitted call of `cost`, which moved the queue's end to
/// `time`, departs: when all that stood before it has left.
pub(crate) fn departs_at(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
    let before = time.saturating_sub(cost.saturating_mul(terms.layout.unit));
    if before <= reading.position { Some(reading.now) } else { terms.line.reaches(before) }
}
