//! The engine, in the ways in which a server would ask it.

use std::sync::OnceLock;
use std::time::Duration;

use tollgate::{
    Clock, CoarseHandle, Decision, KeyedLimiter, LeasedLimiter, Leases, Limiter, Quota,
};

use super::TICK;
use crate::contender::{Contender, Entrant, Key, Path};
use crate::workload::Ours;

/// Keys that are asked for at once.
const BATCH: usize = 32;

impl<K: Key> Contender<K> for KeyedLimiter<K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.check(key).is_allowed()
    }
}

impl Contender<()> for Limiter {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.check().is_allowed()
    }
}

impl Contender<()> for LeasedLimiter {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.handle().check().is_allowed()
    }

    #[inline]
    fn admitted(&self, calls: &[()]) -> usize {
        let mut handle = self.handle();
        calls.iter().filter(|()| handle.check().is_allowed()).count()
    }
}

/// A limiter that is asked for many keys at once.
struct Batches<K>(KeyedLimiter<K>);

impl<K: Key> Contender<K> for Batches<K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.0.admits(key)
    }

    #[inline]
    fn admitted(&self, keys: &[K]) -> usize {
        let mut decisions = [Decision::default(); BATCH];
        let mut admitted = 0;
        for keys in keys.chunks(BATCH) {
            let decided = self.0.check_many(keys, &mut decisions);
            admitted += decisions[..decided].iter().filter(|one| one.is_allowed()).count();
        }
        admitted
    }
}

/// The coarse clock of the process, which runs from the first call on; `None` where there is none.
fn coarse_clock() -> Option<Clock> {
    static CLOCK: OnceLock<Option<(Clock, CoarseHandle)>> = OnceLock::new();
    let clock = CLOCK.get_or_init(|| Clock::coarse(TICK).ok());
    clock.as_ref().map(|(clock, _)| clock.clone())
}

/// A limiter for so many keys.
pub fn keyed<K: Key>(ours: Ours, keys: usize, path: Path) -> Entrant<K> {
    let build = |clock| {
        let quota = Quota::new(path.burst().into(), path.period());
        let builder = KeyedLimiter::builder(quota).capacity(keys).clock(clock);
        builder.build().expect("a quota that fits, and memory for the keys")
    };
    let name = ours.name();
    match ours {
        Ours::Precise => Entrant::new(name, build(Clock::precise())),
        Ours::Batch => Entrant::new(name, Batches(build(Clock::precise()))),
        Ours::Coarse => match coarse_clock() {
            Some(clock) => Entrant::new(name, build(clock)),
            None => Entrant::left_out(name, "the kernel does not keep time by the counter"),
        },
        Ours::Leased => Entrant::left_out(name, "leases are of one state"),
    }
}

/// Limiters of one state: one that is refused to has nothing to lease.
pub fn one_state(path: Path) -> Vec<Entrant<()>> {
    let quota = Quota::new(path.burst().into(), path.period());
    let build = || Limiter::new(quota).expect("a quota that fits");
    let plain = Entrant::new(Ours::Precise.name(), build());
    let leases = Leases::of(Duration::from_millis(1));
    let leased = build().leased(leases).expect("a bucket is leased from");
    match path {
        Path::Refused => vec![plain],
        _ => vec![plain, Entrant::new(Ours::Leased.name(), leased)],
    }
}
