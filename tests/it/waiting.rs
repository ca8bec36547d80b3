//! Calls that wait, in virtual time.
//!
//! 1. Ten thousand tasks go in order, each at its turn to the nanosecond, at any rate.
//! 2. What becomes of places that are left, and of those who wait when the quota changes or the clock
//!    goes back.

use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::{Algorithm, Clock, KeyedLimiter, Quota, Sleeper, WaitError, WaitOptions};

use crate::executor::{Executor, SECOND, Virtual, keyed, limiter_of, nanos, within};

/// 1. When the token of the call of this number comes back, rounded up to a nanosecond.
fn turn(quota: Quota, call: u64) -> u64 {
    let ahead = u128::from((call + 1).saturating_sub(quota.burst_size()));
    (ahead * quota.period().as_nanos()).div_ceil(u128::from(quota.limit())) as u64
}

#[test]
fn ten_thousand_tasks_go_in_order_each_at_its_turn() {
    for quota in [
        Quota::per_second(1_000).burst(1),
        Quota::per_second(1_000).burst(50),
        Quota::per_second(997).burst(7),
        Quota::per_second(3),
        Quota::per_minute(700).burst(10),
    ] {
        let (limiter, time) = keyed(quota);
        let mut executor = Executor::new(Virtual::exact(time));
        for _ in 0..10_000 {
            let sleeper = executor.timers.clone();
            executor.spawn(limiter.until_ready_with("key", 1, sleeper, within(10_000)));
        }
        executor.run(u64::MAX);
        assert_eq!(executor.ended.len(), 10_000);
        for (call, &(index, at, result)) in executor.ended.iter().enumerate() {
            assert_eq!((index, at, result), (call, turn(quota, call as u64), Ok(())));
        }
        assert_eq!(limiter.stats().admitted, 10_000);
    }
}

/// A queue lets one call out per interval, whatever is asked at once, and has `burst` places.
#[test]
fn a_queue_lets_calls_out_at_its_rate() {
    let quota = Quota::per_second(10).burst(30);
    let (limiter, time) = limiter_of(Algorithm::LeakyBucket, quota);
    let mut executor = Executor::new(Virtual::exact(time));
    for _ in 0..31 {
        let sleeper = executor.timers.clone();
        executor.spawn(limiter.until_ready(sleeper));
    }
    executor.run(u64::MAX);
    let full = WaitError::Full { retry_after: Some(Duration::from_millis(100)) };
    assert!(executor.ended.contains(&(30, 0, Err(full))));
    let gone: Vec<_> = executor.ended.iter().filter(|(.., result)| result.is_ok()).collect();
    assert_eq!(gone.len(), 30);
    for (call, &&(index, at, _)) in gone.iter().enumerate() {
        assert_eq!((index, at), (call, call as u64 * SECOND / 10));
    }
    // The longest wait holds in a queue, too.
    executor.timers.time.set(Duration::from_secs(10));
    assert!(limiter.check_n(10).is_allowed());
    let (wait, max) = (Duration::from_secs(1), Duration::from_millis(999));
    let refused = limiter.line_up(1, max).err();
    assert_eq!(refused, Some(WaitError::TooLong { wait, max }));
    assert!(limiter.line_up(1, wait).is_ok());
}

#[test]
fn a_large_cost_is_not_starved_by_small_ones_that_come_later() {
    let (limiter, time) = keyed(Quota::per_second(10).burst(10));
    let mut executor = Executor::new(Virtual::exact(time));
    let sleeper = executor.timers.clone();
    assert!(limiter.check_n("key", 10).is_allowed());
    executor.spawn(limiter.until_ready_n("key", 10, sleeper.clone()));
    for _ in 0..5 {
        executor.spawn(limiter.until_ready("key", sleeper.clone()));
    }
    executor.run(u64::MAX);
    let at = |tenths: u64| tenths * SECOND / 10;
    let ended: Vec<_> = executor.ended.iter().map(|&(index, at, _)| (index, at)).collect();
    assert_eq!(ended[..2], [(0, at(10)), (1, at(11))]);
    assert_eq!(ended[5], (5, at(15)));
}

