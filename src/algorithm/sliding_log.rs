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

/// A stamp as nanoseconds of the limiter, in units of ticks; signed, for what lies before time 0.
type Tick = i64;

/// The terms as a log sees them.
#[derive(Clone, Copy)]
struct Log<'a> {
    terms: &'a Terms,
    ring: u64,
    cost_bits: u32,
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
        let shape = terms.layout.shape;
        let (cost_bits, tick_bits) = (shape.cost_bits(), shape.tick_bits());
        Log { terms, ring: shape.ring, cost_bits, tick_bits }
    }

    /// The tick at whose end `now` counts: rounded up.
    fn tick_of(&self, now: u64) -> Tick {
        // A tick is at least two nanoseconds, so this is below 2^63.
        let rest = now & ((1 << self.tick_bits) - 1);
        (now >> self.tick_bits) as Tick + Tick::from(rest > 0)
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
        let (count_bits, cost_bits) = (self.terms.layout.count_bits, self.cost_bits);
        let below = time & ((1 << count_bits) - 1);
        Head {
            stamp: self.tick_at(time >> count_bits),
            committed: below >> cost_bits,
            cost: (below & ((1 << cost_bits) - 1)) + 1,
        }
    }

    fn time(&self, head: Head) -> u64 {
        let position = self.position_of(head.stamp) << self.terms.layout.count_bits;
        position | head.committed << self.cost_bits | (head.cost - 1)
    }

    /// The stamp of the token that was the `distance`-th newest, if there is one.
    fn token(&self, head: &Head, slots: &impl Slots, distance: u64) -> Option<Tick> {
        let ring = self.ring;
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
        Some(slots.stamp(self.slot(head, distance)) as Tick)
    }

    /// The slot of the token that was the `distance`-th newest, at most a ring's length ago.
    fn slot(&self, head: &Head, distance: u64) -> u64 {
        // Below three rings' lengths, as tokens are counted below two.
        let ahead = head.committed + self.ring - distance;
        let lap = if ahead >= 2 * self.ring { 2 * self.ring } else { self.ring };
        if ahead >= self.ring { ahead - lap } else { ahead }
    }

    /// The nanosecond at which a token no longer counts.
    fn expires(&self, stamp: Tick) -> i128 {
        (i128::from(stamp) << self.tick_bits) + i128::from(self.terms.layout.unit)
    }

    /// The newest tick whose tokens no longer count at `now`: `stamp * tick + W <= now`. What had
    /// expired under an earlier window stays expired: `phase`.
    fn expired(&self, now: u64) -> Tick {
        let expired = i128::from(now) - i128::from(self.terms.layout.unit);
        ((expired >> self.tick_bits) as Tick).max(self.terms.phase as Tick)
    }

    /// The time after a charge that is admitted.
    fn charged(&self, head: &Head, reading: &Reading, cost: u64) -> u64 {
        let least = head.stamp.max((self.terms.phase as Tick).saturating_add(1));
        let stamp = self.tick_at(reading.position).max(least);
        let before = if head.committed == 2 * self.ring { 0 } else { head.committed };
        let committed = before + cost;
        let lap = if committed >= 2 * self.ring { self.ring } else { 0 };
        self.time(Head { stamp, committed: committed - lap, cost })
    }

    /// The token that must have expired before `cost` is admitted, if it counts still; `Err` if
    /// no wait helps.
    fn blocker(
        &self,
        head: &Head,
        slots: &impl Slots,
        expired: Tick,
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
        Ok(token.filter(|&stamp| stamp > expired))
    }

    /// Tokens that count, known to be at least `counted` and fewer than `not`.
    fn in_sight(
        &self,
        head: &Head,
        slots: &impl Slots,
        expired: Tick,
        (mut counted, mut not): (u64, u64),
    ) -> u64 {
        let counts =
            |distance| self.token(head, slots, distance).is_some_and(|stamp| stamp > expired);
        // Newer tokens count as long as older ones do: find the oldest that does. Most often it is
        // among the newest few or the oldest few of the ring, whose lines are at hand: look there
        // in growing steps, then halve what is left.
        let mut step = 1;
        while not - counted > 2 * step {
            if !counts(counted + step) {
                not = counted + step;
                break;
            }
            counted += step;
            if counts(not - step) {
                counted = not - step;
                break;
            }
            not -= step;
            step *= 2;
        }
        while not - counted > 1 {
            let middle = counted + (not - counted) / 2;
            if counts(middle) {
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
    let until = |stamp: Tick| u64::try_from(log.expires(stamp) - i128::from(now)).unwrap_or(0);
    let whole = (0, log.ring + 1);
    let (after, wait, known) = match log.blocker(&head, slots, expired, cost) {
        Err(()) => (None, None, whole),
        Ok(Some(stamp)) => (None, Some(until(stamp)), (limit - cost + 1, log.ring + 1)),
        Ok(None) if cost == 0 => (Some(time), Some(0), whole),
        // The token is not known to have been: in its first lap a log does not know what it was
        // before it was forgotten, and a clock that has gone back may see that again.
        Ok(None) if floor > now && limit - cost >= head.committed => {
            (None, Some(floor - now), (limit, limit + 1))
        }
        Ok(None) => (Some(log.charged(&head, reading, cost)), Some(0), (0, limit - cost + 1)),
    };
    let counted = log.in_sight(&head, slots, expired, known);
    // What the call leaves, if it charges.
    let charged = after.filter(|_| charges);
    let counted = counted + charged.map_or(0, |_| cost);
    let remaining = limit.saturating_sub(counted);
    let newest = charged.map_or(head.stamp, |after| log.head(after).stamp);
    let restored_in = if counted > 0 { until(newest) } else { 0 };
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
    restored_in: u64,
}

/// The answer of a key whose stamps are all in its head, at `time` after a call of `cost`.
pub(crate) fn answer(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Answer {
    let log = Log::new(terms);
    let (head, limit) = (log.head(time), terms.layout.room);
    let now = reading.now;
    let until = |stamp: Tick| u64::try_from(log.expires(stamp) - i128::from(now)).unwrap_or(0);
    let expired = log.expired(now);
    let wait = log.blocker(&head, &NoSlots, expired, cost).ok();
    let counted = log.in_sight(&head, &NoSlots, expired, (0, log.ring + 1));
    Answer {
        limit,
        remaining: limit.saturating_sub(counted),
        wait: wait.map(|token| token.map_or(0, until)),
        restored_in: if counted > 0 { until(head.stamp) } else { 0 },
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
