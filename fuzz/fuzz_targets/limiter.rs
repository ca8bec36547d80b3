//! One state under any quotas, operations and times: the engine says what the reference says.
#![no_main]

#[path = "../../tests/it/reference.rs"]
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
mod reference;

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use reference::Reference;
use tollgate::{Algorithm, Clock, Limiter, Quota};

#[derive(Arbitrary, Debug)]
struct Input {
    algorithm: u8,
    quota: Numbers,
    steps: Vec<(u64, Step)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Numbers {
    limit: u64,
    period: u64,
    burst: u64,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Check(u64),
    Refund(u64),
    Reset,
    SetQuota(Numbers),
}

fn quota(numbers: Numbers) -> Quota {
    Quota::new(numbers.limit, Duration::from_nanos(numbers.period)).burst(numbers.burst)
}

fuzz_target!(|input: Input| {
    let algorithms =
        [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket, Algorithm::FixedWindow];
    let algorithm = algorithms[usize::from(input.algorithm) % algorithms.len()];
    let first = quota(input.quota);
    let builder = Limiter::builder(first).algorithm(algorithm).clock(Clock::manual().0);
    let Ok(limiter) = builder.build() else { return };
    let mut reference = Reference::new(algorithm, first);
    for (now, step) in input.steps.into_iter().take(50) {
        match step {
            Step::Check(cost) => {
                let (ours, right) = (limiter.check_at(cost, now), reference.check(cost, now));
                assert_eq!(ours.is_allowed(), right.allowed);
                assert_eq!(ours.remaining(), right.remaining);
                let wait = ours.retry_after().map(|wait| wait.as_nanos() as u64);
                assert_eq!(wait, right.retry_after);
            }
            Step::Refund(tokens) => {
                limiter.refund_at(tokens, now);
                reference.peek(0, now);
                reference.refund(tokens, now);
            }
            Step::Reset => {
                limiter.reset();
                reference.reset();
            }
            Step::SetQuota(numbers) => {
                if limiter.set_quota_at(quota(numbers), now).is_ok() {
                    reference.set_quota(quota(numbers), now);
                }
            }
        }
    }
});
