//! The bucket: 31 cells and a header in eight cache lines.
//!
//! ```text
//!   line 0: | control | floor | cell 0 | cell 1 | cell 2 |
//!   line 1: | cell 3  | cell 4  | cell 5  | cell 6  |          cell: | tag | word |
//!    ...
//!   line 7: | cell 27 | cell 28 | cell 29 | cell 30 |
//! ```
//!
//! An insert commits on the bucket, not on the cell: `control` is swapped from the value that was
//! read before the bucket was scanned, so that of two inserts of one key only one can have seen
//! the bucket without it.
//!
//! ```text
//!   control:  63          31 30        0
//!            +--------------+-----------+
//!            | version:33   | valid:31  |
//!            +--------------+-----------+
//! ```
//!
//! `version` rises with every commit and every walk, `valid` has a bit per cell that holds a
//! committed key. Bits fall one by one, never together with the version, so no value of the
//! control word comes back for 2^33 commits.
//!
//! `floor` is the latest time (nanoseconds of the limiter) at which a cell of this bucket was
//! taken from a key. A key that is not in the bucket starts from the later of it and now, so that
//! a key that was forgotten by a fast clock gains nothing from a slow one.

use crate::memory::prefetch;
use crate::probe::{Site, mutant};
use crate::sync::{AcqRel, Acquire, Atomic, IS_MODEL, Relaxed, Release};
use crate::word::Word;

/// Cells of a bucket. With the header they fill eight lines; models use two.
pub(crate) const CELLS: usize = if IS_MODEL { 2 } else { 31 };

/// Cells and header.
const SLOTS: usize = CELLS + 1;

/// Slots of a cache line. In models both cells are in one line, or, where what happens beyond the home
/// line is modelled, the second is in a line of its own.
pub(crate) const SLOTS_PER_LINE: usize = if cfg!(tollgate_loom_homes) { 2 } else { 4 };

/// Cells of the header's line.
pub(crate) const CELLS_WITH_HEADER: usize =
    if CELLS < SLOTS_PER_LINE { CELLS } else { SLOTS_PER_LINE - 1 };

/// Lines of a bucket.
pub(crate) const LINES: usize = SLOTS.div_ceil(SLOTS_PER_LINE);

const VERSION_SHIFT: u32 = 31;
const VERSION_ONE: u64 = 1 << VERSION_SHIFT;
const ALL_CELLS: u64 = (1 << CELLS) - 1;

const _: () = assert!(CELLS <= VERSION_SHIFT as usize, "a valid bit for each cell");
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
const _: () = {
    assert!(size_of::<Cell>() == 16);
    assert!(size_of::<Bucket>() == 512 && align_of::<Bucket>() == 64);
    assert!(LINES == 8, "the home line is three bits of the hash");
};

/// One key's cell.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cell {
    /// The key's tag: a 64-bit hash. Written only by the owner of a busy cell.
    pub(crate) tag: Atomic<u64>,
    /// The key's state.
    pub(crate) word: Atomic<Word>,
}

/// See the module for the picture.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    control: Atomic<u64>,
    floor: Atomic<u64>,
    pub(crate) cells: [Cell; CELLS],
}

/// A value of the control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control(u64);

impl Control {
    pub(crate) fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    pub(crate) fn is_valid(self, cell: usize) -> bool {
        self.valid() >> cell & 1 == 1
    }

    /// A bit for each cell that holds a committed key.
    pub(crate) fn valid(self) -> u64 {
        self.0 & ALL_CELLS
    }

    /// A bit for each cell that does not.
    pub(crate) fn vacant(self) -> u64 {
        !self.0 & ALL_CELLS
    }

    pub(crate) fn without(self, cell: usize) -> Control {
        Control(self.0 & !(1 << cell))
    }

    fn committed(self, cell: usize) -> Control {
        let one = if mutant("commit: same version") { 0 } else { VERSION_ONE };
        Control((self.0 | 1 << cell).wrapping_add(one))
    }
}

impl Bucket {
    /// The bucket of zeroed memory, for models and for tables that are too small for pages of
    /// their own.
    pub(crate) fn new() -> Bucket {
        let zero = || Cell { tag: Atomic::new(0), word: Atomic::new(Word::zero()) };
        Bucket {
            control: Atomic::new(0),
            floor: Atomic::new(0),
            cells: [(); CELLS].map(|()| zero()),
        }
    }

