//! Token bucket: tokens that come back with time, counted as time.
//!
//! **Definition.** A bucket holds up to `burst` tokens, starts full, and refills continuously at
//! `limit / period`. A call of some cost is admitted iff that many tokens are there, and takes
//! them; a refused call changes nothing.
//!
//! **Source.** The leaky bucket as a meter (Turner, "New directions in communications", 1986),
//! computed as the virtual scheduling form of GCRA (ITU-T I.371, annex A).
//!
//! **How.** A token is cut into `unit` units, each of one to two nanoseconds, and the clock is
//! counted in units: `V(now)`, rounded down. A key's state is one number v. What it owes is
//! `v - V`, nothing if v has been passed. A cost adds exactly `cost * unit` to `max(v, V)`, so
//! nothing is ever rounded while a key is busy: only the start of a busy spell is, to the unit
//! before it.
//!
//! **Worst case.** In any interval of length t: `burst + t * limit / period`, and one unit.

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Layout, OWED_MAX, Translation};
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::terms::{Reading, Terms};

/// The most tokens that may come back in a nanosecond, so that the range of the word lasts half a
/// year before it is renewed.
const TOKENS_PER_NANOSECOND_MAX: u64 = 16;

/// The steepest slope that a change of quota may lead to without new units: from one a second to
/// a million a second and back needs none.
const SLOPE_MAX: u64 = 1 << 20;

pub(crate) fn lay_out(quota: &Quota) -> Result<Layout, QuotaError> {
    let period = quota.period_nanos()?;
    let (limit, burst) = (quota.limit(), quota.burst_size());
    let limit_max = period.saturating_mul(TOKENS_PER_NANOSECOND_MAX);
    if limit > limit_max {
        return Err(QuotaError::Rate { limit, limit_max });
    }
    // Where the interval is a whole number of nanoseconds, the unit is the nanosecond. Otherwise
    // it is a little longer: period / (limit * floor(period / limit)), from one to two.
    let unit = period.checked_div(limit).unwrap_or(1).clamp(1, OWED_MAX);
    with_unit(quota, unit).ok_or(QuotaError::Burst { burst, burst_max: OWED_MAX / unit })
}

/// The layout in the units of `current`, if the new quota's unit lasts under two nanoseconds in
/// them and its burst fits.
pub(crate) fn lay_out_like(current: &Layout, quota: &Quota) -> Option<Layout> {
    lay_out(quota).ok()?;
    let layout = with_unit(quota, current.unit)?;
    let slope = layout.slope;
    let fine = slope.is_zero() || slope.whole > 0 || slope.high >> 63 == 1;
    (fine && slope.whole < SLOPE_MAX).then_some(layout)
}

fn with_unit(quota: &Quota, unit: u64) -> Option<Layout> {
    let period = u128::from(quota.period_nanos().ok()?);
    let units = u128::from(quota.limit()) * u128::from(unit);
    let room = quota.burst_size().checked_mul(unit).filter(|&room| room <= OWED_MAX)?;
    let slope = Slope::new(units, period)?;
    Some(Layout { slope, unit, room, count_bits: 0, shape: Shape::default() })
}

/// Admits iff what is owed and the cost fit the room.
#[inline]
pub(crate) fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
    let start = time.max(reading.position);
    let free = terms.layout.room.saturating_sub(start - reading.position);
    let units = cost.checked_mul(terms.layout.unit)?;
    // No overflow: units <= room <= OWED_MAX, and position <= 2^59 - 1 - OWED_MAX. Where the room was cut
    // below what is owed, only a cost of 0 gets here, and changes nothing.
    if units <= free { Some(start + units) } else { None }
}

/// Gives tokens back, never above a full bucket. `None` if it is full already.
pub(crate) fn give_back(terms: &Terms, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
    let owed = time.checked_sub(reading.position).filter(|&owed| owed > 0)?;
    Some(time - tokens.saturating_mul(terms.layout.unit).min(owed))
}

/// The same debt in tokens, in the units of another quota, counted from the moment of the change.
///
/// A fraction of a unit is rounded as `round_up` says; a debt of more than nine years of the new
/// rate is cut to that.
pub(crate) fn translate(translation: &Translation, time: u64) -> u64 {
    let Translation { from, to, round_up } = *translation;
    let (from_unit, to_unit) = (from.unit, to.unit);
    let Some(owed) = time.checked_sub(from.position).filter(|&owed| owed > 0) else {
        return to.position;
    };
    // (owed - phase / 2^64) * to_unit / from_unit, exactly. The quotient comes first, and
    // its rest joins the fraction: every product below stays under 2^123, as units per token are
    // at most 2^58.
    let product = u128::from(owed) * u128::from(to_unit);
    let (quotient, rest) = (product / u128::from(from_unit), product % u128::from(from_unit));
    let divisor = i128::from(from_unit) << 64;
    let rest = ((rest as i128) << 64) - i128::from(from.phase) * i128::from(to_unit);
    let down = rest.div_euclid(divisor);
    let up = i128::from(round_up == 1 && rest.rem_euclid(divisor) > 0);
    let owed = (quotient as i128 + down + up).clamp(0, i128::from(OWED_MAX));
    to.position + owed as u64
}

/// What a decision keeps of a bucket: the debt, and the line on which it is earned back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The key's time, counted from the line's base.
    spent: u64,
    /// Nanoseconds since the line's origin, less than 0 for a clock that is behind it; wrapping.
    elapsed: u64,
    /// The fraction of a unit at the origin.
    phase: u64,
    slope: Slope,
    unit: u64,
    room: u64,
}

#[inline]
pub(crate) fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
    Answer {
        spent: time.saturating_sub(terms.base),
        elapsed: reading.now.wrapping_sub(terms.origin),
        phase: terms.phase,
        slope: terms.layout.slope,
        unit: terms.layout.unit,
        room: terms.layout.room,
    }
}

impl Answer {
    /// Units that have passed since the origin.
    fn clock(&self) -> u64 {
        let elapsed = (self.elapsed as i64).max(0) as u64;
        self.slope.units(elapsed, self.phase)
    }

    /// Nanoseconds until the clock comes to `target` units.
    fn until(&self, target: u64) -> Option<u64> {
        if target <= self.clock() {
            return Some(0);
        }
        let at = self.slope.first_at(target, self.phase)?;
        u64::try_from(i128::from(at) - i128::from(self.elapsed as i64)).ok()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.room / self.unit
    }

    pub(crate) fn remaining(&self) -> u64 {
        let owed = self.spent.saturating_sub(self.clock());
        self.room.saturating_sub(owed) / self.unit
    }

    pub(crate) fn wait(&self, cost: u64) -> Option<u64> {
        let spare = self.room.checked_sub(cost.checked_mul(self.unit)?)?;
        // Owed at most `spare`: the clock must come to `spent - spare`.
        self.until(self.spent.saturating_sub(spare))
    }

    pub(crate) fn restored_in(&self) -> Option<u64> {
        self.until(self.spent)
    }

    /// Nanoseconds until all is back that was spent before the last `cost`.
    pub(crate) fn until_spent_before(&self, cost: u64) -> Option<u64> {
        self.until(self.spent.saturating_sub(cost.saturating_mul(self.unit)))
    }
}
