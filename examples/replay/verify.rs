//! The limiters' decisions, held against those of a naive reference.

use std::collections::HashMap;
use std::fmt;

use tollgate::{Algorithm, Decision, Quota};

use crate::access_log::Record;
use crate::reference::{Answer, Reference};

/// How many differences are kept to be printed.
pub const KEPT_DIFFERENCES: usize = 10;

/// A decision reduced to what the limiter and the reference must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    allowed: bool,
    remaining: u64,
    /// In nanoseconds; `None` is never.
    retry_after: Option<u128>,
}

impl From<&Decision> for Verdict {
    fn from(decision: &Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after().map(|wait| wait.as_nanos()),
        }
    }
}

impl From<Answer> for Verdict {
    fn from(answer: Answer) -> Self {
        Self {
            allowed: answer.allowed,
            remaining: answer.remaining,
            retry_after: answer.retry_after.map(u128::from),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.allowed { "admitted" } else { "refused" };
        write!(formatter, "{word}, {} left, retry ", self.remaining)?;
        match self.retry_after {
            Some(wait) => write!(formatter, "after {wait} ns"),
            None => write!(formatter, "never"),
        }
    }
}

/// A request on which a limiter and the reference disagree.
pub struct Difference {
    /// Which request of all it is.
    pub position: u64,
    /// Where it came from: a file's name, or the sample.
    pub source: String,
    /// The request.
    pub record: Record,
    /// What the limiter said.
    pub ours: Verdict,
    /// What the reference said.
    pub reference: Verdict,
}

/// The reference to one algorithm, with a state for each client.
pub struct Verifier {
    algorithm: Algorithm,
    quota: Quota,
    clients: HashMap<String, Reference>,
    position: u64,
    first: Vec<Difference>,
    total: u64,
}

impl Verifier {
    /// A reference that has seen no client yet.
    pub fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let (clients, first) = (HashMap::new(), Vec::new());
        Self { algorithm, quota, clients, position: 0, first, total: 0 }
    }

    /// Decides a chunk of requests again, and takes note of the decisions that differ.
    pub fn compare(
        &mut self,
        source: &str,
        chunk: &[Record],
        nows: &[u64],
        decisions: &[Decision],
    ) {
        for ((record, &now), decision) in chunk.iter().zip(nows).zip(decisions) {
            self.position += 1;
            let client = self.clients.entry(record.client.clone());
            let client = client.or_insert_with(|| Reference::new(self.algorithm, self.quota));
            let (ours, reference) = (Verdict::from(decision), client.check(1, now).into());
            if ours == reference {
                continue;
            }
            self.total += 1;
            if self.first.len() < KEPT_DIFFERENCES {
                self.first.push(Difference {
                    position: self.position,
                    source: source.to_owned(),
                    record: record.clone(),
                    ours,
                    reference,
                });
            }
        }
    }

    /// The first differences.
    pub fn first(&self) -> &[Difference] {
        &self.first
    }

    /// How many decisions differed altogether.
    pub fn total(&self) -> u64 {
        self.total
    }
}
