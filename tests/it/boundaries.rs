//! The ends of every range, and everything that a careless or a hostile caller may hand in.

use std::time::Duration;

use tollgate::{Algorithm, BuildError, Clock, Decision, KeyedLimiter, Limiter, Quota, QuotaError};

use crate::properties::ALGORITHMS;

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 31_557_600 * SECOND;

fn limiter(algorithm: Algorithm, quota: Quota) -> Limiter {
    Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0).build().unwrap()
}

#[test]
fn a_cost_of_nothing_is_admitted_and_changes_nothing() {
    for algorithm in ALGORITHMS {
        for quota in [Quota::per_second(3), Quota::per_second(0), Quota::per_second(3).burst(0)] {
            let limiter = limiter(algorithm, quota);
            let before = limiter.peek_at(1, SECOND).remaining();
            assert!(limiter.check_at(0, SECOND).is_allowed());
            assert_eq!(limiter.peek_at(1, SECOND).remaining(), before);
            assert_eq!(limiter.stats().admitted, 0, "and is not counted");
        }
    }
}

#[test]
fn the_largest_cost_is_never_admitted() {
    for algorithm in ALGORITHMS {
        for now in [0, YEAR, u64::MAX] {
            let refused = limiter(algorithm, Quota::per_second(100)).check_at(u64::MAX, now);
            assert!(!refused.is_allowed() && refused.retry_after().is_none());
        }
    }
}

#[test]
fn a_cost_above_the_burst_is_never_admitted_and_one_equal_to_it_is() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(algorithm, Quota::per_second(5));
        assert_eq!(limiter.check_at(6, 0).retry_after(), None);
        assert!(limiter.check_at(5, 0).is_allowed());
    }
}

#[test]
fn a_limit_of_zero_never_refills() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let limiter = limiter(algorithm, Quota::per_second(0).burst(2));
        let last = [0, 0].map(|now| limiter.check_at(1, now))[1];
        assert!(last.is_allowed());
        assert_eq!((last.remaining(), last.reset_after()), (0, None));
        for now in [0, YEAR, 500 * YEAR] {
            assert_eq!(limiter.check_at(1, now).retry_after(), None);
        }
        // A policy that was switched off is switched on again: what was spent is a debt.
        limiter.set_quota_at(Quota::per_second(10).burst(2), YEAR).unwrap();
        assert_eq!(limiter.check_at(1, YEAR).retry_after(), Some(Duration::from_millis(100)));
        assert!(limiter.check_at(1, YEAR + SECOND / 10).is_allowed());
    }
    let limiter = limiter(Algorithm::FixedWindow, Quota::per_second(0));
    assert_eq!(limiter.check_at(1, 0).retry_after(), None);
}

#[test]
fn a_burst_of_zero_refuses_everything() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let limiter = limiter(algorithm, Quota::per_second(10).burst(0));
        let refused = limiter.check_at(1, YEAR);
        assert!(!refused.is_allowed());
        assert_eq!((refused.limit(), refused.remaining(), refused.retry_after()), (0, 0, None));
    }
}

/// P8: a clock may do anything, at any step, and nothing panics or is minted.
#[test]
fn clocks_at_the_ends_of_time() {
    let moments = [0, 1, u64::MAX, 0, 18 * YEAR, 7 * YEAR, u64::MAX - 1, 100 * YEAR, SECOND, 0];
    for algorithm in ALGORITHMS {
        for quota in
            [Quota::per_second(3), Quota::per_day(1), Quota::new(16, Duration::from_nanos(1))]
        {
            if Limiter::builder(quota).algorithm(algorithm).build().is_err() {
                continue;
            }
            let limiter = limiter(algorithm, quota);
            for now in moments {
                let burst = limiter.peek_at(1, now).limit();
                for _ in 0..3 {
                    let decision = limiter.check_at(burst, now);
                    let _ = (decision.retry_after(), decision.reset_after(), decision.delay());
                }
                assert!(!limiter.check_at(1, now).is_allowed(), "{algorithm:?} {quota} at {now}");
            }
        }
    }
}

