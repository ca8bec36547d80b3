//! A thread that reads the clock every so often, so that deciding needs no read of its own.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::probe::Site;
use crate::sync::{Counter, Relaxed};

/// What the last reading says once nobody reads the clock any more; 584 years otherwise.
const STOPPED: u64 = u64::MAX;

/// The last reading, shared by the thread and all limiters with its clock.
#[derive(Clone, Debug)]
pub(super) struct Coarse {
    /// Nanoseconds from `origin` to the last reading. On a line of its own, as the thread writes
    /// what every decision reads.
    nanos: Arc<CachePadded<Counter>>,
    origin: Instant,
    /// Nanoseconds; at most a second.
    tick: u32,
}

impl Coarse {
    /// Starts the thread.
    pub(super) fn start(tick: u32) -> io::Result<(Coarse, CoarseHandle)> {
        let nanos = Arc::new(CachePadded::new(Counter::new(0)));
        let coarse = Coarse { nanos, origin: Instant::now(), tick };
        let (stop, stopped) = mpsc::channel();
        let own = coarse.clone();
        Builder::new().name("tollgate-clock".into()).spawn(move || {
            let tick = Duration::from_nanos(own.tick.into());
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                own.raise(own.elapsed());
            }
        })?;
        let ticking = Ticking { coarse: coarse.clone(), _stop: stop };
        Ok((coarse, CoarseHandle { _ticking: Arc::new(ticking) }))
    }

    #[inline]
    pub(super) fn tick(&self) -> u32 {
        self.tick
    }

    /// Nanoseconds from the origin to now.
    pub(super) fn elapsed(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Nanoseconds from the origin to the last reading, while the thread runs.
    #[inline]
    pub(super) fn last(&self) -> Option<u64> {
        // Relaxed: a number by itself. A thread that was told of a reading reads no earlier one, as
        // all that is read here is one place.
        let nanos = self.nanos.load(Relaxed.at("clock/coarse"));
        (nanos != STOPPED).then_some(nanos)
    }

    /// Never lower than it was: what was stopped stays so.
    fn raise(&self, nanos: u64) {
        // Relaxed: as in `last`.
        self.nanos.fetch_max(nanos, Relaxed.at("clock/coarse_raise"));
    }
}

/// Keeps the thread of [`Clock::coarse`](crate::Clock::coarse) running.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
///
/// let (clock, handle) = Clock::coarse(Duration::from_millis(1))?;
/// drop(handle); // the thread ends, and limiters with the clock read the precise one
/// # drop(clock);
/// # Ok::<(), tollgate::ClockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "the clock is precise again when the handle is dropped"]
pub struct CoarseHandle {
    _ticking: Arc<Ticking>,
}

/// The thread, which ends with this. (It is not waited for: in a forked process there is none.)
#[derive(Debug)]
struct Ticking {
    coarse: Coarse,
    /// Dropped to end the thread.
    _stop: Sender<()>,
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.coarse.raise(STOPPED);
    }
}
