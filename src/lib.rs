#![doc = include_str!("../README.md")]

// In the order in which data flows: key, hash, bucket, cell, algorithm, decision.
mod builder;
mod clock;
mod debt;
mod limiter;

mod joint;
mod keyed;
mod settle;
mod target;
mod wait;

mod hash;
mod memory;
mod table;

mod cell;
mod word;

mod algorithm;
mod policy;
mod quota;
mod reach;
mod slope;
mod terms;

mod decision;
mod stats;

pub mod guide;

#[cfg(feature = "tower")]
pub mod tower;

#[cfg(any(tollgate_loom, tollgate_stops))]
pub mod probe;
#[cfg(not(any(tollgate_loom, tollgate_stops)))]
mod probe;
mod sync;

pub use algorithm::Algorithm;
pub use builder::{BuildError, Builder, KeyedBuilder, Overflow};
pub use clock::{Clock, ClockError, CoarseHandle, ManualClock};
pub use debt::DebtError;
pub use decision::Decision;
pub use hash::Hasher;
pub use joint::{Ask, JointDecision, check_all, check_all_at};
pub use keyed::KeyedLimiter;
pub use limiter::{LeaseDecision, LeaseError, LeaseHandle, LeasedLimiter, Leases, Limiter};
pub use quota::{Quota, QuotaError};
pub use settle::{DetachedPermit, Permit, Permits, ReserveError, SettleError};
pub use stats::Stats;
#[cfg(feature = "futures-timer")]
pub use wait::FuturesTimerSleeper;
#[cfg(feature = "tokio")]
pub use wait::TokioSleeper;
pub use wait::{Sleeper, Turn, WaitError, WaitOptions};
