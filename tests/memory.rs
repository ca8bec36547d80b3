//! P5 by the process's own size: what a limiter says it holds is what it takes, and no more comes.
//!
//! A process of its own, with one test, so that nothing else grows meanwhile.

#![cfg(target_os = "linux")]

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use tollgate::{Clock, KeyedBuilder, KeyedLimiter, Overflow, Permit, Permits, Quota};

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: u64 = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    kibibytes * 1024
}

fn builder<K: Hash + ?Sized + 'static>(capacity: usize) -> KeyedBuilder<K> {
    KeyedLimiter::builder(Quota::per_hour(2))
        .capacity(capacity)
        // One seed in a thousand finds three keys or more without a cell: not left to chance.
        .seed(1)
        .clock(Clock::manual().0)
        .overflow(Overflow::EvictNearest)
}

/// Fills a table with as many live keys as it is made for, in at most so many bytes each.
fn fill<K: Hash + ?Sized + 'static>(
    capacity: usize,
    bytes: u64,
    builder: KeyedBuilder<K>,
    check: impl Fn(&KeyedLimiter<K>, u64) -> bool,
) {
    let before = resident();
    let limiter = builder.build().unwrap();
    let built = resident() - before;
    let admitted = (0..capacity as u64).filter(|&key| check(&limiter, key)).count();
    assert_eq!(admitted, capacity);
    let filled = resident() - before;
    let bound = bytes * capacity as u64;
    assert!(limiter.memory() as u64 <= bound, "{} bytes", limiter.memory());
    assert!(filled <= bound, "resident: {filled} bytes");
    // Touched at build: filling adds less than a twentieth.
    assert!(filled - built <= filled / 20, "{built} built, {filled} filled");
    assert!(limiter.stats().evicted <= 2);
}

#[test]
fn memory_is_bounded_and_flat() {
    let small = cfg!(debug_assertions);
    let capacity = if small { 200_000 } else { 1_000_000 };
    // Once before, for what a process takes with its first limiter.
    let admits = |limiter: &KeyedLimiter<u64>, key| limiter.check_at(&key, 1, 0).is_allowed();
    fill(50_000, 48, builder(50_000), admits);

    fill(capacity, 48, builder(capacity), admits);
    fill(capacity, 96, builder(capacity).permits(Permits::new()), |limiter, key| {
        limiter.reserve_at(&key, 1, 0).map(Permit::keep).is_ok()
    });
    fill::<IpAddr>(capacity, 48, builder(capacity), |limiter, key| {
        let address = IpAddr::V6(Ipv6Addr::from(u128::from(key) << 64 | 1));
        limiter.check_at(&address, 1, 0).is_allowed()
    });
    fill::<str>(capacity, 48, builder(capacity), |limiter, key| {
        limiter.check_at(&format!("user-{key:019}"), 1, 0).is_allowed()
    });

    a_crowd_passes_through(if small { 2_000_000 } else { 100_000_000 });
}

/// Distinct keys without end through a table for a hundred thousand, beside keys in debt that are
/// watched: they keep their answers, and the size stays what it was.
fn a_crowd_passes_through(crowd: u64) {
    let limiter = builder::<u64>(100_000).build().unwrap();
    // The crowd owes a token for half an hour; the watched owe two, so they are never the nearest.
    let watched: Vec<u64> = (0..1_000).map(|key| u64::MAX - key).collect();
    assert!(watched.iter().all(|key| limiter.check_at(key, 2, 0).is_allowed()));
    let before = resident();
    for key in 0..crowd {
        assert!(limiter.check_at(&key, 1, 0).is_allowed());
        if key % (crowd / 20) == 0 {
            assert!(watched.iter().all(|key| !limiter.check_at(key, 1, 0).is_allowed()));
        }
    }
    assert!(watched.iter().all(|key| limiter.peek_at(key, 1, 0).remaining() == 0));
    let grown = resident().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes more");
    assert!(limiter.stats().evicted > crowd - 300_000);
}
