//! P1 and P7 with real threads: never one admission more than the quota allows.
//!
//! Time is an argument, so that what is right is known exactly.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, Overflow, Quota};

const SECOND: u64 = 1_000_000_000;
const THREADS: usize = 8;

/// Runs `work` on several threads that start together, and adds up what they return.
fn together(threads: usize, work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let (work, barrier) = (&work, &barrier);
        let spawn = |index| {
            scope.spawn(move || {
                barrier.wait();
                work(index)
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    })
}

fn keyed(algorithm: Algorithm, quota: Quota, capacity: usize) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(quota)
        .algorithm(algorithm)
        .capacity(capacity)
        .clock(Clock::manual().0)
        .overflow(Overflow::Refuse)
        .build()
        .unwrap()
}

#[test]
fn one_instant_admits_exactly_the_burst() {
    for algorithm in Algorithm::ALL {
        for threads in [2, THREADS] {
            let quota = Quota::per_second(10_000);
            let limiter = Limiter::builder(quota)
                .algorithm(algorithm)
                .clock(Clock::manual().0)
                .build()
                .unwrap();
            let calls =
                |_| (0..20_000).filter(|_| limiter.check_at(1, 7).is_allowed()).count() as u64;
            assert_eq!(together(threads, calls), 10_000, "{algorithm:?}");
            let stats = limiter.stats();
            assert_eq!(stats.admitted, 10_000);
            assert_eq!(stats.refused, 20_000 * threads as u64 - 10_000);
        }
    }
}

/// Threads race to be the first to see each of many keys: every insert race is run, and each key
/// has one cell.
#[test]
fn every_key_has_one_budget() {
    let keys = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    for algorithm in Algorithm::ALL {
        let limiter = keyed(algorithm, Quota::per_hour(3), 2 * keys as usize);
        let admitted = together(THREADS, |_| {
            (0..keys).map(|key| u64::from(limiter.check_at(&key, 1, SECOND).is_allowed())).sum()
        });
        assert_eq!(admitted, 3 * keys, "{algorithm:?}");
        assert_eq!(limiter.stats().refused_full, 0);
    }
}

/// A drained bucket with the time moving on: what comes back is admitted once, none of it twice.
#[test]
fn refilling_tokens_are_spent_once() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let quota = Quota::per_second(1_000).burst(10);
        let limiter = keyed(algorithm, quota, 100);
        let now = AtomicU64::new(0);
        let steps = 20_000;
        let admitted = together(4, |_| {
            let mut admitted = 0;
            loop {
                let at = now.load(Ordering::SeqCst);
                while limiter.check_at(&7, 1, at).is_allowed() {
                    admitted += 1;
                }
                // Drained at this instant, and at every earlier one.
                if at == steps * 100_000 {
                    return admitted;
                }
                let _ = now.compare_exchange(at, at + 100_000, Ordering::SeqCst, Ordering::SeqCst);
            }
        });
        // 100 us at a time, ten of which make a token.
        assert_eq!(admitted, 10 + steps / 10, "{algorithm:?}");
    }
}

/// Live keys among a crowd that comes and goes through the same buckets: their cells are found,
/// never doubled and never lost.
#[test]
fn live_keys_keep_their_budget_while_cells_are_reclaimed() {
    let rounds = if cfg!(debug_assertions) { 20 } else { 200 };
    for algorithm in Algorithm::ALL {
        let quota = Quota::per_second(1);
        let limiter = keyed(algorithm, quota, 1_000);
        let next = AtomicU64::new(1_000_000);
        let admitted = together(THREADS, |_| {
            let mut admitted = 0;
            for round in 0..rounds {
                let now = round * SECOND;
                for key in 0..100 {
                    admitted += u64::from(limiter.check_at(&key, 1, now).is_allowed());
                    // Strangers, idle a second later, take up what is free of the table.
                    let stranger = next.fetch_add(1, Ordering::Relaxed);
                    let _ = limiter.check_at(&stranger, 1, now);
                }
            }
            admitted
        });
        assert!(admitted <= 100 * rounds, "{algorithm:?}: {admitted}");
        assert!(limiter.stats().reclaimed > 0, "the crowd was large enough");
    }
}

/// P7: one thread changes the quota back and forth; no quota is torn and nothing is minted.
#[test]
fn changing_the_quota_mints_nothing() {
    quotas_are_changed_by(1);
}

