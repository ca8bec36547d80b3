//! The clock: nanoseconds since a limiter was built.
//!
//! Every verb that reads a clock is shorthand for one that takes `now`. The choice of clock is a
//! value, not a type.

mod coarse;
mod error;
mod manual;

use core::cell::Cell;
use core::fmt;
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

pub use coarse::CoarseHandle;
pub use error::ClockError;
pub use manual::ManualClock;

use coarse::Coarse;

use crate::probe::Site;
use crate::sync::{Acquire, Nanos};

/// Where a limiter takes the time from.
///
/// | clock | a read costs | granularity |
/// |---|---|---|
/// | [`Clock::precise`] (default) | about 10 ns by the processor's counter, 20 ns by the system | 1 ns |
/// | [`Clock::coarse`] | about 1 ns | as asked for |
/// | [`Clock::manual`] | a load | by hand |
///
/// A limiter never trusts its clock: one that stands still, steps back, or jumps mints nothing.
/// After a step back a key may be refused for as long as the step.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    /// The processor's counter, and how long its ticks are.
    Ticks(quanta::Clock, Scale),
    /// The system's monotonic clock.
    System,
    /// The last reading of a thread, while its handle lives.
    Coarse(Coarse),
    Manual(Arc<Nanos>),
}

impl Clock {
    /// The processor's time-stamp counter where the kernel itself keeps time by it, else the
    /// system's monotonic clock.
    ///
    /// ```
    /// # use tollgate::{Clock, Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(Clock::precise()).build()?;
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn precise() -> Clock {
        let clock = kernel_trusts_counter().then(quanta::Clock::new);
        let ticks = clock.and_then(|clock| {
            let scale = Scale::of(&clock)?;
            Some(Source::Ticks(clock, scale))
        });
        Clock(ticks.unwrap_or(Source::System))
    }

    /// A clock that a thread in the background reads once per `tick`. Deciding then costs no
    /// clock read, and the processor can overlap one decision's cache misses with the next's. The
    /// price is a clock that is up to a tick behind: waits are rounded up to whole ticks.
    ///
    /// Clones of the clock share the thread, which runs until the last clone of the handle is dropped.
    /// From then on limiters with this clock read the precise one. A forked process has no such thread:
    /// its clock stands still until the handle is dropped there.
    ///
    /// # Errors
    ///
    /// [`ClockError`] if the tick is not from 100 us (below that a thread cannot be relied upon to wake)
    /// to a second, or if the thread cannot be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Limiter, Quota};
    ///
    /// let (clock, handle) = Clock::coarse(Duration::from_millis(1))?;
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(clock).build()?;
    /// assert!(limiter.check().is_allowed());
    /// drop(handle); // back on the precise clock
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn coarse(tick: Duration) -> Result<(Clock, CoarseHandle), ClockError> {
        let range = Duration::from_micros(100)..=Duration::from_secs(1);
        let nanos = u32::try_from(tick.as_nanos()).ok().filter(|_| range.contains(&tick));
        let nanos = nanos.ok_or(ClockError::Tick { tick })?;
        let (coarse, handle) = Coarse::start(nanos).map_err(|_| ClockError::Start)?;
        Ok((Clock(Source::Coarse(coarse)), handle))
    }

    /// A clock that stands still until it is moved, for tests and simulations. It starts at 0, and
    /// windows are aligned to that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Limiter, Quota};
    ///
    /// let (clock, time) = Clock::manual();
    /// let limiter = Limiter::builder(Quota::per_second(1)).clock(clock).build()?;
    /// assert!(limiter.check().is_allowed());
    /// assert!(!limiter.check().is_allowed());
    /// time.advance(Duration::from_secs(1));
    /// assert!(limiter.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn manual() -> (Clock, ManualClock) {
        let nanos = Arc::new(Nanos::new(0));
        (Clock(Source::Manual(nanos.clone())), ManualClock { nanos })
    }

    /// Starts counting from now, and says when that is in nanoseconds since the Unix epoch; a
    /// manual clock starts at 0.
    pub(crate) fn start(&self) -> (Timer, u64) {
        let source = self.0.clone();
        let start = match &source {
            Source::Ticks(clock, _) => clock.raw(),
            Source::Coarse(coarse) => coarse.elapsed(),
            Source::System | Source::Manual(_) => 0,
        };
        let unix = match &source {
            Source::Manual(_) => 0,
            _ => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64),
        };
        (Timer { source, start, instant: Instant::now() }, unix)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::precise()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Ticks(..) => f.write_str("Ticks"),
            Source::System => f.write_str("System"),
            Source::Coarse(coarse) => write!(f, "Coarse({} ns)", coarse.tick()),
            Source::Manual(_) => f.write_str("Manual"),
        }
    }
}

