//! A quota changes while threads decide: nothing is minted, and what is owed is carried over whole.
//!
//! The changes of these models lead from one token a second to one per three seconds and to one
//! per seven, which need other units each time, or to a higher rate, which does not. Every model
//! is explored without a bound or with three preemptions, some of them in a deep run only. Where
//! two publications are needed, the first one is over before the race, or what must come before
//! both is forced.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{KeyedLimiter, Limiter, Overflow, Quota};
use tollgate_loom_tests::{
    NOW, SECOND, at_steps, debt, explore, explore_deep, gate, meet, one_state, race, takes,
    two_cells,
};

const TWO: Quota = Quota::per_second(1).burst(2);

/// One token per so many seconds.
fn slower(seconds: u64) -> Quota {
    Quota::new(1, Duration::from_secs(seconds)).burst(2)
}

fn owes(limiter: &Limiter, now: u64) -> Duration {
    limiter.peek_at(1, now).reset_after().expect("the rates of these models are not 0")
}

/// A higher rate comes into force while a call is charged. The call is owed in tokens, so it is
/// paid off at the new rate, whichever came first.
#[test]
fn a_higher_rate_keeps_a_charge_that_is_under_way() {
    explore("same units: rate against charge", None, || {
        let limiter = one_state(TWO);
        assert!(limiter.check_at(1, NOW).is_allowed());
        let charge = |l: &Limiter| l.check_at(1, NOW).is_allowed();
        let change = |l: &Limiter| l.set_quota_at(Quota::per_second(2), NOW).unwrap();
        assert!(race(&limiter, charge, change).0);
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(1));
    });
}

/// A smaller burst comes into force while a call is charged: the call is judged by one of the two
/// quotas, by no mixture, and is owed if it was admitted.
#[test]
fn a_smaller_burst_keeps_a_charge_that_is_under_way() {
    explore("same units: burst against charge", None, || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW));
        let change = |l: &KeyedLimiter<u64>| {
            l.set_quota_at(Quota::per_second(1).burst(1), NOW).unwrap();
            takes(l, 1, NOW)
        };
        let (before, after) = race(&limiter, |l| takes(l, 1, NOW), change);
        assert!(!after, "a call that follows a change is judged by it");
        let owed = if before { 2 } else { 1 };
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(owed));
    });
}

/// Other units come into force while a call is charged. Its two tokens are owed under the new
/// rate, whether it was charged before, was translated, or came after.
#[test]
fn other_units_keep_a_charge_that_is_under_way() {
    explore("other units: charge of one state", None, || {
        let limiter = one_state(TWO);
        assert!(limiter.check_at(1, NOW).is_allowed());
        let charge = |l: &Limiter| l.check_at(1, NOW).is_allowed();
        let change = |l: &Limiter| l.set_quota_at(slower(3), NOW).unwrap();
        assert!(race(&limiter, charge, change).0);
        assert_eq!(owes(&limiter, NOW), Duration::from_secs(6));
    });
    explore("other units: charge of a key", None, || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW));
        let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(3), NOW).unwrap();
        assert!(race(&limiter, |l| takes(l, 1, NOW), change).0);
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(6));
    });
}

/// Other units come into force while a key comes for the first time: it is in the table in the new
/// units when the change has returned, however far it had come, and owes its token.
#[test]
fn other_units_keep_a_first_call_that_is_under_way() {
    explore("other units: first insert", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(3), NOW).unwrap();
        assert!(race(&limiter, |l| takes(l, 1, NOW), change).0);
        // No word is left in the units before, or this change would take it for one of its own. To
        // look at the key before it would bring it into the new units.
        limiter.set_quota_at(slower(7), NOW).unwrap();
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(7));
    });
}

/// Other units come into force while the cell of an idle key is taken for a new one.
#[test]
fn other_units_keep_a_first_call_in_the_cell_of_an_idle_key() {
    explore("other units: kill", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
        let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(3), NOW).unwrap();
        assert!(race(&limiter, |l| takes(l, 3, NOW), change).0);
        assert_eq!(limiter.stats().evicted, 0);
        limiter.set_quota_at(slower(7), NOW).unwrap();
        assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(7));
    });
}

/// The second change comes while a call is charged that has found the table after the first.
#[test]
fn a_second_change_keeps_a_charge_that_is_under_way() {
    explore("second change: charge", None, || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW));
        limiter.set_quota_at(slower(3), NOW).unwrap();
        let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(7), NOW).unwrap();
        assert!(race(&limiter, |l| takes(l, 1, NOW), change).0);
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(14));
    });
}

