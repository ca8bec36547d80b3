//! Permits: what is kept of what was reserved is within the quota in every interval, however many are
//! out and in whichever order they are settled; and nothing is settled twice, or with a stranger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, BuildError, Clock, KeyedLimiter, Limiter, Overflow, Permit, Permits, Quota,
    ReserveError, SettleError, check_all_at,
};

use crate::properties::cases;

/// A token is earned back in so many nanoseconds.
const INTERVAL: u64 = 1_000;

fn quota(burst: u64) -> Quota {
    Quota::per_second(1_000_000_000 / INTERVAL).burst(burst)
}

fn keyed(quota: Quota, permits: Permits) -> KeyedLimiter<u8> {
    let builder = KeyedLimiter::builder(quota).clock(Clock::manual().0);
    builder.permits(permits).build().unwrap()
}

fn single(quota: Quota, permits: Permits) -> Limiter {
    Limiter::builder(quota).clock(Clock::manual().0).permits(permits).build().unwrap()
}

/// What a key has kept: when, and how many tokens.
#[derive(Default)]
struct Kept(Vec<(u64, u64)>);

impl Kept {
    /// The most tokens beyond what an interval has earned, over all intervals.
    fn most(&self) -> u64 {
        let mut events = self.0.clone();
        events.sort_unstable();
        let mut most = 0;
        for from in 0..events.len() {
            let mut sum = 0;
            for &(at, tokens) in &events[from..] {
                sum += tokens * INTERVAL;
                most = most.max(sum.saturating_sub(at - events[from].0));
            }
        }
        most.div_ceil(INTERVAL)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    Reserve(u64),
    /// The permit at this place, at this share of its estimate.
    Settle(prop::sample::Index, u64),
}

fn arb_step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        2 => (1..4_u64).prop_map(Step::Check),
        4 => (1..6_u64).prop_map(Step::Reserve),
        4 => (any::<prop::sample::Index>(), 0..9_u64).prop_map(|(at, to)| Step::Settle(at, to)),
    ];
    (prop_oneof![2 => Just(0), 2 => 0..3_000_u64, 1 => Just(INTERVAL)], step)
}

