//! Exact linear time: how many units pass in so many nanoseconds.
//!
//! A rate of `numerator / denominator` units a nanosecond is kept as a whole part and a 128-bit
//! fraction, rounded up. For any 64-bit number of nanoseconds the product is then exact to the
//! unit: with e < 1 the rounding of the fraction, `elapsed * e / 2^128` is below `2^-64`, less
//! than the distance `1 / denominator` of any other sum from the next unit. Two multiplies, no
//! division, nothing accumulates. (The reciprocal of 64 bits that one would reach for first is one
//! unit short at every whole period of 3 a second.)

/// A rate in units per nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slope {
    pub(crate) whole: u64,
    pub(crate) high: u64,
    pub(crate) low: u64,
}

/// Units passed, and the fraction of the next one in 2^-128.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) units: u64,
    pub(crate) fraction: u128,
}

impl Slope {
    pub(crate) const ONE: Slope = Slope { whole: 1, high: 0, low: 0 };
    pub(crate) const ZERO: Slope = Slope { whole: 0, high: 0, low: 0 };

    /// `numerator / denominator` units a nanosecond, or `None` where the whole part does not fit.
    pub(crate) fn new(numerator: u128, denominator: u128) -> Option<Slope> {
        debug_assert!(denominator > 0 && denominator <= u128::from(u64::MAX));
        let whole = u64::try_from(numerator / denominator).ok()?;
        let rest = numerator % denominator;
        // Long division in two steps of 64 bits; every rest is below the denominator, so each
        // shifted rest fits 128 bits and each digit fits 64.
        let high = (rest << 64) / denominator;
        let rest = (rest << 64) % denominator;
        let (low, rest) = ((rest << 64) / denominator, (rest << 64) % denominator);
        // A rest means that the fraction is not a multiple of 2^-128, so rounding up cannot carry
        // out of it: it is at most 1 - 1/denominator.
        let fraction = (high << 64 | low) + u128::from(rest > 0);
        Some(Slope { whole, high: (fraction >> 64) as u64, low: fraction as u64 })
    }

    /// Whether nothing ever passes: a limit of 0.
    pub(crate) fn is_zero(self) -> bool {
        self == Slope::ZERO
    }

    /// Whether a unit is a whole number of nanoseconds, or time stands still.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.high | self.low == 0
    }

    /// Units that pass in `elapsed` nanoseconds when `start` (in 2^-64 units) has passed before.
    /// Saturates.
    #[inline]
    pub(crate) fn units(self, elapsed: u64, start: u64) -> u64 {
        if self.is_whole() {
            // Nothing ever completes the unit that has begun.
            return elapsed.saturating_mul(self.whole);
        }
        self.passed(elapsed, start).units
    }

    /// As [`units`](Slope::units), with the fraction.
    #[inline]
    pub(crate) fn passed(self, elapsed: u64, start: u64) -> Passed {
        let elapsed = u128::from(elapsed);
        let low = elapsed * u128::from(self.low);
        // At most (2^64-1)^2 + 2^64 - 1 + 2^64 - 1 = 2^128 - 1: no carry is lost.
        let high = elapsed * u128::from(self.high) + (low >> 64) + u128::from(start);
        let whole = elapsed * u128::from(self.whole);
        let units = whole.saturating_add(high >> 64);
        Passed {
            units: if units >> 64 == 0 { units as u64 } else { u64::MAX },
            fraction: high << 64 | low & u128::from(u64::MAX),
        }
    }

    /// The first `elapsed` at which [`units`](Slope::units) reaches `target`, or `None` if it
    /// never does within 64 bits of nanoseconds. For slopes from 1/2 up (and 0), which is what
    /// quotas are laid out with.
    pub(crate) fn first_at(self, target: u64, start: u64) -> Option<u64> {
        if target == 0 {
            return Some(0);
        }
        let per_nanosecond = u128::from(self.whole) << 64 | u128::from(self.high);
        if per_nanosecond == 0 {
            return None;
        }
        // The divisor leaves out the low 64 bits of the fraction. From a slope of 1/2 up that is
        // less than 2^-63 of it, so over 2^64 nanoseconds the quotient is at most two too large;
        // it is never more than one too small.
        let scaled = (u128::from(target) << 64) - u128::from(start);
        let mut elapsed = u64::try_from(scaled / per_nanosecond).unwrap_or(u64::MAX);
        while elapsed > 0 && self.units(elapsed - 1, start) >= target {
            elapsed -= 1;
        }
        while self.units(elapsed, start) < target {
            elapsed = elapsed.checked_add(1)?;
        }
        Some(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates that do not divide a second, at whole periods and next to them, up to the ends.
    #[test]
    fn product_is_exact_and_inverse_is_its_inverse() {
        let rates: [(u128, u128); 7] = [
            (3 * 333_333_333, 1_000_000_000),
            (7 * 8_571_428_571, 60_000_000_000),
            (997 * 1_003_009, 1_000_000_000),
            (25, 2),
            (1, 1),
            (u128::from(u64::MAX) - 1, u128::from(u64::MAX)),
            ((1 << 63) + 1, u128::from(u64::MAX)),
        ];
        for (numerator, denominator) in rates {
            let slope = Slope::new(numerator, denominator).unwrap();
            let period = denominator as u64;
            for periods in [0, 1, 2, 3, 1_000, 1 << 20] {
                let Some(at) = period.checked_mul(periods) else { continue };
                for elapsed in [at.saturating_sub(1), at, at.saturating_add(1), u64::MAX] {
                    let exact = u128::from(elapsed) * (numerator / denominator)
                        + mul_div(elapsed, numerator % denominator, denominator);
                    let exact = u64::try_from(exact).unwrap_or(u64::MAX);
                    assert_eq!(slope.units(elapsed, 0), exact);
                    if exact < u64::MAX {
                        let first = slope.first_at(exact, 0).unwrap();
                        assert!(slope.units(first, 0) >= exact && first <= elapsed);
                        assert!(first == 0 || slope.units(first - 1, 0) < exact);
                    }
                }
            }
        }
    }

    fn mul_div(a: u64, b: u128, c: u128) -> u128 {
        // b < c <= 2^64, so the product fits.
        u128::from(a) * b / c
    }

    #[test]
    fn time_that_stands_still_is_never_reached() {
        assert_eq!(Slope::ZERO.first_at(1, 0), None);
        assert_eq!(Slope::ZERO.units(u64::MAX, 7), 0);
        assert_eq!(Slope::new(u128::MAX, 1), None);
    }
}
