//! The terms of a decision: a quota in the algorithm's units, and where its clock stands.
//!
//! A decision is made under one copy of the terms and carries that copy, so that its answers
//! belong to one quota whatever changes meanwhile.

use crate::algorithm::{
    Algorithm, IDLE_MAX, Layout, RENEW_AT, Translation, fixed_window, leaky_bucket, token_bucket,
};
use crate::slope::Slope;
use crate::word::LIVE_FROM;

/// A clock in units: `base + (now - origin + lead) * slope`, rounded down, and never below `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Units per nanosecond.
    pub(crate) slope: Slope,
    /// The moment from which the line runs, in nanoseconds of the limiter. Before it the clock
    /// stands still, so that a step back behind a change of quota mints nothing.
    pub(crate) origin: u64,
    /// Nanoseconds that had passed in the window at `origin`; 0 for buckets.
    pub(crate) lead: u64,
    /// The clock at `origin`, in units.
    pub(crate) base: u64,
    /// The fraction of the next unit at `origin`, in 2^-64; 0 for windows.
    pub(crate) fraction: u64,
}

impl Line {
    /// The line of `layout` from `origin` on, at the low end of the word's range.
    pub(crate) fn fresh(layout: &Layout, origin: u64, lead: u64) -> Line {
        // The first index is at least one: a sliding window looks one back.
        let base = LIVE_FROM.div_ceil(1 << layout.count_bits) + u64::from(layout.count_bits > 0);
        Line { slope: layout.slope, origin, lead, base, fraction: 0 }
    }

    #[inline]
    fn elapsed(&self, now: u64) -> u64 {
        now.saturating_sub(self.origin).saturating_add(self.lead)
    }

    /// The clock at `now`.
    #[inline]
    fn position(&self, now: u64) -> u64 {
        self.base.saturating_add(self.slope.units(self.elapsed(now), self.fraction))
    }

    /// The clock at `now` with the fraction of the next unit in 2^-64, rounded up.
    pub(crate) fn position_and_fraction(&self, now: u64) -> (u64, u64) {
        let passed = self.slope.passed(self.elapsed(now), self.fraction);
        let position = self.base.saturating_add(passed.units);
        let fraction = (passed.fraction >> 64) as u64;
        if passed.fraction as u64 == 0 {
            return (position, fraction);
        }
        let (fraction, carry) = fraction.overflowing_add(1);
        (position.saturating_add(u64::from(carry)), fraction)
    }

    /// The first nanosecond at which the clock comes to `position`.
    pub(crate) fn reaches(&self, position: u64) -> Option<u64> {
        let elapsed = self.slope.first_at(position.saturating_sub(self.base), self.fraction)?;
        self.origin.checked_add(elapsed)
    }

    /// The nanosecond at which the window of `index` starts; never before `origin`.
    pub(crate) fn window_starts(&self, index: u64, window: u64) -> Option<u64> {
        let elapsed = index.saturating_sub(self.base).checked_mul(window)?;
        self.origin.checked_add(elapsed.saturating_sub(self.lead))
    }
}

/// A moment on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Nanoseconds of the limiter.
    pub(crate) now: u64,
    /// The same moment in units, or the index of its window.
    pub(crate) position: u64,
}

/// All that a decision needs besides the key's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Which publication these terms are.
    pub(crate) sequence: u64,
    /// The epoch whose units they use; words carry its parity.
    pub(crate) epoch: u64,
    pub(crate) algorithm: Algorithm,
    pub(crate) layout: Layout,
    pub(crate) line: Line,
}

impl Terms {
    /// The moment `now` on this line. Past the end of the range time stands still; see
    /// [`must_renew`](Terms::must_renew), which comes long before.
    #[inline]
    pub(crate) fn read(&self, now: u64) -> Reading {
        let position = self.line.position(now).min(IDLE_MAX >> self.layout.count_bits);
        Reading { now, position }
    }

    /// Whether the range of the word runs low.
    #[inline]
    pub(crate) fn must_renew(&self, reading: &Reading) -> bool {
        reading.position > RENEW_AT >> self.layout.count_bits
    }

    /// The time of a key that has not been seen up to `reading`.
    #[inline]
    pub(crate) fn unseen(&self, reading: &Reading) -> u64 {
        reading.position << self.layout.count_bits
    }

    /// Whether a key with this time is as one that has not been seen.
    #[inline]
    pub(crate) fn is_idle(&self, time: u64, reading: &Reading) -> bool {
        time <= self.unseen(reading)
    }

    /// The time after a charge of `cost`, or `None` if it is refused.
    #[inline]
    pub(crate) fn charge(&self, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::charge(self, time, reading, cost)
            }
            Algorithm::FixedWindow => fixed_window::charge(self, time, reading, cost),
        }
    }

    /// The time after `tokens` are given back, or `None` if there is nothing to give back.
    pub(crate) fn give_back(&self, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::give_back(self, time, reading, tokens)
            }
            Algorithm::FixedWindow => fixed_window::give_back(self, time, reading, tokens),
        }
    }

    /// Whole tokens that could be spent at `reading`.
    pub(crate) fn remaining(&self, time: u64, reading: &Reading) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::remaining(self, time, reading)
            }
            Algorithm::FixedWindow => fixed_window::remaining(self, time, reading),
        }
    }

    /// Nanoseconds until `cost` would be admitted, or `None` for never.
    pub(crate) fn wait(&self, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        let at = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::admitted_at(self, time, reading, cost)
            }
            Algorithm::FixedWindow => fixed_window::admitted_at(self, time, reading, cost),
        }?;
        Some(at.saturating_sub(reading.now))
    }

    /// Nanoseconds until the key is as one not seen, or `None` for never.
    pub(crate) fn restored_in(&self, time: u64, reading: &Reading) -> Option<u64> {
        let at = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::restored_at(self, time, reading)
            }
            Algorithm::FixedWindow => fixed_window::restored_at(self, time, reading),
        }?;
        Some(at.saturating_sub(reading.now))
    }

    /// The time of a word of the epoch before, in the units of this one.
    pub(crate) fn translate(&self, translation: &Translation, time: u64) -> u64 {
        if self.algorithm.has_windows() {
            fixed_window::translate(translation, time)
        } else {
            token_bucket::translate(translation, time)
        }
    }

    /// Nanoseconds for which an admitted call should be held.
    pub(crate) fn delay(&self, time: u64, reading: &Reading, cost: u64) -> u64 {
        if self.algorithm != Algorithm::LeakyBucket {
            return 0;
        }
        let at = leaky_bucket::departs_at(self, time, reading, cost);
        at.map_or(u64::MAX, |at| at.saturating_sub(reading.now))
    }
}
