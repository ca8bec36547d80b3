//! The algorithms, as pure functions over one key's time.
//!
//! Each file gives one algorithm's definition, its source and its worst case, and these functions:
//!
//! * `lay_out(quota)`: what the quota becomes in the algorithm's units, or why it cannot;
//! * `charge(terms, time, reading, cost)`: the new time if the cost is admitted;
//! * `give_back(terms, time, reading, tokens)`: the new time if there is something to give back;
//! * `take_back(terms, time, reading, charge)`: the new time if a charge is undone;
//! * `translate(translation, time)`: the time in the units of another quota;
//! * `answer(terms, time, reading)`: what a decision must keep, so that its own questions can be
//!   answered when they are asked.
//!
//! None of them reads a clock, touches an atomic, or can panic. [`Terms`](crate::terms::Terms)
//! picks the file; nothing else knows how many algorithms there are.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
pub(crate) mod rule;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;
pub(crate) mod token_bucket;
pub(crate) mod whole_bucket;

use crate::algorithm::sliding_log::Shape;
use crate::joint::Spare;
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::word::TIME_BITS;

/// What decides. Each is defined, with its source and its worst case, on its variant.
///
/// ```
/// use tollgate::{Algorithm, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(100)).algorithm(Algorithm::FixedWindow);
/// assert!(limiter.build()?.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A bucket of `burst` tokens that starts full and refills continuously at `limit / period`.
    ///
    /// Admits when the bucket holds at least `cost` tokens, and takes them. In any interval of
    /// length t a key is admitted at most `burst + t * limit / period`.
    #[default]
    TokenBucket,
    /// The generic cell rate algorithm of ITU-T I.371: a theoretical arrival time in plain
    /// nanoseconds.
    ///
    /// Admits when the call comes no earlier than
    /// `theoretical arrival time + (cost - 1) * interval - tolerance`. The same bound as the token
    /// bucket's, with `burst = tolerance / interval + 1`. Its word does not depend on the quota,
    /// so it alone offers a quota per call. An interval that is not a whole number of
    /// nanoseconds is rounded up: never above the rate, below it by less than one part in
    /// `interval` nanoseconds; the token bucket has no such rounding.
    Gcra,
    /// A queue of `burst` places that is served first in, first out, one call per
    /// `period / limit`.
    ///
    /// Admits when the queue has room for `cost` more. The answer carries the
    /// [`delay`](crate::Decision::delay) until this call's departure; a caller that holds each
    /// call for its delay lets calls out at exactly the rate.
    LeakyBucket,
    /// A count per window `[k * period, (k + 1) * period)`, aligned to the Unix epoch.
    ///
    /// Admits when `count + cost <= limit`. Up to `2 * limit` may be admitted around an edge: the
    /// end of one window and the start of the next.
    FixedWindow,
    /// A count per window, and the one before it by the share of it that still lies within one
    /// window's length of now.
    ///
    /// Admits when `previous * (1 - elapsed / window) + current + cost <= limit`, in exact
    /// integers. It takes the calls of the window before to have come evenly; if they all came at
    /// its end, up to `limit * (1 + elapsed / window)` lie within the last window's length.
    SlidingWindowCounter,
    /// The time of every admitted token, in a ring beside the key's cell.
    ///
    /// Admits when the tokens admitted within the last window's length and the cost are within the
    /// limit: no window ever holds more. Its price is memory, 24 bytes a key of capacity for each
    /// unit of limit (see [`KeyedBuilder::log_limit`](crate::KeyedBuilder::log_limit)), a cost of
    /// at most [`log_cost`](crate::KeyedBuilder::log_cost), no refund, and stamps that are rounded
    /// up to a tick: 16 ns at a limit of 10, 1 us at 1000, times the largest cost. A call may be
    /// refused a tick too long, never admitted early.
    SlidingWindowLog,
}

/// The most that a key can owe, in units: 9.1 years of nanoseconds.
pub(crate) const OWED_MAX: u64 = 1 << (TIME_BITS - 1);

/// The clock of a bucket that asks for a new range: 6.8 years of nanoseconds.
pub(crate) const BUCKET_RENEWED_AT: u64 = ((1 << TIME_BITS) - 1 - OWED_MAX) / 4 * 3;

