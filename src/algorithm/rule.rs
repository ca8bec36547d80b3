//! What the one attempt of a decision needs of an algorithm: a copy of its own for each kind, so
//! that what is in force stays in registers.

use crate::algorithm::{Algorithm, Answer, fixed_window, sliding_counter, token_bucket};
use crate::decision::{Decision, Outcome};
use crate::policy::Policy;
use crate::terms::{Reading, Terms};

/// A kind of algorithm, and how it charges and answers.
pub(crate) trait Rule {
    /// The terms in force, unless they are another rule's. `algorithm` is the policy's own.
    fn load(policy: &Policy, algorithm: Algorithm) -> Option<Terms>;
    /// The moment `now` on their line, unless the range of the word runs low.
    fn read(terms: &Terms, now: u64) -> Option<Reading>;
    fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64>;
    fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer;

    /// The decision of a call that left its key at `time`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: it is written once, where it is asked for")]
    fn decision(
        (outcome, time): (Outcome, u64),
        (terms, reading): (&Terms, &Reading),
        cost: u64,
        tick: u32,
    ) -> Decision {
        let answer = Self::answer(terms, time, reading);
        Decision::new(outcome, terms.algorithm, answer, cost, tick)
    }
}

/// A bucket whose clock rises by a whole number of units a nanosecond.
pub(crate) struct WholeBuckets;

impl Rule for WholeBuckets {
    #[inline]
    fn load(policy: &Policy, algorithm: Algorithm) -> Option<Terms> {
        policy.load_whole(algorithm)
    }

    #[inline]
    fn read(terms: &Terms, now: u64) -> Option<Reading> {
        terms.read_whole_bucket(now)
    }

    #[inline]
    fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        token_bucket::charge(terms, time, reading, cost)
    }

    #[inline]
    fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
        Answer::WholeBucket(token_bucket::whole_answer(terms, time, reading))
    }
}

/// Any bucket.
pub(crate) struct Buckets;

impl Rule for Buckets {
    #[inline]
    fn load(policy: &Policy, _: Algorithm) -> Option<Terms> {
        Some(policy.load())
    }

    #[inline]
    fn read(terms: &Terms, now: u64) -> Option<Reading> {
        terms.read_bucket(now)
    }

    #[inline]
    fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        token_bucket::charge(terms, time, reading, cost)
    }

    #[inline]
    fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
        Answer::Bucket(token_bucket::answer(terms, time, reading))
    }
}

/// The fixed window and the sliding counter.
pub(crate) struct Windows;

impl Rule for Windows {
    #[inline]
    fn load(policy: &Policy, _: Algorithm) -> Option<Terms> {
        Some(policy.load())
    }

    #[inline]
    fn read(terms: &Terms, now: u64) -> Option<Reading> {
        terms.read_window(now)
    }

    #[inline]
    fn charge(terms: &Terms, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        match terms.algorithm {
            Algorithm::FixedWindow => fixed_window::charge(terms, time, reading, cost),
            _ => sliding_counter::charge(terms, time, reading, cost),
        }
    }

    #[inline]
    fn answer(terms: &Terms, time: u64, reading: &Reading) -> Answer {
        match terms.algorithm {
            Algorithm::FixedWindow => Answer::Window(fixed_window::answer(terms, time, reading)),
            _ => Answer::Sliding(sliding_counter::answer(terms, time, reading)),
        }
    }
}
