//! The floor: one atomic operation on an array of words, with the key as the index. No hash, no
//! clock and no limit; nothing that keeps a word per key can do less.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::FLOOR;
use crate::contender::{Contender, Entrant, Key, Path};

/// Each call adds to its word, as an admitted one has to write.
struct Adds(Box<[AtomicU64]>);

/// Each call looks at its word, as a refused one has to read.
struct Loads(Box<[AtomicU64]>);

/// The word of a key; every key has a number where there is a floor.
#[inline]
fn index<K: Key>(key: &K) -> usize {
    key.number().map_or(0, |number| number as usize)
}

impl<K: Key> Contender<K> for Adds {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.0[index(key)].fetch_add(1, Relaxed) < u64::MAX
    }
}

impl<K: Key> Contender<K> for Loads {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.0[index(key)].load(Relaxed) > 0
    }
}

/// The floor for so many keys.
pub fn keyed<K: Key>(keys: usize, path: Path) -> Entrant<K> {
    if K::from_number(0).number().is_none() {
        return Entrant::left_out(FLOOR, "the key is not an index");
    }
    let words = (0..keys).map(|_| AtomicU64::new(0)).collect();
    match path {
        Path::Refused => Entrant::new(FLOOR, Loads(words)),
        Path::Admitted | Path::Hot => Entrant::new(FLOOR, Adds(words)),
    }
}
