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

use crate::algorithm::{Layout, Translation};
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::terms::{Reading, Terms};
use crate::word::{LIVE_FROM, TIME_BITS};

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

    /// A tick is two to this many nanoseconds.
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

/// A stamp as nanoseconds of the limiter, in units of ticks; signed, for what lies before time 0.
type Tick = i64;

/// The terms as a log sees them.
#[derive(Clone, Copy)]
struct Log<'a> {
    terms: &'a Terms,
    tick_bits: u32,
}

/// A time taken apart.
#[derive(Clone, Copy)]
struct Head {
    stamp: Tick,
    committed: u64,
    cost: u64,
}

/// The stamps of a ring.
pub(crate) trait Slots {
    /// The stamp in a slot, loaded so that what was loaded before is no newer.
    fn stamp(&self, slot: u64) -> u64;
}

/// A ring that is never read: a key's first charge has all its stamps in the head.
pub(crate) struct NoSlots;

impl Slots for NoSlots {
    fn stamp(&self, _slot: u64) -> u64 {
        0
    }
}

impl<'a> Log<'a> {
    fn new(terms: &'a Terms) -> Log<'a> {
        Log { terms, tick_bits: terms.layout.shape.tick_bits() }
    }

    fn ring(&self) -> u64 {
        self.terms.layout.shape.ring
    }

    /// The tick at whose end `now` counts: rounded up.
    fn tick_of(&self, now: u64) -> Tick {
        // At most 2^64 / 2, as ticks of one nanosecond need a ring that leaves 58 bits.
        (u128::from(now).div_ceil(1 << self.tick_bits)) as Tick
    }

    /// The tick of a position on the terms' line.
    fn tick_at(&self, position: u64) -> Tick {
        let since = position as Tick - self.terms.base as Tick;
        self.tick_of(self.terms.origin).saturating_add(since)
    }

    /// The position of a tick, within the range.
    fn position_of(&self, tick: Tick) -> u64 {
        let since = tick.saturating_sub(self.tick_of(self.terms.origin));
        let count_bits = self.terms.layout.count_bits;
        let (first, end) = (first_position(count_bits), (1 << (TIME_BITS - count_bits)) - 1);
        (self.terms.base as Tick).saturating_add(since).clamp(first as Tick, end) as u64
    }

    fn head(&self, time: u64) -> Head {
        let Layout { count_bits, shape, .. } = self.terms.layout;
        let cost_bits = shape.cost_bits();
        let below = time & ((1 << count_bits) - 1);
        Head {
            stamp: self.tick_at(time >> count_bits),
            committed: below >> cost_bits,
            cost: (below & ((1 << cost_bits) - 1)) + 1,
        }
    }

    fn time(&self, head: Head) -> u64 {
        let Layout { count_bits, shape, .. } = self.terms.layout;
        let position = self.position_of(head.stamp);
        position << count_bits | head.committed << shape.cost_bits() | (head.cost - 1)
    }

    /// The stamp of the token that was the `distance`-th newest, if there is one.
    fn token(&self, head: &Head, slots: &impl Slots, distance: u64) -> Option<Tick> {
        let ring = self.ring();
        if head.committed == 2 * ring {
            // All that there may have been came then.
            return Some(head.stamp);
        }
        // The first lap: slots that this key has not written are another's.
        if distance > head.committed.min(ring) {
            return None;
        }
        // The last commit's own stamps may not be in the ring yet.
        if distance <= head.cost {
            return Some(head.stamp);
        }
        Some(slots.stamp((head.committed + ring - distance) % ring) as Tick)
    }

    /// The nanosecond at which a token no longer counts.
    fn expires(&self, stamp: Tick) -> i128 {
        (i128::from(stamp) << self.tick_bits) + i128::from(self.terms.layout.unit)
    }

    fn counts(&self, stamp: Tick, now: u64) -> bool {
        // What had expired under an earlier window stays expired: `phase`.
        stamp > self.terms.phase as Tick && self.expires(stamp) > i128::from(now)
    }

    /// The token that must have expired before `cost` is admitted, if it counts still; `Err` if
    /// no wait helps.
    fn blocker(
        &self,
        head: &Head,
        slots: &impl Slots,
        now: u64,
        cost: u64,
    ) -> Result<Option<Tick>, ()> {
        let Layout { room, shape, .. } = self.terms.layout;
        if cost == 0 {
            return Ok(None);
        }
        if cost > room || cost > shape.cost_max {
            return Err(());
        }
        let token = self.token(head, slots, room - cost + 1);
        Ok(token.filter(|&stamp| self.counts(stamp, now)))
    }

    /// Tokens that count at `now`.
    fn in_sight(&self, head: &Head, slots: &impl Slots, now: u64) -> u64 {
        // Newer tokens count as long as older ones do: find the oldest that does by halving.
        let (mut counted, mut not) = (0, self.ring().max(1) + 1);
        while not - counted > 1 {
            let middle = counted + (not - counted) / 2;
            let stamp = self.token(head, slots, middle);
            if stamp.is_some_and(|stamp| self.counts(stamp, now)) {
                counted = middle;
            } else {
                not = middle;
            }
        }
        counted
    }
}

/// The lowest position of a live word. Lines start far above it, by more than any window.
fn first_position(count_bits: u32) -> u64 {
    LIVE_FROM.div_ceil(1 << count_bits)
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

/// Admits iff the token that `cost` would push out of the limit no longer counts.
pub(crate) fn charge(
    terms: &Terms,
    slots: &impl Slots,
    time: u64,
    reading: &Reading,
    cost: u64,
) -> Option<u64> {
    let log = Log::new(terms);
    let head = log.head(time);
    if cost == 0 {
        return Some(time);
    }
    if log.blocker(&head, slots, reading.now, cost).ok()?.is_some() {
        return None;
    }
    let stamp = log.tick_at(reading.position).max(head.stamp).max(terms.phase as Tick + 1);
    let ring = log.ring();
    let before = if head.committed == 2 * ring { 0 } else { head.committed };
    let committed = before + cost;
    let committed = if committed >= 2 * ring { committed - ring } else { committed };
    Some(log.time(Head { stamp, committed, cost }))
}

/// The slots of the last commit, which must hold its stamp before the head moves on.
pub(crate) fn last_commit(terms: &Terms, time: u64) -> (u64, impl Iterator<Item = u64>) {
    let log = Log::new(terms);
    let head = log.head(time);
    let ring = log.ring();
    let count = if head.committed == 2 * ring { 0 } else { head.cost.min(head.committed) };
    let slots = (1..=count).map(move |distance| (head.committed + ring - distance) % ring);
    (head.stamp.max(0) as u64, slots)
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
    head.committed == 0 || !log.counts(head.stamp, reading.now)
}

/// The time of a key of which nothing is known before `floor`: as if all it may have spent had
/// been spent so that it still counts until then.
pub(crate) fn forgotten_at(terms: &Terms, floor: u64) -> u64 {
    let log = Log::new(terms);
    let window = (terms.layout.unit >> log.tick_bits) as Tick;
    let stamp = log.tick_of(floor).saturating_sub(window);
    log.time(Head { stamp, committed: 2 * log.ring(), cost: 1 })
}

/// The time of a key that is made as one not seen: stamps still do not decrease.
pub(crate) fn cleared(terms: &Terms, time: u64) -> u64 {
    time >> terms.layout.count_bits << terms.layout.count_bits
}

/// The tick up to which tokens stay expired when the window changes at `now`.
pub(crate) fn expired_at(terms: &Terms, now: u64) -> u64 {
    let log = Log::new(terms);
    let expired = i128::from(now) - i128::from(terms.layout.unit);
    ((expired >> log.tick_bits) as Tick).max(terms.phase as Tick) as u64
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
    restored_in: u64,
}

/// The answer to a call of `cost` that leaves the key at `time`. Loads the ring.
pub(crate) fn answer(
    terms: &Terms,
    slots: &impl Slots,
    time: u64,
    reading: &Reading,
    cost: u64,
) -> Answer {
    let log = Log::new(terms);
    let (head, now) = (log.head(time), reading.now);
    let until = |stamp: Tick| u64::try_from(log.expires(stamp) - i128::from(now)).unwrap_or(0);
    let limit = terms.layout.room;
    Answer {
        limit,
        remaining: limit.saturating_sub(log.in_sight(&head, slots, now)),
        wait: log.blocker(&head, slots, now, cost).ok().map(|token| token.map_or(0, until)),
        restored_in: if is_idle(terms, time, reading) { 0 } else { until(head.stamp) },
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

    pub(crate) fn restored_in(&self) -> u64 {
        self.restored_in
    }
}
