//! Debts, penalties and bans against a bucket that is counted by hand.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, DebtError, KeyedLimiter, Limiter, Overflow, Permits, Quota};

use crate::properties::cases;

/// A token is earned back in so many nanoseconds.
const INTERVAL: u64 = 1_000;
const BURST: u64 = 5;

/// A bucket in nanoseconds: what is owed, as the moment at which it is earned back.
#[derive(Default)]
struct Bucket {
    paid_at: u64,
}

impl Bucket {
    fn owed(&self, now: u64) -> u64 {
        self.paid_at.saturating_sub(now)
    }

    fn check(&mut self, cost: u64, burst: u64, now: u64) -> bool {
        let after = self.owed(now) + cost * INTERVAL;
        let admitted = after <= burst * INTERVAL;
        if admitted && cost > 0 {
            self.paid_at = now + after;
        }
        admitted || cost == 0
    }

    fn retry_after(&self, cost: u64, burst: u64, now: u64) -> Option<u64> {
        let spare = burst.checked_sub(cost)? * INTERVAL;
        Some(self.owed(now).saturating_sub(spare))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    InDebt(u64, u64),
    Penalize(u64),
    Refund(u64),
    Ban(u64),
}

fn arb_step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        4 => (0..7_u64).prop_map(Step::Check),
        3 => (0..12_u64, 0..9_u64).prop_map(|(cost, debt)| Step::InDebt(cost, debt)),
        1 => (0..9_u64).prop_map(Step::Penalize),
        1 => (0..4_u64).prop_map(Step::Refund),
        1 => (0..9_000_u64).prop_map(Step::Ban),
    ];
    (prop_oneof![2 => Just(0), 3 => 0..3_000_u64], step)
}

