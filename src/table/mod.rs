//! The table: buckets of cells, fixed at build.
//!
//! A key has a bucket, and in it a home line, where it is looked for first and put first. There is
//! no probing beyond the bucket, no resize and no sweep. A *shard* is as many buckets as fill one
//! huge page: the unit in which memory is asked for and the table is counted.
//!
//! * `bucket.rs`: the layout and the control word;
//! * `decide.rs`: what a decision does nearly always;
//! * `find.rs`: what it does otherwise when the key is there;
//! * `scan.rs`, `insert.rs`: what it does when the key is not;
//! * `ring.rs`: the stamps of a sliding log, beside the cells;
//! * `walk.rs`: the change of epoch.

mod bucket;
mod decide;
mod find;
mod insert;
mod ring;
mod scan;
mod walk;

pub(crate) use bucket::{Bucket, CELLS};
use bucket::{CELLS_WITH_HEADER, Cell, LINES, SLOTS_PER_LINE};
pub(crate) use ring::{Ring, Rings};

use crate::algorithm::Layout;
use crate::builder::Overflow;
use crate::cell::Books;
use crate::hash::Hashed;
use crate::memory::{BuildMemoryError, Run};
use crate::policy::Policy;
use crate::probe::{Site, mutant};
use crate::reach::Reach;
use crate::settle::Permits;
use crate::stats::Counts;
use crate::sync::{Acquire, Atomic, IS_MODEL, Relaxed};
use crate::word::Word;

/// Keys of capacity per bucket of 31 cells.
///
/// The keys of a bucket are spread as a Poisson variable, so with 12 on average the expected
/// number beyond 31 is 2.2e-6 a bucket: two keys in ten million find their bucket full
/// (`tests::keys_that_do_not_fit`). A bucket is 512 bytes, so this is 42.7 bytes a key, which
/// leaves room below the 48 that are promised for what a limiter has once.
pub(crate) const KEYS_PER_BUCKET: usize = if IS_MODEL { CELLS } else { 12 };

/// Buckets that are looked at to count keys: 8 MiB.
const SAMPLE: usize = 4 * BUCKETS_PER_SHARD;

/// Buckets of a shard: 2 MiB, a huge page.
const BUCKETS_PER_SHARD: usize = 4096;

/// Bytes of a shard.
#[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
pub(crate) const SHARD_BYTES: usize = BUCKETS_PER_SHARD * size_of::<Bucket>();

#[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
const _: () = assert!(SHARD_BYTES == 2 << 20);

/// All the cells of a limiter, and what is needed to decide on them.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: Run<Bucket>,
    rings: Rings,
    /// Of a table that is built for permits.
    pub(crate) books: Option<Books>,
    pub(crate) policy: Policy,
    pub(crate) counts: Counts,
    overflow: Overflow,
    /// The next bucket that an unfinished walk has to visit; see `walk.rs`.
    walk_next: Atomic<u64>,
    /// The buckets it has visited.
    walk_done: Atomic<u64>,
}

/// Cells that are looked at first.
const HOME_CELLS: usize = if CELLS < SLOTS_PER_LINE { CELLS } else { SLOTS_PER_LINE };

/// Where a key lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) bucket: &'a Bucket,
    /// Which bucket of the table it is.
    pub(crate) index: usize,
    pub(crate) home: usize,
    pub(crate) tag: u64,
}

/// Where a key lives, by itself: what finds its [`Place`] again in the same table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    index: usize,
    home: usize,
    tag: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn token(&self) -> Token {
        let Place { index, home, tag, .. } = *self;
        Token { index, home, tag }
    }

    /// Something on the key's home line, to be fetched ahead.
    #[inline]
    pub(crate) fn home_line(&self) -> &'a Cell {
        &self.bucket.cells[self.first()]
    }

    /// A bit for each cell of the key's home line.
    pub(crate) fn home_bits(&self) -> u64 {
        let count = if self.home == 0 { CELLS_WITH_HEADER } else { HOME_CELLS };
        ((1 << count) - 1) << self.first()
    }

    /// The first cell of the key's home line. Slot `home * 4` is the cell before, as the header is
    /// slot 0; where the header is in the line, the first cell is cell 0.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        (self.home * SLOTS_PER_LINE).saturating_sub(1)
    }

    /// The cell of the key's home line that holds the key, its number and its word; `None` if a closer look is
    /// needed. Terms must have been loaded before.
    ///
    /// All tags of the line are compared, without a branch: in which cell a key lies cannot be
    /// foreseen. Measured: a third less time for a decision (DESIGN.md).
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    pub(crate) fn glance(&self) -> Option<(usize, &'a Cell, Word)> {
        let hits = self.hinted(self.tag);
        if hits == 0 {
            return None;
        }
        // The loads are those of `find`, in its order, for its reasons: Acquire the word and the tag
        // after it.
        let at = hits.trailing_zeros() as usize % HOME_CELLS;
        let cell = &self.home_cells()?[at];
        let word = cell.word.load(Acquire.at("attempt/word"));
        let is_key = mutant("decide: tag before word")
            || cell.tag.load(Acquire.at("attempt/tag")) == self.tag;
        is_key.then_some((self.first() + at, cell, word))
    }

    /// Whether a cell of the key's home line has its tag.
    pub(crate) fn is_hinted(&self) -> bool {
        self.hinted(self.tag) > 0
    }

    /// Whether a cell of the key's home line seems to be as the table was built.
    pub(crate) fn has_new_cell(&self) -> bool {
        self.hinted(0) > 0
    }

    /// A bit for each cell of the home line that seems to have this tag.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    fn hinted(&self, tag: u64) -> u32 {
        // Relaxed: a hint, as in `find`.
        self.hits(tag, |tag| tag.load(Relaxed.at("attempt/hint")))
    }

    /// A bit for each cell of the home line that has this tag.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    fn hits(&self, tag: u64, load: impl Fn(&Atomic<u64>) -> u64) -> u32 {
        let Some(cells) = self.home_cells() else { return 0 };
        // The header's line has a cell less: its last is looked at twice.
        let last = HOME_CELLS - 1 - usize::from(self.home == 0 && HOME_CELLS > CELLS_WITH_HEADER);
        (0..HOME_CELLS).fold(0, |hits, index| {
            hits | u32::from(load(&cells[index.min(last)].tag) == tag) << index
        })
    }

    /// As many cells as a line has, from the first of the home line on.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `Table::decide`")]
    fn home_cells(&self) -> Option<&'a [Cell; HOME_CELLS]> {
        // There always are as many; the bound is for the compiler.
        let cells = &self.bucket.cells;
        let first = self.first().min(CELLS - HOME_CELLS);
        cells[first..].first_chunk()
    }
}

