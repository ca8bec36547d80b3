//! A bucket without room: what the overflow policy may forget, and what it must not.
//!
//! Each key of these models that is forgotten with a debt gains its burst once, and the limiter
//! counts how often that happened. One insert is explored without a bound or with three
//! preemptions, two inserts that evict with two, and in a deep run with three.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{KeyedLimiter, Overflow, Quota};
use tollgate_loom_tests::{NOW, SECOND, debt, explore, explore_deep, left, race, takes, two_cells};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);

/// Keys 1 and 2 fill the bucket, and each owes so many tokens.
fn full(quota: Quota, overflow: Overflow, owed: u64) -> Arc<KeyedLimiter<u64>> {
    let limiter = two_cells(quota, overflow);
    for key in [1, 2] {
        assert!(limiter.check_at(&key, owed, NOW).is_allowed());
    }
    limiter
}

/// A charge is under way on a key that is evicted, and the new key comes to stand at the very same
/// time: the charge must not be booked on the new key.
#[test]
fn a_charge_on_an_evicted_key_does_not_reach_the_new_one() {
    explore("evict: charge", Some(3), || {
        let limiter = full(TWO, Overflow::EvictNearest, 1);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (old, new) = race(&limiter, charge, |l| takes(l, 3, NOW));
        // Both have budget left, whatever was forgotten.
        assert!(old && new, "old: {old}, new: {new}");
        if limiter.stats().evicted == 1 {
            assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
            assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(2));
        }
    });
}

/// Nor must a refund.
#[test]
fn a_refund_of_an_evicted_key_does_not_reach_the_new_one() {
    explore("evict: refund", None, || {
        let limiter = full(TWO, Overflow::EvictNearest, 1);
        let refund = |l: &KeyedLimiter<u64>| l.refund_at(&1, 1, NOW);
        let ((), new) = race(&limiter, refund, |l| takes(l, 3, NOW));
        assert!(new);
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
    });
}

/// A key that owes all it may is refused, unless it was forgotten, and that was counted.
#[test]
fn a_key_gains_only_by_an_eviction_that_is_counted() {
    explore("evict: refusal", Some(3), || {
        let limiter = full(ONE, Overflow::EvictNearest, 1);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (old, new) = race(&limiter, charge, |l| takes(l, 3, NOW));
        // The new key evicts one, and an old key that was forgotten evicts another.
        assert!(new && (!old || limiter.stats().evicted == 2), "old: {old}, new: {new}");
    });
}

/// A new key that two threads bring is one key. Whoever comes second may still see the debt of the
/// key that had the cell: it must not take it for the new key's, and refuse.
#[test]
fn a_new_key_is_not_refused_for_the_debt_of_the_evicted_one() {
    explore_deep("evict: one key, two threads that fit", 2, Some(3), || {
        let limiter = full(TWO, Overflow::EvictNearest, 2);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 3, NOW);
        assert_eq!(race(&limiter, charge, charge), (true, true));
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(2));
    });
    explore_deep("evict: one key, two threads, one token", 2, Some(3), || {
        let limiter = full(ONE, Overflow::EvictNearest, 1);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 3, NOW);
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
    });
}

/// Of two new keys the one that owes most stays, though its insert may have begun before the other's
/// was committed, and may evict that one.
#[test]
fn a_key_that_evicts_a_new_one_has_its_cell() {
    explore_deep("evict: two keys, two cells", 2, Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW - SECOND / 4));
        assert!(limiter.check_at(&2, 2, NOW - SECOND / 4).is_allowed());
        let two = |l: &KeyedLimiter<u64>| l.check_at(&4, 2, NOW).is_allowed();
        let (two, one) = race(&limiter, two, |l| takes(l, 3, NOW));
        assert!(two && one);
        assert_eq!(debt(&limiter, 4, NOW), Duration::from_secs(2));
        assert_eq!(limiter.stats().evicted, 2);
    });
}

/// Whoever looks at a key that has budget is told so, and whatever happens to its cell.
#[test]
fn a_key_with_budget_is_never_refused() {
    explore("evict: peek at a key that comes", Some(3), || {
        let limiter = full(TWO, Overflow::EvictNearest, 2);
        let peek = |l: &KeyedLimiter<u64>| left(l, 3, NOW);
        let (seen, new) = race(&limiter, peek, |l| takes(l, 3, NOW));
        assert!(new && (seen == 1 || seen == 2), "seen: {seen}");
    });
}

/// Where a full bucket refuses, nobody loses anything: the keys that are there go on, and of two
/// new keys one has the last cell.
#[test]
fn refusing_forgets_nobody() {
    explore("refuse: charge against a key without room", None, || {
        let limiter = full(TWO, Overflow::Refuse, 1);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (old, new) = race(&limiter, charge, |l| l.check_at(&3, 1, NOW));
        assert!(old && !new.is_allowed() && new.is_full());
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(2));
        assert_eq!(debt(&limiter, 2, NOW), Duration::from_secs(1));
    });
    explore("refuse: two keys, one cell", Some(3), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        assert!(takes(&limiter, 1, NOW));
        let (two, three) =
            race(&limiter, |l| takes(l, 2, NOW), |l: &KeyedLimiter<u64>| takes(l, 3, NOW));
        assert!(two != three, "two: {two}, three: {three}");
        let stats = limiter.stats();
        assert_eq!((stats.refused_full, stats.refused, stats.evicted), (1, 0, 0));
    });
}

/// Where a full bucket admits, everybody with budget is admitted, and what is not booked is
/// counted.
#[test]
fn admitting_forgets_nobody() {
    explore("admit: two keys, one cell", Some(3), || {
        let limiter = two_cells(ONE, Overflow::Admit);
        assert!(takes(&limiter, 1, NOW));
        let (two, three) =
            race(&limiter, |l| takes(l, 2, NOW), |l: &KeyedLimiter<u64>| takes(l, 3, NOW));
        assert!(two && three && !takes(&limiter, 1, NOW));
        let stats = limiter.stats();
        assert_eq!((stats.admitted_full, stats.evicted), (1, 0));
        // One of the two has a cell, and with it a debt; the other is told that there is none.
        let is_full = |key| limiter.peek_at(&key, 1, NOW).is_full();
        assert!(is_full(2) != is_full(3));
    });
}