fn limiters(algorithm: Algorithm) -> (Limiter, KeyedLimiter<u8>) {
    let quota = Quota::per_second(1_000_000_000 / INTERVAL).burst(BURST);
    let clock = || Clock::manual().0;
    let one = Limiter::builder(quota).algorithm(algorithm).clock(clock()).build();
    let many = KeyedLimiter::builder(quota).algorithm(algorithm).clock(clock()).build();
    (one.unwrap(), many.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Every answer is that of the bucket counted by hand; a refund takes nothing from what is owed
    /// beyond the burst; and a ban refuses to its last nanosecond, whatever is given back.
    #[test]
    fn debts_penalties_and_bans_are_counted_as_by_hand(
        algorithm in prop_oneof![Just(Algorithm::TokenBucket), Just(Algorithm::Gcra)],
        steps in prop::collection::vec(arb_step(), 1..60),
    ) {
        let (one, many) = limiters(algorithm);
        let mut bucket = Bucket::default();
        let (mut now, mut banned_until) = (0, 0);
        // The rule for refunds holds from the first debt on.
        one.ban_at(0, 0).unwrap();
        many.ban_at(&7, 0, 0).unwrap();
        for (wait, step) in steps {
            now += wait;
            match step {
                Step::Check(cost) => {
                    let decision = one.check_at(cost, now);
                    prop_assert_eq!(many.check_at(&7, cost, now).is_allowed(), decision.is_allowed());
                    prop_assert!(cost == 0 || now >= banned_until || !decision.is_allowed());
                    let admitted = bucket.check(cost, BURST, now);
                    prop_assert_eq!(decision.is_allowed(), admitted);
                    let left = (BURST * INTERVAL).saturating_sub(bucket.owed(now)) / INTERVAL;
                    prop_assert_eq!(decision.remaining(), left);
                    if !admitted {
                        let wait = decision.retry_after().map(|wait| wait.as_nanos() as u64);
                        prop_assert_eq!(wait, bucket.retry_after(cost, BURST, now));
                    }
                }
                Step::InDebt(cost, debt) => {
                    let decision = one.check_in_debt_at(cost, debt, now).unwrap();
                    let other = many.check_in_debt_at(&7, cost, debt, now).unwrap();
                    prop_assert_eq!(other.is_allowed(), decision.is_allowed());
                    let admitted = bucket.check(cost, BURST + debt, now);
                    prop_assert_eq!(decision.is_allowed(), admitted);
                    if !admitted {
                        let wait = decision.retry_after().map(|wait| wait.as_nanos() as u64);
                        prop_assert_eq!(wait, bucket.retry_after(cost, BURST + debt, now));
                    }
                }
                Step::Penalize(tokens) => {
                    one.penalize_at(tokens, now).unwrap();
                    many.penalize_at(&7, tokens, now).unwrap();
                    if tokens > 0 {
                        bucket.paid_at = bucket.paid_at.max(now) + tokens * INTERVAL;
                    }
                }
                Step::Refund(tokens) => {
                    one.refund_at(tokens, now);
                    many.refund_at(&7, tokens, now);
                    if bucket.owed(now) <= BURST * INTERVAL {
                        bucket.paid_at -= (tokens * INTERVAL).min(bucket.owed(now));
                    }
                }
                Step::Ban(time) => {
                    let until = now + time;
                    one.ban_at(until, now).unwrap();
                    many.ban_at(&7, until, now).unwrap();
                    if time > 0 {
                        banned_until = banned_until.max(until);
                        // One that ends before what is owed does adds a nanosecond.
                        bucket.paid_at = (until + BURST * INTERVAL).max(bucket.paid_at + 1);
                    }
                }
            }
        }
    }
}

/// In any interval no more than the burst, the largest debt and what the rate earns.
#[test]
fn a_debt_is_within_its_bound_in_every_interval() {
    let (one, _) = limiters(Algorithm::TokenBucket);
    let mut admitted = Vec::new();
    for now in (0..60_000).step_by(250) {
        let (cost, debt) = [(1, 0), (3, 2), (8, 7), (5, 7)][(now / 250 % 4) as usize];
        if one.check_in_debt_at(cost, debt, now).unwrap().is_allowed() {
            admitted.push((now, cost));
        }
    }
    for (first, &(start, _)) in admitted.iter().enumerate() {
        let mut spent = 0;
        for &(end, cost) in &admitted[first..] {
            spent += cost;
            assert!(spent * INTERVAL <= (BURST + 7) * INTERVAL + (end - start));
        }
    }
    // Sixty tokens are earned meanwhile, in calls of up to eight.
    let spent: u64 = admitted.iter().map(|(_, cost)| cost).sum();
    assert!((60..=60 + BURST + 7).contains(&spent), "{spent}");
}

#[test]
fn a_ban_ends_to_a_unit_at_rates_that_are_no_whole_number() {
    for limit in [1, 3, 7, 997, 999_999_937] {
        let quota = Quota::per_second(limit).burst(4);
        let limiter = Limiter::builder(quota).clock(Clock::manual().0).build().unwrap();
        let (now, until) = (12_345_678_901, 99_876_543_210);
        limiter.ban_at(until, now).unwrap();
        for before in [1, 2, 1_000, until - now] {
            assert!(!limiter.check_at(1, until - before).is_allowed(), "{limit}, {before}");
        }
        let wait = limiter.peek_at(1, now).retry_after().unwrap().as_nanos() as u64;
        // The bucket is empty then. A unit, of one to two nanoseconds, is the end's grain.
        let token = 1_000_000_000_u64.div_ceil(limit);
        let least = until - now + token - 2;
        assert!((least..=least + 4).contains(&wait), "{limit}: {wait}");
        assert!(limiter.check_at(1, now + wait).is_allowed(), "{limit}");
    }
}

#[test]
fn a_ban_of_any_length_is_a_ban() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let (one, many) = limiters(algorithm);
        for until in [1, u64::MAX / 2, u64::MAX] {
            one.ban_at(until, 0).unwrap();
            many.ban_at(&1, until, 0).unwrap();
            assert!(!one.check_at(1, 0).is_allowed() && !many.check_at(&1, 1, 0).is_allowed());
        }
        one.penalize_at(u64::MAX, 0).unwrap();
        // Nine years later.
        assert!(!one.check_at(1, 9 * 365 * 86_400 * 1_000_000_000).is_allowed());
        one.reset_at(0);
        assert!(one.check_at(1, 0).is_allowed());
    }
}

