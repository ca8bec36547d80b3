//! Fixed window: a count that starts again at every edge.
//!
//! **Definition.** Time is cut into windows `[k * W, (k + 1) * W)` from the Unix epoch. A call is
//! admitted iff `count + cost <= limit` in its window, and adds its cost; refused calls are not
//! counted.
//!
//! **Source.** The counter of every API gateway; its own definition is the one above.
//!
//! **How.** The time of the word is the window's index above its count. Rolling over is the same
//! swap as counting. A call whose clock is behind the key's window is counted in that window.
//!
//! **Worst case.** `2 * limit` within any length of W: all of one window at its end, all of the
//! next at its start. In any interval of length t: `limit * (floor(t / W) + 2)`.

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Algorithm, Layout, TEN_YEARS, Translation};
use crate::cell::Charge;
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::terms::{Reading, Terms};
use crate::word::TIME_BITS;

pub(crate) fn lay_out(quota: &Quota) -> Result<Layout, QuotaError> {
    let (window, limit) = (quota.period_nanos()?, quota.limit());
    // As many bits for the count as leave room for the indices, whatever the limit: the limit can
    // then change without the words.
    let count_bits = TIME_BITS - 1 - index_bits(window);
    let limit_max = (1 << count_bits) - 1;
    if limit > limit_max {
        let algorithm = Algorithm::FixedWindow;
        return Err(QuotaError::Window { algorithm, limit, limit_max });
    }
    Ok(Layout {
        slope: per_window(window),
        unit: window,
        room: limit,
        count_bits,
        shape: Shape::default(),
    })
}

/// Bits for the indices of ten years. At least three, so that a line can start above the lowest
/// indices and a window can pass before the range is renewed; at most all but the lowest.
pub(crate) fn index_bits(window: u64) -> u32 {
    let windows = TEN_YEARS / u128::from(window) + 1;
    windows.next_power_of_two().ilog2().clamp(3, TIME_BITS - 1)
}

/// One window per window's length.
pub(crate) fn per_window(window: u64) -> Slope {
    // One over a 64-bit number of nanoseconds always is a slope.
    Slope::new(1, u128::from(window)).unwrap_or(Slope::ZERO)
}

/// The layout with the same windows.
pub(crate) fn lay_out_like(current: &Layout, quota: &Quota) -> Option<Layout> {
    lay_out(quota).ok().filter(|next| next.unit == current.unit)
}

/// The window's index and count at the reading: a new window starts from nothing.
#[inline]
fn view(terms: &Terms, time: u64, reading: &Reading) -> (u64, u64) {
    let bits = terms.layout.count_bits;
    let (index, count) = (time >> bits, time & ((1 << bits) - 1));
    if reading.position > index { (reading.position, 0) } else { (index, count) }
}

/// Admits iff the count and the cost are within the limit.
#[inline]
pub(crate) fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
    let (index, count) = view(terms, time, reading);
    let free = terms.layout.room.saturating_sub(count);
    // count + cost fits its field: it is at most the limit, or the count unchanged.
    if cost <= free { Some(index << terms.layout.count_bits | (count + cost)) } else { None }
}

/// Takes tokens off the count of the running window. `None` if there is none.
pub(crate) fn give_back(terms: &Terms, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
    let (index, count) = view(terms, time, reading);
    let bits = terms.layout.count_bits;
    // Of a count that may be any, nothing can be taken off.
    let is_known = count > 0 && count < mask(bits.into());
    is_known.then(|| index << bits | count.saturating_sub(tokens))
}

/// Takes a charge off the count of the window that it was counted in; `None` if that is over.
pub(crate) fn take_back(terms: &Terms, time: u64, charge: &Charge) -> Option<u64> {
    let bits = terms.layout.count_bits;
    let count = time & mask(bits.into());
    // Of a count that may be any, nothing can be taken off.
    let is_known = count >= charge.cost && count < mask(bits.into());
    (is_known && time >> bits == charge.word.time() >> bits).then(|| time - charge.cost)
}

/// The count of the window that ran at the change, carried whole into the window in which the
/// change lies under the new length; that of a later one, into the window in which that starts. A
/// count that does not fit its new field fills it, and says from then on that it may be any: it
/// fills every field that it is carried to.
pub(crate) fn translate(translation: &Translation, time: u64) -> u64 {
    let Translation { from, to, .. } = translation;
    let (full, new_full) = (mask(from.count_bits), mask(to.count_bits));
    let (index, count) = (time >> from.count_bits, time & full);
    let carried = match count {
        _ if index < from.position => 0,
        count if count == full => new_full,
        count => count.min(new_full),
    };
    translation.window_of(index) << to.count_bits | carried
}

/// The largest count of so many bits.
pub(crate) fn mask(bits: u64) -> u64 {
    (1 << bits) - 1
}

/// What a decision keeps of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    count: u64,
    limit: u64,
    /// Nanoseconds until the next window starts, if that can be counted.
    edge: Option<u64>,
}

#[inline]
pub(crate) fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
    let (index, count) = view(terms, time, reading);
    let edge = terms.window_start(index + 1).map(|start| start.saturating_sub(reading.now));
    Answer { count, limit: terms.layout.room, edge }
}

impl Answer {
    /// A window of which nothing is left, whatever the cost, for so many nanoseconds.
    pub(crate) fn spent(edge: u64) -> Answer {
        Answer { count: u64::MAX, limit: u64::MAX, edge: Some(edge) }
    }

    /// The same after `cost` more is counted.
    pub(crate) fn after(self, cost: u64) -> Answer {
        Answer { count: self.count.saturating_add(cost), ..self }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.count)
    }

    pub(crate) fn wait(&self, cost: u64) -> Option<u64> {
        if cost <= self.remaining() {
            return Some(0);
        }
        self.edge.filter(|_| cost <= self.limit)
    }

    pub(crate) fn restored_in(&self) -> Option<u64> {
        if self.count == 0 { Some(0) } else { self.edge }
    }
}
