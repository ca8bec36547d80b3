//! Several limits in one call, against a reference for each limit and key.
//!
//! 1. P1: every answer is that of the references, which are charged if all of them admit.
//! 2. P2: after exactly the longest wait the same call is admitted; a nanosecond earlier it is not.
//! 3. P1 under threads: no limit is exceeded, nobody pays for a call that was refused, and each call is
//!    counted once by each limit that it was charged to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Ask, Clock, JointDecision, KeyedLimiter, Limiter, Quota, check_all_at};

use crate::properties::{ALGORITHMS, arb_log_quota, arb_move, arb_quota, cases, moved};
use crate::reference::{Answer, Reference};

/// Which limit and which key of it.
type Name = (usize, u16);

/// One that is asked: the limit and the key, and the cost.
type Wish = (usize, u16, u64);

#[derive(Debug)]
enum Limit {
    Keyed(KeyedLimiter<u16>),
    One(Limiter),
}

impl Limit {
    fn ask(&self, key: u16, cost: u64) -> Ask<'_> {
        match self {
            Limit::Keyed(limiter) => limiter.ask(&key, cost),
            Limit::One(limiter) => limiter.ask(cost),
        }
    }
}

/// Limits, and a reference for every key of each.
#[derive(Debug)]
struct Pair {
    limits: Vec<Limit>,
    references: HashMap<Name, Reference>,
}

/// What a call is told, by all and by each.
struct Told {
    joint: JointDecision,
    each: Vec<Answer>,
}

impl Pair {
    fn new(specified: &[(Algorithm, Quota, bool)]) -> Pair {
        let mut references = HashMap::new();
        let mut limits = Vec::new();
        for (at, &(algorithm, quota, is_keyed)) in specified.iter().enumerate() {
            let is_log = algorithm == Algorithm::SlidingWindowLog;
            let reference = if is_log {
                Reference::log(quota, 40, 3)
            } else {
                Reference::new(algorithm, quota)
            };
            for key in 0..3 {
                references.insert((at, key), reference.clone());
            }
            let clock = Clock::manual().0;
            limits.push(if is_keyed {
                let builder = KeyedLimiter::builder(quota).algorithm(algorithm).log_limit(40);
                Limit::Keyed(builder.log_cost(3).capacity(50).clock(clock).build().unwrap())
            } else {
                let builder = Limiter::builder(quota).algorithm(algorithm).log_limit(40);
                Limit::One(builder.log_cost(3).clock(clock).build().unwrap())
            });
        }
        Pair { limits, references }
    }

    fn name(&self, limit: usize, key: u16) -> Name {
        (limit, if matches!(self.limits[limit], Limit::Keyed(_)) { key } else { 0 })
    }

    fn check(&self, wishes: &[Wish], now: u64) -> Told {
        let ask = |&(limit, key, cost): &Wish| self.limits[limit].ask(key, cost);
        let mut asks: Vec<Ask<'_>> = wishes.iter().map(ask).collect();
        let joint = check_all_at(&mut asks, now);
        let each = asks.iter().map(|ask| Answer::from(&ask.decision())).collect();
        Told { joint, each }
    }

    /// What the references say; they are charged if they all admit.
    fn expected(&mut self, wishes: &[Wish], now: u64) -> Vec<Answer> {
        let names: Vec<Name> =
            wishes.iter().map(|&(limit, key, _)| self.name(limit, key)).collect();
        let mut totals = HashMap::<Name, u64>::new();
        for (&name, &(.., cost)) in names.iter().zip(wishes) {
            let total = totals.entry(name).or_default();
            *total = total.saturating_add(cost);
        }
        // The range is every key's, and a decision on one renews it.
        for ((limit, _), reference) in &mut self.references {
            if names.iter().any(|(asked, _)| asked == limit) {
                reference.renew(now);
            }
        }
        let mut told = HashMap::new();
        for (name, &total) in &totals {
            let answer = self.references.get_mut(name).unwrap().peek(total, now);
            // Nobody has to be held before the call is charged.
            told.insert(*name, Answer { delay: 0, ..answer });
        }
        if told.values().all(|answer| answer.allowed) {
            for (name, &total) in &totals {
                told.insert(*name, self.references.get_mut(name).unwrap().check(total, now));
            }
        }
        names.iter().map(|name| told[name]).collect()
    }