#[test]
fn the_wait_that_a_plain_call_is_told_counts_the_line() {
    let (limiter, time) = keyed(Quota::per_second(10).burst(2));
    let mut executor = Executor::new(Virtual::exact(time));
    for waiting in 0..20 {
        let wait = limiter.peek("key").retry_after().unwrap();
        assert_eq!(nanos(wait), turn(Quota::per_second(10).burst(2), waiting));
        let sleeper = executor.timers.clone();
        executor.spawn(limiter.until_ready("key", sleeper));
    }
    let decision = limiter.check("key");
    assert!(!decision.is_allowed());
    let wait = decision.retry_after().unwrap();
    executor.run(nanos(wait) - 1);
    assert!(!limiter.check("key").is_allowed());
    executor.run(nanos(wait));
    assert!(limiter.check("key").is_allowed());
}

#[test]
fn a_call_that_may_not_wait_so_long_or_would_for_ever_leaves_nothing() {
    let (limiter, time) = keyed(Quota::per_second(10).burst(2));
    let mut executor = Executor::new(Virtual::exact(time));
    let sleeper = executor.timers.clone();
    assert!(limiter.check_n("key", 2).is_allowed());
    let before = limiter.peek("key").reset_after();
    let briefly = WaitOptions::new().within(Duration::from_millis(99));
    executor.spawn(limiter.until_ready_with("key", 1, sleeper.clone(), briefly));
    executor.spawn(limiter.until_ready_n("key", 3, sleeper.clone()));
    let (wait, max) = (Duration::from_millis(100), Duration::from_millis(99));
    let never = WaitError::Never { cost: 3, burst: 2 };
    let told = [(0, 0, Err(WaitError::TooLong { wait, max })), (1, 0, Err(never))];
    assert_eq!(executor.ended, told);
    assert_eq!(limiter.peek("key").reset_after(), before);
    // A future that is not polled stands in no line.
    drop(limiter.until_ready("key", sleeper));
    assert_eq!(limiter.peek("key").reset_after(), before);
    // Of a limit of 0 there are the tokens of the burst.
    let (limiter, _) = limiter_of(Algorithm::TokenBucket, Quota::per_second(0).burst(1));
    assert_eq!(limiter.wait(), Ok(()));
    assert_eq!(limiter.wait(), Err(WaitError::Never { cost: 1, burst: 1 }));
}

/// 2. Those who wait go on by the new quota, in the same order; who sleeps is not woken.
#[test]
fn a_change_of_quota_moves_the_turns_and_not_the_order() {
    let slow = Quota::per_second(1).burst(1);
    let fast = Quota::per_second(10).burst(1);
    let other_units = Quota::per_hour(1).burst(1);
    for (before, after, turns) in [
        // Slower: who wakes sleeps on. The first token is there at the change; nine are owed.
        (fast, slow, [0, 5, 15, 25]),
        // Faster: who sleeps is not woken, and goes when its timer ends.
        (slow, fast, [0, 10, 20, 30]),
    ] {
        let (limiter, time) = keyed(before);
        let mut executor = Executor::new(Virtual::exact(time));
        for _ in 0..4 {
            let sleeper = executor.timers.clone();
            executor.spawn(limiter.until_ready("key", sleeper));
        }
        executor.run(SECOND / 20);
        limiter.set_quota(after).unwrap();
        executor.run(u64::MAX);
        let at: Vec<u64> = executor.ended.iter().map(|&(_, at, _)| at * 10 / SECOND).collect();
        let order: Vec<usize> = executor.ended.iter().map(|&(index, ..)| index).collect();
        assert_eq!((order, at), (vec![0, 1, 2, 3], turns.to_vec()));
    }
    // To other units and back: each still has its own token to wait for.
    let (limiter, time) = keyed(fast);
    let mut executor = Executor::new(Virtual::exact(time));
    for _ in 0..4 {
        let sleeper = executor.timers.clone();
        executor.spawn(limiter.until_ready("key", sleeper));
    }
    limiter.set_quota(other_units).unwrap();
    executor.run(3_600 * SECOND - 1);
    assert_eq!(executor.ended.len(), 1);
    executor.run(3_600 * SECOND);
    assert_eq!(executor.ended.len(), 2);
    limiter.set_quota(fast).unwrap();
    executor.run(u64::MAX);
    assert_eq!(executor.ended.len(), 4);
    assert!(executor.ended[2].1 >= 3_600 * SECOND + SECOND / 10);
}

