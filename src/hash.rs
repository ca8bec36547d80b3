//! From a key to its place and its tag.
//!
//! A key is hashed twice, with independent seeds: one hash picks the bucket, the other is the tag,
//! which stands for the key from then on. Two keys share a budget only if both agree: their tags
//! in all 64 bits, and their buckets. With a million new keys a second against every cell of a
//! bucket occupied, that is 31 comparisons of 64 bits for each, 2e-12 a second: once in ten
//! thousand years (`tests::false_matches`).
//!
//! **Threat model.** The default, ahash, is fast and seeded, but it is not a cryptographic
//! function: somebody who sees which keys collide may learn the seed. Who can choose keys and
//! watch single answers closely can then make two keys share a budget. Where that matters, select
//! [`Hasher::siphash`], a keyed pseudo-random function (SipHash-1-3).

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::sync::Arc;

use siphasher::sip::SipHasher13;

/// Both hashes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hashed {
    /// Stands for the key in its cell.
    pub(crate) tag: u64,
    /// Picks the bucket and the home line.
    pub(crate) place: u64,
}

/// How keys are hashed: chosen once, when the limiter is built.
///
/// ```
/// use tollgate::{Hasher, KeyedLimiter, Quota};
///
/// let limiter: KeyedLimiter<str> =
///     KeyedLimiter::builder(Quota::per_second(10)).hasher(Hasher::siphash()).build()?;
/// assert!(limiter.check("key").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Hasher(Choice);

#[derive(Clone, Copy, Debug, Default)]
enum Choice {
    #[default]
    Ahash,
    Siphash,
}

impl Hasher {
    /// ahash with seeds of its own: the default. A few nanoseconds for a short key.
    ///
    /// ```
    /// # use tollgate::{Hasher, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1)).hasher(Hasher::ahash());
    /// assert!(builder.build()?.check(&7).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn ahash() -> Hasher {
        Hasher(Choice::Ahash)
    }

    /// SipHash-1-3, a keyed pseudo-random function: for keys that an attacker chooses while
    /// watching the answers. Some ten nanoseconds more for a short key.
    ///
    /// ```
    /// # use tollgate::{Hasher, KeyedLimiter, Quota};
    /// let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1)).hasher(Hasher::siphash());
    /// assert!(builder.build()?.check(&7).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn siphash() -> Hasher {
        Hasher(Choice::Siphash)
    }
}

/// Two hash functions over keys of type `K`.
pub(crate) enum KeyHasher<K: ?Sized> {
    Ahash([ahash::RandomState; 2]),
    Siphash([SipHasher13; 2]),
    Custom(Arc<dyn Fn(&K) -> Hashed + Send + Sync>),
}

impl<K: Hash + ?Sized> KeyHasher<K> {
    pub(crate) fn new(hasher: Hasher, seed: u64) -> KeyHasher<K> {
        let mut seeds = Seeds(seed);
        match hasher.0 {
            Choice::Ahash => KeyHasher::Ahash([(); 2].map(|()| {
                let [a, b, c, d] = [(); 4].map(|()| seeds.next());
                ahash::RandomState::with_seeds(a, b, c, d)
            })),
            Choice::Siphash => KeyHasher::Siphash(
                [(); 2].map(|()| SipHasher13::new_with_keys(seeds.next(), seeds.next())),
            ),
        }
    }

    /// Two functions from one: the key follows a different prefix for each.
    pub(crate) fn custom(
        hasher: impl BuildHasher + Send + Sync + 'static,
        seed: u64,
    ) -> KeyHasher<K> {
        let mut seeds = Seeds(seed);
        let (tag, place) = (seeds.next(), seeds.next());
        KeyHasher::Custom(Arc::new(move |key: &K| Hashed {
            tag: hasher.hash_one((tag, key)),
            place: hasher.hash_one((place, key)),
        }))
    }

    #[inline]
    pub(crate) fn hash(&self, key: &K) -> Hashed {
        match self {
            KeyHasher::Ahash([tag, place]) => {
                Hashed { tag: tag.hash_one(key), place: place.hash_one(key) }
            }
            other => other.hash_slowly(key),
        }
    }

    /// The hashers that are not the default, out of the way of the one that is.
    #[inline(never)]
    fn hash_slowly(&self, key: &K) -> Hashed {
        match self {
            KeyHasher::Ahash([tag, place]) => {
                Hashed { tag: tag.hash_one(key), place: place.hash_one(key) }
            }
            KeyHasher::Siphash([tag, place]) => {
                let hash = |mut state: SipHasher13| {
                    key.hash(&mut state);
                    core::hash::Hasher::finish(&state)
                };
                Hashed { tag: hash(*tag), place: hash(*place) }
            }
            KeyHasher::Custom(hash) => hash(key),
        }
    }
}

impl<K: ?Sized> fmt::Debug for KeyHasher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seeds are nobody's business.
        f.write_str(match self {
            KeyHasher::Ahash(_) => "Ahash",
            KeyHasher::Siphash(_) => "Siphash",
            KeyHasher::Custom(_) => "Custom",
        })
    }
}

/// A seed from the operating system's random numbers, by way of the standard library.
pub(crate) fn random_seed() -> u64 {
    std::hash::RandomState::new().hash_one(0_u8)
}

/// Independent seeds from one (`SplitMix64`: Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", 2014).
struct Seeds(u64);

impl Seeds {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::CELLS;

    /// The figure in the module's documentation.
    #[test]
    fn false_matches() {
        let tags = 2_f64.powi(64);
        let a_second = 1e6 * CELLS as f64 / tags;
        assert!((1.6e-12..1.8e-12).contains(&a_second), "{a_second}");
        let years = 1.0 / a_second / (365.25 * 86_400.0);
        assert!(years > 1e4, "{years}");
    }

    #[test]
    fn both_hashes_differ_and_follow_the_seed() {
        for hasher in [Hasher::ahash(), Hasher::siphash()] {
            let one = KeyHasher::<str>::new(hasher, 1);
            let hashed = one.hash("key");
            assert_ne!(hashed.tag, hashed.place);
            assert_eq!(hashed, KeyHasher::new(hasher, 1).hash("key"));
            assert_ne!(hashed, KeyHasher::new(hasher, 2).hash("key"));
        }
        let custom = KeyHasher::<str>::custom(ahash::RandomState::with_seed(3), 1);
        assert_ne!(custom.hash("key").tag, custom.hash("key").place);
    }
}
