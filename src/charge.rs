//! A charge that may be taken back: what it left behind, and when it was made.

use crate::word::Word;

/// How far beyond its burst a charge may take a key of a bucket algorithm; others never go beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Burst,
    /// By what is earned in so many nanoseconds: a call that waits so long for its turn at the most.
    Nanos(u64),
    /// By a debt of so many tokens, which the answer counts as tokens that are there.
    Debt(u64),
    /// As far as a word can tell: a penalty is not asked for.
    Penalty,
    /// So far that the key is refused until this moment, in nanoseconds of the limiter.
    Ban(u64),
}

/// What a call has charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// Which cell of its bucket; 0 where there is only one.
    pub(crate) index: usize,
    /// The word that the charge left.
    pub(crate) word: Word,
    /// The clock at the charge, in units of the word's epoch.
    pub(crate) position: u64,
    /// Tokens.
    pub(crate) cost: u64,
    /// Which publication of the quota it was made under.
    pub(crate) sequence: u64,
}

impl Charge {
    /// Whether `word` is of the life that was charged. An eviction, a reset
    /// and a translation to other units each begin another.
    pub(crate) fn is_in(&self, word: Word) -> bool {
        word.is_live()
            && word.generation() == self.word.generation()
            && word.epoch() == self.word.epoch()
    }
}
