//! Who a request comes from.
//!
//! * `address.rs`: addresses as they stand in headers, in canonical form;
//! * `forwarded.rs`: the lists and single values of forwarding headers;
//! * `trust.rs`: which proxies are believed;
//! * `peer.rs`: where servers put the address of a connection.

mod address;
mod error;
mod forwarded;
mod peer;
mod trust;

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

pub use error::ClientError;
pub use forwarded::Forwarding;
pub use trust::Trust;

use http::Extensions;
use ipnet::IpNet;

use crate::tower::head::Head;
use crate::tower::key::Key;
use crate::tower::rule::Pick;
use address::canonical;

/// How the client of a request is told: by the address of the connection, or by one header that proxies write,
/// as far as these are trusted.
///
/// What a client can write by itself never decides: see [`Trust`]. A network is an address, or the /64 of an IPv6
/// address, as nobody gets less; IPv4 addresses in the form of IPv6 are IPv4.
///
/// ```
/// use tollgate::tower::{Client, Forwarding, Head, Trust};
///
/// let peer = Client::peer().ipv6_prefix(56)?;
/// // Behind proxies in 10.0.0.0/8, that add to X-Forwarded-For.
/// let trust = Trust::proxies(["10.0.0.0/8".parse()?]);
/// let behind = Client::behind(Forwarding::XForwardedFor, trust);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a client tells nothing until it is asked"]
pub struct Client {
    behind: Option<Arc<(Forwarding, Trust)>>,
    peer_by: Option<fn(&Extensions) -> Option<IpAddr>>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

impl Client {
    /// The address of the connection, as the server has put it into the request: a `SocketAddr` or an `IpAddr`
    /// in its extensions, axum's `ConnectInfo<SocketAddr>` and `MockConnectInfo<SocketAddr>` (feature `axum`),
    /// tonic's `TcpConnectInfo`, of TLS too (feature `tonic`).
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tollgate::tower::{Client, Head};
    ///
    /// let peer = SocketAddr::from(([192, 0, 2, 1], 50_000));
    /// let request = http::Request::builder().extension(peer).body(())?;
    /// assert_eq!(Client::peer().address(&Head::from(&request)), Some(peer.ip()));
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn peer() -> Client {
        Client { behind: None, peer_by: None, ipv4_prefix: 32, ipv6_prefix: 64 }
    }

    /// By the one header that the proxies in front of the server write.
    ///
    /// ```
    /// # use std::net::SocketAddr;
    /// # use tollgate::tower::{Client, Forwarding, Head, Trust};
    /// let trust = Trust::proxies(["10.0.0.0/8".parse()?]);
    /// let client = Client::behind(Forwarding::XForwardedFor, trust);
    /// let request = http::Request::builder()
    ///     .extension(SocketAddr::from(([10, 0, 0, 5], 50_000)))
    ///     // What stands left was written by the client.
    ///     .header("x-forwarded-for", "1.2.3.4, 192.0.2.1")
    ///     .body(())?;
    /// assert_eq!(client.address(&Head::from(&request)), Some([192, 0, 2, 1].into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn behind(forwarding: Forwarding, trust: Trust) -> Client {
        Client { behind: Some(Arc::new((forwarding, trust))), ..Client::peer() }
    }

    /// Finds the address of a connection where a server of your own has put it, before it is looked for where
    /// others do.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use tollgate::tower::{Client, Head};
    /// #[derive(Clone)]
    /// struct Connection(IpAddr);
    ///
    /// let client = Client::peer().peer_by(|extensions| {
    ///     extensions.get::<Connection>().map(|connection| connection.0)
    /// });
    /// ```
    pub fn peer_by(self, find: fn(&Extensions) -> Option<IpAddr>) -> Client {
        Client { peer_by: Some(find), ..self }
    }

