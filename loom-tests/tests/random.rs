//! Random schedules of four to six threads with five to ten random calls each, on all algorithms:
//! larger than loom could explore, and only a sample of what may happen.
//!
//! Shuttle runs the threads one at a time and chooses at every atomic operation who goes on: evenly
//! at random, or by priorities that change at a few random moments (PCT), which finds what needs a
//! long sleep at one place. It knows sequential consistency alone, so weak orderings are left to loom
//! and Miri. A call that spins goes over the limit of steps, and fails.
//!
//! Run by `ci/shuttle.sh`, with `--cfg tollgate_shuttle`. The seed is fixed: a failure comes again.

#![cfg(tollgate_shuttle)]

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner, thread};
use tollgate::{Algorithm, Clock, Decision, KeyedLimiter, Overflow, Permit, Permits, Quota};

const SECOND: u64 = 1_000_000_000;

/// A moment at which every window of these quotas starts.
const NOW: u64 = 1_000 * SECOND;

/// More than the calls of a schedule take together.
const STEPS: usize = 100_000;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Check(u64),
    Peek,
    Refund(u64),
    /// The same limit in so many seconds.
    Change(u64),
}

/// A call, and how it was answered.
#[derive(Clone, Copy, Debug)]
struct Call {
    verb: Verb,
    key: u64,
    now: u64,
    answer: Option<Decision>,
}

/// What a test has its threads do.
#[derive(Clone, Copy)]
struct Game {
    /// Keys 1 to so many, in a bucket of two cells.
    keys: u64,
    overflow: Overflow,
    refunds: bool,
    changes: bool,
    /// By how many seconds the clocks of the calls differ.
    clocks: u64,
}

const ONE_INSTANT: Game =
    Game { keys: 2, overflow: Overflow::Refuse, refunds: false, changes: false, clocks: 0 };

fn quota(limit: u64, seconds: u64) -> Quota {
    Quota::new(limit, Duration::from_secs(seconds))
}

/// A limiter whose two cells are held by keys that owe nothing any more.
fn idle_cells(algorithm: Algorithm, limit: u64, overflow: Overflow) -> KeyedLimiter<u64> {
    let builder = KeyedLimiter::builder(quota(limit, 1)).algorithm(algorithm).overflow(overflow);
    let builder = builder.capacity(2).seed(1).clock(Clock::manual().0).origin(Duration::ZERO);
    let limiter = builder.log_limit(8).log_cost(2).build().unwrap();
    assert!([101, 102].iter().all(|key| limiter.check_at(key, 1, NOW - 100 * SECOND).is_allowed()));
    limiter
}

fn random_call(game: Game, algorithm: Algorithm) -> Call {
    let mut random = thread_rng();
    let amount = random.gen_range(1..3);
    let verb = match random.gen_range(0..10) {
        0 => Verb::Peek,
        // A log gives nothing back.
        1 | 2 if game.refunds && algorithm != Algorithm::SlidingWindowLog => Verb::Refund(amount),
        3 | 4 if game.changes => Verb::Change([1, 2, 5, 100][random.gen_range(0..4)]),
        _ => Verb::Check(amount),
    };
    let now = NOW + random.gen_range(0..=game.clocks * 2) * SECOND / 2;
    Call { verb, key: random.gen_range(1..=game.keys), now, answer: None }
}

/// Makes the calls of a thread, and returns them as they were answered.
fn perform(limiter: &KeyedLimiter<u64>, limit: u64, mut calls: Vec<Call>) -> Vec<Call> {
    for Call { verb, key, now, answer } in &mut calls {
        match *verb {
            Verb::Check(cost) => *answer = Some(limiter.check_at(key, cost, *now)),
            Verb::Peek => *answer = Some(limiter.peek_at(key, 1, *now)),
            Verb::Refund(tokens) => limiter.refund_at(key, tokens, *now),
            Verb::Change(seconds) => limiter.set_quota_at(quota(limit, seconds), *now).unwrap(),
        }
    }
    calls
}

