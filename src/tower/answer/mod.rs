//! What answers tell clients of their limits.
//!
//! * `style.rs`: the headers of each style, beside those of a layer inside;
//! * `refusal.rs`: a refusal's body, and when to come back;
//! * `grpc.rs`: the same for gRPC.

pub(super) mod grpc;
mod name;
pub(super) mod refusal;
mod style;
#[cfg(test)]
mod vectors;

use core::time::Duration;

pub use name::{PolicyError, PolicyName};
pub use refusal::RetryAfter;
pub(super) use style::write_headers;
pub use style::{EXPOSE_HEADERS, HeaderStyle};

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::quota::Quota;
use crate::tower::rule::Rule;

/// What one rule says of a request.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) name: PolicyName,
    /// Until the request is admitted, if it is refused; `None` for never.
    pub(super) wait: Option<Duration>,
    pub(super) is_violated: bool,
    /// What headers say of it; nothing if they say nothing.
    pub(super) numbers: Option<Numbers>,
}

/// What all rules say of a request: most often it is one.
pub(super) type ToldAll = SmallVec<[Told; 1]>;

/// What headers say of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// The quota: so many tokens, and in how many seconds if these are whole.
    pub(super) policy: (u64, Option<u64>),
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// Until there is one more, and until all are there.
    pub(super) next: Option<Duration>,
    pub(super) reset: Option<Duration>,
}

impl Told {
    /// What a rule has said, with what headers of this style say of it.
    pub(super) fn new(
        rule: &Rule,
        decision: &Decision,
        is_violated: bool,
        style: HeaderStyle,
    ) -> Told {
        // A request that is refused although its limit has room waits for its turn to leave a queue.
        let wait =
            if decision.is_allowed() { decision.reset_after() } else { decision.retry_after() };
        let is_told = style != HeaderStyle::Off && !rule.hides_quota;
        let numbers = is_told.then(|| Numbers::of(&rule.limiter.quota(), decision));
        Told { name: rule.name.clone(), wait, is_violated, numbers }
    }
}

impl Numbers {
    pub(super) fn of(quota: &Quota, decision: &Decision) -> Numbers {
        Numbers {
            policy: policy(quota),
            limit: decision.limit(),
            remaining: decision.remaining(),
            next: decision.next_after(),
            reset: decision.reset_after(),
        }
    }
}

/// A quota in tokens and whole seconds. Where the burst is more than the limit it is what can be had, in the
/// time in which it is back.
fn policy(quota: &Quota) -> (u64, Option<u64>) {
    let (limit, burst, period) = (quota.limit(), quota.burst_size(), quota.period());
    let whole = |nanos: u128| {
        let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
        (nanos.is_multiple_of(1_000_000_000) && seconds > 0).then_some(seconds)
    };
    if burst <= limit || limit == 0 {
        return (limit, whole(period.as_nanos()));
    }
    let nanos = period.as_nanos().checked_mul(burst.into());
    let exact = nanos.filter(|nanos| nanos.is_multiple_of(limit.into()));
    (burst, exact.and_then(|nanos| whole(nanos / u128::from(limit))))
}

/// The longest wait of those that refuse; `None` if it is for ever.
pub(super) fn longest_wait(told: &[Told]) -> Option<Duration> {
    let violated = told.iter().filter(|told| told.is_violated);
    violated.map(|told| told.wait).try_fold(Duration::ZERO, |most, wait| Some(most.max(wait?)))
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}
