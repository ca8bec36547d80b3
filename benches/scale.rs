//! Decisions by the number of keys in the table: `cargo bench --bench scale`.
//!
//! All keys as likely, or by a Zipf distribution of exponent 0.99. *Throughput* is of calls that do
//! not wait for one another, so that the processor overlaps their cache misses. In a *chain* the
//! next key depends on what the last answer said, which is the time from a key to its answer, and
//! holds the division in `Decision::remaining` as well.

mod common;

use std::cell::LazyCell;

use common::{Path, bench, filled, short, sizes};
use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::KeyedLimiter;

const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Makes the list of calls on so many keys.
type Spread = fn(u64) -> Vec<u64>;

type Run = fn(&mut Bencher<'_>, &KeyedLimiter<u64>, &[u64], &mut usize);

fn throughput(
    bencher: &mut Bencher<'_>,
    limiter: &KeyedLimiter<u64>,
    calls: &[u64],
    at: &mut usize,
) {
    let mask = calls.len() - 1;
    bencher.iter(|| {
        *at = (*at + 1) & mask;
        limiter.check(&calls[*at]).is_allowed()
    });
}

fn chain(bencher: &mut Bencher<'_>, limiter: &KeyedLimiter<u64>, calls: &[u64], at: &mut usize) {
    let mask = calls.len() - 1;
    bencher.iter(|| {
        let decision = limiter.check(&calls[*at]);
        // Always 0. Whether a call is allowed would not do, as the processor foresees it.
        let none = (decision.remaining() >> 63) as usize;
        *at = (*at + 1 + none) & mask;
        decision.is_allowed()
    });
}

fn scale(criterion: &mut Criterion) {
    let runs: [(&str, Run); 2] = [("throughput", throughput), ("chain", chain)];
    let spreads: [(&str, Spread); 2] = [("uniform", common::uniform), ("Zipf 0.99", common::zipf)];
    for keys in sizes(&SIZES) {
        let spreads = spreads.map(|(name, calls)| (name, LazyCell::new(move || calls(keys))));
        for path in Path::BOTH {
            let limiter = LazyCell::new(|| filled(path, keys));
            for (name, run) in runs {
                let mut group = criterion.benchmark_group(format!("scale/{name}"));
                group.throughput(Throughput::Elements(1));
                for (spread, calls) in &spreads {
                    let id = BenchmarkId::new(format!("{spread} {}", path.name()), short(keys));
                    let mut at = 0;
                    bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
                        run(bencher, &limiter, calls, &mut at);
                    });
                }
                group.finish();
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = common::criterion(1_000, 2_000);
    targets = scale
}
criterion_main!(benches);
