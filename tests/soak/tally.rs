//! Counts, times and sizes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::known::Fault;

/// What all threads have done in a segment. Read at any time, also when a thread hangs.
#[derive(Debug, Default)]
pub struct Tally {
    pub rounds: AtomicU64,
    pub keys: AtomicU64,
    pub decisions: AtomicU64,
    pub admitted: AtomicU64,
    pub full: AtomicU64,
    pub judged: AtomicU64,
    pub changes: AtomicU64,
    pub clock_steps: AtomicU64,
    pub over_admissions: AtomicU64,
    pub wrong_refusals: AtomicU64,
    pub wrong_figures: AtomicU64,
    /// The first faults, in full.
    pub faults: Mutex<Vec<String>>,
    pub times: Mutex<Times>,
}

/// One thread's part of a round.
#[derive(Debug, Default)]
pub struct Part {
    pub keys: u64,
    pub decisions: u64,
    pub admitted: u64,
    pub full: u64,
    pub judged: u64,
    pub clock_steps: u64,
}

/// How many faults are told in full.
const FAULTS: usize = 3;

impl Tally {
    pub fn add(&self, part: &Part) {
        let Part { keys, decisions, admitted, full, judged, clock_steps } = *part;
        let sums = [
            (&self.keys, keys),
            (&self.decisions, decisions),
            (&self.admitted, admitted),
            (&self.full, full),
            (&self.judged, judged),
            (&self.clock_steps, clock_steps),
        ];
        for (sum, part) in sums {
            sum.fetch_add(part, Ordering::Relaxed);
        }
    }

    pub fn fault(&self, fault: Fault, told: impl FnOnce() -> String) {
        let count = match fault {
            Fault::OverAdmission => &self.over_admissions,
            Fault::WrongRefusal => &self.wrong_refusals,
            Fault::WrongFigure => &self.wrong_figures,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < FAULTS {
            faults.push(format!("{fault:?}: {}", told()));
        }
    }

    pub fn faults(&self) -> u64 {
        let counts = [&self.over_admissions, &self.wrong_refusals, &self.wrong_figures, &self.full];
        counts.into_iter().map(get).sum()
    }
}

pub fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Nanoseconds of single decisions.
#[derive(Debug)]
pub struct Times {
    /// Of keys that were never seen, by the wall clock.
    pub new: Histogram<u64>,
    /// Of keys that all threads call, by the wall clock.
    pub known: Histogram<u64>,
    /// Of some that were never seen, by the thread's own CPU time.
    pub new_cpu: Histogram<u64>,
}

impl Default for Times {
    fn default() -> Times {
        Times { new: histogram(), known: histogram(), new_cpu: histogram() }
    }
}

impl Times {
    pub fn add(&mut self, other: &Times) {
        let Times { new, known, new_cpu } = other;
        let pairs = [(&mut self.new, new), (&mut self.known, known), (&mut self.new_cpu, new_cpu)];
        for (all, one) in pairs {
            all.add(one).expect("the same range");
        }
    }

    pub fn clear(&mut self) {
        self.new.reset();
        self.known.reset();
        self.new_cpu.reset();
    }
}

pub fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(time.as_nanos() as u64);
}

/// Up to a hundred seconds, to a hundredth: small enough to be resident from the start.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 100_000_000_000, 2).expect("a fit range");
    (0..37).for_each(|bits| histogram.saturating_record(1 << bits));
    histogram.reset();
    histogram
}

/// Resident bytes of this process, where that can be told.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// How the resident size went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub start: u64,
    pub peak: u64,
    pub end: u64,
}

/// What the process itself may wobble: threads' stacks and its allocator's arenas.
const SLACK: u64 = 2 << 20;

impl Sizes {
    pub fn add(&mut self, resident: u64) {
        if self.start == 0 {
            self.start = resident;
        }
        self.peak = self.peak.max(resident);
        self.end = resident;
    }

    /// Whether it was looked at, and stayed.
    pub fn is_flat(&self) -> bool {
        let is_told = self.start > 0 || cfg!(not(target_os = "linux"));
        is_told && self.peak <= self.start + SLACK
    }
}
