//! Workloads whose instructions are counted: `ci/count.sh`.
//!
//! Each is a number of decisions after a setup that is not counted. Seeds and times are fixed, so
//! that a run counts what the one before it has counted; only the two workloads of `clock` read a
//! real one. Whether the calls were answered as a workload's name has it is asserted after it.

#![allow(clippy::needless_pass_by_value, reason = "what follows a workload is given its run")]

use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use gungraun::Callgrind;
use gungraun::prelude::*;
use tollgate::{
    Algorithm, Clock, CoarseHandle, Decision, KeyedBuilder, KeyedLimiter, Limiter, Overflow, Quota,
    check_all_at,
};
use tollgate_instructions::{DECISIONS, KEYS};

/// Never used up.
const AMPLE: Quota = Quota::per_second(1_000_000_000);

/// Used up by the first call.
const SCARCE: Quota = Quota::per_day(1);

/// Nanoseconds from one call to the next, so that half of a log's window is in sight.
const STEP: u64 = 400;

/// Rounds of calls on all keys before a hit is counted: a log's window is then full.
const ROUNDS: u64 = 50;

const BATCH: usize = 32;

// A further algorithm needs a workload of its own.
const _: () = assert!(Algorithm::ALL.len() == 6);
const _: () = assert!(DECISIONS.is_multiple_of(BATCH as u64) && DECISIONS.is_multiple_of(KEYS));

/// A limiter, what it will be asked, and what it has answered.
struct Run<L, Q> {
    limiter: L,
    calls: Vec<Q>,
    now: u64,
    admitted: u64,
    /// Keeps the coarse clock running.
    handle: Option<CoarseHandle>,
}

impl<L, Q> Run<L, Q> {
    fn new(limiter: L, calls: Vec<Q>) -> Run<L, Q> {
        Run { limiter, calls, now: 0, admitted: 0, handle: None }
    }
}

type Keyed<Q = u64> = Run<KeyedLimiter<Q>, Q>;

/// Windows do not depend on the time of day.
fn builder<K: Hash + ?Sized + 'static>(quota: Quota, keys: u64) -> KeyedBuilder<K> {
    KeyedLimiter::builder(quota).capacity(keys as usize).seed(1).origin(Duration::ZERO)
}

/// Calls on all known keys in turn, in no order.
fn known_keys() -> Vec<u64> {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut keys);
    keys.iter().copied().cycle().take(DECISIONS as usize).collect()
}

/// Calls on keys of which each comes once.
fn fresh_keys() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(8);
    (0..DECISIONS).map(|_| random.u64(..)).collect()
}

/// As much as the algorithm counts.
fn ample(algorithm: Algorithm) -> Quota {
    match algorithm {
        Algorithm::FixedWindow => Quota::per_second(500_000_000),
        Algorithm::SlidingWindowCounter => Quota::per_second(16_384),
        Algorithm::SlidingWindowLog => Quota::new(100, Duration::from_millis(20)),
        _ => AMPLE,
    }
}

/// Calls on all known keys in turn, so many times; all are admitted.
fn warmed_up<Q: Hash + 'static>(mut run: Keyed<Q>, rounds: u64) -> Keyed<Q> {
    for _ in 0..rounds {
        for key in &run.calls[..KEYS as usize] {
            run.now += STEP;
            assert!(run.limiter.check_at(key, 1, run.now).is_allowed());
        }
    }
    run
}

fn known(algorithm: Algorithm) -> Keyed {
    let builder = builder(ample(algorithm), KEYS).algorithm(algorithm);
    warmed_up(Run::new(builder.build().expect("a table"), known_keys()), ROUNDS)
}

fn known_strings() -> Keyed<String> {
    let names = known_keys().iter().map(|number| format!("user-{number:019}")).collect();
    warmed_up(Run::new(builder(AMPLE, KEYS).build().expect("a table"), names), ROUNDS)
}

/// A table whose keys have all used up what they had.
fn used_up() -> Keyed {
    warmed_up(Run::new(builder(SCARCE, KEYS).build().expect("a table"), known_keys()), 1)
}

fn on_clock((clock, handle): (Clock, Option<CoarseHandle>)) -> Keyed {
    let limiter = builder(AMPLE, KEYS).clock(clock).build().expect("a table");
    let mut run: Keyed = Run::new(limiter, known_keys());
    run.handle = handle;
    for key in &run.calls[..KEYS as usize] {
        assert!(run.limiter.check(key).is_allowed());
    }
    run
}

/// The longest tick, so that the thread sleeps while decisions are counted.
fn coarse() -> (Clock, Option<CoarseHandle>) {
    let (clock, handle) = Clock::coarse(Duration::from_secs(1)).expect("a thread");
    (clock, Some(handle))
}

/// A table with room for all keys that will come. Those that have come stay alive.
fn empty() -> Keyed {
    Run::new(builder(SCARCE, DECISIONS).build().expect("a table"), fresh_keys())
}

/// A table without a free cell, all of whose keys are idle when the first call comes: five keys for
/// each of capacity leave no bucket with room.
fn full() -> Keyed {
    let builder = builder(AMPLE, KEYS).overflow(Overflow::EvictNearest);
    let mut run: Keyed = Run::new(builder.build().expect("a table"), fresh_keys());
    for key in 0..5 * KEYS {
        let _ = run.limiter.check_at(&key, 1, run.now);
    }
    let live = run.limiter.stats();
    assert_eq!(live.reclaimed, 0, "all keys are alive while the table is filled");
    run.now = 1_000_000_000;
    run
}

