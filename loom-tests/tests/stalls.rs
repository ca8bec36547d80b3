//! Real threads that stop inside a call, in the table as it is in production: the others go on, with
//! right answers, and never wait.
//!
//! That nobody waits is shown by counts, not by a clock: while threads stand still inside their
//! calls, every other call returns, and none of them has to start over.
//!
//! Run by `ci/stalls.sh`, with `--cfg tollgate_stops`.

#![cfg(tollgate_stops)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use tollgate::probe::on_step;
use tollgate::{Algorithm, Clock, KeyedLimiter, Overflow, Quota};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_000 * SECOND;

/// The cells of the one bucket that a limiter for twelve keys has.
const CELLS: u64 = 31;

/// The steps of an insert into a free cell, and those of one into the cell of an idle key.
const INTO_FREE: [&str; 4] = ["taken", "tagged", "tentative", "committed"];
const INTO_IDLE: [&str; 5] = ["taken", "cleared", "tagged", "tentative", "committed"];

/// The steps of a change to other units.
const CHANGE: [&str; 3] = ["written", "published", "walk begun"];

/// One bucket: two tokens a second, two at once.
fn one_bucket(algorithm: Algorithm) -> KeyedLimiter<u64> {
    let builder = KeyedLimiter::builder(Quota::per_second(2)).algorithm(algorithm).capacity(12);
    let builder = builder.log_limit(4).overflow(Overflow::Refuse);
    builder.clock(Clock::manual().0).build().unwrap()
}

fn takes(limiter: &KeyedLimiter<u64>, key: u64, now: u64) -> bool {
    limiter.check_at(&key, 1, now).is_allowed()
}

/// A thread that stands still at a step of its call, and what makes it go on.
struct Stopped<'scope, T> {
    thread: ScopedJoinHandle<'scope, T>,
    resume: Sender<()>,
}

impl<T> Stopped<'_, T> {
    fn resumed(self) -> T {
        self.resume.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

/// Starts `call` in a thread of its own and returns when it has come to `step`.
fn stopped_at<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    step: &'static str,
    call: impl FnOnce() -> T + Send + 'scope,
) -> Stopped<'scope, T> {
    let (reached, is_there) = channel();
    let (resume, resumed) = channel();
    let thread = scope.spawn(move || {
        on_step(move |name| {
            if name == step {
                // Both ends are gone when the thread goes on; later steps are no stop.
                let _ = reached.send(());
                let _ = resumed.recv();
            }
        });
        call()
    });
    is_there.recv().unwrap_or_else(|_| panic!("the call does not come to {step:?}"));
    Stopped { thread, resume }
}

/// Runs `call` in a thread that is killed at `step`.
fn killed_at(step: &'static str, call: impl FnOnce() + Send) {
    let killed = thread::scope(|scope| {
        let thread = scope.spawn(move || {
            on_step(move |name| {
                if name == step {
                    resume_unwind(Box::new(()));
                }
            });
            catch_unwind(AssertUnwindSafe(call)).is_err()
        });
        thread.join().unwrap()
    });
    assert!(killed, "the call comes to the step {step}");
}

/// Threads that go on while others stand still: each has keys of its own, and is told of each what
/// the quota says.
fn others_go_on(limiter: &KeyedLimiter<u64>, rounds: u64) {
    let retries = limiter.stats().retries;
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let now = NOW + round * 10 * SECOND;
                    for key in [100 + 2 * thread, 101 + 2 * thread] {
                        assert!(takes(limiter, key, now) && takes(limiter, key, now));
                        assert!(!takes(limiter, key, now));
                        assert_eq!(limiter.peek_at(&key, 1, now).remaining(), 0);
                    }
                }
            });
        }
    });
    // An insert is tried again if another one was committed meanwhile; a hit never is, as each
    // thread has its own keys.
    let inserts = limiter.stats().reclaimed + 8;
    assert!(limiter.stats().retries - retries <= 8 * inserts, "{:?}", limiter.stats());
}

