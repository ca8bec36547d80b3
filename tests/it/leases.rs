//! Leases: what handles spend stays within the bound of `docs/leases.md` in every interval, and what
//! they do not spend is not lost before its time.
//!
//! 1. While time does not go back, what handles and plain calls are allowed, the reference allows with
//!    a burst that is larger by what the bound says.
//! 2. By any clock and under changing quotas no interval has more than the bound by the largest lease.
//! 3. Dated at the moment at which they were leased, spent tokens are within the plain quota: what is given
//!    back is never more than what is still owed of it.
//! 4. In one moment books are exact: a call is refused only if what is left is spent or held, and
//!    when all is given back, what is owed is what was spent.
//! 5. P2: after exactly `retry_after` the same call is admitted; a nanosecond earlier it is not.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, LeaseHandle, LeasedLimiter, Leases, Limiter, Quota};

use crate::properties::{arb_bucket_quota, arb_quota, cases};
use crate::reference::{Answer, Reference};

const HANDLES: u64 = 3;
const SECOND: u64 = 1_000_000_000;

/// What is done, and how long after what came before.
#[derive(Clone, Debug)]
enum Step {
    Check {
        handle: usize,
        cost: u64,
    },
    /// A call on the limiter itself.
    Plain {
        cost: u64,
    },
    GiveBack {
        handle: usize,
    },
    Drop {
        handle: usize,
    },
    SetQuota(Quota),
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    term: u64,
    largest: u64,
    clock_every: u64,
}

impl Terms {
    fn leases(self) -> Leases {
        let leases = Leases::of(Duration::from_nanos(self.term));
        leases.largest(self.largest).clock_every(self.clock_every)
    }

    /// Tokens that are held or ready at the most.
    fn held_max(self) -> u64 {
        HANDLES * (self.largest - 1)
    }

    /// What an interval may have besides the limiter's own bound.
    fn excess(self, quota: Quota) -> u64 {
        let stale = HANDLES * (self.clock_every - 1);
        let earned = earned(quota, self.term);
        self.held_max().min(earned.saturating_add(stale))
    }
}

/// Tokens that come back in a time, with the one unit that a clock in units may be early.
pub fn earned(quota: Quota, time: u64) -> u64 {
    let tokens = u128::from(quota.limit()) * u128::from(time) / quota.period().as_nanos();
    u64::try_from(tokens).unwrap_or(u64::MAX).saturating_add(u64::from(quota.limit() > 0))
}

fn arb_terms() -> impl Strategy<Value = Terms> {
    let term = prop_oneof![1..10_u64, 1..3 * SECOND, Just(60 * SECOND), Just(3_600 * SECOND)];
    let largest = prop_oneof![4 => 1..6_u64, 1 => Just(64)];
    let clock_every = prop_oneof![2 => Just(1_u64), 2 => 1..4_u64, 1 => Just(16)];
    (term, largest, clock_every).prop_map(|(term, largest, clock_every)| Terms {
        term,
        largest,
        clock_every,
    })
}

fn arb_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::TokenBucket), Just(Algorithm::Gcra)]
}

/// One token a second, of bursts that are worth a few leases.
fn arb_small_quota() -> impl Strategy<Value = Quota> {
    (12..60_u64).prop_map(|burst| Quota::per_second(1).burst(burst))
}

fn arb_step() -> impl Strategy<Value = Step> {
    let handle = 0..HANDLES as usize;
    let cost = prop_oneof![8 => Just(1_u64), 2 => 1..5_u64, 1 => 0..120_u64];
    prop_oneof![
        24 => (handle.clone(), cost.clone())
            .prop_map(|(handle, cost)| Step::Check { handle, cost }),
        3 => cost.prop_map(|cost| Step::Plain { cost }),
        3 => handle.clone().prop_map(|handle| Step::GiveBack { handle }),
        1 => handle.prop_map(|handle| Step::Drop { handle }),
    ]
}