/// A call has its terms and is stopped, and goes on after two changes, when the parity of the epoch
/// is what it was: what it takes is a token of the new units.
#[test]
fn a_call_that_sleeps_through_two_changes_does_not_charge_in_old_units() {
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds)).burst(10);
    explore_deep("two changes: charge of one state", 1, Some(3), move || {
        let limiter = one_state(quota(1));
        assert!(limiter.check_at(7, 0).is_allowed());
        let (begun, has_begun) = gate();
        let changes = move |l: &Limiter| {
            has_begun.wait();
            l.set_quota_at(quota(3), 6 * SECOND).unwrap();
            l.set_quota_at(quota(7), 6 * SECOND).unwrap();
        };
        let charge = move |l: &Limiter| {
            at_steps([("terms loaded", Box::new(|| begun.open()))]);
            l.check_at(1, 0).is_allowed()
        };
        assert!(race(&limiter, changes, charge).1);
        assert_eq!(owes(&limiter, 6 * SECOND), Duration::from_secs(14));
    });
}

/// The same where the call stops just before its swap. For some debts the key then stands at the
/// very same time as before, in other units; which, depends on the units, so all are tried.
#[test]
fn a_swap_that_sleeps_through_two_changes_fails() {
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds)).burst(30);
    for owed in 1..25 {
        explore(&format!("two changes: swap on a debt of {owed}"), None, move || {
            let limiter = one_state(quota(1));
            assert!(limiter.check_at(owed, 0).is_allowed());
            let (stopped, is_stopped) = gate();
            let (changed, is_changed) = gate();
            let now = (owed - 1) * SECOND;
            let changes = move |l: &Limiter| {
                is_stopped.wait();
                l.set_quota_at(quota(3), now).unwrap();
                l.set_quota_at(quota(7), now).unwrap();
                changed.open();
            };
            let charge = move |l: &Limiter| {
                at_steps([("swap", meet(stopped, is_changed))]);
                l.check_at(1, 0).is_allowed()
            };
            assert!(race(&limiter, changes, charge).1);
            assert_eq!(owes(&limiter, now), Duration::from_secs(14));
        });
    }
}

/// A call on a key stops before it looks for the key, and has terms of two changes ago.
#[test]
fn a_call_that_sleeps_before_it_finds_its_key_takes_the_terms_in_force() {
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds)).burst(10);
    explore("two changes: charge of a key", None, move || {
        let limiter = two_cells(quota(1), Overflow::EvictNearest);
        assert!(limiter.check_at(&1, 7, 0).is_allowed());
        let (stopped, is_stopped) = gate();
        let (changed, is_changed) = gate();
        let changes = move |l: &KeyedLimiter<u64>| {
            is_stopped.wait();
            l.set_quota_at(quota(3), 6 * SECOND).unwrap();
            l.set_quota_at(quota(7), 6 * SECOND).unwrap();
            changed.open();
        };
        let charge = move |l: &KeyedLimiter<u64>| {
            at_steps([("terms loaded", meet(stopped, is_changed))]);
            takes(l, 1, 0)
        };
        assert!(race(&limiter, changes, charge).1);
        assert_eq!(debt(&limiter, 1, 6 * SECOND), Duration::from_secs(14));
    });
}

/// A key that was forgotten, and whose cell is being taken for another key while the changer walks
/// the table: what the other key spends at once is not lost when the taker gives the cell up. The
/// change begins when the cell has been taken; then again when the taker has judged its call (under
/// the new quota it would take no cell), and there the other call comes when both are done.
#[test]
fn a_cell_that_is_given_up_during_a_change_loses_no_charge() {
    for (step, at_once) in [("taken", true), ("judged", false)] {
        explore(&format!("change against an insert that has {step}"), Some(3), move || {
            let limiter = two_cells(Quota::per_second(1).burst(2), Overflow::EvictNearest);
            assert!(takes(&limiter, 1, 0) && takes(&limiter, 2, 0));
            let now = 2 * SECOND;
            let (begun, has_begun) = gate();
            // Both are idle. Under the new quota two tokens at once are too many.
            let change = move |l: &KeyedLimiter<u64>| {
                has_begun.wait();
                l.set_quota_at(Quota::per_minute(1).burst(1), now).unwrap();
                at_once && takes(l, 3, now)
            };
            let insert = move |l: &KeyedLimiter<u64>| {
                at_steps([(step, Box::new(|| begun.open()))]);
                l.check_at(&3, 2, now).is_allowed()
            };
            let (one, two) = race(&limiter, change, insert);
            let one = one || !at_once && takes(&limiter, 3, now);
            assert!(one != two, "one token: {one}, two tokens: {two}");
            assert!(!takes(&limiter, 3, now));
        });
    }
}