fn one_state(quota: Quota) -> Run<Limiter, ()> {
    let limiter = Limiter::builder(quota).origin(Duration::ZERO).build().expect("a limiter");
    assert!(limiter.check_at(1, 0).is_allowed());
    Run::new(limiter, Vec::new())
}

/// Three tables that hold all keys.
fn three() -> Run<[KeyedLimiter<u64>; 3], u64> {
    let tables = [(); 3].map(|()| known(Algorithm::TokenBucket));
    let now = tables[0].now;
    let mut run = Run::new(tables.map(|table| table.limiter), known_keys());
    run.now = now;
    run
}

fn all_admitted<L, Q>(run: Run<L, Q>) {
    assert_eq!(run.admitted, DECISIONS);
}

fn all_refused<L, Q>(run: Run<L, Q>) {
    assert_eq!(run.admitted, 0);
}

/// Of batches, and what came before them.
fn all_admitted_in_batches(run: Keyed) {
    assert_eq!(run.limiter.stats().admitted, ROUNDS * KEYS + DECISIONS);
}

/// One in a hundred may have found a cell in another way.
fn all_reclaimed(run: Keyed) {
    let reclaimed = run.limiter.stats().reclaimed;
    assert!(reclaimed >= DECISIONS - DECISIONS / 100, "only {reclaimed} were reclaimed");
    all_admitted(run);
}

/// The measured part of every workload that calls one by one at a time of its own.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as if each workload had the loop itself")]
fn one_by_one<Q: Hash + 'static>(mut run: Keyed<Q>) -> Keyed<Q> {
    for key in &run.calls {
        run.now += STEP;
        run.admitted += u64::from(run.limiter.check_at(key, 1, run.now).is_allowed());
    }
    run
}

#[library_benchmark(setup = known, teardown = all_admitted)]
#[bench::token_bucket(Algorithm::TokenBucket)]
#[bench::gcra(Algorithm::Gcra)]
#[bench::leaky_bucket(Algorithm::LeakyBucket)]
#[bench::fixed_window(Algorithm::FixedWindow)]
#[bench::sliding_counter(Algorithm::SlidingWindowCounter)]
#[bench::sliding_log(Algorithm::SlidingWindowLog)]
fn hit(run: Keyed) -> Keyed {
    one_by_one(run)
}

#[library_benchmark(setup = known_strings, teardown = all_admitted)]
#[bench::of_24_bytes()]
fn string(run: Keyed<String>) -> Keyed<String> {
    one_by_one(run)
}

#[library_benchmark(setup = used_up, teardown = all_refused)]
#[bench::token_bucket()]
fn refused(run: Keyed) -> Keyed {
    one_by_one(run)
}

#[library_benchmark(setup = on_clock, teardown = all_admitted)]
#[bench::precise((Clock::precise(), None))]
#[bench::coarse(coarse())]
fn clock(mut run: Keyed) -> Keyed {
    for key in &run.calls {
        run.admitted += u64::from(run.limiter.check(key).is_allowed());
    }
    run
}

#[library_benchmark(setup = known, teardown = all_admitted_in_batches)]
#[bench::of_32(Algorithm::TokenBucket)]
fn batch(mut run: Keyed) -> Keyed {
    let mut decisions = [Decision::default(); BATCH];
    for keys in run.calls.chunks_exact(BATCH) {
        run.now += BATCH as u64 * STEP;
        let decided = run.limiter.check_many_at(keys, &mut decisions, run.now);
        black_box(&decisions);
        assert_eq!(decided, BATCH);
    }
    run
}

#[library_benchmark(setup = three, teardown = all_admitted)]
#[bench::of_3_limits()]
fn joint(mut run: Run<[KeyedLimiter<u64>; 3], u64>) -> Run<[KeyedLimiter<u64>; 3], u64> {
    let [one, two, three] = &run.limiter;
    for key in &run.calls {
        run.now += STEP;
        let mut asks = [one.ask(key, 1), two.ask(key, 1), three.ask(key, 1)];
        run.admitted += u64::from(check_all_at(&mut asks, run.now).is_allowed());
    }
    run
}

#[library_benchmark(setup = empty, teardown = all_admitted)]
#[bench::in_an_empty_table()]
fn first_call(run: Keyed) -> Keyed {
    one_by_one(run)
}

#[library_benchmark(setup = full, teardown = all_reclaimed)]
#[bench::in_a_full_table()]
fn reclaim(run: Keyed) -> Keyed {
    one_by_one(run)
}

#[library_benchmark(setup = one_state)]
#[bench::admitted(args = (AMPLE), teardown = all_admitted)]
#[bench::refused(args = (SCARCE), teardown = all_refused)]
fn limiter(mut run: Run<Limiter, ()>) -> Run<Limiter, ()> {
    for _ in 0..DECISIONS {
        run.now += STEP;
        run.admitted += u64::from(run.limiter.check_at(1, run.now).is_allowed());
    }
    run
}

library_benchmark_group!(
    name = decisions,
    benchmarks = [hit, string, refused, clock, batch, joint, first_call, reclaim, limiter]
);

// Instructions alone: caches and branches would be those of a model.
gungraun::main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"]));
    library_benchmark_groups = decisions
);
