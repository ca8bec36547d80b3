//! Several limits in one call: all of them admit, or nothing is charged.
//!
//! ```text
//!   asks of one limit for one key        become one, at the sum of their costs
//!   look at each                         one refuses: answer; nothing was written
//!   charge each, in one order for all    one refuses after all: take back what was charged, answer
//! ```
//!
//! The order is that of the addresses of the keys' buckets, and in a bucket of the keys' tags: the same
//! for every call, whatever order the caller gives. In the callers' orders two calls that want the same two
//! tokens could refuse each other, and nobody would pass; in one order, whoever is refused late was
//! outrun by a call that either passes or was outrun further on, so that the last of them passes.
//!
//! What another thread can see is said at [`check_all`].

mod ask;
mod decision;

pub use ask::Ask;
pub use decision::JointDecision;
pub(crate) use decision::Spare;

use core::cmp::Ordering;

use crate::clock::{Moment, Timer};
use crate::probe::{mutant, step};

/// Asks several limits at once: all of them admit and are charged, or none is.
///
/// Each [`Ask`] is a limit, a key and a cost; they may be of different limiters, algorithms, clocks
/// and costs, and any number (nothing is allocated). If two ask the same limiter for the same key,
/// their costs are added up. An ask of cost 0 is looked at and not charged. Afterwards each ask has
/// the [`decision`](Ask::decision) of its own limit.
///
/// **Cost.** About that of a check for each limit, as the processor's counter is read once for all of them;
/// a fifth more for windows and for buckets whose interval is no whole number of nanoseconds, two thirds
/// more for sliding logs (`cargo bench --bench joint`). A refusal by
/// one limit writes to none.
///
/// **What others see.** Every limit holds for everybody at every moment. But the call is not one
/// moment: another thread may find the first limits charged and the next ones not yet. If a limit
/// refuses after all, as another thread has come between look and charge, the charges before it are
/// taken back, by the time since (see [`KeyedLimiter::refund`](crate::KeyedLimiter::refund) for the
/// difference): until then those limits look fuller by them, so that a call of that moment may be
/// refused for tokens that nobody keeps, never admitted for tokens that are not there. What time has
/// earned back meanwhile is lost: at most the rate times the duration of this call. Of a sliding log
/// nothing is taken back; logs are charged last, so that only a call with two of them loses its cost in
/// the first, until it ages. A thread that dies inside has spent what it had charged. A key that had to be
/// put in may have evicted another.
///
/// Calls with many limits can be refused late again and again by calls with fewer; that somebody is
/// admitted meanwhile is certain.
///
/// ```
/// use tollgate::{KeyedLimiter, Limiter, Quota, check_all};
///
/// let by_address: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(10))?;
/// let by_account: KeyedLimiter<u64> = KeyedLimiter::new(Quota::per_hour(2))?;
/// let global = Limiter::new(Quota::per_second(10_000))?;
///
/// let ask = || {
///     check_all(&mut [by_address.ask("10.0.0.1", 1), by_account.ask(&7, 1), global.ask(1)])
/// };
/// assert!(ask().is_allowed());
/// assert_eq!(ask().remaining(), 0);
/// let third = ask();
/// assert_eq!(third.refused_by(), Some(1));
/// assert!(third.retry_after() > Some(std::time::Duration::from_secs(1_700)));
/// assert_eq!(by_address.peek("10.0.0.1").remaining(), 8);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[inline]
pub fn check_all(asks: &mut [Ask<'_>]) -> JointDecision {
    let moment = Moment::default();
    decide(asks, |timer| timer.read_at(&moment), Timer::read)
}

/// [`check_all`] at a time of the caller's, in nanoseconds since each limiter was built.
///
/// ```
/// use tollgate::{Limiter, Quota, check_all_at};
///
/// let (often, rarely) = (Limiter::new(Quota::per_second(1))?, Limiter::new(Quota::per_hour(2))?);
/// let mut asks = [often.ask(1), rarely.ask(1)];
/// assert!(check_all_at(&mut asks, 0).is_allowed());
/// assert_eq!(check_all_at(&mut asks, 999_999_999).refused_by(), Some(0));
/// assert!(check_all_at(&mut asks, 1_000_000_000).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub fn check_all_at(asks: &mut [Ask<'_>], now: u64) -> JointDecision {
    decide(asks, |_| (now, 1), |_| (now, 1))
}

/// `clock` reads the clocks at the moment of the call, `later` as they are then.
#[inline]
fn decide(
    asks: &mut [Ask<'_>],
    clock: impl Fn(&Timer) -> (u64, u32),
    later: impl Fn(&Timer) -> (u64, u32),
) -> JointDecision {
    let are_merged = arrange(asks);
    let mut admitted = true;
    for ask in asks.iter_mut().filter(|ask| ask.leads()) {
        admitted &= ask.look(&clock);
    }
    step("joint: looked");
    if admitted {
        charge_all(asks, &clock, &later);
    }
    if are_merged {
        tell_followers(asks);
    }
    let joint = JointDecision::of(asks);
    for ask in asks.iter().filter(|ask| ask.leads()) {
        ask.count(joint.is_allowed());
    }
    joint
}

/// Ranks the asks, and has those of one limit and one key be asked as one; whether there are such.
#[inline]
fn arrange(asks: &mut [Ask<'_>]) -> bool {
    let mut are_merged = false;
    asks.iter_mut().for_each(Ask::begin);
    for later in 1..asks.len() {
        let (before, rest) = asks.split_at_mut(later);
        let Some(ask) = rest.first_mut() else { break };
        for (at, one) in before.iter_mut().enumerate() {
            match one.order().cmp(&ask.order()) {
                _ if mutant("joint: in the caller's order") => ask.step_back(),
                Ordering::Less => ask.step_back(),
                Ordering::Greater => one.step_back(),
                Ordering::Equal if one.leads() => {
                    one.lead(ask, at);
                    are_merged = true;
                }
                Ordering::Equal => {}
            }
        }
    }
    are_merged
}

/// Charges all in order, unless one refuses after all: then those before it are as they were.
#[inline]
fn charge_all(
    asks: &mut [Ask<'_>],
    clock: impl Fn(&Timer) -> (u64, u32),
    later: impl Fn(&Timer) -> (u64, u32),
) {
    for turn in 0..asks.len() {
        // Two that are asked as one have one rank, and leave the next without an ask.
        let Some(next) = asks.iter().position(|ask| ask.is_next(turn)) else { continue };
        step("joint: charges");
        if !asks[next].charge(&clock) {
            take_all_back(asks, next, &later);
            return;
        }
    }
}

#[cold]
#[inline(never)]
fn take_all_back(asks: &mut [Ask<'_>], refusing: usize, clock: impl Fn(&Timer) -> (u64, u32)) {
    step("joint: takes back");
    let refusal = asks[refusing].decision();
    for ask in asks.iter_mut().filter(|ask| ask.leads()) {
        if !mutant("joint: nothing is taken back") {
            ask.take_back(&clock);
        }
        // What the others say now, and not before they were charged.
        ask.look(&clock);
    }
    asks[refusing].tell(refusal);
}

/// Gives each ask that another one has asked for the decision that it was told.
#[cold]
#[inline(never)]
fn tell_followers(asks: &mut [Ask<'_>]) {
    for at in 0..asks.len() {
        if let Some(leader) = asks[at].leader() {
            let told = asks[leader].decision();
            asks[at].tell(told);
        }
    }
}