    /// All cells, each with its number: from `first` on, then those before.
    #[inline]
    pub(crate) fn cells_from(&self, first: usize) -> impl Iterator<Item = (usize, &Cell)> {
        self.cells_of(ALL_CELLS, first)
    }

    /// The cells whose bits are set, in the order of [`cells_from`](Bucket::cells_from).
    #[inline]
    pub(crate) fn cells_of(&self, bits: u64, first: usize) -> impl Iterator<Item = (usize, &Cell)> {
        let ahead = bits >> first << first;
        let (mut now, mut later) = (ahead, bits ^ ahead);
        core::iter::from_fn(move || {
            if now == 0 {
                (now, later) = (later, 0);
            }
            let index = now.trailing_zeros() as usize;
            now &= now.wrapping_sub(1);
            Some((index, self.cells.get(index)?))
        })
    }

    /// Asks for the header's line.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.control);
    }

    /// The control word as it is read before a scan, and after a failed commit.
    pub(crate) fn control(&self) -> Control {
        // Acquire: the scan must see every cell that was committed up to this version. Pairs with
        // the Release of `commit`.
        Control(self.control.load(Acquire.at("bucket/control")))
    }

    /// Whether a tentative cell holds a committed key. The word was loaded with Acquire.
    pub(crate) fn is_committed(&self, cell: usize) -> bool {
        // Acquire: the insert may have learned of a floor after it wrote the word, when its commit
        // failed at first, and who charges its cell must know it too. Pairs with the Release of
        // `commit`. (A bit of an earlier life is not seen: it falls before the word turns
        // tentative. A commit that is missed makes the caller's own commit fail.)
        Control(self.control.load(Acquire.at("bucket/committed"))).is_valid(cell)
            || mutant("tentative: taken for committed")
    }

    /// Clears the valid bit of a cell that was taken from a key; before its word turns tentative.
    pub(crate) fn clear(&self, cell: usize) {
        // Release: a scan that passes the cell over, as it is not valid, must see the floor by which its
        // key was forgotten. Pairs with the Acquire load in `control`.
        self.control.fetch_and(!(1 << cell), Release.at("bucket/clear"));
    }

    /// Makes the key of `cell` a member, if no insert was committed and no walk begun since
    /// `seen` was read; else says what the control word is now.
    pub(crate) fn commit(&self, seen: Control, cell: usize) -> Result<(), Control> {
        let seen = if mutant("commit: control read late") { self.control() } else { seen };
        let committed = seen.committed(cell);
        // Release: publishes the cell's tag and word to the scans that read this version. Pairs
        // with the Acquire load in `control`. A failure is followed by such a load.
        self.control
            .compare_exchange(seen.0, committed.0, Release.at("bucket/commit"), Relaxed)
            .map(drop)
            .map_err(|_| self.control())
    }

    /// Makes every commit fail that was begun before.
    pub(crate) fn begin_walk(&self) {
        // Acquire: the walk must see the cells committed so far; pairs with `commit`. Release: a
        // scan that reads this version must see the new epoch's terms; pairs with `control`.
        self.control.fetch_add(VERSION_ONE, AcqRel.at("bucket/walk"));
    }

    /// The time before which no key that is not here may be judged. Read after a scan.
    pub(crate) fn floor(&self) -> u64 {
        // Relaxed: a scan that misses a key has loaded, with Acquire, a word or a tag that was stored
        // after the key's cell was taken, and the floor was raised before that.
        self.floor.load(Relaxed.at("bucket/floor"))
    }

    /// Raises the floor to the time at which a key is about to be forgotten.
    pub(crate) fn raise_floor(&self, now: u64) {
        // Relaxed: the swap that takes the cell is a Release and brings it along.
        self.floor.fetch_max(now, Relaxed.at("bucket/raise_floor"));
    }

    /// How many cells hold a key that is not idle, as far as `is_live` can tell.
    pub(crate) fn count(&self, is_live: impl Fn(Word) -> bool) -> usize {
        // Relaxed: a count for people; each word is judged by itself.
        self.cells.iter().filter(|cell| is_live(cell.word.load(Relaxed.at("bucket/count")))).count()
    }
}
