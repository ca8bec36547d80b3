//! Right beside fast: how many calls each limiter admits in cases whose answer is known.
//!
//! Time is given, not waited for. The right number is the reference limiter's, the one that the
//! engine's tests compare with.

mod cases;
mod peers;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Serialize, Serializer};
use tollgate::{Algorithm, Quota};

use crate::reference::Reference;
use peers::PEERS;

pub use cases::cases;

/// Calls on one state that has done nothing yet.
pub struct Case {
    pub name: &'static str,
    pub quota: Quota,
    /// When, in nanoseconds, and at what cost.
    pub calls: Vec<(u64, u64)>,
}

/// What was found of one case.
#[derive(Serialize)]
pub struct Finding {
    pub case: &'static str,
    pub quota: String,
    pub right: usize,
    pub answers: Vec<Answer>,
}

/// How many calls a limiter admitted, or why it could not be asked.
#[derive(Serialize)]
pub struct Answer {
    pub peer: &'static str,
    #[serde(serialize_with = "number_or_reason")]
    pub admitted: Result<usize, String>,
}

fn number_or_reason<S: Serializer>(
    admitted: &Result<usize, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match admitted {
        Ok(number) => serializer.serialize_u64(*number as u64),
        Err(reason) => serializer.serialize_str(reason),
    }
}

/// Limiters that take part by no clock but the real one, in which no nanosecond can be met.
pub const REAL_CLOCK_ONLY: [&str; 2] = ["leaky-bucket", "pingora-limits"];

/// Tries all cases on everyone.
pub fn find(cases: &[Case]) -> Vec<Finding> {
    // A peer that panics is told by its answer.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let findings = cases.iter().map(find_one).collect();
    std::panic::set_hook(hook);
    findings
}

fn find_one(case: &Case) -> Finding {
    let mut reference = Reference::new(Algorithm::TokenBucket, case.quota);
    let right = case.calls.iter().filter(|&&(now, cost)| reference.check(cost, now).allowed);
    let answers = PEERS.map(|(peer, make)| {
        let run = || {
            let mut ask = make(case.quota)?;
            Ok(case.calls.iter().filter(|&&(now, cost)| ask(now, cost)).count())
        };
        let admitted = catch_unwind(AssertUnwindSafe(run));
        Answer { peer, admitted: admitted.unwrap_or_else(|_| Err("panics".to_owned())) }
    });
    Finding {
        case: case.name,
        quota: case.quota.to_string(),
        right: right.count(),
        answers: answers.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_never_wrong() {
        let mut refused = Vec::new();
        for finding in find(&cases()) {
            let ours = &finding.answers[0];
            match &ours.admitted {
                Ok(admitted) => assert_eq!(*admitted, finding.right, "{}", finding.case),
                Err(_) => refused.push(finding.case),
            }
        }
        // More than nine years of tokens: an error when the limiter is built.
        assert_eq!(refused, ["a burst of 584 years"]);
    }
}
