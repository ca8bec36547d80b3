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
    let mut refused = limiter.check();
    while refused.is_allowed() {
        refused = limiter.check();
    }
    let wait = refused.retry_after().unwrap();
    assert!(wait > tick && wait.as_nanos().is_multiple_of(tick.as_nanos()), "{wait:?}");
    drop(handle);
    let before = limiter.now();
    while limiter.now() == before {}
}

/// P7: a debt survives any number of changes, to rates a trillion times apart and back.
#[test]
fn flipping_the_quota_mints_nothing() {
    let slow = Quota::per_hour(1).burst(1);
    for fast in [3_000_000, 1_500_000_000, 12_500_000_000] {
        let fast = Quota::per_second(fast).burst(1);
        let limiter = limiter(Algorithm::TokenBucket, slow);
        assert!(limiter.check_at(1, 0).is_allowed());
        for now in 1..1_000 {
            // In force for no time at all.
            limiter.set_quota_at(fast, now).unwrap();
            limiter.set_quota_at(slow, now).unwrap();
            assert!(!limiter.check_at(1, now).is_allowed(), "{fast} at {now}");
        }
        // Each flip may cost a hundred-thousandth of a token, and no more.
        let wait = limiter.check_at(1, 1_000).retry_after().unwrap();
        assert!(wait <= Duration::from_secs(3_600), "{wait:?}");
    }
}

/// Changes between rates whose units divide each other lose nothing either.
#[test]
fn changes_to_multiples_are_exact() {
    let limiter = limiter(Algorithm::TokenBucket, Quota::per_second(1_000).burst(2));
    assert!(limiter.check_at(2, 0).is_allowed());
    for now in 1..1_000 {
        limiter.set_quota_at(Quota::per_hour(1).burst(2), now).unwrap();
        limiter.set_quota_at(Quota::per_second(1_000).burst(2), now).unwrap();
    }
    assert_eq!(limiter.check_at(2, 999).retry_after(), Some(Duration::from_nanos(1_999_001)));
}

#[test]
fn windows_from_a_day_to_the_longest() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        for years in [1, 9, 11, 100, 292, 584] {
            let quota = Quota::new(1, Duration::from_nanos(years * YEAR));
            let limiter = limiter(algorithm, quota);
            let admitted = |from: u64| {
                (from..from + 50).filter(|&now| limiter.check_at(1, now).is_allowed()).count()
            };
            assert_eq!(admitted(0), 1, "{algorithm:?}, {years} years");
            assert_eq!(admitted(years * YEAR - 100), 0, "{algorithm:?}, {years} years");
            limiter.set_quota_at(Quota::per_hour(1), years * YEAR - 10).unwrap();
            limiter.set_quota_at(quota, years * YEAR - 10).unwrap();
            assert_eq!(admitted(years * YEAR - 60), 0, "{algorithm:?}, {years} years");
        }
    }
}

/// Tokens that take more than nine years have no place in the word.
#[test]
fn rates_that_are_too_slow_are_refused() {
    let quota = Quota::new(1, Duration::from_nanos(10 * YEAR));
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let error = Limiter::builder(quota).algorithm(algorithm).build().map(drop).unwrap_err();
        let interval = Duration::from_nanos(10 * YEAR);
        assert_eq!(error, BuildError::Quota(QuotaError::Slow { interval }));
    }
}

/// A clock that is centuries behind where it was is refused, and the answers agree with that.
#[test]
fn centuries_back() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(algorithm, Quota::per_second(1));
        assert!(limiter.check_at(1, 500 * YEAR).is_allowed());
        let back = limiter.check_at(1, 0);
        assert!(!back.is_allowed() && back.remaining() == 0, "{algorithm:?}: {back:?}");
        let wait = back.retry_after();
        assert!(wait.is_none_or(|wait| wait > Duration::from_nanos(200 * YEAR)), "{algorithm:?}");
    }
}

/// The limiter's own quota refuses all, and tiers come with the calls.
#[test]
fn tiers_over_a_limit_of_zero() {
    let gcra: KeyedLimiter<str> =
        KeyedLimiter::builder(Quota::per_second(0)).algorithm(Algorithm::Gcra).build().unwrap();
    let tier = Quota::per_second(1).burst(1);
    for second in [0, 1, 2, 10 * YEAR / SECOND, 20 * YEAR / SECOND] {
        let now = second * SECOND;
        let check = || gcra.check_with_at("key", 1, tier, now).unwrap();
        assert!(check().is_allowed(), "second {second}");
        assert_eq!(check().retry_after(), Some(Duration::from_secs(1)), "second {second}");
    }
    assert!(!gcra.check_at("other", 1, 0).is_allowed());
    assert!(gcra.check_with("key", 1, Quota::new(1, Duration::ZERO)).is_err());
}