/// Runs the steps, and returns what was kept.
fn run<'a>(
    steps: &[(u64, Step)],
    check: impl Fn(u64, u64) -> bool,
    reserve: impl Fn(u64, u64) -> Result<Permit<'a>, ReserveError>,
) -> Kept {
    let (mut now, mut kept) = (0, Kept::default());
    let mut out: Vec<(u64, Permit<'_>)> = Vec::new();
    for (wait, step) in steps {
        now += wait;
        match step {
            Step::Check(cost) if check(*cost, now) => kept.0.push((now, *cost)),
            Step::Reserve(estimate) => {
                out.extend(reserve(*estimate, now).ok().map(|permit| (now, permit)));
            }
            Step::Settle(at, actual) if !out.is_empty() => {
                let (since, permit) = out.swap_remove(at.index(out.len()));
                let estimate = permit.estimate();
                let unpaid = permit.commit_at(*actual, now);
                kept.0.push((since, estimate.min(*actual)));
                kept.0.push((now, actual.saturating_sub(estimate) - unpaid));
            }
            _ => {}
        }
    }
    for (since, permit) in out {
        kept.0.push((since, permit.estimate()));
        permit.keep();
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases() * 4))]

    /// P1 for what is kept, with debts that are bounded and such that are not.
    #[test]
    fn what_is_kept_is_within_the_quota_in_every_interval(
        algorithm in prop_oneof![Just(Algorithm::TokenBucket), Just(Algorithm::Gcra)],
        burst in 1..9_u64,
        debt in 0..4_u64,
        steps in prop::collection::vec(arb_step(), 1..80),
    ) {
        let permits = Permits::new().debt(debt);
        let builder = Limiter::builder(quota(burst)).algorithm(algorithm).permits(permits);
        let one = builder.clock(Clock::manual().0).build().unwrap();
        let kept = run(
            &steps,
            |cost, now| one.check_at(cost, now).is_allowed(),
            |estimate, now| one.reserve_at(estimate, now),
        );
        prop_assert!(kept.most() <= burst + debt, "{} of {} kept", kept.most(), burst + debt);

        let builder = KeyedLimiter::<u8>::builder(quota(burst)).algorithm(algorithm);
        let many = builder.permits(permits).clock(Clock::manual().0).build().unwrap();
        let of_key = run(
            &steps,
            |cost, now| many.check_at(&7, cost, now).is_allowed(),
            |estimate, now| many.reserve_at(&7, estimate, now),
        );
        prop_assert_eq!(of_key.0, kept.0, "a key is as the one state");
    }

    /// One permit at a time leaves nothing behind; or, if somebody calls meanwhile, at most what is earned
    /// from that call to the end: it went to the permit first.
    #[test]
    fn one_permit_that_is_cancelled_is_nearly_as_if_it_had_not_been(
        estimate in 1..6_u64,
        before in 0..4_u64,
        waits in prop::array::uniform3(0..4_000_u64),
        between in 0..3_u64,
    ) {
        let (with, without) = (single(quota(9), Permits::new()), single(quota(9), Permits::new()));
        let (at, then, end) = (waits[0], waits[0] + waits[1], waits[0] + waits[1] + waits[2]);
        for limiter in [&with, &without] {
            let _ = limiter.check_at(before, 0);
        }
        let permit = with.reserve_at(estimate, at).unwrap();
        // What is admitted beside the permit is admitted without it.
        if with.check_at(between, then).is_allowed() {
            prop_assert!(without.check_at(between, then).is_allowed());
        }
        permit.commit_at(0, end);
        let lost = if between > 0 { end - then } else { 0 };
        for cost in 1..10 {
            let wait = |limiter: &Limiter, now| limiter.peek_at(cost, now).retry_after();
            let exact = wait(&without, end);
            prop_assert!(wait(&with, end) >= exact);
            prop_assert!(wait(&with, end + lost) <= exact);
        }
    }

    /// A window counts what was kept in it, exactly; what was reserved in one that is over stays there.
    #[test]
    fn windows_are_exact(
        algorithm in prop_oneof![
            Just(Algorithm::FixedWindow),
            Just(Algorithm::SlidingWindowCounter),
        ],
        steps in prop::collection::vec(arb_step(), 1..60),
    ) {
        let quota = Quota::new(9, Duration::from_micros(10));
        let builder = KeyedLimiter::<u8>::builder(quota).algorithm(algorithm);
        let builder = builder.clock(Clock::manual().0).origin(Duration::ZERO);
        let limiter = builder.permits(Permits::new()).build().unwrap();
        let kept = run(
            &steps,
            |cost, now| limiter.check_at(&7, cost, now).is_allowed(),
            |estimate, now| limiter.reserve_at(&7, estimate, now),
        );
        let mut windows = std::collections::HashMap::<u64, u64>::new();
        for (at, tokens) in kept.0 {
            *windows.entry(at / 10_000).or_default() += tokens;
        }
        prop_assert!(windows.values().all(|&tokens| tokens <= 9), "{:?}", windows);
    }
}

/// Many that are out together, and given back in the order in which each finds the most: the attack
/// for which the rule was chosen.
#[test]
fn permits_that_are_given_back_out_of_order_store_no_tokens() {
    let limiter = single(quota(3), Permits::new());
    let mut kept = Kept::default();
    let first = limiter.reserve_at(1, 0).unwrap();
    let second = limiter.reserve_at(2, 0).unwrap();
    first.commit_at(0, 0);
    let now = INTERVAL;
    let third = limiter.reserve_at(2, now);
    second.commit_at(0, now);
    let now = 2 * INTERVAL;
    kept.0.extend((0..9).filter(|_| limiter.check_at(1, now).is_allowed()).map(|_| (now, 1)));
    third.into_iter().for_each(|third| assert_eq!(third.commit_at(0, now), 0));
    kept.0.extend((0..9).filter(|_| limiter.check_at(1, now).is_allowed()).map(|_| (now, 1)));
    assert!((2..=3).contains(&kept.most()), "{}", kept.most());
}

#[test]
fn a_burst_that_is_larger_than_what_is_out_comes_back_whole() {
    let limiter = keyed(quota(1_000), Permits::new());
    for round in 0..100 {
        let permits: Vec<_> = (0..10).map(|_| limiter.reserve_at(&1, 10, round).unwrap()).collect();
        for permit in permits {
            permit.commit_at(0, round);
        }
    }
    assert_eq!(limiter.peek_at(&1, 1, 99).remaining(), 1_000);
}

