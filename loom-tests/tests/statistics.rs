//! Every decision is counted once, whichever slots the threads count in.
//!
//! There are two slots, of which one is shared: a thread that ends leaves its own to the next.
//! Two threads are explored without a bound, three with three preemptions. Built with
//! `--cfg tollgate_loom_statistics` besides, as the counts are not part of the other models.

#![cfg(all(tollgate_loom, tollgate_loom_statistics))]

use std::sync::Arc;

use loom::thread;
use tollgate::probe::end_of_thread;
use tollgate::{Limiter, Quota};
use tollgate_loom_tests::{NOW, explore, one_state};

fn refused(limiter: &Limiter) {
    assert!(!limiter.check_at(2, NOW).is_allowed());
}

/// Starts a thread that makes so many calls and ends. The main thread of a model counts nothing, as
/// loom drops its locals when the model is over.
fn counting(limiter: &Arc<Limiter>, calls: usize) -> thread::JoinHandle<()> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || {
        (0..calls).for_each(|_| refused(&limiter));
        end_of_thread();
    })
}

/// Two threads count at once; or one takes over the slot of the other, which has ended, and adds to
/// what is there.
#[test]
fn two_threads_lose_no_count() {
    explore("statistics: two threads", None, || {
        let limiter = one_state(Quota::per_second(1).burst(1));
        let (first, second) = (counting(&limiter, 2), counting(&limiter, 2));
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(limiter.stats().refused, 4);
    });
}

/// Three threads, of which at least two share a slot.
#[test]
fn three_threads_lose_no_count() {
    explore("statistics: three threads", Some(3), || {
        let limiter = one_state(Quota::per_second(1).burst(1));
        let threads = [(); 3].map(|()| counting(&limiter, 1));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(limiter.stats().refused, 3);
    });
}