#[test]
fn a_quota_that_cannot_be_counted_does_not_count_as_asked() {
    let gcra: KeyedLimiter<str> =
        KeyedLimiter::builder(Quota::per_second(1)).algorithm(Algorithm::Gcra).build().unwrap();
    assert!(gcra.check_with("key", 1, Quota::new(1, Duration::ZERO)).is_err());
    assert_eq!(gcra.set_quota(Quota::per_second(7)), Ok(()));
}

/// The queue's delay is told before and after the call that it is for.
#[test]
fn a_peek_foresees_the_delay() {
    let limiter = limiter(Algorithm::LeakyBucket, Quota::per_second(10).burst(3));
    for expected in [0, 100, 200] {
        let foreseen = limiter.peek_at(1, 0).delay();
        assert_eq!(foreseen, limiter.check_at(1, 0).delay());
        assert_eq!(foreseen, Duration::from_millis(expected));
    }
}

/// The worked example: 100 a minute, 88 in the minute before, 12 in this one, a quarter into it.
#[test]
fn the_sliding_counter_weighs_the_window_before() {
    let limiter = limiter(Algorithm::SlidingWindowCounter, Quota::per_minute(100));
    assert!(limiter.check_at(88, 59 * SECOND).is_allowed());
    assert!(limiter.check_at(11, 75 * SECOND).is_allowed());
    // 88 * 3/4 + 12 = 78.
    let decision = limiter.check_at(1, 75 * SECOND);
    assert!(decision.is_allowed());
    assert_eq!(decision.remaining(), 100 - 78);
    assert_eq!(limiter.check_at(23, 75 * SECOND).retry_after(), {
        // One more of the 88 fades every 60/88 s.
        let fades = 60 * SECOND - 65 * 60 * SECOND / 88;
        Some(Duration::from_nanos(60 * SECOND + fades - 75 * SECOND))
    });
}

#[test]
fn logs_that_cannot_be_kept_say_what_would_fit() {
    let build = |limit, ring, cost, period| {
        let builder = Limiter::builder(Quota::new(limit, Duration::from_nanos(period)));
        let builder = builder.algorithm(Algorithm::SlidingWindowLog);
        builder.log_limit(ring).log_cost(cost).build().map(drop)
    };
    let error = |error| Err(BuildError::Quota(error));
    assert_eq!(build(11, 10, 1, SECOND), error(QuotaError::LogLimit { limit: 11, ring: 10 }));
    assert!(matches!(build(1, 1 << 21, 1, SECOND), Err(BuildError::Quota(QuotaError::Log { .. }))));
    assert!(matches!(build(1, 10, 11, SECOND), Err(BuildError::Quota(QuotaError::Log { .. }))));
    for period in [0, 16 * 1024 - 1, 2 * YEAR] {
        assert!(build(1, 10, 1, period).is_err(), "{period}");
    }
    assert_eq!(build(1, 10, 1, 16 * 1024), Ok(()));
    assert_eq!(build(0, 10, 1, SECOND), Ok(()));
    assert_eq!(build(10, 10, 10, YEAR), Ok(()));
}

/// Windows of a millisecond hold smaller counts than those of an hour: none is forgotten for it.
#[test]
fn flipping_the_window_mints_nothing() {
    let cases = [
        (Algorithm::FixedWindow, Quota::per_hour(10_000_000), 1_000),
        (Algorithm::SlidingWindowCounter, Quota::per_minute(100_000), 500),
    ];
    for (algorithm, long, limit) in cases {
        let short = Quota::new(limit, Duration::from_millis(1));
        let limiter = limiter(algorithm, long);
        assert!(limiter.check_at(long.limit(), 0).is_allowed());
        for _ in 0..10 {
            limiter.set_quota_at(short, 0).unwrap();
            assert!(!limiter.check_at(1, 0).is_allowed(), "{algorithm:?}");
            limiter.refund_at(limit, 0);
            assert!(!limiter.check_at(1, 0).is_allowed(), "{algorithm:?}");
            limiter.set_quota_at(long, 0).unwrap();
            assert!(!limiter.check_at(1, 0).is_allowed(), "{algorithm:?}");
        }
    }
}

/// Windows of a nanosecond hold no counts at all: what was idle before them is idle after.
#[test]
fn switching_windows_off_and_on_keeps_idle_keys_idle() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let limiter = limiter(algorithm, Quota::per_hour(10));
        let later = 100 * 3_600 * SECOND;
        limiter.set_quota_at(Quota::new(0, Duration::from_nanos(1)), later).unwrap();
        assert!(!limiter.check_at(1, later).is_allowed());
        limiter.set_quota_at(Quota::per_hour(10), later + SECOND).unwrap();
        assert_eq!(limiter.check_at(1, later + SECOND).remaining(), 9, "{algorithm:?}");
    }
}

