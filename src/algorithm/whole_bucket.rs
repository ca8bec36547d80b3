//! What a decision keeps of a bucket whose clock rises by a whole number of units a nanosecond.
//!
//! Most quotas are such: every one whose interval is a whole number of nanoseconds. Nothing of a
//! unit is ever left over then, so the debt alone tells when it is earned back, and a decision keeps
//! four words, where [`token_bucket`](super::token_bucket), which says the same of any bucket, keeps
//! eight.

use crate::joint::Spare;

/// The debt as of a moment, and how it is earned back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Units owed after the call.
    pub(crate) owed: u64,
    /// Units a nanosecond.
    pub(crate) slope: u64,
    pub(crate) unit: u64,
    pub(crate) room: u64,
}

impl Answer {
    /// Nanoseconds until no more than `most` units are owed.
    fn until_owed(&self, most: u64) -> Option<u64> {
        match self.owed.saturating_sub(most) {
            0 => Some(0),
            _ if self.slope == 0 => None,
            ahead => Some(ahead.div_ceil(self.slope)),
        }
    }

    /// The same after `cost` more is owed.
    #[inline]
    pub(crate) fn after(self, cost: u64) -> Answer {
        Answer { owed: self.owed.saturating_add(cost.saturating_mul(self.unit)), ..self }
    }

    /// What can be spent, before it is divided into tokens.
    #[inline]
    pub(crate) fn spare(&self) -> Spare {
        Spare { units: self.room.saturating_sub(self.owed), unit: self.unit }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.room / self.unit
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.room.saturating_sub(self.owed) / self.unit
    }

    pub(crate) fn wait(&self, cost: u64) -> Option<u64> {
        self.until_owed(self.room.checked_sub(cost.checked_mul(self.unit)?)?)
    }

    pub(crate) fn restored_in(&self) -> Option<u64> {
        self.until_owed(0)
    }

    /// Nanoseconds until all is back that was spent before the last `cost`.
    pub(crate) fn until_spent_before(&self, cost: u64) -> Option<u64> {
        self.until_owed(cost.saturating_mul(self.unit))
    }
}

#[cfg(test)]
mod tests {
    use crate::algorithm::sliding_log::Shape;
    use crate::algorithm::{Algorithm, Layout, OWED_MAX, token_bucket};
    use crate::slope::Slope;
    use crate::terms::Terms;
    use crate::word::LIVE_FROM;

    /// Both answers of a bucket say the same, for any mixture of these.
    #[test]
    fn the_short_answer_is_the_long_one() {
        let units = [1, 2, 7, 1_000, 1_000_003, OWED_MAX];
        let rooms = [0, 1, 999, 100_000, OWED_MAX / 3, OWED_MAX];
        for whole in [0, 1, 2, 5, 1_000, (1 << 20) - 1] {
            for unit in units {
                for room in rooms {
                    for elapsed in [0, 1, 17, 1_000_000_007] {
                        compare(whole, (unit, room), elapsed);
                    }
                }
            }
        }
    }

    fn compare(whole: u64, (unit, room): (u64, u64), elapsed: u64) {
        let slope = Slope { whole, high: 0, low: 0 };
        let layout = Layout { slope, unit, room, count_bits: 0, shape: Shape::default() };
        let algorithm = Algorithm::TokenBucket;
        let (sequence, origin, phase) = (0, 123, 7);
        let base = LIVE_FROM;
        let terms =
            Terms { sequence, algorithm, layout, origin, base, phase, beyond: 0, at_least: 0 };
        let Some(reading) = terms.read_whole_bucket(origin + elapsed) else { return };
        assert_eq!(Some(reading), terms.read_bucket(origin + elapsed));
        for owed in [0, 1, 6, 7, 8, 1_000, room / 2, room] {
            let time = reading.position + owed;
            let long = token_bucket::answer(&terms, time, &reading);
            let short = token_bucket::whole_answer(&terms, time, &reading);
            assert_eq!(short.limit(), long.limit());
            assert_eq!(short.remaining(), long.remaining());
            assert_eq!(short.restored_in(), long.restored_in());
            for cost in [0, 1, 2, 99, room / unit, u64::MAX] {
                assert_eq!(short.wait(cost), long.wait(cost));
                assert_eq!(short.until_spent_before(cost), long.until_spent_before(cost));
            }
        }
    }
}
