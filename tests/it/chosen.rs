//! Keys whose hashes are chosen: tag 0, one bucket, any home line. Each key is compared with a state
//! of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Decision, KeyedLimiter, Limiter, Quota};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_000 * SECOND;

/// The first two outputs of `SplitMix64` from seed 1: the prefixes of tag and place.
const TAG_PREFIX: u64 = 0x910A_2DEC_8902_5CC1;

#[derive(Clone, Default)]
struct Chosen(Vec<u64>);

impl BuildHasher for Chosen {
    type Hasher = Chosen;
    fn build_hasher(&self) -> Chosen {
        Chosen::default()
    }
}

impl Hasher for Chosen {
    fn finish(&self) -> u64 {
        // prefix, tag, place
        if self.0[0] == TAG_PREFIX { self.0[1] } else { self.0[2] }
    }
    fn write(&mut self, bytes: &[u8]) {
        panic!("keys of this test are whole words, not {bytes:?}");
    }
    fn write_u64(&mut self, word: u64) {
        self.0.push(word);
    }
}

type Key = (u64, u64);

fn build(algorithm: Algorithm, quota: Quota, capacity: usize) -> KeyedLimiter<Key> {
    let builder = KeyedLimiter::builder(quota).algorithm(algorithm).capacity(capacity).seed(1);
    let builder = builder.log_limit(8).log_cost(4).origin(Duration::ZERO);
    builder.clock(Clock::manual().0).custom_hasher(Chosen::default()).build().unwrap()
}

fn all(decision: &Decision) -> (bool, u64, u64, Option<Duration>, Option<Duration>, Duration) {
    (
        decision.is_allowed(),
        decision.limit(),
        decision.remaining(),
        decision.retry_after(),
        decision.reset_after(),
        decision.delay(),
    )
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn chosen_hashes_decide_as_states_of_their_own() {
    let mut state = 88_172_645_463_325_252;
    for round in 0..3_000_u64 {
        let algorithm = Algorithm::ALL[(round % 6) as usize];
        let quotas = [2, 1, 3, 7, 0, 5].map(|limit| Quota::per_second(limit).burst(limit.max(2)));
        let limiter = build(algorithm, quotas[0], 12);
        let single = |quota| {
            let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
            builder.log_limit(8).log_cost(4).origin(Duration::ZERO).build().unwrap()
        };
        // 31 keys in one bucket, of which up to all have one home; one has tag 0.
        let spread = random(&mut state) % 4;
        let keys: Vec<Key> = (0..31)
            .map(|tag| {
                let place = match spread {
                    0 => 0,
                    1 => u64::MAX,
                    2 => (random(&mut state) % 2) << 61,
                    _ => random(&mut state),
                };
                (tag, place)
            })
            .collect();
        let states: HashMap<Key, Limiter> =
            keys.iter().map(|&key| (key, single(quotas[0]))).collect();
        let mut now = NOW;
        let (mut admitted, mut refused) = (0, 0);
        for _ in 0..80 {
            let key = keys[(random(&mut state) % 31) as usize];
            match random(&mut state) % 20 {
                0 => {
                    let quota = quotas[(random(&mut state) % 6) as usize];
                    let changed = limiter.set_quota_at(quota, now).is_ok();
                    for state in states.values() {
                        assert_eq!(state.set_quota_at(quota, now).is_ok(), changed);
                    }
                }
                1 => now = now.saturating_sub(random(&mut state) % (3 * SECOND)),
                2..6 => now += random(&mut state) % SECOND,
                6 => {
                    let batch: Vec<Key> =
                        (0..40).map(|_| keys[(random(&mut state) % 31) as usize]).collect();
                    let mut decisions = vec![Decision::default(); 40];
                    limiter.check_many_at(&batch, &mut decisions, now);
                    for (key, decision) in batch.iter().zip(&decisions) {
                        let single = states[key].check_at(1, now);
                        assert_eq!(all(decision), all(&single), "{algorithm:?} {round} batch");
                        *(if single.is_allowed() { &mut admitted } else { &mut refused }) += 1;
                    }
                }
                _ => {
                    let cost = [0, 1, 1, 1, 2, 3, 9, u64::MAX][(random(&mut state) % 8) as usize];
                    let decision = limiter.check_at(&key, cost, now);
                    let single = states[&key].check_at(cost, now);
                    assert_eq!(all(&decision), all(&single), "{algorithm:?} {round} {cost}");
                    if cost > 0 {
                        *(if single.is_allowed() { &mut admitted } else { &mut refused }) += 1;
                    }
                }
            }
        }
        let stats = limiter.stats();
        assert_eq!((stats.admitted, stats.refused), (admitted, refused));
        assert_eq!((stats.refused_full, stats.evicted, stats.reclaimed), (0, 0, 0));
    }
}

/// Threads insert the same fresh keys of one bucket, while the quota changes: no key is admitted more
/// than its burst, and each call is counted once.
#[test]
fn threads_that_insert_chosen_keys_admit_no_more_than_the_burst() {
    let quotas = [Quota::per_hour(2), Quota::per_hour(3), Quota::per_hour(7), Quota::per_day(5)]
        .map(|quota| quota.burst(2));
    for round in 0..2_000_u64 {
        let algorithm =
            [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra][(round % 3) as usize];
        let limiter = &build(algorithm, quotas[0], 12);
        let counts: &[AtomicU64; 31] = &[const { AtomicU64::new(0) }; 31];
        let place = |tag: u64| if round % 2 == 0 { 0 } else { (tag % 3) << 61 };
        thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    let keys = [(); 31].map(|()| ());
                    if thread == 2 && round % 4 < 2 {
                        for change in 0..6 {
                            limiter.set_quota_at(quotas[(change % 4) as usize], NOW).unwrap();
                        }
                        return;
                    }
                    for _ in 0..3 {
                        for tag in 0..keys.len() as u64 {
                            if limiter.check_at(&(tag, place(tag)), 1, NOW).is_allowed() {
                                counts[tag as usize].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let total: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        for count in counts {
            assert_eq!(count.load(Ordering::Relaxed), 2, "{algorithm:?} {round}");
        }
        assert_eq!(limiter.stats().admitted, total);
    }
}
