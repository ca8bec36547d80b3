//! A place in a line.

use core::fmt;
use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::cell::Charge;
use crate::decision::{Outcome, Verdict};
use crate::probe::mutant;
use crate::reach::Reach;
use crate::target::Target;
use crate::terms::{Reading, Terms};
use crate::wait::error::WaitError;

/// A place in the line of a key: tokens that are charged already, and the turn at which they may be
/// spent. What [`Limiter::until_ready`](crate::Limiter::until_ready) and
/// [`Limiter::wait`](crate::Limiter::wait) sleep for; by itself for those who have a loop of their
/// own.
///
/// Turns of a key come in the order of the charges, whatever they cost, and no call that does not wait
/// comes before one that does. What leaves at its turn and what is admitted without waiting is
/// together at most `burst + t * limit / period` in any interval of length t.
///
/// * **Dropped before its turn** it gives its tokens back if nobody stands behind it, by one swap;
///   otherwise they are lost, and the others keep their turns. Who leaves last first loses
///   nothing. Where all leave in random order, 1.7 places come back on average, however many there
///   were: the line then stands empty until its end has come.
/// * **Dropped after its turn** it gives nothing back. `refund` does, as after a check, but not while a
///   line stands.
/// * **Forgotten** (`mem::forget`) it costs its tokens and nothing else: nobody waits for anybody.
/// * **A faster rate or a larger burst** brings all turns forward, a slower or smaller one back, beyond
///   the longest wait if need be; the order stays. Who sleeps is not woken by it, but by its timer:
///   until then, tokens that are its own may lie unused.
/// * **A change to other units** (see [`set_quota`](crate::Limiter::set_quota)) carries places over as
///   it does what keys owe. A place that is dropped afterwards lapses. Who has slept through more than
///   four such changes stands at the present end of the line, without being charged again.
/// * **A key that is reset** has all its tokens again; those who stand in its line leave at their turns
///   nevertheless. A key with a line is not evicted from a full table.
/// * **Calls and refunds that bring a quota of their own** (`check_with`, `refund_with`) judge the line
///   by their own burst, and one with a larger burst may pass it. Whoever waits has the limiter's.
/// * **A call that may take on a debt** (`check_in_debt`) passes a line that is no longer than its debt; what
///   leaves and is admitted is then within the bound above and the largest debt.
/// * **A clock that steps back** makes the wait longer by the step, one that jumps forward lets all go
///   whose turns have passed.
///
/// It borrows the limiter. A task that outlives its scope holds an `Arc` of the limiter and borrows
/// from that.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(2).burst(1)).clock(Clock::manual().0).build()?;
/// let second = Duration::from_secs(1);
/// let mut first = limiter.line_up(1, second)?;
/// let mut next = limiter.line_up(1, second)?;
/// assert_eq!(first.remaining()?, None);
/// assert_eq!(next.remaining()?, Some(Duration::from_millis(500)));
/// assert_eq!(next.remaining_at(500_000_000)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a turn that is dropped before it comes is given up"]
pub struct Turn<'a> {
    target: Target<'a>,
    /// Nothing if there is no turn to wait for, or no more.
    charge: Option<Charge>,
    cost: u64,
    /// The key's time after the charge, in units of the publication `sequence`.
    end: u64,
    sequence: u64,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        target: Target<'a>,
        cost: u64,
        max: Duration,
        now: u64,
    ) -> Result<Turn<'a>, WaitError> {
        let algorithm = target.policy().algorithm();
        if !algorithm.is_bucket() {
            return Err(WaitError::Algorithm { algorithm });
        }
        if cost == 0 {
            return Ok(Turn { target, charge: None, cost, end: 0, sequence: 0 });
        }
        let longest = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        // Before the charge, so that whoever sees the line knows that there may be one.
        if !mutant("line: not marked") {
            target.policy().let_owe_beyond();
        }
        let (verdict, charge) = target.charge(Reach::Nanos(longest), cost, now);
        target.counts().decided(verdict.outcome);
        if matches!(verdict.outcome, Outcome::Refused | Outcome::RefusedFull) {
            return Err(refusal(&verdict, cost, max));
        }
        let (end, sequence) = charge.map_or((0, 0), |made| (made.word.time(), made.sequence));
        Ok(Turn { target, charge, cost, end, sequence })
    }

    /// How long until the turn comes; `None` once it has. Never earlier than it should, by the limiter's
    /// clock: ask again after a sleep.
    ///
    /// # Errors
    ///
    /// [`WaitError::Never`] if the quota was changed meanwhile to a burst below the cost, or to a
    /// limit of 0, before the turn came.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// # use std::time::Duration;
    /// let limiter = Limiter::new(Quota::per_hour(1))?;
    /// let mut turn = limiter.line_up(1, Duration::ZERO)?;
    /// assert_eq!(turn.remaining()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remaining(&mut self) -> Result<Option<Duration>, WaitError> {
        self.remaining_at(self.target.timer().now())
    }

    /// [`remaining`](Turn::remaining) at a time of the caller's, in nanoseconds of the limiter.
    ///
    /// # Errors
    ///
    /// As [`remaining`](Turn::remaining).
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// # use std::time::Duration;
    /// let limiter = Limiter::new(Quota::per_second(1).burst(1))?;
    /// limiter.check_at(1, 0);
    /// let mut turn = limiter.line_up_at(1, Duration::from_secs(1), 0)?;
    /// assert_eq!(turn.remaining_at(999_999_999)?, Some(Duration::from_nanos(1)));
    /// assert_eq!(turn.remaining_at(1_000_000_000)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remaining_at(&mut self, now: u64) -> Result<Option<Duration>, WaitError> {
        if self.charge.is_none() {
            return Ok(None);
        }
        let (terms, reading) = self.bring_up(now);
        let (unit, room) = (terms.layout.unit, terms.layout.room);
        match terms.turn_in(self.end, &reading, self.cost) {
            Some(0) => {
                self.charge = None;
                Ok(None)
            }
            Some(wait) if self.cost.saturating_mul(unit) <= room => {
                Ok(Some(Duration::from_nanos(wait)))
            }
            _ => Err(WaitError::Never { cost: self.cost, burst: room / unit }),
        }
    }

    /// Leaves the line, as dropping does, at a time of the caller's.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// # use std::time::Duration;
    /// let limiter = Limiter::new(Quota::per_second(1).burst(1))?;
    /// limiter.check_at(1, 0);
    /// let turn = limiter.line_up_at(1, Duration::from_secs(1), 0)?;
    /// turn.give_up_at(0);
    /// assert!(limiter.check_at(1, 1_000_000_000).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up_at(mut self, now: u64) {
        self.leave(now);
    }

    fn leave(&mut self, now: u64) {
        // A turn that no longer comes is given up like one that has yet to come.
        if self.remaining_at(now) == Ok(None) {
            return;
        }
        let Some(charge) = self.charge.take() else { return };
        let (terms, reading) = self.target.moment(now);
        if terms.epoch() != charge.word.epoch() {
            return;
        }
        // Of two epochs on, this is not the unit of the charge; but its word is gone then.
        let units = charge.cost.saturating_mul(terms.layout.unit);
        let after = charge.word.time().checked_sub(units);
        if let Some(after) = after.filter(|&after| after >= reading.position) {
            self.target.give_up(&charge, after);
        }
    }

    /// The terms in force and a moment under them, with the place in their units.
    fn bring_up(&mut self, now: u64) -> (Terms, Reading) {
        let (mut terms, mut reading) = self.target.moment(now);
        if let Some(end) = self.target.policy().bring_up(self.end, self.sequence, &terms) {
            self.end = end;
        } else {
            (self.end, terms, reading) = self.target.time(now);
        }
        self.sequence = terms.sequence;
        (terms, reading)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.charge.is_some() {
            self.leave(self.target.timer().now());
        }
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { cost, charge, .. } = self;
        f.debug_struct("Turn").field("cost", cost).field("waits", &charge.is_some()).finish()
    }
}

/// Why a call has not been let into the line.
fn refusal(verdict: &Verdict, cost: u64, max: Duration) -> WaitError {
    let Verdict { outcome, algorithm, answer } = verdict;
    if *outcome == Outcome::RefusedFull {
        let retry_after = answer.restored_in().map(|nanos| Duration::from_nanos(nanos.max(1)));
        return WaitError::Full { retry_after };
    }
    let Some(fits_in) = answer.wait(cost) else {
        return WaitError::Never { cost, burst: answer.limit() };
    };
    let wait = match algorithm {
        Algorithm::LeakyBucket if fits_in > 0 => {
            return WaitError::Full { retry_after: Some(Duration::from_nanos(fits_in)) };
        }
        // When all before it has left.
        Algorithm::LeakyBucket => answer.restored_in(),
        _ => Some(fits_in),
    };
    match wait.map(Duration::from_nanos) {
        Some(wait) => WaitError::TooLong { wait, max },
        None => WaitError::Never { cost, burst: answer.limit() },
    }
}
