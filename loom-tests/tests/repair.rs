//! Tells whether loom explores load-then-swap races, and holds the run to what
//! it claims about it.
//!
//! A model that passes on a loom which leaves those races out has shown little,
//! so the other models count only after this test has passed. In a run that
//! claims to be on published loom the expectation is turned round: there the
//! race must still be missed. When that stops holding, upstream has closed the
//! gap, and `repair/load-then-swap.patch` can go.

#![cfg(tollgate_loom)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

#[test]
fn a_store_after_the_threads_own_load_reaches_an_earlier_load() {
    // How many executions ended with main reading the old and the new value.
    // These are the standard library's atomics, hidden from loom.
    static OLD: AtomicUsize = AtomicUsize::new(0);
    static NEW: AtomicUsize = AtomicUsize::new(0);

    // No bound from outside applies: the question is what loom can find at all.
    let mut builder = Builder::new();
    builder.preemption_bound = None;
    builder.max_permutations = None;
    builder.max_duration = None;

    builder.check(|| {
        let word = Arc::new(AtomicU64::new(0));
        let writer = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                // This load is what hides main's from published loom.
                word.load(Relaxed);
                word.store(1, Relaxed);
            })
        };
        let seen = word.load(Relaxed);
        writer.join().unwrap();

        match seen {
            0 => OLD.fetch_add(1, Relaxed),
            _ => NEW.fetch_add(1, Relaxed),
        };
    });

    let (old, new) = (OLD.load(Relaxed), NEW.load(Relaxed));
    println!(
        "load then store: {} executions; main read the old value in {old}, the new one in {new}",
        old + new
    );

    assert!(old > 0, "main can always come first");
    if tollgate_loom_tests::published() {
        assert_eq!(
            new, 0,
            "this loom finds the race without the repair: \
             either upstream has closed the gap, or the repair is in force unasked"
        );
    } else {
        assert!(
            new > 0,
            "this loom misses load-then-swap races, so no model run on it counts: \
             run the models through ci/loom.sh, which repairs it"
        );
    }
}
