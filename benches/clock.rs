//! The clocks, alone and with a decision: `cargo bench --bench clock`.
//!
//! Alone is `KeyedLimiter::now`, whose `Duration` takes a division by a constant. The system's own
//! clock is there to be compared with. Decisions are on a thousand keys.

mod common;

use std::time::{Duration, Instant};

use common::{Path, bench, builder};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{Clock, KeyedLimiter};

const KEYS: u64 = 1_000;

fn clocks(criterion: &mut Criterion) {
    let coarse = Clock::coarse(Duration::from_micros(500));
    if let Err(error) = &coarse {
        eprintln!("no coarse clock here: {error}");
    }
    let (coarse, handle) = coarse.ok().unzip();
    let (manual, _time) = Clock::manual();
    let clocks =
        [("precise", Some(Clock::precise())), ("coarse", coarse), ("manual", Some(manual))];
    let mut group = criterion.benchmark_group("clock");
    group.throughput(Throughput::Elements(1));
    group.bench_function("alone/system", |bencher| bencher.iter(Instant::now));
    let calls = common::uniform(KEYS);
    for (name, clock) in clocks {
        let Some(clock) = clock else { continue };
        for path in Path::BOTH {
            let limiter: KeyedLimiter<u64> = builder(path.quota(), KEYS as usize)
                .clock(clock.clone())
                .build()
                .expect("memory for the keys");
            if path == Path::Admitted {
                group.bench_function(BenchmarkId::new("alone", name), |bencher| {
                    bencher.iter(|| limiter.now());
                });
            }
            assert!((0..KEYS).all(|key| limiter.check(&key).is_allowed()));
            let mut calls = calls.iter().cycle();
            let id = BenchmarkId::new(path.name(), name);
            bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
                let mut call = || calls.next().expect("a cycle has no end");
                bencher.iter(|| limiter.check(call()).is_allowed());
            });
        }
    }
    group.finish();
    drop(handle);
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 1_500);
    targets = clocks
}
criterion_main!(benches);
