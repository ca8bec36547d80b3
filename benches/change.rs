//! Decisions while the quota changes a thousand times a second: `cargo bench --bench change`.
//!
//! Four threads decide on 100 000 keys, first under one quota, then while a fifth changes it across
//! six orders of magnitude. Each decision is timed by its thread's own CPU time, so that the figures
//! do not tell how many threads share a core. Each answer's parts are held against each other: a
//! `limit` of one quota with the waits of another would show. Prints a table; fails if an answer is
//! torn or if p99.9 more than doubles in the better of three runs.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use hdrhistogram::Histogram;
use tollgate::{Decision, KeyedLimiter, Quota};

const THREADS: usize = 4;
const KEYS: u64 = 100_000;
const SECONDS: u64 = 3;
const CHANGES_A_SECOND: u64 = 1_000;

/// From one a second to a million a second. A quota is known by its burst.
const QUOTAS: [Quota; 7] = [
    Quota::per_second(1).burst(10),
    Quota::per_second(10).burst(11),
    Quota::per_second(100).burst(12),
    Quota::per_second(1_000).burst(13),
    Quota::per_second(10_000).burst(14),
    Quota::per_second(100_000).burst(15),
    Quota::per_second(1_000_000).burst(16),
];

/// Deciders live this far ahead of the changer, so that no change lies in the future of a decision
/// that was interrupted: its waits would count from before the change, and look torn.
const AHEAD: Duration = Duration::from_secs(1);

/// What is owed and what is left make the burst, in tokens of one and the same quota.
fn is_torn(decision: &Decision) -> bool {
    let Some(quota) = QUOTAS.iter().find(|quota| quota.burst_size() == decision.limit()) else {
        return true;
    };
    let interval = quota.period().as_nanos() / u128::from(quota.limit());
    let reset = decision.reset_after().map_or(0, |wait| wait.as_nanos());
    let owed = reset.div_ceil(interval) as u64;
    // Carried from a quota with a larger burst, it may owe more than this one's.
    let left = quota.burst_size().saturating_sub(owed);
    decision.remaining().abs_diff(left) > 1
}

/// Up to ten seconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("bounds and digits that fit")
}

struct Outcome {
    times: Histogram<u64>,
    torn: u64,
    changes: u64,
}

fn run(changing: bool) -> Outcome {
    let builder = KeyedLimiter::<u64>::builder(QUOTAS[3]).capacity(KEYS as usize);
    let limiter = builder.build().expect("memory for the keys");
    (0..KEYS).for_each(|key| assert!(limiter.check(&key).is_allowed()));
    let (done, torn) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = histogram();
    let mut changes = 0;
    thread::scope(|scope| {
        let decide = |seed| {
            let (limiter, done, torn) = (&limiter, &done, &torn);
            scope.spawn(move || {
                let mut times = histogram();
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let key = random.u64(..KEYS);
                    let start = ThreadTime::now();
                    let now = limiter.now() + AHEAD;
                    let decision = limiter.check_at(&key, 1, now.as_nanos() as u64);
                    times.saturating_record(start.elapsed().as_nanos() as u64);
                    torn.fetch_add(u64::from(is_torn(&decision)), Ordering::Relaxed);
                }
                times
            })
        };
        let deciders: Vec<_> = (0..THREADS as u64).map(decide).collect();
        let start = Instant::now();
        let mut random = fastrand::Rng::with_seed(99);
        while start.elapsed() < Duration::from_secs(SECONDS) {
            if changing {
                limiter.set_quota(QUOTAS[random.usize(..QUOTAS.len())]).expect("a good quota");
                changes += 1;
            }
            let due = Duration::from_micros((changes + 1) * 1_000_000 / CHANGES_A_SECOND);
            let idle = if changing {
                due.saturating_sub(start.elapsed())
            } else {
                Duration::from_millis(9)
            };
            thread::sleep(idle);
        }
        done.store(true, Ordering::Relaxed);
        for decider in deciders {
            times.add(decider.join().expect("a decider")).expect("the same range");
        }
    });
    Outcome { times, torn: torn.into_inner(), changes }
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--test") {
        println!("change: run without --test, it takes twenty seconds");
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<9} {:>12} {:>9} {:>7} {:>7} {:>9} {:>9}",
        "quota", "decisions", "changes/s", "p50", "p99", "p99.9", "max (ns)"
    );
    let (mut best, mut torn) = (f64::MAX, 0);
    for _ in 0..3 {
        let pair = [run(false), run(true)];
        for (name, outcome) in ["constant", "changing"].iter().zip(&pair) {
            let at = |quantile| outcome.times.value_at_quantile(quantile);
            println!(
                "{name:<9} {:>12} {:>9} {:>7} {:>7} {:>9} {:>9}",
                outcome.times.len(),
                outcome.changes / SECONDS,
                at(0.5),
                at(0.99),
                at(0.999),
                outcome.times.max(),
            );
            torn += outcome.torn;
        }
        let [constant, changing] =
            pair.map(|outcome| outcome.times.value_at_quantile(0.999) as f64);
        best = best.min(changing / constant);
    }
    println!("torn answers: {torn}; p99.9 while changing over constant, best of three: {best:.2}");
    if torn == 0 && best <= 2.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
