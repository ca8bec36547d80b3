//! The last changes of units, for those who wait through them.

use crate::algorithm::{Translation, token_bucket};

/// Changes that are remembered. Who has slept through more of them does without.
const REMEMBERED: usize = 4;

/// What the last epochs have made of the times of the epochs before; of buckets.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first, each with the publication that began the epoch; 0 for none.
    /// Apart, as few calls ask for them.
    changes: Box<[(u64, Translation); REMEMBERED]>,
    /// The last publication that was forgotten here.
    forgotten: u64,
}

impl History {
    /// Bytes of the changes.
    pub(super) const BYTES: usize = size_of::<[(u64, Translation); REMEMBERED]>();

    pub(super) fn remember(&mut self, sequence: u64, translation: Translation) {
        self.forgotten = self.changes[0].0;
        self.changes.rotate_left(1);
        self.changes[REMEMBERED - 1] = (sequence, translation);
    }

    /// A time in units of the publication `since`, in those of `until`; `None` if a change between them
    /// has been forgotten.
    pub(super) fn translate(&self, time: u64, since: u64, until: u64) -> Option<u64> {
        let between = |&&(sequence, _): &&(u64, Translation)| sequence > since && sequence <= until;
        let changes = self.changes.iter().filter(between);
        let time = changes.fold(time, |time, (_, change)| token_bucket::translate(change, time));
        (self.forgotten <= since).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Side;

    /// A change at this time, to units of which so many are one of the units before.
    fn change(at: u64, finer: u64) -> Translation {
        let side = |position, unit| Side { position, phase: 0, unit, count_bits: 0 };
        Translation { from: side(at, 1), to: side(at, finer) }
    }

    #[test]
    fn a_time_goes_through_the_changes_since_and_none_is_left_out_unsaid() {
        let mut history = History::default();
        assert_eq!(history.translate(1_007, 1, 9), Some(1_007));
        for sequence in [3, 5, 9] {
            history.remember(sequence, change(1_000, 10));
        }
        // What is owed is 7: once, twice and three times finer; and not by changes before or after.
        assert_eq!(history.translate(1_007, 5, 9), Some(1_070));
        assert_eq!(history.translate(1_007, 3, 9), Some(1_700));
        assert_eq!(history.translate(1_007, 1, 9), Some(8_000));
        assert_eq!(history.translate(1_007, 1, 4), Some(1_070));
        // The first change is forgotten: who was before it is told so, who was after it is not.
        history.remember(11, change(1_000, 1));
        assert_eq!(history.translate(1_007, 1, 11), Some(8_000));
        history.remember(13, change(1_000, 1));
        assert_eq!(history.translate(1_007, 1, 13), None);
        assert_eq!(history.translate(1_007, 3, 13), Some(1_700));
    }
}