#[test]
fn what_is_dropped_comes_back_or_stays_as_the_limiter_was_built() {
    let (gives, keeps) = (Permits::new(), Permits::new().keep_dropped());
    for (permits, left) in [(gives, 9), (keeps, 5)] {
        let limiter = keyed(quota(9), permits);
        drop(limiter.reserve(&1, 4).unwrap());
        assert_eq!(limiter.peek(&1).remaining(), left);
        // A panic in the work drops it, too.
        let permit = limiter.reserve(&2, 4).unwrap();
        let work = thread::scope(|scope| {
            let work = scope.spawn(move || {
                let _held = permit;
                std::panic::resume_unwind(Box::new("the work has failed"));
            });
            work.join()
        });
        assert!(work.is_err());
        assert_eq!(limiter.peek(&2).remaining(), left);
        core::mem::forget(limiter.reserve(&3, 4).unwrap());
        assert_eq!(limiter.peek(&3).remaining(), 5, "who forgets keeps");
    }
}

#[test]
fn nothing_comes_back_into_another_life() {
    let limiter = keyed(quota(9), Permits::new());
    // A reset has given it back already.
    let permit = limiter.reserve_at(&1, 4, 0).unwrap();
    limiter.reset_at(&1, 0);
    assert!(limiter.check_at(&1, 9, 0).is_allowed());
    permit.commit_at(0, 0);
    assert_eq!(limiter.peek_at(&1, 1, 0).remaining(), 0);
    // Other units.
    let permit = limiter.reserve_at(&2, 4, 0).unwrap();
    limiter.set_quota_at(Quota::per_second(3).burst(9), 0).unwrap();
    let left = limiter.peek_at(&2, 1, 0).remaining();
    permit.commit_at(0, 0);
    assert_eq!(limiter.peek_at(&2, 1, 0).remaining(), left);
    // The same units: it does.
    let permit = limiter.reserve_at(&3, 4, 0).unwrap();
    limiter.set_quota_at(Quota::per_second(3).burst(20), 0).unwrap();
    permit.commit_at(0, 0);
    assert_eq!(limiter.peek_at(&3, 1, 0).remaining(), 20);
}

/// In a table of one bucket the key of a permit is evicted, and its cell is another key's.
#[test]
fn nothing_comes_back_onto_another_key() {
    let builder = KeyedLimiter::<u32>::builder(Quota::per_hour(5)).capacity(1);
    let limiter = builder.clock(Clock::manual().0).permits(Permits::new()).build().unwrap();
    let permits: Vec<_> = (0..31).map(|key| limiter.reserve_at(&key, 1, 0).unwrap()).collect();
    for key in 31..62 {
        assert!(limiter.check_at(&key, 5, 0).is_allowed());
    }
    assert_eq!(limiter.stats().evicted, 31);
    permits.into_iter().for_each(Permit::cancel);
    for key in 31..62 {
        assert_eq!(limiter.peek_at(&key, 1, 0).remaining(), 0, "key {key}");
    }
    // A cost beyond the estimate is charged to a key that was forgotten, too.
    let permit = limiter.reserve_at(&99, 5, 0).unwrap();
    for key in 100..140 {
        let _ = limiter.check_at(&key, 5, 0);
    }
    assert_eq!(limiter.peek_at(&99, 1, 0).remaining(), 5, "it was forgotten");
    assert_eq!(permit.commit_at(7, 0), 0);
    assert_eq!(limiter.peek_at(&99, 1, 0).remaining(), 3);
}