/// A word that lies decades ahead of a clock that went back stays within its field.
#[test]
fn windows_far_ahead_are_translated() {
    let first = (315_576_000 * SECOND) >> 21;
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        for far in [7 * YEAR, 14 * YEAR, 28 * YEAR] {
            for second in [first / 10 * 13, first / 10 * 16, 315_576_000 * SECOND / ((1 << 21) - 1)]
            {
                let limiter = limiter(algorithm, Quota::new(5, Duration::from_nanos(first)));
                assert!(limiter.check_at(5, far).is_allowed());
                limiter.set_quota_at(Quota::new(5, Duration::from_nanos(second)), 0).unwrap();
                let _ = limiter.check_at(1, 0);
                let _ = limiter.check_at(1, far);
            }
        }
    }
}

#[test]
fn a_log_at_the_end_of_time() {
    for ring in [1, 2, 1_000] {
        let limiter = Limiter::builder(Quota::per_day(1))
            .algorithm(Algorithm::SlidingWindowLog)
            .log_limit(ring)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        for now in [u64::MAX, u64::MAX - 1, u64::MAX] {
            let admitted = (0..3).filter(|_| limiter.check_at(1, now).is_allowed()).count();
            assert!(admitted <= 1, "ring {ring} at {now}");
        }
    }
}

/// What comes back past the last moment of 64 bits never does: a log does not say "now" instead.
#[test]
fn a_log_whose_tokens_never_expire() {
    let limiter = limiter(Algorithm::SlidingWindowLog, Quota::per_minute(2));
    // The range is renewed at the end of time, and stands still there for a clock that goes back.
    assert!(limiter.check_at(1, u64::MAX - 1).is_allowed());
    let last = limiter.check_at(1, 0);
    assert_eq!((last.remaining(), last.reset_after()), (0, None));
    let refused = limiter.check_at(1, 0);
    assert!(!refused.is_allowed());
    assert_eq!((refused.retry_after(), refused.reset_after()), (None, None));
}

/// A key of the future is evicted by a slow clock: the new key does not take its stamps for its own.
#[test]
fn an_evicted_log_leaves_nothing_behind() {
    let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(2))
        .algorithm(Algorithm::SlidingWindowLog)
        .capacity(1)
        .clock(Clock::manual().0)
        .build()
        .unwrap();
    let late = 1_000 * SECOND;
    for key in 0..31 {
        assert!(limiter.check_at(&key, 1, late).is_allowed());
        assert!(limiter.check_at(&key, 1, late).is_allowed());
    }
    // By its own clock the bucket's keys are all in the future, so it waits for them.
    let refused = limiter.check_at(&200, 1, 10 * SECOND);
    assert!(!refused.is_allowed() && refused.reset_after() >= refused.retry_after());
    assert_eq!(limiter.check_at(&200, 1, late).remaining(), 1);
    assert!(limiter.check_at(&200, 1, late + SECOND / 10).is_allowed());
    assert!(!limiter.check_at(&200, 1, late + SECOND / 10).is_allowed());
}

/// Tokens that take days are cut as finely as the burst allows, even if more would be 64 bits of units:
/// a clock of 25 years is carried over a renewal to the nanosecond.
#[test]
fn slow_tokens_are_cut_finely() {
    let quota = |period, limit| Quota::new(limit, Duration::from_nanos(period));
    let limiter = limiter(Algorithm::TokenBucket, quota(720_576_821_384_126_208, 1_034).burst(0));
    limiter.set_quota_at(quota(72_057_594_137_927_731, 1_389), 0).unwrap();
    let decision = limiter.check_at(3, 792_915_009_394_070_015);
    assert_eq!(decision.reset_after(), Some(Duration::from_nanos(155_631_952_781_702)));
}

/// A policy that is switched off and on again keeps a debt to the unit.
#[test]
fn switching_off_and_on_keeps_the_debt() {
    let hourly = Quota::per_hour(1);
    let limiter = limiter(Algorithm::TokenBucket, hourly);
    assert!(limiter.check_at(1, 0).is_allowed());
    let now = 59 * 60 * SECOND;
    limiter.set_quota_at(Quota::per_hour(0).burst(1_000), now).unwrap();
    limiter.set_quota_at(hourly, now).unwrap();
    assert_eq!(limiter.check_at(1, now).retry_after(), Some(Duration::from_secs(60)));
}
