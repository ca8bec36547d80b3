//! The cell of a key that owes nothing is taken for another key, and no answer changes by it.
//!
//! The models with one insert have three preemptions, or no bound; that with two has two, and in a
//! deep run three.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, KeyedLimiter, Overflow, Quota};
use tollgate_loom_tests::{
    NOW, SECOND, debt, explore, explore_deep, left, race, takes, two_cells, two_cells_of,
};

const ONE: Quota = Quota::per_second(1).burst(1);

/// Both cells are held by keys that owe nothing from `NOW` on.
fn two_idle_keys() -> Arc<KeyedLimiter<u64>> {
    let limiter = two_cells(ONE, Overflow::EvictNearest);
    assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
    limiter
}

/// A key comes back while its cell is taken for a new one: both have all they are due, and each
/// owes what it took, and nothing of the other's.
#[test]
fn a_key_comes_back_while_its_cell_is_taken() {
    explore("reclaim: hit against kill", Some(3), || {
        let limiter = two_idle_keys();
        let (old, new) =
            race(&limiter, |l| takes(l, 1, NOW), |l: &KeyedLimiter<u64>| takes(l, 3, NOW));
        assert!(old && new, "old: {old}, new: {new}");
        assert_eq!(limiter.stats().evicted, 0);
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1));
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
    });
}

/// A thread whose clock is a nanosecond behind must refuse the old key, whether it finds it or
/// finds that it was forgotten; and what it is told is the same.
#[test]
fn a_late_refusal_is_the_old_keys_own() {
    explore("reclaim: late refusal", Some(3), || {
        let limiter = two_idle_keys();
        let late = |l: &KeyedLimiter<u64>| l.check_at(&1, 1, NOW - 1).retry_after();
        let (wait, new) = race(&limiter, late, |l| takes(l, 3, NOW));
        assert!(new && wait == Some(Duration::from_nanos(1)), "wait: {wait:?}");
    });
}

/// And so must one that only looks, at either key.
#[test]
fn a_late_look_is_at_the_old_keys_own() {
    for key in [1, 2] {
        explore(&format!("reclaim: late look at {key}"), Some(3), move || {
            let limiter = two_idle_keys();
            let late = move |l: &KeyedLimiter<u64>| left(l, key, NOW - 1);
            let (left, new) = race(&limiter, late, |l| takes(l, 3, NOW));
            assert!(new && left == 0, "left: {left}");
        });
    }
}

/// A refund for the old key is not given to the new one.
#[test]
fn a_refund_does_not_reach_the_new_key() {
    explore("reclaim: refund", None, || {
        let limiter = two_idle_keys();
        let refund = |l: &KeyedLimiter<u64>| l.refund_at(&1, 1, NOW - 1);
        let ((), new) = race(&limiter, refund, |l| takes(l, 3, NOW));
        assert!(new);
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
        assert_eq!(left(&limiter, 1, NOW), 1);
    });
}

/// Threads read different clocks. A key that a fast one has forgotten, because by it nothing was
/// owed any more, is met by a slow one, by which it owes all it took: the slow one must not find
/// it as new. Under every algorithm.
#[test]
fn a_key_that_a_fast_clock_forgot_gains_nothing_from_a_slow_one() {
    let algorithms = [
        (Algorithm::TokenBucket, NOW + SECOND),
        (Algorithm::FixedWindow, NOW + SECOND),
        (Algorithm::SlidingWindowCounter, NOW + 2 * SECOND),
        (Algorithm::SlidingWindowLog, NOW + SECOND),
    ];
    for (algorithm, ahead) in algorithms {
        explore(&format!("reclaim: fast and slow clock, {algorithm:?}"), Some(3), move || {
            let quota = Quota::per_second(2);
            let limiter = two_cells_of(algorithm, quota, Overflow::EvictNearest);
            for key in [1, 2] {
                assert!(limiter.check_at(&key, 2, NOW).is_allowed());
            }
            let slow = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
            let (slow, fast) = race(&limiter, slow, move |l| takes(l, 3, ahead));
            assert!(!slow && fast, "slow: {slow}, fast: {fast}");
            // What is due by the fast clock is there all the same, in an idle or a free cell.
            assert!(takes(&limiter, 2, ahead) && limiter.stats().evicted == 0);
        });
    }
}

/// A new key's insert takes a cell, is stopped, and another insert has to do without it. Neither
/// sees a full bucket as long as a cell is idle.
#[test]
fn two_new_keys_find_two_idle_cells() {
    explore_deep("reclaim: two inserts", 2, Some(3), || {
        let limiter = two_idle_keys();
        let (three, four) =
            race(&limiter, |l| takes(l, 3, NOW), |l: &KeyedLimiter<u64>| takes(l, 4, NOW));
        assert!(three && four && limiter.stats().evicted == 0);
        assert!(!takes(&limiter, 3, NOW) && !takes(&limiter, 4, NOW));
    });
}
