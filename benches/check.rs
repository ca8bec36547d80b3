//! One decision at a time: `cargo bench --bench check`.
//!
//! Admitted and refused calls apart, by key type and by algorithm, on tables that fit the caches
//! and one that does not. The clock is the real one.

use std::hash::Hash;
use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{Algorithm, KeyedLimiter, Limiter, Quota};

/// Never used up by a bench.
const AMPLE: Quota = Quota::per_second(1_000_000_000);
/// As much as the algorithm counts. A log of 100 has about half of it in sight then.
fn ample(algorithm: Algorithm) -> Quota {
    match algorithm {
        Algorithm::FixedWindow => Quota::per_second(500_000_000),
        Algorithm::SlidingWindowCounter => Quota::per_second(16_384),
        Algorithm::SlidingWindowLog => Quota::new(100, Duration::from_millis(2)),
        _ => AMPLE,
    }
}

/// Used up by the first call, for longer than a bench.
const SCARCE: Quota = Quota::per_day(1);

fn table<K: Hash + ?Sized + 'static>(
    quota: Quota,
    algorithm: Algorithm,
    keys: usize,
) -> KeyedLimiter<K> {
    let builder = KeyedLimiter::builder(quota).algorithm(algorithm).capacity(keys).seed(1);
    builder.build().expect("a quota and a capacity that fit")
}

fn by_algorithm(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check/1k u64");
    group.throughput(Throughput::Elements(1));
    for algorithm in Algorithm::ALL {
        for (name, quota) in [("admitted", ample(algorithm)), ("refused", SCARCE)] {
            let limiter = table::<u64>(quota, algorithm, 1_000);
            let mut random = fastrand::Rng::with_seed(7);
            (0..1_000).for_each(|key| {
                let _ = black_box(limiter.check(&key));
            });
            group.bench_function(BenchmarkId::new(name, format!("{algorithm:?}")), |bencher| {
                bencher.iter(|| limiter.check(&random.u64(..1_000)).is_allowed());
            });
        }
    }
    group.finish();
}

fn by_key(criterion: &mut Criterion) {
    let keys = 100_000;
    let mut group = criterion.benchmark_group("check/100k");
    group.throughput(Throughput::Elements(1));
    let mut random = fastrand::Rng::with_seed(7);
    let numbers = table::<u64>(AMPLE, Algorithm::TokenBucket, keys);
    group.bench_function("u64", |bencher| {
        bencher.iter(|| numbers.check(&random.u64(..keys as u64)).is_allowed());
    });
    let addresses: Vec<IpAddr> =
        (0..keys).map(|key| IpAddr::V6(Ipv6Addr::from((key as u128) << 64 | 1))).collect();
    let by_address = table::<IpAddr>(AMPLE, Algorithm::TokenBucket, keys);
    group.bench_function("IPv6 address", |bencher| {
        bencher.iter(|| by_address.check(&addresses[random.usize(..keys)]).is_allowed());
    });
    let names: Vec<String> = (0..keys).map(|key| format!("user-{key:019}")).collect();
    let by_name = table::<str>(AMPLE, Algorithm::TokenBucket, keys);
    group.bench_function("24-character string", |bencher| {
        bencher.iter(|| by_name.check(&names[random.usize(..keys)]).is_allowed());
    });
    group.finish();
}

fn one_state(criterion: &mut Criterion) {
    let limiter = Limiter::new(AMPLE).expect("a quota that fits");
    criterion.bench_function("check/one state", |bencher| {
        bencher.iter(|| limiter.check().is_allowed());
    });
}

criterion_group!(benches, by_algorithm, by_key, one_state);
criterion_main!(benches);
