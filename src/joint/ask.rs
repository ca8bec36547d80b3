//! One limit of a call that asks several.

use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::cell::Charge;
use crate::cell::Prepared;
use crate::clock::Timer;
use crate::decision::{Decision, Outcome};
use crate::joint::Spare;
use crate::keyed::KeyedLimiter;
use crate::limiter::Limiter;
use crate::settle::Permit;
use crate::target::Target;

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
pub struct Ask<'a> {
    target: Target<'a>,
    algorithm: Algorithm,
    order: Order,
    cost: u64,
    part: Part,
    /// How many of the call's asks come before it in the order.
    rank: usize,
    progress: Progress<'a>,
    /// Whether what was prepared has been charged.
    is_charged: bool,
}

/// What tells limits and keys apart, and orders them. Addresses stay while they are borrowed, so
/// that calls that overlap see one order. Logs come last, as nothing can be taken out of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    /// Half the address of the key's bucket, or of the limiter of one state; above it, whether it is a
    /// log.
    place: usize,
    tag: u64,
}

/// What an ask is among those of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It asks for so many tokens: its own, and those of who follows it.
    Leads(u64),
    /// The one at this place asks the same limit for the same key, and for this one with it.
    Follows(usize),
}

/// How far an ask has come.
enum Progress<'a> {
    Unasked,
    /// It admits, by a clock with this tick.
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
    #[inline]
    pub fn ask(&self, key: &K, cost: u64) -> Ask<'_> {
        let place = self.place(key);
        let address = core::ptr::from_ref(place.bucket).addr();
        let target = Target::Key(&self.table, &self.timer, place);
        Ask::new(target, (address, place.tag), cost)
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
    #[inline]
    pub fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::new(self.target(), (core::ptr::from_ref(self).addr(), 0), cost)
    }
}

impl<'a> Ask<'a> {
    #[inline]
    fn new(target: Target<'a>, (address, tag): (usize, u64), cost: u64) -> Ask<'a> {
        let algorithm = target.policy().algorithm();
        let is_log = usize::from(algorithm == Algorithm::SlidingWindowLog);
        // Both are aligned to more than a byte, so that nothing is lost.
        let order = Order { place: address >> 1 | is_log << (usize::BITS - 1), tag };
        let (part, rank, progress) = (Part::Leads(cost), 0, Progress::Unasked);
        Ask { target, algorithm, order, cost, part, rank, progress, is_charged: false }
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
    #[inline]
    pub fn decision(&self) -> Decision {
        match &self.progress {
            Progress::Unasked => Decision::default(),
            Progress::Prepared(prepared, tick) => {
                prepared.decision(self.algorithm, self.total(), *tick, self.is_charged)
            }
            Progress::Told(decision, _) => *decision,
        }
    }

    /// The permit of what an admitted call has charged, of a limiter that is built for
    /// [`permits`](crate::KeyedBuilder::permits): to be settled when the cost is known. Once: without it, or
    /// once it is taken, the charge stays. Of several asks for one key the first has the permit of all.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Limiter, Permits, Quota, check_all};
    ///
    /// let requests: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_minute(60))?;
    /// let tokens: KeyedLimiter<str> =
    ///     KeyedLimiter::builder(Quota::per_minute(100_000)).permits(Permits::new()).build()?;
    /// let mut asks = [requests.ask("tenant", 1), tokens.ask("tenant", 4_000)];
    /// assert!(check_all(&mut asks).is_allowed());
    /// let permit = asks[1].take_permit().expect("it was admitted");
    /// permit.commit(1_500);
    /// assert!(asks[0].take_permit().is_none(), "that one is built without");
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn take_permit(&mut self) -> Option<Permit<'a>> {
        self.target.books()?;
        let Progress::Told(_, charge) = &mut self.progress else { return None };
        let charge = charge.take()?;
        Some(Permit::new(self.target, Some(charge), charge.cost))
    }

    /// How it was answered, without its numbers.
    #[inline]
    pub(super) fn outcome(&self) -> Outcome {
        match &self.progress {
            Progress::Unasked => Outcome::Refused,
            Progress::Prepared(..) => Outcome::Admitted,
            Progress::Told(decision, _) => decision.outcome(),
        }
    }

    /// What can be spent after the call, or before it if it was refused.
    #[inline]
    pub(super) fn spare(&self) -> Spare {
        match &self.progress {
            Progress::Prepared(prepared, _) => {
                prepared.spare(if self.is_charged { self.total() } else { 0 })
            }
            _ => Spare { units: self.decision().remaining(), unit: 1 },
        }
    }

    /// How long its limit has the call held.
    #[inline]
    pub(super) fn delay(&self) -> Duration {
        let is_queue = self.algorithm == Algorithm::LeakyBucket;
        if is_queue { self.decision().delay() } else { Duration::ZERO }
    }

    /// What was charged and can be taken back.
    fn charged(&self) -> Option<Charge> {
        match &self.progress {
            Progress::Prepared(one, _) if self.is_charged => Some(one.charged(self.total())),
            Progress::Told(_, charge) => *charge,
            _ => None,
        }
    }

    /// Has it told what another was, or it itself before.
    pub(super) fn tell(&mut self, decision: Decision) {
        self.progress = Progress::Told(decision, None);
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Begins a call: first of all, on its own.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.part, self.rank, self.is_charged) = (Part::Leads(self.cost), 0, false);
    }

