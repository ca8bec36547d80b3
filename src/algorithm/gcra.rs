//! The generic cell rate algorithm: a theoretical arrival time in plain nanoseconds.
//!
//! **Definition.** One call per `interval`; the theoretical arrival time is when the next call is
//! due if calls come evenly. A call of some cost is admitted iff
//! `now >= theoretical arrival time + (cost - 1) * interval - tolerance`, and moves the
//! theoretical arrival time to `max(theoretical arrival time, now) + cost * interval`.
//!
//! **Source.** ITU-T I.371, annex A, virtual scheduling.
//!
//! **How.** Rearranged, what is owed and the cost must fit `tolerance + interval`: a token bucket
//! whose unit is the nanosecond whatever the quota, so `charge` and the answers are the token
//! bucket's. The word then means the same under every quota, which is what makes a quota per call
//! possible. The price: an interval of a fraction of a nanosecond is rounded up.
//!
//! **Worst case.** In any interval of length t: `(tolerance + t) / interval + 1`.

use core::time::Duration;

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Layout, OWED_MAX};
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;

pub(crate) fn lay_out(quota: &Quota) -> Result<Layout, QuotaError> {
    let period = quota.period_nanos()?;
    let (limit, burst) = (quota.limit(), quota.burst_size());
    if limit == 0 {
        // Time stands still, and a token is one unit of it.
        let fits = burst <= OWED_MAX;
        let layout = Layout {
            slope: Slope::ZERO,
            unit: 1,
            room: burst,
            count_bits: 0,
            shape: Shape::default(),
        };
        return fits.then_some(layout).ok_or(QuotaError::Burst { burst, burst_max: OWED_MAX });
    }
    if limit > period {
        return Err(QuotaError::Rate { limit, limit_max: period });
    }
    let interval = period.div_ceil(limit);
    if interval > OWED_MAX {
        return Err(QuotaError::Slow { interval: Duration::from_nanos(interval) });
    }
    let room = match quota.tolerance_nanos() {
        Some(tolerance) => tolerance.saturating_add(u128::from(interval)),
        None => u128::from(burst) * u128::from(interval),
    };
    let burst_max = OWED_MAX / interval;
    match u64::try_from(room) {
        Ok(room) if room <= OWED_MAX => Ok(Layout {
            slope: Slope::ONE,
            unit: interval,
            room,
            count_bits: 0,
            shape: Shape::default(),
        }),
        _ => Err(QuotaError::Burst { burst, burst_max }),
    }
}

/// The layout in which what is owed in nanoseconds is the same number of tokens.
pub(crate) fn lay_out_like(current: &Layout, quota: &Quota) -> Option<Layout> {
    let layout = lay_out(quota).ok()?;
    (layout.unit == current.unit && layout.slope == current.slope).then_some(layout)
}