/// The length of a tick, less than a nanosecond: 2^-64 parts of one. One multiplication, where
/// quanta's own conversion takes that and a shift of 128 bits by a variable.
#[derive(Clone, Copy, Debug)]
struct Scale(u64);

impl Scale {
    /// As long a span as can be counted on, to have the length to 62 bits: a hundred years of the
    /// fastest counter are off by less than a microsecond.
    const SPAN: u64 = 1 << 62;

    /// `None` for a counter that is slower than a tick a nanosecond.
    fn of(clock: &quanta::Clock) -> Option<Scale> {
        let nanos = clock.delta_as_nanos(0, Scale::SPAN);
        (nanos < Scale::SPAN).then_some(Scale(nanos << 2))
    }

    #[inline]
    fn nanos(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.0)) >> 64) as u64
    }
}

/// A clock that was started.
#[derive(Debug)]
pub(crate) struct Timer {
    source: Source,
    /// What the source said at the start, in ticks or nanoseconds.
    start: u64,
    instant: Instant,
}

impl Timer {
    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.read().0
    }

    /// Nanoseconds since the start, and the step in which the clock moves.
    #[inline]
    pub(crate) fn read(&self) -> (u64, u32) {
        // One after the other, not a match, which would jump by a table.
        if let Source::Ticks(clock, scale) = &self.source {
            return (scale.nanos(clock.raw().saturating_sub(self.start)), 1);
        }
        if let Source::Coarse(coarse) = &self.source
            && let Some(nanos) = coarse.last()
        {
            // The last reading may be from before the start.
            return (nanos.saturating_sub(self.start), coarse.tick());
        }
        (self.read_slowly(), 1)
    }

    /// [`read`](Timer::read) at the moment of a call that asks several limiters.
    #[inline]
    pub(crate) fn read_at(&self, moment: &Moment) -> (u64, u32) {
        if let Source::Ticks(clock, scale) = &self.source {
            let ticks = moment.0.get().unwrap_or_else(|| clock.raw());
            moment.0.set(Some(ticks));
            return (scale.nanos(ticks.saturating_sub(self.start)), 1);
        }
        self.read()
    }

    /// A manual clock, or the system's monotonic clock.
    #[inline(never)]
    fn read_slowly(&self) -> u64 {
        match &self.source {
            // Acquire: a thread that was told of a new time sees it. Pairs with the Release in
            // `ManualClock`.
            Source::Manual(nanos) => nanos.load(Acquire.at("clock/read")),
            // Nobody reads the clock for all any more. From the same origin, so that it does not step.
            Source::Coarse(coarse) => coarse.elapsed().saturating_sub(self.start),
            _ => self.instant.elapsed().as_nanos() as u64,
        }
    }
}

/// What the processor's counter says at the moment of a call, read by the first of its limiters: a read
/// takes as long as the rest of a decision in the cache.
#[derive(Debug, Default)]
pub(crate) struct Moment(Cell<Option<u64>>);

/// Whether the kernel keeps its own time by the processor's counter. The processor's word alone is
/// not enough: a kernel that found the counters of two cores apart says so here.
fn kernel_trusts_counter() -> bool {
    static TRUSTS: OnceLock<bool> = OnceLock::new();
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *TRUSTS.get_or_init(|| std::fs::read_to_string(SOURCE).is_ok_and(|name| name.trim() == "tsc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same nanoseconds as by quanta's own conversion, for decades.
    #[test]
    #[cfg_attr(miri, ignore = "quanta asks the processor, which Miri has not")]
    fn ticks_are_as_long_as_quanta_says() {
        let clock = quanta::Clock::new();
        let Some(scale) = Scale::of(&clock) else { return };
        for ticks in (0..61).flat_map(|bits| [1_u64 << bits, (1 << bits) + 1, (1 << bits) - 1]) {
            let (ours, theirs) = (scale.nanos(ticks), clock.delta_as_nanos(0, ticks));
            assert!(ours.abs_diff(theirs) <= 1, "{ticks} ticks: {ours} ns, {theirs} ns");
        }
    }
}
