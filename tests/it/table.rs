//! P5 and P6: what fits is kept, what does not is counted, what is idle makes room.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::{Algorithm, Clock, KeyedLimiter, Overflow, Quota};

const SECOND: u64 = 1_000_000_000;

fn build(overflow: Overflow, capacity: usize, seed: u64) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(Quota::per_hour(2))
        .capacity(capacity)
        .overflow(overflow)
        .seed(seed)
        .clock(Clock::manual().0)
        .build()
        .unwrap()
}

/// A million live keys in a table for a million, ten times over.
#[test]
fn live_keys_up_to_the_capacity_fit() {
    let (keys, seeds) = if cfg!(debug_assertions) { (100_000, 2) } else { (1_000_000, 10) };
    let mut evicted = 0;
    for seed in 0..seeds {
        let limiter = build(Overflow::EvictNearest, keys as usize, seed);
        let admitted = (0..keys).filter(|key| limiter.check_at(key, 1, 0).is_allowed()).count();
        assert_eq!(admitted as u64, keys);
        evicted += limiter.stats().evicted;
        let len = limiter.len() as f64 / keys as f64;
        assert!((0.98..1.02).contains(&len), "{len}");
    }
    assert!(evicted <= 10, "{evicted} evictions");
}

/// Each policy does what it says when every cell of a bucket is live, and counts it.
#[test]
fn overflow_does_what_the_policy_says() {
    let keys = 200;
    for overflow in [Overflow::EvictNearest, Overflow::Refuse, Overflow::Admit] {
        let limiter = build(overflow, 12, 1);
        let decisions: Vec<_> = (0..keys).map(|key| limiter.check_at(&key, 1, key)).collect();
        let admitted = decisions.iter().filter(|decision| decision.is_allowed()).count() as u64;
        let full = decisions.iter().filter(|decision| decision.is_full()).count() as u64;
        let stats = limiter.stats();
        match overflow {
            Overflow::EvictNearest => {
                assert_eq!((admitted, full, stats.evicted), (keys, 0, keys - 31));
                // The nearest to idle went first: those that were charged last are still there.
                assert!(
                    (keys - 31..keys).all(|key| limiter.peek_at(&key, 1, keys).remaining() == 1)
                );
            }
            Overflow::Refuse => {
                assert_eq!((admitted, full, stats.refused_full), (31, keys - 31, keys - 31));
                let refused = decisions[keys as usize - 1];
                assert_eq!(refused.remaining(), 0);
                // After the wait a cell is idle, and the call is admitted.
                let due = keys - 1 + refused.retry_after().unwrap().as_nanos() as u64;
                assert!(!limiter.check_at(&(keys - 1), 1, due - 1).is_allowed());
                assert!(limiter.check_at(&(keys - 1), 1, due).is_allowed());
            }
            _ => {
                assert_eq!((admitted, full, stats.admitted_full), (keys, keys - 31, keys - 31));
                assert_eq!(limiter.len(), 31);
            }
        }
    }
}

/// P6: idle keys are forgotten without a trace, and nothing else is.
#[test]
fn idle_cells_are_reused_and_live_ones_are_not() {
    for algorithm in Algorithm::ALL {
        let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(2))
            .algorithm(algorithm)
            .log_cost(2)
            .capacity(12)
            .overflow(Overflow::Refuse)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        for second in 0..1_000 {
            let now = second * SECOND;
            // One key is drained every second, fifteen strangers come and go: the sliding counter has
            // those of two windows in sight.
            let drained = limiter.check_at(&u64::MAX, 2, now);
            assert_eq!(drained.remaining(), 0);
            assert!(!limiter.check_at(&u64::MAX, 1, now).is_allowed());
            for stranger in 0..15 {
                assert!(limiter.check_at(&(second * 15 + stranger), 1, now).is_allowed());
            }
            assert!(!limiter.check_at(&u64::MAX, 1, now).is_allowed());
        }
        let stats = limiter.stats();
        assert_eq!((stats.evicted, stats.refused_full), (0, 0), "{algorithm:?}");
        assert!(stats.reclaimed > 14_000, "{algorithm:?}: {}", stats.reclaimed);
    }
}

