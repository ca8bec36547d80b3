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

use core::time::Duration;

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Layout, OWED_MAX, Translation, whole_bucket};
use crate::cell::Charge;
use crate::joint::Spare;
use crate::probe::mutant;
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::terms::{Reading, Terms};
use crate::word::TIME_BITS;

/// The most tokens that may come back in a nanosecond, so that the range of the word lasts half a
/// year before it is renewed.
const TOKENS_PER_NANOSECOND_MAX: u64 = 16;

/// The steepest slope that a change of quota may lead to: from one a second to a million a second
/// and back needs no new units. The range then lasts minutes, and when it is renewed the quota gets
/// units of its own.
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
    let unit = period.checked_div(limit).unwrap_or(1).max(1);
    if unit > OWED_MAX {
        return Err(QuotaError::Slow { interval: Duration::from_nanos(unit) });
    }
    with_unit(quota, unit).ok_or(QuotaError::Burst { burst, burst_max: OWED_MAX / unit })
}

/// The layout in the units of `current`, if the new quota's unit lasts under two nanoseconds in
/// them and its burst fits.
pub(crate) fn lay_out_like(current: &Layout, quota: &Quota) -> Option<Layout> {
    lay_out(quota).ok()?;
    with_unit(quota, current.unit).filter(is_usable)
}

/// The layout for words that have to be translated: in a multiple of their unit, where debts stay
/// exact; or, where that would be too fine for a fast rate, in the finest unit that is not.
pub(crate) fn lay_out_anew(current: &Layout, quota: &Quota) -> Option<Layout> {
    let period = u128::from(quota.period_nanos().ok()?);
    if quota.limit() == 0 {
        return with_unit(quota, OWED_MAX.checked_div(quota.burst_size())?.min(current.unit));
    }
    let units = u128::from(quota.limit()) * u128::from(current.unit);
    let finer = u64::try_from(period.checked_div(units)?).ok()?;
    let unit = if finer > 0 {
        current.unit.checked_mul(finer)?
    } else {
        let finest = u128::from(SLOPE_MAX - 1) * period / u128::from(quota.limit());
        let fits = OWED_MAX.checked_div(quota.burst_size())?;
        // The finest may be more than 64 bits, of units that a burst leaves no room for.
        u64::try_from(finest).map_or(fits, |finest| finest.min(fits))
    };
    with_unit(quota, unit).filter(is_usable)
}

/// Whether a unit lasts under two nanoseconds, and the range a while.
fn is_usable(layout: &Layout) -> bool {
    let slope = layout.slope;
    let is_fine = slope.is_zero() || slope.whole > 0 || slope.high >> 63 == 1;
    is_fine && slope.whole < SLOPE_MAX
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
    let room = terms.layout.room.saturating_add_signed(terms.beyond);
    let free = room.saturating_sub(start - reading.position);
    let units = cost.checked_mul(terms.layout.unit)?;
    if terms.at_least > 0 && mutant("ban: the last one holds") {
        return Some(terms.at_least);
    }
    // No overflow: units <= room <= OWED_MAX, and position <= 2^59 - 1 - OWED_MAX. Where the room was cut
    // below what is owed, only a cost of 0 gets here, and changes nothing.
    if units > free {
        return None;
    }
    let after = (start + units).max(terms.at_least);
    // A ban that ends before what is owed does moves the word all the same: else who leaves the line
    // that it is laid on would take it along.
    let is_hidden = terms.at_least > 0 && after == time;
    Some(if is_hidden { (time + 1).min((1 << TIME_BITS) - 1) } else { after })
}

/// Gives tokens back, never above a full bucket. `None` if it is full already.
pub(crate) fn give_back(terms: &Terms, time: u64, reading: &Reading, tokens: u64) -> Option<u64> {
    let owed = time.checked_sub(reading.position).filter(|&owed| owed > 0)?;
    Some(time - tokens.saturating_mul(terms.layout.unit).min(owed))
}

/// Takes a charge back, but for what has been earned back since; `None` if that is all. However many
/// charges are taken back, in whichever order, what could still be taken back never exceeds what is
/// owed: time takes from each of them at least as much as from the debt. By a clock that was set back
/// behind the charge nothing is known to be left.
pub(crate) fn take_back(
    terms: &Terms,
    time: u64,
    reading: &Reading,
    charge: &Charge,
) -> Option<u64> {
    let stale = mutant("take back: by the clock of the charge");
    let position = if stale { charge.position } else { reading.position };
    let owed = time.saturating_sub(position);
    let earned = position.checked_sub(charge.position)?;
    let charged = charge.cost.saturating_mul(terms.layout.unit);
    let units = if mutant("take back: what time has given back, too") {
        charged.min(owed)
    } else if mutant("take back: what was owed at the charge") {
        charge.word.time().saturating_sub(position).min(charged).min(owed)
    } else {
        charged.saturating_sub(earned).min(owed)
    };
    (units > 0).then(|| time - units)
}

