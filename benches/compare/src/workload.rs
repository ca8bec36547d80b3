//! The workloads, and the keys that they ask for.

use crate::contender::{Key, Path};

/// One row of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub set: Set,
    pub way: Way,
    pub ours: Ours,
}

/// What contenders are made for. Workloads of one set are measured on the same contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    pub kind: Kind,
    pub keys: usize,
    pub path: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    /// An IPv6 address.
    Address,
    /// A string of 24 characters.
    Text,
    /// No key: limiters of one state.
    OneState,
}

/// How contenders are asked. Workloads of one set and way share one measurement of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Any key, one call after the other.
    Straight,
    /// Any key, and the next one only after the answer.
    Chain,
    /// Few keys much more often than others: Zipf's law with exponent 0.99.
    Zipf,
    /// Two threads at once.
    TwoThreads,
    /// Each key once, into a table that knows none yet.
    Fill,
    /// The same, and the time to make the table counts.
    FillAndBuild,
}

impl Way {
    pub fn threads(self) -> usize {
        if self == Way::TwoThreads { 2 } else { 1 }
    }

    pub fn is_fill(self) -> bool {
        matches!(self, Way::Fill | Way::FillAndBuild)
    }
}

/// Which of our ways to decide is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// One call at a time, by the precise clock.
    Precise,
    /// One call at a time, by a clock that moves every 500 us. Peers keep theirs.
    Coarse,
    /// Calls of 32 keys, by the precise clock. Peers are asked one by one.
    Batch,
    /// One state in its leased form: a handle for each thread and slice of calls.
    Leased,
}

impl Ours {
    pub const ALL: [Ours; 4] = [Ours::Precise, Ours::Coarse, Ours::Batch, Ours::Leased];

    pub fn name(self) -> &'static str {
        match self {
            Ours::Precise => "tollgate",
            Ours::Coarse => "tollgate, coarse clock",
            Ours::Batch => "tollgate, batch of 32",
            Ours::Leased => "tollgate, leased",
        }
    }
}

const K: usize = 1_000;
const M: usize = 1_000_000;
const ONE: (Kind, usize, Path) = (Kind::OneState, 1, Path::Hot);
const HOT: (Kind, usize, Path) = (Kind::Number, 1, Path::Hot);
const HOT_REFUSED: (Kind, usize, Path) = (Kind::Number, 1, Path::Refused);

