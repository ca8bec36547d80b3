//! Calls that wait among others that leave: dropped and forgotten tasks, plain calls between them, and
//! timers that are exact, early or late. Nobody hangs, goes early, or is overtaken, and every
//! interval keeps the quota.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{KeyedLimiter, Quota};

use crate::executor::{Executor, SECOND, Virtual, keyed, nanos, within};
use crate::properties::cases;

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

/// Tasks at one key, and what is known of them.
struct Crowd<'a> {
    limiter: &'a KeyedLimiter<str>,
    executor: Executor<'a>,
    meter: Meter,
    /// By how much timers are late.
    late: u64,
    /// Of each task its cost, and when its turn is.
    turns: Vec<(u64, u64)>,
    /// How many of those that have ended are in the meter, and how many have been taken away.
    counted: usize,
    left: usize,
}

impl Crowd<'_> {
    /// Lets time pass, and looks at those who have gone.
    fn pass_time(&mut self, by: u64) -> Result<(), TestCaseError> {
        self.executor.run(self.executor.now() + by);
        for &(index, at, result) in &self.executor.ended[self.counted..] {
            prop_assert_eq!(result, Ok(()));
            let (cost, due) = self.turns[index];
            prop_assert!(at >= due, "{} is early by {}", index, due - at);
            prop_assert!(at <= due + self.late, "{} is late by {}", index, at - due);
            self.meter.pass(cost, at, self.late);
        }
        self.counted = self.executor.ended.len();
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        let now = self.executor.now();
        match act {
            &Act::Wait { cost } => {
                let due = self.limiter.peek_at("key", cost, now).retry_after().unwrap();
                let sleeper = self.executor.timers.clone();
                let options = within(1_000_000);
                let waits = self.limiter.until_ready_with("key", cost, sleeper, options);
                let index = self.executor.spawn(waits);
                self.turns.push((cost, now + nanos(due)));
                prop_assert_eq!(self.executor.is_waiting(index), due > Duration::ZERO);
                // Who need not wait has gone.
                self.pass_time(0)?;
            }
            &Act::Check { cost } => {
                let is_allowed = self.limiter.check_n("key", cost).is_allowed();
                let waits = |(index, &(_, due)): (usize, &(u64, u64))| {
                    due > now && self.executor.is_waiting(index)
                };
                let has_line = self.turns.iter().enumerate().any(waits);
                prop_assert!(!(is_allowed && has_line), "a plain call has overtaken a line");
                if is_allowed {
                    self.meter.pass(cost, now, self.late);
                }
            }
            Act::Drop(index) => drop(self.take(index)),
            Act::Forget(index) => std::mem::forget(self.take(index)),
        }
        Ok(())
    }

    /// Takes a task away.
    fn take(&mut self, index: &prop::sample::Index) -> Option<impl Sized> {
        let tasks = self.executor.tasks.len();
        let task = self.executor.tasks.get_mut(index.index(tasks.max(1)))?.take();
        self.left += usize::from(task.is_some());
        task
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

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
        let timers = Virtual::new(time, move |wait| wait * times / of + late);
        let mut crowd = Crowd {
            limiter: &limiter,
            executor: Executor::new(timers),
            meter: Meter { quota, excess: 0, last: 0 },
            late,
            turns: Vec::new(),
            counted: 0,
            left: 0,
        };
        for (by, act) in &acts {
            crowd.pass_time(*by)?;
            crowd.act(act)?;
        }
        crowd.pass_time(1_000 * SECOND)?;
        let ended = &crowd.executor.ended;
        prop_assert_eq!(ended.len() + crowd.left, crowd.turns.len(), "somebody hangs");
        prop_assert!(late > 0 || ended.is_sorted_by_key(|&(index, ..)| index), "out of order");
    }
}