    /// Makes a call on both and compares all that they say.
    fn step(&mut self, wishes: &[Wish], now: u64) -> Result<JointDecision, TestCaseError> {
        let Told { joint, each } = self.check(wishes, now);
        let expected = self.expected(wishes, now);
        let allowed = expected.iter().all(|answer| answer.allowed);
        for (ours, theirs) in each.iter().zip(&expected) {
            // What a limit would have the call held for, had the others admitted it, is not compared.
            let ours = Answer { delay: if allowed { ours.delay } else { 0 }, ..*ours };
            prop_assert_eq!(ours, *theirs, "{:?} at {}", wishes, now);
        }
        let waits = || expected.iter().map(|answer| answer.retry_after);
        // None, which is never, is the longest.
        let longest = waits().max_by_key(|wait| wait.unwrap_or(u64::MAX)).unwrap_or(Some(0));
        prop_assert_eq!(joint.is_allowed(), allowed);
        prop_assert_eq!(
            joint.refused_by(),
            waits().position(|w| w == longest).filter(|_| !allowed)
        );
        prop_assert_eq!(joint.retry_after(), longest.map(Duration::from_nanos));
        let remaining = expected.iter().map(|answer| answer.remaining).min();
        prop_assert_eq!(joint.remaining(), remaining.unwrap_or(u64::MAX));
        let delay = expected.iter().map(|answer| answer.delay).max().filter(|_| allowed);
        prop_assert_eq!(joint.delay(), Duration::from_nanos(delay.unwrap_or(0)));
        Ok(joint)
    }
}

/// An algorithm, a quota that it can count, and whether it has keys.
fn arb_limit() -> impl Strategy<Value = (Algorithm, Quota, bool)> {
    prop_oneof![
        5 => (prop::sample::select(&ALGORITHMS[..]), arb_quota(), any::<bool>()),
        1 => (Just(Algorithm::SlidingWindowLog), arb_log_quota(), any::<bool>()),
    ]
}

/// Calls on limits of which there are so many, of up to five wishes each: some name the same key twice.
fn arb_wishes() -> impl Strategy<Value = Vec<Wish>> {
    let cost = prop_oneof![8 => 1..4_u64, 2 => Just(0_u64), 1 => 0..120_u64, 1 => Just(u64::MAX)];
    prop::collection::vec((0..4_usize, 0..3_u16, cost), 0..6)
}