/// 2. Who has slept through too many changes of units stands at the end of the line.
#[test]
fn a_place_that_slept_through_many_changes_is_not_early() {
    for changes in 0..12_u64 {
        let (limiter, _) = limiter_of(Algorithm::Gcra, Quota::per_second(1).burst(1));
        let max = Duration::from_secs(100);
        let mut places: Vec<_> = (0..4).map(|_| limiter.line_up_at(1, max, 0).unwrap()).collect();
        for change in 0..changes {
            // Each has an interval of its own, which are units of their own.
            limiter.set_quota_at(Quota::per_second(2 + change % 2).burst(1), 0).unwrap();
        }
        limiter.set_quota_at(Quota::per_second(1).burst(1), 0).unwrap();
        let end = limiter.peek_at(1, 0).reset_after().unwrap();
        let turns = places.iter_mut().map(|place| place.remaining_at(0).unwrap());
        for (ahead, turn) in turns.enumerate().skip(1) {
            let own = Duration::from_secs(ahead as u64);
            let last = end.saturating_sub(Duration::from_secs(1));
            let turn = turn.expect("no token has come back");
            assert!(turn >= own && turn <= last, "{changes} changes: {turn:?}, {own:?}");
            if changes < 4 {
                assert!(turn < own + Duration::from_micros(1), "{turn:?}, {own:?}");
            }
        }
        assert_eq!(limiter.peek_at(1, 0).reset_after(), Some(end), "nobody is charged again");
        for place in &mut places {
            assert_eq!(place.remaining_at(100 * SECOND), Ok(None));
        }
    }
}

/// 2. A burst below the cost, or a limit of 0, ends a wait, and gives the place up.
#[test]
fn a_quota_under_which_no_turn_comes_ends_the_wait() {
    for after in [Quota::per_second(1).burst(1), Quota::per_second(0).burst(2)] {
        let (limiter, time) = keyed(Quota::per_second(1).burst(2));
        let mut executor = Executor::new(Virtual::exact(time));
        let sleeper = executor.timers.clone();
        assert!(limiter.check_n("key", 2).is_allowed());
        executor.spawn(limiter.until_ready_n("key", 2, sleeper));
        executor.run(SECOND);
        limiter.set_quota(after).unwrap();
        executor.run(u64::MAX);
        let never = WaitError::Never { cost: 2, burst: after.burst_size() };
        let (index, _, result) = executor.ended[0];
        assert_eq!((index, result), (0, Err(never)));
    }
    let (limiter, _) = limiter_of(Algorithm::TokenBucket, Quota::per_second(1).burst(2));
    assert!(limiter.check_at(2, 0).is_allowed());
    let mut place = limiter.line_up_at(2, Duration::from_secs(9), 0).unwrap();
    limiter.set_quota_at(Quota::per_second(1).burst(1), 0).unwrap();
    assert_eq!(place.remaining_at(0), Err(WaitError::Never { cost: 2, burst: 1 }));
    place.give_up_at(0);
    assert_eq!(limiter.peek_at(1, 0).reset_after(), Some(Duration::from_secs(2)));
}

#[test]
fn a_clock_that_goes_back_makes_the_wait_longer_by_the_step() {
    let (limiter, time) = keyed(Quota::per_second(1).burst(1));
    time.set(Duration::from_secs(100));
    let mut executor = Executor::new(Virtual::exact(time.clone()));
    for _ in 0..3 {
        let sleeper = executor.timers.clone();
        executor.spawn(limiter.until_ready("key", sleeper));
    }
    time.set(Duration::from_secs(90));
    // The timers were set for the old time; by the limiter's clock all turns are 10 seconds further.
    executor.run(u64::MAX);
    let ended: Vec<_> = executor.ended.iter().map(|&(_, at, _)| at / SECOND).collect();
    assert_eq!(ended, [100, 101, 102]);
    let mut place = limiter.line_up("key", 1, Duration::from_secs(9)).unwrap();
    let (there, back) = (102 * SECOND, 92 * SECOND);
    assert_eq!(place.remaining_at(there), Ok(Some(Duration::from_secs(1))));
    assert_eq!(place.remaining_at(back), Ok(Some(Duration::from_secs(11))));
    assert_eq!(place.remaining_at(there + SECOND), Ok(None));
    assert_eq!(place.remaining_at(back), Ok(None), "a turn that has come has come");
}

