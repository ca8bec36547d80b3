//! Permits, debts, penalties, bans and calls to two limits at once, in any order: what is kept is within
//! the quota and its debt in every interval, a ban lasts to its end, a refused call charges no limit, a
//! permit is settled once, and a key that nobody has touched is as new.
//!
//! Time goes forward, and no key is evicted: `keyed.rs` is for that.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate::{
    Ask, Clock, Decision, DetachedPermit, KeyedLimiter, Permit, Permits, Quota, check_all_at,
};
use tollgate_fuzz::program::{KEYS, Program, Step, Terms, Verb};

/// A permit knows the life of its key by a number below 16: docs/guarantees.md.
const RESETS_MAX: usize = 12;

/// A limit as the program has used it, and what its keys have kept.
struct Limit {
    quota: Quota,
    /// The most that a key may owe beyond its burst.
    debt: u64,
    /// When, and how many tokens.
    kept: BTreeMap<u8, Vec<(u64, u64)>>,
    banned: BTreeMap<u8, u64>,
    touched: BTreeSet<u8>,
    /// How often a key was reset.
    lives: [usize; KEYS as usize],
}

impl Limit {
    fn new(terms: Terms) -> Option<(KeyedLimiter<u8>, Limit)> {
        let Terms { algorithm, quota, debt } = terms;
        let built = KeyedLimiter::builder(quota)
            .algorithm(algorithm)
            .capacity(12)
            .permits(Permits::new().debt(debt))
            .clock(Clock::manual().0)
            .build();
        let limit = Limit {
            quota,
            debt,
            kept: BTreeMap::new(),
            banned: BTreeMap::new(),
            touched: BTreeSet::new(),
            lives: [0; KEYS as usize],
        };
        Some((built.ok()?, limit))
    }

    fn keep(&mut self, key: u8, at: u64, tokens: u64) {
        self.kept.entry(key).or_default().push((at, tokens));
    }

    /// What a call may not be told, whatever came before it.
    fn judge(&mut self, key: u8, cost: u64, now: u64, is_allowed: bool) {
        if cost == 0 {
            assert!(is_allowed, "nothing is refused");
            return;
        }
        let ban = self.banned.get(&key).copied().unwrap_or(0);
        assert!(!is_allowed || now >= ban, "{key}: admitted in a ban, {} early", ban - now);
        if self.touched.insert(key) {
            let is_due = cost <= self.quota.burst_size();
            assert_eq!(is_allowed, is_due, "{key}, which is new, {cost}");
        }
    }

    /// The key starts afresh; whether it may.
    fn reset(&mut self, key: u8) -> bool {
        let life = &mut self.lives[usize::from(key)];
        if *life == RESETS_MAX {
            return false;
        }
        *life += 1;
        self.check_kept(key);
        self.kept.remove(&key);
        self.banned.remove(&key);
        self.touched.remove(&key);
        true
    }

    /// Burst and debt, what the interval has earned, and a unit, which is less than two nanoseconds' worth.
    fn check_kept(&self, key: u8) {
        let mut kept = self.kept.get(&key).cloned().unwrap_or_default();
        kept.sort_unstable();
        let period = self.quota.period().as_nanos();
        let burst = u128::from(self.quota.burst_size().saturating_add(self.debt)) * period;
        for from in 0..kept.len() {
            let mut sum = 0;
            for &(at, tokens) in &kept[from..] {
                sum += u128::from(tokens) * period;
                let time = u128::from(at - kept[from].0) + 2;
                let most = burst + time * u128::from(self.quota.limit());
                assert!(sum <= most, "{key} has kept {sum} of {most} from {}", kept[from].0);
            }
        }
    }
}

/// A permit that is out.
struct Out<'a> {
    limit: usize,
    key: u8,
    life: usize,
    since: u64,
    permit: Held<'a>,
}

enum Held<'a> {
    Here(Permit<'a>),
    Detached(DetachedPermit),
}

struct World<'a> {
    limiters: [&'a KeyedLimiter<u8>; 2],
    limits: [Limit; 2],
    out: Vec<Out<'a>>,
    now: u64,
}

/// What a refused call must not change.
fn seen(limiter: &KeyedLimiter<u8>, key: u8, now: u64) -> (u64, Option<Duration>) {
    let decision: Decision = limiter.peek_at(&key, 1, now);
    (decision.remaining(), decision.reset_after())
}

