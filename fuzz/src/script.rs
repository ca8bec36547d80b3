//! Scripts: what the fuzzer writes, read as a limiter and the calls on it.
//!
//! Fields have fixed places, so that a mutation of one leaves the others alone, and every number
//! has a byte beside it that says how many of its bits count, so that small numbers are as likely
//! as large ones. Whatever the bytes are, they are a script. Numbers are little-endian.
//!
//! ```text
//!   head, 8:   | algorithm | overflow | ring - 1 | cost - 1 | buckets | seed | - | - |
//!   quota, 28: | kind | bits of limit | of period | of burst | limit:8 | period:8 | burst:8 |
//!   step, 24:  | verb | key | move | cost | bits of move | of cost | - | - | move:8 | cost:8 |
//!
//!   script:    | head | 4 quotas | steps |
//! ```

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use tollgate::{Algorithm, Overflow, Quota};

const HEAD: usize = 8;
const STEP: usize = 24;

/// How many quotas a script has; it starts with the first.
pub const QUOTAS: usize = 4;

/// Steps of a script that are done: what comes after would take long and find little.
const STEPS_MAX: usize = 100;

pub const OVERFLOWS: [Overflow; 3] = [Overflow::EvictNearest, Overflow::Refuse, Overflow::Admit];

/// A limiter and the calls on it.
#[derive(Clone, Debug)]
pub struct Script {
    pub algorithm: Algorithm,
    pub overflow: Overflow,
    /// The largest limit and cost of a sliding log.
    pub ring: u64,
    pub cost_max: u64,
    /// Buckets of the table.
    pub buckets: usize,
    pub seed: u64,
    pub quotas: [Quota; QUOTAS],
    pub steps: Vec<Step>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub verb: Verb,
    pub key: u8,
    pub by: Move,
    pub cost: Cost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Check,
    Peek,
    Refund,
    Reset,
    /// One of the script's quotas.
    SetQuota(usize),
    /// A check under one of the script's quotas, where the algorithm has that; else a check.
    CheckWith(usize),
    /// The keys from this one on, as many as the cost says and a token each.
    CheckMany,
}

/// Where the clock goes before the call.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Forward(u64),
    Back(u64),
    To(u64),
    /// To the end of the wait that the last refusal named, or to a nanosecond before.
    Due,
    NearlyDue,
    /// To the moment at which the last answer said that all is back, or to a nanosecond before.
    Restored,
    NearlyRestored,
    /// To the next multiple of the period, and a few nanoseconds to either side.
    Edge(i8),
}

/// What the call costs, or gives back.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Tokens(u64),
    /// All that the quota ever admits.
    Most,
    /// What the last answer said remains, or one more.
    Rest,
    TooMuch,
}

/// Fields from the front; zeros when there are no more.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let first = self.0.split_off_first();
        first.copied().unwrap_or(0)
    }

    fn number(&mut self, bits: u8) -> u64 {
        let bytes = [(); 8].map(|()| self.byte());
        let bits = u32::from(bits) % (u64::BITS + 1);
        u64::from_le_bytes(bytes) & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
    }
}

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Script> {
        Ok(read(input.bytes(input.len())?))
    }
}

/// Reads a script.
pub fn read(bytes: &[u8]) -> Script {
    let mut head = Reader(bytes);
    let [algorithm, overflow, ring, cost_max, buckets, seed, _, _] =
        [(); HEAD].map(|()| head.byte());
    let algorithm = Algorithm::ALL[usize::from(algorithm) % Algorithm::ALL.len()];
    let ring = u64::from(ring) + 1;
    let quotas = [(); QUOTAS].map(|()| {
        let quota = read_quota(&mut head);
        match algorithm {
            // A ring has no room for more, whatever the bytes say.
            Algorithm::SlidingWindowLog if quota.limit() > ring => {
                Quota::new(quota.limit() % (ring + 1), quota.period())
            }
            _ => quota,
        }
    });
    Script {
        algorithm,
        overflow: OVERFLOWS[usize::from(overflow) % OVERFLOWS.len()],
        ring,
        cost_max: u64::from(cost_max) % ring + 1,
        buckets: usize::from(buckets) % 2 + 1,
        seed: seed.into(),
        quotas,
        steps: head.0.chunks_exact(STEP).take(STEPS_MAX).map(read_step).collect(),
    }
}

fn read_quota(from: &mut Reader<'_>) -> Quota {
    let [kind, bits @ ..] = [(); 4].map(|()| from.byte());
    let [limit, period, burst] = bits.map(|bits| from.number(bits));
    let quota = Quota::new(limit, Duration::from_nanos(period));
    match kind % 3 {
        0 => quota.burst(burst),
        1 => quota,
        // The reference counts a burst in tokens, so the tolerance is a whole number of them.
        _ => Quota::gcra(
            Duration::from_nanos(period),
            Duration::from_nanos(period.saturating_mul(burst)),
        ),
    }
}

fn read_step(bytes: &[u8]) -> Step {
    let mut bytes = Reader(bytes);
    let [verb, key, by, cost, by_bits, cost_bits, _, _] = [(); 8].map(|()| bytes.byte());
    let (distance, tokens) = (bytes.number(by_bits), bytes.number(cost_bits));
    let quota = usize::from(verb >> 4) % QUOTAS;
    Step {
        verb: match verb % 16 {
            0..6 => Verb::Check,
            6..8 => Verb::Peek,
            8..10 => Verb::Refund,
            10 => Verb::Reset,
            11..14 => Verb::SetQuota(quota),
            14 => Verb::CheckWith(quota),
            _ => Verb::CheckMany,
        },
        key,
        by: match by % 8 {
            0 => Move::Forward(distance),
            1 => Move::Back(distance),
            2 => Move::To(distance),
            3 => Move::Due,
            4 => Move::NearlyDue,
            5 => Move::Restored,
            6 => Move::NearlyRestored,
            _ => Move::Edge(distance as i8 % 3),
        },
        cost: match cost % 8 {
            0 => Cost::Tokens(tokens),
            1 => Cost::Most,
            2 => Cost::Rest,
            3 => Cost::TooMuch,
            small => Cost::Tokens(u64::from(small % 4 + 1) / 2 + 1),
        },
    }
}
