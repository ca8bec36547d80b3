//! The sliding log: no window ever holds more than the limit, and rings are right whoever writes
//! them, and however late.
//!
//! Stamps are in ticks of some nanoseconds; the times here are whole numbers of them.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Algorithm, Limiter, Overflow, Quota};

use crate::{NOW, SECOND, buckets, fill, left, one_state, race, rounds, takes};

const MILLI: u64 = SECOND / 1_000;

/// So many milliseconds after `NOW`.
const fn at(millis: u64) -> u64 {
    NOW + millis * MILLI
}

/// The log of one state with a ring of `limit`, and what was charged to it before.
fn log(limit: u64, charged: &[u64]) -> Limiter {
    let limiter = one_state(Algorithm::SlidingWindowLog, Quota::per_second(limit));
    assert!(charged.iter().all(|&now| admits(&limiter, 1, now)));
    limiter
}

fn admits(limiter: &Limiter, cost: u64, now: u64) -> bool {
    limiter.check_at(cost, now).is_allowed()
}

/// Two threads, one token: the stamp of the one that is admitted is there for whoever asks next.
#[test]
fn two_calls_share_the_last_token() {
    for _ in rounds(3) {
        let limiter = log(2, &[at(0)]);
        let charge = || admits(&limiter, 1, at(500));
        let (here, there) = race(charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
        assert!(!admits(&limiter, 1, at(999)) && admits(&limiter, 1, at(1_000)));
        assert!(!admits(&limiter, 1, at(1_499)) && admits(&limiter, 1, at(1_500)));
    }
}

/// All tokens have come back, and three calls of two threads go round the ring: a thread that
/// meets the newest head also finds in the ring what came before it.
#[test]
fn a_full_round_is_seen_by_whoever_comes_next() {
    for _ in rounds(4) {
        let limiter = log(2, &[NOW - SECOND, NOW - SECOND]);
        let charge = || admits(&limiter, 1, at(0));
        let (here, [first, second]) = race(charge, || [(); 2].map(|()| charge()));
        assert_eq!(u8::from(here) + u8::from(first) + u8::from(second), 2);
        assert!(!admits(&limiter, 1, at(999)));
    }
}

/// A thread that was stopped before it wrote the stamp of the call before writes it a round later:
/// the newer stamp stays.
#[test]
fn a_stamp_that_is_written_a_round_late_changes_nothing() {
    for _ in rounds(4) {
        let limiter = log(2, &[at(0)]);
        let round = || [500, 1_100, 1_600].map(|millis| admits(&limiter, 1, at(millis)));
        let (late, [first, second, third]) = race(|| admits(&limiter, 1, at(100)), round);
        assert!(late != first && second && third, "{late}, {first}, {second}, {third}");
        assert!(!admits(&limiter, 1, at(2_090)) && admits(&limiter, 1, at(2_100)));
    }
}

/// A refusal is the answer of one moment: a thread that meets an old head must not judge it by
/// stamps that belong to a newer one. The ring is of three, so that there always is room.
#[test]
fn a_call_that_fits_is_not_refused_for_newer_stamps() {
    for _ in rounds(4) {
        let limiter = log(3, &[NOW - SECOND, NOW - SECOND, NOW - SECOND]);
        let charge = || admits(&limiter, 1, at(0));
        let (here, there) = race(charge, || [(); 2].map(|()| charge()));
        assert!(here && there == [true, true], "here: {here}, there: {there:?}");
        assert!(!admits(&limiter, 1, at(999)) && admits(&limiter, 1, at(1_000)));
    }
}

/// Calls that are handed their times in order, and lag behind them: no window holds more than the
/// limit, and what a peek counts is one of the moments.
#[test]
fn no_window_holds_more_than_the_limit() {
    for _ in rounds(3) {
        let limiter = log(3, &[]);
        let steps = AtomicU64::new(0);
        let calls = || {
            let call = |_| {
                let now = at(100 * steps.fetch_add(1, Ordering::Relaxed));
                admits(&limiter, 1, now).then_some(now)
            };
            (0..8).filter_map(call).collect::<Vec<u64>>()
        };
        let (mut admitted, there) = race(calls, calls);
        admitted.extend(there);
        admitted.sort_unstable();
        let crowded = admitted.windows(4).find(|four| four[3] < four[0] + SECOND);
        assert!(crowded.is_none(), "{crowded:?} of {admitted:?}");
        assert!(admitted.len() >= 3, "{admitted:?}");
    }
}

/// A cell and its ring are taken for another key, while the old key's stamp is still to be
/// written: the new key's log is its own.
#[test]
fn a_late_stamp_of_the_old_key_does_not_reach_the_new_one() {
    for _ in rounds(1) {
        let log = Algorithm::SlidingWindowLog;
        let limiter = buckets(1, log, Quota::per_second(2), Overflow::Refuse);
        fill(&limiter, 100, 1, NOW - SECOND);
        let twice = || takes(&limiter, 1, NOW) && takes(&limiter, 1, NOW);
        let (old, new) = race(|| takes(&limiter, 100, NOW), twice);
        assert!(old && new, "old: {old}, new: {new}");
        assert_eq!((left(&limiter, 100, NOW), left(&limiter, 1, NOW)), (1, 0));
        assert_eq!(limiter.stats().refused_full, 0);
    }
}
