//! Helpers shared by the loom models in `tests/`.
//!
//! Everything here exists only under `--cfg tollgate_loom`, because loom itself
//! is a dependency only then. Without it this crate is empty, and so are all of
//! its tests.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loom::model::Builder;
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::thread;
use tollgate::probe::on_step;
use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, ManualClock, Overflow, Quota};

/// A second as the limiters count time.
pub const SECOND: u64 = 1_000_000_000;

/// The operations that a call takes at the most, and some: an execution that goes on for longer
/// spins, and fails.
const BRANCHES: usize = 20_000;

/// Whether this run says that it is made with loom as published, without the
/// repair of `repair/load-then-swap.patch`.
///
/// The run says so by setting the environment variable
/// `TOLLGATE_LOOM_PUBLISHED`; nothing is detected here. `tests/repair.rs`
/// compares the claim with what loom does. A model that needs the repair to
/// reach some outcome, such as one showing that a broken variant is caught, can
/// ask this before it demands the outcome.
pub fn published() -> bool {
    std::env::var_os("TOLLGATE_LOOM_PUBLISHED").is_some()
}

/// Explores all executions of `f`, prints how many there were, and returns that
/// number.
///
/// `preemptions` bounds how often an execution may take the processor away from
/// a thread that could have gone on; `None` sets no bound. The environment
/// variable `LOOM_MAX_PREEMPTIONS` can lower the bound of every model.
///
/// `LOOM_MAX_PERMUTATIONS` and `LOOM_MAX_DURATION` have no effect. With them
/// loom stops early and still reports success, and a return from this function
/// is meant to say that the whole bounded space was seen.
///
/// The line goes to standard output, so it takes `--nocapture` to see it when
/// the test passes.
///
/// # Panics
///
/// Panics when an execution of `f` does, when loom finds a deadlock, a leak or a
/// data race, or when `LOOM_MAX_PREEMPTIONS` is not a number.
pub fn explore<F>(name: &str, preemptions: Option<usize>, f: F) -> usize
where
    F: Fn() + Send + Sync + 'static,
{
    // `Builder::new` takes a bound from the environment. It is an upper
    // one, as many models would not end beyond the bound they were written with.
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.into_iter().chain(preemptions).min();
    builder.max_branches = BRANCHES;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.checkpoint_file = None;

    // The counter is the standard library's: loom must not see it, or counting
    // would itself add interleavings to explore.
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);

    let start = Instant::now();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        f();
    });
    let seconds = start.elapsed().as_secs_f64();

    let executions = executions.load(Ordering::Relaxed);
    let bound = match builder.preemption_bound {
        Some(bound) => bound.to_string(),
        None => "none".to_owned(),
    };
    println!("{name}: {executions} executions, bound {bound}, {seconds:.2} s");
    executions
}

/// As [`explore`], for a model that takes too long with its bound of `deep` preemptions to be
/// explored so each time: that is what a run with `TOLLGATE_LOOM_DEEP` does (`ci/loom.sh deep`),
/// and every other run stops at `preemptions`.
pub fn explore_deep<F>(name: &str, preemptions: usize, deep: Option<usize>, f: F) -> usize
where
    F: Fn() + Send + Sync + 'static,
{
    let is_deep = std::env::var_os("TOLLGATE_LOOM_DEEP").is_some();
    explore(name, if is_deep { deep } else { Some(preemptions) }, f)
}

/// A moment from which models start: a clock that has run for a while, so that a key that was
/// never seen and one that has spent nothing for long are told apart from time 0.
pub const NOW: u64 = 1_000 * SECOND;

/// A token bucket of one state.
pub fn one_state(quota: Quota) -> Arc<Limiter> {
    one_state_of(Algorithm::TokenBucket, quota)
}

/// A limiter of one state. Windows start at whole multiples of their length.
pub fn one_state_of(algorithm: Algorithm, quota: Quota) -> Arc<Limiter> {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
    Arc::new(builder.origin(Duration::ZERO).log_cost(2).build().unwrap())
}

/// Token buckets whose keys all share one bucket of the table. In models such a bucket has two
/// cells, so that two keys fill it and a third needs room.
pub fn two_cells(quota: Quota, overflow: Overflow) -> Arc<KeyedLimiter<u64>> {
    two_cells_of(Algorithm::TokenBucket, quota, overflow)
}

/// As [`two_cells`], with any algorithm. Windows start at whole multiples of their length.
pub fn two_cells_of(
    algorithm: Algorithm,
    quota: Quota,
    overflow: Overflow,
) -> Arc<KeyedLimiter<u64>> {
    let builder = KeyedLimiter::builder(quota).algorithm(algorithm).capacity(2).overflow(overflow);
    let builder = builder.clock(Clock::manual().0).seed(1).origin(Duration::ZERO).log_cost(2);
    Arc::new(builder.build().unwrap())
}

/// Runs `there` in a thread of its own and `here` in this one, and returns what they return.
pub fn race<L, A, B>(
    limiter: &Arc<L>,
    here: impl FnOnce(&L) -> A,
    there: impl FnOnce(&L) -> B + Send + 'static,
) -> (A, B)
where
    L: Send + Sync + 'static,
    B: 'static,
{
    let other = {
        let limiter = Arc::clone(limiter);
        thread::spawn(move || there(&limiter))
    };
    let here = here(limiter);
    (here, other.join().unwrap())
}

