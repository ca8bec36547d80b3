//! What goes on while decisions are timed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::Quota;

use crate::Options;
use crate::limiters::{
    AMPLE, Limits, ample_governor, ample_ours, filled, slow_governor, slow_ours,
};
use crate::record::{Case, Row, Times, rows};

const OURS: &str = "tollgate";
const GOVERNOR: &str = "governor";

/// Keys of the cases that are not about a large table.
const FEW: u64 = 100_000;

/// Between two sweeps.
const SWEEP: Duration = Duration::from_millis(250);

/// Between two changes of quota.
const CHANGE: Duration = Duration::from_millis(3);

/// Counted in nanoseconds as well.
const SAME_UNITS: Quota = Quota::per_second(2 * AMPLE as u64);
/// Too many for nanoseconds: every key's word is translated.
const OTHER_UNITS: Quota = Quota::per_second(12_500_000_000);

/// The timers around nothing.
pub fn timers(options: &Options) -> Vec<Row> {
    let run = || {
        let mut times = Times::new();
        (0..1_000_000).for_each(|_| times.time(|| ()));
        times
    };
    let runs: Vec<_> = (0..options.runs).map(|_| run()).collect();
    let case = Case { name: "timers alone", who: "-", keys: 0, threads: 1, beside: 0 };
    rows(&case, &runs).into()
}

/// New keys only, from none to as many as there are to be.
pub fn fill(options: &Options) -> Vec<Row> {
    let keys = options.keys;
    let fill = |limiter: &dyn Limits| {
        let mut times = Times::new();
        (0..keys).for_each(|key| assert!(times.time(|| limiter.admits(key)), "a new key"));
        times
    };
    let (mut by_ours, mut by_governor) = (Vec::new(), Vec::new());
    for run in 1..=options.runs {
        eprintln!("fill, run {run} of {}", options.runs);
        by_ours.push(fill(&slow_ours(keys)));
        by_governor.push(fill(&slow_governor()));
    }
    let case = |who| Case { name: "fill", who, keys, threads: 1, beside: 0 };
    rows(&case(OURS), &by_ours).into_iter().chain(rows(&case(GOVERNOR), &by_governor)).collect()
}

/// Known keys, while another thread takes away those that are idle; we have no such thread, and
/// what is idle stays until its place is needed.
pub fn sweep(options: &Options) -> Vec<Row> {
    let keys = options.keys;
    let load = Load { keys, threads: 1, every: SWEEP, untimed: 0 };
    let case = |name, who| Case { name, who, keys, threads: 1, beside: 0 };
    let ours = filled(slow_ours(keys), keys);
    let mut all = load.runs(options, case("no sweep", OURS), &ours, None);
    drop(ours);
    let governor = filled(slow_governor(), keys);
    let disturb: &dyn Fn(u64) = &|_| governor.retain_recent();
    all.extend(load.runs(options, case("sweep", GOVERNOR), &governor, Some(disturb)));
    all
}

/// Known keys, while another thread changes the quota, which governor's limiters cannot.
pub fn change(options: &Options) -> Vec<Row> {
    let mut all = Vec::new();
    let mut sizes = vec![FEW.min(options.keys), options.keys];
    sizes.dedup();
    for keys in sizes {
        let load = Load { keys, threads: 1, every: CHANGE, untimed: 0 };
        let case = |name, who| Case { name, who, keys, threads: 1, beside: 0 };
        let ours = ample_ours(keys);
        let base = Quota::per_second(AMPLE.into());
        all.extend(load.runs(options, case("constant quota", OURS), &ours, None));
        for (name, other) in
            [("change, same units", SAME_UNITS), ("change, other units", OTHER_UNITS)]
        {
            let disturb: &dyn Fn(u64) = &|count| {
                let quota = if count % 2 == 0 { other } else { base };
                ours.set_quota(quota).expect("a quota that fits");
            };
            all.extend(load.runs(options, case(name, OURS), &ours, Some(disturb)));
            ours.set_quota(base).expect("a quota that fits");
        }
        drop(ours);
        let governor = ample_governor(keys);
        all.extend(load.runs(options, case("constant quota", GOVERNOR), &governor, None));
    }
    all
}

/// Known keys by four threads a core, so that they are stopped inside of calls. Few calls are
/// timed, so that most of a thread's time is spent in calls.
pub fn preempted(options: &Options) -> Vec<Row> {
    let keys = FEW.min(options.keys);
    let threads = 4 * thread::available_parallelism().map_or(1, usize::from) as u64;
    let load = Load { keys, threads, every: SWEEP, untimed: 15 };
    let case = |who| Case { name: "preempted", who, keys, threads, beside: 0 };
    let mut all = load.runs(options, case(OURS), &ample_ours(keys), None);
    all.extend(load.runs(options, case(GOVERNOR), &ample_governor(keys), None));
    all
}

/// Calls on random known keys, and how often something is done beside them.
struct Load {
    keys: u64,
    threads: u64,
    every: Duration,
    /// Calls that are not timed, after each that is.
    untimed: usize,
}

impl Load {
    fn runs(
        &self,
        options: &Options,
        mut case: Case,
        limiter: &impl Limits,
        disturb: Option<&dyn Fn(u64)>,
    ) -> Vec<Row> {
        eprintln!("{}, {}, {} keys", case.name, case.who, case.keys);
        let mut run = || self.run(options.lasting, limiter, disturb, &mut case.beside);
        let runs: Vec<_> = (0..options.runs).map(|_| run()).collect();
        rows(&case, &runs).into()
    }

    /// One run; `beside` counts what was done beside it.
    fn run(
        &self,
        lasting: Duration,
        limiter: &impl Limits,
        disturb: Option<&dyn Fn(u64)>,
        beside: &mut u64,
    ) -> Times {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let spawn = |seed| {
                scope.spawn({
                    let done = &done;
                    move || self.decide(limiter, seed, done)
                })
            };
            let deciders: Vec<_> = (0..self.threads).map(spawn).collect();
            let start = Instant::now();
            while let Some(left) = lasting.checked_sub(start.elapsed()) {
                let Some(disturb) = disturb else {
                    thread::sleep(left);
                    continue;
                };
                disturb(*beside);
                *beside += 1;
                thread::sleep(self.every.min(left));
            }
            done.store(true, Ordering::Relaxed);
            let mut times = Times::new();
            for decider in deciders {
                times.add(&decider.join().expect("a thread that decides"));
            }
            times
        })
    }

    fn decide(&self, limiter: &impl Limits, seed: u64, done: &AtomicBool) -> Times {
        let mut times = Times::new();
        let mut random = fastrand::Rng::with_seed(seed);
        while !done.load(Ordering::Relaxed) {
            let key = random.u64(..self.keys);
            assert!(times.time(|| limiter.admits(key)), "the quota is ample");
            for _ in 0..self.untimed {
                assert!(limiter.admits(random.u64(..self.keys)), "the quota is ample");
            }
        }
        times
    }
}
