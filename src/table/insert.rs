//! A decision on a key that is not there: take a cell, write the tag, commit on the bucket.
//!
//! ```text
//!   read the control word                              Acquire, before the scan
//!   scan: the key is there after all?                  start over
//!         choose a free, an idle, or (by policy) the cheapest live cell
//!   judge the first charge: refused?                   answer; nothing was written
//!   a live word: raise the floor                       before the cell is taken
//!   swap the word to busy, generation + 1              from here the cell is ours alone
//!   a live word: clear its valid bit                   before the tentative word
//!   write the tag, then the tentative word             Release each
//!   swap the control word from the value before the scan, with the valid bit and version + 1
//!       failed: scan the others for the key, judge again, then try again or give the cell back
//!   swap the tentative word to the first charge        failed: a helper was here; start over
//! ```
//!
//! Nobody waits for a busy or tentative cell. A thread that stops anywhere in here holds one cell;
//! one that is killed holds it until the limiter is dropped.

use crate::algorithm::Algorithm;
use crate::algorithm::rule::Rule;
use crate::builder::Overflow;
use crate::cell::Charge;
use crate::decision::{Decision, Outcome, Verdict};
use crate::probe::{Site, mutant, step};
use crate::sync::{Relaxed, Release};
use crate::table::bucket::Control;
use crate::table::find::{has_member, unseen};
use crate::table::scan::{Scan, Victim};
use crate::table::{Call, Table};
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// After so many hits in a row an insert is no longer expected.
const EXPECTED: u64 = 4;

/// What a key's first charge is judged by.
struct First {
    terms: Terms,
    reading: Reading,
    /// The time of a key that is not in the bucket, and the floor that it was taken by.
    unseen: u64,
    floor: u64,
}

impl Table {
    /// The insert of a table that is filling: into a cell of the home line that is as built. `None` for
    /// any other, and for all that is not as it nearly always is; the long way starts over.
    pub(super) fn insert_at_home<R: Rule>(&self, call: &Call<'_>, tick: u32) -> Option<Decision> {
        if call.place.is_hinted() || !call.place.has_new_cell() || self.is_walking() {
            return None;
        }
        let control = call.place.bucket.control();
        let terms = R::load(&self.policy, self.policy.algorithm())?;
        let reading = R::read(&terms, call.now)?;
        step("judged");
        let mut scan = Scan::default();
        let has_new_cell = scan.look_at_home(&call.place, control)?;
        let victim = scan.free.filter(|_| has_new_cell)?;
        let floor = call.place.bucket.floor();
        let is_current = self.policy.is_current(&terms) || mutant("insert: stale terms");
        if floor > reading.now || !is_current {
            return None;
        }
        let unseen = terms.unseen(&reading);
        let time = R::charge(&terms, unseen, &reading, call.cost)?;
        let mut first = First { terms, reading, unseen, floor };
        match self.take(call, victim, control, &mut first, time) {
            Ok(word) => {
                self.counts.decided(Outcome::Admitted);
                // A commit that failed has judged anew, by terms that may be another rule's.
                if first.terms.sequence != terms.sequence {
                    let verdict = first.verdict(Outcome::Admitted, word.time(), call.cost);
                    return Some(verdict.decision(call.cost, tick));
                }
                let line = (&first.terms, &first.reading);
                Some(R::decision((Outcome::Admitted, word.time()), line, call.cost, tick))
            }
            Err(verdict) => {
                let verdict = verdict?;
                self.counts.decided(verdict.outcome);
                Some(verdict.decision(call.cost, tick))
            }
        }
    }

    /// Decides a call whose key was not found; `None` if it has to be looked for again.
    #[cold]
    pub(super) fn insert(&self, call: &Call<'_>, charged: &mut Option<Charge>) -> Option<Verdict> {
        self.help_walk();
        for patient in [true, false] {
            let (control, mut first) = self.judge_at_control(call);
            let scan = self.look(call, control, &mut first)?;
            let Some(time) = first.charge(call.cost) else {
                return Some(first.verdict(Outcome::Refused, first.unseen, call.cost));
            };
            let nearest = self.evictable(&scan, &first);
            // Other inserts under way may leave a cell free in a moment: look twice before a live
            // key is evicted or the bucket is called full.
            match scan.free.or(scan.idle).or(nearest.filter(|_| !(patient && scan.transient))) {
                Some(victim) => {
                    let given_back = self.given_back(call, victim.index);
                    return match self.take(call, victim, control, &mut first, time) {
                        Ok(word) => {
                            *charged = first.charged(call, victim.index, word, given_back);
                            Some(first.verdict(Outcome::Admitted, word.time(), call.cost))
                        }
                        Err(verdict) => verdict,
                    };
                }
                None if patient && scan.transient => {}
                None => return Some(self.overflowed(&scan, &first, call.cost)),
            }
        }
        None
    }