/// A hundred years on, the limiter is as exact as on its first day.
#[test]
fn the_range_is_renewed_by_itself() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(algorithm, Quota::per_second(3));
        let keyed: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(3))
            .algorithm(algorithm)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        for year in 0..120 {
            let now = year * YEAR / SECOND * SECOND;
            let allowed = (0..5).filter(|_| limiter.check_at(1, now).is_allowed()).count();
            assert_eq!(allowed, 3, "{algorithm:?} in year {year}");
            for key in 0..100 {
                let allowed = (0..5).filter(|_| keyed.check_at(&key, 1, now).is_allowed()).count();
                assert_eq!(allowed, 3, "{algorithm:?} key {key} in year {year}");
            }
        }
    }
}

/// A debt outlives the renewal of the range.
#[test]
fn a_debt_is_carried_over_a_renewal() {
    let quota = Quota::new(1, Duration::from_nanos(YEAR)).burst(5);
    let keyed: KeyedLimiter<u64> =
        KeyedLimiter::builder(quota).clock(Clock::manual().0).build().unwrap();
    let limiter = limiter(Algorithm::TokenBucket, quota);
    let mut admitted = 0;
    for month in 0..12 * 40 {
        let now = month * (YEAR / 12);
        let one = limiter.check_at(1, now).is_allowed();
        assert_eq!(one, keyed.check_at(&7, 1, now).is_allowed());
        admitted += u64::from(one);
        assert!(admitted <= 5 + now / YEAR, "month {month}");
    }
    assert_eq!(admitted, 5 + 39);
}

#[test]
fn quotas_that_cannot_be_counted_say_what_would_fit() {
    let error = |quota: Quota, algorithm| {
        Limiter::builder(quota).algorithm(algorithm).build().map(drop).unwrap_err()
    };
    let zero = Quota::new(1, Duration::ZERO);
    let long = Quota::new(1, Duration::MAX);
    for algorithm in ALGORITHMS {
        for quota in [zero, long] {
            let expected = BuildError::Quota(QuotaError::Period { period: quota.period() });
            assert_eq!(error(quota, algorithm), expected);
        }
    }
    let fast = error(Quota::per_second(u64::MAX), Algorithm::TokenBucket);
    let limit_max = 16 * SECOND;
    assert_eq!(fast, BuildError::Quota(QuotaError::Rate { limit: u64::MAX, limit_max }));
    assert!(Limiter::new(Quota::per_second(limit_max).burst(1)).is_ok());

    let BuildError::Quota(QuotaError::Burst { burst, burst_max }) =
        error(Quota::per_day(1).burst(1_000_000), Algorithm::TokenBucket)
    else {
        panic!("another error")
    };
    assert_eq!(burst, 1_000_000);
    assert!(Limiter::new(Quota::per_day(1).burst(burst_max)).is_ok());
    assert!(Limiter::new(Quota::per_day(1).burst(burst_max + 1)).is_err());

    let five = |limit| Quota::new(limit, Duration::from_secs(5));
    let BuildError::Quota(QuotaError::Window { limit_max, .. }) =
        error(five(u64::MAX), Algorithm::FixedWindow)
    else {
        panic!("another error")
    };
    assert_eq!(limit_max, u64::from(u32::MAX));
    let _ = limiter(Algorithm::FixedWindow, five(limit_max));
    let _ = error(five(limit_max + 1), Algorithm::FixedWindow);
    // The refused quota leaves the one in force.
    let limiter = limiter(Algorithm::FixedWindow, five(7));
    assert!(limiter.set_quota_at(five(limit_max + 1), 0).is_err());
    assert_eq!(limiter.quota(), five(7));
}

#[test]
fn extremes_that_can_be_counted_are_counted_right() {
    // 4.29e9 tokens a second, ten years idle, and a nanosecond later 4.29 tokens.
    let quota = Quota::per_second(u64::from(u32::MAX));
    let limiter = limiter(Algorithm::TokenBucket, quota);
    let now = 10 * YEAR;
    assert!(limiter.check_at(u64::from(u32::MAX), now).is_allowed());
    assert_eq!(limiter.peek_at(1, now + 1).remaining(), 4);
}

