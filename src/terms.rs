//! The terms of a decision: a quota in the algorithm's units, and where its clock stands.
//!
//! The clock in units is a line over the nanoseconds of the limiter: it is `base` at `origin`, and
//! rises by `slope`. Before its origin it stands still, so that a step back behind a change of
//! quota mints nothing.

use crate::algorithm::{
    Algorithm, Answer, BUCKET_RENEWED_AT, Layout, Side, Translation, fixed_window, sliding_counter,
    sliding_log, token_bucket,
};
use crate::cell::Charge;
use crate::word::LIVE_FROM;

/// All that a decision needs besides the key's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Which publication these terms are, above the parity of their epoch.
    pub(crate) sequence: u64,
    pub(crate) algorithm: Algorithm,
    pub(crate) layout: Layout,
    /// The moment from which the line runs, in nanoseconds of the limiter.
    pub(crate) origin: u64,
    /// The clock at `origin`, in units.
    pub(crate) base: u64,
    /// What had passed at `origin` besides: 2^-64 parts of the next unit; for windows, nanoseconds
    /// of the window; for the log, the tick up to which tokens have expired whatever the window.
    pub(crate) phase: u64,
    /// Units that a charge may take a bucket beyond its room; less than 0 for a call that may not use
    /// all of it. Not in the publication: it is a call's.
    pub(crate) beyond: i64,
    /// The least time that a charge leaves a bucket with. A call's, too.
    pub(crate) at_least: u64,
}

/// A moment on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Nanoseconds of the limiter.
    pub(crate) now: u64,
    /// The same moment in units, or the index of its window.
    pub(crate) position: u64,
    /// Whether the line ends before this moment, because another thread is about to start a new
    /// one. Nothing may be charged then: it would be settled as if it had been long ago.
    pub(crate) is_past_end: bool,
}

impl Terms {
    /// Terms whose line starts at `origin`, at the low end of the word's range.
    pub(crate) fn starting(
        algorithm: Algorithm,
        layout: Layout,
        origin: u64,
        unix_origin: u64,
    ) -> Terms {
        let (base, phase) = if algorithm.has_windows() {
            let unix = u128::from(unix_origin) + u128::from(origin);
            // One above the lowest index: there is a window before the first; `forgotten_at`.
            (
                LIVE_FROM.div_ceil(1 << layout.count_bits) + 1,
                (unix % u128::from(layout.unit)) as u64,
            )
        } else if algorithm == Algorithm::SlidingWindowLog {
            (sliding_log::base(&layout), i64::MIN as u64)
        } else {
            (LIVE_FROM, 0)
        };
        Terms { sequence: 0, algorithm, layout, origin, base, phase, beyond: 0, at_least: 0 }
    }

    /// The same terms with the layout of the quota that a call brings, if it brings one.
    #[inline]
    pub(crate) fn with_layout(self, own: Option<&Layout>) -> Terms {
        match own {
            Some(&layout) => Terms { layout, ..self },
            None => self,
        }
    }