#[test]
fn a_cost_beyond_the_estimate_is_a_debt_up_to_its_bound() {
    let limiter = keyed(quota(9), Permits::new().debt(3));
    assert_eq!(limiter.reserve_at(&1, 9, 0).unwrap().commit_at(20, 0), 8);
    assert_eq!(limiter.stats().unpaid, 8);
    let wait = limiter.peek_at(&1, 1, 0).retry_after();
    assert_eq!(wait, Some(Duration::from_nanos(4 * INTERVAL)));
    // Without a bound all is charged, to nine years.
    let limiter = single(quota(9), Permits::new());
    assert_eq!(limiter.reserve_at(9, 0).unwrap().commit_at(1_009, 0), 0);
    let wait = limiter.peek_at(1, 0).retry_after();
    assert_eq!(wait, Some(Duration::from_nanos(1_001 * INTERVAL)));
    assert!(limiter.reserve_at(0, 0).unwrap().commit_at(u64::MAX, 0) > 0);
    assert!(!limiter.check_at(1, 250_000_000_000_000_000).is_allowed());
    // Windows have none.
    let builder = Limiter::builder(Quota::per_hour(9)).algorithm(Algorithm::FixedWindow);
    let builder = builder.permits(Permits::new()).clock(Clock::manual().0);
    let limiter = builder.origin(Duration::ZERO).build().unwrap();
    assert_eq!(limiter.reserve_at(4, 0).unwrap().commit_at(20, 0), 11);
    assert_eq!(limiter.peek_at(1, 0).remaining(), 0);
}

/// A line, a ban and a debt are not shortened.
#[test]
fn nothing_comes_back_while_the_key_owes_more_than_its_burst() {
    let limiter = single(quota(1), Permits::new());
    let permit = limiter.reserve_at(1, 0).unwrap();
    let mut turn = limiter.line_up_at(1, Duration::from_secs(1), 0).unwrap();
    permit.commit_at(0, 0);
    assert!(!limiter.check_at(1, INTERVAL).is_allowed());
    assert_eq!(turn.remaining_at(INTERVAL), Ok(None));
    assert!(!limiter.check_at(1, 2 * INTERVAL - 1).is_allowed());

    let limiter = single(quota(5), Permits::new());
    let permit = limiter.reserve_at(5, 0).unwrap();
    limiter.ban_at(1_000_000, 0).unwrap();
    permit.commit_at(0, 0);
    assert!(!limiter.check_at(1, 1_000_999).is_allowed());
}

