//! A decision on a key that is there: no lock, and one swap at the most.
//!
//! ```text
//!   for each cell from the home line on:
//!       tag differs (a hint)?               next cell
//!       load the word                       Acquire
//!       load the tag again                  Acquire, after the word: now they belong together
//!       tentative and not committed?        next cell
//!       terms replaced meanwhile?           take the new ones
//!       word of the epoch before?           translate it, look again
//!       admitted: swap the word             the one write of a hit
//!       refused:  load the word once more   still the same? then the refusal stands
//! ```
//!
//! Tag before word would be wrong: the tag of one life with the word of the next charges a
//! stranger. The first look at the tag is only a hint, which may send a call to the insert, and
//! that looks properly.

use crate::algorithm::Algorithm;
use crate::algorithm::sliding_log::Ask;
use crate::cell::Charge;
use crate::cell::{self, Attempt, Book, Origin};
use crate::decision::{Decision, Outcome, Verdict};
use crate::probe::{Site, mutant};
use crate::reach::Reach;
use crate::sync::{Acquire, Relaxed};
use crate::table::bucket::Cell;
use crate::table::{CELLS, Call, Place, Ring, Table};
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// A cell with a key in it, as it was at one moment.
pub(super) struct Found<'a> {
    pub(super) index: usize,
    pub(super) cell: &'a Cell,
    pub(super) word: Word,
    /// The key's time, in the units of the terms it was found under.
    pub(super) time: u64,
}

impl Table {
    /// Decides any call, charges it if it is admitted, and counts it.
    #[cold]
    #[inline(never)]
    pub(crate) fn decide_the_long_way(&self, call: &Call<'_>, tick: u32) -> Decision {
        if call.cost == 0 {
            return self.peek(call).foreseen(0, tick);
        }
        let verdict = self.charge(call, &mut None);
        self.counts.decided(verdict.outcome);
        verdict.decision(call.cost, tick)
    }

    /// Charges any call if it is admitted, and puts down what it has charged; not returned, which would copy
    /// it for each call. Counts nothing.
    pub(crate) fn charge(&self, call: &Call<'_>, charged: &mut Option<Charge>) -> Verdict {
        // Nearly always a key that is not in its home line is not in its bucket.
        let mut may_be_there = call.place.is_hinted();
        loop {
            if may_be_there {
                let (mut terms, mut reading) = self.terms(call);
                while let Some(found) = self.find(call, &mut terms, &mut reading) {
                    let line = (&terms, &reading);
                    if let Some(verdict) = self.charge_found(call, &found, line, charged) {
                        return verdict;
                    }
                    self.counts.retried();
                }
            }
            may_be_there = true;
            // If nothing comes of the insert, somebody put the key there, or took the cell: look
            // again. Each turn is caused by a step that another call has completed.
            if let Some(verdict) = self.insert(call, charged) {
                return verdict;
            }
        }
    }

    /// Charges a key that was found; `None` if another thread moved its word meanwhile.
    fn charge_found(
        &self,
        call: &Call<'_>,
        found: &Found<'_>,
        (terms, reading): (&Terms, &Reading),
        charged: &mut Option<Charge>,
    ) -> Option<Verdict> {
        let Found { index, cell, word, time } = *found;
        let cost = call.cost;
        if terms.algorithm == Algorithm::SlidingWindowLog {
            let ring = self.ring(&call.place, index);
            let ask = Ask { cost, charges: true, floor: call.place.bucket.floor() };
            // What is in a log is not taken back.
            return cell::decide_log(&cell.word, ring, word, time, (terms, reading), ask);
        }
        let given_back = self.given_back(call, index);
        let after = terms.charge(time, reading, cost);
        let (outcome, time) = match cell::charge(&cell.word, word, after, terms.epoch()) {
            Attempt::Charged(time) => (Outcome::Admitted, time),
            Attempt::Refused => (Outcome::Refused, time),
            Attempt::Moved => return None,
        };
        if outcome == Outcome::Admitted {
            let word = word.at(time, terms.epoch());
            let (position, sequence) = (reading.position, terms.sequence);
            *charged = Some(Charge { index, word, position, cost, sequence, given_back });
        }
        Some(Verdict::new(outcome, terms, reading, time, cost))
    }

