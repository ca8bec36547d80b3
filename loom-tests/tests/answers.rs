//! Inserts that stand still while the quota changes: they answer by the quota that they have charged
//! under, and count once. Run by `ci/stalls.sh`.

#![cfg(tollgate_stops)]

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tollgate::probe::on_step;
use tollgate::{Algorithm, Clock, Decision, KeyedLimiter, Overflow, Quota};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_000 * SECOND;

fn one_bucket(algorithm: Algorithm, quota: Quota) -> KeyedLimiter<u64> {
    let builder = KeyedLimiter::builder(quota).algorithm(algorithm).capacity(12);
    builder.overflow(Overflow::Refuse).clock(Clock::manual().0).build().unwrap()
}

/// The decision of an insert that stands still at `step` while `meanwhile` runs.
fn stopped(
    limiter: &KeyedLimiter<u64>,
    step: &'static str,
    (key, cost, now): (u64, u64, u64),
    meanwhile: impl FnOnce(),
) -> Decision {
    let (reached, is_there) = channel();
    let (resume, resumed) = channel::<()>();
    thread::scope(move |scope| {
        let thread = scope.spawn(move || {
            on_step(move |name| {
                if name == step {
                    let _ = reached.send(());
                    let _ = resumed.recv();
                }
            });
            limiter.check_at(&key, cost, now)
        });
        is_there.recv().unwrap();
        let resume = resume;
        meanwhile();
        drop(resume); // Later visits to the step are no stop.
        thread.join().unwrap()
    })
}

const STEPS: [&str; 3] = ["taken", "tagged", "tentative"];

/// Same units, a clock that is not whole, and another insert, so that the commit fails: the answer
/// is by the new quota.
#[test]
fn an_answer_by_a_clock_that_is_not_whole() {
    let mut wrong = Vec::new();
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra] {
        for (limit, millis) in [(1, 1_000), (3, 333)] {
            for step in STEPS {
                let limiter = &one_bucket(algorithm, Quota::per_second(2).burst(2));
                let decision = stopped(limiter, step, (1, 1, NOW), || {
                    limiter.set_quota_at(Quota::per_second(limit).burst(2), NOW).unwrap();
                    assert!(limiter.check_at(&2, 1, NOW).is_allowed());
                });
                assert!(decision.is_allowed());
                let peeked = limiter.peek_at(&1, 1, NOW).reset_after();
                assert_eq!(peeked.unwrap().as_millis(), millis);
                if decision.reset_after() != peeked {
                    wrong.push(format!(
                        "{algorithm:?} 2/s -> {limit}/s at {step}: reset_after {:?}, not {peeked:?}",
                        decision.reset_after()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Other units, a clock that is not whole: the walk alone makes the commit fail.
#[test]
fn an_answer_after_a_walk_by_a_clock_that_is_not_whole() {
    let mut wrong = Vec::new();
    for (from, to) in [
        (Quota::per_second(1), Quota::new(2, Duration::from_secs(5))),
        (Quota::per_second(2), Quota::new(2, Duration::from_secs(3))),
        (Quota::per_second(1), Quota::new(3, Duration::from_secs(7))),
    ] {
        for step in STEPS {
            let limiter = &one_bucket(Algorithm::TokenBucket, from.burst(2));
            let decision = stopped(limiter, step, (1, 1, NOW), || {
                limiter.set_quota_at(to.burst(2), NOW).unwrap();
            });
            let peeked = limiter.peek_at(&1, 1, NOW).reset_after();
            if decision.reset_after() != peeked {
                let was = decision.reset_after();
                wrong.push(format!("{from:?} -> {to:?} at {step}: {was:?}, not {peeked:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The change is ahead of the call's clock, which stands behind the new line's origin.
#[test]
fn an_answer_behind_the_origin() {
    let mut wrong = Vec::new();
    for to in [Quota::per_second(4), Quota::new(1, Duration::from_secs(3))] {
        for step in STEPS {
            let limiter = &one_bucket(Algorithm::TokenBucket, Quota::per_second(2).burst(2));
            let decision = stopped(limiter, step, (1, 1, NOW), || {
                limiter.set_quota_at(to.burst(2), NOW + 10 * SECOND).unwrap();
                assert!(limiter.check_at(&2, 1, NOW + 10 * SECOND).is_allowed());
            });
            assert!(decision.is_allowed());
            let peeked = limiter.peek_at(&1, 1, NOW).reset_after();
            if decision.reset_after() != peeked {
                let was = decision.reset_after();
                wrong.push(format!("2/s -> {to:?} at {step}: {was:?}, not {peeked:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every decision is counted once, whatever comes between.
#[test]
fn counted_once() {
    for step in STEPS.into_iter().chain(["judged", "committed", "terms loaded"]) {
        for same_key in [false, true] {
            for burst in [2, 1] {
                let limiter = &one_bucket(Algorithm::TokenBucket, Quota::per_second(2).burst(2));
                let mut calls = 1;
                let mut allowed = 0;
                let decision = stopped(limiter, step, (1, 1, NOW), || {
                    limiter.set_quota_at(Quota::per_second(1).burst(burst), NOW).unwrap();
                    let key = if same_key { 1 } else { 2 };
                    for _ in 0..3 {
                        allowed += u64::from(limiter.check_at(&key, 1, NOW).is_allowed());
                        calls += 1;
                    }
                });
                allowed += u64::from(decision.is_allowed());
                let stats = limiter.stats();
                assert_eq!((stats.admitted, stats.refused), (allowed, calls - allowed));
                if same_key {
                    assert!(allowed <= 2, "{step} {burst}");
                }
            }
        }
    }
}
