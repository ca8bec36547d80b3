//! Several threads on one limiter: `cargo bench --bench contention`.
//!
//! A figure is the wall time of all calls over their number, whoever made them: half of it with
//! twice the threads is perfect scaling. Threads start at a barrier; from the first start to the
//! last end is timed. The name says where there are more threads than cores.

mod common;

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::{Path, bench, filled, short, sizes, uniform};
use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use tollgate::Limiter;

const THREADS: [usize; 4] = [1, 2, 4, 8];

/// One hot key, few, many.
const KEYS: [u64; 3] = [1, 16, 1_000_000];

/// Has threads make so many calls together; `call` is given a number that no two threads share
/// at a time.
fn together(threads: usize, calls: u64, call: impl Fn(usize) -> bool + Sync) -> Duration {
    let share = calls.div_ceil(threads as u64) as usize;
    let (barrier, call) = (Barrier::new(threads), &call);
    let thread = |first: usize| {
        barrier.wait();
        let start = Instant::now();
        for number in first..first + share {
            black_box(call(number));
        }
        (start, Instant::now())
    };
    let thread = &thread;
    let spans: Vec<_> = thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || thread(index * (usize::MAX / 2 / threads))))
            .collect();
        spawned.into_iter().map(|thread| thread.join().expect("a thread that decides")).collect()
    });
    let start = spans.iter().map(|span| span.0).min().expect("a thread");
    let end = spans.iter().map(|span| span.1).max().expect("a thread");
    let made = (share * threads) as f64;
    (end - start).mul_f64(calls as f64 / made)
}

fn name(threads: usize) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let plural = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match threads > cores {
        true => format!("{} on {}", plural(threads, "thread"), plural(cores, "core")),
        false => plural(threads, "thread"),
    }
}

fn keyed(criterion: &mut Criterion) {
    for keys in sizes(&KEYS) {
        let calls = LazyCell::new(|| uniform(keys));
        let kind = match keys {
            1 => "one key".to_owned(),
            _ => format!("{} keys", short(keys)),
        };
        let mut group = criterion.benchmark_group(format!("contention/{kind}"));
        group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);
        for path in Path::BOTH {
            let limiter = LazyCell::new(|| filled(path, keys));
            for threads in THREADS {
                let id = BenchmarkId::new(path.name(), name(threads));
                bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
                    let (limiter, calls): (&_, &[u64]) = (&*limiter, &calls);
                    let call = |number: usize| {
                        // Scattered, so that threads go through the list at different places.
                        limiter.check(&calls[number & (calls.len() - 1)]).is_allowed()
                    };
                    bencher.iter_custom(|iterations| together(threads, iterations, call));
                });
            }
        }
        group.finish();
    }
}

fn one_state(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contention/one state");
    group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);
    for path in Path::BOTH {
        let limiter = Limiter::new(path.quota()).expect("a quota that fits");
        assert!(limiter.check().is_allowed());
        for threads in THREADS {
            let id = BenchmarkId::new(path.name(), name(threads));
            bench(&mut group, id, &|| limiter.stats(), path.count(), |bencher| {
                let call = |_| limiter.check().is_allowed();
                bencher.iter_custom(|iterations| together(threads, iterations, call));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = common::criterion(500, 2_000);
    targets = keyed, one_state
}
criterion_main!(benches);
