//! The walk: no word of the epoch before is left when the next one may come.
//!
//! A change of quota walks the table itself. A renewal of the range, which a decision comes upon
//! once in years, leaves the walk to the inserts that follow, one bucket each; what they leave is
//! walked by the next changer. Walking a bucket twice does no harm.
//!
//! Two counters lead the helpers: the next bucket to visit, and the buckets visited. Both hold the
//! number of the walk above the number of buckets, so that a helper that comes late is not counted
//! for a walk that follows:
//!
//! ```text
//!   63           32 31          0
//!  +---------------+-------------+
//!  | walk:32       | buckets:32  |
//!  +---------------+-------------+
//! ```

use crate::cell;
use crate::policy::{Policy, Walk};
use crate::probe::{Site, mutant, step};
use crate::sync::{Acquire, Relaxed, Release};
use crate::table::Table;
use crate::table::bucket::{Bucket, Cell};

const WALK_SHIFT: u32 = 32;

fn walk_of(counter: u64) -> u64 {
    counter >> WALK_SHIFT
}

fn buckets_of(counter: u64) -> u64 {
    counter & ((1 << WALK_SHIFT) - 1)
}

impl Walk for Table {
    fn walk(&self, policy: &Policy) {
        for bucket in self.buckets.iter().filter(|_| !mutant("no walk")) {
            walk_bucket(bucket, policy);
        }
    }

    fn start(&self) {
        // Relaxed: only changers start walks, one after the other.
        let walk = walk_of(self.walk_done.load(Relaxed.at("walk/number"))) + 1;
        // Relaxed: helpers of this walk come after the next line. Walks are numbered upward, so a
        // maximum sets the count back, as one of a chain of read-modify-writes.
        self.walk_done.fetch_max(walk << WALK_SHIFT, Relaxed.at("walk/done_set_back"));
        // Release: a helper sees the new epoch, and that the count was set back. Pairs with the
        // Acquire in `walk_next_bucket`.
        self.walk_next.fetch_max(walk << WALK_SHIFT, Release.at("walk/start"));
    }

    fn is_done(&self) -> bool {
        // Acquire: the changer that goes on comes after the helpers' swaps. Pairs with the Release
        // in `walk_next_bucket`.
        buckets_of(self.walk_done.load(Acquire.at("walk/is_done"))) >= self.buckets.len() as u64
    }
}

impl Table {
    /// Walks one bucket if a walk is under way.
    pub(super) fn help_walk(&self) {
        if self.is_walking() {
            self.walk_next_bucket();
        }
    }

    /// Whether a walk is under way that needs help.
    #[inline]
    pub(super) fn is_walking(&self) -> bool {
        // Relaxed: a stale value only costs a visit, or leaves the bucket to another.
        buckets_of(self.walk_next.load(Relaxed.at("walk/under_way"))) < self.buckets.len() as u64
    }

    #[cold]
    fn walk_next_bucket(&self) {
        // Acquire: the bucket is walked in the epoch of this walk, or in a later one. Pairs with
        // the Release in `start`.
        let next = self.walk_next.fetch_add(1, Acquire.at("walk/next"));
        let Some(bucket) = self.buckets.get(buckets_of(next) as usize) else { return };
        walk_bucket(bucket, &self.policy);
        // Relaxed: the swap decides.
        let mut done = self.walk_done.load(Relaxed.at("walk/done"));
        // A walk that has been overtaken by the next one no longer counts.
        while walk_of(done) == walk_of(next) || mutant("walk: late helper counts") {
            // Release: pairs with the Acquire in `is_done`. The failure is Relaxed, as above.
            let counted =
                self.walk_done.compare_exchange(done, done + 1, Release.at("walk/count"), Relaxed);
            match counted {
                Ok(_) => break,
                Err(now) => done = now,
            }
        }
    }
}

/// Brings every key of a bucket into the current epoch.
fn walk_bucket(bucket: &Bucket, policy: &Policy) {
    // Before the cells are read: an insert that began under the old terms can no longer commit.
    if !mutant("walk: same version") {
        bucket.begin_walk();
    }
    step("walk begun");
    for (index, cell) in bucket.cells.iter().enumerate() {
        while !settle(bucket, index, cell, policy) {}
    }
}

/// Brings one cell into the current epoch; false if another thread moved its word meanwhile, which
/// only a call that was under way at the change can do.
fn settle(bucket: &Bucket, index: usize, cell: &Cell, policy: &Policy) -> bool {
    let was_valid = mutant("walk: valid bit before word") && bucket.is_committed(index);
    // Acquire: as in `find`.
    let word = cell.word.load(Acquire.at("settle/word"));
    if word.is_live() {
        return cell::translate(&cell.word, policy);
    }
    // After the word, as in `find`: the valid bit of a cell's earlier life says nothing of this
    // one, which may yet be given up.
    let is_committed = was_valid || bucket.is_committed(index);
    if !word.may_hold_key() || !is_committed || mutant("walk: tentative left") {
        return true;
    }
    // Committed, perhaps by a thread that stopped before the change with a first charge in old
    // units on its way: make the key live as one not seen, so that the charge fails.
    let terms = policy.load();
    let next = word.at(terms.forgotten_at(bucket.floor()), terms.epoch());
    cell::replace(&cell.word, word, next)
}