/// Eleven threads stand still inside inserts of one bucket, at each step in turn.
#[test]
fn others_go_on_while_inserts_stand_still() {
    for algorithm in Algorithm::ALL {
        for step in INTO_FREE {
            let limiter = &one_bucket(algorithm);
            thread::scope(|scope| {
                let insert = |key| stopped_at(scope, step, move || takes(limiter, key, NOW));
                let stopped: Vec<_> = (1..=11).map(insert).collect();
                others_go_on(limiter, 200);
                // Those who were stopped find their own keys as they left them.
                assert!(stopped.into_iter().all(Stopped::resumed), "{algorithm:?}, {step}");
            });
            assert_eq!(limiter.stats().refused_full, 0);
            assert!((1..=11).all(|key| takes(limiter, key, NOW)), "{algorithm:?}, {step}");
            assert!((1..=11).all(|key| !takes(limiter, key, NOW)), "{algorithm:?}, {step}");
        }
    }
}

/// The same in the cells of keys that owe nothing any more, which come back meanwhile.
#[test]
fn others_go_on_while_reclaims_stand_still() {
    for algorithm in Algorithm::ALL {
        for step in INTO_IDLE {
            let limiter = &one_bucket(algorithm);
            assert!((1000..1000 + CELLS).all(|key| takes(limiter, key, NOW - 10 * SECOND)));
            thread::scope(|scope| {
                let insert = |key| stopped_at(scope, step, move || takes(limiter, key, NOW));
                let stopped: Vec<_> = (1..=11).map(insert).collect();
                others_go_on(limiter, 200);
                assert!(stopped.into_iter().all(Stopped::resumed), "{algorithm:?}, {step}");
            });
            let stats = limiter.stats();
            assert_eq!((stats.refused_full, stats.evicted), (0, 0), "{algorithm:?}, {step}");
        }
    }
}

/// A thread stands still inside a change of the quota, at each step: decisions go on, under the one
/// or the other.
#[test]
fn others_go_on_while_a_change_stands_still() {
    for algorithm in Algorithm::ALL {
        for step in CHANGE {
            let limiter = &one_bucket(algorithm);
            thread::scope(|scope| {
                // The burst stays, so both quotas give the same answers at one instant.
                let quota = Quota::new(2, Duration::from_secs(3));
                let change = move || limiter.set_quota_at(quota, NOW - SECOND).unwrap();
                // Where all quotas have one unit there is no walk.
                let has_walk = !matches!(algorithm, Algorithm::SlidingWindowLog | Algorithm::Gcra);
                if step != "written" && !has_walk {
                    return;
                }
                let stopped = stopped_at(scope, step, change);
                others_go_on(limiter, 200);
                stopped.resumed();
                assert_eq!(limiter.quota(), quota);
            });
        }
    }
}

/// A thread that never comes back takes one cell with it, whatever it was doing, and no more.
#[test]
fn a_killed_thread_takes_one_cell_with_it() {
    for step in ["taken", "tagged", "tentative"] {
        let limiter = &one_bucket(Algorithm::TokenBucket);
        for key in 1..=5 {
            killed_at(step, || assert!(takes(limiter, key, NOW)));
        }
        others_go_on(limiter, 20);
        let now = NOW + 3_600 * SECOND;
        let found_room = (2_000..2_100).filter(|&key| takes(limiter, key, now)).count() as u64;
        assert_eq!(found_room, CELLS - 5, "{step}");
        // A second later their cells are there again, but for the five.
        let found_room =
            (3_000..3_100).filter(|&key| takes(limiter, key, now + SECOND)).count() as u64;
        assert_eq!(found_room, CELLS - 5, "{step}");
    }
}

/// One that is killed when its key is a member leaves the key in place: nothing is lost.
#[test]
fn a_thread_that_is_killed_after_its_commit_loses_nothing() {
    let limiter = &one_bucket(Algorithm::TokenBucket);
    killed_at("committed", || assert!(takes(limiter, 1, NOW)));
    assert!(takes(limiter, 1, NOW) && takes(limiter, 1, NOW) && !takes(limiter, 1, NOW));
    let now = NOW + 3_600 * SECOND;
    let found_room = (2_000..2_100).filter(|&key| takes(limiter, key, now)).count() as u64;
    assert_eq!(found_room, CELLS);
}
