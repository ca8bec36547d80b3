//! What the threads of a segment share: the limiter, the watched keys, and when the quota changes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use tollgate::{Algorithm, Clock, KeyedLimiter, Quota};

use crate::crowd::Crowded;
use crate::known::{Change, Known};
use crate::plan::{self, Segment};
use crate::tally::{Tally, get};
use crate::watched::Watched;

#[derive(Debug)]
pub struct Shared {
    pub segment: Segment,
    /// Which segment of the run it is.
    pub number: usize,
    pub seed: u64,
    pub limiter: KeyedLimiter<u64>,
    pub changes: Changes,
    pub control: Control,
    pub serial: Vec<Mutex<Watched>>,
    pub free: Vec<Crowded>,
    pub contested: Vec<Crowded>,
    pub barrier: Barrier,
    pub tally: Tally,
}

/// A round, as every thread sees it.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub number: u64,
    pub earliest: u64,
    pub latest: u64,
    /// Changes of quota before this round.
    pub generation: usize,
    /// The quota at its start, and at its end.
    pub quotas: [Quota; 2],
    pub changes: bool,
}

impl Shared {
    pub fn new(number: usize, seed: u64, lasts: Duration) -> Shared {
        let segment = plan::SEGMENTS[number];
        let quota = plan::step(segment.algorithm, 0).quota;
        let limiter = KeyedLimiter::builder(quota)
            .algorithm(segment.algorithm)
            .overflow(segment.overflow)
            .log_limit(plan::LOG_LIMIT)
            .log_cost(plan::COST_MAX)
            .capacity(plan::CAPACITY)
            .clock(Clock::manual().0)
            .origin(Duration::ZERO)
            .seed(seed)
            .build()
            .expect("memory for the table");
        let known = Known::unseen(segment.algorithm, quota);
        let watched = |number: usize| Watched::new(u64::MAX - number as u64, known.clone());
        let crowded = |number| Crowded::new(watched(number));
        Shared {
            segment,
            number,
            seed,
            limiter,
            changes: Changes::new(),
            control: Control::new(lasts),
            serial: (0..plan::SERIAL).map(|number| Mutex::new(watched(number))).collect(),
            free: (plan::SERIAL..plan::SERIAL + plan::FREE).map(crowded).collect(),
            contested: (0..plan::CONTESTED).map(crowded).collect(),
            barrier: Barrier::new(plan::THREADS),
            tally: Tally::default(),
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.segment.algorithm
    }

    /// The round of a number; between two barriers at which every thread asks.
    pub fn round(&self, number: u64) -> Round {
        let generation = self.changes.done();
        let changes = self.control.change_in.load(Ordering::SeqCst) == number;
        let quota = |generation| plan::step(self.algorithm(), generation).quota;
        Round {
            number,
            earliest: plan::earliest(number),
            latest: plan::latest(number),
            generation,
            quotas: [quota(generation), quota(generation + usize::from(changes))],
            changes,
        }
    }

    /// Changes the quota, from the latest time on: `main.rs` says why.
    pub fn change_quota(&self, round: &Round) {
        let change = Change { quota: round.quotas[1], at: round.latest };
        self.changes.make(change, || {
            self.limiter.set_quota_at(change.quota, change.at).expect("a quota that fits");
        });
        self.tally.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// The changes of quota so far, in order.
#[derive(Debug)]
pub struct Changes {
    list: RwLock<Vec<Change>>,
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Changes {
    fn new() -> Changes {
        // Room for hours, lest the list's growth be taken for the limiter's.
        let list = RwLock::new(Vec::with_capacity(1 << 14));
        Changes { list, begun: AtomicUsize::new(0), done: AtomicUsize::new(0) }
    }

    /// One at a time.
    fn make(&self, change: Change, set_quota: impl FnOnce()) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(change);
        self.begun.fetch_add(1, Ordering::SeqCst);
        set_quota();
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes that were begun. A call that ended before knows of no other.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Changes that are over. A call that begins after goes by the last of them.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    pub fn list(&self) -> RwLockReadGuard<'_, Vec<Change>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to change and when to stop. The first thread decides, at the end of its round.
#[derive(Debug)]
pub struct Control {
    end: Instant,
    pace: Duration,
    /// The next round within which the quota changes.
    change_in: AtomicU64,
    /// When that was decided last, and for which round.
    last: Mutex<(Instant, u64)>,
    stop: AtomicBool,
}

/// Between changes, unless the segment is too short.
const PACE: Duration = Duration::from_secs(1);

/// Rounds between changes at the most. After a brief quota the range of a bucket's word is three
/// minutes long, and is not to be renewed within a cycle of quotas: the references would have to
/// know which call did it.
const ROUNDS: u64 = 8_192;

impl Control {
    fn new(lasts: Duration) -> Control {
        let now = Instant::now();
        Control {
            end: now + lasts,
            pace: PACE.min(lasts / 8),
            change_in: AtomicU64::new(u64::MAX),
            last: Mutex::new((now, 0)),
            stop: AtomicBool::new(false),
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// At the end of the first thread's calls in `round`.
    pub fn decide(&self, shared: &Shared, round: u64, is_interrupted: bool) {
        let is_over = Instant::now() >= self.end || shared.tally.faults() > 0;
        self.stop.store(is_over || is_interrupted, Ordering::SeqCst);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // The change of this round may be under way yet.
        let step = plan::step(shared.algorithm(), get(&shared.tally.changes) as usize);
        let is_due = if step.is_brief {
            round + 1 >= last.1 + plan::BRIEF
        } else {
            last.0.elapsed() >= self.pace || round >= last.1 + ROUNDS
        };
        if is_due && round > last.1 {
            *last = (Instant::now(), round + 1);
            self.change_in.store(round + 1, Ordering::SeqCst);
        }
    }
}
