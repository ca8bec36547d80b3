//! One limit of a call that asks several.

use core::fmt;
use core::hash::Hash;

use crate::cell::Prepared;
use crate::charge::Charge;
use crate::clock::Timer;
use crate::decision::Decision;
use crate::hash::Hashed;
use crate::keyed::KeyedLimiter;
use crate::limiter::Limiter;
use crate::table::{Call, Table};

/// A limit, a key and a cost, for [`check_all`](crate::check_all).
///
/// The key has been hashed and is not kept. An ask may be used again; it then asks anew.
///
/// ```
/// use tollgate::{KeyedLimiter, Limiter, Quota, check_all};
///
/// let by_account: KeyedLimiter<u64> = KeyedLimiter::new(Quota::per_minute(60))?;
/// let global = Limiter::new(Quota::per_second(1_000))?;
/// let mut asks = [by_account.ask(&7, 5), global.ask(1)];
/// assert!(check_all(&mut asks).is_allowed());
/// assert_eq!(asks[0].decision().remaining(), 55);
/// assert_eq!(asks[1].decision().remaining(), 999);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Ask<'a> {
    target: Target<'a>,
    cost: u64,
    part: Part,
    progress: Progress<'a>,
}

/// What is asked.
#[derive(Clone, Copy)]
enum Target<'a> {
    Key(&'a Table, &'a Timer, Hashed),
    State(&'a Limiter),
}

/// What an ask is among those of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It asks for so many tokens: its own, and those of who follows it.
    Leads(u64),
    /// The one at this place asks the same limit for the same key, and for this one with it.
    Follows(usize),
}

/// How far an ask has come.
#[derive(Clone)]
enum Progress<'a> {
    /// It admits, and waits for its swap.
    Prepared(Prepared<'a>, u32),
    /// It has been told this, by a look or by a charge; the charge was made.
    Told(Decision, Option<Charge>),
}

impl<K: Hash + ?Sized + 'static> KeyedLimiter<K> {
    /// Asks this limiter for a key as one of several limits: see [`check_all`](crate::check_all).
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Quota, check_all};
    /// let often: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(10))?;
    /// let rarely: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_hour(1000))?;
    /// assert!(check_all(&mut [often.ask("key", 1), rarely.ask("key", 1)]).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn ask(&self, key: &K, cost: u64) -> Ask<'_> {
        let (table, timer, hashed) = self.hash_for_later(key);
        Ask::new(Target::Key(table, timer, hashed), cost)
    }
}

impl Limiter {
    /// Asks this limiter as one of several limits: see [`check_all`](crate::check_all).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, check_all};
    /// let often = Limiter::new(Quota::per_second(10))?;
    /// let rarely = Limiter::new(Quota::per_hour(1000))?;
    /// assert!(check_all(&mut [often.ask(1), rarely.ask(1)]).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::new(Target::State(self), cost)
    }
}

