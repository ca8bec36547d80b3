//! The word: all that a limiter knows about a key, in 64 bits that are swapped as one.
//!
//! ```text
//!   63                                  5 4          1   0
//!  +-------------------------------------+------------+-------+
//!  | time:59                             | generation | epoch |
//!  +-------------------------------------+------------+-------+
//! ```
//!
//! * `time` is what the algorithm makes of it: a virtual time, or a window index above a count.
//!   It sits in the high bits, so that one unsigned compare tells a live word from the others,
//!   and so that arithmetic on it can never reach the generation.
//! * `generation` is bumped each time the cell is taken for another key and each time the word is
//!   translated to another epoch or the key is reset. It makes a swap fail that was prepared for an earlier life.
//! * `epoch` is the parity of the quota change in whose units `time` is counted.
//!
//! The low codes of `time` name the states of a cell without a live key. Memory that is all zero
//! is a table of free cells.
//!
//! | code | `time` | meaning |
//! |---|---|---|
//! | free | 0 | no key; may be taken |
//! | busy | 1 | taken; only the thread that took it may write the cell |
//! | tentative | 2^23 + low bits of the bucket's version | tag written, insert not yet committed, or committed and not yet charged |
//! | live | from 2^24 | a committed key |
//!
//! A tentative word has no time, so it would recur every 16 lives of a cell; the bucket's version
//! in its low bits (23 of them) makes it recur eight million times more rarely.

use crate::probe::mutant;

/// Bits of the generation: 16 lives must pass during one stall before a word can recur, and then
/// `time` must be equal to the nanosecond as well. Loom's models use two, to see what a wrap would do;
/// random schedules have so many changes at one instant that they would see little else.
pub(crate) const GENERATION_BITS: u32 = if cfg!(tollgate_loom) { 2 } else { 4 };

/// Where `time` starts: above the epoch bit and the generation.
const TIME_SHIFT: u32 = GENERATION_BITS + 1;

/// Bits of `time`.
pub(crate) const TIME_BITS: u32 = u64::BITS - TIME_SHIFT;

const EPOCH_MASK: u64 = 1;
const GENERATION_MASK: u64 = ((1 << GENERATION_BITS) - 1) << 1;

/// The first `time` of a live word. Every clock starts here, so no live time is ever below.
pub(crate) const LIVE_FROM: u64 = 1 << 24;

const FREE: u64 = 0;
const BUSY: u64 = 1;
const TENTATIVE_FROM: u64 = 1 << 23;

const _: () = assert!(TENTATIVE_FROM * 2 == LIVE_FROM, "tentative codes must end below live ones");
const _: () = assert!(TIME_BITS >= 59, "the ranges that a quota states are computed for 59 bits");

/// One cell's state. See the module for the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Word(u64);

impl Word {
    /// A live word.
    #[inline]
    pub(crate) fn live(time: u64, generation: u64, epoch: u64) -> Word {
        debug_assert!(time >= LIVE_FROM && time >> TIME_BITS == 0);
        Word(time << TIME_SHIFT | generation << 1 & GENERATION_MASK | epoch & EPOCH_MASK)
    }

    /// The word of a cell that is being taken from the life `self`.
    pub(crate) fn busy(self) -> Word {
        let bump = u64::from(!mutant("take: same generation"));
        Word(BUSY << TIME_SHIFT | (self.generation() + bump) << 1 & GENERATION_MASK)
    }

    /// The word of a taken cell whose tag is written; `version` is that of the bucket's control
    /// word before the scan.
    pub(crate) fn tentative(self, version: u64) -> Word {
        let time = TENTATIVE_FROM | version & (TENTATIVE_FROM - 1);
        Word(time << TIME_SHIFT | self.0 & GENERATION_MASK)
    }

    /// The word of a cell that its owner gives up.
    pub(crate) fn free(self) -> Word {
        Word(FREE << TIME_SHIFT | self.0 & GENERATION_MASK)
    }

    /// The word of zeroed memory: a free cell.
    pub(crate) const fn zero() -> Word {
        Word(0)
    }

    /// The same life with another time, in units of `epoch`.
    #[inline]
    pub(crate) fn at(self, time: u64, epoch: u64) -> Word {
        Word::live(time, self.generation(), epoch)
    }

    /// The same key in a life of its own, which no swap that was prepared in this one reaches.
    pub(crate) fn next_life(self, time: u64, epoch: u64) -> Word {
        Word::live(time, self.generation() + 1, epoch)
    }

    /// Whether this is the word of a committed key.
    #[inline]
    pub(crate) fn is_live(self) -> bool {
        self.0 >= LIVE_FROM << TIME_SHIFT
    }

    /// Whether the cell may hold a key: live, or tentative (then the valid bit decides).
    #[inline]
    pub(crate) fn may_hold_key(self) -> bool {
        self.0 >= TENTATIVE_FROM << TIME_SHIFT
    }

    /// Whether the cell may be taken without asking whose it is.
    pub(crate) fn is_free(self) -> bool {
        self.0 >> TIME_SHIFT == FREE
    }

    #[inline]
    pub(crate) fn time(self) -> u64 {
        self.0 >> TIME_SHIFT
    }

    #[inline]
    pub(crate) fn generation(self) -> u64 {
        (self.0 & GENERATION_MASK) >> 1
    }

    #[inline]
    pub(crate) fn epoch(self) -> u64 {
        self.0 & EPOCH_MASK
    }
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
impl crate::sync::Bits for Word {
    fn from_bits(bits: u64) -> Word {
        Word(bits)
    }
    fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_apart_and_fields_do_not_touch() {
        let live = Word::live((1 << TIME_BITS) - 1, 15, 1);
        assert!(live.is_live() && live.may_hold_key() && !live.is_free());
        assert_eq!((live.time(), live.generation(), live.epoch()), ((1 << TIME_BITS) - 1, 15, 1));

        let busy = live.busy();
        assert!(!busy.is_live() && !busy.may_hold_key() && !busy.is_free());
        assert_eq!((busy.generation(), busy.epoch()), (0, 0), "the generation wraps in its field");

        let tentative = busy.tentative(u64::MAX);
        assert!(!tentative.is_live() && tentative.may_hold_key());
        assert_eq!(tentative.time(), LIVE_FROM - 1, "the highest code stays below live words");

        assert!(tentative.free().is_free());
        assert_eq!(tentative.at(LIVE_FROM, 1), Word::live(LIVE_FROM, 0, 1));
    }
}
