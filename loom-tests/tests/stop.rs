//! A thread that is killed inside a call, at any step, holds nobody up: whoever comes next is told
//! what is right, and at most one cell is lost.
//!
//! The killed thread unwinds from the step it has come to; `probe::step` in the engine names the
//! steps. It is killed while another thread is at work, or before two others race, with three
//! preemptions or without a bound; where both take the cells of idle keys with two, and in a deep
//! run with three.

#![cfg(tollgate_loom)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tollgate::probe::on_step;
use tollgate::{KeyedLimiter, Overflow, Quota};
use tollgate_loom_tests::{
    NOW, SECOND, at_steps, debt, explore, explore_deep, gate, race, takes, two_cells,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);

/// The steps of an insert.
const INSERT: [&str; 6] = ["taken", "cleared", "tagged", "tentative", "committed", "not committed"];

/// One token per so many seconds.
fn slower(seconds: u64) -> Quota {
    Quota::new(1, Duration::from_secs(seconds)).burst(2)
}

/// Does `call`, and is killed at a step of that name, if it comes to one. `None` if it was.
fn killed_at<T>(step: &'static str, call: impl FnOnce() -> T) -> Option<T> {
    on_step(move |name| {
        if name == step {
            resume_unwind(Box::new(()));
        }
    });
    let result = catch_unwind(AssertUnwindSafe(call)).ok();
    on_step(|_| ());
    result
}

/// Whether the cell of an insert that was killed at `step` belongs to nobody.
fn loses_a_cell(step: &str) -> bool {
    step != "committed"
}

/// Of two threads that bring one key, one is killed on its way. The other is told what is right: the
/// key has one token, and that one is spent once.
#[test]
fn an_insert_that_is_killed_spends_nothing() {
    for step in INSERT {
        explore(&format!("killed when {step}, one key"), Some(3), move || {
            let limiter = two_cells(ONE, Overflow::Refuse);
            let killed = move |l: &KeyedLimiter<u64>| killed_at(step, || takes(l, 1, NOW));
            let (here, there) = race(&limiter, |l| takes(l, 1, NOW), killed);
            assert!(here != there.unwrap_or(false), "here {here}, there {there:?}");
            assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1));
            // The other cell is there for another key, unless it is the one that was lost.
            let lost = there.is_none() && loses_a_cell(step);
            assert_eq!(takes(&limiter, 2, NOW), !lost);
        });
    }
}

/// The same where both cells are held by idle keys.
#[test]
fn an_insert_that_is_killed_in_an_idle_keys_cell_spends_nothing() {
    for step in INSERT {
        explore_deep(&format!("killed when {step}, idle cells"), 2, Some(3), move || {
            let limiter = two_cells(ONE, Overflow::Refuse);
            assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
            let killed = move |l: &KeyedLimiter<u64>| killed_at(step, || takes(l, 3, NOW));
            let (here, there) = race(&limiter, |l| takes(l, 3, NOW), killed);
            assert!(here != there.unwrap_or(false), "here {here}, there {there:?}");
            assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
            let lost = there.is_none() && loses_a_cell(step);
            assert_eq!(takes(&limiter, 4, NOW), !lost);
        });
    }
}

/// A thread has been killed when two others bring the same key.
#[test]
fn two_threads_share_a_key_that_a_killed_one_has_left() {
    for step in INSERT {
        for idle in [false, true] {
            let name = format!("killed when {step}, then two, idle cells: {idle}");
            // Without idle cells three preemptions are a matter of seconds.
            explore_deep(&name, if idle { 2 } else { 3 }, Some(3), move || {
                let limiter = two_cells(ONE, Overflow::Refuse);
                if idle {
                    assert!(takes(&limiter, 1, NOW - SECOND) && takes(&limiter, 2, NOW - SECOND));
                }
                let killed = killed_at(step, || takes(&limiter, 3, NOW));
                let charge = |l: &KeyedLimiter<u64>| takes(l, 3, NOW);
                let (here, there) = race(&limiter, charge, charge);
                let admitted = [killed.unwrap_or(false), here, there];
                assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 1);
                assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
            });
        }
    }
}