/// Adds the costs of asks of one limit and one key up.
#[inline]
pub(super) fn merge(asks: &mut [Ask<'_>]) {
    for at in 0..asks.len() {
        let (before, rest) = asks.split_at_mut(at);
        let Some(ask) = rest.first_mut() else { return };
        ask.part = Part::Leads(ask.cost);
        let same = before.iter_mut().enumerate().find(|(_, one)| one.order() == ask.order());
        if let Some((leader, one)) = same {
            let leader = if let Part::Follows(leader) = one.part { leader } else { leader };
            ask.part = Part::Follows(leader);
            if let Some(Ask { part: Part::Leads(cost), .. }) = before.get_mut(leader) {
                *cost = cost.saturating_add(ask.cost);
            }
        }
    }
}

/// Gives each ask the decision that its leader was told.
#[inline]
pub(super) fn answer(asks: &mut [Ask<'_>]) {
    for at in 0..asks.len() {
        let leader = if let Part::Follows(leader) = asks[at].part { leader } else { at };
        let told = asks[leader].decided();
        let charge = if leader == at { asks[at].charged() } else { None };
        asks[at].progress = Progress::Told(told, charge);
    }
}

impl<'a> Ask<'a> {
    fn new(target: Target<'a>, cost: u64) -> Ask<'a> {
        let progress = Progress::Told(Decision::default(), None);
        Ask { target, cost, part: Part::Leads(cost), progress }
    }

    /// What this limit said, to all that was asked of it for the key: of a call that was admitted,
    /// after the charge; of one that was refused, before it, and then a limit may say that it
    /// would have admitted the call. Of an ask that has not been asked it is a refusal.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, check_all};
    /// let (wide, narrow) = (Limiter::new(Quota::per_hour(9))?, Limiter::new(Quota::per_hour(0))?);
    /// let mut asks = [wide.ask(1), narrow.ask(1)];
    /// assert!(!check_all(&mut asks).is_allowed());
    /// assert!(asks[0].decision().is_allowed());
    /// assert_eq!(asks[0].decision().remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn decision(&self) -> Decision {
        self.decided()
    }

    pub(super) fn decided(&self) -> Decision {
        match &self.progress {
            Progress::Prepared(prepared, tick) => prepared.decision(*tick),
            Progress::Told(decision, _) => *decision,
        }
    }

    fn charged(&self) -> Option<Charge> {
        match &self.progress {
            Progress::Told(_, charge) => *charge,
            Progress::Prepared(..) => None,
        }
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        self.progress = Progress::Told(decision, None);
    }

    #[inline]
    pub(super) fn leads(&self) -> bool {
        matches!(self.part, Part::Leads(_))
    }

    /// Tokens asked for, with those of who follows.
    fn total(&self) -> u64 {
        if let Part::Leads(cost) = self.part { cost } else { 0 }
    }

    /// What tells limits and keys apart, and orders them. Addresses stay while they are borrowed, so
    /// that calls that overlap see one order.
    #[inline]
    pub(super) fn order(&self) -> (usize, u64, u64) {
        match self.target {
            Target::Key(table, _, hashed) => {
                (core::ptr::from_ref(table).addr(), hashed.place, hashed.tag)
            }
            Target::State(limiter) => (core::ptr::from_ref(limiter).addr(), 0, 0),
        }
    }

    fn timer(&self) -> &'a Timer {
        match self.target {
            Target::Key(_, timer, _) => timer,
            Target::State(limiter) => &limiter.timer,
        }
    }

    /// Looks whether the limit would admit, and writes nothing.
    #[inline]
    pub(super) fn look(&mut self, clock: impl Fn(&Timer) -> (u64, u32)) -> bool {
        let (now, tick) = clock(self.timer());
        let cost = self.total();
        let prepared = match self.target {
            Target::Key(table, _, hashed) => table.prepare(hashed, cost, now),
            Target::State(limiter) => limiter.prepare(cost, now),
        };
        match prepared {
            Some(prepared) => {
                self.progress = Progress::Prepared(prepared, tick);
                true
            }
            None => self.peek(now, tick),
        }
    }

    #[cold]
    fn peek(&mut self, now: u64, tick: u32) -> bool {
        let cost = self.total();
        let decision = match self.target {
            Target::Key(table, _, hashed) => {
                let place = table.place(hashed);
                table.peek(&Call::new(place, cost, now)).foreseen(cost, tick)
            }
            Target::State(limiter) => limiter.foresee(cost, now, tick),
        };
        self.progress = Progress::Told(decision, None);
        decision.is_allowed()
    }

    /// Charges the limit; false if it refuses after all.
    #[inline]
    pub(super) fn charge(&mut self, clock: impl Fn(&Timer) -> (u64, u32)) -> bool {
        if let Progress::Prepared(prepared, tick) = &self.progress
            && let Some(charge) = prepared.charge()
        {
            self.progress = Progress::Told(prepared.decision(*tick), Some(charge));
            return true;
        }
        self.charge_anew(clock(self.timer()))
    }

    #[cold]
    fn charge_anew(&mut self, (now, tick): (u64, u32)) -> bool {
        let cost = self.total();
        if cost == 0 {
            return true;
        }
        let (verdict, charge) = match self.target {
            Target::Key(table, _, hashed) => {
                let place = table.place(hashed);
                table.charge(&Call::new(place, cost, now))
            }
            Target::State(limiter) => limiter.charge(cost, now),
        };
        let decision = verdict.decision(cost, tick);
        self.progress = Progress::Told(decision, charge);
        decision.is_allowed()
    }

    /// Takes back what was charged.
    pub(super) fn take_back(&self, clock: impl Fn(&Timer) -> (u64, u32)) {
        let Some(charge) = self.charged() else { return };
        let now = || clock(self.timer()).0;
        match self.target {
            Target::Key(table, _, hashed) => table.take_back(&table.place(hashed), &charge, now),
            Target::State(limiter) => limiter.take_back(&charge, now),
        }
    }

    /// Counts the call where it was admitted by all, or refused by this one.
    #[inline]
    pub(super) fn count(&self, is_allowed: bool) {
        let decision = self.decided();
        if self.total() > 0 && decision.is_allowed() == is_allowed {
            match self.target {
                Target::Key(table, ..) => table.counts.decided(decision.outcome()),
                Target::State(limiter) => limiter.counts.decided(decision.outcome()),
            }
        }
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("cost", &self.cost).field("decision", &self.decided()).finish()
    }
}
