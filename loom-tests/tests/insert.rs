//! A key that several threads insert at once is one key: together they are admitted its burst.
//!
//! Two threads have three preemptions, or no bound; where both take the cells of idle keys they
//! have two, and three in a deep run. Three threads are explored in all orders in which each goes
//! on until it is done, with all that a load may return, and in a deep run with one preemption.

#![cfg(tollgate_loom)]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tollgate::{KeyedLimiter, Overflow, Quota};
use tollgate_loom_tests::{
    Action, NOW, SECOND, at_steps, debt, explore, explore_deep, gate, left, meet, race,
    race_of_three, takes, two_cells,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);

/// The first call of a key is made twice, and the key's burst is one.
#[test]
fn two_first_calls_share_one_token() {
    explore("insert: one key, one token", Some(3), || {
        let limiter = two_cells(ONE, Overflow::EvictNearest);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1));
        // The cell that was given up is there for another key.
        assert!(takes(&limiter, 2, NOW) && limiter.stats().evicted == 0);
    });
}

/// Both fit, so neither is refused, and both are owed.
#[test]
fn two_first_calls_that_fit_are_both_admitted() {
    explore("insert: one key, two tokens", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        assert_eq!(race(&limiter, charge, charge), (true, true));
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(2));
    });
}

/// The same where both cells are held by keys that have become idle, so that each insert takes a
/// key's cell, and each may take another one.
#[test]
fn two_first_calls_in_the_cells_of_idle_keys_share_one_token() {
    explore_deep("insert: one key, idle cells", 2, Some(3), || {
        let limiter = two_cells(ONE, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
        let charge = |l: &KeyedLimiter<u64>| takes(l, 3, NOW);
        let (here, there) = race(&limiter, charge, charge);
        assert!(here != there, "admitted: here {here}, there {there}");
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
        assert_eq!(limiter.stats().evicted, 0);
    });
}

/// Whoever is refused was refused because of what the other took.
#[test]
fn a_first_call_is_refused_only_for_what_another_took() {
    explore("insert: one token against two", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        let (two, one) = race(
            &limiter,
            |l| l.check_at(&1, 2, NOW).is_allowed(),
            |l: &KeyedLimiter<u64>| takes(l, 1, NOW),
        );
        assert!(one != two, "one token: {one}, two tokens: {two}");
        assert_eq!(left(&limiter, 1, NOW), if two { 0 } else { 1 });
    });
}

/// Two keys that come at once into an empty bucket do not get in each other's way.
#[test]
fn two_keys_that_come_at_once_both_find_room() {
    explore("insert: two keys", Some(3), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        let (one, two) =
            race(&limiter, |l| takes(l, 1, NOW), |l: &KeyedLimiter<u64>| takes(l, 2, NOW));
        assert!(one && two);
        assert!(!takes(&limiter, 1, NOW) && !takes(&limiter, 2, NOW));
        assert_eq!(limiter.stats().refused_full, 0);
    });
}

/// What a key is told before it is there is what it would have been told.
#[test]
fn a_peek_and_a_refund_of_a_key_that_is_coming_mint_nothing() {
    explore("insert: peek and refund", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        let charge = |l: &KeyedLimiter<u64>| l.check_at(&1, 2, NOW).is_allowed();
        let (admitted, seen) = race(&limiter, charge, |l| {
            let seen = left(l, 1, NOW);
            l.refund_at(&1, 1, NOW);
            seen
        });
        assert!(admitted && (seen == 0 || seen == 2), "seen: {seen}");
        let after = left(&limiter, 1, NOW);
        assert!(after == 0 && seen == 2 || after == 1, "seen: {seen}, after: {after}");
    });
}

/// Three threads: two that bring the key, and one that looks at it meanwhile. Whatever that one
/// meets of the two, it is told what is left before a charge or after it.
#[test]
fn two_first_calls_and_a_peek_agree() {
    explore_deep("insert: one key, three threads", 0, Some(1), || {
        let limiter = two_cells(ONE, Overflow::EvictNearest);
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (one, two, seen) = race_of_three(&limiter, charge, charge, |l| left(l, 1, NOW));
        assert!(one != two && seen <= 1, "admitted: {one}, {two}; seen: {seen}");
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1));
    });
}