    /// The parity of the epoch, as words carry it.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.sequence & 1
    }

    /// The clock at `now`, without the end of its range.
    pub(crate) fn position(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.origin);
        let slope = self.layout.slope;
        let units = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                slope.units(elapsed, self.phase)
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                slope.units(elapsed.saturating_add(self.phase), 0)
            }
            Algorithm::SlidingWindowLog => return sliding_log::position(self, now),
        };
        self.base.saturating_add(units)
    }

    /// The moment `now` on this line, unless the range of the word runs low by then.
    pub(crate) fn read(&self, now: u64) -> Option<Reading> {
        let position = self.position(now);
        let end = self.algorithm.renew_at() >> self.layout.count_bits;
        let reading = Reading { now, position, is_past_end: false };
        (position <= end).then_some(reading)
    }

    /// [`read`](Terms::read) for windows; what it says of others means nothing.
    #[inline]
    pub(crate) fn read_window(&self, now: u64) -> Option<Reading> {
        let elapsed = now.saturating_sub(self.origin).saturating_add(self.phase);
        let position = self.base.saturating_add(self.layout.slope.units(elapsed, 0));
        let reading = Reading { now, position, is_past_end: false };
        let end = self.algorithm.renew_at() >> self.layout.count_bits;
        (position <= end).then_some(reading)
    }

    /// [`read`](Terms::read) for a bucket; what it says of others means nothing.
    #[inline]
    pub(crate) fn read_bucket(&self, now: u64) -> Option<Reading> {
        let elapsed = now.saturating_sub(self.origin);
        let position = self.base.saturating_add(self.layout.slope.units(elapsed, self.phase));
        let reading = Reading { now, position, is_past_end: false };
        (position <= BUCKET_RENEWED_AT).then_some(reading)
    }

    /// [`read_bucket`](Terms::read_bucket) for a slope that is whole. `None` also behind the origin,
    /// where the clock stands still and a debt alone does not tell the wait.
    #[inline]
    pub(crate) fn read_whole_bucket(&self, now: u64) -> Option<Reading> {
        let elapsed = now.checked_sub(self.origin)?;
        // A branch that is always taken, in place of a multiplication that the swap would wait for.
        let units = match self.layout.slope.whole {
            1 => elapsed,
            whole => elapsed.checked_mul(whole)?,
        };
        let position = self.base.saturating_add(units);
        let reading = Reading { now, position, is_past_end: false };
        (position <= BUCKET_RENEWED_AT).then_some(reading)
    }

    /// The moment `now` on this line, or the line's end if that comes first.
    pub(crate) fn read_to_the_end(&self, now: u64) -> Reading {
        let end = self.algorithm.idle_max() >> self.layout.count_bits;
        let position = self.position(now);
        Reading { now, position: position.min(end), is_past_end: position > end }
    }

    /// The clock at `now`, for buckets with 2^-64 parts of the next unit, rounded up.
    pub(crate) fn position_and_phase(&self, now: u64) -> (u64, u64) {
        if !self.algorithm.is_bucket() {
            return (self.position(now), 0);
        }
        let elapsed = now.saturating_sub(self.origin);
        let passed = self.layout.slope.passed(elapsed, self.phase);
        // The slope is rounded up by less than 2^-128, so this much may be too much; without it a
        // fraction of a half stays a half.
        let fraction = passed.fraction.saturating_sub(u128::from(elapsed));
        let parts = fraction.div_ceil(1 << 64);
        let position = self.base.saturating_add(passed.units);
        (position.saturating_add((parts >> 64) as u64), parts as u64)
    }

    /// Where this line stands at `now`, for those who change to another.
    pub(crate) fn side(&self, now: u64) -> Side {
        let position = self.position_and_phase(now).0;
        let Layout { unit, count_bits, .. } = self.layout;
        let has_windows = self.algorithm.has_windows();
        let phase = if has_windows { self.window_elapsed(now, position) } else { 0 };
        Side { position, phase, unit, count_bits: count_bits.into() }
    }

    /// Nanoseconds that have passed of the window of `index`, in which `now` lies.
    #[inline]
    pub(crate) fn window_elapsed(&self, now: u64, index: u64) -> u64 {
        let elapsed = now.saturating_sub(self.origin).saturating_add(self.phase);
        elapsed.saturating_sub((index - self.base).saturating_mul(self.layout.unit))
    }

    /// The nanosecond at which the window of `index` starts, not before `origin`; `None` past the
    /// end of 64 bits.
    #[inline]
    pub(crate) fn window_start(&self, index: u64) -> Option<u64> {
        let elapsed = index.saturating_sub(self.base).checked_mul(self.layout.unit)?;
        self.origin.checked_add(elapsed.saturating_sub(self.phase))
    }

    /// The time of a key that has not been seen up to `reading`.
    #[inline]
    pub(crate) fn unseen(&self, reading: &Reading) -> u64 {
        reading.position << self.layout.count_bits
    }

    /// The time of a key that may have been forgotten at `floor`, for calls by whatever clock: what
    /// it may have owed before, it owes.
    pub(crate) fn forgotten_at(&self, floor: u64) -> u64 {
        let position = self.read_to_the_end(floor).position;
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => position,
            // As full a window as can be, just before the floor's.
            Algorithm::FixedWindow => (position << self.layout.count_bits) - 1,
            Algorithm::SlidingWindowCounter => sliding_counter::forgotten_before(self, position),
            Algorithm::SlidingWindowLog => sliding_log::forgotten_at(self, floor),
        }
    }

    /// The time of a key that has not been seen up to `reading`, where a later `floor` says that it
    /// may have been forgotten.
    pub(crate) fn unseen_since(&self, floor: u64, reading: &Reading) -> u64 {
        let forgotten = self.forgotten_at(floor);
        match self.algorithm {
            // Not a later time, but a full log.
            Algorithm::SlidingWindowLog => forgotten,
            _ => forgotten.max(self.unseen(reading)),
        }
    }

    /// Whether a key with this time is as one that has not been seen.
    pub(crate) fn is_idle(&self, time: u64, reading: &Reading) -> bool {
        match self.algorithm {
            Algorithm::SlidingWindowCounter => sliding_counter::is_idle(self, time, reading),
            Algorithm::SlidingWindowLog => sliding_log::is_idle(self, time, reading),
            _ => time <= self.unseen(reading),
        }
    }

    /// The time after a charge of `cost`, or `None` if it is refused. For a log, of a key that was
    /// not seen: others need their ring.
    pub(crate) fn charge(&self, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        match self.algorithm {
            _ if reading.is_past_end && cost > 0 => None,
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::charge(self, time, reading, cost)
            }
            Algorithm::FixedWindow => fixed_window::charge(self, time, reading, cost),
            Algorithm::SlidingWindowCounter => sliding_counter::charge(self, time, reading, cost),
            Algorithm::SlidingWindowLog => sliding_log::charge(self, time, reading, cost),
        }
    }

    /// The time after `tokens` are given back, or `None` if there is nothing to give back.
    pub(crate) fn give_back(&self, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::give_back(self, time, reading, tokens)
            }
            Algorithm::FixedWindow => fixed_window::give_back(self, time, reading, tokens),
            Algorithm::SlidingWindowCounter => {
                sliding_counter::give_back(self, time, reading, tokens)
            }
            // Tokens cannot be taken out of the middle of a log.
            Algorithm::SlidingWindowLog => None,
        }
    }

    /// The time after a charge is taken back as if it had not been made, but for the time since; `None`
    /// if there is nothing to take back.
    pub(crate) fn take_back(&self, time: u64, reading: &Reading, charge: &Charge) -> Option<u64> {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::take_back(self, time, reading, charge)
            }
            Algorithm::FixedWindow => fixed_window::take_back(self, time, charge),
            Algorithm::SlidingWindowCounter => sliding_counter::take_back(self, time, charge),
            // As with a refund: it ages out.
            Algorithm::SlidingWindowLog => None,
        }
    }

    /// The time after so much of a permit's charge is given back, of which others have given `since`
    /// units back meanwhile; `None` if there is nothing left of it.
    pub(crate) fn settle(
        &self,
        time: u64,
        reading: &Reading,
        charge: &Charge,
        since: u64,
    ) -> Option<u64> {
        match self.algorithm.is_bucket() {
            true => token_bucket::settle(self, time, reading, charge, since),
            // A count is exact, whatever else was taken off it.
            false => self.take_back(time, reading, charge),
        }
    }

    /// The time of a word of the epoch before, in the units of this one.
    pub(crate) fn translate(&self, translation: &Translation, time: u64) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                token_bucket::translate(translation, time)
            }
            Algorithm::FixedWindow => fixed_window::translate(translation, time),
            Algorithm::SlidingWindowCounter => sliding_counter::translate(translation, time),
            Algorithm::SlidingWindowLog => sliding_log::translate(translation, time),
        }
    }

    /// The newest moment that a time names, in nanoseconds of the limiter; 0 but for a log.
    pub(crate) fn newest(&self, time: u64) -> u64 {
        match self.algorithm {
            Algorithm::SlidingWindowLog => sliding_log::newest(self, time),
            _ => 0,
        }
    }

    /// The time of a key that is made as one not seen. Time 0 is idle in every epoch, but a log's
    /// stamps must not decrease.
    pub(crate) fn cleared(&self, time: u64) -> u64 {
        match self.algorithm {
            Algorithm::SlidingWindowLog => sliding_log::cleared(self, time),
            _ => LIVE_FROM,
        }
    }

    /// What a decision keeps of a key with this time, after a call of `cost`. For a log, of a key
    /// that was not seen: others need their ring.
    pub(crate) fn answer(&self, time: u64, reading: &Reading, cost: u64) -> Answer {
        match self.algorithm {
            _ if reading.is_past_end => Answer::try_again(),
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                Answer::Bucket(token_bucket::answer(self, time, reading))
            }
            Algorithm::FixedWindow => Answer::Window(fixed_window::answer(self, time, reading)),
            Algorithm::SlidingWindowCounter => {
                Answer::Sliding(sliding_counter::answer(self, time, reading))
            }
            Algorithm::SlidingWindowLog => {
                Answer::Log(sliding_log::answer(self, time, reading, cost))
            }
        }
    }
}
