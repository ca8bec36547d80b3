//! What a key may owe beyond its burst: a debt that a call takes on, a penalty, a ban.
//!
//! All three are in the key's word, as a time that is further ahead of the clock than the burst allows,
//! and pass as time does. While a key owes more than its burst, every call that costs something is
//! refused, and nothing lowers the word but time and `reset`: no refund and no roll-back shortens a ban.

mod error;
mod keyed;
mod limiter;

pub use error::DebtError;

use crate::decision::{Outcome, Verdict};
use crate::policy::Policy;

/// Whether the keys of a limiter can owe; marks it as one whose keys do.
fn begin(policy: &Policy) -> Result<(), DebtError> {
    let algorithm = policy.algorithm();
    if !algorithm.is_bucket() {
        return Err(DebtError::Algorithm { algorithm });
    }
    policy.let_owe_beyond();
    Ok(())
}

/// Whether a penalty or a ban was put down; `None` if it is more than a word can tell.
fn put_down(verdict: &Verdict) -> Option<Result<(), DebtError>> {
    match verdict.outcome {
        Outcome::Admitted => Some(Ok(())),
        Outcome::Refused => None,
        Outcome::AdmittedFull | Outcome::RefusedFull => Some(Err(DebtError::Full)),
    }
}