fn is_bucket(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
}

/// A game that was played.
struct Played<'a> {
    limiter: &'a KeyedLimiter<u64>,
    algorithm: Algorithm,
    limit: u64,
    game: Game,
    calls: &'a [Call],
}

/// Plays `game` once, in the schedule that shuttle chooses.
fn play_once(game: Game, algorithm: Algorithm, judge: fn(&Played<'_>)) {
    let limit = [2, 4, 8][thread_rng().gen_range(0..3)];
    let limiter = Arc::new(idle_cells(algorithm, limit, game.overflow));
    let spawn = |_| {
        let count = thread_rng().gen_range(5..=10);
        let calls = (0..count).map(|_| random_call(game, algorithm)).collect();
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || perform(&limiter, limit, calls))
    };
    let threads: Vec<_> = (0..thread_rng().gen_range(4..=6)).map(spawn).collect();
    let calls: Vec<Call> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    judge(&Played { limiter: &limiter, algorithm, limit, game, calls: &calls });
}

/// Plays `game` on every algorithm, and judges each time.
fn play(game: Game, judge: fn(&Played<'_>)) {
    for algorithm in Algorithm::ALL {
        explore(move || play_once(game, algorithm, judge));
    }
}

/// Runs it in so many schedules of each kind.
fn explore(once: impl Fn() + Copy + Send + Sync + 'static) {
    let wanted = std::env::var("TOLLGATE_SCHEDULES").ok().filter(|count| !count.is_empty());
    let schedules = wanted.map_or(500, |count| count.parse().expect("a number of schedules"));
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS);
    // That it takes every ordering for the strongest is said above.
    config.silence_warnings = true;
    let even = RandomScheduler::new_from_seed(1, schedules);
    assert_eq!(Runner::new(even, config.clone()).run(once), schedules);
    let by_priority = PctScheduler::new_from_seed(1, 3, schedules);
    assert_eq!(Runner::new(by_priority, config).run(once), schedules);
}

impl Played<'_> {
    fn of(&self, key: u64) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.key == key)
    }

    fn admitted(&self, key: u64) -> u64 {
        let cost = |call: &Call| match (call.verb, call.answer) {
            (Verb::Check(cost), Some(answer)) if answer.is_allowed() => cost,
            _ => 0,
        };
        self.of(key).map(cost).sum()
    }

    fn refunded(&self, key: u64) -> u64 {
        let tokens = |call: &Call| if let Verb::Refund(tokens) = call.verb { tokens } else { 0 };
        self.of(key).map(tokens).sum()
    }

    /// Thousandths of a token that `key` owes when all is over.
    fn owed(&self, key: u64) -> u64 {
        let answer = self.limiter.peek_at(&key, 1, NOW);
        if is_bucket(self.algorithm) {
            // A token takes a second, so the time until nothing is owed tells parts of one.
            answer.reset_after().unwrap().as_millis() as u64
        } else {
            (self.limit - answer.remaining()) * 1_000
        }
    }
}

/// What holds at one instant, at which no token comes back: a key owes what was admitted to it and
/// neither refunded nor forgotten by a counted eviction, and is refused for nothing else.
fn one_instant(played: &Played<'_>) {
    let limit = played.limit;
    played.limiter.set_quota_at(quota(limit, limit), NOW).unwrap();
    let mut forgotten = 0;
    for key in 1..=played.game.keys {
        let (admitted, owed) = (played.admitted(key) * 1_000, played.owed(key));
        assert!(owed <= admitted, "key {key}: {owed} owed, {admitted} admitted");
        forgotten += admitted.saturating_sub(owed + played.refunded(key) * 1_000);
        for call in played.of(key) {
            let Some(answer) = call.answer.filter(|answer| !answer.is_full()) else { continue };
            let left = limit.saturating_sub(played.admitted(key));
            match call.verb {
                Verb::Check(cost) => assert!(answer.is_allowed() || cost > left, "{call:?}"),
                _ => assert!(answer.remaining() >= left, "{call:?}"),
            }
        }
    }
    let evicted = played.limiter.stats().evicted;
    assert!(forgotten <= evicted * limit * 1_000, "{forgotten} forgotten, {evicted} evicted");
}

