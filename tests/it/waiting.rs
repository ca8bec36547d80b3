//! Calls that wait, in virtual time: tasks on an executor whose timers move the limiter's clock.
//!
//! 1. Ten thousand tasks go in order, each at its turn to the nanosecond, at any rate.
//! 2. With tasks that are dropped or forgotten among them, plain calls between, and timers that are
//!    early or late, nobody hangs, goes early, or is overtaken, and every interval keeps the quota.
//! 3. What becomes of those who wait when the quota changes or the clock goes back.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, Clock, KeyedLimiter, Limiter, ManualClock, Quota, Sleeper, WaitError, WaitOptions,
};

use crate::properties::cases;

const SECOND: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Timers in virtual time. Whoever is polled is the task of this number.
#[derive(Clone)]
struct Virtual {
    time: ManualClock,
    task: Rc<Cell<usize>>,
    wakes: Rc<RefCell<BinaryHeap<Reverse<(u64, usize)>>>>,
    /// How long a timer for so many nanoseconds takes.
    takes: Rc<dyn Fn(u64) -> u64>,
}

struct Timer(ManualClock, u64);

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if nanos(self.0.now()) >= self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Virtual {
    fn new(time: ManualClock, takes: impl Fn(u64) -> u64 + 'static) -> Virtual {
        Virtual { time, task: Rc::default(), wakes: Rc::default(), takes: Rc::new(takes) }
    }

    fn exact(time: ManualClock) -> Virtual {
        Virtual::new(time, |wait| wait)
    }
}

impl Sleeper for Virtual {
    type Sleep = Timer;

    fn sleep(&self, wait: Duration) -> Timer {
        let at = nanos(self.time.now()) + (self.takes)(nanos(wait)).max(1);
        self.wakes.borrow_mut().push(Reverse((at, self.task.get())));
        Timer(self.time.clone(), at)
    }
}

type Waits<'a> = Pin<Box<dyn Future<Output = Result<(), WaitError>> + 'a>>;

/// The tasks, each until it has ended, and when they ended.
struct Executor<'a> {
    timers: Virtual,
    tasks: Vec<Option<Waits<'a>>>,
    ended: Vec<(usize, u64, Result<(), WaitError>)>,
}

impl<'a> Executor<'a> {
    fn new(timers: Virtual) -> Executor<'a> {
        Executor { timers, tasks: Vec::new(), ended: Vec::new() }
    }

    fn now(&self) -> u64 {
        nanos(self.timers.time.now())
    }

    /// Starts a task, which is polled once.
    fn spawn(&mut self, task: impl Future<Output = Result<(), WaitError>> + 'a) -> usize {
        self.tasks.push(Some(Box::pin(task)));
        self.poll(self.tasks.len() - 1);
        self.tasks.len() - 1
    }

    fn poll(&mut self, index: usize) {
        self.timers.task.set(index);
        let Some(task) = &mut self.tasks[index] else { return };
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
            self.tasks[index] = None;
            self.ended.push((index, self.now(), result));
        }
    }

    /// Runs all timers that end up to `until`, and comes there.
    fn run(&mut self, until: u64) {
        loop {
            let next = self.timers.wakes.borrow_mut().pop();
            match next {
                Some(Reverse((at, index))) if at <= until => {
                    if at > self.now() {
                        self.timers.time.set(Duration::from_nanos(at));
                    }
                    self.poll(index);
                }
                rest => {
                    self.timers.wakes.borrow_mut().extend(rest);
                    break;
                }
            }
        }
        if until < u64::MAX {
            self.timers.time.set(Duration::from_nanos(until));
        }
    }

    fn is_waiting(&self, index: usize) -> bool {
        self.tasks[index].is_some()
    }
}

fn limiter_of(algorithm: Algorithm, quota: Quota) -> (Limiter, ManualClock) {
    let (clock, time) = Clock::manual();
    (Limiter::builder(quota).algorithm(algorithm).clock(clock).build().unwrap(), time)
}

fn keyed(quota: Quota) -> (KeyedLimiter<str>, ManualClock) {
    let (clock, time) = Clock::manual();
    (KeyedLimiter::builder(quota).capacity(100).clock(clock).build().unwrap(), time)
}

fn within(seconds: u64) -> WaitOptions {
    WaitOptions::new().within(Duration::from_secs(seconds))
}

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

/// 3. Those who wait go on by the new quota, in the same order; who sleeps is not woken.
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

/// 3. A place is carried over through a few changes of units; who has slept through more stands at the
/// end of the line, is not charged again, and does not hang.
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
            let last = end - Duration::from_secs(1);
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

