//! Several limits in one call: all of them admit, or nothing is charged.
//!
//! ```text
//!   asks of one limit for one key        become one, at the sum of their costs
//!   look at each                         one refuses: answer; nothing was written
//!   charge each, in one order for all    one refuses after all: take back what was charged, answer
//! ```
//!
//! The order is that of the limiters' addresses, and of the keys' hashes in them: the same for every
//! call, whatever order the caller gives. In the callers' orders two calls that want the same two
//! tokens could refuse each other, and nobody would pass; in one order, whoever is refused late was
//! outrun by a call that either passes or was outrun further on, so that the last of them passes.
//!
//! What another thread can see is said at [`check_all`].

mod ask;
mod decision;

pub use ask::Ask;
pub use decision::JointDecision;

use crate::clock::Timer;
use crate::probe::{mutant, step};

/// Asks several limits at once: all of them admit and are charged, or none is.
///
/// Each [`Ask`] is a limit, a key and a cost; they may be of different limiters, algorithms, clocks
/// and costs, and any number (nothing is allocated). If two ask the same limiter for the same key,
/// their costs are added up. An ask of cost 0 is looked at and not charged. Afterwards each ask has
/// the [`decision`](Ask::decision) of its own limit.
///
/// **Cost.** About that of a check for each limit. A refusal by one limit writes to none.
///
/// **What others see.** Every limit holds for everybody at every moment. But the call is not one
/// moment: another thread may find the first limits charged and the next ones not yet. If a limit
/// refuses after all, as another thread has come between look and charge, the charges before it are
/// taken back, by the time since (see [`KeyedLimiter::refund`](crate::KeyedLimiter::refund) for the
/// difference): until then those limits look fuller by them, so that a call of that moment may be
/// refused for tokens that nobody keeps, never admitted for tokens that are not there. What time has
/// earned back meanwhile is lost: at most the rate times the duration of this call. A sliding log's
/// entries cannot be taken out: there the whole cost is lost until it ages. A thread that dies inside
/// has spent what it had charged. A key that had to be put in may have evicted another.
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
pub fn check_all(asks: &mut [Ask<'_>]) -> JointDecision {
    decide(asks, Timer::read)
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
    decide(asks, |_| (now, 1))
}

#[inline]
fn decide(asks: &mut [Ask<'_>], clock: impl Fn(&Timer) -> (u64, u32)) -> JointDecision {
    ask::merge(asks);
    let mut admitted = true;
    for ask in asks.iter_mut().filter(|ask| ask.leads()) {
        admitted &= ask.look(&clock);
    }
    step("joint: looked");
    let late = if admitted { charge_all(asks, &clock) } else { None };
    ask::answer(asks);
    let joint = JointDecision::of(asks, late);
    for ask in asks.iter().filter(|ask| ask.leads()) {
        ask.count(joint.is_allowed());
    }
    joint
}

/// Charges all in order; which one refuses after all, when those before it are as they were.
#[inline]
fn charge_all(asks: &mut [Ask<'_>], clock: impl Fn(&Timer) -> (u64, u32)) -> Option<usize> {
    let mut last = None;
    while let Some(next) = after(asks, last) {
        step("joint: charges");
        if !asks[next].charge(&clock) {
            take_all_back(asks, next, &clock);
            return Some(next);
        }
        last = Some(next);
    }
    None
}

#[cold]
fn take_all_back(asks: &mut [Ask<'_>], refusing: usize, clock: impl Fn(&Timer) -> (u64, u32)) {
    let refused = asks[refusing].decided();
    for ask in asks.iter_mut().filter(|ask| ask.leads()) {
        if !mutant("joint: nothing is taken back") {
            ask.take_back(&clock);
        }
        // What the others say now, and not before they were charged.
        ask.look(&clock);
    }
    asks[refusing].decide(refused);
}

/// The ask to charge after the one at `last`, in the order that is one for all calls.
#[inline]
fn after(asks: &[Ask<'_>], last: Option<usize>) -> Option<usize> {
    if mutant("joint: in the caller's order") {
        return (last.map_or(0, |last| last + 1)..asks.len()).find(|&at| asks[at].leads());
    }
    let last = last.map(|last| asks[last].order());
    let rest = asks.iter().enumerate().filter(|(_, ask)| ask.leads());
    rest.map(|(at, ask)| (ask.order(), at))
        .filter(|(order, _)| last.is_none_or(|last| *order > last))
        .min()
        .map(|(_, at)| at)
}
