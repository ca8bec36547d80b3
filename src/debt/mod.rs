//! What a key may owe beyond its burst: a debt that a call takes on, a penalty, a ban.
//!
//! All three are in the key's word, as a time that is further ahead of the clock than the burst allows,
//! and pass as time does. While a key owes more than its burst, every call that costs something is
//! refused, and nothing lowers the word but time and `reset`: no refund and no roll-back shortens a ban.

mod error;
mod keyed;
mod limiter;

pub use error::DebtError;

use crate::decision::{Decision, Outcome, Verdict};
use crate::probe::mutant;
use crate::reach::Reach;
use crate::target::Target;

/// A check that may take on so much debt.
fn check(
    target: Target<'_>,
    cost: u64,
    debt: u64,
    (now, tick): (u64, u32),
) -> Result<Decision, DebtError> {
    begin(&target)?;
    if cost == 0 {
        return Ok(target.peek(0, (now, tick)));
    }
    let verdict = charge(target, Reach::Debt(debt), cost, now);
    target.counts().decided(verdict.outcome);
    Ok(verdict.decision(cost, tick))
}

fn penalize(target: Target<'_>, tokens: u64, now: u64) -> Result<(), DebtError> {
    begin(&target)?;
    if tokens == 0 {
        nothing(&target);
        return Ok(());
    }
    let verdict = charge(target, Reach::Penalty, tokens, now);
    if verdict.outcome == Outcome::Refused {
        // More than a word can tell is as much as it can.
        return ban(target, u64::MAX, now);
    }
    put_down(&verdict)
}

fn ban(target: Target<'_>, until: u64, now: u64) -> Result<(), DebtError> {
    begin(&target)?;
    if until <= now {
        nothing(&target);
        return Ok(());
    }
    put_down(&charge(target, Reach::Ban(until), 0, now))
}

/// A penalty of nothing, or a ban that is over: no key is made for it, and none evicted. The rules for keys
/// that may owe more than their burst hold from it on, as from any other.
fn nothing(target: &Target<'_>) {
    target.policy().let_owe_beyond();
}

/// Whether the keys of a limiter can owe.
fn begin(target: &Target<'_>) -> Result<(), DebtError> {
    let algorithm = target.policy().algorithm();
    if !algorithm.is_bucket() {
        return Err(DebtError::Algorithm { algorithm });
    }
    Ok(())
}

/// Charges beyond the burst, on a limiter that is marked before as one whose keys owe so much.
fn charge(target: Target<'_>, reach: Reach, cost: u64, now: u64) -> Verdict {
    let is_late = mutant("debt: marked late");
    if !is_late {
        target.policy().let_owe_beyond();
    }
    let (verdict, _) = target.charge(reach, cost, now);
    if is_late {
        target.policy().let_owe_beyond();
    }
    verdict
}

fn put_down(verdict: &Verdict) -> Result<(), DebtError> {
    match verdict.outcome {
        Outcome::Admitted | Outcome::Refused => Ok(()),
        Outcome::AdmittedFull | Outcome::RefusedFull => Err(DebtError::Full),
    }
}
