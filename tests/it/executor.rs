//! An executor in virtual time: its timers move the limiter's clock.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{
    Algorithm, Clock, KeyedLimiter, Limiter, ManualClock, Quota, Sleeper, WaitError, WaitOptions,
};

pub const SECOND: u64 = 1_000_000_000;

pub fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// When which task is to be polled, the first at the top.
type Wakes = BinaryHeap<Reverse<(u64, usize)>>;

/// Timers in virtual time. Whoever is polled is the task of this number.
#[derive(Clone)]
pub struct Virtual {
    pub time: ManualClock,
    task: Rc<Cell<usize>>,
    wakes: Rc<RefCell<Wakes>>,
    /// How long a timer for so many nanoseconds takes.
    takes: Rc<dyn Fn(u64) -> u64>,
}

pub struct Timer(ManualClock, u64);

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if nanos(self.0.now()) >= self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Virtual {
    pub fn new(time: ManualClock, takes: impl Fn(u64) -> u64 + 'static) -> Virtual {
        Virtual { time, task: Rc::default(), wakes: Rc::default(), takes: Rc::new(takes) }
    }

    pub fn exact(time: ManualClock) -> Virtual {
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

pub type Waits<'a> = Pin<Box<dyn Future<Output = Result<(), WaitError>> + 'a>>;

/// Which task has ended, when, and what it was told.
pub type Ended = (usize, u64, Result<(), WaitError>);

/// The tasks, each until it has ended, and when they ended.
pub struct Executor<'a> {
    pub timers: Virtual,
    pub tasks: Vec<Option<Waits<'a>>>,
    pub ended: Vec<Ended>,
}

impl<'a> Executor<'a> {
    pub fn new(timers: Virtual) -> Executor<'a> {
        Executor { timers, tasks: Vec::new(), ended: Vec::new() }
    }

    pub fn now(&self) -> u64 {
        nanos(self.timers.time.now())
    }

    /// Starts a task, which is polled once.
    pub fn spawn(&mut self, task: impl Future<Output = Result<(), WaitError>> + 'a) -> usize {
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
    pub fn run(&mut self, until: u64) {
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

    pub fn is_waiting(&self, index: usize) -> bool {
        self.tasks[index].is_some()
    }
}

pub fn limiter_of(algorithm: Algorithm, quota: Quota) -> (Limiter, ManualClock) {
    let (clock, time) = Clock::manual();
    (Limiter::builder(quota).algorithm(algorithm).clock(clock).build().unwrap(), time)
}

pub fn keyed(quota: Quota) -> (KeyedLimiter<str>, ManualClock) {
    let (clock, time) = Clock::manual();
    (KeyedLimiter::builder(quota).capacity(100).clock(clock).build().unwrap(), time)
}

pub fn within(seconds: u64) -> WaitOptions {
    WaitOptions::new().within(Duration::from_secs(seconds))
}
