//! The cell: one key's word, and the swaps on it.
//!
//! Everything here is about one word. Who the word belongs to is the bucket's concern.
//!
//! * `charge.rs`: what a charge has left behind;
//! * `lower.rs`: what takes from a word again;
//! * `book.rs`: what has been taken from it, for permits.

mod book;
mod charge;
mod lower;

pub(crate) use book::{Book, Books};
pub(crate) use charge::Charge;
pub(crate) use lower::{Origin, give_up, settle, take_back};

use crate::algorithm::rule::Rule;
use crate::algorithm::sliding_log::{self, Ask, Judged};
use crate::algorithm::{Algorithm, Answer};
use crate::decision::{Decision, Outcome, Verdict};
use crate::joint::Spare;
use crate::policy::Policy;
use crate::probe::{Site, mutant, step};
use crate::stats::Own;
use crate::sync::{Acquire, Atomic, Relaxed, Release};
use crate::table::Ring;
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// How an attempt on a word ended.
pub(crate) enum Attempt {
    /// The charge is in the word, which holds this time now.
    Charged(u64),
    /// The quota refuses; the word was not written.
    Refused,
    /// Another thread moved the word meanwhile.
    Moved,
}

/// The one attempt of a decision on the `word` that was loaded with Acquire, under terms that were in
/// force since: charged or refused, and counted, with the key's time after it; or `None` if another
/// thread moved the word. Nothing takes the terms' address, so that they stay in registers.
#[inline(always)]
#[allow(clippy::inline_always, reason = "measured: the terms go through memory otherwise")]
pub(crate) fn attempt<R: Rule>(
    cell: &Atomic<Word>,
    word: Word,
    cost: u64,
    (terms, reading): (Terms, Reading),
    own: Own<'_>,
) -> Option<(Outcome, u64)> {
    let after = R::charge(&terms, word.time(), &reading, cost);
    let (outcome, time) = match charge(cell, word, after, terms.epoch()) {
        Attempt::Charged(time) => (Outcome::Admitted, time),
        Attempt::Refused => (Outcome::Refused, word.time()),
        Attempt::Moved => return None,
    };
    own.decided(outcome);
    Some((outcome, time))
}

/// Puts a charge into the `word` that was loaded with Acquire: the algorithm's `after`, in units of
/// `epoch`, or its refusal.
#[inline]
pub(crate) fn charge(cell: &Atomic<Word>, word: Word, after: Option<u64>, epoch: u64) -> Attempt {
    match after {
        Some(after) => {
            let next = word.at(after, epoch);
            step("swap");
            // Relaxed: only mutants look before they swap, and store.
            let is_same = || cell.load(Relaxed.at("charge/test")) == word;
            if mutant("charge: stored") || mutant("charge: test then store") && is_same() {
                // Relaxed: as above.
                cell.store(next, Relaxed.at("charge/store"));
                return Attempt::Charged(after);
            }
            // Release: a helper's first charge carries the epoch out of a tentative word, and a
            // reader of this word must then see that epoch's terms. Pairs with the Acquire load
            // of the word. The failure is Relaxed: the word is loaded anew.
            match cell.compare_exchange(word, next, Release.at("cell/charge"), Relaxed) {
                Ok(_) => Attempt::Charged(after),
                Err(_) => Attempt::Moved,
            }
        }
        // The tag was read after the word. If the word is still the same, both belonged to one
        // life and the refusal is this key's. Relaxed: coherence alone decides it.
        None if cell.load(Relaxed.at("cell/refusal")) == word
            || mutant("refusal: no second look") =>
        {
            Attempt::Refused
        }
        None => Attempt::Moved,
    }
}

/// As [`charge`], for a key with a log, whose answer must be made while its ring is at hand. The
/// word was loaded with Acquire before. Unless it charges, it only says what a call would be told.
pub(crate) fn decide_log(
    cell: &Atomic<Word>,
    ring: Ring<'_>,
    word: Word,
    time: u64,
    (terms, reading): (&Terms, &Reading),
    ask: Ask,
) -> Option<Verdict> {
    if reading.is_past_end {
        let (algorithm, answer) = (terms.algorithm, Answer::try_again());
        return Some(Verdict { outcome: Outcome::Refused, algorithm, answer });
    }
    let Judged { after, answer } = sliding_log::judge(terms, &ring, time, reading, ask);
    let verdict =
        |outcome| Verdict { outcome, algorithm: terms.algorithm, answer: Answer::Log(answer) };
    let Some(after) = after.filter(|_| ask.charges) else {
        let outcome = if after.is_some() { Outcome::Admitted } else { Outcome::Refused };
        // Relaxed: as in `charge`; the ring was read after the word, too.
        let is_same = cell.load(Relaxed.at("cell/log_answer")) == word;
        return (is_same || mutant("log refusal: no second look")).then_some(verdict(outcome));
    };
    // The stamps of the commit before must be there before the head moves on from it.
    if !mutant("log: no stamp is filled in") {
        ring.fill(terms, time);
    }
    let next = word.at(after, terms.epoch());
    // Release: as in `charge`; and the stamps that were written come with the head that needs
    // them.
    let swap = cell.compare_exchange(word, next, Release.at("cell/log_charge"), Relaxed);
    swap.is_ok().then_some(verdict(Outcome::Admitted))
}

