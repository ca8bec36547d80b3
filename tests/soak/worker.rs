//! One of the threads: what it does in each round.
//!
//! A round has two halves, with a barrier after each. In the first the crowd's answers of the round
//! before are judged and its next calls are prepared; in the second all threads call.

use std::sync::atomic::Ordering;
use std::time::Instant;

use cpu_time::ThreadTime;
use fastrand::Rng;
use tollgate::{Algorithm, Decision};

use crate::known::{Fault, Heard, Known, Told};
use crate::plan::{self, CONTESTED, FREE, FREE_A_ROUND, SERIAL, STRANGERS, THREADS};
use crate::reference::Answer;
use crate::run::INTERRUPTED;
use crate::shared::{Round, Shared};
use crate::tally::{Part, Times, record};
use crate::watched::Watched;

/// Strangers' keys: a thread's own, in the order in which it asks for them.
const STRANGERS_OF: u32 = 48;

/// Keys that are contested, above all threads' strangers.
const CONTESTED_FROM: u64 = 1 << 60;

/// Rounds after which a thread hands over its times.
const ROUNDS_OF_TIMES: u64 = 64;

/// Rounds for which the keys of a phase are awake, and how many phases there are. Three of four
/// sleep for longer than it takes them to fall idle.
const PHASE: u64 = 16;
const PHASES: u64 = 4;

/// Serial keys that have phases. The others are asked now and then, for a token, so that most of
/// them are about to fall idle.
const PHASED: u64 = SERIAL as u64 / 2;

