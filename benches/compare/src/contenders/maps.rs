//! What one writes by hand: a concurrent map from a key to one word, which is swapped by GCRA.
//!
//! All have our hasher and our clock, so that only the maps differ.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ahash::RandomState;

use crate::contender::{Contender, Entrant, Key, Path};

/// One key's word: the time at which it owes nothing, in nanoseconds.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Admits one call at `now` if what is owed after it fits the burst.
    #[inline]
    pub fn admits(&self, now: u64, cost: u64, limit: &Limit) -> bool {
        let mut free = self.0.load(Relaxed);
        loop {
            // What does not fit 64 bits is more than any burst.
            let after = free.max(now).saturating_add(cost.saturating_mul(limit.interval));
            if after > now + limit.tolerance {
                return false;
            }
            match self.0.compare_exchange_weak(free, after, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) => free = seen,
            }
        }
    }
}

/// The limit that a word is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Nanoseconds that a token takes.
    pub interval: u64,
    /// Nanoseconds that the whole burst takes.
    pub tolerance: u64,
}

/// The clock and the limit of a whole map.
struct CellClock {
    clock: quanta::Clock,
    start: u64,
    limit: Limit,
}

impl CellClock {
    fn new(path: Path) -> CellClock {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        let interval = path.interval().as_nanos() as u64;
        let limit = Limit { interval, tolerance: interval * u64::from(path.burst()) };
        CellClock { clock, start, limit }
    }

    #[inline]
    fn admits(&self, cell: &Cell) -> bool {
        let now = self.clock.delta_as_nanos(self.start, self.clock.raw());
        cell.admits(now, 1, &self.limit)
    }
}

/// A map with the clock beside it.
struct Mapped<M> {
    map: M,
    clock: CellClock,
}

impl<K: Key> Contender<K> for Mapped<dashmap::DashMap<K, Cell, RandomState>> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        match self.map.get(key) {
            Some(cell) => self.clock.admits(&cell),
            None => self.clock.admits(&self.map.entry(key.clone()).or_default()),
        }
    }
}

impl<K: Key> Contender<K> for Mapped<papaya::HashMap<K, Cell, RandomState>> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        let map = self.map.pin();
        match map.get(key) {
            Some(cell) => self.clock.admits(cell),
            None => self.clock.admits(map.get_or_insert_with(key.clone(), Cell::default)),
        }
    }
}

/// The map of scc that is made for reading. Its lookup takes no lock, and so a charge may be lost
/// while the map grows and the entry is on its way to another place.
impl<K: Key> Contender<K> for Mapped<scc::HashIndex<K, Cell, RandomState>> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        let known = self.map.peek_with(key, |_, cell| self.clock.admits(cell));
        known.unwrap_or_else(|| {
            self.clock.admits(self.map.entry_sync(key.clone()).or_default().get())
        })
    }
}

pub fn dashmap<K: Key>(path: Path) -> Entrant<K> {
    let map = dashmap::DashMap::<K, Cell, _>::with_hasher(RandomState::new());
    Entrant::new("dashmap", Mapped { map, clock: CellClock::new(path) })
}

pub fn papaya<K: Key>(path: Path) -> Entrant<K> {
    // By default it grows bit by bit as keys are written, and every lookup that comes before the
    // end searches two tables: for ever, once no more keys come.
    let map = papaya::HashMap::builder().resize_mode(papaya::ResizeMode::Blocking);
    let map = map.hasher(RandomState::new()).build();
    Entrant::new(
        "papaya",
        Mapped::<papaya::HashMap<K, Cell, _>> { map, clock: CellClock::new(path) },
    )
}

pub fn scc<K: Key>(path: Path) -> Entrant<K> {
    let map = scc::HashIndex::<K, Cell, _>::with_hasher(RandomState::new());
    Entrant::new("scc", Mapped { map, clock: CellClock::new(path) })
}

/// All maps.
pub fn keyed<K: Key>(path: Path) -> Vec<Entrant<K>> {
    vec![dashmap(path), papaya(path), scc(path)]
}
