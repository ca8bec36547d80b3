//! Programs for `compose`: two limits with permits, and calls on them. Whatever the bytes are, they are one.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use tollgate::{Algorithm, Quota};

/// Fewer than a bucket has cells.
pub const KEYS: u8 = 8;
const STEPS_MAX: usize = 100;

#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Check,
    /// With so much debt.
    InDebt(u64),
    Penalize,
    /// For so many nanoseconds.
    Ban(u64),
    Reserve,
    ReserveDetached,
    /// The permit at a place among those that are out, at the step's cost.
    Settle(usize),
    /// The permit at a place, without a word.
    Drop(usize),
    Reset,
    /// Both limits, at these costs.
    CheckAll([u64; 2]),
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Nanoseconds since the last one.
    pub after: u64,
    /// Which of the two limits.
    pub limit: usize,
    pub key: u8,
    pub cost: u64,
    pub verb: Verb,
}

/// A number of any size up to so many bits.
fn number(input: &mut Unstructured<'_>, bits: u32) -> arbitrary::Result<u64> {
    let shift = 64 - input.int_in_range(0..=bits)?;
    Ok(u64::arbitrary(input)?.checked_shr(shift).unwrap_or(0))
}

impl<'a> Arbitrary<'a> for Step {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Step> {
        let verb = match input.int_in_range(0..=13)? {
            0..3 => Verb::Check,
            3 => Verb::InDebt(number(input, 8)?),
            4 => Verb::Penalize,
            5 => Verb::Ban(number(input, 40)?),
            6..8 => Verb::Reserve,
            8 => Verb::ReserveDetached,
            9..11 => Verb::Settle(usize::arbitrary(input)?),
            11 => Verb::Drop(usize::arbitrary(input)?),
            12 => Verb::Reset,
            _ => Verb::CheckAll([number(input, 6)?, number(input, 6)?]),
        };
        Ok(Step {
            after: number(input, 36)?,
            limit: input.int_in_range(0..=1)?,
            key: input.int_in_range(0..=KEYS - 1)?,
            cost: number(input, 17)?,
            verb,
        })
    }
}

/// What a limit is built with.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub algorithm: Algorithm,
    pub quota: Quota,
    /// The debt of its permits.
    pub debt: u64,
}

impl<'a> Arbitrary<'a> for Terms {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Terms> {
        let algorithm = *input.choose(&[Algorithm::TokenBucket, Algorithm::Gcra])?;
        let (limit, period) = (number(input, 16)?, number(input, 36)?);
        let quota = Quota::new(limit, Duration::from_nanos(period)).burst(number(input, 16)?);
        Ok(Terms { algorithm, quota, debt: number(input, 8)? })
    }
}

/// Two limits, and the calls on them.
#[derive(Debug)]
pub struct Program {
    pub terms: [Terms; 2],
    pub steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Program {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Program> {
        let terms = [input.arbitrary()?, input.arbitrary()?];
        let mut steps = Vec::new();
        while steps.len() < STEPS_MAX && !input.is_empty() {
            steps.push(input.arbitrary()?);
        }
        Ok(Program { terms, steps })
    }
}
