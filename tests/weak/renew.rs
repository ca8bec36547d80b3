//! The range of a word is renewed without anybody noticing: a clock that has run for years, or
//! that jumps by years, mints nothing and makes nobody wait.

use tollgate::{Algorithm, Overflow, Quota};

use crate::{SECOND, buckets, left, one_bucket, one_state, race, rounds, takes};

const YEAR: u64 = 31_557_600 * SECOND;

/// Not yet due.
const EARLY: u64 = 6 * YEAR;

/// Due, and still within what a word can hold.
const DUE: u64 = 8 * YEAR;

/// Beyond what a word can hold: a clock has jumped.
const BEYOND: u64 = 20 * YEAR;

const ONE_A_SECOND: Quota = Quota::per_second(1).burst(1);

/// At one moment, one token is one token. A thread that finds the renewal under way decides on the
/// old line, and what it takes there must be owed on the new one.
#[test]
fn two_charges_that_come_upon_the_renewal_share_one_token() {
    for now in [DUE, BEYOND] {
        for _ in rounds(2) {
            let limiter = one_state(Algorithm::TokenBucket, ONE_A_SECOND);
            assert!(limiter.check_at(1, 0).is_allowed());
            let charge = || limiter.check_at(1, now).is_allowed();
            let (here, there) = race(charge, charge);
            assert!(here != there, "admitted: here {here}, there {there}");
            assert!(!limiter.check_at(1, now).is_allowed());
            assert!(limiter.check_at(1, now + SECOND).is_allowed());
        }
    }
}

/// The same for a key in a table, with a stranger besides.
#[test]
fn two_charges_of_a_key_that_come_upon_the_renewal_share_one_token() {
    for now in [DUE, BEYOND] {
        for _ in rounds(2) {
            let limiter = one_bucket(ONE_A_SECOND);
            assert!(takes(&limiter, 1, 0));
            let charge = |keys: [u64; 2]| keys.map(|key| takes(&limiter, key, now));
            let (here, there) = race(|| charge([1, 2]), || charge([2, 1]));
            assert!(here[0] != there[1] && here[1] != there[0], "here {here:?}, there {there:?}");
            for key in [1, 2] {
                assert!(!takes(&limiter, key, now) && takes(&limiter, key, now + SECOND));
            }
        }
    }
}

/// One that helps with the walk while the renewal is only being published has nothing to do yet, and
/// must not be counted: the next change would take the bucket for done, and read what is in it in
/// units in which it was not written. The key here would be refused for years.
#[test]
fn a_helper_that_is_early_does_not_end_the_walk() {
    for _ in rounds(3) {
        let limiter = one_bucket(ONE_A_SECOND);
        assert!(takes(&limiter, 1, EARLY));
        let (fresh, admitted) = race(|| left(&limiter, 2, DUE), || takes(&limiter, 3, EARLY));
        assert!(fresh == 1 && admitted);
        limiter.set_quota_at(Quota::per_minute(1).burst(1), DUE).unwrap();
        assert!(takes(&limiter, 1, DUE));
    }
}

/// Nor must a helper be counted that was stopped on its way and comes back after another renewal.
#[test]
fn a_helper_that_is_late_does_not_end_the_walk_of_the_next_renewal() {
    const OTHER: u64 = 1 << 63;
    for _ in rounds(2) {
        let limiter = buckets(2, Algorithm::TokenBucket, ONE_A_SECOND, Overflow::Refuse);
        for now in [0, BEYOND] {
            // The second time it is a renewal, or comes after one. As both are there, nobody has
            // inserted since.
            assert!(takes(&limiter, 1, now) && takes(&limiter, OTHER, now));
        }
        // Another renewal, while an insert helps with the walk of the first; then an insert that
        // helps with the walk of the second.
        let end = 2 * BEYOND;
        race(|| takes(&limiter, 1, end), || takes(&limiter, 2, BEYOND));
        let _ = takes(&limiter, 3, end);
        limiter.set_quota_at(Quota::per_minute(1).burst(1), end).unwrap();
        assert!(takes(&limiter, OTHER, end));
    }
}
