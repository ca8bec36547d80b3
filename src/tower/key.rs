//! What a rule counts by.

use core::fmt;
use core::hash::Hash;
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(Of);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Everyone,
    // As it is: a limiter hashes it anyway, and nothing else reads it.
    Network(IpNet),
    User([u64; 2]),
    Secret([u64; 2]),
    Value([u64; 2]),
    Both([u64; 2]),
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
    /// One key for all requests: a limit on the whole service.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_eq!(Key::everyone(), Key::everyone());
    /// ```
    #[must_use]
    pub fn everyone() -> Key {
        Key(Of::Everyone)
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
        Key(Of::Network(network))
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
        Key(Of::User(hashed(id)))
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
        Key(Of::Secret(hashed(secret.as_ref())))
    }

    /// Anything else that can be hashed.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_ne!(Key::value(("tenant", 3)), Key::value(("tenant", 4)));
    /// ```
    #[must_use]
    pub fn value(value: impl Hash) -> Key {
        Key(Of::Value(hashed(value)))
    }

    /// This key and something besides, such as a [`route`]: another key for each pair.
    ///
    /// ```
    /// # use tollgate::tower::Key;
    /// assert_ne!(Key::user("alice").and("/login"), Key::user("alice").and("/search"));
    /// ```
    #[must_use]
    pub fn and(self, other: impl Hash) -> Key {
        Key(Of::Both(hashed((self, other))))
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
