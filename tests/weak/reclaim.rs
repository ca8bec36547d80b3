//! The cell of a key that owes nothing is taken for another key, and no answer changes by it.

use std::time::Duration;

use tollgate::{Algorithm, Overflow, Quota};

use crate::{
    Keyed, NOW, SECOND, buckets, debt, fill, left, one_bucket, race, race_until, rounds, some_of,
    takes,
};

const ONE: Quota = Quota::per_second(1).burst(1);

/// A full bucket whose first cell, the one that the next insert takes, holds a key that owes
/// nothing from `now` on.
struct Round<'a> {
    limiter: &'a Keyed,
    now: u64,
    old: u64,
    /// Keys that have not been seen, from this one on.
    new: u64,
}

/// All on one table, since it takes Miri as long to fill it as to run a race in it ten times.
#[test]
fn no_answer_changes_when_a_cell_is_taken() {
    let races: [fn(Round<'_>); 5] = [
        a_key_comes_back_while_its_cell_is_taken,
        a_late_refusal_is_the_old_keys_own,
        a_refund_does_not_reach_the_new_key,
        a_cell_of_many_lives_is_no_strangers,
        keys_that_take_each_others_cells_keep_their_debts,
    ];
    let limiter = one_bucket(ONE);
    fill(&limiter, 100, 1, NOW - 60 * SECOND);
    for round in rounds(4) {
        for (index, race) in (0..).zip(races) {
            let count = races.len() as u64 * round + index;
            // A minute on, all that was is idle again.
            let (now, old) = (NOW + 60 * count * SECOND, 1_000 + 10 * count);
            assert!(takes(&limiter, old, now - SECOND));
            race(Round { limiter: &limiter, now, old, new: old + 1 });
        }
    }
    assert_eq!(limiter.stats().refused_full, 0);
}

/// A key comes back while its cell is taken for a new one: both have all they are due, and each
/// owes what it took, and nothing of the other's.
fn a_key_comes_back_while_its_cell_is_taken(Round { limiter, now, old, new }: Round<'_>) {
    let taken = race(|| takes(limiter, old, now), || takes(limiter, new, now));
    assert_eq!(taken, (true, true));
    assert_eq!(debt(limiter, old, now), Duration::from_secs(1));
    assert_eq!(debt(limiter, new, now), Duration::from_secs(1));
}

/// A thread whose clock is a nanosecond behind must refuse the old key, whether it finds it or
/// finds that it was forgotten; and what it is told is the same.
fn a_late_refusal_is_the_old_keys_own(Round { limiter, now, old, new }: Round<'_>) {
    let late = || {
        let wait = limiter.check_at(&old, 1, now - 1).retry_after();
        assert_eq!(wait, Some(Duration::from_nanos(1)));
    };
    assert!(race_until(late, || takes(limiter, new, now)));
}

/// A refund for the old key is not given to the new one.
fn a_refund_does_not_reach_the_new_key(Round { limiter, now, old, new }: Round<'_>) {
    let refund = || limiter.refund_at(&old, 1, now - 1);
    let ((), taken) = race(refund, || takes(limiter, new, now));
    assert!(taken);
    assert_eq!(debt(limiter, new, now), Duration::from_secs(1));
    assert_eq!(left(limiter, old, now), 1);
}

/// A cell has one key after the other while a slow thread asks for the first: it is refused, as all
/// of them owe by its clock, and takes nothing from any of them.
fn a_cell_of_many_lives_is_no_strangers(Round { limiter, now, old, new }: Round<'_>) {
    let lives = 0..4;
    let slow = || assert!(!takes(limiter, old, now - 1));
    let at = |life: u64| now + life * SECOND;
    let fast = || lives.clone().all(|life| takes(limiter, new + life, at(life)));
    assert!(race_until(slow, fast));
    let last = new + lives.end - 1;
    assert_eq!(debt(limiter, last, at(lives.end - 1)), Duration::from_secs(1));
}

/// Two threads spend on keys of their own that are idle, and each takes the other's cells.
fn keys_that_take_each_others_cells_keep_their_debts(Round { limiter, now, new, .. }: Round<'_>) {
    let calls = |own: u64| [own, own + 1, own].map(|key| takes(limiter, key, now));
    let (here, there) = race(|| calls(new), || calls(new + 2));
    assert_eq!((here, there), ([true, true, false], [true, true, false]));
    for key in new..new + 4 {
        assert_eq!(debt(limiter, key, now), Duration::from_secs(1));
    }
}

/// A key that a fast clock has forgotten, because by it nothing was owed any more, is met by a slow
/// one, by which it owes all it took: the slow one must not find it as new.
#[test]
fn a_key_that_a_fast_clock_forgot_gains_nothing_from_a_slow_one() {
    let algorithms = [
        (Algorithm::TokenBucket, 1),
        (Algorithm::FixedWindow, 1),
        (Algorithm::SlidingWindowCounter, 2),
        (Algorithm::SlidingWindowLog, 1),
    ];
    for (algorithm, seconds) in some_of(algorithms) {
        for _ in rounds(1) {
            let limiter = buckets(1, algorithm, Quota::per_second(2), Overflow::Refuse);
            fill(&limiter, 100, 2, NOW);
            let ahead = NOW + seconds * SECOND;
            let fast = || takes(&limiter, 1, ahead);
            let slow = || assert!(!takes(&limiter, 100, NOW), "{algorithm:?}");
            assert!(race_until(slow, fast), "{algorithm:?}");
        }
    }
}
