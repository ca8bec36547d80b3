//! Sliding window counter: two windows' counts, weighted by how much of each is in sight.
//!
//! **Definition.** Time is cut into windows of length W from the Unix epoch. With `current` admitted
//! in the running window, `previous` in the one before, and e nanoseconds of the running one passed,
//! a call is admitted iff `previous * (W - e) / W + current + cost <= limit`, compared in exact
//! integers. Example: 100 a minute, previous 88, current 12, a quarter into the minute:
//! 88 * 3/4 + 12 = 78, admitted.
//!
//! **Source.** The approximated sliding window that proxies and gateways have used at scale since
//! the 2010s; its own definition is the one above.
//!
//! **How.** The time of the word is the running window's index above both counts, so rolling over is
//! the same swap as counting, and a refused call writes nothing. A call whose clock is behind the
//! key's window is judged at that window's start.
//!
//! ```text
//!   time: | index | previous | current |
//! ```
//!
//! **Worst case.** `limit * (1 + e / W)` within the trailing W: the calls of the window before all
//! came at its end, and were taken to have come evenly.

use crate::algorithm::fixed_window::{index_bits, mask, per_window};
use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Algorithm, Layout, Translation};
use crate::cell::Charge;
use crate::quota::{Quota, QuotaError};
use crate::terms::{Reading, Terms};
use crate::word::TIME_BITS;

pub(crate) fn lay_out(quota: &Quota) -> Result<Layout, QuotaError> {
    let (window, limit) = (quota.period_nanos()?, quota.limit());
    let bits = (TIME_BITS - index_bits(window)) / 2;
    // A bit to spare: a count that was settled from two windows into one may be twice the limit.
    let limit_max = (1 << bits) / 2;
    if limit > limit_max {
        let algorithm = Algorithm::SlidingWindowCounter;
        return Err(QuotaError::Window { algorithm, limit, limit_max });
    }
    Ok(Layout {
        slope: per_window(window),
        unit: window,
        room: limit,
        count_bits: 2 * bits,
        shape: Shape::default(),
    })
}

/// The layout with the same windows.
pub(crate) fn lay_out_like(current: &Layout, quota: &Quota) -> Option<Layout> {
    lay_out(quota).ok().filter(|next| next.unit == current.unit)
}

/// Both counts at a moment.
#[derive(Clone, Copy, Debug)]
struct View {
    index: u64,
    previous: u64,
    current: u64,
    /// Nanoseconds of the running window that have passed.
    elapsed: u64,
}

/// Takes a time apart.
#[inline]
fn counts(time: u64, count_bits: u64) -> (u64, u64, u64) {
    let bits = count_bits / 2;
    let mask = (1 << bits) - 1;
    (time >> count_bits, time >> bits & mask, time & mask)
}

#[inline]
fn pack(index: u64, previous: u64, current: u64, count_bits: u64) -> u64 {
    index << count_bits | previous << (count_bits / 2) | current
}

#[inline]
fn view(terms: &Terms, time: u64, reading: &Reading) -> View {
    let (index, previous, current) = counts(time, terms.layout.count_bits.into());
    let now = reading.position;
    if now < index {
        return View { index, previous, current, elapsed: 0 };
    }
    let elapsed = terms.window_elapsed(reading.now, now);
    match now - index {
        0 => View { index, previous, current, elapsed },
        1 => View { index: now, previous: current, current: 0, elapsed },
        _ => View { index: now, previous: 0, current: 0, elapsed },
    }
}

impl View {
    /// What of the window before is still in sight, rounded up.
    fn in_sight(&self, window: u64) -> u64 {
        let left = u128::from(window.saturating_sub(self.elapsed));
        (u128::from(self.previous) * left).div_ceil(u128::from(window)) as u64
    }
}

/// Admits iff the weighted counts and the cost are within the limit.
#[inline]
pub(crate) fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
    let View { index, previous, current, elapsed } = view(terms, time, reading);
    if cost > 0 {
        // previous * (W - e) <= (limit - current - cost) * W, without a division.
        let window = terms.layout.unit;
        let spare = terms.layout.room.checked_sub(current)?.checked_sub(cost)?;
        let in_sight = u128::from(previous) * u128::from(window.saturating_sub(elapsed));
        if in_sight > u128::from(spare) * u128::from(window) {
            return None;
        }
    }
    Some(pack(index, previous, current + cost, terms.layout.count_bits.into()))
}

/// Takes tokens off the count of the running window. `None` if there is none.
pub(crate) fn give_back(terms: &Terms, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
    let View { index, previous, current, .. } = view(terms, time, reading);
    let count_bits = u64::from(terms.layout.count_bits);
    // Of a count that may be any, nothing can be taken off.
    let is_known = current > 0 && current < mask(count_bits / 2);
    is_known.then(|| pack(index, previous, current.saturating_sub(tokens), count_bits))
}

