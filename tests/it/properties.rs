//! The engine against the reference, over random quotas, calls and clocks.
//!
//! 1. P1: on one thread every answer is the reference's, in all its parts.
//! 2. P2: after exactly `retry_after` the same call is admitted; a nanosecond earlier it is not.
//! 3. P6: a table that is too small to remember idle keys gives the same answers as one that
//!    remembers them all, while time does not go back.
//! 4. P6, P8: if time goes back, what it admits the reference would have admitted.
//! 5. P7: quotas change at any moment, and the answers stay the reference's.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, Overflow, Quota};

use crate::reference::{Answer, Reference};

pub const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindowCounter,
];

/// Random cases of each property: `PROPTEST_CASES` sets another number.
pub fn cases() -> u32 {
    let fallback = if cfg!(debug_assertions) { 100 } else { 1_000 };
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

/// What is done to a limiter.
#[derive(Clone, Debug)]
enum Step {
    Check { cost: u64 },
    Peek { cost: u64 },
    Refund { tokens: u64 },
    Reset,
    SetQuota(Quota),
}

/// Quotas that token buckets can count.
pub fn arb_bucket_quota() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![
        4 => 0_u64..12,
        2 => prop_oneof![Just(7), Just(60), Just(700), Just(997), Just(1_000_000)],
        1 => prop_oneof![Just(600_000_000), Just(4_294_967_295), Just(12_500_000_000)],
    ];
    let period = prop_oneof![
        3 => prop_oneof![Just(1_000_000_000_u64), Just(60_000_000_000), Just(3_600_000_000_000)],
        1 => 1_000_000_000..10_000_000_000_u64,
    ];
    let burst = prop_oneof![0_u64..4, 0_u64..100, Just(1_000_000)];
    (limit, period, burst).prop_map(|(limit, period, burst)| {
        Quota::new(limit, Duration::from_nanos(period)).burst(burst)
    })
}

/// Quotas that every algorithm can count: GCRA has no interval below a nanosecond, and a burst
/// must be earned back within nine years.
pub fn arb_quota() -> impl Strategy<Value = Quota> {
    arb_bucket_quota().prop_filter("within every algorithm's range", |quota| {
        ALGORITHMS
            .iter()
            .all(|&algorithm| Limiter::builder(*quota).algorithm(algorithm).build().is_ok())
    })
}

/// Quotas for a sliding log of up to 40, with windows of a second up.
pub fn arb_log_quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![
        3 => prop_oneof![Just(1_000_000_000_u64), Just(60_000_000_000), Just(3_600_000_000_000)],
        1 => 1_000_000_000..10_000_000_000_u64,
    ];
    (0..41_u64, period).prop_map(|(limit, period)| Quota::new(limit, Duration::from_nanos(period)))
}

/// Waits in nanoseconds and costs.
pub fn arb_steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let wait = prop_oneof![
        3 => Just(0_u64),
        3 => 0..10_u64,
        3 => 0..2_000_000_000_u64,
        1 => 0..20_000_000_000_000_u64,
    ];
    let cost = prop_oneof![6 => 1..4_u64, 1 => 0..120_u64, 1 => Just(u64::MAX)];
    prop::collection::vec((wait, cost), 1..60)
}

fn arb_step() -> impl Strategy<Value = Step> {
    arb_step_with(arb_quota())
}

