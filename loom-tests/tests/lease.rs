//! Leases of one state: what is taken, spent and given back is counted once, whoever comes between;
//! and what time has given back, no handle gives back again.
//!
//! Handles of this thread are made ready before the race: they hold tokens that were taken in the same
//! moment.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tollgate::{Clock, LeaseHandle, LeasedLimiter, Leases, Limiter, ManualClock, Quota};
use tollgate_loom_tests::{NOW, SECOND, explore};

const BURST: u64 = 16;

/// One token a second, leases of up to four tokens for four seconds.
fn leased(clock_every: u64) -> (Arc<LeasedLimiter>, ManualClock) {
    let (leased, time) = leased_from_the_start(clock_every);
    time.set(Duration::from_nanos(NOW));
    (leased, time)
}

/// The same at time 0.
fn leased_from_the_start(clock_every: u64) -> (Arc<LeasedLimiter>, ManualClock) {
    let (clock, time) = Clock::manual();
    let limiter = Limiter::builder(Quota::per_second(1).burst(BURST)).clock(clock).build().unwrap();
    let leases = Leases::of(Duration::from_secs(4)).largest(4).clock_every(clock_every);
    (Arc::new(limiter.leased(leases).unwrap()), time)
}

/// How many of so many calls are admitted.
fn spend(handle: &mut LeaseHandle<'_>, calls: u64) -> u64 {
    (0..calls).map(|_| u64::from(handle.check().is_allowed())).sum()
}

/// A handle that has spent two tokens and holds one.
fn holding_one(leased: &LeasedLimiter) -> LeaseHandle<'_> {
    let mut handle = leased.handle();
    assert_eq!((spend(&mut handle, 2), handle.held()), (2, 1));
    handle
}

/// A handle that has spent four tokens and holds three.
fn holding_three(leased: &LeasedLimiter) -> LeaseHandle<'_> {
    let mut handle = holding_one(leased);
    assert_eq!((spend(&mut handle, 2), handle.held()), (2, 3));
    handle
}

/// How many tokens are owed at the limiter's own time, exactly.
fn owed(leased: &LeasedLimiter) -> Duration {
    leased.limiter().peek().reset_after().unwrap()
}

fn there<T: 'static>(
    leased: &Arc<LeasedLimiter>,
    run: impl FnOnce(&LeasedLimiter) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let leased = Arc::clone(leased);
    thread::spawn(move || run(&leased))
}

/// H1: one gives back what it holds and goes on, one calls the limiter itself: all that was spent is
/// owed, and all that is left can be spent.
#[test]
fn what_is_given_back_is_there_for_one_call() {
    explore("lease: give back against charge", None, || {
        let (leased, _) = leased(1);
        let mut handle = holding_one(&leased);
        let other = there(&leased, |l| l.limiter().check_n(2).is_allowed());
        handle.give_back();
        let spent = 2 + spend(&mut handle, 1);
        assert!(other.join().unwrap() && spent == 3);
        handle.give_back();
        assert_eq!(owed(&leased), Duration::from_secs(spent + 2));
        assert_eq!(spend(&mut handle, BURST), BURST - spent - 2);
    });
}

/// H1 with leases on both sides: what each has spent is owed, and nothing else.
#[test]
fn two_handles_come_and_go() {
    explore("lease: two handles", None, || {
        let (leased, _) = leased(1);
        let mut handle = holding_one(&leased);
        let other = there(&leased, |l| spend(&mut l.handle(), 2));
        let spent = 2 + spend(&mut handle, 2);
        drop(handle);
        let spent = spent + other.join().unwrap();
        assert_eq!((spent, owed(&leased)), (6, Duration::from_secs(6)));
    });
}

/// H2: a second handle and a plain call besides.
#[test]
fn three_threads_hand_over() {
    explore("lease: give back, lease and charge", Some(3), || {
        let (leased, _) = leased(1);
        let handle = holding_one(&leased);
        let second = there(&leased, |l| spend(&mut l.handle(), 1));
        let third = there(&leased, |l| u64::from(l.limiter().check().is_allowed()));
        drop(handle);
        let spent = 2 + second.join().unwrap() + third.join().unwrap();
        assert_eq!((spent, owed(&leased)), (4, Duration::from_secs(4)));
    });
}

/// Of a token that is given back a second later, a second has come back by itself. Who charges after
/// the clock has moved sees in what remains whether it was given back before.
#[test]
fn time_since_the_charge_is_not_given_back_twice() {
    explore("lease: give back while the clock moves", None, || {
        let (leased, time) = leased(1);
        let mut handle = holding_three(&leased);
        // Four are spent, three held: seven are owed.
        let other = there(&leased, move |l| {
            time.set(Duration::from_nanos(NOW + SECOND));
            l.limiter().check().remaining()
        });
        handle.give_back();
        let seen = BURST - other.join().unwrap();
        let owed = owed(&leased);
        match seen {
            // 7 - 3 - 1 + 1: before the clock had moved.
            4 => assert_eq!(owed, Duration::from_secs(4)),
            // 7 - 1 - 2 + 1: after it had, and before the charge.
            5 => assert_eq!(owed, Duration::from_secs(5)),
            // 7 - 1 + 1, and 2 given back later.
            7 => assert_eq!(owed, Duration::from_secs(5)),
            _ => panic!("{seen} seen"),
        }
    });
}

/// Once `set_quota` has returned, nothing is spent that was leased before.
#[test]
fn a_lowered_quota_voids_what_is_held() {
    explore("lease: spend against a change", None, || {
        let (leased, _) = leased(4);
        let mut handle = holding_three(&leased);
        let other =
            there(&leased, |l| l.limiter().set_quota(Quota::per_second(1).burst(1)).unwrap());
        let during = spend(&mut handle, 1);
        other.join().unwrap();
        assert!(during <= 1 && spend(&mut handle, 4) == 0);
    });
}

/// A change of units meets a charge; what was leased before it is not given back after it, as the time
/// since then has passed in other units.
#[test]
fn what_was_leased_in_other_units_is_not_given_back() {
    explore("lease: give back after a change of units", Some(3), || {
        let (leased, time) = leased_from_the_start(1);
        let mut handle = holding_three(&leased);
        let other = there(&leased, move |l| {
            // All three of the tokens that are held have come back by themselves.
            time.set(Duration::from_secs(3));
            l.limiter().set_quota(Quota::per_hour(1).burst(BURST)).unwrap();
        });
        assert!(leased.limiter().check().is_allowed());
        other.join().unwrap();
        handle.give_back();
        assert_eq!(owed(&leased), Duration::from_secs(5 * 3_600));
    });
}

/// When another thread has seen the term end, nothing is spent of the lease, nor given back.
#[test]
fn what_is_held_ends_with_its_term() {
    explore("lease: spend against the end of its term", None, || {
        let (leased, time) = leased(1);
        let mut handle = holding_three(&leased);
        // Of the seven tokens that are owed, four have come back then.
        let (ended, left) = (NOW + 4 * SECOND, BURST - 3);
        let other = there(&leased, move |l| {
            time.set(Duration::from_nanos(ended));
            l.limiter().check_n(left).is_allowed()
        });
        // A look at the word, as loom sees no race on the clock itself.
        let _ = leased.limiter().peek();
        let first = spend(&mut handle, 1);
        let all = other.join().unwrap();
        // Before the term's end from the lease; after it like anybody.
        let more = spend(&mut handle, BURST);
        let expected = if all { 0 } else { left - first };
        assert!(first <= 1 && more <= expected, "{first}, {all}, {more}");
        assert!(all || first == 1);
    });
}
