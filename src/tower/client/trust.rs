//! Which proxies are believed.

use core::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use crate::tower::client::ClientError;

/// Which proxies stand in front of the server, and are believed.
///
/// ```
/// use tollgate::tower::Trust;
///
/// // By their networks: the first address from the right that is in none of them is the client's.
/// let nets = ["10.0.0.0/8".parse()?, "2001:db8::/32".parse()?];
/// let by_network = Trust::proxies(nets);
/// // By their number: a load balancer, and a CDN before it.
/// let by_number = Trust::hops(2)?.from(["10.0.0.0/8".parse()?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is for Client::behind"]
pub struct Trust {
    /// How many proxies there are; `None` if they are told by their networks.
    pub(super) hops: Option<usize>,
    /// Networks of proxies; if there are none, a number of hops is believed from anywhere.
    nets: Vec<IpNet>,
    pub(super) unix_sockets: bool,
}

impl Trust {
    /// Proxies in these networks. Whoever connects from elsewhere is a client, whatever it sends; so without a
    /// network every peer is.
    ///
    /// ```
    /// # use tollgate::tower::Trust;
    /// let trust = Trust::proxies(["192.0.2.7/32".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn proxies(nets: impl IntoIterator<Item = IpNet>) -> Trust {
        let nets = nets.into_iter().map(canonical).collect();
        Trust { hops: None, nets, unix_sockets: false }
    }

    /// So many proxies, the one that is connected among them: each adds one address to the right end of a list,
    /// so that the n-th from the right is the client's. A number that is too high lets clients choose their
    /// address; so does a server that can be reached beside its proxies, unless it says by
    /// [`from`](Trust::from) where they are.
    ///
    /// # Errors
    ///
    /// [`ClientError::Hops`] if it is 0.
    ///
    /// ```
    /// # use tollgate::tower::Trust;
    /// assert!(Trust::hops(1).is_ok());
    /// assert!(Trust::hops(0).is_err());
    /// ```
    pub fn hops(count: usize) -> Result<Trust, ClientError> {
        match count {
            0 => Err(ClientError::Hops),
            _ => Ok(Trust { hops: Some(count), nets: Vec::new(), unix_sockets: false }),
        }
    }

    /// Only if the one that is connected is in one of these networks, too.
    ///
    /// ```
    /// # use tollgate::tower::Trust;
    /// let trust = Trust::hops(1)?.from(["10.0.0.0/8".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::should_implement_trait, reason = "it reads as what it does")]
    pub fn from(mut self, nets: impl IntoIterator<Item = IpNet>) -> Trust {
        self.nets.extend(nets.into_iter().map(canonical));
        self
    }

    /// Believes a connection without an address, such as one by a Unix socket, which no stranger can reach.
    ///
    /// ```
    /// # use tollgate::tower::Trust;
    /// let trust = Trust::hops(1)?.unix_sockets();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unix_sockets(self) -> Trust {
        Trust { unix_sockets: true, ..self }
    }

    /// Whether this is the address of a proxy.
    pub(super) fn covers(&self, address: IpAddr) -> bool {
        self.nets.iter().any(|net| net.contains(&address))
    }

    /// Whether what the peer of this address sends is believed.
    pub(super) fn believes(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            None => self.unix_sockets,
            Some(peer) => (self.hops.is_some() && self.nets.is_empty()) || self.covers(peer),
        }
    }
}

/// The network in the form in which addresses are compared: of IPv4 in the form of IPv6 it is that of IPv4.
fn canonical(net: IpNet) -> IpNet {
    let IpNet::V6(of_six) = net else { return net };
    let mapped = of_six.prefix_len().checked_sub(96);
    match (of_six.network().to_ipv4_mapped(), mapped) {
        (Some(address), Some(prefix)) => Ipv4Net::new(address, prefix).map_or(net, IpNet::V4),
        _ => net,
    }
}