    /// What an insert would answer, as far as it can be told without making it; `None` if the key
    /// has to be looked for again.
    pub(super) fn foresee_insert(&self, call: &Call<'_>) -> Option<Verdict> {
        let (control, mut first) = self.judge_at_control(call);
        let scan = self.look(call, control, &mut first)?;
        let admits = first.charge(call.cost).is_some();
        let victim = scan.free.or(scan.idle).or(self.evictable(&scan, &first));
        let has_room = victim.is_some() || call.cost == 0;
        Some(match (admits, has_room) {
            (false, _) => first.verdict(Outcome::Refused, first.unseen, call.cost),
            (true, true) => first.verdict(Outcome::Admitted, first.unseen, call.cost),
            (true, false) => self.overflowed(&scan, &first, call.cost),
        })
    }

    /// The live cell to take where none is free or idle. A line, a debt or a ban is not forgotten for
    /// another key; where the nearest has one, all have.
    fn evictable<'a>(&self, scan: &Scan<'a>, first: &First) -> Option<Victim<'a>> {
        let First { terms, reading, .. } = first;
        // By the limiter's own burst: the call may reach further, or bring a quota of its own.
        let is_beyond = |time| {
            let own = self.policy.load().layout;
            terms.with_layout(Some(&own)).is_beyond(time, reading)
        };
        scan.nearest.filter(|nearest| {
            let is_line = self.policy.may_owe_beyond() && is_beyond(nearest.word.time());
            self.overflow == Overflow::EvictNearest && (!is_line || mutant("evict: line ignored"))
        })
    }

    /// The control word, and what a first charge is judged by, in the order in which they must be
    /// taken.
    #[inline]
    fn judge_at_control(&self, call: &Call<'_>) -> (Control, First) {
        let control = call.place.bucket.control();
        let first = self.judge(call);
        step("judged");
        (control, first)
    }

    /// A scan of the bucket, and what it means for the first charge; `None` if the key is there or the
    /// terms are no longer in force.
    #[inline]
    fn look<'a>(&self, call: &Call<'a>, control: Control, first: &mut First) -> Option<Scan<'a>> {
        let scan = self.scan(&call.place, control, &first.terms, &first.reading)?;
        // A word of two epochs on would have passed for one of these terms.
        if !self.policy.is_current(&first.terms) && !mutant("insert: stale terms") {
            return None;
        }
        first.floor = call.place.bucket.floor();
        first.unseen = unseen(&call.place, &first.terms, &first.reading);
        Some(scan)
    }

    /// The terms of a first charge; after the control word was loaded, so that a commit of the
    /// epoch before can no longer succeed.
    #[inline]
    fn judge(&self, call: &Call<'_>) -> First {
        let (terms, reading) = self.terms(call);
        First { terms, reading, unseen: 0, floor: 0 }
    }

    /// Takes the victim's cell for the key and commits it with its first charge, whose word it returns.
    /// `Err` holds the answer if it is another, or nothing if the key has to be looked for again.
    fn take(
        &self,
        call: &Call<'_>,
        victim: Victim<'_>,
        control: Control,
        first: &mut First,
        mut time: u64,
    ) -> Result<Word, Option<Verdict>> {
        let Victim { index, cell, word } = victim;
        let bucket = call.place.bucket;
        self.counts.own().expect_misses(EXPECTED);
        if word.is_live() {
            // Of a log's stamps none may come that is older than those that were there: where the
            // victim's are in the future of this call, it is judged again, from there.
            let newest = first.terms.newest(word.time());
            if !mutant("take: no floor") && !mutant("take: floor after the swap") {
                bucket.raise_floor(first.reading.now.max(newest));
            }
            if newest > first.reading.now && newest > first.floor {
                return Err(None);
            }
        }
        let busy = word.busy();
        // Release: brings the floor along. Pairs with the Acquire load of the word in the scan of
        // whoever looks for the key that was here.
        if cell.word.compare_exchange(word, busy, Release.at("insert/take"), Relaxed).is_err() {
            self.counts.retried();
            return Err(None);
        }
        step("taken");
        if word.is_live() {
            if mutant("take: floor after the swap") {
                bucket.raise_floor(first.reading.now.max(first.terms.newest(word.time())));
            }
            if !mutant("take: valid bit kept") && !mutant("take: valid bit cleared late") {
                bucket.clear(index);
            }
            step("cleared");
            if first.terms.is_idle(word.time(), &first.reading) {
                self.counts.reclaimed();
            } else {
                self.counts.evicted();
            }
        }
        // Release: a reader of this tag sees that the word is busy. Pairs with the Acquire load of
        // the tag in `find`.
        cell.tag.store(call.place.tag, Release.at("insert/tag"));
        step("tagged");
        let tentative = if mutant("take: live before commit") {
            busy.at(time, first.terms.epoch())
        } else {
            busy.tentative(control.version())
        };
        // Release: publishes the tag and the cleared bit. Pairs with the Acquire load of the word.
        cell.word.store(tentative, Release.at("insert/tentative"));
        step("tentative");
        if mutant("take: valid bit cleared late") {
            bucket.clear(index);
        }
        match self.commit(call, index, control.without(index), first, &mut time) {
            Ok(()) => {
                step("committed");
                let live = tentative.at(time, first.terms.epoch());
                let word = &cell.word;
                // Release: the terms may have been loaded anew since the scan; who sees this word
                // must see them. Pairs with the Acquire load of the word. If it fails, a helper has
                // charged the cell, or a walk has made it live: it is the key's now.
                word.compare_exchange(tentative, live, Release.at("insert/charge"), Relaxed)
                    .map(|_| live)
                    .map_err(|_| None)
            }
            Err(verdict) => {
                step("not committed");
                // Release: without it the tags of two owners would be unordered, and a reader
                // could see the older one with the younger word. Pairs with the Acquire load of
                // the word.
                cell.word.store(tentative.free(), Release.at("insert/give_up"));
                Err(verdict)
            }
        }
    }

    /// Commits a taken cell. `Err` says that the cell must be given back, and the answer if there
    /// is one already.
    fn commit(
        &self,
        call: &Call<'_>,
        index: usize,
        mut seen: Control,
        first: &mut First,
        time: &mut u64,
    ) -> Result<(), Option<Verdict>> {
        while let Err(control) = call.place.bucket.commit(seen, index) {
            self.counts.retried();
            // Another insert was committed, or a walk has begun: is the key there now, and what
            // are the terms?
            seen = control;
            if !mutant("commit: terms not read again") {
                *first = self.judge(call);
            }
            if mutant("commit: reach forgotten") {
                *first = self.judge(&Call::new(call.place, call.cost, call.now));
            }
            if has_member(&call.place, index) && !mutant("commit: no second scan") {
                return Err(None);
            }
            first.unseen = unseen(&call.place, &first.terms, &first.reading);
            *time = first
                .charge(call.cost)
                .ok_or_else(|| Some(first.verdict(Outcome::Refused, first.unseen, call.cost)))?;
        }
        Ok(())
    }

    /// The answer of the overflow policy.
    fn overflowed(&self, scan: &Scan<'_>, first: &First, cost: u64) -> Verdict {
        if self.overflow == Overflow::Admit {
            return first.verdict(Outcome::AdmittedFull, first.unseen, cost);
        }
        // A cell falls idle when its key is as one not seen.
        let time = scan.nearest.map_or(first.unseen, |nearest| nearest.word.time());
        first.verdict(Outcome::RefusedFull, time, cost)
    }
}

impl First {
    fn charge(&self, cost: u64) -> Option<u64> {
        self.terms.charge(self.unseen, &self.reading, cost)
    }

    /// The charge of a key that has got a cell.
    fn charged(
        &self,
        call: &Call<'_>,
        index: usize,
        word: Word,
        given_back: u64,
    ) -> Option<Charge> {
        let (position, sequence) = (self.reading.position, self.terms.sequence);
        let charge = Charge { index, word, position, cost: call.cost, sequence, given_back };
        // What is in a log is not taken back.
        (self.terms.algorithm != Algorithm::SlidingWindowLog).then_some(charge)
    }

    fn verdict(&self, outcome: Outcome, time: u64, cost: u64) -> Verdict {
        Verdict::new(outcome, &self.terms, &self.reading, time, cost)
    }
}