/// A step of the clock: mostly none or as long as leases last.
fn arb_wait() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => Just(0_u64),
        4 => 0..10_u64,
        4 => 0..2 * SECOND,
        1 => 0..8_000 * SECOND,
        1 => 0..200_000_000 * SECOND,
    ]
}

fn leased(algorithm: Algorithm, quota: Quota, terms: Terms) -> LeasedLimiter {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
    builder.build().unwrap().leased(terms.leases()).unwrap()
}

/// Does a step; the tokens that were spent by it.
fn perform<'a>(
    leased: &'a LeasedLimiter,
    handles: &mut [LeaseHandle<'a>],
    step: &Step,
    now: u64,
) -> u64 {
    match *step {
        Step::Check { handle, cost } => {
            cost * u64::from(handles[handle].check_at(cost, now).is_allowed())
        }
        Step::Plain { cost } => cost * u64::from(leased.limiter().check_at(cost, now).is_allowed()),
        Step::GiveBack { handle } => {
            handles[handle].give_back_at(now);
            0
        }
        Step::Drop { handle } => {
            handles[handle].give_back_at(now);
            handles[handle] = leased.handle();
            0
        }
        Step::SetQuota(quota) => {
            // One that does not fit leaves the old one in force.
            let _ = leased.limiter().set_quota_at(quota, now);
            0
        }
    }
}

fn handles(leased: &LeasedLimiter) -> Vec<LeaseHandle<'_>> {
    (0..HANDLES).map(|_| leased.handle()).collect()
}

/// A moment of a history: what was spent in it, and under which quota.
struct Event {
    now: u64,
    spent: u64,
    quota: Quota,
}