/// The same where the cell's earlier key was a member as the walk began: its valid bit says nothing
/// of the insert. That the cell is taken before the change, its bit cleared in the walk, and the cell
/// given up after the change, is forced.
#[test]
fn a_cell_that_is_given_up_during_the_walk_loses_no_charge() {
    explore("walk against an insert that is given up", Some(3), || {
        let limiter = two_cells(Quota::per_second(1).burst(2), Overflow::EvictNearest);
        assert!(takes(&limiter, 1, 0) && takes(&limiter, 2, 0));
        let now = 2 * SECOND;
        let (taken, is_taken) = gate();
        let (begun, has_begun) = gate();
        let (changed, is_changed) = gate();
        let change = move |l: &KeyedLimiter<u64>| {
            is_taken.wait();
            at_steps([("walk begun", Box::new(|| begun.open()))]);
            l.set_quota_at(Quota::per_minute(1).burst(1), now).unwrap();
            let one = takes(l, 3, now);
            changed.open();
            one
        };
        let insert = move |l: &KeyedLimiter<u64>| {
            let given_up = || is_changed.wait();
            at_steps([("taken", meet(taken, has_begun)), ("not committed", Box::new(given_up))]);
            l.check_at(&3, 2, now).is_allowed()
        };
        let (one, two) = race(&limiter, change, insert);
        assert!(one && !two, "one token: {one}, two tokens: {two}");
        assert!(!takes(&limiter, 3, now));
    });
}

/// An insert stands still, and goes on after two changes, when the parity of the epoch is what it
/// was. Keys that owe something since look idle in the units it knows: it must forget neither.
#[test]
fn an_insert_that_sleeps_through_two_changes_forgets_nobody() {
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds)).burst(1);
    explore("two changes: insert", None, move || {
        let limiter = two_cells(quota(1), Overflow::Refuse);
        assert!(takes(&limiter, 1, 0) && takes(&limiter, 2, 0));
        let (judged, is_judged) = gate();
        let (changed, is_changed) = gate();
        let changes = move |l: &KeyedLimiter<u64>| {
            is_judged.wait();
            l.set_quota_at(quota(3), NOW).unwrap();
            l.set_quota_at(quota(7), NOW).unwrap();
            assert!(takes(l, 1, NOW) && takes(l, 2, NOW));
            changed.open();
        };
        let insert = move |l: &KeyedLimiter<u64>| {
            at_steps([("judged", meet(judged, is_changed))]);
            l.check_at(&3, 1, NOW).is_full()
        };
        let ((), is_full) = race(&limiter, changes, insert);
        assert!(is_full && !takes(&limiter, 1, NOW) && !takes(&limiter, 2, NOW));
    });
}

/// An insert finds at its commit that the quota has changed, and charges in the new units: who
/// meets the key there knows the new quota too. The change is made by the thread that inserts, in
/// the middle of its call, so that only its first charge can tell another thread of it; that one
/// comes when the cell is tentative.
#[test]
fn a_first_call_that_comes_to_a_change_brings_the_quota_along() {
    explore_deep("other units: first insert and a hit", 1, Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        let changed = Arc::clone(&limiter);
        let (written, is_written) = gate();
        let change = move || {
            written.open();
            changed.set_quota_at(slower(3), NOW).unwrap();
        };
        let insert = move |l: &KeyedLimiter<u64>| {
            at_steps([("tentative", Box::new(change))]);
            takes(l, 1, NOW)
        };
        let hit = move |l: &KeyedLimiter<u64>| {
            is_written.wait();
            takes(l, 1, NOW)
        };
        let (hit, inserted) = race(&limiter, hit, insert);
        assert!(hit && inserted);
        limiter.set_quota_at(slower(7), NOW).unwrap();
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(14));
    });
}

/// Two changes come while a thread asks which quota is in force: it is told of one of the three,
/// whole.
#[test]
fn a_quota_is_never_seen_torn() {
    explore("two changes: the quota in force", Some(3), || {
        let quota = |tokens| Quota::per_second(tokens).burst(10 * tokens);
        let limiter = one_state(quota(1));
        let changes = move |l: &Limiter| {
            l.set_quota_at(quota(2), NOW).unwrap();
            l.set_quota_at(quota(4), NOW).unwrap();
        };
        let (seen, ()) = race(&limiter, |l| l.quota(), changes);
        assert!([1, 2, 4].map(quota).contains(&seen), "{seen:?}");
    });
}
