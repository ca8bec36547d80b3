//! Addresses as they stand in headers.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address without what makes one look like another: IPv4 in the form of IPv6 is IPv4.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// An address as proxies write it, with or without a port, brackets and a zone; `None` for anything else, and
/// for the address that is none.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    let address = bare(text).or_else(|| with_port(text))?;
    Some(canonical(address)).filter(|address| !address.is_unspecified())
}

/// An address as a header of one value may have it: IPv6 with a port and without brackets, too, as
/// `CloudFront-Viewer-Address` does.
pub(super) fn parse_single(text: &str) -> Option<IpAddr> {
    let port = |(_, port): &(&str, &str)| port.parse::<u16>().is_ok();
    let unbracketed = || {
        let (address, _) = text.rsplit_once(':').filter(port)?;
        // Eight groups and a port, or what without its last group is an address.
        bare(address).map(canonical)
    };
    match text.matches(':').count() {
        // An address of eight groups has seven colons; one more is a port.
        8.. if !text.starts_with('[') => unbracketed(),
        _ => parse(text),
    }
    .filter(|address| !address.is_unspecified())
}

/// An address and nothing else, but for brackets and a zone.
fn bare(text: &str) -> Option<IpAddr> {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let without_zone = |text: &str| -> Option<IpAddr> {
        match text.split_once('%') {
            Some((address, zone)) if !zone.is_empty() => {
                address.parse().ok().filter(IpAddr::is_ipv6)
            }
            Some(_) => None,
            None => text.parse().ok(),
        }
    };
    match inside {
        Some(inside) => without_zone(inside).filter(IpAddr::is_ipv6),
        None => without_zone(text),
    }
}

fn with_port(text: &str) -> Option<IpAddr> {
    if let Some((address, port)) = text.strip_prefix('[').and_then(|text| text.split_once("]:")) {
        port.parse::<u16>().ok()?;
        return bare(address).filter(IpAddr::is_ipv6);
    }
    let (address, port) = text.split_once(':')?;
    port.parse::<u16>().ok()?;
    address.parse::<Ipv4Addr>().ok().map(IpAddr::V4).or_else(|| {
        // Nothing else has a port without brackets.
        text.parse::<SocketAddr>().ok().map(|address| address.ip())
    })
}