fn within(wishes: &[Wish], limits: usize) -> Vec<Wish> {
    wishes.iter().map(|&(limit, key, cost)| (limit % limits, key, cost)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// 1.
    #[test]
    fn all_or_nothing_answers_as_the_references(
        limits in prop::collection::vec(arb_limit(), 1..5),
        steps in prop::collection::vec((arb_move(true), arb_wishes()), 1..40),
    ) {
        let mut pair = Pair::new(&limits);
        let mut now = 0;
        for (by, wishes) in steps {
            now = moved(now, by);
            let _ = pair.step(&within(&wishes, limits.len()), now)?;
        }
    }

    /// 2. Both calls are made, as there is no look at several limits; the earlier one takes nothing.
    #[test]
    fn the_longest_wait_is_a_promise(
        limits in prop::collection::vec(arb_limit(), 1..5),
        steps in prop::collection::vec((0..2_000_000_000_u64, arb_wishes()), 1..30),
    ) {
        let mut pair = Pair::new(&limits);
        let mut now = 0_u64;
        for (by, wishes) in steps {
            now += by;
            let wishes = within(&wishes, limits.len());
            let joint = pair.step(&wishes, now)?;
            let Some(wait) = joint.retry_after() else {
                prop_assert!(!pair.step(&wishes, now + (1 << 40))?.is_allowed(), "never is never");
                now += 1 << 40;
                continue;
            };
            // Beyond this the range of a word may be renewed, which may end a wait a nanosecond early.
            let wait = wait.as_nanos() as u64;
            if joint.is_allowed() || now + wait >= 1 << 56 {
                continue;
            }
            prop_assert!(!pair.step(&wishes, now + wait - 1)?.is_allowed(), "before {} ns", wait);
            prop_assert!(pair.step(&wishes, now + wait)?.is_allowed(), "after {} ns", wait);
            now += wait;
        }
    }
}

/// A bucket that is never filled again, so that what was spent can be read off it.
fn budget(tokens: u64) -> Limiter {
    Limiter::new(Quota::per_second(0).burst(tokens)).unwrap()
}

/// Of 3: Pairs of three limits in every order, all three, and each alone, until all is spent.
#[test]
fn threads_share_limits_to_the_token() {
    let limits = [budget(6_000), budget(7_001), budget(6_500)];
    let kept = [(); 3].map(|()| AtomicU64::new(0));
    let lists: [&[usize]; 8] =
        [&[0, 1], &[1, 0], &[2, 1], &[0, 2, 1], &[2, 1, 0], &[0], &[1], &[1, 1, 2]];
    thread::scope(|scope| {
        for first in 0..4 {
            let (limits, kept) = (&limits, &kept);
            scope.spawn(move || {
                for list in lists.iter().cycle().skip(2 * first).take(8_000) {
                    let mut asks: Vec<Ask<'_>> = list.iter().map(|&at| limits[at].ask(1)).collect();
                    if tollgate::check_all(&mut asks).is_allowed() {
                        list.iter().for_each(|&at| {
                            kept[at].fetch_add(1, Ordering::Relaxed);
                        });
                    }
                }
            });
        }
    });
    for (limit, kept) in limits.iter().zip(kept) {
        let kept = kept.into_inner();
        let left = limit.peek();
        assert!(kept <= left.limit(), "{kept} of {}", left.limit());
        assert_eq!(left.remaining(), left.limit() - kept, "nobody pays for a refused call");
    }
    assert!(limits.iter().filter(|limit| limit.peek().remaining() == 0).count() >= 2);
}

/// Of 3: A limit of one token, which is given out anew all the while, refuses many calls after it was looked at:
/// they leave nothing on the limit that was charged before it.
#[test]
fn calls_that_are_refused_late_pay_nothing() {
    // In the order in which they are charged.
    let limits = [budget(u64::from(u32::MAX)), budget(1)];
    let [wide, narrow] = &limits;
    let admitted: u64 = thread::scope(|scope| {
        let caller = || {
            let once = |_: &u32| {
                let both = tollgate::check_all(&mut [narrow.ask(1), wide.ask(1)]).is_allowed();
                narrow.reset();
                both
            };
            (0..200_000).filter(once).count() as u64
        };
        let callers = [(); 3].map(|()| scope.spawn(caller));
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(wide.peek().remaining(), u64::from(u32::MAX) - admitted);
}

/// Of 3: By the real clock: in no interval is more kept than the burst and what the interval brings, though
/// charges are taken back all the while.
#[test]
fn what_threads_keep_is_within_the_quota_in_every_interval() {
    const BURST: u64 = 20;
    const NANOS_PER_TOKEN: u64 = 10_000;
    let shared =
        Limiter::new(Quota::new(1, Duration::from_nanos(NANOS_PER_TOKEN)).burst(BURST)).unwrap();
    let contested = Limiter::new(Quota::new(1, Duration::from_micros(15)).burst(2)).unwrap();
    let keep = &|with: Option<&Limiter>| {
        let mut kept = Vec::new();
        for _ in 0..20_000 {
            let from = shared.now();
            let mut asks: Vec<Ask<'_>> =
                [Some(&shared), with].into_iter().flatten().map(|one| one.ask(1)).collect();
            if tollgate::check_all(&mut asks).is_allowed() {
                kept.push((from.as_nanos() as u64, shared.now().as_nanos() as u64));
            }
        }
        kept
    };
    let mut kept: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads =
            [Some(&contested), Some(&contested), None].map(|with| scope.spawn(move || keep(with)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(kept.len() as u64 > BURST, "something comes back meanwhile");
    // From the start of any call on: those that began later, in the order in which they ended.
    kept.sort_unstable_by_key(|&(_, to)| to);
    for &(start, _) in kept.iter().step_by(1 + kept.len() / 1_000) {
        let inside = kept.iter().filter(|&&(from, _)| from >= start);
        for (before, &(_, end)) in inside.enumerate() {
            // A busy spell may begin a unit early.
            let most = BURST + (end - start + 1) / NANOS_PER_TOKEN;
            assert!((before as u64) < most, "{} from {start} to {end} ns", before + 1);
        }
    }
}

/// Of 3: Each limit counts a call once: an admitted one as admitted, a refused one only if it refused it.
#[test]
fn each_limit_counts_its_own() {
    let (wide, narrow) = (budget(9), budget(1));
    let ask = |cost| {
        check_all_at(&mut [wide.ask(cost), narrow.ask(cost), wide.ask(cost)], 0).is_allowed()
    };
    assert_eq!([ask(1), ask(1), ask(0)], [true, false, true]);
    let counts = [&wide, &narrow].map(|limit| (limit.stats().admitted, limit.stats().refused));
    assert_eq!(counts, [(1, 0), (1, 1)]);
    assert_eq!(wide.peek_at(1, 0).remaining(), 7);
}
