//! What takes from a word again: a charge that is taken back, a permit that is settled, a place in a
//! line that is given up.
//!
//! Three situations, three rules, each a swap of the word:
//!
//! * a charge that is taken back in the same call, or a lease: the charge but for the time since, which
//!   is exact however many there are and needs no memory;
//! * a permit: what is left of its charge where it lies, which needs a [`Book`];
//! * a place in a line: all of it, if nobody stands behind, before its turn.

use crate::cell::{Book, Charge, replace};
use crate::policy::Policy;
use crate::probe::{Site, mutant, step};
use crate::sync::{Acquire, Atomic, Relaxed};
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// Where a charge was made, and by which clock it is judged when it is given back.
pub(crate) struct Origin<'a, K, C> {
    pub(crate) cell: &'a Atomic<Word>,
    /// Of a limiter that is built for permits.
    pub(crate) book: Option<Book<'a>>,
    pub(crate) policy: &'a Policy,
    /// Whether the cell is still the key's; asked after the word was loaded.
    pub(crate) is_key: K,
    /// Nanoseconds of the limiter.
    pub(crate) clock: C,
}

impl<K: Fn() -> bool, C: Fn() -> u64> Origin<'_, K, C> {
    /// The word and a moment not before it, if something may be taken from it: it is of the charge's
    /// life and units, and nothing stands in line.
    ///
    /// The clock is read after the word, at every attempt: by an earlier reading, what time has given
    /// back meanwhile would be given back twice.
    fn look(&self, charge: &Charge, early: Option<u64>) -> Option<(Word, Terms, Reading)> {
        let asked =
            mutant("take back: asked before the word").then(|| self.policy.may_owe_beyond());
        let known = mutant("take back: terms before the word").then(|| self.policy.load());
        // Acquire: the terms and the clock below must be at least as new as the word. Pairs with the
        // Release of the swap that wrote it.
        let word = self.cell.load(Acquire.at("lower/word"));
        let is_of_this_life = charge.is_in(word) && (self.is_key)();
        if !is_of_this_life && !mutant("take back: from another life") {
            return None;
        }
        step("take back: before the clock");
        let now = early.unwrap_or_else(&self.clock);
        let terms = known.unwrap_or_else(|| self.policy.load());
        let is_in_units = terms.epoch() == word.epoch() || mutant("take back: in other units");
        let reading = terms.read(now).filter(|_| is_in_units)?;
        let may_owe_beyond = asked.unwrap_or_else(|| self.policy.may_owe_beyond());
        let is_beyond = may_owe_beyond && terms.is_beyond(word.time(), &reading);
        (!is_beyond || mutant("take back: from a line")).then_some((word, terms, reading))
    }

    /// Lowers the word to the time that `rule` says, if it says one. It is given the key's time, a moment,
    /// and what others have begun to give back.
    fn lower(
        &self,
        charge: &Charge,
        rule: impl Fn(&Terms, u64, &Reading, u64) -> Option<u64>,
    ) -> Option<()> {
        let early = mutant("take back: clock before the word").then(&self.clock);
        let late = mutant("book: begun after the word");
        let (begun, most) = match self.book {
            Some(book) if !late => self.begin(book, charge, &rule, early)?,
            Some(book) => (book.begun(), u64::MAX),
            None => (0, u64::MAX),
        };
        let mut lowered = 0;
        while let Some((word, terms, reading)) = self.look(charge, early) {
            let time = if mutant("permit: no second look") {
                Some(reading.position)
            } else {
                rule(&terms, word.time(), &reading, begun)
            };
            let Some(time) = time else { break };
            lowered = word.time().saturating_sub(time).min(most);
            let next = word.at(word.time() - lowered, terms.epoch());
            if mutant("take back: stored") {
                // Relaxed: for mutants alone.
                self.cell.store(next, Relaxed.at("lower/store"));
                break;
            }
            step("lower: swap");
            if replace(self.cell, word, next) {
                break;
            }
        }
        if let Some(book) = self.book {
            if late {
                book.add(lowered);
            }
            book.end(if late { lowered } else { most });
        }
        Some(())
    }

    /// Begins to give back: what others have begun before, and how much it may come to.
    fn begin(
        &self,
        book: Book<'_>,
        charge: &Charge,
        rule: impl Fn(&Terms, u64, &Reading, u64) -> Option<u64>,
        early: Option<u64>,
    ) -> Option<(u64, u64)> {
        loop {
            let begun = book.begun();
            let (word, terms, reading) = self.look(charge, early)?;
            let time = rule(&terms, word.time(), &reading, begun)?;
            let units = word.time() - time;
            if book.begin(begun, units) {
                return Some((begun, units));
            }
        }
    }
}

/// Takes a charge back as if it had not been made, but for the time since. Nothing happens if the key
/// has begun another life.
#[cold]
pub(crate) fn take_back<K, C>(origin: &Origin<'_, K, C>, charge: &Charge)
where
    K: Fn() -> bool,
    C: Fn() -> u64,
{
    // Whatever others have given back, time takes from each charge as much as from what is owed.
    origin.lower(charge, |terms, time, reading, _| terms.take_back(time, reading, charge));
}

/// Gives so many tokens of a permit's charge back, as far as they are still owed where the charge lies.
/// Nothing happens if the key has begun another life.
#[cold]
pub(crate) fn settle<K, C>(origin: &Origin<'_, K, C>, charge: &Charge, surplus: u64)
where
    K: Fn() -> bool,
    C: Fn() -> u64,
{
    origin.lower(charge, |terms, time, reading, begun| {
        let since = begun.wrapping_sub(charge.given_back);
        let since = if mutant("permit: others forgotten") { 0 } else { since };
        terms.settle(time, reading, &Charge { cost: surplus, ..*charge }, since)
    });
}

/// Gives the tokens of a caller who leaves the line before its turn back: `after` is the time before
/// its charge. It does if the word is still the one that the charge left, so that nobody stands behind.
///
/// Beyond the burst nothing lowers a word but this, so that those who wait own disjoint stretches of
/// the key's time, and the one that ends at the word's time is the last.
#[cold]
pub(crate) fn give_up(cell: &Atomic<Word>, book: Option<Book<'_>>, charge: &Charge, after: u64) {
    let Charge { word, .. } = *charge;
    let next = word.at(after, word.epoch());
    if mutant("give up: from any place") {
        return give_up_wrongly(cell, word, next);
    }
    // Relaxed: only mutants look before they swap.
    let is_last = || cell.load(Relaxed.at("give_up/test")) == word;
    if mutant("give up: test then subtract") && is_last() {
        return give_up_wrongly(cell, word, next);
    }
    if mutant("give up: test then store") && is_last() {
        // Relaxed: as above.
        return cell.store(next, Relaxed.at("give_up/store"));
    }
    let units = word.time() - after;
    book.inspect(|book| book.add(units));
    // Relaxed: nobody needs what this thread has seen, and what the charge's own swap has published
    // goes on from every swap that follows it. If it fails, the slot lapses.
    let _ = cell.compare_exchange(word, next, Relaxed.at("cell/give_up"), Relaxed);
    book.inspect(|book| book.end(units));
}

/// For mutants: takes as much from whatever the word is.
fn give_up_wrongly(cell: &Atomic<Word>, word: Word, next: Word) {
    loop {
        // Relaxed: only mutants come here.
        let seen = cell.load(Relaxed.at("give_up/wrong"));
        let time = seen.time() - (word.time() - next.time());
        if replace(cell, seen, seen.at(time, seen.epoch())) {
            return;
        }
    }
}
