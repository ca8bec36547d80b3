//! Runs a segment, and watches it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate::Stats;

use crate::plan::{SEGMENTS, SHARES, Segment, THREADS};
use crate::progress::Progress;
use crate::shared::Shared;
use crate::tally::{Sizes, Times, get, resident};
use crate::worker::Worker;

/// Set by a signal.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often the size is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Without a round for so long a thread hangs: a round takes milliseconds.
const HANGS: Duration = Duration::from_secs(120);

/// The part of a segment after which its size must stay: a fifth. All cells and stacks have been
/// touched by then.
const WARM: u32 = 5;

/// What became of a segment.
#[derive(Debug)]
pub struct Outcome {
    pub segment: Segment,
    pub lasted: Duration,
    pub ended: Ended,
    pub stats: Stats,
    pub keys: u64,
    pub decisions: u64,
    pub admitted: u64,
    pub judged: u64,
    pub changes: u64,
    pub clock_steps: u64,
    pub over_admissions: u64,
    pub wrong_refusals: u64,
    pub wrong_figures: u64,
    pub faults: Vec<String>,
    pub times: Times,
    pub sizes: Sizes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    InTime,
    Interrupted,
    Hung,
    Panicked,
}

impl Outcome {
    fn of(shared: &Shared, lasted: Duration, ended: Ended, sizes: Sizes) -> Outcome {
        let tally = &shared.tally;
        let mut times = Times::default();
        times.add(&tally.times.lock().unwrap_or_else(PoisonError::into_inner));
        Outcome {
            segment: shared.segment,
            lasted,
            ended,
            stats: shared.limiter.stats(),
            keys: get(&tally.keys),
            decisions: get(&tally.decisions),
            admitted: get(&tally.admitted),
            judged: get(&tally.judged),
            changes: get(&tally.changes),
            clock_steps: get(&tally.clock_steps),
            over_admissions: get(&tally.over_admissions),
            wrong_refusals: get(&tally.wrong_refusals),
            wrong_figures: get(&tally.wrong_figures),
            faults: tally.faults.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            times,
            sizes,
        }
    }
}

/// Runs a segment for its share of the whole run. Each thread counts its strangers on.
pub fn run_segment(
    number: usize,
    seed: u64,
    whole: Duration,
    strangers: &mut [u64; THREADS],
    progress: &mut Progress,
) -> Outcome {
    let lasts = whole * SEGMENTS[number].share / SHARES;
    let (sender, ended) = mpsc::channel();
    let start = Instant::now();
    let shared = Arc::new(Shared::new(number, seed, lasts));
    let spawn = |thread: usize| {
        let (shared, sender, mut strangers) = (shared.clone(), sender.clone(), strangers[thread]);
        thread::spawn(move || {
            Worker::new(&shared, thread, &mut strangers).run();
            drop(shared);
            // Nobody listens any more if another thread hangs.
            let _ = sender.send((thread, strangers));
        })
    };
    let threads: Vec<JoinHandle<()>> = (0..THREADS).map(spawn).collect();
    let mut watch =
        Watch { shared: &shared, lasts, start, sizes: Sizes::default(), round: (0, start) };
    let mut running = THREADS;
    while running > 0 {
        if let Ok((thread, count)) = ended.recv_timeout(LOOK) {
            strangers[thread] = count;
            running -= 1;
            continue;
        }
        progress.tick(&shared);
        if let Some(ended) = watch.look(&threads, running) {
            return Outcome::of(&shared, start.elapsed(), ended, watch.sizes);
        }
    }
    let is_interrupted = INTERRUPTED.load(Ordering::SeqCst);
    let ended = if is_interrupted { Ended::Interrupted } else { Ended::InTime };
    Outcome::of(&shared, start.elapsed(), ended, watch.sizes)
}

struct Watch<'a> {
    shared: &'a Shared,
    lasts: Duration,
    start: Instant,
    sizes: Sizes,
    /// The last round that was seen, and when it was first.
    round: (u64, Instant),
}

impl Watch<'_> {
    /// Takes the size. Returns why the segment cannot go on, if it cannot.
    fn look(&mut self, threads: &[JoinHandle<()>], running: usize) -> Option<Ended> {
        if self.start.elapsed() > self.lasts / WARM {
            self.sizes.add(resident().unwrap_or(0));
        }
        let round = get(&self.shared.tally.rounds);
        if round != self.round.0 {
            self.round = (round, Instant::now());
        }
        let finished = threads.iter().filter(|thread| thread.is_finished()).count();
        if finished > threads.len() - running {
            // It ended without a word, and the others wait for it at a barrier; or its word has
            // come since, and then all are about to end.
            let others_wait = self.round.1.elapsed() > HANGS / 12;
            return others_wait.then_some(Ended::Panicked);
        }
        (self.round.1.elapsed() > HANGS).then_some(Ended::Hung)
    }
}
