//! What is known of one key: the reference, and by how much the engine may be stricter.
//!
//! The reference remembers every key. The engine forgets one that is idle by the fastest clock, and
//! a slower clock then meets it as one that was unseen until the time at which it was forgotten
//! (`docs/guarantees.md`, "A fresh key and a fast clock"). Whether it was forgotten, and when,
//! cannot be seen from outside; but it was not while it was live by the fastest clock, nor later
//! than that clock. So there is a most generous and a strictest answer, and the engine's must lie
//! between. Most often both are the same.
//!
//! * A bucket's strictest state is that of a second reference, which is forgotten whenever it can
//!   be, as late as can be.
//! * A window's count may be taken for full in a window before that of the fastest clock, at which
//!   the key was forgotten; from there on it is as the reference has it.
//! * A log may refuse until the fastest clock, unless it has filled its ring since it was idle.

use tollgate::{Algorithm, Quota};

use crate::plan::{COST_MAX, LOG_LIMIT, is_bucket};
use crate::reference::{Answer, Reference};

/// A quota that was put in force, and from when on.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub quota: Quota,
    pub at: u64,
}

/// A call on a key and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub cost: u64,
    pub now: u64,
    /// Whether an admitted cost was charged, or only foreseen.
    pub charges: bool,
    pub told: Told,
}

#[derive(Clone, Copy, Debug)]
pub enum Told {
    All(Answer),
    /// Of calls that raced, each for itself says nothing of what remains.
    Allowed(bool),
}

/// How an answer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    OverAdmission,
    WrongRefusal,
    /// What remains, or a wait.
    WrongFigure,
}

/// One account of a key's past that explains all its answers so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    algorithm: Algorithm,
    quota: Quota,
    /// How many changes of quota it has lived through.
    generation: usize,
    generous: Reference,
    /// For buckets.
    strict: Reference,
    /// The latest time at which it may have been forgotten.
    forgotten: u64,
    /// Tokens admitted since.
    since: u64,
}

impl Known {
    pub fn unseen(algorithm: Algorithm, quota: Quota) -> Known {
        let reference = match algorithm {
            Algorithm::SlidingWindowLog => Reference::log(quota, LOG_LIMIT, COST_MAX),
            _ => Reference::new(algorithm, quota),
        };
        Known {
            algorithm,
            quota,
            generation: 0,
            strict: reference.clone(),
            generous: reference,
            forgotten: 0,
            since: 0,
        }
    }

    pub fn generation(&self) -> usize {
        self.generation
    }

    /// Lives through the changes up to a generation.
    pub fn catch_up(&mut self, changes: &[Change], generation: usize) {
        for change in &changes[self.generation.min(generation)..generation] {
            self.generous.set_quota(change.quota, change.at);
            if is_bucket(self.algorithm) {
                self.strict.set_quota(change.quota, change.at);
            }
            self.quota = change.quota;
        }
        self.generation = self.generation.max(generation);
    }

    /// Whether the key certainly is live until `latest`, so that nobody forgets it.
    pub fn is_live(&mut self, latest: u64) -> bool {
        self.generous.peek(0, latest).reset_after != Some(0)
    }

    /// Whether calls at any times between these two come to the same in any order, if the key is
    /// live until the later.
    pub fn has_no_order(&self, earliest: u64, latest: u64) -> bool {
        match self.algorithm {
            // Its stamps are in the order of the calls.
            Algorithm::SlidingWindowLog => false,
            _ => is_bucket(self.algorithm) || self.window(earliest) == self.window(latest),
        }
    }

    fn window(&self, now: u64) -> u64 {
        now / self.quota.period().as_nanos() as u64
    }

    /// Allows for its having been forgotten at any time up to `latest`.
    fn doze(&mut self, latest: u64) {
        if self.is_live(latest) {
            return;
        }
        (self.forgotten, self.since) = (latest, 0);
        if is_bucket(self.algorithm) && self.strict.peek(0, latest).reset_after == Some(0) {
            // As one that was unseen until then: a token spent, and given back.
            self.strict.reset();
            self.strict.check(1, latest);
            self.strict.refund(1, latest);
        }
    }

    /// Whether the engine may be stricter than the reference, but for buckets.
    fn is_doubtful(&self, now: u64, latest: u64) -> bool {
        match self.algorithm {
            Algorithm::SlidingWindowLog => self.since < LOG_LIMIT && now < latest,
            _ => self.window(now) < self.window(self.forgotten),
        }
    }

    /// Holds a call's answer against what is known, and learns from it.
    pub fn hear(&mut self, heard: &Heard, latest: u64) -> Result<(), Fault> {
        self.doze(latest);
        let is_allowed = match heard.told {
            Told::All(answer) => answer.allowed,
            Told::Allowed(is_allowed) => is_allowed,
        };
        let charges = heard.charges && is_allowed;
        let Heard { cost, now, .. } = *heard;
        let generous = match charges {
            true => self.generous.check(cost, now),
            false => self.generous.peek(cost, now),
        };
        if is_allowed && !generous.allowed {
            return Err(Fault::OverAdmission);
        }
        let strict = self.strictest(heard, charges, &generous, latest);
        if charges {
            self.since += cost;
        }
        if !is_allowed && strict.allowed {
            return Err(Fault::WrongRefusal);
        }
        match heard.told {
            Told::All(answer) if !is_between(&answer, &generous, &strict, charges) => {
                Err(Fault::WrongFigure)
            }
            _ => Ok(()),
        }
    }

    /// The strictest answer that there may be.
    fn strictest(
        &mut self,
        heard: &Heard,
        charges: bool,
        generous: &Answer,
        latest: u64,
    ) -> Answer {
        let Heard { cost, now, .. } = *heard;
        if !is_bucket(self.algorithm) {
            return if self.is_doubtful(now, latest) { NOTHING } else { *generous };
        }
        if !charges {
            return self.strict.peek(cost, now);
        }
        let answer = self.strict.check(cost, now);
        if answer.allowed {
            return answer;
        }
        // It was admitted, so what it owes now is a full bucket at the most.
        self.strict.reset();
        self.strict.check(self.quota.burst_size(), now);
        let full = self.strict.peek(0, now);
        Answer { remaining: full.remaining, reset_after: full.reset_after, ..NOTHING }
    }
}

/// The answer than which there is no stricter one.
const NOTHING: Answer =
    Answer { allowed: false, remaining: 0, retry_after: None, reset_after: None, delay: u64::MAX };

/// Whether an answer is no stricter than the one and no more generous than the other.
fn is_between(answer: &Answer, generous: &Answer, strict: &Answer, charges: bool) -> bool {
    let wait = |wait: Option<u64>| wait.unwrap_or(u64::MAX);
    let waits = |wait_of: fn(&Answer) -> Option<u64>| {
        (wait(wait_of(generous))..=wait(wait_of(strict))).contains(&wait(wait_of(answer)))
    };
    let remaining = strict.remaining..=generous.remaining;
    // A call that charges nothing has no departure.
    let is_delay_right = !charges || (generous.delay..=strict.delay).contains(&answer.delay);
    remaining.contains(&answer.remaining)
        && waits(|answer| answer.retry_after)
        && waits(|answer| answer.reset_after)
        && is_delay_right
}