/// A cell that an insert has given up is taken for another key: a call for the first key does not
/// find it there.
#[test]
fn a_cell_that_was_given_up_is_the_next_keys_own() {
    explore("insert: a cell that is given up", Some(3), || {
        let limiter = two_cells(TWO, Overflow::Refuse);
        let (taken, is_taken) = gate();
        let (inserted, is_inserted) = gate();
        let given_up = move |l: &KeyedLimiter<u64>| {
            at_steps([("taken", meet(taken, is_inserted))]);
            l.check_at(&1, 2, NOW).is_allowed()
        };
        let others = move |l: &KeyedLimiter<u64>| {
            is_taken.wait();
            assert!(takes(l, 1, NOW));
            inserted.open();
            let other = takes(l, 2, NOW);
            assert!(takes(l, 1, NOW));
            other
        };
        let (other, two) = race(&limiter, others, given_up);
        assert!(!two);
        assert_eq!(left(&limiter, 2, NOW), if other { 1 } else { 2 });
        assert_eq!(left(&limiter, 1, NOW), 0);
    });
}

/// An insert stops with its tag in the cell of an idle key, and another one has been committed
/// meanwhile: that the idle key was a member says nothing of the key that is coming.
#[test]
fn a_tag_that_is_not_committed_is_nobodys() {
    explore("insert: a tag in an idle key's cell", None, || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
        let (taken, is_taken) = gate();
        let (inserted, is_inserted) = gate();
        let (tagged, is_tagged) = gate();
        let (refused, is_refused) = gate();
        let stops = move |l: &KeyedLimiter<u64>| {
            let tagged = meet(tagged, is_refused);
            at_steps([("taken", meet(taken, is_inserted)), ("tentative", tagged)]);
            takes(l, 3, NOW)
        };
        let goes_on = move |l: &KeyedLimiter<u64>| {
            is_taken.wait();
            let first = takes(l, 3, NOW);
            inserted.open();
            is_tagged.wait();
            let second = takes(l, 3, NOW);
            refused.open();
            (first, second)
        };
        assert_eq!(race(&limiter, goes_on, stops), ((true, false), false));
    });
}

/// An insert fails its commit as another thread has put the key there, and by a faster clock the key
/// has been forgotten again: the insert must know by which.
#[test]
fn an_insert_that_fails_knows_when_its_key_was_forgotten() {
    explore("insert: forgotten during the commit", Some(3), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        let (tagged, is_tagged) = gate();
        let (inserted, is_inserted) = gate();
        let slow = move |l: &KeyedLimiter<u64>| {
            at_steps([("tentative", meet(tagged, is_inserted))]);
            takes(l, 1, NOW)
        };
        let fast = move |l: &KeyedLimiter<u64>| {
            is_tagged.wait();
            assert!(takes(l, 1, NOW));
            inserted.open();
            takes(l, 3, NOW + SECOND);
        };
        let ((), slow) = race(&limiter, fast, slow);
        assert!(!slow, "the key has had two tokens");
    });
}

/// A key is put into a cell, and by a faster clock taken from it again; the taker stops before it
/// clears the valid bit. A first look by a slow clock that passes the cell over, and takes one that
/// was just given up, must know by which clock the key was forgotten.
#[test]
fn a_key_whose_cell_is_just_being_taken_is_not_judged_as_new() {
    explore("insert: cell being taken, three threads", Some(0), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        let (taken, is_taken) = gate();
        let (inserted, is_inserted) = gate();
        let (looked, has_looked) = gate();
        let holds = move |l: &KeyedLimiter<u64>| {
            // Whether it comes to take a cell or not, the others go on.
            let stop = Rc::new(Cell::new(Some(meet(taken, is_inserted))));
            let at_step = stop.clone();
            let stop_once = |stop: &Cell<Option<Action>>| {
                if let Some(stop) = stop.take() {
                    stop();
                }
            };
            at_steps([("taken", Box::new(move || stop_once(&at_step)))]);
            let holds = takes(l, 1, NOW);
            stop_once(&stop);
            holds
        };
        let fast = move |l: &KeyedLimiter<u64>| {
            is_taken.wait();
            let first = takes(l, 1, NOW);
            inserted.open();
            at_steps([("taken", Box::new(|| has_looked.wait()))]);
            takes(l, 3, NOW + SECOND);
            first
        };
        let slow = move |l: &KeyedLimiter<u64>| {
            let slow = takes(l, 1, NOW);
            looked.open();
            slow
        };
        let (holds, slow, fast) = race_of_three(&limiter, holds, slow, fast);
        let admitted = [holds, slow, fast].into_iter().filter(|&one| one).count();
        assert!(admitted <= 1, "the key has had {admitted} tokens");
    });
}
