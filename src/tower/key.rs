//! What a rule counts by.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::hash::random_seed;
use crate::tower::head::Head;

/// What a rule counts by: a client, a user, a secret, a route, or several of them together.
///
/// Of users and secrets it holds no more than a keyed hash of 128 bits, under a secret of the process: what they were
/// made from can be read neither from it nor from its `Debug` form, which is a hash for networks as well, and good
/// for logs. Keys of different kinds differ whatever they are made from: the user `"192.0.2.1"` is not the
/// address.
///
/// ```
/// use tollgate::tower::Key;
///
/// assert_eq!(Key::secret("abc"), Key::secret("abc"));
/// assert_ne!(Key::secret("abc"), Key::user("abc"));
/// assert_ne!(Key::user("a:b").and("c"), Key::user("a").and("b:c"));
/// assert!(!format!("{:?}", Key::secret("abc")).contains("abc"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// A [`Kind`]; of a network with its prefix in the bits above.
    kind: u64,
    bits: [u64; 2],
}

/// What a key is made from.
#[derive(Clone, Copy)]
enum Kind {
    Everyone,
    Ipv4,
    Ipv6,
    User,
    Secret,
    Value,
    Both,
}

/// Three words at once: what derives would hash them one by one, with their number.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.kind);
        state.write_u128(u128::from(self.bits[0]) << 64 | u128::from(self.bits[1]));
    }
}

/// The secret of the process.
static SECRET: LazyLock<(u64, u64)> = LazyLock::new(|| (random_seed(), random_seed()));

fn hashed(value: impl Hash) -> [u64; 2] {
    let (one, two) = *SECRET;
    let mut hasher = SipHasher13::new_with_keys(one, two);
    value.hash(&mut hasher);
    let hash = hasher.finish128();
    [hash.h1, hash.h2]
}

impl Key {
    fn of(kind: Kind, value: impl Hash) -> Key {
        Key { kind: kind as u64, bits: hashed(value) }
    }

    /// One key for all requests: a limit on the whole service.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_eq!(Key::everyone(), Key::everyone());
    /// ```
    #[must_use]
    pub fn everyone() -> Key {
        Key { kind: Kind::Everyone as u64, bits: [0; 2] }
    }

    /// The network of a client: see [`Client::network`](crate::tower::Client::network).
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// let of = |network: &str| network.parse().map(Key::network);
    /// assert_ne!(of("192.0.2.1/32")?, of("192.0.2.2/32")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn network(network: IpNet) -> Key {
        Key::within(network.addr(), network.prefix_len())
    }

    /// The network of this prefix that an address is in.
    pub(super) fn within(address: IpAddr, prefix: u8) -> Key {
        // As it is: a limiter hashes it anyway, and nothing else reads it.
        let (kind, bits, length) = match address {
            IpAddr::V4(address) => (Kind::Ipv4, u128::from(address.to_bits()), 32_u32),
            IpAddr::V6(address) => (Kind::Ipv6, address.to_bits(), 128),
        };
        let host = length.saturating_sub(prefix.into());
        let bits = bits.checked_shr(host).map_or(0, |bits| bits << host);
        let kind = kind as u64 | u64::from(prefix) << 8;
        Key { kind, bits: [(bits >> 64) as u64, bits as u64] }
    }

    /// A user who has been authenticated.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_ne!(Key::user("alice"), Key::user("bob"));
    /// assert_ne!(Key::user(17), Key::user(18));
    /// ```
    #[must_use]
    pub fn user(id: impl Hash) -> Key {
        Key::of(Kind::User, id)
    }

    /// An API key, a session cookie, a token. Only of one that has been verified: who may send any other gets a
    /// fresh limit with each, and should be counted by address.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_eq!(Key::secret("abc"), Key::secret("abc"));
    /// ```
    #[must_use]
    pub fn secret(secret: impl AsRef<[u8]>) -> Key {
        Key::of(Kind::Secret, secret.as_ref())
    }

    /// Anything else that can be hashed.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_ne!(Key::value(("tenant", 3)), Key::value(("tenant", 4)));
    /// ```
    #[must_use]
    pub fn value(value: impl Hash) -> Key {
        Key::of(Kind::Value, value)
    }

    /// This key and something besides, such as a [`route`]: another key for each pair.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_ne!(Key::user("alice").and("/login"), Key::user("alice").and("/search"));
    /// ```
    #[must_use]
    pub fn and(self, other: impl Hash) -> Key {
        Key::of(Kind::Both, (self, other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:016x})", hashed(self)[0])
    }
}

/// The route of a request: the pattern that axum's router has matched, such as `/users/{id}`, so that its
/// requests have one limit and not one for each `id`. `<unmatched>` for all that match none, and without
/// the feature `axum` for all.
///
/// ```
/// use tollgate::tower::{Head, route};
///
/// let request = http::Request::builder().uri("/nowhere").body(()).unwrap();
/// assert_eq!(route(&Head::from(&request)), "<unmatched>");
/// ```
#[must_use]
pub fn route<'a>(head: &Head<'a>) -> &'a str {
    #[cfg(feature = "axum")]
    if let Some(path) = head.extensions.get::<axum::extract::MatchedPath>() {
        return path.as_str();
    }
    let _ = head;
    "<unmatched>"
}