/// Gives a charge back as far as it is still owed where it lies: at its own end, lowered by `since`, what
/// others have given back since it was made. However many charges are given back, whole or in part and in
/// whichever order, they lie side by side below the key's time, so that what could still be given back
/// never exceeds what is owed. `None` if there is nothing left of it.
pub(crate) fn settle(
    terms: &Terms,
    time: u64,
    reading: &Reading,
    charge: &Charge,
    since: u64,
) -> Option<u64> {
    let left = charge.word.time().saturating_sub(since).saturating_sub(reading.position);
    let owed = time.saturating_sub(reading.position);
    let units = charge.cost.saturating_mul(terms.layout.unit).min(left).min(owed);
    (units > 0).then(|| time - units)
}

/// The same debt in tokens, in the units of another quota. Where the new unit does not divide the
/// old one it is rounded up, by less than a new unit: nothing is minted. A debt of more than nine
/// years of the new rate is cut to that.
pub(crate) fn translate(translation: &Translation, time: u64) -> u64 {
    let Translation { from, to } = translation;
    let spent = time.saturating_sub(from.position);
    // Below 2^59 * 2^58.
    let spent = (u128::from(spent) * u128::from(to.unit)).div_ceil(u128::from(from.unit));
    to.position + spent.min(u128::from(OWED_MAX)) as u64
}

/// What had passed of a unit at the change (2^-64 parts), in parts of the new unit, rounded up:
/// whole units and parts.
pub(crate) fn translate_phase(phase: u64, from_unit: u64, to_unit: u64) -> (u64, u64) {
    // Below 2^64 * 2^58.
    let parts = (u128::from(phase) * u128::from(to_unit)).div_ceil(u128::from(from_unit));
    ((parts >> 64) as u64, parts as u64)
}

/// What a decision keeps of a bucket: the debt, and the line on which it is earned back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The key's time, counted from the line's base.
    spent: u64,
    /// Nanoseconds since the line's origin, less than 0 for a clock that is behind it; saturating
    /// at 292 years.
    elapsed: i64,
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
        elapsed: elapsed(terms, reading),
        phase: terms.phase,
        slope: terms.layout.slope,
        unit: terms.layout.unit,
        room: terms.layout.room,
    }
}

/// The shorter answer of terms whose slope is whole, at a moment not behind their origin.
#[inline]
pub(crate) fn whole_answer(terms: &Terms, time: u64, reading: &Reading) -> whole_bucket::Answer {
    let owed = time.saturating_sub(reading.position);
    let Layout { slope, unit, room, .. } = terms.layout;
    whole_bucket::Answer { owed, slope: slope.whole, unit, room }
}

#[inline]
fn elapsed(terms: &Terms, reading: &Reading) -> i64 {
    let elapsed = reading.now.wrapping_sub(terms.origin) as i64;
    if (elapsed < 0) == (reading.now < terms.origin) {
        return elapsed;
    }
    if elapsed < 0 { i64::MAX } else { i64::MIN }
}

impl Answer {
    /// Units that have passed since the origin.
    fn clock(&self) -> u64 {
        self.slope.units(self.elapsed.max(0) as u64, self.phase)
    }

    /// Nanoseconds until the clock comes to `target` units.
    fn until(&self, target: u64) -> Option<u64> {
        if target <= self.clock() {
            return Some(0);
        }
        let at = self.slope.first_at(target, self.phase)?;
        // A clock that is further behind than can be told has no wait to name.
        let behind = self.elapsed.checked_neg()?;
        u64::try_from(i128::from(at) + i128::from(behind)).ok()
    }

    /// The same after `cost` more is spent.
    pub(crate) fn after(self, cost: u64) -> Answer {
        match cost.saturating_mul(self.unit) {
            0 => self,
            units => Answer { spent: self.spent.max(self.clock()).saturating_add(units), ..self },
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.room / self.unit
    }

    /// What can be spent, before it is divided into tokens.
    pub(crate) fn spare(&self) -> Spare {
        let owed = self.spent.saturating_sub(self.clock());
        Spare { units: self.room.saturating_sub(owed), unit: self.unit }
    }

    pub(crate) fn remaining(&self) -> u64 {
        let Spare { units, unit } = self.spare();
        units / unit
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