/// 3. A burst below the cost, or a limit of 0, ends a wait, and gives the place up.
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

/// What is done between the steps of time.
#[derive(Clone, Debug)]
enum Act {
    Wait { cost: u64 },
    Check { cost: u64 },
    Drop(prop::sample::Index),
    Forget(prop::sample::Index),
}

fn arb_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..4_u64).prop_map(|cost| Act::Wait { cost }),
        3 => (1..4_u64).prop_map(|cost| Act::Check { cost }),
        2 => any::<prop::sample::Index>().prop_map(Act::Drop),
        1 => any::<prop::sample::Index>().prop_map(Act::Forget),
    ]
}

/// By how much what has gone exceeds what was earned over any interval that ends now, in parts of
/// a token: the quota's limit is what comes back in a period's parts.
struct Meter {
    quota: Quota,
    excess: u128,
    last: u64,
}

impl Meter {
    fn pass(&mut self, cost: u64, at: u64, late: u64) {
        let limit = u128::from(self.quota.limit());
        self.excess = self.excess.saturating_sub(u128::from(at - self.last) * limit);
        self.last = at;
        let token = self.quota.period().as_nanos();
        self.excess += u128::from(cost) * token;
        // A unit of less than two nanoseconds is lost at the start of a busy spell.
        let most = u128::from(self.quota.burst_size()) * token + u128::from(late + 2) * limit;
        assert!(self.excess <= most, "{} of {most}", self.excess);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// 2.
    #[test]
    fn whoever_leaves_nobody_hangs_goes_early_or_is_overtaken(
        limit in prop::sample::select(&[1_u64, 3, 10, 997][..]),
        burst in 3..6_u64,
        timers in prop::sample::select(&[(1, 1, 0), (1, 2, 0), (1, 1, SECOND / 3)][..]),
        acts in prop::collection::vec((0..SECOND / 2, arb_act()), 1..120),
    ) {
        let quota = Quota::per_second(limit).burst(burst);
        let (limiter, time) = keyed(quota);
        let (times, of, late) = timers;
        let mut executor = Executor::new(Virtual::new(time, move |wait| wait * times / of + late));
        let mut meter = Meter { quota, excess: 0, last: 0 };
        // Of each task its cost, and when its turn is.
        let mut turns: Vec<(u64, u64)> = Vec::new();
        let (mut counted, mut left) = (0, 0);
        let end = (SECOND * 1_000, None);
        let acts = acts.into_iter().map(|(by, act)| (by, Some(act))).chain([end]);
        for (by, act) in acts {
            executor.run(executor.now() + by);
            let now = executor.now();
            for &(index, at, result) in &executor.ended[counted..] {
                prop_assert_eq!(result, Ok(()));
                let (cost, due) = turns[index];
                prop_assert!(at >= due, "{} is early by {}", index, due - at);
                prop_assert!(at <= due + late, "{} is late by {}", index, at - due);
                meter.pass(cost, at, late);
            }
            counted = executor.ended.len();
            let tasks = turns.len().max(1);
            match act {
                None => {}
                Some(Act::Wait { cost }) => {
                    let due = limiter.peek_at("key", cost, now).retry_after().unwrap();
                    let sleeper = executor.timers.clone();
                    let waits =
                        limiter.until_ready_with("key", cost, sleeper, within(1_000_000));
                    let index = executor.spawn(waits);
                    turns.push((cost, now + nanos(due)));
                    prop_assert_eq!(executor.is_waiting(index), due > Duration::ZERO);
                }
                Some(Act::Check { cost }) => {
                    if limiter.check_n("key", cost).is_allowed() {
                        let ahead = turns.iter().enumerate().any(|(index, &(_, due))| {
                            due > now && executor.is_waiting(index)
                        });
                        prop_assert!(!ahead, "a plain call has overtaken a line");
                        meter.pass(cost, now, late);
                    }
                }
                Some(Act::Drop(index)) if !turns.is_empty() => {
                    let index = index.index(tasks);
                    left += usize::from(executor.tasks[index].take().is_some());
                }
                Some(Act::Forget(index)) if !turns.is_empty() => {
                    let task = executor.tasks[index.index(tasks)].take();
                    left += usize::from(task.is_some());
                    std::mem::forget(task);
                }
                Some(_) => {}
            }
        }
        prop_assert_eq!(executor.ended.len() + left, turns.len(), "somebody hangs");
        let order = |pair: &[(usize, u64, Result<(), WaitError>)]| pair[0].0 < pair[1].0;
        prop_assert!(late > 0 || executor.ended.windows(2).all(order), "out of order");
    }
}
