//! Helpers shared by the loom models in `tests/`.
//!
//! Everything here exists only under `--cfg tollgate_loom`, because loom itself
//! is a dependency only then. Without it this crate is empty, and so are all of
//! its tests.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use loom::model::Builder;

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
/// a thread that could have gone on; `None` sets no bound. When the environment
/// variable `LOOM_MAX_PREEMPTIONS` is set, its number is used instead, for every
/// model alike.
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
    // `Builder::new` takes the bound from the environment, so a bound that is
    // already there is the caller's wish and stays.
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.max_permutations = None;
    builder.max_duration = None;

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
