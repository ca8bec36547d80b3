//! Measuring: contenders take turns, a slice of calls each, for some rounds.

use std::sync::Barrier;
use std::time::Instant;

use crate::contender::{Driven, Entrant, Key, Path};
use crate::contenders::{self, BESIDE_COARSE, UPKEEP};
use crate::progress::Progress;
use crate::workload::{Kind, Ours, Set, Way, Workload, calls};

/// Keys that are made at a time before all have been asked for once.
const CHUNK: usize = 1 << 16;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub rounds: usize,
    /// Calls a slice.
    pub calls: usize,
}

/// What became of a contender in one workload: nanoseconds a call for each round, or the reason
/// for which there are none.
pub type Outcome = Result<Vec<f64>, String>;

/// One contender's outcome.
#[derive(Clone, Debug)]
pub struct Timing {
    pub name: &'static str,
    pub outcome: Outcome,
}

/// One workload's outcome.
#[derive(Clone, Debug)]
pub struct Row {
    pub workload: Workload,
    pub ours: Outcome,
    pub peers: Vec<Timing>,
}

/// How often [`measure`] says that it has done a step.
pub fn steps(workloads: impl Iterator<Item = Workload>, effort: Effort) -> u64 {
    let workloads: Vec<Workload> = workloads.collect();
    let is_asked = workloads.iter().any(|one| !one.way.is_fill());
    let ways = workloads.chunk_by(|one, next| shares(one.way, next.way)).count();
    (ways * effort.rounds + usize::from(is_asked)) as u64
}

/// Whether one measurement serves both.
fn shares(one: Way, other: Way) -> bool {
    one == other || (one.is_fill() && other.is_fill())
}

/// Measures the workloads of one set.
pub fn measure(set: Set, workloads: &[Workload], effort: Effort, bar: &Progress) -> Vec<Row> {
    let (fills, others): (Vec<_>, Vec<_>) =
        workloads.iter().copied().partition(|workload| workload.way.is_fill());
    let mut rows = match set.kind {
        _ if others.is_empty() => Vec::new(),
        Kind::Number => on_keys::<u64>(set, &others, effort, bar),
        Kind::Address => on_keys::<std::net::IpAddr>(set, &others, effort, bar),
        Kind::Text => on_keys::<String>(set, &others, effort, bar),
        Kind::OneState => {
            let entrants = contenders::one_state(set.path);
            on(&entrants, set, &others, effort, bar)
        }
    };
    if !fills.is_empty() {
        rows.extend(crate::fill::measure(set, &fills, effort, bar));
    }
    rows
}

/// Workloads on limiters of many keys.
fn on_keys<K: Key>(set: Set, workloads: &[Workload], effort: Effort, bar: &Progress) -> Vec<Row> {
    let is_asked = |ours| workloads.iter().any(|one| one.ours == ours);
    let asked = Ours::ALL.into_iter().filter(|&ours| is_asked(ours));
    let mut entrants: Vec<Entrant<K>> =
        asked.map(|ours| contenders::ours(ours, set.keys, set.path)).collect();
    entrants.extend(contenders::keyed(set.keys, set.path, is_asked(Ours::Coarse)));
    on(&entrants, set, workloads, effort, bar)
}

/// Workloads on contenders that know no key yet.
fn on<K: Key>(
    entrants: &[Entrant<K>],
    set: Set,
    workloads: &[Workload],
    effort: Effort,
    bar: &Progress,
) -> Vec<Row> {
    bar.say(workloads[0].name);
    for driven in entrants.iter().filter_map(|one| one.contender.as_deref().ok()) {
        for first in (0..set.keys as u64).step_by(CHUNK) {
            let last = (set.keys as u64).min(first + CHUNK as u64);
            let keys: Vec<K> = (first..last).map(K::from_number).collect();
            driven.straight(&keys);
        }
    }
    bar.step();
    let mut rows = Vec::new();
    for of_way in workloads.chunk_by(|one, next| one.way == next.way) {
        bar.say(of_way[0].name);
        let timings = take_turns(entrants, set, of_way[0].way, effort, bar);
        rows.extend(of_way.iter().map(|&workload| row(workload, &timings)));
    }
    rows
}

/// A workload's row out of a measurement that others share.
pub fn row(workload: Workload, timings: &[Timing]) -> Row {
    let (ours, mut peers): (Vec<Timing>, Vec<Timing>) = timings
        .iter()
        .cloned()
        .partition(|timing| Ours::ALL.iter().any(|ours| ours.name() == timing.name));
    let ours = ours.into_iter().find(|timing| timing.name == workload.ours.name());
    if workload.ours != Ours::Coarse {
        for upkeep in peers.iter_mut().filter(|peer| peer.name == UPKEEP) {
            upkeep.outcome = Err(BESIDE_COARSE.to_owned());
        }
    }
    // A fill's row has those that it does not fill at the end.
    peers.sort_by_key(|peer| contenders::COLUMNS.iter().position(|name| *name == peer.name));
    let ours = ours.map_or_else(|| Err("not measured".to_owned()), |ours| ours.outcome);
    Row { workload, ours, peers }
}

/// Each contender in each round once; another one begins each round.
fn take_turns<K: Key>(
    entrants: &[Entrant<K>],
    set: Set,
    way: Way,
    effort: Effort,
    bar: &Progress,
) -> Vec<Timing> {
    let keys: Vec<K> = calls(set, way, effort.calls);
    let expected = if set.path == Path::Refused { 0 } else { keys.len() };
    let start = |entrant: &Entrant<K>| match entrant.contender {
        Ok(_) => Ok(Vec::new()),
        Err(reason) => Err(reason.to_owned()),
    };
    let mut timings: Vec<Timing> = entrants
        .iter()
        .map(|entrant| Timing { name: entrant.name, outcome: start(entrant) })
        .collect();
    for round in 0..effort.rounds {
        for turn in 0..entrants.len() {
            let one = (round + turn) % entrants.len();
            let (Ok(driven), Ok(times)) = (&entrants[one].contender, &mut timings[one].outcome)
            else {
                continue;
            };
            let (nanos, admitted) = slice(driven.as_ref(), &keys, way);
            times.push(nanos);
            if admitted != expected {
                let otherwise = admitted.abs_diff(expected);
                timings[one].outcome = Err(format!("{otherwise} calls answered otherwise"));
            }
        }
        bar.step();
    }
    timings
}

/// Nanoseconds a call, and how many calls were admitted. With two threads, which have half the
/// calls each, it is the time for which both together need a call.
fn slice<K: Key>(driven: &dyn Driven<K>, keys: &[K], way: Way) -> (f64, usize) {
    let parts: Vec<&[K]> = keys.chunks(keys.len().div_ceil(way.threads())).collect();
    let barrier = Barrier::new(parts.len());
    let run = |part: &[K]| {
        barrier.wait();
        let start = Instant::now();
        let admitted = match way {
            Way::Chain => driven.chain(part),
            _ => driven.straight(part),
        };
        (start, Instant::now(), admitted)
    };
    let (first, rest) = parts.split_first().expect("a slice has calls");
    let runs: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = rest.iter().map(|part| scope.spawn(|| run(part))).collect();
        let own = run(first);
        let others = others.into_iter().map(|other| other.join().expect("no contender panics"));
        std::iter::once(own).chain(others).collect()
    });
    let start = runs.iter().map(|run| run.0).min().expect("there is one");
    let end = runs.iter().map(|run| run.1).max().expect("there is one");
    let admitted = runs.iter().map(|run| run.2).sum();
    ((end - start).as_nanos() as f64 / keys.len() as f64, admitted)
}