/// Ten years of 365.25 days, in nanoseconds: how long a window's index must fit its field.
const TEN_YEARS: u128 = 315_576_000 * 1_000_000_000;

/// A quota in an algorithm's own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Units per nanosecond; for windows, windows per nanosecond.
    pub(crate) slope: Slope,
    /// Units per token; for windows, nanoseconds per window.
    pub(crate) unit: u64,
    /// The most that a key may owe, in units; for windows, the most in one window.
    pub(crate) room: u64,
    /// For windows, the bits below the window's index that hold its count; else 0.
    pub(crate) count_bits: u32,
    /// For the sliding log.
    pub(crate) shape: Shape,
}

impl Algorithm {
    /// All of them, in the order of this page.
    ///
    /// ```
    /// use tollgate::{Algorithm, Limiter, Quota};
    ///
    /// for algorithm in Algorithm::ALL {
    ///     let builder = Limiter::builder(Quota::per_second(1)).algorithm(algorithm);
    ///     assert!(builder.build()?.check().is_allowed());
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub const ALL: [Algorithm; 6] = [
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog,
    ];

    /// Whether time is cut into windows.
    #[inline]
    pub(crate) fn has_windows(self) -> bool {
        matches!(self, Algorithm::FixedWindow | Algorithm::SlidingWindowCounter)
    }

    /// The highest time at which an idle key can stand. What a bucket owes comes on top, so that
    /// a time never leaves its field; before the clock comes here, the range is renewed.
    #[inline]
    pub(crate) fn idle_max(self) -> u64 {
        let owed_max = if self.is_bucket() { OWED_MAX } else { 0 };
        (1 << TIME_BITS) - 1 - owed_max
    }

    /// Whether a key owes tokens that come back with time.
    #[inline]
    pub(crate) fn is_bucket(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
    }

    /// The clock that asks for a new range: three quarters of the way.
    pub(crate) fn renew_at(self) -> u64 {
        if self.is_bucket() { BUCKET_RENEWED_AT } else { self.idle_max() / 4 * 3 }
    }

    /// What `quota` becomes in this algorithm's units.
    pub(crate) fn lay_out(self, quota: &Quota, shape: Shape) -> Result<Layout, QuotaError> {
        match self {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => token_bucket::lay_out(quota),
            Algorithm::Gcra => gcra::lay_out(quota),
            Algorithm::FixedWindow => fixed_window::lay_out(quota),
            Algorithm::SlidingWindowCounter => sliding_counter::lay_out(quota),
            Algorithm::SlidingWindowLog => sliding_log::lay_out(quota, shape),
        }
    }

    /// The layout of `quota` for a table with words in `current`, that has to be translated to it.
    pub(crate) fn lay_out_anew(
        self,
        current: &Layout,
        quota: &Quota,
    ) -> Result<Layout, QuotaError> {
        let layout = self.lay_out(quota, current.shape)?;
        Ok(match self {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                token_bucket::lay_out_anew(current, quota).unwrap_or(layout)
            }
            _ => layout,
        })
    }

    /// The layout of `quota` in which every time of `current` keeps its meaning, if there is one.
    pub(crate) fn lay_out_like(self, current: &Layout, quota: &Quota) -> Option<Layout> {
        match self {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                token_bucket::lay_out_like(current, quota)
            }
            Algorithm::Gcra => gcra::lay_out_like(current, quota),
            Algorithm::FixedWindow => fixed_window::lay_out_like(current, quota),
            Algorithm::SlidingWindowCounter => sliding_counter::lay_out_like(current, quota),
            // Limit and window are parameters: stamps are times, whatever they are held against.
            Algorithm::SlidingWindowLog => sliding_log::lay_out(quota, current.shape).ok(),
        }
    }
}

/// How a time of the epoch before is read in this one: where both lines stand at the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) from: Side,
    pub(crate) to: Side,
}

/// One line at the moment of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    /// The clock, in units; for windows, the index.
    pub(crate) position: u64,
    /// For windows, nanoseconds of the window that have passed.
    pub(crate) phase: u64,
    /// As in [`Layout`].
    pub(crate) unit: u64,
    pub(crate) count_bits: u64,
}

