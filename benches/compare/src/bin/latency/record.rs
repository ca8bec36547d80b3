//! Times of single decisions, and what is told of them.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Of one run.
#[derive(Debug)]
pub struct Times {
    wall: Histogram<u64>,
    cpu: Histogram<u64>,
}

impl Times {
    pub fn new() -> Times {
        Times { wall: histogram(), cpu: histogram() }
    }

    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let cpu = ThreadTime::now();
        let wall = Instant::now();
        let answer = call();
        let wall = wall.elapsed();
        let cpu = cpu.elapsed();
        let nanos = |time: Duration| time.as_nanos() as u64;
        self.wall.saturating_record(nanos(wall));
        self.cpu.saturating_record(nanos(cpu));
        answer
    }

    pub fn add(&mut self, other: &Times) {
        self.wall.add(&other.wall).expect("the same range");
        self.cpu.add(&other.cpu).expect("the same range");
    }
}

/// Up to a hundred seconds, to a hundredth; resident from the start, as a page that is touched for
/// the first time takes a while that would be told of the next decision.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 100_000_000_000, 2).expect("a fit range");
    (0..37).for_each(|bits| histogram.saturating_record(1 << bits));
    histogram.reset();
    histogram
}

/// What was run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub who: &'static str,
    pub keys: u64,
    pub threads: u64,
    /// What another thread did meanwhile, and how often in all runs.
    pub beside: u64,
}

/// What is told of a case by one clock, in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Row {
    pub case: &'static str,
    pub who: &'static str,
    pub clock: &'static str,
    pub keys: u64,
    pub threads: u64,
    pub beside: u64,
    pub calls: u64,
    pub p50: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    pub max: u64,
    #[serde(rename = "least max")]
    pub least_max: u64,
}

/// Picks the times by one clock.
type ByClock = fn(&Times) -> &Histogram<u64>;

/// The rows of a case: one a clock.
pub fn rows(case: &Case, runs: &[Times]) -> [Row; 2] {
    let clocks: [(&str, ByClock); 2] =
        [("wall", |times| &times.wall), ("thread CPU", |times| &times.cpu)];
    clocks.map(|(clock, of)| {
        let mut all = histogram();
        for run in runs {
            all.add(of(run)).expect("the same range");
        }
        let least_max = runs.iter().map(|run| of(run).max()).min().unwrap_or(0);
        let at = |quantile| all.value_at_quantile(quantile);
        let Case { name, who, keys, threads, beside } = *case;
        Row {
            case: name,
            who,
            clock,
            keys,
            threads,
            beside,
            calls: all.len(),
            p50: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: all.max(),
            least_max,
        }
    })
}
