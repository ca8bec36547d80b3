//! The walk: no word of the epoch before is left when the next one may come.
//!
//! A change of quota walks the table itself. A renewal of the range, which a decision comes upon
//! once in years, leaves the walk to the inserts that follow, one bucket each; what they leave is
//! walked by the next changer. Walking a bucket twice does no harm.

use crate::cell;
use crate::policy::{Policy, Walk};
use crate::sync::Ordering;
use crate::table::Table;
use crate::table::bucket::{Bucket, Cell};

impl Walk for Table {
    fn walk(&self, policy: &Policy) {
        for bucket in self.buckets.iter() {
            walk_bucket(bucket, policy);
        }
    }

    fn start(&self) {
        // Relaxed, both: helpers may come late or twice; that the walk is over is told by the
        // count of finished buckets below.
        self.walk_done.store(0, Ordering::Relaxed);
        self.walk_next.store(0, Ordering::Relaxed);
    }

    fn is_done(&self) -> bool {
        // Acquire: the changer that goes on must come after the helpers' swaps. Pairs with the
        // Release in `help_walk`.
        self.walk_done.load(Ordering::Acquire) >= self.buckets.len() as u64
    }
}

impl Table {
    /// Walks one bucket if a walk is under way.
    #[inline]
    pub(super) fn help_walk(&self) {
        // Relaxed: a stale value only costs a visit, or leaves the bucket to another.
        if self.walk_next.load(Ordering::Relaxed) < self.buckets.len() as u64 {
            self.walk_next_bucket();
        }
    }

    #[cold]
    fn walk_next_bucket(&self) {
        // Relaxed: hands out the buckets, each once.
        let next = self.walk_next.fetch_add(1, Ordering::Relaxed);
        if let Some(bucket) = self.buckets.get(next as usize) {
            walk_bucket(bucket, &self.policy);
            // Release: pairs with the Acquire in `is_done`.
            self.walk_done.fetch_add(1, Ordering::Release);
        }
    }
}

/// Brings every key of a bucket into the current epoch.
fn walk_bucket(bucket: &Bucket, policy: &Policy) {
    // Before the cells are read: an insert that began under the old terms can no longer commit.
    let control = bucket.begin_walk();
    for (index, cell) in bucket.cells.iter().enumerate() {
        while !settle(bucket, cell, control.is_valid(index), policy) {}
    }
}

/// Brings one cell into the current epoch; false if another thread moved its word meanwhile, which
/// only a call that was under way at the change can do.
fn settle(bucket: &Bucket, cell: &Cell, is_valid: bool, policy: &Policy) -> bool {
    // Acquire: as in `find`.
    let word = cell.word.load(Ordering::Acquire);
    if word.is_live() {
        return cell::translate(&cell.word, policy);
    }
    if !word.may_hold_key() || !is_valid {
        return true;
    }
    // Committed by a thread that has stopped since, with a first charge in old units on its way:
    // make the key live as one not seen, so that the charge fails.
    let terms = policy.load();
    cell::replace(&cell.word, word, terms.forgotten_at(bucket.floor()), &terms)
}