impl Translation {
    /// For windows: the index after the change of the window that holds the moment of the change,
    /// or the start of the window of `index` before it if that comes later; at most the last one
    /// but one that there is.
    fn window_of(&self, index: u64) -> u64 {
        let Translation { from, to, .. } = self;
        let ahead = index.saturating_sub(from.position).saturating_mul(from.unit);
        let passed = to.phase.saturating_add(ahead.saturating_sub(from.phase));
        let last = ((1 << TIME_BITS) - 1) >> to.count_bits;
        to.position.saturating_add(passed / to.unit).min(last - 1)
    }
}

/// What a decision keeps of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    WholeBucket(whole_bucket::Answer),
    Bucket(token_bucket::Answer),
    Window(fixed_window::Answer),
    Sliding(sliding_counter::Answer),
    Log(sliding_log::Answer),
}

/// The answer of a limit of 0.
impl Default for Answer {
    fn default() -> Answer {
        Answer::Window(fixed_window::Answer::default())
    }
}

impl Answer {
    /// The answer while another thread is about to renew the range: in a moment.
    #[cold]
    pub(crate) fn try_again() -> Answer {
        Answer::Window(fixed_window::Answer::spent(1))
    }

    /// The burst, or the window's limit.
    pub(crate) fn limit(&self) -> u64 {
        match self {
            Answer::WholeBucket(answer) => answer.limit(),
            Answer::Bucket(answer) => answer.limit(),
            Answer::Window(answer) => answer.limit(),
            Answer::Sliding(answer) => answer.limit(),
            Answer::Log(answer) => answer.limit(),
        }
    }

    /// Whole tokens that can be spent.
    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Answer::WholeBucket(answer) => answer.remaining(),
            Answer::Bucket(answer) => answer.remaining(),
            Answer::Window(answer) => answer.remaining(),
            Answer::Sliding(answer) => answer.remaining(),
            Answer::Log(answer) => answer.remaining(),
        }
    }

    /// The same after a charge of `cost` more, which a log does not tell.
    pub(crate) fn after(self, cost: u64) -> Answer {
        match self {
            Answer::WholeBucket(answer) => Answer::WholeBucket(answer.after(cost)),
            Answer::Bucket(answer) => Answer::Bucket(answer.after(cost)),
            Answer::Window(answer) => Answer::Window(answer.after(cost)),
            Answer::Sliding(answer) => Answer::Sliding(answer.after(cost)),
            Answer::Log(_) => self,
        }
    }

    /// What can be spent after a charge of `cost` more; undivided where that spares a division.
    #[inline]
    pub(crate) fn spare_after(&self, cost: u64) -> Spare {
        match self {
            Answer::WholeBucket(answer) => answer.after(cost).spare(),
            _ => self.any_spare_after(cost),
        }
    }

    /// Out of the way of the buckets with whole clocks, which most limiters are.
    #[inline(never)]
    fn any_spare_after(&self, cost: u64) -> Spare {
        match self {
            Answer::Bucket(answer) => answer.after(cost).spare(),
            _ => Spare { units: self.after(cost).remaining(), unit: 1 },
        }
    }

    /// Nanoseconds until `cost` is admitted, or `None` for never.
    pub(crate) fn wait(&self, cost: u64) -> Option<u64> {
        match self {
            Answer::WholeBucket(answer) => answer.wait(cost),
            Answer::Bucket(answer) => answer.wait(cost),
            Answer::Window(answer) => answer.wait(cost),
            Answer::Sliding(answer) => answer.wait(cost),
            // Computed for this cost when the ring was at hand.
            Answer::Log(answer) => answer.wait(),
        }
    }

    /// Nanoseconds until the key is as one not seen, or `None` for never.
    pub(crate) fn restored_in(&self) -> Option<u64> {
        match self {
            Answer::WholeBucket(answer) => answer.restored_in(),
            Answer::Bucket(answer) => answer.restored_in(),
            Answer::Window(answer) => answer.restored_in(),
            Answer::Sliding(answer) => answer.restored_in(),
            Answer::Log(answer) => answer.restored_in(),
        }
    }

    /// Nanoseconds until an admitted call of `cost` departs from the queue.
    pub(crate) fn departs_in(&self, cost: u64) -> Option<u64> {
        match self {
            Answer::WholeBucket(answer) => answer.until_spent_before(cost),
            Answer::Bucket(answer) => leaky_bucket::departs_in(answer, cost),
            Answer::Window(_) | Answer::Sliding(_) | Answer::Log(_) => Some(0),
        }
    }
}
