//! Handles of a leased limiter: how large leases are, when they are void, what threads hold, and what
//! cannot be leased.

use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, LeaseError, LeasedLimiter, Leases, Limiter, Quota};

use crate::leases::earned;

/// A limiter by a manual clock, of 1000 a second.
fn thousand(burst: u64, leases: Leases) -> LeasedLimiter {
    let builder = Limiter::builder(Quota::per_second(1_000).burst(burst));
    builder.clock(Clock::manual().0).build().unwrap().leased(leases).unwrap()
}

#[test]
fn leases_grow_with_what_is_spent_and_shrink_with_what_is_not() {
    let leased = thousand(100_000, Leases::of(Duration::from_millis(8)).clock_every(1));
    let mut handle = leased.handle();
    let mut sizes = Vec::new();
    for _ in 0..5 {
        assert!(handle.check_at(1, 0).is_allowed());
        sizes.push(handle.held() + 1);
        (0..handle.held()).for_each(|_| assert!(handle.check_at(1, 0).is_allowed()));
    }
    // No more than what is earned in a term.
    assert_eq!(sizes, [1, 2, 4, 8, 8]);
    // A quarter is spent, then a term passes.
    assert!((0..2).all(|_| handle.check_at(1, 0).is_allowed()));
    assert!(handle.check_at(1, 8_000_000).is_allowed());
    assert_eq!(handle.held(), 3);
    assert!(handle.check_at(1, 16_000_000).is_allowed());
    assert_eq!(handle.held(), 1);
}

#[test]
fn near_the_limit_a_lease_is_of_one_token() {
    let leased = thousand(10, Leases::of(Duration::from_secs(1)).clock_every(1));
    let (mut one, mut other) = (leased.handle(), leased.handle());
    for _ in 0..4 {
        assert!(one.check_at(1, 0).is_allowed());
    }
    // Two handles share half of the seven that are left.
    assert_eq!(leased.limiter().peek_at(1, 0).remaining() + one.held(), 6);
    assert!((0..6).all(|_| other.check_at(1, 0).is_allowed() || one.check_at(1, 0).is_allowed()));
    assert!(!other.check_at(1, 0).is_allowed() && !one.check_at(1, 0).is_allowed());
    for now in 1..100 {
        assert!(one.check_at(1, now * 1_000_000).is_allowed());
        assert_eq!(one.held(), 0);
    }
}

#[test]
fn what_is_held_is_void_when_time_ends_it_goes_back_or_the_quota_changes() {
    let ms = 1_000_000;
    let holding = || {
        let leased = thousand(100, Leases::of(Duration::from_millis(8)).clock_every(1));
        let mut handle = leased.handle();
        (0..4).for_each(|_| assert!(handle.check_at(1, 10 * ms).is_allowed()));
        assert_eq!(handle.held(), 3);
        drop(handle);
        leased
    };
    // A call at each of these moments after four at 10 ms, and what is held then.
    for (now, is_good) in
        [(10 * ms, true), (18 * ms - 1, true), (18 * ms, false), (10 * ms - 1, false)]
    {
        let leased = holding();
        let mut handle = leased.handle();
        (0..4).for_each(|_| assert!(handle.check_at(1, 10 * ms).is_allowed()));
        let before = leased.limiter().peek_at(1, now).remaining();
        assert!(handle.check_at(1, now).is_allowed());
        let is_from_lease = leased.limiter().peek_at(1, now).remaining() == before;
        assert_eq!(is_from_lease, is_good, "at {now}");
    }
    let leased = holding();
    let mut handle = leased.handle();
    (0..4).for_each(|_| assert!(handle.check_at(1, 10 * ms).is_allowed()));
    leased.limiter().set_quota_at(Quota::per_second(0), 10 * ms).unwrap();
    assert_eq!(handle.held(), 3);
    assert!(!handle.check_at(1, 10 * ms).is_allowed());
}