#[test]
fn a_detached_permit_is_settled_once_and_by_its_limiter_alone() {
    let (limiter, other) = (keyed(quota(50), Permits::new()), keyed(quota(50), Permits::new()));
    let permit = Arc::new(limiter.reserve_at(&1, 40, 0).unwrap().detach());
    assert_eq!(other.commit_at(&permit, 0, 0), Err(SettleError::OtherLimiter));
    let settled = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let told = limiter.commit_at(&permit, 10, 0);
                assert!(matches!(told, Ok(0) | Err(SettleError::AlreadySettled)));
                settled.fetch_add(u64::from(told.is_ok()), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(settled.into_inner(), 1);
    assert_eq!(limiter.peek_at(&1, 1, 0).remaining(), 40);
    // One that nobody settles keeps what it has charged, and a limiter of one state is told apart.
    drop(limiter.reserve_at(&2, 40, 0).unwrap().detach());
    assert_eq!(limiter.peek_at(&2, 1, 0).remaining(), 10);
    let state = single(quota(50), Permits::new());
    assert_eq!(state.commit_at(&permit, 0, 0), Err(SettleError::OtherLimiter));
    let of_state = state.reserve_at(40, 0).unwrap().detach();
    assert_eq!(limiter.commit_at(&of_state, 0, 0), Err(SettleError::OtherLimiter));
    assert_eq!(state.commit_at(&of_state, 0, 0), Ok(0));
    assert_eq!(state.peek_at(1, 0).remaining(), 50);
}

#[test]
fn what_cannot_be_given_back_is_said_when_it_is_built() {
    for algorithm in Algorithm::ALL {
        let builder = KeyedLimiter::<u8>::builder(Quota::per_second(5)).algorithm(algorithm);
        let built = builder.permits(Permits::new()).build();
        let is_final = matches!(algorithm, Algorithm::LeakyBucket | Algorithm::SlidingWindowLog);
        match built {
            Ok(_) => assert!(!is_final),
            Err(error) => assert_eq!(error, BuildError::Permits { algorithm }),
        }
    }
    let without = Limiter::new(quota(5)).unwrap();
    assert!(matches!(without.reserve(1), Err(ReserveError::WithoutPermits)));
    assert_eq!(without.stats().admitted, 0);
}

/// A full table that admits without a cell gives permits that hold nothing; one that refuses, none.
#[test]
fn a_full_table_gives_permits_that_hold_nothing_or_none() {
    for (overflow, admits) in [(Overflow::Admit, true), (Overflow::Refuse, false)] {
        let builder = KeyedLimiter::<u32>::builder(Quota::per_hour(5)).capacity(1);
        let builder = builder.overflow(overflow).clock(Clock::manual().0);
        let limiter = builder.permits(Permits::new()).build().unwrap();
        for key in 0..31 {
            assert!(limiter.check_at(&key, 1, 0).is_allowed());
        }
        match limiter.reserve_at(&99, 2, 0) {
            Ok(permit) => {
                assert!(admits);
                // There is nobody to charge.
                assert_eq!(permit.commit_at(7, 0), 5);
            }
            Err(ReserveError::Refused(answer)) => assert!(!admits && answer.is_full()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Of several limits those with permits are settled, each once, and only if all have admitted.
#[test]
fn a_call_to_several_limits_has_a_permit_of_each() {
    let hour = || Quota::per_hour(10);
    let (requests, tokens) = (keyed(hour(), Permits::new()), single(hour(), Permits::new()));
    let plain = Limiter::builder(hour()).clock(Clock::manual().0).build().unwrap();
    let mut asks = [requests.ask(&1, 2), tokens.ask(6), plain.ask(1)];
    assert!(check_all_at(&mut asks, 0).is_allowed());
    let permits: Vec<_> = asks.iter_mut().map(tollgate::Ask::take_permit).collect();
    assert!(asks.iter_mut().all(|ask| ask.take_permit().is_none()), "each has one");
    let left = || (requests.peek_at(&1, 1, 0).remaining(), tokens.peek_at(1, 0).remaining());
    assert_eq!(left(), (8, 4));
    let estimates: Vec<_> =
        permits.iter().map(|permit| permit.as_ref().map(Permit::estimate)).collect();
    assert_eq!(estimates, [Some(2), Some(6), None]);
    permits.into_iter().flatten().for_each(|permit| assert_eq!(permit.commit_at(1, 0), 0));
    assert_eq!(left(), (9, 9));
    // A refused call has none, nor one whose charges were made and not taken.
    let mut asks = [requests.ask(&1, 2), tokens.ask(10)];
    assert!(!check_all_at(&mut asks, 0).is_allowed());
    assert!(asks.iter_mut().all(|ask| ask.take_permit().is_none()));
    let mut asks = [requests.ask(&1, 2), requests.ask(&1, 3)];
    assert!(check_all_at(&mut asks, 0).is_allowed());
    assert_eq!(asks[0].take_permit().map(|permit| permit.commit_at(0, 0)), Some(0));
    assert!(asks[1].take_permit().is_none(), "the first has that of both");
    assert_eq!(left(), (9, 9));
}

/// P1 under threads, at one moment: no more is kept than the burst, and what is left is the rest.
#[test]
fn threads_that_settle_keep_what_they_have_kept() {
    const BURST: u64 = 1_000;
    let limiter = keyed(quota(BURST), Permits::new());
    let kept = AtomicU64::new(0);
    let rounds = if cfg!(miri) { 8 } else { 2_000 };
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (limiter, kept) = (&limiter, &kept);
            scope.spawn(move || {
                let mut out = Vec::new();
                for round in 0..rounds {
                    out.extend(limiter.reserve_at(&1, 1 + (thread + round) % 5, 0).ok());
                    if out.len() > 3 {
                        let permit = out.swap_remove((round % 4) as usize);
                        let actual = permit.estimate() * u64::from(round % 16 == 0);
                        kept.fetch_add(actual, Ordering::Relaxed);
                        permit.commit_at(actual, 0);
                    }
                }
                out.into_iter().for_each(|permit| assert_eq!(permit.commit_at(0, 0), 0));
            });
        }
    });
    let kept = kept.into_inner();
    let left = limiter.peek_at(&1, 1, 0).remaining();
    assert!(kept + left <= BURST, "{kept} kept, {left} left");
    assert!(kept > 0);
}

#[test]
fn what_permits_take_of_memory_is_counted() {
    let (without, with) = (Limiter::new(quota(1)).unwrap(), single(quota(1), Permits::new()));
    assert!(with.memory() >= without.memory() + 16);
}