#[test]
fn what_is_admitted_is_owed() {
    play(ONE_INSTANT, one_instant);
}

#[test]
fn what_is_refunded_is_spent_once_more() {
    play(Game { refunds: true, ..ONE_INSTANT }, one_instant);
}

#[test]
fn a_change_of_the_quota_keeps_what_is_owed() {
    play(Game { changes: true, ..ONE_INSTANT }, one_instant);
}

#[test]
fn a_key_gains_only_by_evictions_that_are_counted() {
    let game = Game { keys: 4, overflow: Overflow::EvictNearest, ..ONE_INSTANT };
    play(game, one_instant);
    play(Game { refunds: true, changes: true, ..game }, one_instant);
}

/// Three keys share two cells, which they leave to each other when they owe nothing: a key that is
/// forgotten by a fast clock gains nothing from a slow one.
#[test]
fn clocks_that_differ_mint_nothing() {
    play(Game { keys: 3, clocks: 2, ..ONE_INSTANT }, |played| {
        for key in 1..=3 {
            // The burst, or a first window, and what came back in all the time there was.
            let most = played.limit * (1 + played.game.clocks);
            assert!(played.admitted(key) <= most, "key {key}: {}", played.admitted(key));
        }
    });
}

/// Tokens that work may cost beyond its estimate and the burst.
const DEBT: u64 = 2;

/// Reserves, settles and checks at random, at one instant; returns what was kept.
fn settle_at_random(limiter: &KeyedLimiter<u64>, key: u64) -> u64 {
    let mut random = thread_rng();
    let mut kept = 0;
    let mut out = Vec::new();
    for _ in 0..random.gen_range(4..=8) {
        let tokens = random.gen_range(0..=3);
        match random.gen_range(0..5) {
            0 => kept += tokens * u64::from(limiter.check_at(&key, tokens, NOW).is_allowed()),
            1 | 2 => out.extend(limiter.reserve_at(&key, tokens, NOW)),
            _ if out.is_empty() => {}
            _ => {
                let permit: Permit<'_> = out.swap_remove(random.gen_range(0..out.len()));
                kept += tokens - permit.commit_at(tokens, NOW);
            }
        }
    }
    for permit in out {
        let (estimate, is_kept) = (permit.estimate(), random.gen_bool(0.5));
        kept += if is_kept { estimate } else { 0 };
        if is_kept { permit.keep() } else { drop(permit) }
    }
    kept
}

/// Permits of many threads on two keys: what is kept is within the burst and its debt, and is owed.
#[test]
fn what_permits_keep_is_owed() {
    explore(|| {
        let burst = thread_rng().gen_range(2..=8);
        let builder = KeyedLimiter::builder(Quota::per_second(1).burst(burst)).capacity(2).seed(1);
        let (clock, time) = Clock::manual();
        time.set(Duration::from_nanos(NOW));
        let builder = builder.permits(Permits::new().debt(DEBT)).clock(clock);
        let builder = builder.overflow(Overflow::Refuse);
        let limiter = Arc::new(builder.build().unwrap());
        let spawn = |number: u64| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || settle_at_random(&limiter, number % 2 + 1))
        };
        let threads: Vec<_> = (0..thread_rng().gen_range(4..=6)).map(spawn).collect();
        let mut kept = [0; 2];
        for (number, thread) in threads.into_iter().enumerate() {
            kept[number % 2] += thread.join().unwrap();
        }
        for (key, kept) in [1, 2].into_iter().zip(kept) {
            let owed = limiter.peek_at(&key, 1, NOW).reset_after().unwrap().as_secs();
            assert!(kept <= owed && owed <= burst + DEBT, "{key}: {kept} of {burst}, {owed} owed");
        }
    });
}