    /// The ring of a cell.
    fn ring(&self, place: &Place<'_>, index: usize) -> Ring<'_> {
        self.rings.of(place.index * CELLS + index)
    }

    /// The terms in force for this call, and its moment under them.
    pub(super) fn terms(&self, call: &Call<'_>) -> (Terms, Reading) {
        let (terms, reading) = self.policy.read(call.now, call.layout.as_ref(), self);
        // Most calls stay within the burst, and are spared the copy.
        match call.reach {
            Reach::Burst => (terms, reading),
            reach => (terms.reaching(reach, call.cost, &reading), reading),
        }
    }

    /// The key's cell under terms that were in force after its word was loaded. Brings the cell
    /// into the current epoch, and `terms` and `reading` up to date.
    fn find<'a>(
        &self,
        call: &Call<'a>,
        terms: &mut Terms,
        reading: &mut Reading,
    ) -> Option<Found<'a>> {
        let place = &call.place;
        for (index, cell) in place.bucket.cells_from(place.first()) {
            // Relaxed: a hint, see above.
            if cell.tag.load(Relaxed.at("find/hint")) != place.tag {
                continue;
            }
            loop {
                // Acquire: pairs with the Release that wrote the word. What the word's life was
                // built on (tag, cleared valid bit, floor, terms of its epoch) is seen with it.
                let word = cell.word.load(Acquire.at("find/word"));
                // Acquire: a tag of a later life brings that life's busy word, so that the re-read
                // that confirms a refusal sees that the word has moved. Pairs with the Release
                // store of the tag.
                let is_key = mutant("decide: tag before word")
                    || cell.tag.load(Acquire.at("find/tag")) == place.tag;
                if !word.may_hold_key() || !is_key {
                    break;
                }
                if !self.policy.is_current(terms) && !mutant("decide: stale terms") {
                    (*terms, *reading) = self.terms(call);
                    continue;
                }
                if !word.is_live() {
                    if !place.bucket.is_committed(index) {
                        break;
                    }
                    // Committed and not yet charged: the key is as one not seen.
                    let time = unseen(place, terms, reading);
                    return Some(Found { index, cell, word, time });
                }
                if word.epoch() != terms.epoch() {
                    cell::translate(&cell.word, &self.policy);
                    continue;
                }
                return Some(Found { index, cell, word, time: word.time() });
            }
        }
        None
    }

    /// What the call would be told. Writes nothing but the translation of an old word.
    pub(crate) fn peek(&self, call: &Call<'_>) -> Verdict {
        loop {
            let (mut terms, mut reading) = self.terms(call);
            let time = match self.find(call, &mut terms, &mut reading) {
                Some(found) if terms.algorithm == Algorithm::SlidingWindowLog => {
                    let Found { index, cell, word, time } = found;
                    let (ring, under) = (self.ring(&call.place, index), (&terms, &reading));
                    let floor = call.place.bucket.floor();
                    let ask = Ask { cost: call.cost, charges: false, floor };
                    match cell::decide_log(&cell.word, ring, word, time, under, ask) {
                        Some(verdict) => return verdict,
                        None => continue,
                    }
                }
                // Relaxed: as the re-read that confirms a refusal.
                Some(found) if found.cell.word.load(Relaxed.at("find/peeked")) == found.word => {
                    found.time
                }
                Some(_) => continue,
                None => match self.foresee_insert(call) {
                    Some(verdict) => return verdict,
                    None => continue,
                },
            };
            let admitted = terms.charge(time, &reading, call.cost).is_some();
            let outcome = if admitted { Outcome::Admitted } else { Outcome::Refused };
            return Verdict::new(outcome, &terms, &reading, time, call.cost);
        }
    }

    /// Gives the call's cost back to its key. Nothing happens if it has spent none.
    pub(crate) fn refund(&self, call: &Call<'_>) {
        let (mut terms, mut reading) = self.terms(call);
        while let Some(found) = self.find(call, &mut terms, &mut reading) {
            let is_line = self.policy.may_owe_beyond() && terms.is_beyond(found.time, &reading);
            let is_kept = is_line && !mutant("refund: line ignored");
            if !found.word.is_live() || is_kept {
                return;
            }
            match terms.give_back(found.time, &reading, call.cost) {
                Some(time) => {
                    let next = found.word.at(time, terms.epoch());
                    if cell::replace(&found.cell.word, found.word, next) {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Where a charge of this key was made; `None` if it names no cell. By the `clock`, but never behind
    /// the moment at which the bucket last forgot a key.
    pub(crate) fn origin<'a>(
        &'a self,
        place: &Place<'a>,
        charge: &Charge,
        clock: impl Fn() -> u64,
    ) -> Option<Origin<'a, impl Fn() -> bool, impl Fn() -> u64>> {
        let Place { bucket, tag, .. } = *place;
        let Cell { tag: of_cell, word } = bucket.cells.get(charge.index)?;
        // Relaxed: the word was loaded before with Acquire, so that the tag is that of its life, or of
        // a later one; then the swap fails.
        let is_key = move || of_cell.load(Relaxed.at("lower/tag")) == tag;
        let clock = move || clock().max(bucket.floor());
        let book = self.book(place, charge.index);
        Some(Origin { cell: word, book, policy: &self.policy, is_key, clock })
    }

    /// Gives the tokens of a caller who leaves the line before its turn back.
    pub(crate) fn give_up(&self, place: &Place<'_>, charge: &Charge, after: u64) {
        // No look at the tag: a cell that was taken for another key has another generation.
        if let Some(cell) = place.bucket.cells.get(charge.index) {
            cell::give_up(&cell.word, self.book(place, charge.index), charge, after);
        }
    }

    /// The book of a cell, if the table has books.
    pub(super) fn book(&self, place: &Place<'_>, index: usize) -> Option<Book<'_>> {
        self.books.as_ref()?.of(place.index * CELLS + index)
    }

    /// What a charge of this call is to know of the book of a cell, before it is made.
    pub(super) fn given_back(&self, call: &Call<'_>, index: usize) -> u64 {
        if !call.is_reserve {
            return 0;
        }
        self.book(&call.place, index).map_or(0, |book| book.ended())
    }

    /// The time of a key, if it has one, under terms that were in force after it was read.
    pub(crate) fn time_of(&self, call: &Call<'_>) -> (Option<u64>, Terms, Reading) {
        let (mut terms, mut reading) = self.terms(call);
        let found = self.find(call, &mut terms, &mut reading);
        (found.map(|found| found.time), terms, reading)
    }

    /// Makes a key as one that has not been seen. Its cell stays its own until it is needed.
    pub(crate) fn reset(&self, call: &Call<'_>) {
        let (mut terms, mut reading) = self.terms(call);
        while let Some(found) = self.find(call, &mut terms, &mut reading) {
            let next = cell::cleared(found.word, &terms);
            if !found.word.is_live() || cell::replace(&found.cell.word, found.word, next) {
                return;
            }
        }
    }
}

/// The time of a key that is not in its bucket: as of now, or of the bucket's floor if that is
/// later. The words and tags of the cells were loaded with Acquire before.
#[inline]
pub(super) fn unseen(place: &Place<'_>, terms: &Terms, reading: &Reading) -> u64 {
    let floor = place.bucket.floor();
    if floor <= reading.now {
        return terms.unseen(reading);
    }
    terms.unseen_since(floor, reading)
}

/// Whether another cell than `own` holds the key. The control word was loaded with Acquire before.
pub(super) fn has_member(place: &Place<'_>, own: usize) -> bool {
    place.bucket.cells_from(place.first()).any(|(index, cell)| {
        // Acquire: what was committed is seen by the control word alone, but who finds that the key
        // is no longer there must see the floor by which it was forgotten. Pairs with the Release
        // of the swap that took the cell.
        let word = cell.word.load(Acquire.at("member/word"));
        index != own
            && word.may_hold_key()
            // Acquire: by a tag of a later life the control word has moved, too, and the next commit
            // fails; but nothing else than this load keeps that commit behind it.
            && cell.tag.load(Acquire.at("member/tag")) == place.tag
            && (word.is_live() || place.bucket.is_committed(index))
    })
}
