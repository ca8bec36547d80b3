//! One word, many threads: every charge is counted once, and every answer is one that some order
//! of the calls would give.
//!
//! Two threads on one word are explored without a bound, three with at most three preemptions.

#![cfg(tollgate_loom)]

use std::time::Duration;

use tollgate::{Algorithm, Limiter, Quota};
use tollgate_loom_tests::{NOW, SECOND, explore, one_state, one_state_of, race, race_of_three};

const MILLI: u64 = SECOND / 1_000;

fn takes(limiter: &Limiter, cost: u64, now: u64) -> bool {
    limiter.check_at(cost, now).is_allowed()
}

fn owes(limiter: &Limiter, now: u64) -> Duration {
    limiter.peek_at(1, now).reset_after().expect("the rates of these models are not 0")
}

/// Two calls that both fit are both admitted, and both are owed.
#[test]
fn no_charge_is_lost() {
    explore("one state: two charges that fit", None, || {
        let limiter = one_state(Quota::per_second(1).burst(2));
        let charge = |l: &Limiter| takes(l, 1, NOW);
        assert_eq!(race(&limiter, charge, charge), (true, true));
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(2));
    });
}

/// A burst of two is two calls, whoever makes them: of three threads one is refused.
#[test]
fn three_threads_share_a_burst_of_two() {
    explore("one state: three charges", Some(3), || {
        let limiter = one_state(Quota::per_second(1).burst(2));
        let charge = |l: &Limiter| takes(l, 1, NOW);
        let (one, two, three) = race_of_three(&limiter, charge, charge, charge);
        assert_eq!(u8::from(one) + u8::from(two) + u8::from(three), 2);
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(2));
    });
}

/// What is given back is there for one call, and is neither lost nor given twice.
#[test]
fn a_refund_and_a_charge_are_both_counted() {
    explore("one state: refund against charge", None, || {
        let limiter = one_state(Quota::per_second(1).burst(2));
        assert!(takes(&limiter, 2, NOW));
        let (admitted, ()) = race(&limiter, |l| takes(l, 1, NOW), |l| l.refund_at(1, NOW));
        let owed = if admitted { 2 } else { 1 };
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(owed));
    });
}

/// A call is refused only if what is owed leaves no room for it, and a refused call owes nothing.
#[test]
fn a_refusal_takes_nothing() {
    explore("one state: charges of one and of two", None, || {
        let limiter = one_state(Quota::per_second(1).burst(2));
        let (one, two) = race(&limiter, |l| takes(l, 1, NOW), |l| takes(l, 2, NOW));
        assert!(one != two, "one token: {one}, two tokens: {two}");
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(if two { 2 } else { 1 }));
    });
}

/// A thread whose clock is behind sees the debt of one whose clock is ahead, and takes nothing
/// from it: what has come due by the later clock is there whoever comes first.
#[test]
fn a_clock_that_is_behind_mints_nothing_and_takes_nothing() {
    explore("one state: clocks that differ", None, || {
        let limiter = one_state(Quota::per_second(1).burst(1));
        let (late, early) = race(&limiter, |l| takes(l, 1, NOW), |l| takes(l, 1, NOW + SECOND));
        assert!(early, "its token had come due; the other was admitted: {late}");
        assert_eq!(owes(&limiter, NOW + SECOND), Duration::from_secs(1));
    });
}

/// The calls that two threads make over the edge of a fixed window are counted in the new window,
/// and the window that one of them opens is not opened again.
#[test]
fn a_fixed_window_opens_once() {
    explore("fixed window: two at the edge", None, || {
        let limiter = one_state_of(Algorithm::FixedWindow, Quota::per_second(1));
        assert!(takes(&limiter, 1, NOW - 1));
        let charge = |l: &Limiter| takes(l, 1, NOW);
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there && !takes(&limiter, 1, NOW));
    });
}

/// A call that comes late to a fixed window is counted in the one that has been opened meanwhile.
#[test]
fn a_fixed_window_rolls_over_under_a_late_call() {
    explore("fixed window: late call", None, || {
        let limiter = one_state_of(Algorithm::FixedWindow, Quota::per_second(2));
        assert!(takes(&limiter, 1, NOW - 2));
        let (late, next) = race(&limiter, |l| takes(l, 1, NOW - 1), |l| takes(l, 2, NOW));
        assert!(next, "the new window was empty; the late call was admitted: {late}");
        assert!(!takes(&limiter, 1, NOW) && !takes(&limiter, 1, NOW - 1));
    });
}

/// The sliding counter weighs the window before by what was counted in it, all of it: a call that
/// comes late is either in that count or is judged with the new window.
#[test]
fn a_sliding_counter_rolls_over_under_a_late_call() {
    explore("sliding counter: late call at the edge", None, || {
        let limiter = one_state_of(Algorithm::SlidingWindowCounter, Quota::per_second(2));
        assert!(takes(&limiter, 1, NOW - 2));
        // With the token that is there already, the window before and the new one hold one more.
        let (late, next) = race(&limiter, |l| takes(l, 1, NOW - 1), |l| takes(l, 1, NOW));
        assert!(late != next, "late: {late}, next: {next}");
        assert!(!takes(&limiter, 1, NOW));
    });
    explore("sliding counter: late call, half a window on", None, || {
        let limiter = one_state_of(Algorithm::SlidingWindowCounter, Quota::per_second(2));
        assert!(takes(&limiter, 1, NOW - 2));
        let half = NOW + 500 * MILLI;
        let (late, next) = race(&limiter, |l| takes(l, 1, NOW - 1), move |l| takes(l, 1, half));
        assert!(next, "half of the window before no longer counts; late: {late}");
        // What is left of it fills the limit until its last moment.
        assert!(!takes(&limiter, 1, half) && !takes(&limiter, 1, NOW + 999 * MILLI));
    });
}

/// Two threads that roll the sliding counter over at once keep the window before, and both counts.
#[test]
fn a_sliding_counter_rolls_over_once() {
    explore("sliding counter: two at the edge", None, || {
        let limiter = one_state_of(Algorithm::SlidingWindowCounter, Quota::per_second(2));
        assert!(takes(&limiter, 1, NOW - 1));
        let charge = |l: &Limiter| takes(l, 1, NOW);
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there && !takes(&limiter, 1, NOW));
    });
}
