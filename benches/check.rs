//! One decision at a time, on a table that fits the caches: `cargo bench --bench check`.
//!
//! By kind of key and by algorithm: a hit is an admitted call on a known key, a miss is the first
//! call of a new key in a table with room, and a refused call is on a known key. The clock is the
//! real one.

mod common;

use std::borrow::Borrow;
use std::cell::LazyCell;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use common::{Path, ample, bench, builder};
use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{Algorithm, KeyedLimiter, Limiter};

const KEYS: u64 = 10_000;

/// Numbers as many as there are keys, in no order.
fn shuffled() -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..KEYS).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut numbers);
    numbers
}

fn numbers(criterion: &mut Criterion) {
    by_algorithm::<u64, u64>(criterion, "u64", &shuffled());
}

fn addresses(criterion: &mut Criterion) {
    let address = |number: u64| IpAddr::V6(Ipv6Addr::from(u128::from(number) << 64 | 1));
    let addresses: Vec<IpAddr> = shuffled().into_iter().map(address).collect();
    by_algorithm::<IpAddr, IpAddr>(criterion, "IPv6 address", &addresses);
}

fn strings(criterion: &mut Criterion) {
    let names: Vec<String> =
        shuffled().into_iter().map(|number| format!("user-{number:019}")).collect();
    by_algorithm::<str, String>(criterion, "24-character string", &names);
}

fn by_algorithm<K: Hash + ?Sized + 'static, Q: Borrow<K>>(
    criterion: &mut Criterion,
    kind: &str,
    keys: &[Q],
) {
    let mut group = criterion.benchmark_group(format!("check/{kind}"));
    group.throughput(Throughput::Elements(1));
    for algorithm in Algorithm::ALL {
        let id = |name| BenchmarkId::new(name, format!("{algorithm:?}"));
        for (name, path) in [("hit", Path::Admitted), ("refused", Path::Refused)] {
            let limiter = LazyCell::new(|| {
                let limiter = table(path, algorithm);
                assert!(keys.iter().all(|key| limiter.check(key.borrow()).is_allowed()));
                limiter
            });
            let mut calls = keys.iter().cycle();
            bench(&mut group, id(name), &|| limiter.stats(), path.count(), |bencher| {
                let limiter: &KeyedLimiter<K> = &limiter;
                let mut call = || calls.next().expect("a cycle has no end").borrow();
                bencher.iter(|| limiter.check(call()).is_allowed());
            });
        }
        group.bench_function(id("miss"), |bencher| miss(bencher, algorithm, keys));
    }
    group.finish();
}

fn table<K: Hash + ?Sized + 'static>(path: Path, algorithm: Algorithm) -> KeyedLimiter<K> {
    let quota = match path {
        Path::Admitted => ample(algorithm),
        Path::Refused => path.quota(),
    };
    let builder = builder(quota, KEYS as usize).algorithm(algorithm);
    builder.build().expect("a quota and a capacity that fit")
}

/// Fills tables one after another; building them is not timed.
fn miss<K: Hash + ?Sized + 'static, Q: Borrow<K>>(
    bencher: &mut Bencher<'_>,
    algorithm: Algorithm,
    keys: &[Q],
) {
    bencher.iter_custom(|calls| {
        let (mut left, mut taken) = (calls as usize, Duration::ZERO);
        while left > 0 {
            let limiter = table::<K>(Path::Admitted, algorithm);
            let keys = &keys[..keys.len().min(left)];
            let start = Instant::now();
            let admitted = keys.iter().filter(|key| limiter.check((*key).borrow()).is_allowed());
            let admitted = admitted.count();
            taken += start.elapsed();
            assert_eq!(admitted, keys.len(), "new keys are admitted");
            left -= keys.len();
        }
        taken
    });
}

fn one_state(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check/one state");
    group.throughput(Throughput::Elements(1));
    for path in Path::BOTH {
        let limiter = Limiter::new(path.quota()).expect("a quota that fits");
        assert!(limiter.check().is_allowed());
        let id = BenchmarkId::from_parameter(path.name());
        bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
            bencher.iter(|| limiter.check().is_allowed());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 1_500);
    targets = numbers, addresses, strings, one_state
}
criterion_main!(benches);