/// Whether no interval has more than the largest bursts, rates and leases in it allow.
fn is_within(events: &[Event], held_max: u64) -> bool {
    (0..events.len()).all(|first| {
        let (mut from, mut to, mut spent, mut burst) = (u64::MAX, 0, 0, 0);
        let mut quotas: Vec<Quota> = Vec::new();
        // The quota that was in force before is in force when the interval begins.
        quotas.extend(first.checked_sub(1).map(|before| events[before].quota));
        events[first..].iter().all(|event| {
            (from, to) = (from.min(event.now), to.max(event.now));
            spent += event.spent;
            if quotas.last() != Some(&event.quota) {
                quotas.push(event.quota);
            }
            burst = quotas.iter().map(Quota::burst_size).max().unwrap_or(burst);
            let back = quotas.iter().map(|&quota| earned(quota, to - from)).max().unwrap_or(0);
            spent <= burst.saturating_add(back).saturating_add(held_max)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_interval_is_one_of_a_larger_burst(
        algorithm in arb_algorithm(),
        quota in arb_quota(),
        terms in arb_terms(),
        steps in prop::collection::vec((arb_wait(), arb_step()), 1..150),
    ) {
        let leased = leased(algorithm, quota, terms);
        let burst = quota.burst_size() + terms.excess(quota);
        let mut reference = Reference::new(algorithm, quota.burst(burst));
        let (mut handles, mut now) = (handles(&leased), 0_u64);
        for (wait, step) in &steps {
            now = now.saturating_add(*wait);
            let spent = perform(&leased, &mut handles, step, now);
            prop_assert!(reference.check(spent, now).allowed, "{step:?} at {now}");
        }
    }

    #[test]
    fn what_is_spent_was_within_the_quota_when_it_was_leased(
        algorithm in arb_algorithm(),
        quota in prop_oneof![1 => arb_quota(), 2 => arb_small_quota()],
        terms in arb_terms(),
        steps in prop::collection::vec((arb_wait(), arb_step()), 1..150),
    ) {
        let leased = leased(algorithm, quota, terms);
        let (mut handles, mut now) = (handles(&leased), 0_u64);
        let (mut dates, mut dated) = ([0; HANDLES as usize], Vec::new());
        for (wait, step) in &steps {
            now = now.saturating_add(*wait);
            let owed = leased.limiter().peek_at(1, now).reset_after();
            let spent = perform(&leased, &mut handles, step, now);
            let is_charged = leased.limiter().peek_at(1, now).reset_after() > owed;
            match *step {
                Step::Check { handle, .. } => {
                    if is_charged {
                        dates[handle] = now;
                    }
                    dated.push((dates[handle], spent));
                }
                _ => dated.push((now, spent)),
            }
        }
        dated.sort_unstable();
        let mut reference = Reference::new(algorithm, quota);
        for (date, spent) in dated {
            prop_assert!(reference.check(spent, date).allowed, "{spent} leased at {date}");
        }
    }

    #[test]
    fn no_interval_has_more_than_is_earned_and_held_by_any_clock(
        quota in arb_quota(),
        terms in arb_terms(),
        steps in prop::collection::vec(
            (
                prop_oneof![
                    6 => arb_wait().prop_map(|by| by as i64),
                    1 => (0..10_i64).prop_map(|by| -by),
                    1 => (0..5_000_000_000_i64).prop_map(|by| -by),
                ],
                prop_oneof![
                    12 => arb_step(),
                    1 => arb_bucket_quota().prop_map(Step::SetQuota),
                ],
            ),
            1..80,
        ),
    ) {
        let leased = leased(Algorithm::TokenBucket, quota, terms);
        let (mut handles, mut now) = (handles(&leased), 0_u64);
        let mut events = Vec::new();
        for (by, step) in &steps {
            now = now.saturating_add_signed(*by);
            let spent = perform(&leased, &mut handles, step, now);
            events.push(Event { now, spent, quota: leased.limiter().quota() });
        }
        prop_assert!(is_within(&events, terms.held_max()));
    }

    #[test]
    fn in_one_moment_nothing_is_lost_or_minted(
        algorithm in arb_algorithm(),
        quota in arb_quota(),
        terms in arb_terms(),
        now in 0..1_000 * SECOND,
        steps in prop::collection::vec(arb_step(), 1..150),
    ) {
        let leased = leased(algorithm, quota, terms);
        let mut reference = Reference::new(algorithm, quota);
        let mut handles = handles(&leased);
        for step in &steps {
            let held: u64 = handles.iter().map(LeaseHandle::held).sum();
            let own = match *step {
                Step::Check { handle, .. } => handles[handle].held(),
                _ => 0,
            };
            let spent = perform(&leased, &mut handles, step, now);
            if let Step::Check { cost, .. } | Step::Plain { cost } = *step {
                let left = reference.peek(0, now).remaining - (held - own);
                prop_assert_eq!(spent == cost, cost <= left, "{:?}, {} left", step, left);
            }
            reference.check(spent, now);
        }
        handles.iter_mut().for_each(|handle| handle.give_back_at(now));
        let answer = Answer::from(&leased.limiter().peek_at(1, now));
        prop_assert_eq!(answer, reference.peek(1, now));
    }

    #[test]
    fn a_refused_call_is_admitted_after_its_wait_and_not_before(
        algorithm in arb_algorithm(),
        quota in arb_quota(),
        terms in arb_terms(),
        steps in prop::collection::vec((arb_wait(), arb_step()), 1..60),
    ) {
        let leased = leased(algorithm, quota, terms);
        let (mut handles, mut now) = (handles(&leased), 0_u64);
        for (wait, step) in &steps {
            now = now.saturating_add(*wait);
            let Step::Check { handle, cost } = *step else {
                perform(&leased, &mut handles, step, now);
                continue;
            };
            let handle = &mut handles[handle];
            let answer = handle.check_at(cost, now);
            match answer.retry_after() {
                _ if answer.is_allowed() => {
                    prop_assert_eq!(answer.retry_after(), Some(Duration::ZERO));
                }
                Some(wait) => {
                    now += wait.as_nanos() as u64;
                    prop_assert!(!handle.check_at(cost, now - 1).is_allowed());
                    prop_assert!(handle.check_at(cost, now).is_allowed());
                }
                None => {
                    prop_assert!(!handle.check_at(cost, now + 3_600 * SECOND).is_allowed());
                }
            }
        }
    }
}