/// Eight at once, who take turns.
#[test]
fn eight_threads_change_the_quota() {
    quotas_are_changed_by(8);
}

fn quotas_are_changed_by(changers: usize) {
    let changes = if cfg!(debug_assertions) { 200 } else { 2_000 };
    let quotas = [
        Quota::per_hour(1).burst(10),
        Quota::per_second(1_000_000).burst(10),
        Quota::per_day(3).burst(10),
        Quota::new(7, Duration::from_secs(60)).burst(10),
    ];
    for algorithm in Algorithm::ALL {
        // The window's limit is its burst; all windows contain the instant.
        let quota = |index: u64| match algorithm {
            Algorithm::FixedWindow
            | Algorithm::SlidingWindowCounter
            | Algorithm::SlidingWindowLog => Quota::new(
                10,
                [Duration::from_secs(60), Duration::from_secs(3_600)][index as usize % 2],
            ),
            _ => quotas[index as usize % quotas.len()],
        };
        let limiter = keyed(algorithm, quota(0), 1_000);
        let done = AtomicU64::new(0);
        let admitted = together(changers + 3, |thread| {
            if thread < changers {
                for change in 1..changes / changers as u64 {
                    limiter.set_quota_at(quota(change), SECOND).unwrap();
                }
                done.fetch_add(1, Ordering::SeqCst);
                return 0;
            }
            let mut admitted = 0;
            while done.load(Ordering::SeqCst) < changers as u64 {
                for key in 0..200 {
                    let decision = limiter.check_at(&key, 1, SECOND);
                    assert_eq!(decision.limit(), 10);
                    admitted += u64::from(decision.is_allowed());
                }
            }
            admitted
        });
        // Time stands still, so every key has its ten tokens and no more.
        assert!(admitted <= 200 * 10, "{algorithm:?}: {admitted}");
        let left: u64 = (0..200).map(|key| limiter.peek_at(&key, 1, SECOND).remaining()).sum();
        assert_eq!(admitted + left, 200 * 10, "{algorithm:?}: a debt was lost");
    }
}

/// Threads whose first call comes so late that the range must be renewed, which one of them does:
/// the burst is admitted once.
#[test]
fn the_first_call_may_come_at_any_time() {
    let rounds = if cfg!(debug_assertions) { 200 } else { 3_000 };
    for now in [1_700_000_000 * SECOND, 400_000_000 * SECOND] {
        for _ in 0..rounds {
            let limiter =
                Limiter::builder(Quota::per_hour(1)).clock(Clock::manual().0).build().unwrap();
            let call = |_| {
                let mut admitted = 0;
                for _ in 0..10 {
                    admitted += u64::from(limiter.check_at(1, now).is_allowed());
                }
                admitted
            };
            assert_eq!(together(4, call), 1);
        }
    }
}

/// Tokens of a sliding log: never more than the limit in any window, by the stamps of the calls.
#[test]
fn no_window_holds_more_than_the_limit() {
    let limit = 20;
    let window = 1_000_000;
    let quota = Quota::new(limit, Duration::from_nanos(window));
    let limiter: KeyedLimiter<u64> = KeyedLimiter::builder(quota)
        .algorithm(Algorithm::SlidingWindowLog)
        .clock(Clock::manual().0)
        .build()
        .unwrap();
    let now = AtomicU64::new(0);
    let admitted = std::sync::Mutex::new(Vec::new());
    together(4, |_| {
        let mut own = Vec::new();
        loop {
            // Each call has a time of its own, handed out in order; threads lag behind theirs.
            let at = now.fetch_add(700, Ordering::SeqCst);
            if at > 200 * window {
                break;
            }
            if limiter.check_at(&7, 1, at).is_allowed() {
                own.push(at);
            }
        }
        admitted.lock().unwrap().extend(own);
        0
    });
    let mut admitted = admitted.into_inner().unwrap();
    admitted.sort_unstable();
    for (index, &first) in admitted.iter().enumerate() {
        let inside = admitted[index..].iter().take_while(|&&at| at < first + window).count();
        assert!(inside as u64 <= limit, "{inside} in the window at {first}");
    }
    // It is not idle either: nearly all that the windows allow.
    assert!(admitted.len() > 190 * limit as usize, "{}", admitted.len());
}