/// A key is forgotten by a clock that runs ahead, which then goes back an hour: nothing is gained.
#[test]
fn a_clock_that_goes_back_over_a_reclaim_gains_nothing() {
    for algorithm in Algorithm::ALL {
        let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_minute(6))
            .algorithm(algorithm)
            .log_cost(6)
            .capacity(12)
            .overflow(Overflow::Refuse)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        let (now, hour) = (3_600 * SECOND, 3_600 * SECOND);
        assert_eq!(limiter.check_at(&0, 6, now).remaining(), 0);
        // An hour later all is idle, and strangers take every cell.
        let strangers: Vec<u64> = (1..32).collect();
        assert!(strangers.iter().all(|key| limiter.check_at(key, 1, now + hour).is_allowed()));
        assert_eq!(limiter.stats().reclaimed, 1, "{algorithm:?}");
        // Back again, and one cell is given up: the first key has spent its six already.
        limiter.reset(&1);
        assert!(!limiter.check_at(&0, 1, now).is_allowed(), "{algorithm:?}");
        assert!(!limiter.check_at(&0, 1, now + 9 * SECOND).is_allowed(), "{algorithm:?}");
        assert!(limiter.check_at(&0, 1, now + hour).is_allowed(), "{algorithm:?}");
    }
}

/// A log that was forgotten by a fast clock does not know what it was before, and says by a slow one
/// that nothing remains, whatever is asked.
#[test]
fn a_log_that_does_not_know_its_past_has_nothing_left() {
    let millis = 1_000_000;
    let limiter: KeyedLimiter<u64> =
        KeyedLimiter::builder(Quota::new(4, Duration::from_millis(12)))
            .algorithm(Algorithm::SlidingWindowLog)
            .log_limit(8)
            .log_cost(3)
            .capacity(12)
            .overflow(Overflow::Refuse)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
    let (now, later) = (SECOND, SECOND + 15 * millis);
    assert_eq!(limiter.check_at(&0, 3, now).remaining(), 1);
    assert!((1..32).all(|key| limiter.check_at(&key, 1, later).is_allowed()));
    assert_eq!(limiter.stats().reclaimed, 1);
    limiter.reset_at(&1, later);
    assert_eq!(limiter.check_at(&0, 3, later).remaining(), 1);
    for cost in 0..4 {
        assert_eq!(limiter.peek_at(&0, cost, now + 5 * millis).remaining(), 0, "cost {cost}");
    }
    assert_eq!(limiter.peek_at(&0, 1, later).remaining(), 1);
}

/// Different seeds put keys in different places; a seed puts them in the same.
#[test]
fn placement_follows_the_seed() {
    let evicted = |seed| {
        let limiter = build(Overflow::Refuse, 24, seed);
        let full = |key: &u64| limiter.check_at(key, 1, 0).is_full();
        (0..100).filter(full).collect::<Vec<u64>>()
    };
    assert_eq!(evicted(1), evicted(1));
    let distinct: HashSet<_> = (0..10).map(evicted).collect();
    assert!(distinct.len() > 1);
}

#[test]
fn the_wait_of_a_full_table_is_not_zero() {
    let limiter = KeyedLimiter::<u64>::builder(Quota::per_second(0).burst(1))
        .algorithm(Algorithm::TokenBucket)
        .capacity(1)
        .overflow(Overflow::Refuse)
        .build()
        .unwrap();
    (0..31).for_each(|key| assert!(limiter.check_at(&key, 1, 0).is_allowed()));
    let refused = limiter.check_at(&99, 1, 0);
    assert!(refused.is_full());
    assert_eq!(refused.retry_after(), None, "nothing ever comes back");
    let foreseen = limiter.peek_at(&99, 1, 0);
    assert!(foreseen.is_full() && !foreseen.is_allowed(), "a peek says so too");
}

/// A window ahead of the clock keeps its cell when all of it was refunded: what the key had spent
/// before is not spent again by a clock that has gone back.
#[test]
fn a_window_ahead_of_the_clock_is_kept_though_it_counts_nothing() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(2))
            .algorithm(algorithm)
            .capacity(1)
            .overflow(Overflow::Refuse)
            .seed(1)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        assert!(limiter.check_at(&0, 2, SECOND).is_allowed());
        // The other cells, and the key's next window but two.
        assert!((0..31).all(|key| limiter.check_at(&key, 1, 4 * SECOND).is_allowed()));
        limiter.refund_at(&0, 1, SECOND);
        assert!(limiter.check_at(&31, 1, SECOND).is_full(), "{algorithm:?}");
        assert!(limiter.check_at(&0, 2, SECOND).is_allowed(), "of the window ahead");
        assert!(!limiter.check_at(&0, 1, SECOND).is_allowed(), "spent again: {algorithm:?}");
        assert!(limiter.check_at(&31, 1, 6 * SECOND).is_allowed());
    }
}