/// As [`race`], with a second thread besides.
pub fn race_of_three<L, A, B, C>(
    limiter: &Arc<L>,
    here: impl FnOnce(&L) -> A,
    there: impl FnOnce(&L) -> B + Send + 'static,
    elsewhere: impl FnOnce(&L) -> C + Send + 'static,
) -> (A, B, C)
where
    L: Send + Sync + 'static,
    B: 'static,
    C: 'static,
{
    let third = {
        let limiter = Arc::clone(limiter);
        thread::spawn(move || elsewhere(&limiter))
    };
    let (here, there) = race(limiter, here, there);
    (here, there, third.join().unwrap())
}

/// A change of the rate after a second of a token a second.
#[derive(Clone, Copy)]
pub struct Change {
    pub quota: Quota,
    /// What is charged at the start, and taken back across the change.
    pub charged: u64,
    /// Seconds after the change in which whole tokens are earned.
    pub seconds: u64,
    /// How many that are.
    pub tokens: u64,
}

/// A change to other units, and one that keeps them, with the charge on a burst of three that shows a
/// mixture of the two quotas: beside the first another charge fits, the second takes the whole burst.
pub fn changes() -> [Change; 2] {
    let slower = Quota::new(1, Duration::from_secs(3)).burst(3);
    let faster = Quota::per_second(2).burst(3);
    [
        Change { quota: slower, charged: 2, seconds: 3, tokens: 1 },
        Change { quota: faster, charged: 3, seconds: 1, tokens: 2 },
    ]
}

impl Change {
    /// Nobody got more than the burst and what was earned, in any interval.
    ///
    /// # Panics
    ///
    /// Panics where somebody did.
    #[track_caller]
    pub fn assert_within(self, burst: u64, all: &[Kept]) {
        let earned = |second: u64| match second.checked_sub(1) {
            Some(since) => 1 + since * self.tokens / self.seconds,
            None => 0,
        };
        assert_within_earned(burst, earned, all);
    }
}

/// Opens a gate.
pub struct Opener(Sender<()>);

/// A gate that a thread waits at until another one opens it. It has to be opened in the end: who
/// does not come to it waits when it is dropped. (A channel, as what loom calls a notification may
/// come when nobody has sent it.)
pub struct Gate(Receiver<()>);

/// A gate that is shut.
pub fn gate() -> (Opener, Gate) {
    let (opener, gate) = channel();
    (Opener(opener), Gate(gate))
}

impl Opener {
    pub fn open(self) {
        self.0.send(()).unwrap();
    }
}

impl Gate {
    pub fn wait(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.recv().unwrap();
        }
    }
}

/// What a thread does at a step.
pub type Action = Box<dyn FnOnce()>;

/// Opens one gate and waits at another.
pub fn meet(opener: Opener, gate: Gate) -> Action {
    Box::new(move || {
        opener.open();
        gate.wait();
    })
}

/// Has this thread do something when it comes to each of these steps for the first time. What must
/// come to pass in one order anyway is forced in this way, which saves the preemptions for what is
/// in question.
pub fn at_steps<const N: usize>(actions: [(&'static str, Action); N]) {
    let mut actions: Vec<_> = actions.into_iter().collect();
    on_step(move |step| {
        if let Some(index) = actions.iter().position(|&(name, _)| name == step) {
            let (_, action) = actions.swap_remove(index);
            action();
        }
    });
}

/// Whether one token is admitted to `key` at `now`.
pub fn takes(limiter: &KeyedLimiter<u64>, key: u64, now: u64) -> bool {
    limiter.check_at(&key, 1, now).is_allowed()
}

/// What `key` could spend at `now`.
pub fn left(limiter: &KeyedLimiter<u64>, key: u64, now: u64) -> u64 {
    limiter.peek_at(&key, 1, now).remaining()
}

/// How long it takes from `now` until `key` owes nothing: its debt, exactly.
pub fn debt(limiter: &KeyedLimiter<u64>, key: u64, now: u64) -> Duration {
    limiter.peek_at(&key, 1, now).reset_after().expect("no quota of these models is 0")
}

/// What was kept: tokens, and between which seconds of the clock.
#[derive(Clone, Copy)]
pub struct Kept {
    tokens: u64,
    from: u64,
    to: u64,
}

/// Makes a call of so many tokens by the clock; what was kept of it.
pub fn kept(time: &ManualClock, tokens: u64, call: impl FnOnce() -> bool) -> Kept {
    let from = time.now().as_secs();
    let tokens = if call() { tokens } else { 0 };
    Kept { tokens, from, to: time.now().as_secs() }
}

/// Nobody got more than the burst and a token a second, in any interval.
///
/// # Panics
///
/// Panics where somebody did.
#[track_caller]
pub fn assert_within(burst: u64, all: &[Kept]) {
    assert_within_earned(burst, |second| second, all);
}

/// As [`assert_within`], where so many tokens have been earned up to a second.
///
/// # Panics
///
/// Panics where somebody got more.
#[track_caller]
pub fn assert_within_earned(burst: u64, earned: impl Fn(u64) -> u64, all: &[Kept]) {
    for start in all.iter().map(|kept| kept.from) {
        for end in all.iter().map(|kept| kept.to).filter(|&end| end >= start) {
            let inside = all.iter().filter(|kept| kept.from >= start && kept.to <= end);
            let tokens: u64 = inside.map(|kept| kept.tokens).sum();
            let most = burst + earned(end) - earned(start);
            assert!(tokens <= most, "{tokens} from {start} s to {end} s");
        }
    }
}