#[test]
fn what_cannot_be_put_down_is_said() {
    let quota = Quota::per_hour(1);
    for algorithm in
        [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter, Algorithm::SlidingWindowLog]
    {
        let limiter = Limiter::builder(quota).algorithm(algorithm).build().unwrap();
        let error = Err(DebtError::Algorithm { algorithm });
        assert_eq!(limiter.penalize(1), error);
        assert_eq!(limiter.ban_at(1, 0), error);
        assert_eq!(limiter.check_in_debt(1, 1).map(drop), error);
    }
    // A table full of banned keys forgets none of them for another.
    for overflow in [Overflow::EvictNearest, Overflow::Refuse, Overflow::Admit] {
        let builder = KeyedLimiter::<u64>::builder(quota).capacity(1).overflow(overflow);
        let limiter = builder.clock(Clock::manual().0).build().unwrap();
        let banned = (0..1_000).filter(|key| limiter.ban_at(key, 1 << 50, 0).is_ok()).count();
        assert!((12..=31).contains(&banned), "{banned}");
        assert_eq!(limiter.ban_at(&1_000, 1, 0), Err(DebtError::Full));
        assert!((0..banned as u64).all(|key| !limiter.check_at(&key, 1, 0).is_allowed()));
    }
}

/// A call that may go far beyond the burst itself, or brings a larger one, forgets no key that is banned.
#[test]
fn no_reach_of_a_call_evicts_a_ban() {
    let fill = |limiter: &KeyedLimiter<u64>| -> Vec<u64> {
        (0..1_000).filter(|key| limiter.ban_at(key, 1 << 40, 0).is_ok()).collect()
    };
    let builder = || {
        let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1_000).burst(BURST));
        builder.capacity(1).clock(Clock::manual().0)
    };
    let in_debt = builder().build().unwrap();
    let banned = fill(&in_debt);
    assert!(in_debt.check_in_debt_at(&9_999, 1, u64::MAX, 0).unwrap().is_full());
    let settled = builder().permits(Permits::new()).build().unwrap();
    let permit = settled.reserve_at(&9_999, 1, 0).unwrap();
    // Its own cell is free to be taken again.
    settled.reset_at(&9_999, 0);
    assert_eq!(fill(&settled), banned);
    assert_eq!(permit.commit_at(3, 0), 2);
    let of_call = builder().algorithm(Algorithm::Gcra).build().unwrap();
    assert_eq!(fill(&of_call), banned);
    let own = Quota::per_second(1).burst(1_000_000);
    assert!(of_call.check_with_at(&9_999, 1, own, 0).unwrap().is_full());
    for limiter in [in_debt, settled, of_call] {
        assert!(banned.iter().all(|key| !limiter.check_at(key, 1, 0).is_allowed()));
        assert_eq!(limiter.stats().evicted, 0);
    }
}

/// A ban that is shorter than the line before it stays when the line is left.
#[test]
fn a_ban_is_not_given_up_with_a_place_in_line() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let (one, many) = limiters(algorithm);
        assert!(one.check_at(2, 0).is_allowed() && many.check_at(&7, 2, 0).is_allowed());
        let max = Duration::from_nanos(9 * INTERVAL);
        let turns: Vec<_> = (0..9)
            .flat_map(|_| [one.line_up_at(1, max, 0), many.line_up_at(&7, 1, max, 0)])
            .flatten()
            .collect();
        let until = 3 * INTERVAL;
        one.ban_at(until, 0).unwrap();
        many.ban_at(&7, until, 0).unwrap();
        turns.into_iter().rev().for_each(|turn| turn.give_up_at(0));
        assert!(!one.check_at(1, until - 1).is_allowed(), "{algorithm:?}");
        assert!(!many.check_at(&7, 1, until - 1).is_allowed(), "{algorithm:?}");
    }
}

/// A penalty of nothing and a ban that is over take no cell, so that no other key is forgotten for them.
#[test]
fn a_penalty_of_nothing_makes_no_key() {
    let builder = KeyedLimiter::<u32>::builder(Quota::per_hour(5)).capacity(1);
    let limiter = builder.clock(Clock::manual().0).build().unwrap();
    for key in 0..31 {
        assert!(limiter.check_at(&key, 5, 0).is_allowed());
    }
    limiter.penalize_at(&98, 0, 0).unwrap();
    limiter.ban_at(&99, 7, 7).unwrap();
    assert_eq!(limiter.stats().evicted, 0);
    assert!((0..31).all(|key| !limiter.check_at(&key, 1, 0).is_allowed()));
}
