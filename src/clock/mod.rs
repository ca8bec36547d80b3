//! The clock: nanoseconds since a limiter was built.
//!
//! Every verb that reads a clock is shorthand for one that takes `now`. The choice of clock is a
//! value, not a type.

mod error;
mod manual;

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Instant, SystemTime};

pub use error::ClockError;
pub use manual::ManualClock;

use crate::probe::Site;
use crate::sync::{Acquire, Counter};

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
    /// The processor's counter.
    Ticks(quanta::Clock),
    /// The system's monotonic clock.
    System,
    /// The last reading of a thread that reads the clock every so often, while its handle lives.
    Coarse {
        tick: u64,
        upkeep: Weak<quanta::Handle>,
        clock: quanta::Clock,
    },
    Manual(Arc<Counter>),
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
        Clock(if kernel_trusts_counter() {
            Source::Ticks(quanta::Clock::new())
        } else {
            Source::System
        })
    }

    /// A clock that a thread in the background reads once per `tick`. Deciding then costs no
    /// clock read, and the processor can overlap one decision's cache misses with the next's. The
    /// price is a clock that is up to a tick behind: waits are rounded up to whole ticks.
    ///
    /// The thread runs until the last clone of the handle is dropped, which waits up to a tick for it
    /// to end. From then on limiters with this clock read the precise one. A process has one such
    /// thread at a time.
    ///
    /// # Errors
    ///
    /// [`ClockError`] if such a thread runs already with another tick or cannot be started, if the tick
    /// is not from 1 ns to a second, or if the kernel does not trust the processor's counter.
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
        let nanos = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 || tick > Duration::from_secs(1) {
            return Err(ClockError::Tick { tick });
        }
        if !kernel_trusts_counter() {
            return Err(ClockError::Counter);
        }
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let upkeep =
            match running.as_ref().and_then(|(tick, upkeep)| Some((*tick, upkeep.upgrade()?))) {
                Some((same, upkeep)) if same == nanos => upkeep,
                Some((other, _)) => {
                    return Err(ClockError::Running { tick: Duration::from_nanos(other) });
                }
                None => {
                    let upkeep =
                        quanta::Upkeep::new(tick).start().map_err(|_| ClockError::Start)?;
                    Arc::new(upkeep)
                }
            };
        *running = Some((nanos, Arc::downgrade(&upkeep)));
        let clock = quanta::Clock::new();
        let source = Source::Coarse { tick: nanos, upkeep: Arc::downgrade(&upkeep), clock };
        Ok((Clock(source), CoarseHandle { upkeep: Some(upkeep) }))
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
        let nanos = Arc::new(Counter::new(0));
        (Clock(Source::Manual(nanos.clone())), ManualClock { nanos })
    }

    /// Starts counting from now, and says when that is in nanoseconds since the Unix epoch; a
    /// manual clock starts at 0.
    pub(crate) fn start(&self) -> (Timer, u64) {
        let source = self.0.clone();
        let (ticks, instant) = match &source {
            Source::Ticks(clock) | Source::Coarse { clock, .. } => (clock.raw(), Instant::now()),
            Source::System | Source::Manual(_) => (0, Instant::now()),
        };
        let unix = match &source {
            Source::Manual(_) => 0,
            _ => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64),
        };
        let origin = quanta_origin(&source);
        (Timer { source, ticks, instant, origin }, unix)
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
            Source::Ticks(_) => f.write_str("Ticks"),
            Source::System => f.write_str("System"),
            Source::Coarse { tick, .. } => write!(f, "Coarse({tick} ns)"),
            Source::Manual(_) => f.write_str("Manual"),
        }
    }
}

/// The background thread of the process, if it runs: its tick and its handle.
static RUNNING: Mutex<Option<(u64, Weak<quanta::Handle>)>> = Mutex::new(None);

fn quanta_origin(source: &Source) -> Option<quanta::Instant> {
    match source {
        Source::Coarse { clock, .. } => Some(clock.now()),
        _ => None,
    }
}

/// A clock that was started.
#[derive(Debug)]
pub(crate) struct Timer {
    source: Source,
    ticks: u64,
    instant: Instant,
    origin: Option<quanta::Instant>,
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
        match &self.source {
            Source::Ticks(clock) => (clock.delta_as_nanos(self.ticks, clock.raw()), 1),
            other => self.read_other(other),
        }
    }

    /// The clocks that are not the default, out of the way of the one that is.
    #[inline(never)]
    fn read_other(&self, source: &Source) -> (u64, u32) {
        match source {
            Source::Coarse { clock, upkeep, tick } => {
                let Some(origin) = self.origin.filter(|_| upkeep.strong_count() > 0) else {
                    return (self.precise(), 1);
                };
                let since = clock.recent().saturating_duration_since(origin);
                // A tick is at most a second, which fits.
                (since.as_nanos() as u64, *tick as u32)
            }
            // Acquire: a thread that was told of a new time sees it. Pairs with the Release in
            // `ManualClock`.
            Source::Manual(nanos) => (nanos.load(Acquire.at("clock/read")), 1),
            Source::Ticks(_) | Source::System => (self.precise(), 1),
        }
    }

    /// The system's monotonic clock, from the same start.
    fn precise(&self) -> u64 {
        self.instant.elapsed().as_nanos() as u64
    }
}

/// Keeps the thread of [`Clock::coarse`] running.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
///
/// let (_clock, handle) = Clock::coarse(Duration::from_millis(1))?;
/// assert!(Clock::coarse(Duration::from_millis(2)).is_err());
/// drop(handle);
/// # Ok::<(), tollgate::ClockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "the clock is precise again when the handle is dropped"]
pub struct CoarseHandle {
    /// Always there but while the handle is being dropped.
    upkeep: Option<Arc<quanta::Handle>>,
}

impl Drop for CoarseHandle {
    fn drop(&mut self) {
        // Under the lock, so that whoever starts a clock meanwhile finds the thread running or
        // gone, not on its way.
        let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        self.upkeep = None;
    }
}

/// Whether the kernel keeps its own time by the processor's counter. The processor's word alone is
/// not enough: a kernel that found the counters of two cores apart says so here.
fn kernel_trusts_counter() -> bool {
    static TRUSTS: OnceLock<bool> = OnceLock::new();
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *TRUSTS.get_or_init(|| std::fs::read_to_string(SOURCE).is_ok_and(|name| name.trim() == "tsc"))
}
