//! What the workloads and the report of `ci/count.sh` share.

/// Decisions in the measured part of each workload: ten rounds of [`KEYS`], 320 batches of 32.
pub const DECISIONS: u64 = 10_240;

/// Known keys.
pub const KEYS: u64 = 1_024;
