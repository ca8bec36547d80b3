//! Filling: each key is asked for once, by a limiter that knows none.
//!
//! A limiter is made for each round and dropped after it, so that one at a time takes memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::contender::{Entrant, Path};
use crate::contenders;
use crate::measure::{Effort, Row, Timing, row};
use crate::progress::Progress;
use crate::workload::{Ours, Set, Way, Workload};

type Make = Box<dyn Fn() -> Entrant<u64>>;

/// Measures the fills of one set.
pub fn measure(set: Set, workloads: &[Workload], effort: Effort, bar: &Progress) -> Vec<Row> {
    bar.say(workloads[0].name);
    let mut makers: Vec<Make> = Vec::new();
    for ours in Ours::ALL {
        if workloads.iter().any(|workload| workload.ours == ours) {
            makers.push(Box::new(move || contenders::ours(ours, set.keys, set.path)));
        }
    }
    for make in contenders::GROWING {
        makers.push(Box::new(move || make(set.path)));
    }
    let mut times = vec![(Vec::new(), Vec::new()); makers.len()];
    let mut names = vec![""; makers.len()];
    for round in 0..effort.rounds {
        for turn in 0..makers.len() {
            let one = (round + turn) % makers.len();
            let (name, build, fill) = once(&makers[one], set);
            let each = |time: Duration| time.as_nanos() as f64 / set.keys as f64;
            names[one] = name;
            times[one].0.push(each(fill));
            times[one].1.push(each(build + fill));
        }
        bar.step();
    }
    let rows = workloads.iter().map(|&workload| {
        let with_build = workload.way == Way::FillAndBuild;
        let pick = |(fill, both): &(Vec<f64>, Vec<f64>)| {
            if with_build { both.clone() } else { fill.clone() }
        };
        let timings = names.iter().zip(&times);
        let mut timings: Vec<Timing> =
            timings.map(|(&name, times)| Timing { name, outcome: Ok(pick(times)) }).collect();
        timings.extend(
            contenders::NOT_FILLED
                .map(|(name, reason)| Timing { name, outcome: Err(reason.to_owned()) }),
        );
        row(workload, &timings)
    });
    rows.collect()
}

/// How long it took to make a limiter, and to fill it.
fn once(make: &Make, set: Set) -> (&'static str, Duration, Duration) {
    debug_assert_eq!(set.path, Path::Admitted, "all keys of a fill are admitted");
    let keys: Vec<u64> = (0..set.keys as u64).collect();
    let start = Instant::now();
    let entrant = make();
    let build = start.elapsed();
    let driven = entrant.contender.expect("all that are filled can be made");
    let start = Instant::now();
    let admitted = black_box(driven.straight(black_box(&keys)));
    let fill = start.elapsed();
    assert_eq!(admitted, keys.len(), "{} refused a fresh key", entrant.name);
    (entrant.name, build, fill)
}
