//! Requests that wait for their turn instead of being refused.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use crate::probe::Site;
use crate::sync::{Counter, Relaxed};
use crate::tower::answer::longest_wait;
use crate::tower::gate::{Asked, Counts, Shared};
use crate::wait::{Sleeper, WaitOptions};

/// A timer that runs.
type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a request may wait, how many may at a time, and by whose timers.
#[derive(Clone)]
pub(super) struct Hold {
    max: Duration,
    most: u64,
    waiting: Arc<Counter>,
    sleep: Arc<dyn Fn(Duration) -> Sleep + Send + Sync>,
}

/// The place of a request that waits.
pub(super) struct Slot(Arc<Counter>);

impl Hold {
    pub(super) fn new<S>(max: Duration, most: usize, sleeper: S) -> Hold
    where
        S: Sleeper + Send + Sync + 'static,
        S::Sleep: Send + 'static,
    {
        let sleep = move |wait| -> Sleep { Box::pin(sleeper.sleep(wait)) };
        let (waiting, most) = (Arc::new(Counter::new(0)), most as u64);
        Hold { max, most, waiting, sleep: Arc::new(sleep) }
    }

    /// The longest wait.
    pub(super) fn max(&self) -> Duration {
        self.max
    }

    /// A place, if there is one left.
    pub(super) fn slot(&self) -> Option<Slot> {
        // Relaxed: a number of requests, by which nothing else is read.
        let before = self.waiting.fetch_add(1, Relaxed.at("hold/enter"));
        let slot = Slot(Arc::clone(&self.waiting));
        // Dropped, it is given back.
        (before < self.most).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Relaxed: as where it was taken.
        self.0.fetch_sub(1, Relaxed.at("hold/leave"));
    }
}

impl Sleeper for Hold {
    type Sleep = Sleep;

    fn sleep(&self, wait: Duration) -> Sleep {
        (self.sleep)(wait)
    }
}

/// Waits until the rules admit; what they have said, if they do not in time. Dropped, it leaves the line, and
/// its place.
pub(super) async fn wait(shared: Arc<Shared>, counts: Counts, _slot: Slot) -> Asked {
    let Some(hold) = &shared.hold else { return Err(shared.foreseen(&counts)) };
    let Some(one) = shared.line(&counts) else { return ask_again(&shared, hold, &counts).await };
    let limiter = &shared.rules[one.rule].limiter;
    let options = WaitOptions::new().within(hold.max);
    match limiter.until_ready_with(&one.key, one.cost, hold, options).await {
        Ok(()) => Ok(shared.admit_after_wait(&counts, one)),
        Err(_) => Err(shared.foreseen(&counts)),
    }
}

/// Several rules have no line in common: nothing is reserved, and the request asks again when the longest
/// wait is over. No order is promised.
async fn ask_again(shared: &Arc<Shared>, hold: &Hold, counts: &Counts) -> Asked {
    let start = shared.now(counts);
    let mut slept = Duration::ZERO;
    loop {
        let told = match shared.ask(counts) {
            Ok(ending) => return Ok(ending),
            Err(told) => told,
        };
        // Timers may be late, and clocks may stand.
        let waited = shared.now(counts).saturating_sub(start).max(slept);
        let left = hold.max.saturating_sub(waited);
        let Some(wait) = longest_wait(&told).filter(|&wait| wait <= left) else {
            return Err(told);
        };
        hold.sleep(wait).await;
        slept += wait;
    }
}
