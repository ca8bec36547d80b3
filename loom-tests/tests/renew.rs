//! The range of a word is renewed without anybody noticing: a clock that has run for years, or
//! that jumps by years, mints nothing and makes nobody wait.
//!
//! In models a word has two more bits for the time than in production, so that the renewal is due
//! after 27 years instead of 7, and time stands still after 36 instead of 9. Two charges have three
//! preemptions; where there is a walk, there are two, and in a deep run three.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Limiter, Overflow, Quota};
use tollgate_loom_tests::{
    SECOND, debt, explore, explore_deep, left, one_state, race, takes, two_cells,
};

const YEAR: u64 = 31_557_600 * SECOND;

/// Not yet due.
const EARLY: u64 = 27 * YEAR;

/// Due, and still within what a word can hold.
const DUE: u64 = 30 * YEAR;

/// Beyond what a word can hold: a clock has jumped.
const BEYOND: u64 = 60 * YEAR;

const ONE_A_SECOND: Quota = Quota::per_second(1).burst(1);

/// At one moment, one token is one token. A thread that finds the renewal under way decides on the
/// old line, and what it takes there must be owed on the new one.
#[test]
fn two_charges_that_come_upon_the_renewal_share_one_token() {
    for (name, now) in [("due", DUE), ("beyond", BEYOND)] {
        explore(&format!("one state, two charges, {name}"), Some(3), move || {
            let limiter = one_state(ONE_A_SECOND);
            assert!(limiter.check_at(1, 0).is_allowed());

            let charge = move |l: &Limiter| l.check_at(1, now).is_allowed();
            let (here, there) = race(&limiter, charge, charge);

            assert!(here != there, "admitted: here {here}, there {there}");
            assert!(!limiter.check_at(1, now).is_allowed());
            assert!(limiter.check_at(1, now + SECOND).is_allowed());
        });
    }
}

/// The same for a key in a table.
#[test]
fn two_charges_of_a_key_that_come_upon_the_renewal_share_one_token() {
    for (name, now) in [("due", DUE), ("beyond", BEYOND)] {
        explore(&format!("a key, two charges, {name}"), Some(3), move || {
            let limiter = two_cells(ONE_A_SECOND, Overflow::EvictNearest);
            assert!(takes(&limiter, 1, 0));

            let charge = move |l: &KeyedLimiter<u64>| takes(l, 1, now);
            let (here, there) = race(&limiter, charge, charge);

            assert!(here != there, "admitted: here {here}, there {there}");
            assert!(!takes(&limiter, 1, now) && takes(&limiter, 1, now + SECOND));
        });
    }
}

/// A renewal leaves the table to later inserts, which bring a bucket each into the new units. One
/// that helps while the renewal is only being published has nothing to do yet, and must not be
/// counted: the next change would take the bucket for done, and read what is in it in units in
/// which it was not written. The key here would be refused for 27 years.
#[test]
fn a_helper_that_is_early_does_not_end_the_walk() {
    explore_deep("early helper", 2, Some(3), || {
        let limiter = two_cells(ONE_A_SECOND, Overflow::Refuse);
        assert!(takes(&limiter, 1, EARLY) && takes(&limiter, 2, EARLY));

        // A hit, so that nobody but the walk comes to the other key, unless it has become idle.
        let renew = |l: &KeyedLimiter<u64>| left(l, 1, DUE);
        assert_eq!(race(&limiter, renew, |l| takes(l, 3, EARLY)).0, 1);

        limiter.set_quota_at(Quota::per_minute(1).burst(1), DUE).unwrap();
        assert!(takes(&limiter, 2, DUE));
    });
}

/// A change of quota goes on where a helper has ended the walk of a renewal: it finds every word in
/// the units that the helper left, and leaves none behind for the change after it.
#[test]
fn a_change_goes_on_from_where_a_helper_has_ended_the_walk() {
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds)).burst(1);
    explore_deep("a change after a helper", 2, Some(3), move || {
        let limiter = two_cells(quota(1), Overflow::Refuse);
        assert!(takes(&limiter, 1, EARLY) && takes(&limiter, 2, EARLY));
        assert_eq!(left(&limiter, 1, DUE), 1);

        let change = move |l: &KeyedLimiter<u64>| l.set_quota_at(quota(3), DUE).unwrap();
        // The first call of a key helps, also if it is refused; it leaves no other trace.
        let helper = |l: &KeyedLimiter<u64>| {
            assert!(!l.check_at(&3, 2, DUE).is_allowed());
            takes(l, 2, DUE)
        };
        assert!(race(&limiter, change, helper).1);

        limiter.set_quota_at(quota(7), DUE).unwrap();
        assert_eq!(debt(&limiter, 2, DUE), Duration::from_secs(7));
    });
}

/// Nor must a helper be counted that was stopped on its way and comes back after another renewal.
#[test]
fn a_helper_that_is_late_does_not_end_the_walk_of_the_next_renewal() {
    // With this seed key 5 is in one of two buckets, and keys 2 and 3 are in the other.
    explore_deep("late helper", 2, Some(3), || {
        let builder = KeyedLimiter::<u64>::builder(ONE_A_SECOND).capacity(4).seed(1);
        let limiter = Arc::new(builder.clock(Clock::manual().0).build().unwrap());
        // The second call for each is a renewal, or comes after one. As both are there, nobody
        // has inserted since.
        assert!(takes(&limiter, 1, 0) && takes(&limiter, 5, 0));
        assert!(takes(&limiter, 1, BEYOND) && takes(&limiter, 5, BEYOND));

        // Another renewal, while an insert helps with the walk of the first; then an insert that
        // helps with the walk of the second.
        let end = 2 * BEYOND;
        race(&limiter, move |l| takes(l, 1, end), |l| takes(l, 2, BEYOND));
        let _ = takes(&limiter, 3, end);

        limiter.set_quota_at(Quota::per_minute(1).burst(1), end).unwrap();
        assert!(takes(&limiter, 5, end));
    });
}
