//! Nothing but new keys, in a table without a free cell: `cargo bench --bench churn`.
//!
//! All cells hold idle keys, of which each call reclaims one; or all hold live keys, and each
//! overflow policy acts. A call that asks for more than the burst is refused by the quota.

mod common;

use std::cell::LazyCell;

use common::{AMPLE, SCARCE, bench, builder, short, sizes};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{KeyedLimiter, Overflow, Quota, Stats};

/// Of capacity: in the caches, and beyond them.
const SIZES: [u64; 2] = [10_000, 1_000_000];

/// Five keys for each of capacity leave one in a hundred thousand buckets of 31 cells with room.
const FILL: u64 = 5;

struct Case {
    name: &'static str,
    quota: Quota,
    overflow: Overflow,
    cost: u64,
    count: fn(&Stats) -> u64,
}

const EVICT: Overflow = Overflow::EvictNearest;

const CASES: [Case; 5] = [
    Case {
        name: "idle, reclaimed, admitted",
        quota: AMPLE,
        overflow: EVICT,
        cost: 1,
        count: |stats| stats.reclaimed,
    },
    Case {
        name: "live, EvictNearest, admitted",
        quota: SCARCE,
        overflow: EVICT,
        cost: 1,
        count: |stats| stats.evicted,
    },
    Case {
        name: "live, Admit, admitted",
        quota: SCARCE,
        overflow: Overflow::Admit,
        cost: 1,
        count: |stats| stats.admitted_full,
    },
    Case {
        name: "live, Refuse, refused",
        quota: SCARCE,
        overflow: Overflow::Refuse,
        cost: 1,
        count: |stats| stats.refused_full,
    },
    Case {
        name: "live, above the burst, refused",
        quota: SCARCE,
        overflow: EVICT,
        cost: 2,
        count: |stats| stats.refused,
    },
];

/// A table without a free cell. The keys are counted down from the highest.
fn full(case: &Case, keys: u64) -> KeyedLimiter<u64> {
    let builder = builder(case.quota, keys as usize).overflow(case.overflow);
    let limiter = builder.build().expect("memory for the keys");
    for key in 0..FILL * keys {
        let _ = limiter.check(&(u64::MAX - key));
    }
    limiter
}

fn churn(criterion: &mut Criterion) {
    for keys in sizes(&SIZES) {
        let mut group = criterion.benchmark_group(format!("churn/{} keys", short(keys)));
        group.throughput(Throughput::Elements(1));
        for case in &CASES {
            let limiter = LazyCell::new(|| full(case, keys));
            let mut key = 0;
            let id = BenchmarkId::from_parameter(case.name);
            bench(&mut group, id, &|| limiter.stats(), case.count, |bencher| {
                let limiter = &*limiter;
                bencher.iter(|| {
                    key += 1;
                    limiter.check_n(&key, case.cost).is_allowed()
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 2_000);
    targets = churn
}
criterion_main!(benches);
