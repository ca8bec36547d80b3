//! tollgate beside governor, interleaved in one run.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- [KEYS...]
//! ```
//!
//! Random u64 keys, one thread, admitted calls, the real clocks. Each figure is the median of five
//! rounds in which all take turns. A `ratio` is governor's time over ours.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tollgate::{Clock, Decision, KeyedLimiter, Quota};

const ROUNDS: usize = 5;
const CALLS: usize = 4_000_000;
/// Tokens a second: never used up here.
const AMPLE: u32 = 1_000_000;

fn main() {
    let named: Vec<usize> =
        std::env::args().skip(1).map(|keys| keys.parse().expect("a number of keys")).collect();
    let sizes = if named.is_empty() { vec![1_000, 100_000, 1_000_000, 10_000_000] } else { named };
    let (clock, handle) = Clock::coarse(Duration::from_micros(500)).expect("the only coarse clock");
    println!("{:>10}  {:<16} {:>8}  {:>6}", "keys", "who", "ns", "ratio");
    for keys in sizes {
        let results = measure(keys, &clock);
        let governor = results[0].1;
        for (name, nanos) in results {
            println!("{keys:>10}  {name:<16} {nanos:>8.1}  {:>6.2}", governor / nanos);
        }
        println!();
    }
    drop(handle);
}

/// Nanoseconds a decision of each.
fn measure(keys: usize, clock: &Clock) -> Vec<(&'static str, f64)> {
    let mut random = fastrand::Rng::with_seed(7);
    let calls: Vec<u64> = (0..CALLS).map(|_| random.u64(..keys as u64)).collect();
    let quota = NonZeroU32::new(AMPLE).expect("not zero");
    let governor: DefaultKeyedRateLimiter<u64> =
        RateLimiter::keyed(governor::Quota::per_second(quota));
    let build = |clock: Clock| -> KeyedLimiter<u64> {
        let builder = KeyedLimiter::builder(Quota::per_second(AMPLE.into()));
        builder.capacity(keys).clock(clock).build().expect("memory for the keys")
    };
    let (precise, coarse) = (build(Clock::precise()), build(clock.clone()));
    for key in 0..keys as u64 {
        assert!(governor.check_key(&key).is_ok());
        assert!(precise.check(&key).is_allowed() && coarse.check(&key).is_allowed());
    }

    let batch = || {
        let mut decisions = [Decision::default(); 32];
        let mut admitted = 0;
        for calls in calls.chunks(32) {
            let decided = precise.check_many(calls, &mut decisions);
            admitted += decisions[..decided].iter().filter(|one| one.is_allowed()).count();
        }
        admitted
    };
    let by_governor = || calls.iter().filter(|key| governor.check_key(key).is_ok()).count();
    let contestants: [(&str, &dyn Fn() -> usize); 4] = [
        ("governor", &by_governor),
        ("precise clock", &|| calls.iter().filter(|key| precise.check(key).is_allowed()).count()),
        ("coarse clock", &|| calls.iter().filter(|key| coarse.check(key).is_allowed()).count()),
        ("batch of 32", &batch),
    ];
    let mut times = vec![Vec::new(); contestants.len()];
    for _ in 0..ROUNDS {
        for (times, (name, run)) in times.iter_mut().zip(&contestants) {
            let start = Instant::now();
            assert_eq!(run(), CALLS, "{name} refused a call");
            times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    contestants.iter().zip(times).map(|((name, _), times)| (*name, median(times))).collect()
}