pub struct Worker<'a> {
    shared: &'a Shared,
    thread: usize,
    random: Rng,
    /// How far this thread's clock is ahead of the slowest one that there may be.
    ahead: u64,
    /// Keys so far, in all segments.
    strangers: &'a mut u64,
    /// A key that lives through every change and is never asked for.
    unseen: Known,
    part: Part,
    times: Times,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, thread: usize, strangers: &'a mut u64) -> Worker<'a> {
        let quota = plan::step(shared.algorithm(), 0).quota;
        Worker {
            shared,
            thread,
            random: Rng::with_seed(shared.seed ^ (thread as u64) << 32),
            ahead: 0,
            strangers,
            unseen: Known::unseen(shared.algorithm(), quota),
            part: Part::default(),
            times: Times::default(),
        }
    }

    pub fn run(mut self) {
        let shared = self.shared;
        let mut last = None;
        for number in 0.. {
            if let Some(last) = &last {
                self.settle(last);
            }
            let round = shared.round(number);
            self.prepare(&round);
            shared.barrier.wait();
            self.call_all(&round);
            shared.tally.add(&std::mem::take(&mut self.part));
            if self.thread == 0 {
                let is_interrupted = INTERRUPTED.load(Ordering::SeqCst);
                shared.control.decide(shared, number, is_interrupted);
                shared.tally.rounds.fetch_add(1, Ordering::Relaxed);
            }
            let is_time = number.is_multiple_of(ROUNDS_OF_TIMES);
            shared.barrier.wait();
            let is_stopped = shared.control.is_stopped();
            if is_time || is_stopped {
                shared.tally.times.lock().expect("no thread panics").add(&self.times);
                self.times.clear();
            }
            if is_stopped {
                self.settle(&round);
                return shared.tally.add(&self.part);
            }
            last = Some(round);
        }
    }

    /// The crowd's keys of a round that this thread judges.
    fn own_free(&self, round: &Round) -> impl Iterator<Item = usize> + use<> {
        let first = round.number as usize * FREE_A_ROUND;
        (self.thread..FREE_A_ROUND).step_by(THREADS).map(move |index| (first + index) % FREE)
    }

    fn prepare(&mut self, round: &Round) {
        let shared = self.shared;
        let changes = shared.changes.list();
        self.unseen.catch_up(&changes, round.generation);
        // By one instant and by their own clocks in turn.
        let by_own_clocks = !round.changes && round.number.is_multiple_of(2);
        for free in self.own_free(round) {
            let free = &shared.free[free];
            let mut watched = free.watched();
            watched.catch_up(&changes, round.generation);
            let is_free =
                by_own_clocks && watched.may_be_asked_by_any_clock(round.earliest, round.latest);
            let instant = self.random.u64(round.earliest..=round.latest);
            free.prepare((!is_free).then_some(instant));
        }
        for index in (self.thread..CONTESTED).step_by(THREADS) {
            let number = round.number * CONTESTED as u64 + index as u64;
            let key = CONTESTED_FROM | (shared.number as u64) << STRANGERS_OF | number;
            shared.contested[index].replace(Watched::new(key, self.unseen.clone()));
            shared.contested[index].prepare(Some(round.latest));
        }
    }

    fn settle(&mut self, round: &Round) {
        let shared = self.shared;
        let changes = shared.changes.list();
        let change = round.changes.then_some((&changes[..], round.generation + 1));
        let free = self.own_free(round).map(|index| &shared.free[index]);
        let contested =
            (self.thread..CONTESTED).step_by(THREADS).map(|index| &shared.contested[index]);
        for crowded in free.chain(contested) {
            self.part.judged += 1;
            if let Err(fault) = crowded.settle(round.latest, change) {
                shared
                    .tally
                    .fault(fault, || format!("{:?}, {round:?}: {crowded:?}", shared.segment));
            }
        }
    }

    /// The thread's own clock, which is set anew now and then, forward or back.
    fn now(&mut self, round: &Round) -> u64 {
        if self.random.u8(..64) == 0 {
            self.part.clock_steps += 1;
            let is_fastest = self.random.u8(..4) == 0;
            self.ahead = if is_fastest { plan::APART } else { self.random.u64(..=plan::APART) };
        }
        round.earliest + self.ahead
    }

    fn call_all(&mut self, round: &Round) {
        let changer = round.changes && round.number as usize % THREADS == self.thread;
        let change_at = changer.then(|| self.random.usize(..CONTESTED));
        for turn in 0..CONTESTED {
            if change_at == Some(turn) {
                self.shared.change_quota(round);
            }
            for _ in 0..STRANGERS / CONTESTED {
                self.call_stranger(round);
            }
            for _ in 0..2 {
                self.call_contested(turn, round);
            }
            for _ in 0..3 {
                self.call_free(round);
            }
            if self.random.u8(..8) < 3 {
                self.call_serial(round);
            }
        }
        self.part.keys += (STRANGERS + CONTESTED / THREADS) as u64;
    }

    fn count(&mut self, decision: &Decision) {
        self.part.decisions += 1;
        self.part.admitted += u64::from(decision.is_allowed());
        self.part.full += u64::from(decision.is_full());
    }

    fn call_stranger(&mut self, round: &Round) {
        let now = self.now(round);
        *self.strangers += 1;
        let key = (self.thread as u64) << STRANGERS_OF | *self.strangers;
        let decision = if self.strangers.is_multiple_of(16) {
            let start = ThreadTime::now();
            let decision = self.shared.limiter.check_at(&key, 1, now);
            record(&mut self.times.new_cpu, start.elapsed());
            decision
        } else {
            let start = Instant::now();
            let decision = self.shared.limiter.check_at(&key, 1, now);
            record(&mut self.times.new, start.elapsed());
            decision
        };
        self.count(&decision);
        let is_wrong = !decision.is_allowed() && !may_refuse_a_stranger(self.shared, round, now);
        if is_wrong && !decision.is_full() {
            self.shared.tally.fault(Fault::WrongRefusal, || {
                format!("stranger {key} at {now}, {round:?}: {decision:?}")
            });
        }
    }

    fn call_contested(&mut self, index: usize, round: &Round) {
        let decision = self.shared.contested[index].call(&self.shared.limiter, round.latest);
        self.count(&decision);
    }

    fn call_free(&mut self, round: &Round) {
        let now = self.now(round);
        let first = round.number as usize * FREE_A_ROUND;
        let index = (first + self.random.usize(..FREE_A_ROUND)) % FREE;
        let start = Instant::now();
        let decision = self.shared.free[index].call(&self.shared.limiter, now);
        record(&mut self.times.known, start.elapsed());
        self.count(&decision);
    }

    /// A key whose calls are made one after the other, while others race in its bucket.
    fn call_serial(&mut self, round: &Round) {
        let shared = self.shared;
        let now = self.now(round);
        let is_phased = self.random.u8(..6) > 0;
        let (index, cost) = if is_phased {
            let phase = round.number / PHASE % PHASES;
            (
                self.random.u64(..PHASED / PHASES) * PHASES + phase,
                self.random.u64(1..=plan::COST_MAX),
            )
        } else {
            (self.random.u64(PHASED..SERIAL as u64), 1)
        };
        // Whoever holds it may be off the processor; another key will do.
        let Ok(mut watched) = shared.serial[index as usize].try_lock() else { return };
        let charges = self.random.u8(..8) > 0;
        let before = shared.changes.done();
        let decision = match charges {
            true => shared.limiter.check_at(&watched.key, cost, now),
            false => shared.limiter.peek_at(&watched.key, cost, now),
        };
        let after = shared.changes.begun();
        if charges {
            self.count(&decision);
        }
        self.part.judged += 1;
        let heard = Heard { cost, now, charges, told: Told::All(Answer::from(&decision)) };
        let list = shared.changes.list();
        if let Err(fault) = watched.hear(&heard, round.latest, &list, before..=after) {
            shared.tally.fault(fault, || format!("{heard:?}, {round:?}: {watched:?}"));
        }
    }
}

/// Whether a key that was never seen may be refused: a faster clock may have raised the floor of
/// its bucket to a moment before which a window or a log may have been filled.
fn may_refuse_a_stranger(shared: &Shared, round: &Round, now: u64) -> bool {
    match shared.algorithm() {
        Algorithm::SlidingWindowLog => now < round.latest,
        algorithm if plan::is_bucket(algorithm) => false,
        _ => round.quotas.iter().any(|quota| {
            let window = quota.period().as_nanos() as u64;
            now / window < round.latest / window
        }),
    }
}
