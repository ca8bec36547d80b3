//! A key that several threads insert at once is one key: together they are admitted its burst.

use std::time::Duration;

use tollgate::{Algorithm, Overflow, Quota};

use crate::{
    NOW, SECOND, buckets, debt, fill, left, one_bucket, race, race_of_three, rounds, some_of, takes,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);

/// Two keys are brought by two threads, each of which begins with another one.
#[test]
fn two_first_calls_share_one_token() {
    for _ in rounds(3) {
        let limiter = one_bucket(ONE);
        let calls = |keys: [u64; 2]| keys.map(|key| takes(&limiter, key, NOW));
        let (here, there) = race(|| calls([1, 2]), || calls([2, 1]));
        assert!(here[0] != there[1] && here[1] != there[0], "here {here:?}, there {there:?}");
        for key in [1, 2] {
            assert_eq!(debt(&limiter, key, NOW), Duration::from_secs(1));
        }
        assert_eq!(limiter.stats().refused_full, 0);
    }
}

/// The same where all cells are held by keys that have become idle, so that each insert takes a
/// key's cell, and each may take another one.
#[test]
fn two_first_calls_in_the_cells_of_idle_keys_share_one_token() {
    let limiter = one_bucket(ONE);
    fill(&limiter, 100, 1, NOW - SECOND);
    for round in rounds(3) {
        let (now, key) = (NOW + round * SECOND, 1_000 + round);
        let charge = || takes(&limiter, key, now);
        let (here, there) = race(charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
        assert_eq!(debt(&limiter, key, now), Duration::from_secs(1));
    }
    assert_eq!(limiter.stats().refused_full, 0);
}

/// Three threads, two tokens, and a peek in the midst of it that is told what is left before a call
/// or after it.
#[test]
fn three_first_calls_share_two_tokens() {
    for _ in rounds(3) {
        let limiter = one_bucket(TWO);
        let charge = || takes(&limiter, 1, NOW);
        let look = || (left(&limiter, 1, NOW), charge());
        let (one, two, (seen, three)) = race_of_three(charge, charge, look);
        assert_eq!([one, two, three].iter().filter(|taken| **taken).count(), 2);
        assert!(seen <= 2 && three == (seen > 0) || seen > 0, "seen {seen}, then {three}");
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(2));
    }
}

/// Whoever is refused was refused because of what the other took.
#[test]
fn a_first_call_is_refused_only_for_what_another_took() {
    let algorithms = [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindowLog];
    for algorithm in some_of(algorithms) {
        for _ in rounds(3) {
            let limiter = buckets(1, algorithm, Quota::per_second(2), Overflow::Refuse);
            let two = || limiter.check_at(&1, 2, NOW).is_allowed();
            let (two, one) = race(two, || takes(&limiter, 1, NOW));
            assert!(one != two, "{algorithm:?}: one token {one}, two tokens {two}");
            assert_eq!(left(&limiter, 1, NOW), u64::from(!two));
        }
    }
}

/// A full bucket of live keys and two new ones: each eviction forgives one key, and is counted.
#[test]
fn what_is_forgotten_in_a_full_bucket_is_counted() {
    for _ in rounds(1) {
        let limiter = buckets(1, Algorithm::TokenBucket, ONE, Overflow::EvictNearest);
        // The first one is the nearest to idle.
        assert!(takes(&limiter, 100, NOW - 2));
        fill(&limiter, 101, 1, NOW - 1);
        let before = limiter.stats().evicted;
        let (old, new) = race(|| takes(&limiter, 101, NOW), || takes(&limiter, 1, NOW));
        let evicted = limiter.stats().evicted - before;
        assert!(new && evicted == 1 + u64::from(old), "old {old}, new {new}, {evicted}");
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1));
    }
}

/// Two threads bring one new key, for which a key that has nothing left is evicted: neither is
/// refused for what that one owed.
#[test]
fn a_new_key_is_not_refused_for_the_debt_of_the_evicted_one() {
    let limiter = buckets(1, Algorithm::TokenBucket, TWO, Overflow::EvictNearest);
    fill(&limiter, 100, 2, NOW);
    for round in rounds(9) {
        // Each time another key is the nearest to idle.
        let (now, key) = (NOW + round + 1, 1_000 + round);
        let charge = || takes(&limiter, key, now);
        assert_eq!(race(charge, charge), (true, true));
        assert_eq!(debt(&limiter, key, now), Duration::from_secs(2));
    }
}
