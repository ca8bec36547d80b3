//! The short way of a decision: the key in its home line, live, in the current epoch, and nobody else
//! at it.
//!
//! ```text
//!   hash, prefetch the home line          (keyed/mod.rs)
//!   load the terms
//!   read the clock
//!   compare the tags of the home line     a hint
//!   load the word, the tag again          as in find.rs
//!   are the terms still in force?
//!   admitted: swap the word; refused: load it once more
//!   count, in a slot that is the thread's own
//! ```
//!
//! Whatever is not so goes the long way, which starts over.

use crate::algorithm::rule::{Buckets, Rule, WholeBuckets, Windows};
use crate::cell::{self, Prepared};
use crate::decision::{Decision, Outcome};
use crate::hash::Hashed;
use crate::probe::{mutant, step};
use crate::stats::Own;
use crate::table::bucket::Cell;
use crate::table::{Call, Place, Table};
use crate::terms::{Reading, Terms};
use crate::word::Word;

impl Table {
    /// Decides a call, charges it if it is admitted, and counts it. `place` is that of the hashes.
    ///
    /// The clock is read between the terms and the cell. A read of the processor's counter waits for
    /// every load before it, and what comes after it waits for the read: so what is at hand stands
    /// before, and the cell, which was prefetched and is on its way meanwhile, after.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: the terms go through memory otherwise")]
    pub(crate) fn decide(
        &self,
        (hashed, place): (Hashed, Place<'_>),
        cost: u64,
        clock: impl FnOnce() -> (u64, u32),
    ) -> Decision {
        let algorithm = self.policy.algorithm();
        if !algorithm.is_bucket() || cost == 0 {
            return self.decide_otherwise(hashed, cost, clock());
        }
        let Some(terms) = WholeBuckets::load(&self.policy, algorithm) else {
            return self.decide_otherwise(hashed, cost, clock());
        };
        step("terms loaded");
        let own = self.counts.own();
        let (now, tick) = clock();
        if let Some(reading) = WholeBuckets::read(&terms, now)
            && let Some(seen) = place.glance()
            && let Some(settled) = self.attempt::<WholeBuckets>(own, seen, cost, (terms, reading))
        {
            return WholeBuckets::decision(settled, (&terms, &reading), cost, tick);
        }
        self.decide_from_the_start::<WholeBuckets>(hashed, cost, (now, tick))
    }

    /// [`decide`](Table::decide) for calls of one token at one moment, each in its place.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `decide`")]
    pub(crate) fn decide_all(
        &self,
        hashes: &[Hashed],
        decisions: &mut [Decision],
        now: u64,
        tick: u32,
    ) {
        let algorithm = self.policy.algorithm();
        // The terms are those of all calls, unless they change meanwhile, which each looks for.
        let line = WholeBuckets::load(&self.policy, algorithm)
            .filter(|_| algorithm.is_bucket())
            .and_then(|terms| Some((terms, WholeBuckets::read(&terms, now)?)));
        let Some(line) = line else {
            for (&hashed, decision) in hashes.iter().zip(decisions) {
                *decision = self.decide_otherwise(hashed, 1, (now, tick));
            }
            return;
        };
        let own = self.counts.own();
        for (&hashed, decision) in hashes.iter().zip(decisions) {
            // Each answer is written where it belongs, once.
            if let Some(seen) = self.place(hashed).glance()
                && let Some(settled) = self.attempt::<WholeBuckets>(own, seen, 1, line)
            {
                *decision = WholeBuckets::decision(settled, (&line.0, &line.1), 1, tick);
            } else {
                *decision = self.decide_from_the_start::<WholeBuckets>(hashed, 1, (now, tick));
            }
        }
    }

    /// Out of the way of the buckets with whole clocks, which most limiters are.
    #[inline(never)]
    fn decide_otherwise(&self, hashed: Hashed, cost: u64, moment: (u64, u32)) -> Decision {
        let algorithm = self.policy.algorithm();
        if cost > 0 && algorithm.is_bucket() {
            self.look_and_attempt::<Buckets>(hashed, cost, moment)
        } else if cost > 0 && algorithm.has_windows() {
            self.look_and_attempt::<Windows>(hashed, cost, moment)
        } else {
            let place = self.place(hashed);
            let (now, tick) = moment;
            self.decide_the_long_way(&Call::new(place, cost, now), tick)
        }
    }

    #[inline]
    fn look_and_attempt<R: Rule>(
        &self,
        hashed: Hashed,
        cost: u64,
        (now, tick): (u64, u32),
    ) -> Decision {
        if let Some(terms) = R::load(&self.policy, self.policy.algorithm())
            && let Some(reading) = R::read(&terms, now)
        {
            step("terms loaded");
            if let Some(seen) = self.place(hashed).glance()
                && let Some(settled) =
                    self.attempt::<R>(self.counts.own(), seen, cost, (terms, reading))
            {
                return R::decision(settled, (&terms, &reading), cost, tick);
            }
        }
        self.decide_from_the_start::<R>(hashed, cost, (now, tick))
    }

    /// The one attempt that nearly always does: the key in its home line, live, in the current
    /// epoch, and nobody else at it. Everything else goes the long way, which starts over.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `decide`")]
    fn attempt<R: Rule>(
        &self,
        own: Own<'_>,
        (_, cell, word): (usize, &Cell, Word),
        cost: u64,
        (terms, reading): (Terms, Reading),
    ) -> Option<(Outcome, u64)> {
        if !self.is_settled(word, &terms) {
            return None;
        }
        cell::attempt::<R>(&cell.word, word, cost, (terms, reading), own)
    }

    /// Whether a word can be decided on under these terms.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `decide`")]
    fn is_settled(&self, word: Word, terms: &Terms) -> bool {
        // After the clock was read: a change that came before it is not missed.
        let is_current = self.policy.is_current(terms) || mutant("decide: stale terms");
        word.is_live() && word.epoch() == terms.epoch() && is_current
    }

    /// The same attempt up to its swap, for a call that is one of several; `None` also if it is
    /// refused.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `decide`")]
    pub(crate) fn prepare<'a>(
        &self,
        place: &Place<'a>,
        cost: u64,
        now: u64,
    ) -> Option<Prepared<'a>> {
        let algorithm = self.policy.algorithm();
        if !algorithm.is_bucket() || cost == 0 || self.books.is_some() {
            return None;
        }
        let terms = WholeBuckets::load(&self.policy, algorithm)?;
        self.prepare_by::<WholeBuckets>(terms, place, cost, now)
    }

    /// [`prepare`](Self::prepare) for what is not a bucket with a whole clock. On its own, so that the one
    /// for most limiters is written where it belongs and not copied.
    #[inline(never)]
    pub(crate) fn prepare_otherwise<'a>(
        &self,
        place: &Place<'a>,
        cost: u64,
        now: u64,
    ) -> Option<Prepared<'a>> {
        let algorithm = self.policy.algorithm();
        if self.books.is_some() {
            None
        } else if cost > 0 && algorithm.is_bucket() {
            let terms = Buckets::load(&self.policy, algorithm)?;
            let is_whole = terms.layout.slope.is_whole();
            if is_whole { None } else { self.prepare_by::<Buckets>(terms, place, cost, now) }
        } else if cost > 0 && algorithm.has_windows() {
            let terms = Windows::load(&self.policy, algorithm)?;
            self.prepare_by::<Windows>(terms, place, cost, now)
        } else {
            None
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `decide`")]
    fn prepare_by<'a, R: Rule>(
        &self,
        terms: Terms,
        place: &Place<'a>,
        cost: u64,
        now: u64,
    ) -> Option<Prepared<'a>> {
        let reading = R::read(&terms, now)?;
        step("terms loaded");
        let (index, cell, word) = place.glance()?;
        if !self.is_settled(word, &terms) {
            return None;
        }
        Prepared::new::<R>((index, &cell.word), word, cost, (terms, reading))
    }

    /// What else there is, for a key whose place and terms are not at hand: most often it is new.
    #[cold]
    #[inline(never)]
    fn decide_from_the_start<R: Rule>(
        &self,
        hashed: Hashed,
        cost: u64,
        (now, tick): (u64, u32),
    ) -> Decision {
        let place = self.place(hashed);
        place.bucket.prefetch();
        let call = Call::new(place, cost, now);
        self.insert_at_home::<R>(&call, tick)
            .unwrap_or_else(|| self.decide_the_long_way(&call, tick))
    }
}
