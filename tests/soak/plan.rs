//! What is run: the segments, their quotas, and the times of a round.
//!
//! Time is virtual and moves with the work, so that how many keys are live at once does not depend
//! on the machine.

use std::time::Duration;

use tollgate::{Algorithm, Overflow, Quota};

pub const THREADS: usize = 8;

/// Keys of capacity. About a third of them are live at once: see [`STRANGERS`].
pub const CAPACITY: usize = 1 << 16;

/// New keys that each thread asks for in a round. A stranger owes its token for at most two windows
/// of 20 ms and the 8 ms by which clocks differ, which is 24 rounds: 26 000 live keys, five in a
/// bucket of 31 cells. That one is full then happens once in 10^15 calls.
pub const STRANGERS: usize = 128;

/// New keys of a round that all threads ask for at one instant.
pub const CONTESTED: usize = 64;

/// Watched keys whose calls are made one after the other.
pub const SERIAL: usize = 600;

/// Watched keys that all threads call as they like.
pub const FREE: usize = 400;

/// How many of those are called in one round.
pub const FREE_A_ROUND: usize = 64;

/// The limit of the rings, and the largest cost that is asked.
pub const LOG_LIMIT: u64 = 8;
pub const COST_MAX: u64 = 3;

const MILLISECOND: u64 = 1_000_000;

/// How far a round's clocks lie after those of the round before.
const ROUND: u64 = 2 * MILLISECOND;

/// How far the clocks of threads lie apart.
pub const APART: u64 = 8 * MILLISECOND;

/// Every so many rounds all clocks jump ahead, so that everything falls idle at once.
const ROUNDS_TO_JUMP: u64 = 512;
const JUMP: u64 = 400 * MILLISECOND;

/// The time by the slowest clock in a round.
pub fn earliest(round: u64) -> u64 {
    1_000 * MILLISECOND + round * ROUND + round / ROUNDS_TO_JUMP * JUMP
}

/// The time by the fastest clock in a round: none has ever shown a later one.
pub fn latest(round: u64) -> u64 {
    earliest(round) + APART
}

/// A quota that is put in force.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub quota: Quota,
    /// Whether it stays for a few rounds only: strangers do not fall idle under it.
    pub is_brief: bool,
}

/// Rounds for which a brief quota stays.
pub const BRIEF: u64 = 3;

const fn lasting(quota: Quota) -> Step {
    Step { quota, is_brief: false }
}

/// Other rates, other bursts, an interval that is no whole number of nanoseconds; and one so slow
/// that it needs other units, as does the way back from it. GCRA takes other units for each.
const BUCKETS: [Step; 6] = [
    lasting(Quota::per_second(100).burst(5)),
    lasting(Quota::per_second(200).burst(8)),
    lasting(Quota::per_second(70).burst(3)),
    Step { quota: Quota::per_day(1).burst(4), is_brief: true },
    lasting(Quota::per_second(90).burst(5)),
    lasting(Quota::per_second(200).burst(4)),
];

/// Other limits, and other lengths, which need other units.
const WINDOWS: [Step; 4] = [
    lasting(Quota::new(5, Duration::from_millis(20))),
    lasting(Quota::new(8, Duration::from_millis(20))),
    lasting(Quota::new(4, Duration::from_millis(12))),
    lasting(Quota::new(6, Duration::from_millis(12))),
];

/// The quota of each change, in turn; the first is the one that a limiter is built with.
pub fn step(algorithm: Algorithm, change: usize) -> Step {
    if is_bucket(algorithm) {
        BUCKETS[change % BUCKETS.len()]
    } else {
        WINDOWS[change % WINDOWS.len()]
    }
}

pub fn is_bucket(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
}

/// A part of the run, with a limiter of its own.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub name: &'static str,
    pub algorithm: Algorithm,
    pub overflow: Overflow,
    /// Its share of the run, of [`SHARES`].
    pub share: u32,
}

pub const SHARES: u32 = 20;

const fn segment(
    name: &'static str,
    algorithm: Algorithm,
    overflow: Overflow,
    share: u32,
) -> Segment {
    Segment { name, algorithm, overflow, share }
}

/// Half of the time is the token bucket's. A table that is full would show as a refusal in one half
/// of the segments and as an eviction in the other.
pub const SEGMENTS: [Segment; 7] = [
    segment("token bucket", Algorithm::TokenBucket, Overflow::Refuse, 5),
    segment("gcra", Algorithm::Gcra, Overflow::EvictNearest, 2),
    segment("leaky bucket", Algorithm::LeakyBucket, Overflow::Refuse, 2),
    segment("fixed window", Algorithm::FixedWindow, Overflow::EvictNearest, 2),
    segment("sliding counter", Algorithm::SlidingWindowCounter, Overflow::Refuse, 2),
    segment("sliding log", Algorithm::SlidingWindowLog, Overflow::EvictNearest, 2),
    segment("token bucket", Algorithm::TokenBucket, Overflow::EvictNearest, 5),
];
