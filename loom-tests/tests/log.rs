//! The sliding log: no window ever holds more than the limit, and a thread that has stopped holds
//! nobody up.
//!
//! The rings have two slots, so that two calls go once round; costs are one or two. Stamps are in
//! ticks of a few nanoseconds, and the times here are whole numbers of them. Single calls on one
//! state are explored without a bound, more calls and keys with three preemptions, two inserts with
//! two, and in a deep run with three.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, KeyedLimiter, Limiter, Overflow, Quota};
use tollgate_loom_tests::{
    NOW, SECOND, explore, explore_deep, left, one_state_of, race, takes, two_cells_of,
};

const MILLI: u64 = SECOND / 1_000;

/// So many milliseconds after `NOW`.
const fn at(millis: u64) -> u64 {
    NOW + millis * MILLI
}

/// The log of one state with a ring of `limit`, and what was charged to it before.
fn log(limit: u64, charged: &[u64]) -> Arc<Limiter> {
    let limiter = one_state_of(Algorithm::SlidingWindowLog, Quota::per_second(limit));
    assert!(charged.iter().all(|&now| admits(&limiter, 1, now)));
    limiter
}

fn admits(limiter: &Limiter, cost: u64, now: u64) -> bool {
    limiter.check_at(cost, now).is_allowed()
}

/// Two threads, one token: the stamp of the one that is admitted is there for whoever asks next.
#[test]
fn two_calls_share_the_last_token() {
    explore("log: two charges, one token", None, || {
        let limiter = log(2, &[at(0)]);
        let charge = |l: &Limiter| admits(l, 1, at(500));
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
        assert!(!admits(&limiter, 1, at(999)) && admits(&limiter, 1, at(1_000)));
        assert!(!admits(&limiter, 1, at(1_499)) && admits(&limiter, 1, at(1_500)));
    });
}

/// A call of two tokens has both or none.
#[test]
fn a_call_of_two_tokens_takes_both_or_none() {
    explore("log: one token against two", None, || {
        let limiter = log(2, &[]);
        let (two, one) = race(&limiter, |l| admits(l, 2, at(0)), |l| admits(l, 1, at(0)));
        assert!(one != two, "one token: {one}, two tokens: {two}");
        assert_eq!(limiter.peek_at(1, at(0)).remaining(), if two { 0 } else { 1 });
        assert!(admits(&limiter, 2, at(1_000)) && !admits(&limiter, 1, at(1_999)));
    });
}

/// All tokens have come back, and three calls of two threads go round the ring: a thread that
/// meets the newest head also finds in the ring what came before it.
#[test]
fn a_full_round_is_seen_by_whoever_comes_next() {
    explore("log: three charges, two tokens", Some(3), || {
        let limiter = log(2, &[NOW - SECOND, NOW - SECOND]);
        let twice = |l: &Limiter| (admits(l, 1, at(0)), admits(l, 1, at(0)));
        let (here, (first, second)) = race(&limiter, |l| admits(l, 1, at(0)), twice);
        assert_eq!(u8::from(here) + u8::from(first) + u8::from(second), 2);
        assert!(!admits(&limiter, 1, at(999)));
    });
}

/// A thread that stops as soon as its call is admitted has not written its stamp. The next call
/// writes it; and a thread whose clock is behind is refused by it, not let in beside it.
#[test]
fn a_stamp_that_was_not_written_is_written_by_the_next() {
    explore("log: two charges, clocks that differ", None, || {
        let limiter = log(2, &[at(0), at(300)]);
        let (slow, fast) = race(&limiter, |l| admits(l, 1, at(1_000)), |l| admits(l, 1, at(1_300)));
        assert!(fast, "both tokens had come back by its clock; slow: {slow}");
        // After the fast one the slow one would be the third in its window.
        assert_eq!(admits(&limiter, 1, at(1_990)), !slow);
        assert_eq!(admits(&limiter, 1, at(2_000)), slow);
    });
}

/// A thread that was stopped before it wrote the stamp of the call before writes it a round later:
/// the newer stamp stays.
#[test]
fn a_stamp_that_is_written_a_round_late_changes_nothing() {
    explore("log: stamp written a round late", Some(3), || {
        let limiter = log(2, &[at(0)]);
        let round = |l: &Limiter| {
            let first = admits(l, 1, at(500));
            (first, admits(l, 1, at(1_100)), admits(l, 1, at(1_600)))
        };
        let (late, (first, second, third)) = race(&limiter, |l| admits(l, 1, at(100)), round);
        assert!(late != first && second && third, "{late}, {first}, {second}, {third}");
        assert!(!admits(&limiter, 1, at(2_090)) && admits(&limiter, 1, at(2_100)));
    });
}

