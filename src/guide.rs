//! Longer texts than fit beside the code: which algorithm to take, and what holds each promise up.

#[doc = include_str!("../docs/algorithms.md")]
pub mod algorithms {}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("../docs/leases.md")]
pub mod leases {}

#[cfg(feature = "tower")]
#[doc = include_str!("../docs/http.md")]
pub mod http {}
