//! What a full table does.

/// What a full table does with a key that has no cell.
///
/// A table is full for a key when all 31 cells of the key's bucket hold live keys. While no more
/// than `capacity` keys are live, two in ten million find that. Idle keys are never in the way.
///
/// ```
/// use tollgate::{KeyedLimiter, Overflow, Quota};
///
/// let limiter: KeyedLimiter<str> =
///     KeyedLimiter::builder(Quota::per_second(10)).overflow(Overflow::Refuse).build()?;
/// assert!(limiter.check("key").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overflow {
    /// Forgets the key of the bucket with the least to lose, the one that is nearest to idle, and
    /// takes its cell. What that key still owed is forgiven, and counted in
    /// [`Stats::evicted`](crate::Stats::evicted). A flood of one-shot keys evicts itself first.
    /// A key in whose line calls wait ([`Turn`](crate::Turn)) is not forgotten; where all keys of the
    /// bucket have lines, the call is refused.
    #[default]
    EvictNearest,
    /// Refuses the call, and counts it in [`Stats::refused_full`](crate::Stats::refused_full).
    Refuse,
    /// Admits the call unlimited, and counts it in
    /// [`Stats::admitted_full`](crate::Stats::admitted_full).
    Admit,
}