/// A refusal is the answer of one moment: a thread that meets an old head must not judge it by
/// stamps that belong to a newer one. The ring is of three, so that there always is room.
#[test]
fn a_call_that_fits_is_not_refused_for_newer_stamps() {
    explore("log: refusal against two charges", Some(3), || {
        let limiter = log(3, &[NOW - SECOND, NOW - SECOND, NOW - SECOND]);
        let twice = |l: &Limiter| (admits(l, 1, at(0)), admits(l, 1, at(0)));
        let (here, there) = race(&limiter, |l| admits(l, 1, at(0)), twice);
        assert!(here && there == (true, true), "here: {here}, there: {there:?}");
        assert!(!admits(&limiter, 1, at(999)) && admits(&limiter, 1, at(1_000)));
    });
}

/// A thread whose clock is behind comes second: its token counts as long as the one that is there,
/// or the log would be forgotten while that one counts.
#[test]
fn stamps_do_not_fall() {
    explore("log: two charges, one behind", None, || {
        let limiter = log(3, &[]);
        let both = race(&limiter, |l| admits(l, 1, at(500)), |l| admits(l, 1, at(100)));
        assert_eq!(both, (true, true));
        let left = limiter.peek_at(1, at(1_200)).remaining();
        assert!(left <= 2 && limiter.peek_at(1, at(1_500)).remaining() == 3, "{left}");
    });
}

/// A longer window comes into force, and what had expired stays expired. A token that a slow clock
/// spends after that is none of them.
#[test]
fn a_slow_clock_spends_no_expired_tokens_after_a_change() {
    explore("log: a longer window and a slow clock", None, || {
        let limiter = log(2, &[]);
        limiter.set_quota_at(Quota::new(2, Duration::from_secs(2)), NOW + 10 * SECOND).unwrap();
        let charge = |l: &Limiter| admits(l, 1, NOW);
        assert_eq!(race(&limiter, charge, charge), (true, true));
        assert!(!admits(&limiter, 1, NOW));
    });
}

/// Two keys hold both cells, and each has `owed` tokens in its log.
fn two_logs(owed: u64, now: u64) -> Arc<KeyedLimiter<u64>> {
    let quota = Quota::per_second(2);
    let limiter = two_cells_of(Algorithm::SlidingWindowLog, quota, Overflow::EvictNearest);
    for key in [1, 2] {
        assert!((0..owed).all(|_| takes(&limiter, key, now)));
    }
    limiter
}

/// A cell and its ring are taken for another key, while the old key's stamp is still to be
/// written: the new key's log is its own.
#[test]
fn a_late_stamp_of_the_old_key_does_not_reach_the_new_one() {
    explore("log: reclaim against charge", Some(3), || {
        let limiter = two_logs(1, NOW - SECOND);
        let old = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let twice = |l: &KeyedLimiter<u64>| takes(l, 3, NOW) && takes(l, 3, NOW);
        let (old, new) = race(&limiter, old, twice);
        assert!(old && new && limiter.stats().evicted == 0, "old: {old}, new: {new}");
        assert_eq!((left(&limiter, 1, NOW), left(&limiter, 3, NOW)), (1, 0));
    });
}

/// A key whose log is full is refused, unless it was evicted, and that was counted.
#[test]
fn a_full_log_is_forgotten_only_by_an_eviction_that_is_counted() {
    explore("log: eviction against refusal", Some(3), || {
        let limiter = two_logs(2, NOW);
        let old = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (old, new) = race(&limiter, old, |l| takes(l, 3, NOW));
        assert!(new && (!old || limiter.stats().evicted == 2), "old: {old}, new: {new}");
    });
}

/// Two threads bring one new key, for which a full log must be evicted: it is not refused for what
/// is in the ring.
#[test]
fn a_new_key_is_not_refused_for_the_log_of_the_evicted_one() {
    explore_deep("log: eviction by one key, two threads", 2, Some(3), || {
        let limiter = two_logs(2, NOW);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 3, NOW);
        assert_eq!(race(&limiter, charge, charge), (true, true));
        assert!(!takes(&limiter, 3, NOW));
    });
}
