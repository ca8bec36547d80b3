//! What a limiter does with its permits.

/// What a limiter that is built for permits does with them.
///
/// The default gives back all of a permit that is dropped, and charges whatever its work has cost beyond
/// the estimate. It costs 16 bytes for each of the table's cells, 42 for a key of capacity: with them a
/// limiter takes at most 96 bytes a key. Plain checks on it cost no more than elsewhere.
///
/// ```
/// use tollgate::{KeyedLimiter, Permits, Quota};
///
/// // Five failed logins a minute: a permit that nobody cancels is a failure.
/// let logins: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_minute(5))
///     .permits(Permits::new().keep_dropped())
///     .build()?;
/// for _ in 0..100 {
///     logins.reserve("alice", 1)?.cancel(); // the password was right
/// }
/// for _ in 0..5 {
///     drop(logins.reserve("alice", 1)?); // it was wrong
/// }
/// assert!(logins.reserve("alice", 1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says what to do with permits; a builder takes it"]
pub struct Permits {
    pub(super) keeps_dropped: bool,
    /// Tokens.
    pub(super) debt: u64,
}

impl Permits {
    /// Permits that are given back when they are dropped, and debts without a bound.
    ///
    /// ```
    /// # use tollgate::Permits;
    /// assert_eq!(Permits::new(), Permits::default());
    /// ```
    pub const fn new() -> Permits {
        Permits { keeps_dropped: false, debt: u64::MAX }
    }

    /// A permit that is dropped without being settled has cost what was estimated. For work of which
    /// only the success is noticed.
    ///
    /// ```
    /// # use tollgate::{Limiter, Permits, Quota};
    /// let builder = Limiter::builder(Quota::per_hour(10)).permits(Permits::new().keep_dropped());
    /// let limiter = builder.build()?;
    /// drop(limiter.reserve(4)?);
    /// assert_eq!(limiter.peek().remaining(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn keep_dropped(self) -> Permits {
        Permits { keeps_dropped: true, ..self }
    }

    /// The most tokens by which work that has cost more than its estimate takes a key beyond its burst; 0
    /// for none. What it has cost beyond that is forgiven, and counted as
    /// [`unpaid`](crate::Stats::unpaid): a caller who always estimates too little then gets more than the
    /// quota in the long run. Without a bound (but for nine years of the rate) none does.
    ///
    /// Windows have no debts: what is left in the window is charged, the rest is unpaid.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Permits, Quota};
    /// let builder = Limiter::builder(Quota::per_hour(10)).permits(Permits::new().debt(5));
    /// let limiter = builder.clock(Clock::manual().0).build()?;
    /// let permit = limiter.reserve(10)?;
    /// assert_eq!(permit.commit(17), 2);
    /// assert_eq!(limiter.stats().unpaid, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn debt(self, tokens: u64) -> Permits {
        Permits { debt: tokens, ..self }
    }
}

impl Default for Permits {
    fn default() -> Permits {
        Permits::new()
    }
}