/// All of them, those of one set together, smaller ones first.
pub const ALL: [Workload; 44] = [
    row("keys-1k", numbers(K), Way::Straight, Ours::Precise),
    row("keys-1k-coarse", numbers(K), Way::Straight, Ours::Coarse),
    row("keys-1k-batch", numbers(K), Way::Straight, Ours::Batch),
    row("keys-1k-chain", numbers(K), Way::Chain, Ours::Precise),
    row("keys-1k-coarse-chain", numbers(K), Way::Chain, Ours::Coarse),
    row("keys-1k-2-threads", numbers(K), Way::TwoThreads, Ours::Precise),
    row("keys-1k-coarse-2-threads", numbers(K), Way::TwoThreads, Ours::Coarse),
    row("keys-100k", numbers(100 * K), Way::Straight, Ours::Precise),
    row("keys-100k-coarse", numbers(100 * K), Way::Straight, Ours::Coarse),
    row("keys-100k-batch", numbers(100 * K), Way::Straight, Ours::Batch),
    row("keys-1M", numbers(M), Way::Straight, Ours::Precise),
    row("keys-1M-coarse", numbers(M), Way::Straight, Ours::Coarse),
    row("keys-1M-batch", numbers(M), Way::Straight, Ours::Batch),
    row("keys-1M-2-threads", numbers(M), Way::TwoThreads, Ours::Precise),
    row("keys-1M-coarse-2-threads", numbers(M), Way::TwoThreads, Ours::Coarse),
    row("keys-1M-zipf", numbers(M), Way::Zipf, Ours::Precise),
    row("keys-1M-refused", (Kind::Number, M, Path::Refused), Way::Straight, Ours::Precise),
    row("keys-1M-refused-coarse", (Kind::Number, M, Path::Refused), Way::Straight, Ours::Coarse),
    row("keys-1M-refused-batch", (Kind::Number, M, Path::Refused), Way::Straight, Ours::Batch),
    row("ipv6-1M", (Kind::Address, M, Path::Admitted), Way::Straight, Ours::Precise),
    row("ipv6-1M-coarse", (Kind::Address, M, Path::Admitted), Way::Straight, Ours::Coarse),
    row("string-1M", (Kind::Text, M, Path::Admitted), Way::Straight, Ours::Precise),
    row("string-1M-coarse", (Kind::Text, M, Path::Admitted), Way::Straight, Ours::Coarse),
    row("hot-key", HOT, Way::Straight, Ours::Precise),
    row("hot-key-2-threads", HOT, Way::TwoThreads, Ours::Precise),
    row("hot-key-refused", HOT_REFUSED, Way::Straight, Ours::Precise),
    row("hot-key-refused-2-threads", HOT_REFUSED, Way::TwoThreads, Ours::Precise),
    row("hot-key-refused-coarse-2-threads", HOT_REFUSED, Way::TwoThreads, Ours::Coarse),
    row("fill-1M", numbers(M), Way::Fill, Ours::Precise),
    row("fill-1M-batch", numbers(M), Way::Fill, Ours::Batch),
    row("fill-1M-and-build", numbers(M), Way::FillAndBuild, Ours::Precise),
    row("keys-10M", numbers(10 * M), Way::Straight, Ours::Precise),
    row("keys-10M-coarse", numbers(10 * M), Way::Straight, Ours::Coarse),
    row("keys-10M-batch", numbers(10 * M), Way::Straight, Ours::Batch),
    row("keys-10M-chain", numbers(10 * M), Way::Chain, Ours::Precise),
    row("keys-10M-coarse-chain", numbers(10 * M), Way::Chain, Ours::Coarse),
    row("fill-10M", numbers(10 * M), Way::Fill, Ours::Precise),
    row("fill-10M-batch", numbers(10 * M), Way::Fill, Ours::Batch),
    row("fill-10M-and-build", numbers(10 * M), Way::FillAndBuild, Ours::Precise),
    row("one-state", ONE, Way::Straight, Ours::Precise),
    row("one-state-leased", ONE, Way::Straight, Ours::Leased),
    row("one-state-2-threads", ONE, Way::TwoThreads, Ours::Precise),
    row("one-state-leased-2-threads", ONE, Way::TwoThreads, Ours::Leased),
    row("one-state-refused", (Kind::OneState, 1, Path::Refused), Way::Straight, Ours::Precise),
];

const fn numbers(keys: usize) -> (Kind, usize, Path) {
    (Kind::Number, keys, Path::Admitted)
}

const fn row(
    name: &'static str,
    (kind, keys, path): (Kind, usize, Path),
    way: Way,
    ours: Ours,
) -> Workload {
    Workload { name, set: Set { kind, keys, path }, way, ours }
}

/// The keys of one slice of calls, in the order in which they are asked for: the same for all
/// contenders and rounds, and made beforehand, so that it costs them nothing but to be read.
pub fn calls<K: Key>(set: Set, way: Way, count: usize) -> Vec<K> {
    let mut random = fastrand::Rng::with_seed(7);
    let keys = set.keys as u64;
    if way == Way::Zipf {
        let ranks = Zipf::new(set.keys);
        return (0..count).map(|_| K::from_number(ranks.draw(&mut random))).collect();
    }
    (0..count).map(|_| K::from_number(random.u64(..keys))).collect()
}

/// Keys by their rank, the first most often.
struct Zipf {
    /// Up to each rank, how often one of these comes.
    sums: Vec<f64>,
}

impl Zipf {
    const EXPONENT: f64 = 0.99;

    fn new(keys: usize) -> Zipf {
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-Zipf::EXPONENT));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Zipf { sums: sums.collect() }
    }

    /// A key's number. Neighbours in rank are no neighbours in number.
    fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        const PRIME: u64 = 2_654_435_761;
        let keys = self.sums.len() as u64;
        let at = random.f64() * self.sums.last().copied().unwrap_or(0.0);
        let rank = self.sums.partition_point(|&sum| sum <= at) as u64;
        rank.min(keys - 1) * PRIME % keys
    }
}