/// What threads hold when they end is there again, and all that they were allowed is counted.
#[test]
fn threads_share_a_burst_and_lose_nothing() {
    let (threads, burst) = (8, 100_000);
    let leased = thousand(burst, Leases::of(Duration::from_secs(1)));
    let admitted: u64 = thread::scope(|scope| {
        let spend = |calls: u64| {
            let mut handle = leased.handle();
            (0..calls).map(|_| u64::from(handle.check().is_allowed())).sum::<u64>()
        };
        let spawned: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || spend(10_000 + thread))).collect();
        spawned.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let limiter = leased.limiter();
    assert_eq!(admitted, 80_028);
    assert_eq!(limiter.peek().remaining(), burst - admitted);
    assert_eq!((limiter.stats().admitted, limiter.stats().refused), (admitted, 0));
}

/// By real clocks: threads that call as fast as they can are never admitted more than burst and time
/// allow, and the last of them find nothing left that somebody else has not spent.
#[test]
fn threads_by_the_precise_clock_stay_within_the_quota() {
    let quota = Quota::per_second(200_000).burst(1_000);
    let leased = Limiter::new(quota).unwrap().leased(Leases::of(Duration::from_millis(1))).unwrap();
    let before = leased.limiter().now();
    let admitted: u64 = thread::scope(|scope| {
        let spend = || {
            let mut handle = leased.handle();
            (0..200_000).map(|_| u64::from(handle.check().is_allowed())).sum::<u64>()
        };
        let spawned: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
        spawned.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let passed = leased.limiter().now().saturating_sub(before).as_nanos() as u64;
    assert!(admitted <= quota.burst_size() + earned(quota, passed), "{admitted} in {passed} ns");
    assert!(admitted >= 1_000);
}

#[test]
fn what_cannot_be_leased_is_said_when_it_is_asked_for() {
    let limiter =
        |algorithm| Limiter::builder(Quota::per_second(10)).algorithm(algorithm).build().unwrap();
    let leases = Leases::of(Duration::from_millis(1));
    for algorithm in Algorithm::ALL {
        let result = limiter(algorithm).leased(leases);
        match algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra => assert!(result.is_ok()),
            _ => assert_eq!(result.unwrap_err(), LeaseError::Algorithm { algorithm }),
        }
    }
    let error = |leases: Leases| limiter(Algorithm::Gcra).leased(leases).unwrap_err();
    for term in [Duration::ZERO, Duration::MAX] {
        assert_eq!(error(Leases::of(term)), LeaseError::Term { term });
    }
    assert_eq!(error(leases.largest(0)), LeaseError::Largest);
    assert_eq!(error(leases.clock_every(0)), LeaseError::ClockEvery);
    let widest = Leases::of(Duration::from_nanos(u64::MAX)).largest(u64::MAX).clock_every(u64::MAX);
    let leased = limiter(Algorithm::TokenBucket).leased(widest).unwrap();
    let mut handle = leased.handle();
    assert!((0..10).all(|_| handle.check_at(1, u64::MAX).is_allowed()));
    assert!(!handle.check_at(u64::MAX, u64::MAX).is_allowed());
}

/// What a handle gives back is taken from what it was charged alone: it shortens no ban that was laid
/// meanwhile, and after a reset nothing is left to give back.
#[test]
fn what_is_given_back_shortens_no_ban_and_is_forgotten_by_a_reset() {
    let leased = thousand(1_000, Leases::of(Duration::from_secs(1)));
    let limiter = leased.limiter();
    let holding = || {
        let mut handle = leased.handle();
        while handle.held() < 8 {
            assert!(handle.check_at(1, 0).is_allowed());
        }
        handle
    };
    let mut handle = holding();
    limiter.ban_at(5_000_000_000, 0).unwrap();
    let wait = limiter.peek_at(1, 0).retry_after();
    handle.give_back_at(0);
    assert_eq!((handle.held(), limiter.peek_at(1, 0).retry_after()), (0, wait));

    limiter.reset_at(0);
    let mut handle = holding();
    limiter.reset_at(0);
    assert!(limiter.check_at(100, 0).is_allowed());
    handle.give_back_at(0);
    assert_eq!(limiter.peek_at(1, 0).remaining(), 900);
}
