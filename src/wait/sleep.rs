//! The loops that sleep until a turn comes.

use core::mem::take;
use core::time::Duration;

use crate::target::Target;
use crate::wait::error::WaitError;
use crate::wait::options::WaitOptions;
use crate::wait::sleeper::Sleeper;
use crate::wait::turn::Turn;

/// The longest sleep at a time, as not every timer can be set for years.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// Stands in line from the first poll on until the turn comes.
pub(super) async fn sleep_until_ready<S: Sleeper>(
    target: Target<'_>,
    cost: u64,
    sleeper: S,
    options: WaitOptions,
) -> Result<(), WaitError> {
    let mut turn = Turn::new(target, cost, options.max, target.timer().now())?;
    let mut extra = options.extra();
    while let Some(wait) = turn.remaining()? {
        sleeper.sleep(wait.saturating_add(take(&mut extra)).min(SLEEP_MAX)).await;
    }
    Ok(())
}

/// The same for a thread.
pub(super) fn block_until_ready(
    target: Target<'_>,
    cost: u64,
    options: WaitOptions,
) -> Result<(), WaitError> {
    let mut turn = Turn::new(target, cost, options.max, target.timer().now())?;
    let mut extra = options.extra();
    while let Some(wait) = turn.remaining()? {
        std::thread::sleep(wait.saturating_add(take(&mut extra)).min(SLEEP_MAX));
    }
    Ok(())
}
