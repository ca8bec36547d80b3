//! What is measured: something that admits or refuses a key, and the loops it is driven by.

use std::fmt::Write as _;
use std::hash::Hash;
use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// A key of some type.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key of a number.
    fn from_number(number: u64) -> Self;

    /// The number, of keys that are one.
    fn number(&self) -> Option<u64> {
        None
    }

    /// The text, of keys that are one.
    fn text(&self) -> Option<&str> {
        None
    }
}

impl Key for u64 {
    fn from_number(number: u64) -> u64 {
        number
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Key for IpAddr {
    fn from_number(number: u64) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(u128::from(number) << 64 | 1))
    }
}

impl Key for String {
    /// 24 characters.
    fn from_number(number: u64) -> String {
        let mut name = String::with_capacity(24);
        write!(name, "user-{number:019}").expect("a string takes all that is written to it");
        name
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

/// The key of a limiter that has one state.
impl Key for () {
    fn from_number(_: u64) {}

    fn number(&self) -> Option<u64> {
        Some(0)
    }
}

/// Answers for one key at a time.
pub trait Contender<K>: Sync {
    /// Asks whether the key may do it now, and is charged for it if so.
    fn admits(&self, key: &K) -> bool;

    /// Asks for each of the keys; returns how many were admitted.
    #[inline]
    fn admitted(&self, keys: &[K]) -> usize {
        keys.iter().filter(|key| self.admits(key)).count()
    }
}

/// The measured loops: one dynamic call for a whole slice of keys, none inside.
pub trait Driven<K>: Sync {
    /// Calls that do not wait for each other; returns how many were admitted.
    fn straight(&self, keys: &[K]) -> usize;

    /// Calls of which each depends on the answer before; returns how many were admitted. Every call
    /// is expected to be admitted: which key comes next is counted in answers.
    fn chain(&self, keys: &[K]) -> usize;
}

impl<K: Key, C: Contender<K>> Driven<K> for C {
    #[inline(never)]
    fn straight(&self, keys: &[K]) -> usize {
        self.admitted(keys)
    }

    #[inline(never)]
    fn chain(&self, keys: &[K]) -> usize {
        let mut next = 0;
        for _ in 0..keys.len() {
            next += usize::from(black_box(self.admits(&keys[next])));
        }
        next
    }
}

/// A contender that was built, or the reason for which it is left out.
pub struct Entrant<K> {
    pub name: &'static str,
    pub contender: Result<Box<dyn Driven<K>>, &'static str>,
}

impl<K: Key> Entrant<K> {
    pub fn new(name: &'static str, contender: impl Contender<K> + 'static) -> Entrant<K> {
        Entrant { name, contender: Ok(Box::new(contender)) }
    }

    pub fn left_out(name: &'static str, reason: &'static str) -> Entrant<K> {
        Entrant { name, contender: Err(reason) }
    }
}

/// How much a contender is to admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A million a second for each key: never used up by many keys.
    Admitted,
    /// A thousand million a second: never used up by one key.
    Hot,
    /// One a day: every call after the first is refused.
    Refused,
}

impl Path {
    /// Tokens.
    pub const fn burst(self) -> u32 {
        match self {
            Path::Admitted => 1_000_000,
            Path::Hot => 1_000_000_000,
            Path::Refused => 1,
        }
    }

    /// The time in which a token comes back.
    pub const fn interval(self) -> Duration {
        match self {
            Path::Admitted => Duration::from_micros(1),
            Path::Hot => Duration::from_nanos(1),
            Path::Refused => Duration::from_secs(86_400),
        }
    }

    /// The time in which the whole burst comes back.
    pub fn period(self) -> Duration {
        self.interval() * self.burst()
    }
}
