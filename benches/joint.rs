//! Several limits in one call beside as many single checks: `cargo bench --bench joint`.
//!
//! Each figure is that of one request, which asks for a key of every limiter: 1 k keys in each, all
//! admitted, by the precise clock. The promise is on the ratio of `at once` to `one by one`; a third
//! of that one is a single check.

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::{Path, builder, filled, uniform};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate::{Algorithm, KeyedLimiter, Quota, check_all};

const KEYS: u64 = 1_000;

fn joint(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("joint/3 limits");
    let limiters: [KeyedLimiter<u64>; 3] = [(); 3].map(|()| filled(Path::Admitted, KEYS));
    let [one, two, three] = &limiters;
    let calls = uniform(KEYS);
    let mut at = 0;
    let mut next = || {
        // A power of two.
        at = (at + 1) & (calls.len() - 1);
        calls[at]
    };
    group.bench_function(BenchmarkId::from_parameter("a single check"), |bencher| {
        bencher.iter(|| one.check(&next()).is_allowed());
    });
    group.bench_function(BenchmarkId::from_parameter("one by one"), |bencher| {
        bencher.iter(|| {
            let key = next();
            let each = |limiter: &KeyedLimiter<u64>| limiter.check(&key).is_allowed();
            each(one) & each(two) & each(three)
        });
    });
    group.bench_function(BenchmarkId::from_parameter("at once"), |bencher| {
        bencher.iter(|| {
            let key = next();
            check_all(&mut [one.ask(&key, 1), two.ask(&key, 1), three.ask(&key, 1)]).is_allowed()
        });
    });
    group.bench_function(BenchmarkId::from_parameter("at once, all answers"), |bencher| {
        bencher.iter(|| {
            let key = next();
            let mut asks = [one.ask(&key, 1), two.ask(&key, 1), three.ask(&key, 1)];
            let decision = check_all(&mut asks);
            black_box(&asks);
            (decision.is_allowed(), decision.remaining())
        });
    });
    group.finish();
    for limiter in &limiters {
        let refused = limiter.stats().refused;
        assert_eq!(refused, 0, "the bench is of calls that are admitted");
    }
}

/// The same two in turns of a thousand requests, so that what else the machine does falls on both: the
/// median of the ratio.
fn ratio(_: &mut Criterion) {
    let fractional = Quota::per_second(999_999_999);
    ratio_of("buckets", Algorithm::TokenBucket, common::AMPLE);
    ratio_of("buckets of odd rates", Algorithm::TokenBucket, fractional);
    ratio_of("fixed windows", Algorithm::FixedWindow, common::ample(Algorithm::FixedWindow));
    ratio_of(
        "sliding logs",
        Algorithm::SlidingWindowLog,
        Quota::new(100, Duration::from_millis(2)),
    );
    ratio_of("sliding counters", Algorithm::SlidingWindowCounter, Quota::per_day(4_000_000));
}

fn ratio_of(name: &str, algorithm: Algorithm, quota: Quota) {
    const REQUESTS: u64 = 1_000;
    let turns = if common::is_test() { 3 } else { 1_001 };
    let [one, two, three]: [KeyedLimiter<u64>; 3] = [(); 3].map(|()| {
        let limiter = builder(quota, KEYS as usize).algorithm(algorithm).build();
        limiter.expect("a quota and a capacity that fit")
    });
    let calls = uniform(KEYS);
    let mut keys = calls.iter().cycle();
    let mut next = || keys.next().expect("a cycle has no end");
    let mut time = |request: &dyn Fn(&u64) -> bool| {
        let start = Instant::now();
        let admitted = (0..REQUESTS).filter(|_| request(next())).count() as u64;
        let taken = start.elapsed();
        assert_eq!(admitted, REQUESTS, "{name}");
        taken.as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..turns)
        .map(|_| {
            let each = time(&|key| {
                let each = |limiter: &KeyedLimiter<u64>| limiter.check(key).is_allowed();
                each(&one) & each(&two) & each(&three)
            });
            let all = time(&|key| {
                check_all(&mut [one.ask(key, 1), two.ask(key, 1), three.ask(key, 1)]).is_allowed()
            });
            3.0 * all / each
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("joint/3 limits at once, in turns, {name}: {:.2} single checks", ratios[turns / 2]);
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 2_000);
    targets = joint, ratio
}
criterion_main!(benches);