/// Replaces a live word; false if another thread moved it meanwhile.
pub(crate) fn replace(cell: &Atomic<Word>, word: Word, next: Word) -> bool {
    // Release: as in `charge`.
    cell.compare_exchange(word, next, Release.at("cell/replace"), Relaxed).is_ok()
}

/// The word of a key that is made as one not seen: of another life, from which no charge of this one is
/// taken back.
pub(crate) fn cleared(word: Word, terms: &Terms) -> Word {
    let time = terms.cleared(word.time());
    if mutant("reset: same generation") {
        return word.at(time, terms.epoch());
    }
    word.next_life(time, terms.epoch())
}

/// A decision that admits, and waits for its swap.
#[derive(Clone, Copy)]
pub(crate) struct Prepared<'a> {
    cell: &'a Atomic<Word>,
    index: usize,
    word: Word,
    /// The word after the charge.
    next: Word,
    /// The clock, in units.
    position: u64,
    /// Which publication of the quota it is made under.
    sequence: u64,
    /// What is kept of the key before the charge.
    answer: Answer,
}

impl<'a> Prepared<'a> {
    /// For the `word` that was loaded with Acquire under terms that were in force since; `None` if the
    /// call is refused.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `attempt`")]
    pub(crate) fn new<R: Rule>(
        (index, cell): (usize, &'a Atomic<Word>),
        word: Word,
        cost: u64,
        (terms, reading): (Terms, Reading),
    ) -> Option<Prepared<'a>> {
        let after = R::charge(&terms, word.time(), &reading, cost)?;
        let next = word.at(after, terms.epoch());
        let answer = R::answer(&terms, word.time(), &reading);
        let (position, sequence) = (reading.position, terms.sequence);
        Some(Prepared { cell, index, word, next, position, sequence, answer })
    }

    /// Makes the charge; false if another thread moved the word meanwhile.
    #[inline]
    pub(crate) fn charge(&self) -> bool {
        let (after, epoch) = (Some(self.next.time()), self.next.epoch());
        matches!(charge(self.cell, self.word, after, epoch), Attempt::Charged(_))
    }

    /// The charge, if it was made.
    pub(crate) fn charged(&self, cost: u64) -> Charge {
        let Prepared { index, next: word, position, sequence, .. } = *self;
        Charge { index, word, position, cost, sequence, given_back: 0 }
    }

    /// What can be spent after a charge of so much.
    #[inline]
    pub(crate) fn spare(&self, cost: u64) -> Spare {
        self.answer.spare_after(cost)
    }

    #[inline]
    pub(crate) fn decision(
        &self,
        algorithm: Algorithm,
        cost: u64,
        tick: u32,
        is_charged: bool,
    ) -> Decision {
        let answer = self.answer.after(if is_charged { cost } else { 0 });
        let outcome = Outcome::Admitted;
        if is_charged {
            return Decision::new(outcome, algorithm, answer, cost, tick);
        }
        Verdict { outcome, algorithm, answer }.foreseen(cost, tick)
    }
}

/// Brings a live word of the epoch before into the current one. Anyone may, and whoever meets
/// such a word must, before it decides. False if another thread moved the word meanwhile.
#[cold]
pub(crate) fn translate(cell: &Atomic<Word>, policy: &Policy) -> bool {
    // Acquire: the terms below must be at least as new as the word. Pairs with the Release of
    // the swap that wrote it.
    let word = cell.load(Acquire.at("cell/translated_word"));
    // After the word: its epoch is then this one or the one before, so one bit tells which.
    let (terms, translation) = policy.load_with_translation();
    if !word.is_live() || word.epoch() == terms.epoch() {
        return true;
    }
    let time = terms.translate(&translation, word.time());
    // A generation of its own, or a charge that was prepared two epochs ago could still succeed.
    let next = if mutant("translation: same generation") {
        word.at(time, terms.epoch())
    } else {
        word.next_life(time, terms.epoch())
    };
    // Release: who meets the translated word must see the terms of its epoch. Pairs with the
    // Acquire load of the word.
    cell.compare_exchange(word, next, Release.at("cell/translate"), Relaxed).is_ok()
}
