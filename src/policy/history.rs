//! The last changes of units, for those who wait through them.

use crate::algorithm::{Translation, token_bucket};

/// Changes that are remembered. Who has slept through more of them does without.
const REMEMBERED: usize = 4;

/// What the last epochs have made of the times of the epochs before; of buckets.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first, each with the publication that began the epoch; 0 for none.
    changes: [(u64, Translation); REMEMBERED],
    /// The last publication that was forgotten here.
    forgotten: u64,
}

impl History {
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