#[test]
fn a_quota_per_call_is_for_gcra_alone() {
    let build = |algorithm| -> KeyedLimiter<str> {
        KeyedLimiter::builder(Quota::per_second(1)).algorithm(algorithm).build().unwrap()
    };
    let paid = Quota::per_second(100);
    let bucket = build(Algorithm::TokenBucket);
    let algorithm = Algorithm::TokenBucket;
    assert_eq!(bucket.check_with("key", 1, paid).err(), Some(QuotaError::PerCall { algorithm }));

    let gcra = build(Algorithm::Gcra);
    let allowed =
        |key, cost, quota, now| gcra.check_with_at(key, cost, quota, now).unwrap().is_allowed();
    assert!(allowed("paid", 100, paid, 0));
    assert!(!allowed("paid", 1, paid, 0));
    assert!(allowed("paid", 1, paid, SECOND / 100));
    assert!(!allowed("off", 1, Quota::per_second(0), 0), "a limit of 0 refuses");
    assert!(allowed("off", 0, Quota::per_second(0), 0));
    // Debts belong to no one quota now, so the limiter's own rate cannot change; its burst can.
    assert_eq!(gcra.set_quota_at(Quota::per_second(7), 0), Err(QuotaError::AskedPerCall));
    assert_eq!(gcra.set_quota_at(Quota::per_second(1).burst(9), 0), Ok(()));
}

#[test]
fn gcra_keeps_any_tolerance_to_the_nanosecond() {
    let quota = Quota::gcra(Duration::from_nanos(100), Duration::from_nanos(250));
    let limiter = limiter(Algorithm::Gcra, quota);
    // The theoretical arrival time is 300 after three calls, so the fourth may come at 50.
    assert!((0..3).all(|_| limiter.check_at(1, 0).is_allowed()));
    assert_eq!(limiter.check_at(1, 0).retry_after(), Some(Duration::from_nanos(50)));
    assert!(!limiter.check_at(1, 49).is_allowed());
    assert!(limiter.check_at(1, 50).is_allowed());
}

#[test]
fn keys_of_any_size() {
    let limiter: KeyedLimiter<[u8]> = KeyedLimiter::new(Quota::per_hour(1)).unwrap();
    let long = vec![7; 1 << 20];
    let longer = vec![7; (1 << 20) + 1];
    for key in [&[][..], &[0], &[0, 0], &long, &longer] {
        assert!(limiter.check(key).is_allowed(), "{} bytes", key.len());
        assert!(!limiter.check(key).is_allowed(), "{} bytes", key.len());
    }
    let text: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1)).unwrap();
    assert!(text.check("").is_allowed() && !text.check("").is_allowed());
}

#[test]
fn capacities_that_cannot_be_had() {
    let build = |capacity| {
        KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(capacity).build().map(drop)
    };
    assert_eq!(build(0), Err(BuildError::Capacity));
    assert_eq!(build(1), Ok(()));
    for capacity in [usize::MAX, 1 << 60, 1 << 40] {
        let Err(BuildError::Memory { bytes, .. }) = build(capacity) else {
            panic!("{capacity} keys")
        };
        assert!(bytes >= capacity as u128 * 40, "{bytes} for {capacity}");
    }
}

#[test]
fn a_batch_is_its_calls_in_order() {
    let build = || -> KeyedLimiter<u64> {
        KeyedLimiter::builder(Quota::per_hour(2)).seed(1).clock(Clock::manual().0).build().unwrap()
    };
    let keys: Vec<u64> = (0..200).map(|index| index * index % 37).collect();
    for length in [0, 1, 31, 32, 33, 64, 200] {
        let (batch, single) = (build(), build());
        let mut decisions = vec![Decision::default(); 150];
        let decided = batch.check_many(&keys[..length], &mut decisions);
        assert_eq!(decided, length.min(150));
        for (key, decision) in keys.iter().zip(&decisions[..decided]) {
            let expected = single.check(key);
            assert_eq!(decision.is_allowed(), expected.is_allowed());
            assert_eq!(decision.retry_after(), expected.retry_after());
        }
        assert!(decisions[decided..].iter().all(|untouched| untouched.limit() == 0));
    }
}

#[test]
fn a_coarse_clock_rounds_waits_up_to_its_ticks() {
    let tick = Duration::from_millis(2);
    let (clock, handle) = Clock::coarse(tick).unwrap();
    let limiter = Limiter::builder(Quota::per_second(300).burst(1)).clock(clock).build().unwrap();
    while limiter.check().is_allowed() {}
    let wait = limiter.check().retry_after().unwrap();
    assert!(!wait.is_zero() && wait.as_nanos().is_multiple_of(tick.as_nanos()), "{wait:?}");
    drop(handle);
    let before = limiter.now();
    while limiter.now() == before {}
}