impl<'a> World<'a> {
    fn step(&mut self, step: Step) {
        self.now = self.now.saturating_add(step.after).min(1 << 50);
        let Step { limit: index, key, cost, .. } = step;
        let (now, limiter) = (self.now, self.limiters[index]);
        let limit = &mut self.limits[index];
        match step.verb {
            Verb::Check => {
                let is_allowed = limiter.check_at(&key, cost, now).is_allowed();
                limit.judge(key, cost, now, is_allowed);
                limit.keep(key, now, if is_allowed { cost } else { 0 });
            }
            Verb::InDebt(debt) => {
                let told = limiter.check_in_debt_at(&key, cost, debt, now).expect("a bucket");
                limit.touched.insert(key);
                // It may pass a ban that ends within its debt.
                limit.debt = limit.debt.max(debt);
                limit.keep(key, now, if told.is_allowed() { cost } else { 0 });
            }
            Verb::Penalize => {
                limiter.penalize_at(&key, cost, now).expect("a bucket with a free cell");
                limit.touched.insert(key);
            }
            Verb::Ban(time) => {
                limiter.ban_at(&key, now + time, now).expect("a bucket with a free cell");
                limit.touched.insert(key);
                let until = limit.banned.entry(key).or_default();
                *until = now.saturating_add(time).max(*until);
            }
            Verb::Reserve | Verb::ReserveDetached => {
                let permit = limiter.reserve_at(&key, cost, now);
                limit.judge(key, cost, now, permit.is_ok());
                if let Ok(permit) = permit {
                    let is_detached = matches!(step.verb, Verb::ReserveDetached);
                    self.hold(index, key, permit, is_detached);
                }
            }
            Verb::Settle(place) => self.settle(place, Some(cost)),
            Verb::Drop(place) => self.settle(place, None),
            Verb::Reset if limit.reset(key) => limiter.reset_at(&key, now),
            Verb::Reset => {}
            Verb::CheckAll(costs) => self.check_all(key, costs),
        }
    }

    fn hold(&mut self, limit: usize, key: u8, permit: Permit<'a>, is_detached: bool) {
        let permit = match is_detached {
            true => Held::Detached(permit.detach()),
            false => Held::Here(permit),
        };
        let life = self.limits[limit].lives[usize::from(key)];
        self.out.push(Out { limit, key, life, since: self.now, permit });
    }

    /// Settles the permit at a place; or drops it, which gives all of it back but for a detached one.
    fn settle(&mut self, place: usize, actual: Option<u64>) {
        if self.out.is_empty() {
            return;
        }
        let Out { limit, key, life, since, permit } = self.out.swap_remove(place % self.out.len());
        let (now, limiter) = (self.now, self.limiters[limit]);
        let limit = &mut self.limits[limit];
        let (estimate, actual, unpaid) = match permit {
            Held::Here(permit) => {
                let (estimate, actual) = (permit.estimate(), actual.unwrap_or(0));
                (estimate, actual, permit.commit_at(actual, now))
            }
            Held::Detached(permit) => {
                let (estimate, actual) = (permit.estimate(), actual.unwrap_or(permit.estimate()));
                let unpaid = limiter.commit_at(&permit, actual, now).expect("not settled yet");
                assert!(limiter.commit_at(&permit, 0, now).is_err(), "settled twice");
                (estimate, actual, unpaid)
            }
        };
        let is_of_now = limit.lives[usize::from(key)] == life;
        if is_of_now {
            limit.keep(key, since, estimate.min(actual));
        }
        if actual > estimate {
            limit.touched.insert(key);
            limit.keep(key, now, actual - estimate - unpaid);
        } else {
            assert_eq!(unpaid, 0);
        }
    }

    /// Both limits or none; what is charged is a permit of each.
    fn check_all(&mut self, key: u8, costs: [u64; 2]) {
        let (now, limiters) = (self.now, self.limiters);
        let before = limiters.map(|limiter| seen(limiter, key, now));
        let mut asks: [Ask<'a>; 2] = [0, 1].map(|limit| limiters[limit].ask(&key, costs[limit]));
        let is_allowed = check_all_at(&mut asks, now).is_allowed();
        let permits = asks.each_mut().map(Ask::take_permit);
        if !is_allowed {
            assert!(permits.iter().all(Option::is_none));
            assert_eq!(limiters.map(|limiter| seen(limiter, key, now)), before, "charged in part");
            return;
        }
        for (limit, permit) in permits.into_iter().enumerate() {
            self.limits[limit].judge(key, costs[limit], now, true);
            match permit {
                Some(permit) => self.hold(limit, key, permit, false),
                None => assert_eq!(costs[limit], 0, "charged without a permit"),
            }
        }
    }

    /// What is still out is kept.
    fn end(mut self) {
        for Out { limit, key, life, since, permit } in self.out.drain(..) {
            let limit = &mut self.limits[limit];
            let estimate = match permit {
                Held::Here(permit) => {
                    let estimate = permit.estimate();
                    permit.keep();
                    estimate
                }
                Held::Detached(permit) => permit.estimate(),
            };
            if limit.lives[usize::from(key)] == life {
                limit.keep(key, since, estimate);
            }
        }
        self.limits.iter().for_each(|limit| (0..KEYS).for_each(|key| limit.check_kept(key)));
    }
}

fuzz_target!(|program: Program| {
    let [Some(one), Some(other)] = program.terms.map(Limit::new) else { return };
    let limiters = [&one.0, &other.0];
    let mut world = World { limiters, limits: [one.1, other.1], out: Vec::new(), now: 0 };
    program.steps.into_iter().for_each(|step| world.step(step));
    world.end();
});
