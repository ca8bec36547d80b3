//! A key, or a limiter of one state: what the verbs that are the same for both ask of it.

use crate::cell::{self, Books, Charge, Prepared};
use crate::clock::Timer;
use crate::decision::{Decision, Verdict};
use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::reach::Reach;
use crate::stats::Counts;
use crate::table::{Call, Place, Table};
use crate::terms::{Reading, Terms};

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Key(&'a Table, &'a Timer, Place<'a>),
    State(&'a Limiter),
}

impl<'a> Target<'a> {
    #[inline]
    pub(crate) fn policy(&self) -> &'a Policy {
        match self {
            Target::Key(table, ..) => &table.policy,
            Target::State(limiter) => &limiter.policy,
        }
    }

    #[inline]
    pub(crate) fn timer(&self) -> &'a Timer {
        match self {
            Target::Key(_, timer, _) => timer,
            Target::State(limiter) => &limiter.timer,
        }
    }

    #[inline]
    pub(crate) fn counts(&self) -> &'a Counts {
        match self {
            Target::Key(table, ..) => &table.counts,
            Target::State(limiter) => &limiter.counts,
        }
    }

    /// The attempt of a call up to its swap; `None` also if it is refused, where the clock is not that of
    /// a bucket in whole units, and of a limiter with permits, which have to know of what is given back
    /// before.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in the table: the terms stay in registers")]
    pub(crate) fn prepare(&self, cost: u64, now: u64) -> Option<Prepared<'a>> {
        match self {
            Target::Key(table, _, place) => table.prepare(place, cost, now),
            Target::State(limiter) => limiter.prepare(cost, now),
        }
    }

    /// [`prepare`](Target::prepare) for other clocks and for windows.
    pub(crate) fn prepare_otherwise(&self, cost: u64, now: u64) -> Option<Prepared<'a>> {
        match self {
            Target::Key(table, _, place) => table.prepare_otherwise(place, cost, now),
            Target::State(limiter) => limiter.prepare_otherwise(cost, now),
        }
    }

    /// What a call would be told.
    pub(crate) fn peek(&self, cost: u64, (now, tick): (u64, u32)) -> Decision {
        match *self {
            Target::Key(table, _, place) => {
                table.peek(&Call::new(place, cost, now)).foreseen(cost, tick)
            }
            Target::State(limiter) => limiter.foresee(cost, now, tick),
        }
    }

    /// Charges a call that may go so far beyond the burst. Counts nothing.
    pub(crate) fn charge(&self, reach: Reach, cost: u64, now: u64) -> (Verdict, Option<Charge>) {
        match *self {
            Target::Key(table, _, place) => {
                charge_key(table, &Call { reach, ..Call::new(place, cost, now) })
            }
            Target::State(limiter) => limiter.charge(reach, cost, now),
        }
    }

    /// Takes a charge back, by the clock as it is then.
    pub(crate) fn take_back(&self, charge: &Charge, clock: impl Fn() -> u64) {
        match self {
            Target::Key(table, _, place) => {
                table
                    .origin(place, charge, clock)
                    .inspect(|origin| cell::take_back(origin, charge));
            }
            Target::State(limiter) => limiter.take_back(charge, clock),
        }
    }

    /// Charges a call within the burst, so that a permit can be made of it where there are any. Counts
    /// nothing.
    pub(crate) fn reserve(&self, cost: u64, now: u64) -> (Verdict, Option<Charge>) {
        match *self {
            Target::Key(table, _, place) => {
                charge_key(table, &Call { is_reserve: true, ..Call::new(place, cost, now) })
            }
            Target::State(limiter) => limiter.charge(Reach::Burst, cost, now),
        }
    }

    /// Gives so many tokens of a permit's charge back, by the clock as it is then.
    pub(crate) fn settle(&self, charge: &Charge, surplus: u64, clock: impl Fn() -> u64) {
        match self {
            Target::Key(table, _, place) => {
                let origin = table.origin(place, charge, clock);
                origin.inspect(|origin| cell::settle(origin, charge, surplus));
            }
            Target::State(limiter) => cell::settle(&limiter.origin(clock), charge, surplus),
        }
    }

    /// The books, if the limiter is built for permits.
    pub(crate) fn books(&self) -> Option<&'a Books> {
        match self {
            Target::Key(table, ..) => table.books.as_ref(),
            Target::State(limiter) => limiter.books.as_ref(),
        }
    }

    /// Gives up a charge that nobody stands behind, which leaves the key at the time `after`.
    pub(crate) fn give_up(&self, charge: &Charge, after: u64) {
        match *self {
            Target::Key(table, _, place) => table.give_up(&place, charge, after),
            Target::State(limiter) => limiter.give_up(charge, after),
        }
    }

    /// The terms in force, and a moment under them.
    pub(crate) fn moment(&self, now: u64) -> (Terms, Reading) {
        match *self {
            Target::Key(table, ..) => table.policy.read(now, None, table),
            Target::State(limiter) => limiter.moment(now),
        }
    }

    /// The key's time at present, with terms and a moment. Of a key that is not there nothing is owed.
    pub(crate) fn time(&self, now: u64) -> (u64, Terms, Reading) {
        match *self {
            Target::Key(table, _, place) => {
                let (time, terms, reading) = table.time_of(&Call::new(place, 0, now));
                (time.unwrap_or(reading.position), terms, reading)
            }
            Target::State(limiter) => limiter.time_of(now),
        }
    }
}

fn charge_key(table: &Table, call: &Call<'_>) -> (Verdict, Option<Charge>) {
    let mut charged = None;
    (table.charge(call, &mut charged), charged)
}
