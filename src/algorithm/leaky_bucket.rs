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

use crate::algorithm::token_bucket::Answer;

/// Nanoseconds until an admitted call of `cost` departs: when all that stood before it has left.
pub(crate) fn departs_in(answer: &Answer, cost: u64) -> Option<u64> {
    answer.until_spent_before(cost)
}
