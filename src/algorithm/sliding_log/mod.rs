//! Sliding window log: the time of every admitted token, so that no window ever holds too many.
//!
//! **Definition.** A token admitted at u counts at t iff `t - W < u <= t`. A call of some cost is
//! admitted iff the tokens that count and the cost are within the limit.
//!
//! **Source.** The log of timestamps that limiters keep in sorted sets; kept here in a ring.
//!
//! **How.** A key's word is the head of its log, and its ring beside the table holds a stamp per
//! token. The swap of the head is the commit. A head says when the last commit was made, where in
//! the ring it lies and how many tokens it took, so its own stamps need not be in the ring yet:
//! whoever commits next writes them first, and nobody waits for a thread that has stopped.
//!
//! ```text
//!   time: | stamp of the last commit, in ticks | tokens committed | cost of the last commit - 1 |
//! ```
//!
//! Tokens committed are counted in `[0, 2M)` for a ring of M: below M, that many stamps are in the
//! ring; from M on it is full, and 2M wraps to M. Stamps never decrease in a cell, over all its
//! keys, so a stamp is only ever raised, and a late writer does no harm.
//!
//! Stamps are in ticks, *rounded up*, so that a token counts a tick too long, never too short. The
//! tick is what leaves nine years in the word: 16 ns for a ring of 10, 1 us for 1000, and times
//! the largest cost.
//!
//! **Worst case.** The limit, in any window of length W whatsoever.

mod log;

use log::{Head, Log, Tick, first_position};
pub(crate) use log::{NoSlots, Slots};

use crate::algorithm::{Layout, Translation};
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::terms::{Reading, Terms};
use crate::word::TIME_BITS;

/// The largest ring: a million tokens, 8 MB for each of the table's cells.
pub(crate) const RING_MAX: u64 = 1 << 20;

/// The word's range in nanoseconds: `2^58`, nine years.
const RANGE_BITS: u32 = 58;

/// How a log is shaped, when its limiter is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Stamps in a ring: the largest limit.
    pub(crate) ring: u64,
    /// The largest cost.
    pub(crate) cost_max: u64,
}

impl Shape {
    /// Bits of the last commit's cost, less one.
    fn cost_bits(self) -> u32 {
        self.cost_max.max(1).next_power_of_two().ilog2()
    }

    /// Bits below the stamp. The count of tokens has one code more, [`Head::full`].
    fn count_bits(self) -> u32 {
        (2 * self.ring).max(1).ilog2() + 1 + self.cost_bits()
    }

    /// A tick is two to this many nanoseconds, at least two.
    fn tick_bits(self) -> u32 {
        (RANGE_BITS + self.count_bits()).saturating_sub(TIME_BITS)
    }
}

pub(crate) fn lay_out(quota: &Quota, shape: Shape) -> Result<Layout, QuotaError> {
    let (window, limit) = (quota.period_nanos()?, quota.limit());
    let Shape { ring, cost_max } = shape;
    if ring > RING_MAX || cost_max > ring.max(1) {
        return Err(QuotaError::Log { ring, ring_max: RING_MAX, cost_max });
    }
    if limit > ring {
        return Err(QuotaError::LogLimit { limit, ring });
    }
    // A tick must be small beside the window, and a window beside the range.
    let (window_min, window_max) = (1024 << shape.tick_bits(), 1 << (RANGE_BITS - 3));
    if !(window_min..=window_max).contains(&window) {
        let period = quota.period();
        return Err(QuotaError::LogWindow { period, window_min, window_max });
    }
    let count_bits = shape.count_bits();
    Ok(Layout { slope: Slope::ZERO, unit: window, room: limit, count_bits, shape })
}

/// The clock in ticks at `now`: the terms' position.
#[inline]
pub(crate) fn position(terms: &Terms, now: u64) -> u64 {
    let log = Log::new(terms);
    log.position_of(log.tick_of(now.max(terms.origin)))
}

/// Where a log's line starts: a quarter into the range, so that a window fits below.
pub(crate) fn base(layout: &Layout) -> u64 {
    1 << (TIME_BITS - 2 - layout.count_bits)
}

/// What is asked of a log.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) cost: u64,
    /// Whether the cost is charged if it is admitted, or only foreseen.
    pub(crate) charges: bool,
    /// The moment before which the key may have been forgotten.
    pub(crate) floor: u64,
}

/// What a call comes to.
pub(crate) struct Judged {
    /// The time after the charge, if it is admitted.
    pub(crate) after: Option<u64>,
    pub(crate) answer: Answer,
}