    /// One more of the call's asks comes before it.
    #[inline]
    pub(super) fn step_back(&mut self) {
        self.rank += 1;
    }

    /// Asks for another one that follows, too.
    pub(super) fn lead(&mut self, follower: &mut Ask<'_>, own: usize) {
        follower.part = Part::Follows(own);
        self.part = Part::Leads(self.total().saturating_add(follower.cost));
    }

    #[inline]
    pub(super) fn leads(&self) -> bool {
        matches!(self.part, Part::Leads(_))
    }

    /// The ask that asks for this one.
    pub(super) fn leader(&self) -> Option<usize> {
        if let Part::Follows(leader) = self.part { Some(leader) } else { None }
    }

    #[inline]
    pub(super) fn is_next(&self, turn: usize) -> bool {
        self.rank == turn && self.leads()
    }

    /// Tokens asked for, with those of who follows.
    #[inline]
    fn total(&self) -> u64 {
        if let Part::Leads(cost) = self.part { cost } else { 0 }
    }

    /// Looks whether the limit would admit, and writes nothing.
    #[inline]
    pub(super) fn look(&mut self, clock: impl Fn(&Timer) -> (u64, u32)) -> bool {
        let (now, tick) = clock(self.target.timer());
        let cost = self.total();
        let prepared = self.target.prepare(cost, now);
        self.is_charged = false;
        let Some(prepared) = prepared else { return self.look_otherwise(now, tick) };
        self.progress = Progress::Prepared(prepared, tick);
        true
    }

    #[inline(never)]
    fn look_otherwise(&mut self, now: u64, tick: u32) -> bool {
        let cost = self.total();
        if let Some(prepared) = self.target.prepare_otherwise(cost, now) {
            self.progress = Progress::Prepared(prepared, tick);
            return true;
        }
        let decision = self.target.peek(cost, (now, tick));
        self.tell(decision);
        decision.is_allowed()
    }

    /// Charges the limit; false if it refuses after all.
    #[inline]
    pub(super) fn charge(&mut self, clock: impl Fn(&Timer) -> (u64, u32)) -> bool {
        if let Progress::Prepared(prepared, _) = &self.progress
            && prepared.charge()
        {
            self.is_charged = true;
            return true;
        }
        self.charge_anew(clock(self.target.timer()))
    }

    #[cold]
    #[inline(never)]
    fn charge_anew(&mut self, (now, tick): (u64, u32)) -> bool {
        let cost = self.total();
        if cost == 0 {
            return true;
        }
        let (verdict, charge) = self.target.reserve(cost, now);
        let decision = verdict.decision(cost, tick);
        self.progress = Progress::Told(decision, charge);
        decision.is_allowed()
    }

    /// Takes back what was charged.
    pub(super) fn take_back(&self, clock: impl Fn(&Timer) -> (u64, u32)) {
        let Some(charge) = self.charged() else { return };
        self.target.take_back(&charge, || clock(self.target.timer()).0);
    }

    /// Counts the call where it was admitted by all, or refused by this one.
    #[inline]
    pub(super) fn count(&self, is_allowed: bool) {
        let outcome = self.outcome();
        if self.total() > 0 && outcome.is_allowed() == is_allowed {
            self.target.counts().decided(outcome);
        }
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("cost", &self.cost).field("decision", &self.decision()).finish()
    }
}
