//! Who takes part, in the order of the tables' columns.

mod floor;
mod governor;
mod maps;
mod others;
mod tollgate;

use std::time::Duration;

use crate::contender::{Entrant, Key, Path};
use crate::workload::Ours;

pub use maps::{Cell, Limit};

/// The step of coarse clocks.
const TICK: Duration = Duration::from_micros(500);

/// The name of the floor in all tables.
pub const FLOOR: &str = "array";
/// The name of the peer that has a coarse clock, too.
pub const UPKEEP: &str = "governor-upkeep";
/// Why it is left out elsewhere.
pub const BESIDE_COARSE: &str = "its coarse clock is measured beside ours";

/// The order of the tables' columns.
pub const COLUMNS: [&str; 11] = [
    "governor",
    "governor-ahash",
    UPKEEP,
    "dashmap",
    "papaya",
    "scc",
    "pingora-limits",
    "throttlecrab",
    "ratelimit",
    "leaky-bucket",
    FLOOR,
];

/// What has to be known of a contender to read its times.
pub const ABOUT: [(&str, &str); 8] = [
    ("governor-ahash", "governor with our hasher instead of SipHash"),
    (UPKEEP, "governor with a clock that moves every 500 us"),
    ("dashmap", "a limiter written by hand: a map from the key to a word, our hasher and clock"),
    ("papaya", "the same on another map, which grows at once instead of bit by bit"),
    ("scc", "the same on another map, the HashIndex; while it grows, charges may be lost"),
    ("pingora-limits", "two times 4 x 1024 counters that all keys share: an estimate, no limit"),
    ("throttlecrab", "under a lock, as it is asked with &mut"),
    ("leaky-bucket", "fair, as by default: a lock for each call"),
];

/// tollgate as a workload has it.
pub fn ours<K: Key>(ours: Ours, keys: usize, path: Path) -> Entrant<K> {
    tollgate::keyed(ours, keys, path)
}

/// Everything beside tollgate that is made for many keys, empty, and the floor; the peer with a
/// coarse clock only if ours is asked for.
pub fn keyed<K: Key>(keys: usize, path: Path, is_coarse: bool) -> Vec<Entrant<K>> {
    let mut all = governor::keyed(path, is_coarse);
    all.extend(maps::keyed(path));
    all.extend(others::keyed(keys, path));
    all.push(floor::keyed(keys, path));
    all
}

/// What a fill is measured on, beside tollgate: all that grows with its keys.
pub const GROWING: [fn(Path) -> Entrant<u64>; 5] =
    [governor::default, governor::with_ahash, maps::dashmap, maps::papaya, maps::scc];

/// What it is not measured on.
pub const NOT_FILLED: [(&str, &str); 6] = [
    (UPKEEP, BESIDE_COARSE),
    ("pingora-limits", "a sketch that stays as it is"),
    ("throttlecrab", "keys are strings only"),
    ("ratelimit", "one state, no keys"),
    ("leaky-bucket", "one state, no keys"),
    (FLOOR, "an array is full from the start"),
];

/// Everything that can have one state, ours first.
pub fn one_state(path: Path) -> Vec<Entrant<()>> {
    let mut all = tollgate::one_state(path);
    all.push(governor::one_state(path));
    all.extend(others::one_state(path));
    all.push(floor::keyed(1, path));
    all
}