fn arb_step_with(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Step> {
    let cost = prop_oneof![6 => 1..4_u64, 1 => 0..120_u64, 1 => Just(u64::MAX)];
    prop_oneof![
        10 => cost.clone().prop_map(|cost| Step::Check { cost }),
        2 => cost.clone().prop_map(|cost| Step::Peek { cost }),
        2 => cost.prop_map(|tokens| Step::Refund { tokens }),
        1 => Just(Step::Reset),
        2 => quota.prop_map(Step::SetQuota),
    ]
}

/// A step of the clock, forward and (if `back`) back, by little, much and years.
pub fn arb_move(back: bool) -> impl Strategy<Value = i64> {
    let forward = prop_oneof![
        4 => Just(0_i64),
        4 => 0..10_i64,
        6 => 0..2_000_000_000_i64,
        2 => 0..20_000_000_000_000_i64,
        1 => 0..1_000_000_000_000_000_000_i64,
    ];
    let backward = prop_oneof![0..10_i64, 0..5_000_000_000_i64, 0..4_000_000_000_000_i64];
    prop_oneof![4 => forward, u32::from(back) => backward.prop_map(|by| -by)]
}

pub fn moved(now: u64, by: i64) -> u64 {
    now.saturating_add_signed(by)
}

/// Both limiters, asked alike.
struct Pair {
    limiter: Limiter,
    reference: Reference,
}

impl Pair {
    fn new(algorithm: Algorithm, quota: Quota) -> Pair {
        let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
        Pair { limiter: builder.build().unwrap(), reference: Reference::new(algorithm, quota) }
    }

    /// Does a step on both and compares what they say.
    fn step(&mut self, step: &Step, now: u64) -> Result<(), TestCaseError> {
        let Pair { limiter, reference } = self;
        match *step {
            Step::Check { cost } => {
                let ours = Answer::from(&limiter.check_at(cost, now));
                prop_assert_eq!(ours, reference.check(cost, now), "check {} at {}", cost, now);
            }
            Step::Peek { cost } => {
                let ours = Answer::from(&limiter.peek_at(cost, now));
                let theirs = reference.peek(cost, now);
                // An admitted check tells its own departure; a peek has none to tell.
                prop_assert_eq!(
                    Answer { delay: 0, ..ours },
                    Answer { delay: 0, ..theirs },
                    "peek {} at {}",
                    cost,
                    now
                );
            }
            Step::Refund { tokens } => {
                limiter.refund_at(tokens, now);
                reference.refund(tokens, now);
            }
            Step::Reset => {
                limiter.reset();
                reference.reset();
            }
            Step::SetQuota(quota) => {
                limiter.set_quota_at(quota, now).unwrap();
                reference.set_quota(quota, now);
                prop_assert_eq!(limiter.quota(), quota);
            }
        }
        let ours = Answer::from(&limiter.peek_at(1, now));
        let theirs = reference.peek(1, now);
        prop_assert_eq!(
            Answer { delay: 0, ..ours },
            Answer { delay: 0, ..theirs },
            "after {:?} at {}",
            step,
            now
        );
        Ok(())
    }

    /// P2: the wait that a refusal names is exact.
    fn keep_the_promised_wait(&self, cost: u64, now: u64) -> Result<(), TestCaseError> {
        let refused = self.limiter.peek_at(cost, now);
        let Some(wait) = refused.retry_after() else {
            let later = self.limiter.peek_at(cost, now.saturating_add(1 << 40));
            prop_assert!(!later.is_allowed(), "never is never");
            return Ok(());
        };
        let due = now.saturating_add(wait.as_nanos() as u64);
        prop_assert!(self.limiter.peek_at(cost, due).is_allowed(), "after {:?}", wait);
        if !wait.is_zero() {
            prop_assert!(!self.limiter.peek_at(cost, due - 1).is_allowed(), "before {:?}", wait);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// 1, 5.
    #[test]
    fn one_state_answers_as_the_reference(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        quota in arb_quota(),
        steps in prop::collection::vec((arb_move(true), arb_step()), 1..80),
    ) {
        let mut pair = Pair::new(algorithm, quota);
        let mut now = 0;
        for (by, step) in steps {
            now = moved(now, by);
            pair.step(&step, now)?;
        }
    }

    /// 1, 2, 5 for the log, whose ring is longer than most limits, at costs of up to four.
    #[test]
    fn a_log_answers_as_the_reference(
        quota in arb_log_quota(),
        cost_max in 1..5_u64,
        steps in prop::collection::vec(
            (arb_move(true), arb_step_with(arb_log_quota())), 1..200
        ),
    ) {
        let builder = Limiter::builder(quota).algorithm(Algorithm::SlidingWindowLog);
        let limiter =
            builder.log_limit(40).log_cost(cost_max).clock(Clock::manual().0).build().unwrap();
        let mut pair = Pair { limiter, reference: Reference::log(quota, 40, cost_max) };
        let mut now = 0;
        for (by, step) in steps {
            now = moved(now, by);
            pair.step(&step, now)?;
            if by >= 0 {
                pair.keep_the_promised_wait(1, now)?;
            }
        }
    }

    /// 3, 4 for the log.
    #[test]
    fn forgotten_logs_change_no_answer(
        quota in arb_log_quota(),
        seed in any::<u64>(),
        back in any::<bool>(),
        steps in prop::collection::vec((arb_move(true), 0..60_u16, 1..4_u64), 1..300),
    ) {
        let limiter: KeyedLimiter<u16> = KeyedLimiter::builder(quota)
            .algorithm(Algorithm::SlidingWindowLog)
            .log_limit(40)
            .log_cost(3)
            .capacity(12)
            .overflow(Overflow::Refuse)
            .seed(seed)
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        let mut references = vec![Reference::log(quota, 40, 3); 60];
        let mut now = 0;
        for (by, key, cost) in steps {
            now = moved(now, if back { by } else { by.max(0) });
            references.iter_mut().for_each(|reference| reference.renew(now));
            let decision = limiter.check_at(&key, cost, now);
            if decision.is_full() {
                return Ok(());
            }
            let reference = &mut references[usize::from(key)];
            if !back {
                prop_assert_eq!(Answer::from(&decision), reference.check(cost, now));
            } else if decision.is_allowed() {
                prop_assert!(reference.check(cost, now).allowed, "key {} at {}", key, now);
            }
        }
    }

    /// 2.
    #[test]
    fn the_wait_is_a_promise(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        quota in arb_quota(),
        steps in prop::collection::vec((arb_move(false), 1..5_u64), 1..40),
    ) {
        let mut pair = Pair::new(algorithm, quota);
        let mut now = 0;
        for (by, cost) in steps {
            now = moved(now, by);
            pair.step(&Step::Check { cost }, now)?;
            pair.keep_the_promised_wait(cost, now)?;
        }
    }

    /// 1 for calls that bring a quota, between those that do not.
    #[test]
    fn a_quota_per_call_answers_as_the_reference(
        quotas in prop::collection::vec(arb_quota(), 1..5),
        steps in prop::collection::vec((arb_move(true), 0..8_usize, 1..5_u64), 1..60),
    ) {
        let own = quotas[0];
        // Under a limit of 0 the limiter's own time stands still, and that of the calls does not.
        prop_assume!(own.limit() > 0);
        let limiter: KeyedLimiter<u16> = small_table(Algorithm::Gcra, own, 0);
        let mut reference = Reference::new(Algorithm::Gcra, own);
        let mut now = 0;
        for (by, quota, cost) in steps {
            now = moved(now, by);
            let (ours, theirs) = match quotas.get(quota) {
                Some(&quota) => (
                    limiter.check_with_at(&7, cost, quota, now).unwrap(),
                    reference.check_with(cost, quota, now),
                ),
                None => (limiter.check_at(&7, cost, now), reference.check(cost, now)),
            };
            prop_assert_eq!(Answer::from(&ours), theirs, "check {} at {}", cost, now);
        }
    }

    /// 3, 5: a bucket of 31 cells for 60 keys.
    #[test]
    fn forgetting_idle_keys_changes_no_answer(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        quota in arb_quota(),
        seed in any::<u64>(),
        steps in prop::collection::vec((arb_move(false), 0..60_u16, arb_step()), 1..150),
    ) {
        let limiter: KeyedLimiter<u16> = small_table(algorithm, quota, seed);
        // One for each key: they all live through every change.
        let mut references = vec![Reference::new(algorithm, quota); 60];
        let mut now = 0;
        for (by, key, step) in steps {
            now = moved(now, by);
            if !matches!(step, Step::SetQuota(_) | Step::Reset) {
                // The range is every key's, and a decision renews it.
                references.iter_mut().for_each(|reference| reference.renew(now));
            }
            let reference = &mut references[usize::from(key)];
            match step {
                Step::Check { cost } => {
                    let decision = limiter.check_at(&key, cost, now);
                    if decision.is_full() {
                        return Ok(());
                    }
                    prop_assert_eq!(Answer::from(&decision), reference.check(cost, now));
                }
                Step::Peek { cost } => {
                    let foreseen = limiter.peek_at(&key, cost, now);
                    if foreseen.is_full() {
                        return Ok(());
                    }
                    let (ours, theirs) = (Answer::from(&foreseen), reference.peek(cost, now));
                    prop_assert_eq!(Answer { delay: 0, ..ours }, Answer { delay: 0, ..theirs });
                }
                Step::Refund { tokens } => {
                    limiter.refund_at(&key, tokens, now);
                    reference.refund(tokens, now);
                }
                Step::Reset => {
                    limiter.reset(&key);
                    reference.reset();
                }
                Step::SetQuota(quota) => {
                    limiter.set_quota_at(quota, now).unwrap();
                    references.iter_mut().for_each(|one| one.set_quota(quota, now));
                }
            }
        }
    }

    /// 4.
    #[test]
    fn a_clock_that_goes_back_mints_nothing(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        quota in arb_quota(),
        seed in any::<u64>(),
        steps in prop::collection::vec((arb_move(true), 0..80_u16, 1..4_u64), 1..400),
    ) {
        let limiter: KeyedLimiter<u16> = small_table(algorithm, quota, seed);
        let mut references = HashMap::new();
        let mut now = 0;
        for (by, key, cost) in steps {
            now = moved(now, by).min(1 << 56);
            let decision = limiter.check_at(&key, cost, now);
            if decision.is_allowed() && limiter.stats().evicted == 0 {
                let reference = references.entry(key).or_insert(Reference::new(algorithm, quota));
                prop_assert!(reference.check(cost, now).allowed, "key {} at {}", key, now);
            }
        }
    }
}

/// One bucket, so that keys compete for cells; full means refused, so that nothing is forgiven.
fn small_table(algorithm: Algorithm, quota: Quota, seed: u64) -> KeyedLimiter<u16> {
    KeyedLimiter::builder(quota)
        .algorithm(algorithm)
        .capacity(12)
        .overflow(Overflow::Refuse)
        .seed(seed)
        .clock(Clock::manual().0)
        .build()
        .unwrap()
}
