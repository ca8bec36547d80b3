//! Decisions in batches, `check_many`: `cargo bench --bench batch`.
//!
//! Figures are of a batch; the throughput is of its calls, to be held against batches of 1.

mod common;

use std::cell::LazyCell;
use std::hint::black_box;

use common::{Path, bench, filled, short, sizes, uniform};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::Decision;

const BATCHES: [usize; 5] = [1, 8, 16, 32, 64];
const SIZES: [u64; 3] = [1_000, 1_000_000, 10_000_000];

fn batch(criterion: &mut Criterion) {
    for keys in sizes(&SIZES) {
        let calls = LazyCell::new(|| uniform(keys));
        let mut group = criterion.benchmark_group(format!("batch/{} keys", short(keys)));
        for path in Path::BOTH {
            let limiter = LazyCell::new(|| filled(path, keys));
            for size in BATCHES {
                group.throughput(Throughput::Elements(size as u64));
                let id = BenchmarkId::new(path.name(), size);
                let mut decisions = vec![Decision::default(); size];
                let mut at = 0;
                bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
                    let (limiter, calls): (&_, &[u64]) = (&*limiter, &calls);
                    bencher.iter(|| {
                        // Both are powers of two, so that a batch never goes past the end.
                        at = (at + size) & (calls.len() - 1);
                        let decided = limiter.check_many(&calls[at..][..size], &mut decisions);
                        black_box(&decisions);
                        decided
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 2_000);
    targets = batch
}
criterion_main!(benches);
