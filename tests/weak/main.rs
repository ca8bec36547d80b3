//! Small races of two and three real threads, made for Miri with many seeds (`ci/sanitize.sh miri`).
//!
//! Loom explores all orders of a model, but with two cells to a bucket; here the table is as it is
//! built. Miri takes the processor away from a thread wherever a seed says so, and lets a load return
//! an older value wherever its ordering allows it, whatever the machine does. A race is some tens of
//! operations, as an interpreter runs it. Without Miri there are many more rounds of each.
//!
//! | file | what races |
//! |---|---|
//! | `count.rs` | calls on one state, statistics, the manual clock |
//! | `insert.rs` | first calls of one key |
//! | `reclaim.rs` | a hit, a refund and clocks that differ against the taking of the cell |
//! | `change.rs` | decisions against changes of the quota |
//! | `log.rs` | the rings of sliding logs |
//! | `permit.rs` | permits that are settled, against each other, checks, bans and resets |
//! | `renew.rs` | decisions that come upon a renewal of the range |

mod change;
mod count;
mod insert;
mod log;
mod permit;
mod reclaim;
mod renew;

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, Overflow, Quota};

const SECOND: u64 = 1_000_000_000;

/// A moment from which races start, long after the clock did.
const NOW: u64 = 1_000 * SECOND;

/// Cells of a bucket.
const CELLS: u64 = 31;

/// The numbers of the rounds: `few` under Miri, where seeds make for variety.
fn rounds(few: u64) -> Range<u64> {
    let many = match (cfg!(miri), cfg!(debug_assertions)) {
        (true, _) => 1,
        (false, true) => 20,
        (false, false) => 200,
    };
    0..few * many
}

/// All of them; under Miri one, which the seed picks.
fn some_of<T, const COUNT: usize>(all: [T; COUNT]) -> impl Iterator<Item = T> {
    let picked = std::hash::RandomState::new().hash_one(0) as usize % COUNT;
    all.into_iter()
        .enumerate()
        .filter(move |(index, _)| !cfg!(miri) || *index == picked)
        .map(|(_, item)| item)
}

/// A line that threads leave together, as nearly as can be.
struct Start {
    missing: AtomicUsize,
}

impl Start {
    fn of(threads: usize) -> Start {
        Start { missing: AtomicUsize::new(threads) }
    }

    fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::Relaxed);
        while self.missing.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }
}

/// Runs `here` in this thread and `there` in another. One time in three both start at once, else one
/// when the other is done, though by nothing that orders the two: its loads may return whatever was
/// before the other began, as they may on a machine that is slow to tell.
fn race<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    static RACES: AtomicUsize = AtomicUsize::new(0);
    let late = RACES.fetch_add(1, Ordering::Relaxed) % 3;
    let (here_is_done, there_is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let first = || {
        wait_if(late == 1, &there_is_done);
        let here = here();
        here_is_done.store(true, Ordering::Relaxed);
        here
    };
    let second = || {
        wait_if(late == 2, &here_is_done);
        let there = there();
        there_is_done.store(true, Ordering::Relaxed);
        there
    };
    at_once(first, second)
}

/// Waits for a flag, and learns nothing by it of what was done before it was set.
fn wait_if(waits: bool, flag: &AtomicBool) {
    while waits && !flag.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

fn at_once<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    let start = Start::of(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            start.wait();
            there()
        });
        start.wait();
        let here = here();
        (here, other.join().unwrap())
    })
}

/// Runs `here` in this thread, again and again, until `there` is done in another, and once more.
fn race_until<B: Send>(here: impl Fn(), there: impl FnOnce() -> B + Send) -> B {
    let is_done = AtomicBool::new(false);
    let again = || {
        while !is_done.load(Ordering::Relaxed) {
            here();
        }
        here();
    };
    let once = || {
        let there = there();
        is_done.store(true, Ordering::Relaxed);
        there
    };
    at_once(again, once).1
}

/// Three threads at once.
fn race_of_three<A, B: Send, C: Send>(
    here: impl FnOnce() -> A,
    there: impl FnOnce() -> B + Send,
    elsewhere: impl FnOnce() -> C + Send,
) -> (A, B, C) {
    let start = Start::of(3);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            start.wait();
            there()
        });
        let third = scope.spawn(|| {
            start.wait();
            elsewhere()
        });
        start.wait();
        let here = here();
        (here, other.join().unwrap(), third.join().unwrap())
    })
}

/// A key is its own hash: small keys live in the first bucket, and are put into its cells in the
/// order in which they come; keys with the highest bit set live in the last bucket.
#[derive(Default)]
struct KeyItself(u64);

impl Hasher for KeyItself {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are integers");
    }

    // The seed comes first, and the key after it is what counts.
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Keyed = KeyedLimiter<u64>;

/// One state. Windows start at whole multiples of their length.
fn one_state(algorithm: Algorithm, quota: Quota) -> Limiter {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
    builder.origin(Duration::ZERO).log_cost(2).build().unwrap()
}

/// So many buckets. Windows start at whole multiples of their length.
fn buckets(count: usize, algorithm: Algorithm, quota: Quota, overflow: Overflow) -> Keyed {
    let builder = KeyedLimiter::builder(quota).algorithm(algorithm).overflow(overflow);
    let builder = builder.capacity(12 * count).clock(Clock::manual().0).origin(Duration::ZERO);
    let hasher = BuildHasherDefault::<KeyItself>::default();
    builder.custom_hasher(hasher).log_cost(2).build().unwrap()
}

/// A token bucket for each key, and one bucket of the table.
fn one_bucket(quota: Quota) -> Keyed {
    buckets(1, Algorithm::TokenBucket, quota, Overflow::Refuse)
}

/// Fills a bucket: its first cell for key `first`, the next for the key after it and so on, each
/// charged `cost` at `now`.
fn fill(limiter: &Keyed, first: u64, cost: u64, now: u64) {
    for key in first..first + CELLS {
        assert!(limiter.check_at(&key, cost, now).is_allowed());
    }
}

/// Whether one token is admitted to `key` at `now`.
fn takes(limiter: &Keyed, key: u64, now: u64) -> bool {
    limiter.check_at(&key, 1, now).is_allowed()
}

/// What `key` could spend at `now`.
fn left(limiter: &Keyed, key: u64, now: u64) -> u64 {
    limiter.peek_at(&key, 1, now).remaining()
}

/// How long it takes from `now` until `key` owes nothing: its debt, exactly.
fn debt(limiter: &Keyed, key: u64, now: u64) -> Duration {
    limiter.peek_at(&key, 1, now).reset_after().expect("no quota here is 0")
}

/// The same for one state.
fn owes(limiter: &Limiter, now: u64) -> Duration {
    limiter.peek_at(1, now).reset_after().expect("no quota here is 0")
}
