//! Costs that are known only afterwards: an estimate is charged, and settled when the work is done.

mod detached;
mod error;
mod keyed;
mod limiter;
mod permit;
mod permits;

pub use detached::DetachedPermit;
pub use error::{ReserveError, SettleError};
pub use permit::Permit;
pub use permits::Permits;

use crate::cell::Charge;
use crate::decision::Outcome;
use crate::reach::Reach;
use crate::target::Target;

/// Charges an estimate for a permit.
fn reserve(
    target: Target<'_>,
    estimate: u64,
    (now, tick): (u64, u32),
) -> Result<Permit<'_>, ReserveError> {
    if target.books().is_none() {
        return Err(ReserveError::WithoutPermits);
    }
    if estimate == 0 {
        return Ok(Permit::new(target, None, 0));
    }
    let (verdict, charge) = target.reserve(estimate, now);
    target.counts().decided(verdict.outcome);
    if verdict.outcome.is_allowed() {
        Ok(Permit::new(target, charge, estimate))
    } else {
        Err(ReserveError::Refused(verdict.decision(estimate, tick)))
    }
}

/// Makes a charge of `estimate` one of `actual`, and says what could not be charged.
fn settle(
    target: Target<'_>,
    charge: Option<&Charge>,
    (estimate, actual): (u64, u64),
    clock: impl Fn() -> u64,
) -> u64 {
    if actual <= estimate {
        if let Some(charge) = charge.filter(|_| actual < estimate) {
            target.settle(charge, estimate - actual, clock);
        }
        return 0;
    }
    let unpaid = owe(target, actual - estimate, clock());
    if unpaid > 0 {
        target.counts().unpaid(unpaid);
    }
    unpaid
}

/// Charges tokens without asking, as far as the limiter lets its permits go into debt; what is beyond
/// that it returns.
fn owe(target: Target<'_>, tokens: u64, now: u64) -> u64 {
    let debt = target.books().map_or(0, |books| books.permits.debt);
    if target.policy().algorithm().is_bucket() && debt > 0 {
        target.policy().let_owe_beyond();
    }
    let mut ask = tokens;
    while ask > 0 {
        let (verdict, _) = target.charge(Reach::Debt(debt), ask, now);
        match verdict.outcome {
            Outcome::Admitted => break,
            // What was there then; less by each turn of the loop, whatever others do.
            Outcome::Refused => ask = verdict.answer.remaining().min(ask - 1),
            Outcome::AdmittedFull | Outcome::RefusedFull => ask = 0,
        }
    }
    tokens - ask
}
