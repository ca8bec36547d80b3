//! One word, many threads: every charge and every count arrives.

use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Leases, Limiter, Overflow, Quota};

use crate::{
    NOW, SECOND, buckets, one_state, owes, race, race_of_three, race_until, rounds, some_of, takes,
};

/// Three threads ask for more than there is: exactly the quota is admitted, and all of it is owed.
#[test]
fn three_threads_share_a_quota() {
    for algorithm in some_of(Algorithm::ALL) {
        for _ in rounds(3) {
            let limiter = one_state(algorithm, Quota::per_second(5));
            let calls = || (0..3).filter(|_| limiter.check_at(1, NOW).is_allowed()).count() as u64;
            let (one, two, three) = race_of_three(calls, calls, calls);
            assert_eq!(one + two + three, 5, "{algorithm:?}");
            assert_eq!(limiter.peek_at(1, NOW).remaining(), 0, "{algorithm:?}");
            let stats = limiter.stats();
            assert_eq!((stats.admitted, stats.refused), (5, 4), "{algorithm:?}");
        }
    }
}

/// What is given back is there for one call, and is neither lost nor given twice.
#[test]
fn a_refund_and_a_charge_are_both_counted() {
    for _ in rounds(3) {
        let limiter = one_state(Algorithm::TokenBucket, Quota::per_second(2));
        assert!(limiter.check_at(2, NOW).is_allowed());
        let refund = || limiter.refund_at(1, NOW);
        let (admitted, ()) = race(|| limiter.check_at(1, NOW).is_allowed(), refund);
        let owed = Duration::from_millis(if admitted { 1_000 } else { 500 });
        assert_eq!(owes(&limiter, NOW), owed);
    }
}

/// Two threads lease, spend and give back what they hold: what they spent is owed, and nothing else.
#[test]
fn what_two_handles_do_not_spend_is_there_again() {
    for _ in rounds(3) {
        let leases = Leases::of(Duration::from_secs(4)).clock_every(2);
        let leased =
            one_state(Algorithm::TokenBucket, Quota::per_second(100)).leased(leases).unwrap();
        let spend = |calls: u64| {
            let mut handle = leased.handle();
            let spent = (0..calls).filter(|_| handle.check_at(1, NOW).is_allowed()).count();
            handle.give_back_at(NOW);
            spent
        };
        assert_eq!(race(|| spend(5), || spend(4)), (5, 4));
        assert_eq!(owes(leased.limiter(), NOW), Duration::from_millis(90));
    }
}

/// A thread whose clock is behind sees the debt of one whose clock is ahead.
#[test]
fn a_clock_that_is_behind_mints_nothing() {
    for _ in rounds(3) {
        let limiter = one_state(Algorithm::TokenBucket, Quota::per_second(1));
        let at = |now| limiter.check_at(1, now).is_allowed();
        let (late, early) = race(|| at(NOW), || at(NOW + SECOND));
        assert!(early, "its token had come due; the other was admitted: {late}");
        assert_eq!(owes(&limiter, NOW + SECOND), Duration::from_secs(1));
    }
}

/// What one thread did before it moved the clock is seen by whoever reads the new time.
#[test]
fn a_manual_clock_tells_what_came_before() {
    for _ in rounds(3) {
        let (clock, time) = Clock::manual();
        let limiter = Limiter::builder(Quota::per_hour(2)).clock(clock).build().unwrap();
        let moved = Duration::from_secs(1);
        let charge = || {
            assert!(limiter.check().is_allowed());
            time.set(moved);
        };
        let look = || {
            let is_moved = time.now() == moved;
            assert!(!is_moved || limiter.peek().remaining() == 1);
        };
        race_until(look, charge);
    }
}

/// Threads come and go, and hand on the slots that they count in.
#[test]
fn every_count_arrives() {
    for _ in rounds(2) {
        let limiter = buckets(1, Algorithm::TokenBucket, Quota::per_hour(3), Overflow::Refuse);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _ = takes(&limiter, 1, NOW);
                    // Its slot may be that of a thread that has just ended, and goes on to another.
                    scope.spawn(|| [(); 2].map(|()| takes(&limiter, 1, NOW)));
                });
            }
        });
        let stats = limiter.stats();
        assert_eq!((stats.admitted, stats.refused), (3, 9));
    }
}