/// Takes a charge off the count of the window that it was counted in; `None` if that is no longer the
/// key's newest, as the charge then fades with it.
pub(crate) fn take_back(terms: &Terms, time: u64, charge: &Charge) -> Option<u64> {
    let count_bits = u64::from(terms.layout.count_bits);
    let (index, previous, current) = counts(time, count_bits);
    let (charged, _, _) = counts(charge.word.time(), count_bits);
    // Of a count that may be any, nothing can be taken off.
    let is_known = current >= charge.cost && current < mask(count_bits / 2);
    (is_known && index == charged).then(|| pack(index, previous, current - charge.cost, count_bits))
}

/// Whether nothing is in sight, and nothing ahead: a call by a clock behind the key's window counts
/// in that window, which a key that is not seen would not do.
pub(crate) fn is_idle(terms: &Terms, time: u64, reading: &Reading) -> bool {
    let View { index, previous, current, .. } = view(terms, time, reading);
    index <= reading.position && previous == 0 && current == 0
}

/// The time of a key that was idle in window `index`, and before that may have owed anything.
pub(crate) fn forgotten_before(terms: &Terms, index: u64) -> u64 {
    // As full a window as can be two before it, of which nothing is left at `index`.
    let count_bits = u64::from(terms.layout.count_bits);
    pack(index - 1, (1_u64 << (count_bits / 2)) - 1, 0, count_bits)
}

/// What was in sight at the change, rounded up, as the count of the window in which the change lies
/// under the new length; for a window that starts later, at its start. A count that does not fit its
/// new field fills that of the window after, so that nothing comes back early, and says from then on
/// that it may be any.
pub(crate) fn translate(translation: &Translation, time: u64) -> u64 {
    let Translation { from, to, .. } = translation;
    let (index, previous, current) = counts(time, from.count_bits);
    let (previous, current, elapsed) = match from.position.checked_sub(index) {
        None => (previous, current, 0),
        Some(0) => (previous, current, from.phase),
        Some(1) => (current, 0, from.phase),
        // Nothing is in sight, not even what may be any.
        Some(_) => return pack(translation.window_of(index), 0, 0, to.count_bits),
    };
    let settled = View { index, previous, current, elapsed }.in_sight(from.unit) + current;
    let (full, new_full) = (mask(from.count_bits / 2), mask(to.count_bits / 2));
    let index = translation.window_of(index);
    if previous == full || current == full || settled >= new_full {
        return pack(index + 1, 0, new_full, to.count_bits);
    }
    pack(index, 0, settled, to.count_bits)
}

/// What a decision keeps of both windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    previous: u64,
    current: u64,
    limit: u64,
    window: u64,
    elapsed: u64,
    /// Nanoseconds until the running window starts, if that can be counted: 0 but for a clock that
    /// is behind it.
    starts_in: Option<u64>,
}

#[inline]
pub(crate) fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
    let View { index, previous, current, elapsed } = view(terms, time, reading);
    let starts_in = if index > reading.position {
        terms.window_start(index).map(|start| start.saturating_sub(reading.now))
    } else {
        Some(terms.origin.saturating_sub(reading.now))
    };
    let (limit, window) = (terms.layout.room, terms.layout.unit);
    Answer { previous, current, limit, window, elapsed, starts_in }
}

impl Answer {
    /// Nanoseconds from now to a moment of the running window.
    fn until(&self, moment: u128) -> Option<u64> {
        let wait = moment.saturating_sub(u128::from(self.elapsed));
        u64::try_from(wait + u128::from(self.starts_in?)).ok()
    }

    fn view(&self) -> View {
        let Answer { previous, current, elapsed, .. } = *self;
        View { index: 0, previous, current, elapsed }
    }

    /// The same after `cost` more is counted.
    pub(crate) fn after(self, cost: u64) -> Answer {
        Answer { current: self.current.saturating_add(cost), ..self }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn remaining(&self) -> u64 {
        let in_sight = self.view().in_sight(self.window);
        self.limit.saturating_sub(self.current).saturating_sub(in_sight)
    }

    /// A count of c is worth at most s once e is at least W - floor(s * W / c) of its next window.
    pub(crate) fn wait(&self, cost: u64) -> Option<u64> {
        let window = u128::from(self.window);
        let fades = |count: u64, spare: u64| {
            let kept = (u128::from(spare) * window).checked_div(u128::from(count));
            window - kept.map_or(window, |kept| kept.min(window))
        };
        if cost > self.limit {
            return None;
        }
        match self.limit.checked_sub(self.current).and_then(|free| free.checked_sub(cost)) {
            Some(spare) => self.until(fades(self.previous, spare)),
            // Not in this window: in the next, this one's count is what fades.
            None => self.until(window + fades(self.current, self.limit - cost)),
        }
    }

    pub(crate) fn restored_in(&self) -> Option<u64> {
        let window = u128::from(self.window);
        match (self.previous, self.current) {
            (0, 0) => Some(0),
            (_, 0) => self.until(window),
            _ => self.until(2 * window),
        }
    }
}
