//! Charges that are made in steps, beyond the burst, or taken back.

use crate::algorithm::Algorithm;
use crate::algorithm::rule::{Buckets, Rule, WholeBuckets, Windows};
use crate::cell::{self, Attempt, Book, Charge, Origin, Prepared};
use crate::decision::{Outcome, Verdict};
use crate::limiter::Limiter;
use crate::probe::{mutant, step};
use crate::reach::Reach;
use crate::target::Target;
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// How an attempt ended that nobody came before.
pub(super) struct Decided {
    pub(super) outcome: Outcome,
    pub(super) cost: u64,
    /// The state's word after it.
    pub(super) word: Word,
    pub(super) terms: Terms,
    pub(super) reading: Reading,
    given_back: u64,
}

impl Decided {
    fn told(&self) -> (Verdict, Option<Charge>) {
        let Decided { outcome, cost, word, terms, reading, .. } = *self;
        let charge = (outcome == Outcome::Admitted).then(|| self.charge());
        (Verdict::new(outcome, &terms, &reading, word.time(), cost), charge)
    }

    /// What was charged, if it was admitted.
    pub(super) fn charge(&self) -> Charge {
        let Decided { cost, word, terms, reading, given_back, .. } = *self;
        let (position, sequence) = (reading.position, terms.sequence);
        Charge { index: 0, word, position, cost, sequence, given_back }
    }
}

impl Limiter {
    #[inline]
    pub(crate) fn target(&self) -> Target<'_> {
        Target::State(self)
    }

    /// Charges any call that may go so far beyond the burst, if it is admitted, and says what it has
    /// charged. Counts nothing.
    pub(crate) fn charge(&self, reach: Reach, cost: u64, now: u64) -> (Verdict, Option<Charge>) {
        while self.policy.algorithm() == Algorithm::SlidingWindowLog {
            let (word, terms, reading) = self.look(now);
            if let Some(verdict) = self.decide_log(word, &terms, &reading, cost) {
                // What is in a log is not taken back.
                return (verdict, None);
            }
        }
        self.charge_by(reach, now, |_, _, _| cost).told()
    }

    /// Charges a cost that depends on the state's time and the terms, or refuses it; not of a log.
    #[inline]
    pub(super) fn charge_by(
        &self,
        reach: Reach,
        now: u64,
        cost: impl Fn(u64, &Terms, &Reading) -> u64,
    ) -> Decided {
        let mut first = None;
        loop {
            let (word, terms, reading) = self.look(now);
            let mut given_back = self.given_back();
            let cost = cost(word.time(), &terms, &reading);
            let mut terms = terms.reaching(reach, cost, &reading);
            if mutant("ban: reckoned once") {
                terms.at_least = *first.get_or_insert(terms.at_least);
            }
            let after = terms.charge(word.time(), &reading, cost);
            let (outcome, time) = match cell::charge(&self.state.0, word, after, terms.epoch()) {
                Attempt::Charged(time) => (Outcome::Admitted, time),
                Attempt::Refused => (Outcome::Refused, word.time()),
                Attempt::Moved if mutant("charge: not tried again") => {
                    (Outcome::Refused, word.time())
                }
                Attempt::Moved => {
                    self.counts.retried();
                    continue;
                }
            };
            let word = word.at(time, terms.epoch());
            if mutant("permit: told after the charge") {
                given_back = self.given_back();
            }
            return Decided { outcome, cost, word, terms, reading, given_back };
        }
    }

    /// Gives the tokens of a caller who leaves the line before its turn back.
    pub(crate) fn give_up(&self, charge: &Charge, after: u64) {
        cell::give_up(&self.state.0, self.book(), charge, after);
    }

    /// The book of the state, if it has one.
    fn book(&self) -> Option<Book<'_>> {
        self.books.as_ref()?.of(0)
    }

    /// What a charge is to know of the book, before it is made.
    fn given_back(&self) -> u64 {
        self.book().map_or(0, |book| book.ended())
    }

    /// The limiter's time, under terms that were in force after it was read.
    pub(crate) fn time_of(&self, now: u64) -> (u64, Terms, Reading) {
        let (word, terms, reading) = self.look(now);
        (word.time(), terms, reading)
    }

    /// The terms in force, and a moment under them.
    pub(crate) fn moment(&self, now: u64) -> (Terms, Reading) {
        self.policy.read(now, None, &self.state)
    }

    /// The attempt up to its swap, for a call that is one of several; `None` also if it is refused.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    pub(crate) fn prepare(&self, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let algorithm = self.policy.algorithm();
        if !algorithm.is_bucket() || cost == 0 || self.books.is_some() {
            return None;
        }
        let terms = WholeBuckets::load(&self.policy, algorithm)?;
        self.prepare_by::<WholeBuckets>(terms, cost, now)
    }

    /// [`prepare`](Self::prepare) for what is not a bucket with a whole clock. On its own, so that the one
    /// for most limiters is written where it belongs and not copied.
    #[inline(never)]
    pub(crate) fn prepare_otherwise(&self, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let algorithm = self.policy.algorithm();
        if self.books.is_some() {
            None
        } else if cost > 0 && algorithm.is_bucket() {
            let terms = Buckets::load(&self.policy, algorithm)?;
            let is_whole = terms.layout.slope.is_whole();
            if is_whole { None } else { self.prepare_by::<Buckets>(terms, cost, now) }
        } else if cost > 0 && algorithm.has_windows() {
            self.prepare_by::<Windows>(Windows::load(&self.policy, algorithm)?, cost, now)
        } else {
            None
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    fn prepare_by<R: Rule>(&self, terms: Terms, cost: u64, now: u64) -> Option<Prepared<'_>> {
        let reading = R::read(&terms, now)?;
        step("terms loaded");
        let word = self.glance();
        if word.epoch() != terms.epoch() || !self.policy.is_current(&terms) {
            return None;
        }
        Prepared::new::<R>((0, &self.state.0), word, cost, (terms, reading))
    }

    /// Where a charge was made.
    pub(crate) fn origin<C: Fn() -> u64>(&self, clock: C) -> Origin<'_, impl Fn() -> bool, C> {
        let (book, is_key) = (self.book(), || true);
        Origin { cell: &self.state.0, book, policy: &self.policy, is_key, clock }
    }

    /// Takes a charge back, by the clock as it is then.
    pub(crate) fn take_back(&self, charge: &Charge, clock: impl Fn() -> u64) {
        cell::take_back(&self.origin(clock), charge);
    }
}
