//! What the benches share: quotas, tables, lists of calls, and a look at whether the calls were
//! answered as a bench's name has it.

#![allow(dead_code, reason = "each bench uses a part of it")]

use std::hash::Hash;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{Bencher, BenchmarkGroup, BenchmarkId, Criterion};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use tollgate::{Algorithm, KeyedBuilder, KeyedLimiter, Quota, Stats};

/// Never used up by a bench.
pub(crate) const AMPLE: Quota = Quota::per_second(1_000_000_000);

/// Used up by the first call, for longer than a bench.
pub(crate) const SCARCE: Quota = Quota::per_day(1);

/// The answer that all calls of a bench get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Admitted,
    Refused,
}

impl Path {
    pub(crate) const BOTH: [Path; 2] = [Path::Admitted, Path::Refused];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Path::Admitted => "admitted",
            Path::Refused => "refused",
        }
    }

    /// The quota under which all calls on known keys are answered so.
    pub(crate) fn quota(self) -> Quota {
        match self {
            Path::Admitted => AMPLE,
            Path::Refused => SCARCE,
        }
    }

    /// How many calls were answered so.
    pub(crate) fn count(self) -> fn(&Stats) -> u64 {
        match self {
            Path::Admitted => |stats| stats.admitted,
            Path::Refused => |stats| stats.refused,
        }
    }
}

/// As much as the algorithm counts. Of a log's hundred about half is in sight.
pub(crate) fn ample(algorithm: Algorithm) -> Quota {
    match algorithm {
        Algorithm::FixedWindow => Quota::per_second(500_000_000),
        Algorithm::SlidingWindowCounter => Quota::per_second(16_384),
        Algorithm::SlidingWindowLog => Quota::new(100, Duration::from_millis(20)),
        _ => AMPLE,
    }
}

/// Times without plots. Few resamples: the figures are read to a tenth, not to a thousandth.
pub(crate) fn criterion(warm_up: u64, measurement: u64) -> Criterion {
    Criterion::default()
        .without_plots()
        .sample_size(20)
        .nresamples(10_000)
        .warm_up_time(Duration::from_millis(warm_up))
        .measurement_time(Duration::from_millis(measurement))
}

/// Whether each bench is run once only, to see that it runs.
pub(crate) fn is_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// The numbers of keys to go through; the large ones take too long to fill for a test.
pub(crate) fn sizes(all: &[u64]) -> Vec<u64> {
    all.iter().copied().filter(|&keys| keys <= 10_000 || !is_test()).collect()
}

/// A number of keys in few letters.
pub(crate) fn short(keys: u64) -> String {
    match keys {
        1_000_000.. => format!("{} M", keys / 1_000_000),
        1_000.. => format!("{} k", keys / 1_000),
        _ => keys.to_string(),
    }
}

/// The same in every run.
pub(crate) fn builder<K: Hash + ?Sized + 'static>(quota: Quota, keys: usize) -> KeyedBuilder<K> {
    KeyedLimiter::builder(quota).capacity(keys).seed(1)
}

/// A table that holds the keys below `keys`, and answers all further calls the same way.
pub(crate) fn filled(path: Path, keys: u64) -> KeyedLimiter<u64> {
    let limiter = builder(path.quota(), keys as usize).build().expect("memory for the keys");
    (0..keys).for_each(|key| assert!(limiter.check(&key).is_allowed()));
    limiter
}

/// How many calls a list has: a power of two, and more than one a key unless memory would go to
/// the list rather than to the table.
fn calls(keys: u64) -> usize {
    (4 * keys as usize).next_power_of_two().clamp(1 << 16, 1 << 22)
}

/// Calls on keys that are all as likely.
pub(crate) fn uniform(keys: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..calls(keys)).map(|_| random.u64(..keys)).collect()
}

/// Calls on keys of which a few are called most: the k-th as often as `k^-0.99`.
pub(crate) fn zipf(keys: u64) -> Vec<u64> {
    let random = SmallRng::seed_from_u64(7);
    let ranks = Zipf::new(keys as f64, 0.99).expect("a Zipf distribution");
    ranks.sample_iter(random).take(calls(keys)).map(|rank| rank as u64 - 1).collect()
}

/// Runs a bench, and says on stderr if its calls were not counted as its name has it: one in a
/// thousand may differ.
pub(crate) fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    stats: &dyn Fn() -> Stats,
    count: fn(&Stats) -> u64,
    mut run: impl FnMut(&mut Bencher<'_>),
) {
    let mut before = None;
    group.bench_function(id, |bencher| {
        before.get_or_insert_with(stats);
        run(bencher);
    });
    let Some(before) = before else { return };
    let decisions =
        |stats: &Stats| stats.admitted + stats.refused + stats.admitted_full + stats.refused_full;
    let after = stats();
    let (all, right) = (decisions(&after) - decisions(&before), count(&after) - count(&before));
    if all - right.min(all) > all / 1_000 {
        eprintln!("warning: of the {all} calls above {right} were what the name says");
    }
}
