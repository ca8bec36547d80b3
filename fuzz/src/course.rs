//! The course of a script: what its steps come to, given the answers so far.

use std::time::Duration;

use tollgate::{Algorithm, Decision, Quota};

use crate::most;
use crate::reference::Answer;
use crate::script::{Cost, Move, Step};

/// The last moment of a script. A nanosecond later there is no tick left for a log of one token to
/// round its stamp up to.
const LAST: u64 = u64::MAX - 1;

const TEN_YEARS: u64 = 315_576_000 * 1_000_000_000;

fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

/// Where a script has come to.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    algorithm: Algorithm,
    pub quota: Quota,
    pub now: u64,
    /// The latest time there was.
    pub latest: u64,
    /// No window that a key was counted in starts later than this.
    furthest: u64,
    /// Times are multiples of two to this many nanoseconds.
    tick_bits: u32,
    last: Answer,
}

impl Course {
    pub fn new(algorithm: Algorithm, quota: Quota) -> Course {
        let last = Answer {
            allowed: true,
            remaining: most(algorithm, quota),
            retry_after: Some(0),
            reset_after: Some(0),
            delay: 0,
        };
        Course { algorithm, quota, now: 0, latest: 0, furthest: 0, tick_bits: 0, last }
    }

    /// The same with a clock in ticks.
    #[must_use]
    pub fn in_ticks(self, tick_bits: u32) -> Course {
        Course { tick_bits, ..self }
    }

    /// Whether the clock has gone back.
    pub fn is_back(&self) -> bool {
        self.now < self.latest
    }

    /// Moves the clock for a step; returns its cost.
    pub fn take(&mut self, step: &Step) -> u64 {
        let (now, last) = (self.now, self.last);
        let due = last.retry_after.unwrap_or(0);
        let restored = last.reset_after.unwrap_or(0);
        let period = nanos(self.quota.period()).max(1);
        self.now = match step.by {
            Move::Forward(by) => now.saturating_add(by),
            Move::Back(by) => now.saturating_sub(by),
            Move::To(at) => at,
            Move::Due => now.saturating_add(due),
            Move::NearlyDue => now.saturating_add(due.saturating_sub(1)),
            Move::Restored => now.saturating_add(restored),
            Move::NearlyRestored => now.saturating_add(restored.saturating_sub(1)),
            Move::Edge(beside) => {
                let edge = (now / period).saturating_add(1).saturating_mul(period);
                edge.saturating_add_signed(beside.into())
            }
        };
        self.now = self.now.min(LAST) >> self.tick_bits << self.tick_bits;
        self.latest = self.latest.max(self.now);
        self.furthest = self.furthest.max(self.now.saturating_add(period));
        match step.cost {
            Cost::Tokens(tokens) => tokens,
            Cost::Most => most(self.algorithm, self.quota),
            Cost::Rest => last.remaining,
            Cost::TooMuch => last.remaining.saturating_add(1),
        }
    }

    /// Whether the reference follows a change to this quota. In windows of less than four
    /// nanoseconds no count fits the engine's word, so that it cannot tell a key that was seen from
    /// one that was not; and what windows count more than ten years ahead of the clock may be lost:
    /// docs/guarantees.md, "Window counts" and "The range".
    pub fn follows(&self, quota: Quota) -> bool {
        let has_windows =
            matches!(self.algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindowCounter);
        let is_short = self.quota.period().min(quota.period()) < Duration::from_nanos(4);
        !has_windows || (!is_short && self.furthest - self.now <= TEN_YEARS)
    }

    /// The quota was changed. A count that does not fit the new windows moves on to the next.
    pub fn change(&mut self, quota: Quota) {
        let longest = nanos(self.quota.period().max(quota.period()));
        self.furthest = self.furthest.saturating_add(longest.saturating_mul(2));
        self.quota = quota;
    }

    /// What the engine should have said, given what the reference says.
    pub fn told(&self, ours: Answer, theirs: Answer) -> Answer {
        let is_cut = self.is_far_behind() && ours.delay == u64::MAX;
        Answer {
            retry_after: self.told_wait(ours.retry_after, theirs.retry_after),
            reset_after: self.told_wait(ours.reset_after, theirs.reset_after),
            delay: if is_cut { u64::MAX } else { theirs.delay },
            ..theirs
        }
    }

    /// The engine may say "never" of a wait that ends past the last moment there is, and by a clock
    /// that is far behind: docs/guarantees.md, "The ends of time".
    pub fn told_wait(&self, ours: Option<u64>, theirs: Option<u64>) -> Option<u64> {
        let is_past = theirs.is_some_and(|wait| self.now.checked_add(wait).is_none());
        if ours.is_none() && (is_past || self.is_far_behind()) { None } else { theirs }
    }

    /// 292 years, at least.
    fn is_far_behind(&self) -> bool {
        self.latest - self.now > i64::MAX as u64
    }

    /// Remembers an answer for the steps that follow.
    pub fn note(&mut self, decision: &Decision) -> Answer {
        self.last = Answer::from(decision);
        self.last
    }
}
