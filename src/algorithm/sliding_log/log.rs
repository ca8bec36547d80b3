//! A log's arithmetic: ticks, heads, and the tokens that they and a ring hold.

use crate::algorithm::Layout;
use crate::probe::mutant;
use crate::terms::{Reading, Terms};
use crate::word::{LIVE_FROM, TIME_BITS};

/// A stamp as nanoseconds of the limiter, in units of ticks; signed, for what lies before time 0.
pub(super) type Tick = i64;

/// The terms as a log sees them.
#[derive(Clone, Copy)]
pub(super) struct Log<'a> {
    pub(super) terms: &'a Terms,
    pub(super) ring: u64,
    pub(super) cost_bits: u32,
    pub(super) tick_bits: u32,
}

/// A time taken apart.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) stamp: Tick,
    pub(super) committed: u64,
    pub(super) cost: u64,
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
    pub(super) fn new(terms: &'a Terms) -> Log<'a> {
        let shape = terms.layout.shape;
        let (cost_bits, tick_bits) = (shape.cost_bits(), shape.tick_bits());
        Log { terms, ring: shape.ring, cost_bits, tick_bits }
    }

    /// The tick at whose end `now` counts: rounded up.
    pub(super) fn tick_of(&self, now: u64) -> Tick {
        // A tick is at least two nanoseconds, so only the last one is cut.
        let rest = now & ((1 << self.tick_bits) - 1);
        ((now >> self.tick_bits) as Tick).saturating_add(Tick::from(rest > 0))
    }

    /// The tick of a position on the terms' line.
    pub(super) fn tick_at(&self, position: u64) -> Tick {
        let since = position as Tick - self.terms.base as Tick;
        self.tick_of(self.terms.origin).saturating_add(since)
    }

    /// The position of a tick, within the range.
    pub(super) fn position_of(&self, tick: Tick) -> u64 {
        let since = tick.saturating_sub(self.tick_of(self.terms.origin));
        let count_bits = self.terms.layout.count_bits;
        let (first, end) = (first_position(count_bits), (1 << (TIME_BITS - count_bits)) - 1);
        (self.terms.base as Tick).saturating_add(since).clamp(first as Tick, end) as u64
    }

    pub(super) fn head(&self, time: u64) -> Head {
        let (count_bits, cost_bits) = (self.terms.layout.count_bits, self.cost_bits);
        let below = time & ((1 << count_bits) - 1);
        Head {
            stamp: self.tick_at(time >> count_bits),
            committed: below >> cost_bits,
            cost: (below & ((1 << cost_bits) - 1)) + 1,
        }
    }

    pub(super) fn time(&self, head: Head) -> u64 {
        let position = self.position_of(head.stamp) << self.terms.layout.count_bits;
        position | head.committed << self.cost_bits | (head.cost - 1)
    }

    /// The stamp of the token that was the `distance`-th newest, if there is one.
    pub(super) fn token(&self, head: &Head, slots: &impl Slots, distance: u64) -> Option<Tick> {
        let ring = self.ring;
        if head.committed == 2 * ring {
            // All that there may have been came then.
            return Some(head.stamp);
        }
        // The first lap: slots that this key has not written are another's.
        if distance > head.committed.min(ring) && !mutant("log: no first lap") {
            return None;
        }
        // The last commit's own stamps may not be in the ring yet.
        if distance <= head.cost && !mutant("log: last commit read from its slots") {
            return Some(head.stamp);
        }
        Some(slots.stamp(self.slot(head, distance)) as Tick)
    }

    /// The slot of the token that was the `distance`-th newest, at most a ring's length ago.
    pub(super) fn slot(&self, head: &Head, distance: u64) -> u64 {
        // Below three rings' lengths, as tokens are counted below two.
        let ahead = head.committed + self.ring - distance;
        let lap = if ahead >= 2 * self.ring { 2 * self.ring } else { self.ring };
        if ahead >= self.ring { ahead - lap } else { ahead }
    }

    /// The nanosecond at which a token no longer counts.
    pub(super) fn expires(&self, stamp: Tick) -> i128 {
        (i128::from(stamp) << self.tick_bits) + i128::from(self.terms.layout.unit)
    }

    /// Nanoseconds until a token no longer counts, or `None` where 64 bits cannot tell.
    pub(super) fn until(&self, stamp: Tick, now: u64) -> Option<u64> {
        u64::try_from((self.expires(stamp) - i128::from(now)).max(0)).ok()
    }

    /// The newest tick whose tokens no longer count at `now`: `stamp * tick + W <= now`. What had
    /// expired under an earlier window stays expired: `phase`.
    pub(super) fn expired(&self, now: u64) -> Tick {
        let expired = i128::from(now) - i128::from(self.terms.layout.unit);
        ((expired >> self.tick_bits) as Tick).max(self.terms.phase as Tick)
    }

    /// The time after a charge that is admitted.
    pub(super) fn charged(&self, head: &Head, reading: &Reading, cost: u64) -> u64 {
        let expired = if mutant("log: stamps may be expired") { 0 } else { self.terms.phase };
        let least = head.stamp.max((expired as Tick).saturating_add(1));
        let least = if mutant("log: stamps may fall") { Tick::MIN } else { least };
        let stamp = self.tick_at(reading.position).max(least);
        let before = if head.committed == 2 * self.ring { 0 } else { head.committed };
        let committed = before + cost;
        let lap = if committed >= 2 * self.ring { self.ring } else { 0 };
        self.time(Head { stamp, committed: committed - lap, cost })
    }

    /// The token that must have expired before `cost` is admitted, if it counts still; `Err` if
    /// no wait helps.
    pub(super) fn blocker(
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
    pub(super) fn in_sight(
        &self,
        head: &Head,
        slots: &impl Slots,
        expired: Tick,
        (mut counted, mut not): (u64, u64),
    ) -> u64 {
        if head.committed == 2 * self.ring || head.committed == 0 || head.stamp <= expired {
            // All of one stamp, or none.
            return if head.committed > 0 && head.stamp > expired { not - 1 } else { counted };
        }
        // Those of the last commit count; those that are in the ring do as long as newer ones do.
        counted = counted.max(head.cost.min(head.committed));
        not = not.min(head.committed.min(self.ring) + 1).max(counted + 1);
        let counts = |distance| slots.stamp(self.slot(head, distance)) as Tick > expired;
        // Most often the oldest that counts is among the newest few or the oldest few, whose lines
        // are at hand.
        if not - counted > 2 * LINE {
            if !counts(counted + LINE) {
                not = counted + LINE;
            } else if counts(not - LINE) {
                counted = not - LINE;
            } else {
                (counted, not) = (counted + LINE, not - LINE);
            }
        }
        // Halving without a branch on what is found.
        let mut size = not - counted;
        while size > 1 {
            let half = size / 2;
            counted = if counts(counted + half) { counted + half } else { counted };
            size -= half;
        }
        counted
    }
}

/// Stamps of a cache line.
const LINE: u64 = 8;

/// The lowest position of a live word. Lines start far above it, by more than any window.
pub(super) fn first_position(count_bits: u32) -> u64 {
    LIVE_FROM.div_ceil(1 << count_bits)
}
