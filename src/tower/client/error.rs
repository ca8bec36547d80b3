//! Why clients cannot be told so.

use core::fmt;

/// Why clients cannot be told so.
///
/// ```
/// use tollgate::tower::{Client, Trust};
///
/// let error = Trust::hops(0).unwrap_err();
/// assert_eq!(error.to_string(), "hops: 0; it must be at least 1, the proxy that is connected");
/// let error = Client::peer().ipv6_prefix(129).unwrap_err();
/// assert_eq!(error.to_string(), "IPv6 prefix: 129; it must be from 1 to 128");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// The prefix of IPv4 networks is out of range.
    Ipv4Prefix {
        /// The prefix.
        prefix: u8,
    },
    /// The prefix of IPv6 networks is out of range.
    Ipv6Prefix {
        /// The prefix.
        prefix: u8,
    },
    /// No proxy is trusted, where it counts them.
    Hops,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Ipv4Prefix { prefix } => {
                write!(f, "IPv4 prefix: {prefix}; it must be from 1 to 32")
            }
            ClientError::Ipv6Prefix { prefix } => {
                write!(f, "IPv6 prefix: {prefix}; it must be from 1 to 128")
            }
            ClientError::Hops => {
                f.write_str("hops: 0; it must be at least 1, the proxy that is connected")
            }
        }
    }
}

impl core::error::Error for ClientError {}
