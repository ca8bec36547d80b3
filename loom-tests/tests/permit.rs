//! Permits: what comes back is what is left of each where it lies, whoever gives back beside it.
//!
//! The clock moves in all of them, and what was kept is held against the limit in every interval: with a
//! clock that stands still, and by sums alone, every rule passes. A give-back of one permit lowers the word
//! below the end of another; that one must know by how much, whenever it was charged and whenever it
//! settles.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tollgate::{Clock, DetachedPermit, KeyedLimiter, Limiter, ManualClock, Permits, Quota};
use tollgate_loom_tests::{
    Change, Kept, assert_within, changes, explore, explore_deep, kept, race,
};

const BURST: u64 = 3;

/// A second in which a token is earned, and a burst of three.
fn limiter() -> (Arc<Limiter>, ManualClock) {
    let (clock, time) = Clock::manual();
    let builder = Limiter::builder(Quota::per_second(1).burst(BURST)).clock(clock);
    (Arc::new(builder.permits(Permits::new()).build().unwrap()), time)
}

fn reserve(limiter: &Limiter, tokens: u64) -> DetachedPermit {
    limiter.reserve(tokens).expect("the burst is there").detach()
}

fn cancel(limiter: &Limiter, permit: &DetachedPermit) {
    assert_eq!(limiter.commit(permit, 0), Ok(0));
}

/// Cancels in a thread of its own.
fn cancelled(limiter: &Arc<Limiter>, permit: DetachedPermit) -> thread::JoinHandle<()> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || cancel(&limiter, &permit))
}

/// Spends as many of three tokens as there are.
fn spent(limiter: &Limiter, time: &ManualClock) -> [Kept; 3] {
    [3, 2, 1].map(|tokens| kept(time, tokens, || limiter.check_n(tokens).is_allowed()))
}

/// P1. Beside one that is cancelled another is reserved, and cancelled when all of it is earned.
#[test]
fn a_permit_knows_what_others_give_back_after_it() {
    explore("permit: reserved beside one that is cancelled", Some(3), || {
        let (limiter, time) = limiter();
        let other = cancelled(&limiter, reserve(&limiter, 1));
        let permit = reserve(&limiter, 1);
        time.advance(Duration::from_secs(1));
        let first = spent(&limiter, &time);
        cancel(&limiter, &permit);
        let last = spent(&limiter, &time);
        other.join().unwrap();
        assert_within(BURST, &[first, last, spent(&limiter, &time)].concat());
    });
}

/// P2. Two that lie on each other are cancelled, beside charges and a clock that moves.
#[test]
fn permits_that_lie_on_each_other_give_nothing_twice() {
    explore_deep("permit: three threads, two are cancelled", 2, Some(3), || {
        let (limiter, time) = limiter();
        let (lower, upper) = (reserve(&limiter, 1), reserve(&limiter, 1));
        let threads = [lower, upper].map(|permit| cancelled(&limiter, permit));
        time.advance(Duration::from_secs(1));
        let first = kept(&time, 3, || limiter.check_n(3).is_allowed());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_within(BURST, &[&[first][..], &spent(&limiter, &time)].concat());
    });
}

/// P3. What a permit is told of when it is reserved has been given back before its charge.
#[test]
fn a_permit_is_told_of_what_is_over_alone() {
    explore("permit: told beside one that is cancelled", None, || {
        let (limiter, time) = limiter();
        let other = cancelled(&limiter, reserve(&limiter, 1));
        let permit = reserve(&limiter, 1);
        other.join().unwrap();
        time.advance(Duration::from_secs(1));
        let first = spent(&limiter, &time);
        cancel(&limiter, &permit);
        assert_within(BURST, &[first, spent(&limiter, &time)].concat());
    });
}

/// A permit is cancelled across a change of quota.
#[test]
fn a_permit_that_is_cancelled_across_a_change_gives_nothing_twice() {
    for change in changes() {
        explore("permit: cancelled across a change", Some(3), move || cancelled_across(change));
    }
}

fn cancelled_across(change: Change) {
    let (limiter, time) = limiter();
    let other = cancelled(&limiter, reserve(&limiter, change.charged));
    let charge = |tokens| kept(&time, tokens, || limiter.check_n(tokens).is_allowed());
    time.advance(Duration::from_secs(1));
    let before = charge(2);
    limiter.set_quota(change.quota).unwrap();
    let after = charge(3);
    time.advance(Duration::from_secs(change.seconds));
    let late = charge(3);
    other.join().unwrap();
    change.assert_within(BURST, &[&[before, after, late][..], &spent(&limiter, &time)].concat());
}

/// The same for a key of a table, whose cell may be another's by then.
#[test]
fn nothing_comes_back_onto_another_key() {
    explore("permit: cancelled against eviction", Some(2), || {
        let builder = KeyedLimiter::<u64>::builder(Quota::per_hour(1).burst(BURST)).capacity(1);
        let clock = Clock::manual().0;
        let limiter = Arc::new(builder.clock(clock).permits(Permits::new()).build().unwrap());
        let permit = limiter.reserve(&1, 1).unwrap().detach();
        assert!(limiter.check_n(&2, 3).is_allowed());
        let (_, admitted) = race(
            &limiter,
            move |l| assert_eq!(l.commit(&permit, 0), Ok(0)),
            |l| l.check_n(&3, 3).is_allowed(),
        );
        // Either the permit was first, and its key is free to be taken, or the key was forgotten with what
        // it owed; who came has spent its burst in either case.
        assert!(admitted);
        assert_eq!(limiter.peek(&3).remaining(), 0);
        assert_eq!(limiter.peek(&2).remaining(), 0);
    });
}

/// A permit that two try to settle is settled by one.
#[test]
fn a_detached_permit_is_settled_once() {
    explore("permit: settled by two", None, || {
        let (limiter, _time) = limiter();
        let permit = Arc::new(reserve(&limiter, 3));
        let other = Arc::clone(&permit);
        let (here, there) = race(
            &limiter,
            move |l| l.commit(&permit, 1).is_ok(),
            move |l| l.commit(&other, 1).is_ok(),
        );
        assert!(here != there);
        assert_eq!(limiter.peek().remaining(), 2);
    });
}