/// Admits iff the token that `cost` would push out of the limit no longer counts. Loads the ring.
pub(crate) fn judge(
    terms: &Terms,
    slots: &impl Slots,
    time: u64,
    reading: &Reading,
    ask: Ask,
) -> Judged {
    let Ask { cost, charges, floor } = ask;
    let log = Log::new(terms);
    let (head, now, limit) = (log.head(time), reading.now, terms.layout.room);
    let expired = log.expired(now);
    let until = |stamp: Tick| log.until(stamp, now);
    let whole = (0, log.ring + 1);
    let (after, wait, known) = match log.blocker(&head, slots, expired, cost) {
        Err(()) => (None, None, whole),
        Ok(Some(stamp)) => (None, until(stamp), (limit - cost + 1, log.ring + 1)),
        Ok(None) if cost == 0 => (Some(time), Some(0), whole),
        // The token is not known to have been: in its first lap a log does not know what it was
        // before it was forgotten, and a clock that has gone back may see that again.
        Ok(None) if floor > now && limit - cost >= head.committed => {
            (None, Some(floor - now), (limit, limit + 1))
        }
        Ok(None) => (Some(log.charged(&head, reading, cost)), Some(0), (0, limit - cost + 1)),
    };
    let counted = log.in_sight(&head, slots, expired, known);
    // Where all that is known counts, so may what is not known, until the floor.
    let unsure_for = if counted >= head.committed { floor.saturating_sub(now) } else { 0 };
    let counted = if unsure_for > 0 { counted.max(limit) } else { counted };
    // What the call leaves, if it charges.
    let charged = after.filter(|_| charges);
    let counted = counted + charged.map_or(0, |_| cost);
    let remaining = limit.saturating_sub(counted);
    let newest = charged.map_or(head.stamp, |after| log.head(after).stamp);
    let restored_in = if counted > 0 { until(newest) } else { Some(0) };
    // Not before it is admitted.
    let least = wait.unwrap_or(0).max(unsure_for);
    let restored_in = restored_in.map(|restored_in| restored_in.max(least));
    Judged { after, answer: Answer { limit, remaining, wait, restored_in } }
}

/// [`judge`] for a key whose stamps are all in its head: one not seen.
pub(crate) fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
    judge(terms, &NoSlots, time, reading, Ask { cost, charges: true, floor: 0 }).after
}

/// The slots of the last commit, which must hold its stamp before the head moves on.
pub(crate) fn last_commit(terms: &Terms, time: u64) -> (u64, impl Iterator<Item = u64>) {
    let log = Log::new(terms);
    let head = log.head(time);
    let is_full = head.committed == 2 * log.ring;
    let count = if is_full { 0 } else { head.cost.min(head.committed) };
    (head.stamp.max(0) as u64, (1..=count).map(move |distance| log.slot(&head, distance)))
}

/// The newest moment that a time names, in nanoseconds of the limiter.
pub(crate) fn newest(terms: &Terms, time: u64) -> u64 {
    let log = Log::new(terms);
    (log.head(time).stamp.max(0) as u64).saturating_mul(1 << log.tick_bits)
}

/// Whether no token counts.
pub(crate) fn is_idle(terms: &Terms, time: u64, reading: &Reading) -> bool {
    let log = Log::new(terms);
    let head = log.head(time);
    head.committed == 0 || head.stamp <= log.expired(reading.now)
}

/// The time of a key of which nothing is known before `floor`: as if all it may have spent had
/// been spent so that it still counts until then.
pub(crate) fn forgotten_at(terms: &Terms, floor: u64) -> u64 {
    let log = Log::new(terms);
    let window = (terms.layout.unit >> log.tick_bits) as Tick;
    let stamp = log.tick_of(floor).saturating_sub(window);
    log.time(Head { stamp, committed: 2 * log.ring, cost: 1 })
}

/// The time of a key that is made as one not seen: stamps still do not decrease.
pub(crate) fn cleared(terms: &Terms, time: u64) -> u64 {
    time >> terms.layout.count_bits << terms.layout.count_bits
}

/// The tick up to which tokens stay expired when the window changes at `now`.
pub(crate) fn expired_at(terms: &Terms, now: u64) -> u64 {
    Log::new(terms).expired(now) as u64
}

/// The same stamp on a line that starts later.
pub(crate) fn translate(translation: &Translation, time: u64) -> u64 {
    // Both sides' positions name the same tick.
    let Translation { from, to, .. } = translation;
    let (position, below) = (time >> from.count_bits, time & ((1 << from.count_bits) - 1));
    let moved = (position + to.position).saturating_sub(from.position);
    moved.max(first_position(to.count_bits as u32)) << to.count_bits | below
}

/// What a decision keeps of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    limit: u64,
    remaining: u64,
    /// Nanoseconds until the decision's own cost is admitted.
    wait: Option<u64>,
    restored_in: Option<u64>,
}

/// The answer of a key whose stamps are all in its head, at `time` after a call of `cost`.
pub(crate) fn answer(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Answer {
    let log = Log::new(terms);
    let (head, limit) = (log.head(time), terms.layout.room);
    let now = reading.now;
    let until = |stamp: Tick| log.until(stamp, now);
    let expired = log.expired(now);
    let wait = log.blocker(&head, &NoSlots, expired, cost).ok();
    let counted = log.in_sight(&head, &NoSlots, expired, (0, log.ring + 1));
    Answer {
        limit,
        remaining: limit.saturating_sub(counted),
        wait: wait.and_then(|token| token.map_or(Some(0), until)),
        restored_in: if counted > 0 { until(head.stamp) } else { Some(0) },
    }
}

impl Answer {
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(crate) fn wait(&self) -> Option<u64> {
        self.wait
    }

    pub(crate) fn restored_in(&self) -> Option<u64> {
        self.restored_in
    }
}