/// The cell of a killed insert is the only one, so a second key finds the bucket full: it is told so
/// at once, and whoever is there goes on.
#[test]
fn a_bucket_with_a_lost_cell_answers_at_once() {
    explore("killed, then a hit and a key without room", None, || {
        let limiter = two_cells(TWO, Overflow::Refuse);
        assert!(takes(&limiter, 1, NOW));
        assert!(killed_at("tagged", || takes(&limiter, 2, NOW)).is_none());
        let charge = |l: &KeyedLimiter<u64>| takes(l, 1, NOW);
        let (old, new) = race(&limiter, charge, |l| l.check_at(&3, 1, NOW));
        assert!(old && new.is_full());
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(2));
    });
}

/// A changer is stopped on its way until a charge is done: the charge does not wait for it, and is
/// owed under whichever quota is in force in the end.
#[test]
fn a_changer_that_is_stopped_holds_up_no_charge() {
    for step in ["written", "published", "walk begun"] {
        explore(&format!("changer stopped when {step}"), None, move || {
            let limiter = two_cells(TWO, Overflow::EvictNearest);
            assert!(takes(&limiter, 1, NOW));
            let (charged, is_charged) = gate();
            let change = move |l: &KeyedLimiter<u64>| {
                at_steps([(step, Box::new(|| is_charged.wait()))]);
                l.set_quota_at(slower(3), NOW).unwrap();
            };
            let charge = move |l: &KeyedLimiter<u64>| {
                let admitted = takes(l, 1, NOW);
                charged.open();
                admitted
            };
            assert!(race(&limiter, charge, change).0);
            limiter.set_quota_at(slower(7), NOW).unwrap();
            assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(14));
        });
    }
}

/// An insert was killed before a change. The walk makes its key live if it was a member, and whoever
/// brings it again meanwhile spends its token once.
#[test]
fn a_change_after_a_killed_insert_loses_no_charge() {
    for step in INSERT {
        explore(&format!("killed when {step}, then a change"), Some(3), move || {
            let limiter = two_cells(TWO, Overflow::EvictNearest);
            let killed = killed_at(step, || takes(&limiter, 1, NOW));
            let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(3), NOW).unwrap();
            let (admitted, ()) = race(&limiter, |l| takes(l, 1, NOW), change);
            assert!(admitted);
            let owed = if killed.is_some() { 6 } else { 3 };
            assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(owed));
        });
    }
}

/// A first charge that another thread makes for a killed insert brings the new units into the cell:
/// who meets it there knows them too. It is made by the thread that changes the quota, before its
/// walk comes to the cell, so that only this charge can tell of the change.
#[test]
fn a_charge_for_a_killed_insert_brings_the_quota_along() {
    explore("killed when committed, a change, two charges", Some(3), || {
        let limiter = two_cells(TWO, Overflow::EvictNearest);
        assert!(killed_at("committed", || takes(&limiter, 1, NOW)).is_none());
        let charged = Arc::clone(&limiter);
        let charge = move || assert!(takes(&charged, 1, NOW));
        let change = move |l: &KeyedLimiter<u64>| {
            at_steps([("walk begun", Box::new(charge))]);
            l.set_quota_at(slower(3), NOW).unwrap();
        };
        assert!(race(&limiter, |l| takes(l, 1, NOW), change).0);
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(6));
    });
}

/// An insert learns by the failure of its commit when its key was forgotten, by a thread that is
/// killed when it has done so. A third thread that charges the cell for the insert knows it, too. All
/// that comes between is done by the thread that inserts, in the middle of its call, so that only its
/// commit can tell of it; the one that charges comes before the key is forgotten.
#[test]
fn a_charge_for_an_insert_knows_what_the_insert_has_learned() {
    explore("forgotten during the commit, and a charge", Some(3), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        let (spent, is_spent) = gate();
        let (charged, is_charged) = gate();
        let ahead = {
            let limiter = Arc::clone(&limiter);
            move |l: &KeyedLimiter<u64>| {
                let (admitted, is_admitted) = channel();
                let between = move || {
                    admitted.send(takes(&limiter, 1, NOW)).unwrap();
                    spent.open();
                    killed_at("taken", || takes(&limiter, 3, NOW + SECOND));
                };
                at_steps([
                    ("tentative", Box::new(between)),
                    ("committed", Box::new(|| is_charged.wait())),
                ]);
                takes(l, 1, NOW + SECOND);
                is_admitted.try_recv().unwrap_or(false)
            }
        };
        let behind = move |l: &KeyedLimiter<u64>| {
            is_spent.wait();
            let admitted = takes(l, 1, NOW);
            charged.open();
            admitted
        };
        let (second, first) = race(&limiter, behind, ahead);
        assert!(!first || !second, "the key has had two tokens");
    });
}
