//! P1 as linearizability: whatever threads do at once, some order of their calls explains every
//! answer.
//!
//! Real threads call one key of a table and note when each call began and ended, by a shared count.
//! A search in the manner of Wing and Gong ("Testing and verifying concurrent objects", 1993) then
//! looks for an order that keeps what ended before another began, and in which the reference gives
//! the same answers. Clocks differ between the calls and go back.

use std::hash::{BuildHasher, RandomState};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::{Algorithm, Clock, KeyedLimiter, Quota};

use crate::reference::Reference;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Check(u64),
    Peek(u64),
    Refund(u64),
    SetQuota(Quota),
}

/// A call as it was made and answered.
#[derive(Clone, Copy, Debug)]
struct Call {
    verb: Verb,
    now: u64,
    began: u64,
    ended: u64,
    /// Allowed, and what remains (0 where that is not compared).
    answer: Option<(bool, u64)>,
}

/// Which answers have to be explained.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    All,
    /// While quotas change: a call that was under way when `set_quota` returned may be made under
    /// the old quota, and be seen only then in what remains to others.
    Allowed,
}

/// Does one call on the reference.
fn perform(reference: &mut Reference, call: &Call) -> Option<(bool, u64)> {
    let answer = match call.verb {
        Verb::Check(cost) => reference.check(cost, call.now),
        Verb::Peek(cost) => reference.peek(cost, call.now),
        Verb::Refund(tokens) => {
            reference.refund(tokens, call.now);
            return None;
        }
        Verb::SetQuota(quota) => {
            reference.set_quota(quota, call.now);
            return None;
        }
    };
    Some((answer.allowed, answer.remaining))
}

/// Whether some order of `calls` explains their answers; `done` has a bit for each that is placed.
fn is_explained(calls: &[Call], done: u32, reference: &Reference, ask: Ask) -> bool {
    if done.count_ones() as usize == calls.len() {
        return true;
    }
    let open = |index: &usize| done >> index & 1 == 0;
    let first_end = (0..calls.len()).filter(open).map(|index| calls[index].ended).min();
    (0..calls.len()).filter(open).any(|index| {
        let call = &calls[index];
        // What ended before this began must come first.
        if first_end.is_some_and(|ended| ended < call.began) {
            return false;
        }
        let mut next = reference.clone();
        let (right, made) = (perform(&mut next, call), call.answer);
        let is_same = match ask {
            Ask::All => right == made,
            Ask::Allowed => right.map(|right| right.0) == made.map(|made| made.0),
        };
        is_same && is_explained(calls, done | 1 << index, &next, ask)
    })
}

/// Runs the calls of each thread at once, and returns them all as they were answered.
fn run(limiter: &KeyedLimiter<u64>, scripts: &[Vec<Call>]) -> Vec<Call> {
    let (count, barrier) = (AtomicU64::new(0), Barrier::new(scripts.len()));
    thread::scope(|scope| {
        let spawn = |script: &Vec<Call>| {
            let (mut script, count, barrier) = (script.clone(), &count, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for call in &mut script {
                    call.began = count.fetch_add(1, Ordering::SeqCst);
                    let decision = match call.verb {
                        Verb::Check(cost) => Some(limiter.check_at(&7, cost, call.now)),
                        Verb::Peek(cost) => Some(limiter.peek_at(&7, cost, call.now)),
                        Verb::Refund(tokens) => {
                            limiter.refund_at(&7, tokens, call.now);
                            None
                        }
                        Verb::SetQuota(quota) => {
                            limiter.set_quota_at(quota, call.now).unwrap();
                            None
                        }
                    };
                    call.answer = decision.map(|made| (made.is_allowed(), made.remaining()));
                    call.ended = count.fetch_add(1, Ordering::SeqCst);
                }
                script
            })
        };
        let threads: Vec<_> = scripts.iter().map(spawn).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Other limits, other units, other windows.
const QUOTAS: [Quota; 4] =
    [Quota::per_second(3), Quota::per_second(5), Quota::per_minute(4), Quota::per_hour(2)];

fn random_call(random: &mut fastrand::Rng, algorithm: Algorithm, ask: Ask) -> Call {
    let amount = random.u64(1..3);
    let verb = match random.u8(..8) {
        0 | 1 if ask == Ask::Allowed => Verb::SetQuota(QUOTAS[random.usize(..QUOTAS.len())]),
        _ if ask == Ask::Allowed => Verb::Check(amount),
        0 => Verb::Peek(amount),
        // A log gives nothing back.
        1 if algorithm != Algorithm::SlidingWindowLog => Verb::Refund(amount),
        _ => Verb::Check(amount),
    };
    // A few steps of a clock around the time at which a token comes back.
    let now = 1_000_000_000 + random.u64(..6) * 100_000_000;
    Call { verb, now, began: 0, ended: 0, answer: None }
}

fn histories_are_explained(threads: usize, calls: usize, rounds: u64, ask: Ask) {
    for algorithm in Algorithm::ALL {
        for seed in (0..rounds).map(|round| first_seed() + round) {
            let mut random = fastrand::Rng::with_seed(seed);
            let quota = QUOTAS[0];
            let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(quota)
                .algorithm(algorithm)
                .log_limit(5)
                .log_cost(2)
                .capacity(12)
                .clock(Clock::manual().0)
                .build()
                .unwrap();
            let script = |_| (0..calls).map(|_| random_call(&mut random, algorithm, ask)).collect();
            let scripts: Vec<Vec<Call>> = (0..threads).map(script).collect();
            let history = run(&limiter, &scripts);
            let reference = match algorithm {
                Algorithm::SlidingWindowLog => Reference::log(quota, 5, 2),
                _ => Reference::new(algorithm, quota),
            };
            let explained = is_explained(&history, 0, &reference, ask);
            assert!(explained, "{algorithm:?}, seed {seed}: {history:#?}");
        }
    }
}

/// Many when optimised, few when not, and one under Miri, whose own seeds make for variety.
fn rounds(many: u64) -> u64 {
    match (cfg!(miri), cfg!(debug_assertions)) {
        (true, _) => 1,
        (false, true) => many / 20,
        (false, false) => many,
    }
}

/// The same scripts each time; under Miri those that its seed picks.
fn first_seed() -> u64 {
    if cfg!(miri) { RandomState::new().hash_one(0) >> 1 } else { 0 }
}

#[test]
fn two_threads_are_explained_by_some_order() {
    histories_are_explained(2, 5, rounds(1_500), Ask::All);
}

#[test]
fn eight_threads_are_explained_by_some_order() {
    histories_are_explained(8, 2, rounds(300), Ask::All);
}

#[test]
fn two_threads_that_change_the_quota_are_explained() {
    histories_are_explained(2, 5, rounds(1_500), Ask::Allowed);
}

#[test]
fn eight_threads_that_change_the_quota_are_explained() {
    histories_are_explained(8, 2, rounds(300), Ask::Allowed);
}

/// The search can tell: a history in which one token was admitted twice has no explanation.
#[test]
fn a_token_that_is_spent_twice_is_not_explained() {
    let call =
        |began, ended| Call { verb: Verb::Check(3), now: 0, began, ended, answer: Some((true, 0)) };
    let reference = Reference::new(Algorithm::TokenBucket, Quota::per_second(3));
    assert!(is_explained(&[call(0, 1)], 0, &reference, Ask::All));
    assert!(!is_explained(&[call(0, 2), call(1, 3)], 0, &reference, Ask::All));
}