    /// Counts IPv4 addresses by networks of this prefix: 32 unless set, from 1 to 32.
    ///
    /// # Errors
    ///
    /// [`ClientError::Ipv4Prefix`] if it is out of range.
    ///
    /// ```
    /// # use tollgate::tower::{Client, ClientError};
    /// assert!(Client::peer().ipv4_prefix(24).is_ok());
    /// let error = Client::peer().ipv4_prefix(33).unwrap_err();
    /// assert_eq!(error, ClientError::Ipv4Prefix { prefix: 33 });
    /// ```
    pub fn ipv4_prefix(self, prefix: u8) -> Result<Client, ClientError> {
        match prefix {
            1..=32 => Ok(Client { ipv4_prefix: prefix, ..self }),
            _ => Err(ClientError::Ipv4Prefix { prefix }),
        }
    }

    /// Counts IPv6 addresses by networks of this prefix: 64 unless set, from 1 to 128. A longer one is walked
    /// around by whoever has a /64, which is everybody.
    ///
    /// # Errors
    ///
    /// [`ClientError::Ipv6Prefix`] if it is out of range.
    ///
    /// ```
    /// # use tollgate::tower::{Client, ClientError};
    /// assert!(Client::peer().ipv6_prefix(48).is_ok());
    /// let error = Client::peer().ipv6_prefix(0).unwrap_err();
    /// assert_eq!(error, ClientError::Ipv6Prefix { prefix: 0 });
    /// ```
    pub fn ipv6_prefix(self, prefix: u8) -> Result<Client, ClientError> {
        match prefix {
            1..=128 => Ok(Client { ipv6_prefix: prefix, ..self }),
            _ => Err(ClientError::Ipv6Prefix { prefix }),
        }
    }

    /// The client's whole address; `None` if nobody knows who is connected.
    ///
    /// ```
    /// # use tollgate::tower::{Client, Head};
    /// let request = http::Request::new(());
    /// assert_eq!(Client::peer().address(&Head::from(&request)), None);
    /// ```
    #[must_use]
    pub fn address(&self, head: &Head<'_>) -> Option<IpAddr> {
        let extensions = head.extensions;
        let own = self.peer_by.and_then(|find| find(extensions));
        let peer = own.or_else(|| peer::of(extensions)).map(canonical);
        match self.behind.as_deref() {
            None => peer,
            Some((forwarding, trust)) => forwarded::client(forwarding, trust, peer, head.headers),
        }
    }

    /// The network that the client is counted by.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use tollgate::tower::{Client, Head};
    /// let address: IpAddr = "2001:db8:abcd:12::1".parse()?;
    /// let request = http::Request::builder().extension(address).body(())?;
    /// assert_eq!(Client::peer().network(&Head::from(&request)), Some("2001:db8:abcd:12::/64".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn network(&self, head: &Head<'_>) -> Option<IpNet> {
        let address = self.address(head)?;
        IpNet::new(address, self.prefix(address)).ok().map(|network| network.trunc())
    }

    /// The prefix of networks of such addresses.
    fn prefix(&self, address: IpAddr) -> u8 {
        if address.is_ipv4() { self.ipv4_prefix } else { self.ipv6_prefix }
    }

    /// Counts for the client's network: what [`Rule::by_client`](crate::tower::Rule::by_client) does.
    ///
    /// ```
    /// # use tollgate::tower::{Client, Head, Pick};
    /// let request = http::Request::new(());
    /// assert_eq!(Client::peer().pick(&Head::from(&request)), Pick::Unknown);
    /// ```
    #[must_use]
    pub fn pick(&self, head: &Head<'_>) -> Pick {
        let address = self.address(head);
        let key = address.map(|address| Key::within(address, self.prefix(address)));
        key.map_or(Pick::Unknown, Pick::Count)
    }
}

impl Default for Client {
    fn default() -> Client {
        Client::peer()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("behind", &self.behind)
            .field("ipv4_prefix", &self.ipv4_prefix)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish_non_exhaustive()
    }
}
