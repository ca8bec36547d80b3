//! The smallest model of a charge: one word that holds one token, and two
//! threads that each want it.

#![cfg(tollgate_loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use tollgate_loom_tests::explore;

/// Takes one token from `word`, which holds the number of tokens left, and says
/// whether there was one to take.
fn charge(word: &AtomicU64) -> bool {
    let mut left = word.load(Relaxed);
    while left > 0 {
        match word.compare_exchange(left, left - 1, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(now) => left = now,
        }
    }
    false
}

#[test]
fn one_token_admits_exactly_one_of_two_threads() {
    // The model is small enough to need no bound of its own.
    explore("one token, two threads", None, || {
        let word = Arc::new(AtomicU64::new(1));
        let other = {
            let word = Arc::clone(&word);
            thread::spawn(move || charge(&word))
        };
        let here = charge(&word);
        let there = other.join().unwrap();

        assert!(here != there, "admitted: main {here}, thread {there}");
        assert_eq!(word.load(Relaxed), 0);
    });
}