/// Who leaves last first loses nothing; else a slot lapses, and nobody behind is early or late.
#[test]
fn a_place_that_is_left_comes_back_if_it_is_the_last() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let (limiter, _) = keyed(Quota::per_second(1).burst(1));
    let max = Duration::from_secs(60);
    let mut places: Vec<_> = (0..11).map(|_| limiter.line_up("key", 1, max).unwrap()).collect();
    assert_eq!(limiter.peek("key").reset_after(), seconds(11));
    while places.len() > 6 {
        drop(places.pop());
        assert_eq!(limiter.peek("key").reset_after(), seconds(places.len() as u64));
    }
    drop(places.remove(3));
    assert_eq!(limiter.peek("key").reset_after(), seconds(6));
    assert_eq!(places[4].remaining(), Ok(seconds(5)));
    // A refund passes the line by; a reset ends it.
    limiter.refund("key", 3);
    assert_eq!(limiter.peek("key").reset_after(), seconds(6));
    limiter.reset("key");
    let mut next = limiter.line_up("key", 1, max).unwrap();
    assert_eq!(next.remaining(), Ok(None));
    assert_eq!(places[4].remaining(), Ok(seconds(5)));
    drop(places);
    assert_eq!(
        limiter.peek("key").reset_after(),
        seconds(1),
        "what was forgiven is not given back"
    );
}

/// A task that waits by timers that panic, or whose runtime is shut down, leaves its place.
#[test]
fn a_call_that_unwinds_leaves_its_place() {
    struct Broken;
    impl Sleeper for Broken {
        type Sleep = std::future::Ready<()>;
        fn sleep(&self, _: Duration) -> Self::Sleep {
            panic!("there is no timer")
        }
    }
    let (limiter, _) = keyed(Quota::per_second(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let waits = std::panic::AssertUnwindSafe(limiter.until_ready("key", Broken));
    let poll = std::panic::catch_unwind(|| {
        let waits = waits;
        let mut waits = Box::pin(waits.0);
        waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    });
    assert!(poll.is_err());
    assert_eq!(limiter.peek("key").reset_after(), Some(Duration::from_secs(1)));
}

#[cfg(feature = "tokio")]
#[test]
fn a_runtime_that_is_shut_down_gives_all_places_up() {
    let (limiter, _) = keyed(Quota::per_hour(1).burst(1));
    let limiter = std::sync::Arc::new(limiter);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(limiter.check("key").is_allowed());
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let limiter = std::sync::Arc::clone(&limiter);
            let task = async move {
                let options = within(100 * 3_600);
                limiter.until_ready_with("key", 1, tollgate::TokioSleeper, options).await
            };
            runtime.spawn(task)
        })
        .collect();
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(limiter.peek("key").reset_after(), Some(Duration::from_secs(6 * 3_600)));
    drop(runtime);
    assert!(tasks.iter().all(tokio::task::JoinHandle::is_finished));
    assert_eq!(std::sync::Arc::strong_count(&limiter), 1);
    // What came back depends on the order in which the runtime dropped them.
    let line = limiter.peek("key").reset_after().unwrap();
    assert!(line >= Duration::from_secs(3_600) && line < Duration::from_secs(6 * 3_600));
}

/// A key with a line is not evicted from a full table, and one more has no place.
#[test]
fn a_line_is_not_evicted() {
    let (clock, _time) = Clock::manual();
    let builder = KeyedLimiter::builder(Quota::per_hour(1).burst(1)).capacity(1).clock(clock);
    let limiter: KeyedLimiter<u32> = builder.build().unwrap();
    let max = Duration::from_secs(3_600);
    let mut places = Vec::new();
    // The second place of each key is beyond its burst.
    for key in 0..31 {
        for _ in 0..2 {
            places.push(limiter.line_up(&key, 1, max).unwrap());
        }
    }
    let full = WaitError::Full { retry_after: Some(2 * max) };
    assert_eq!(limiter.line_up(&99, 1, max).err(), Some(full));
    assert!(limiter.check(&99).is_full());
    assert_eq!(limiter.stats().evicted, 0);
}

#[test]
fn jitter_only_adds() {
    let quota = Quota::per_second(10).burst(1);
    let (limiter, time) = keyed(quota);
    let mut executor = Executor::new(Virtual::exact(time));
    let jitter = Duration::from_millis(30);
    for _ in 0..50 {
        let sleeper = executor.timers.clone();
        let options = WaitOptions::new().jitter(jitter);
        executor.spawn(limiter.until_ready_with("key", 1, sleeper, options));
    }
    executor.run(u64::MAX);
    let late: Vec<u64> =
        executor.ended.iter().map(|&(index, at, _)| at - turn(quota, index as u64)).collect();
    assert_eq!(late.len(), 50);
    assert!(late.iter().all(|&late| late < nanos(jitter)) && late[0] == 0);
    assert!(late.iter().any(|&late| late > nanos(jitter) / 2), "{late:?}");
}