/// One call on one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) place: Place<'a>,
    /// Tokens asked for, or given back.
    pub(crate) cost: u64,
    /// Nanoseconds of the limiter.
    pub(crate) now: u64,
    /// The layout of the quota that the call brings, if it brings one.
    pub(crate) layout: Option<Layout>,
    /// How far beyond the burst it may go.
    pub(crate) reach: Reach,
    /// Whether it is made for a permit.
    pub(crate) is_reserve: bool,
}

impl<'a> Call<'a> {
    /// A call under the limiter's own quota, within the burst.
    pub(crate) fn new(place: Place<'a>, cost: u64, now: u64) -> Call<'a> {
        Call { place, cost, now, layout: None, reach: Reach::Burst, is_reserve: false }
    }
}

impl Table {
    pub(crate) fn new(
        capacity: usize,
        lazy: bool,
        policy: Policy,
        overflow: Overflow,
        permits: Option<Permits>,
    ) -> Result<Table, BuildMemoryError> {
        let buckets = Run::<Bucket>::new(capacity.div_ceil(KEYS_PER_BUCKET), lazy)?;
        let cells = buckets.len() * CELLS;
        let rings = Rings::new(cells, policy.load().layout.shape.ring, lazy)?;
        let books = permits.map(|permits| Books::new(cells, permits, lazy)).transpose()?;
        let end = buckets.len() as u64;
        Ok(Table {
            buckets,
            rings,
            books,
            policy,
            counts: Counts::new(),
            overflow,
            walk_next: Atomic::new(end),
            walk_done: Atomic::new(end),
        })
    }

    /// The place of a key. What the choice of the bucket leaves of its second hash is as good as
    /// fresh bits, and its top three name the home line.
    #[inline]
    pub(crate) fn place(&self, hashed: Hashed) -> Place<'_> {
        let (bucket, index, rest) = self.buckets.pick(hashed.place);
        // In models all keys are at home in the first line.
        let homes = if IS_MODEL { 1 } else { LINES };
        let home = ((u128::from(rest) * homes as u128) >> 64) as usize;
        Place { bucket, index, home, tag: hashed.tag }
    }

    /// The place of a token of this table.
    pub(crate) fn at(&self, token: Token) -> Option<Place<'_>> {
        let Token { index, home, tag } = token;
        let [bucket] = self.buckets.get(index..=index)? else { return None };
        Some(Place { bucket, index, home, tag })
    }

    /// Live keys, extrapolated from up to `SAMPLE` buckets that lie evenly over the table.
    pub(crate) fn len(&self, now: u64) -> usize {
        let (terms, reading) = self.policy.read(now, None, self);
        let is_live = |word: Word| {
            word.is_live()
                && (word.epoch() != terms.epoch() || !terms.is_idle(word.time(), &reading))
        };
        let stride = self.buckets.len().div_ceil(SAMPLE);
        let sample = self.buckets.iter().step_by(stride);
        let (buckets, live) = sample
            .map(|bucket| bucket.count(is_live))
            .fold((0, 0), |(buckets, live), count| (buckets + 1, live + count));
        (live as u128 * self.buckets.len() as u128 / buckets.max(1) as u128) as usize
    }

    /// Bytes of the table.
    pub(crate) fn memory(&self) -> usize {
        let books = self.books.as_ref().map_or(0, Books::bytes);
        let parts = self.buckets.bytes() + self.rings.bytes() + books + self.counts.bytes();
        size_of::<Table>() + parts + Policy::BYTES_APART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure at `KEYS_PER_BUCKET`, computed.
    #[test]
    fn keys_that_do_not_fit() {
        let mean = KEYS_PER_BUCKET as f64;
        let mut probability = (-mean).exp();
        let mut beyond = 0.0;
        for keys in 1..200_u32 {
            probability *= mean / f64::from(keys);
            beyond += probability * (f64::from(keys) - CELLS as f64).max(0.0);
        }
        let in_ten_million = beyond / mean * 1e7;
        assert!((1.0..3.0).contains(&in_ten_million), "{in_ten_million}");
    }
}
