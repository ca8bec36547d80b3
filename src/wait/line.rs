//! What a place in a line asks of its limiter.

use crate::cell;
use crate::charge::{Charge, Reach};
use crate::clock::Timer;
use crate::decision::Verdict;
use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::probe::mutant;
use crate::table::{Call, Place, Table};
use crate::terms::{Reading, Terms};

/// Whose line it is.
#[derive(Clone, Copy)]
pub(super) enum Line<'a> {
    Key(&'a Table, &'a Timer, Place<'a>),
    State(&'a Limiter),
}

impl<'a> Line<'a> {
    pub(super) fn policy(&self) -> &'a Policy {
        match *self {
            Line::Key(table, ..) => &table.policy,
            Line::State(limiter) => &limiter.policy,
        }
    }

    /// The limiter's clock.
    pub(super) fn now(&self) -> u64 {
        match *self {
            Line::Key(_, timer, _) => timer.now(),
            Line::State(limiter) => limiter.timer.now(),
        }
    }

    /// Charges a call that waits so many nanoseconds at the most, and counts it.
    pub(super) fn charge(&self, cost: u64, max: u64, now: u64) -> (Verdict, Option<Charge>) {
        // Before the charge, so that whoever sees the line knows that there may be one.
        if !mutant("line: not marked") {
            self.policy().let_owe_beyond();
        }
        let reach = Reach::Nanos(max);
        let (charged, counts) = match *self {
            Line::Key(table, _, place) => {
                let call = Call { reach, ..Call::new(place, cost, now) };
                (table.charge(&call), &table.counts)
            }
            Line::State(limiter) => (limiter.charge_reaching(reach, cost, now), &limiter.counts),
        };
        counts.decided(charged.0.outcome);
        charged
    }

    /// The terms in force, and a moment under them.
    pub(super) fn moment(&self, now: u64) -> (Terms, Reading) {
        match *self {
            Line::Key(table, ..) => table.policy.read(now, None, table),
            Line::State(limiter) => limiter.moment(now),
        }
    }

    /// Where the line ends at present, with terms and a moment. Of a key that is not there nothing is
    /// owed.
    pub(super) fn end(&self, now: u64) -> (u64, Terms, Reading) {
        match *self {
            Line::Key(table, _, place) => {
                let call = Call::new(place, 0, now);
                let (time, terms, reading) = table.time_of(&call);
                (time.unwrap_or(reading.position), terms, reading)
            }
            Line::State(limiter) => limiter.time_of(now),
        }
    }

    /// Gives a charge back that nobody stands behind, which leaves the key at the time `after`.
    pub(super) fn give_up(&self, charge: &Charge, after: u64) {
        match *self {
            Line::Key(_, _, place) => {
                // No look at the tag: a cell that was taken for another key has another generation.
                if let Some(cell) = place.bucket.cells.get(charge.index) {
                    cell::give_up(&cell.word, charge, after);
                }
            }
            Line::State(limiter) => limiter.give_up(charge, after),
        }
    }
}
