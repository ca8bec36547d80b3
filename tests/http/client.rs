//! Clients: the vectors K and P, each by its number.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, HeaderValue, Request};
use ipnet::IpNet;
use proptest::prelude::*;
use tollgate::tower::{Client, ClientError, Forwarding, Head, Key, Trust};

/// How proxies are trusted.
#[derive(Clone, Copy)]
enum By {
    /// Nothing but the peer.
    Peer,
    /// `X-Forwarded-For`, by networks.
    Nets(&'static [&'static str]),
    /// `X-Forwarded-For`, by their number.
    Hops(usize),
    /// `Forwarded`, by their number.
    Forwarded(usize),
    /// `X-Real-IP` from one proxy.
    Real,
    /// `CF-Connecting-IP` from these networks.
    Cdn(&'static [&'static str]),
}

fn nets(nets: &[&str]) -> Vec<IpNet> {
    nets.iter().map(|net| net.parse().unwrap()).collect()
}

impl By {
    fn client(self) -> Client {
        let hops = |count| Trust::hops(count).unwrap();
        let cdn = Forwarding::Header(HeaderName::from_static("cf-connecting-ip"));
        match self {
            By::Peer => Client::peer(),
            By::Nets(of) => Client::behind(Forwarding::XForwardedFor, Trust::proxies(nets(of))),
            By::Hops(count) => Client::behind(Forwarding::XForwardedFor, hops(count)),
            By::Forwarded(count) => Client::behind(Forwarding::Forwarded, hops(count)),
            By::Real => Client::behind(Forwarding::XRealIp, hops(1)),
            By::Cdn(of) => Client::behind(cdn, hops(1).from(nets(of))),
        }
    }
}

/// A request from this peer with these header lines, each `Name: value`.
fn request(peer: &str, lines: &[&str]) -> Request<()> {
    let mut request = Request::new(());
    if !peer.is_empty() {
        let with_port = peer.parse::<SocketAddr>().map(|peer| peer.ip());
        request.extensions_mut().insert(with_port.or_else(|_| peer.parse()).unwrap());
    }
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name = if name == "XFF" { "x-forwarded-for" } else { name };
        let value = HeaderValue::from_bytes(value.trim().as_bytes()).unwrap();
        request.headers_mut().append(HeaderName::try_from(name).unwrap(), value);
    }
    request
}

const TEN: By = By::Nets(&["10.0.0.0/8"]);

/// The vector, how, the peer, the header lines, and who it is.
type Row = (u32, By, &'static str, &'static [&'static str], &'static str);

const ROWS: &[Row] = &[
    (1, By::Peer, "99.99.99.99:1234", &["XFF: 1.2.3.4, 5.6.7.8"], "99.99.99.99"),
    (2, TEN, "10.0.0.5", &["XFF: 1.2.3.4, 99.99.99.99"], "99.99.99.99"),
    (3, TEN, "9.9.9.9", &["XFF: 1.2.3.4, 10.0.0.1"], "9.9.9.9"),
    (4, TEN, "9.9.9.9", &[], "9.9.9.9"),
    (5, TEN, "10.0.0.5:555", &["XFF: 3.3.3.3, 10.0.0.1"], "3.3.3.3"),
    (
        6,
        By::Nets(&["198.51.100.0/24"]),
        "198.51.100.9",
        &["XFF: 127.0.0.1", "XFF: 8.8.8.8, 198.51.100.1"],
        "8.8.8.8",
    ),
    (
        7,
        By::Nets(&["203.0.113.0/24", "198.51.100.0/24"]),
        "198.51.100.1",
        &["XFF: 1.1.1.1, 203.0.113.10, 198.51.100.5"],
        "1.1.1.1",
    ),
    (
        8,
        By::Nets(&["10.244.0.0/24"]),
        "10.244.0.1",
        &["XFF: 10.244.1.50, 10.244.0.10"],
        "10.244.1.50",
    ),
    (
        9,
        By::Nets(&["2606:4700::/32"]),
        "2606:4700::9",
        &["XFF: 2001:db8::1, 2606:4700::1"],
        "2001:db8::1",
    ),
    (10, TEN, "10.0.0.9", &["XFF: ::ffff:10.0.0.5, 10.0.0.1"], "10.0.0.5"),
    (
        11,
        By::Nets(&["2606:4700::/32"]),
        "2606:4700::9",
        &["XFF: 2606:4700::1%attacker, 2606:4700::5"],
        "2606:4700::1",
    ),
    (
        12,
        By::Nets(&["2.2.2.0/24"]),
        "2.2.2.9",
        &["XFF: nope, 2.2.2.2:3384, 2.2.2.3", "XFF: 2.2.2.4"],
        "2.2.2.2",
    ),
    (13, By::Nets(&["2.2.2.0/24"]), "2.2.2.9", &["XFF: ::, 2.2.2.2"], "2.2.2.2"),
    (
        14,
        By::Nets(&["203.0.113.0/24"]),
        "203.0.113.1",
        &["XFF: 203.0.113.10, 203.0.113.20"],
        "203.0.113.10",
    ),
    (15, TEN, "10.0.0.1", &["XFF: 8.8.8.8:54321"], "8.8.8.8"),
    (16, TEN, "10.0.0.1", &["XFF: [2001:db8::7]:443"], "2001:db8::7"),
    (17, TEN, "10.0.0.1", &["XFF: [2001:db8::7]"], "2001:db8::7"),
    (18, TEN, "10.0.0.1", &["XFF: oh, hi,,127.0.0.1,,,,"], "127.0.0.1"),
    (19, TEN, "10.0.0.1", &["XFF: "], "10.0.0.1"),
    (21, TEN, "10.0.0.1", &["X_Forwarded_For: 6.6.6.6"], "10.0.0.1"),
    (22, By::Hops(1), "10.0.0.1", &["XFF: 1.1.1.1, 2.2.2.2"], "2.2.2.2"),
    (23, By::Hops(2), "10.0.0.1", &["XFF: 6.6.6.6, 1.1.1.1, 2.2.2.2, 3.3.3.3"], "2.2.2.2"),
    (24, By::Hops(2), "10.0.0.1", &["XFF: 2.2.2.2"], "10.0.0.1"),
    (25, By::Hops(2), "10.0.0.1", &["XFF: garbage, 2.2.2.2"], "10.0.0.1"),
    (26, By::Hops(2), "10.0.0.1", &["XFF: ,,, 3.3.3.3, 1.1.1.1, 2.2.2.2"], "1.1.1.1"),
    (27, By::Hops(2), "10.0.0.1", &["XFF: 1.1.1.1", "XFF: 2.2.2.2", "XFF: 3.3.3.3"], "2.2.2.2"),
    (28, By::Hops(3), "10.0.0.9", &["XFF: 10.0.0.4,10.0.0.3,10.0.0.2,10.0.0.1"], "10.0.0.3"),
    (
        29,
        By::Hops(2),
        "192.0.2.5",
        &["XFF: 203.0.113.128, 203.0.113.10, 203.0.113.1"],
        "203.0.113.10",
    ),
    (31, By::Real, "10.0.0.1", &["X-Real-IP: 6.6.6.6", "X-Real-IP: 100.2.2.2"], "100.2.2.2"),
    (32, By::Real, "10.0.0.1", &["X-Real-IP: 100.4.4.4", "X-Real-IP: garbage"], "10.0.0.1"),
    (33, By::Real, "10.0.0.1", &["X-Real-IP: 100.100.100.100,200.200.200.200"], "10.0.0.1"),
    (
        34,
        By::Real,
        "10.0.0.1",
        &["True-Client-IP: 1.1.1.1", "XFF: 2.2.2.2", "X-Real-IP: 203.0.113.7"],
        "203.0.113.7",
    ),
    (35, By::Cdn(&["173.245.48.0/20"]), "9.9.9.9", &["CF-Connecting-IP: 1.1.1.1"], "9.9.9.9"),
    (
        36,
        By::Forwarded(1),
        "10.0.0.1",
        &["Forwarded: For=\"[2607:f8b0:4004:83f::200e]:4711\""],
        "2607:f8b0:4004:83f::200e",
    ),
    (
        37,
        By::Forwarded(1),
        "10.0.0.1",
        &["Forwarded: host=what;for=6.6.6.6;proto=https"],
        "6.6.6.6",
    ),
    (
        38,
        By::Forwarded(1),
        "10.0.0.1",
        &["Forwarded: for=\"1.2.3.4\",for=\"_obfuscated\""],
        "10.0.0.1",
    ),
    (39, By::Forwarded(1), "10.0.0.1", &["Forwarded: for=unknown"], "10.0.0.1"),
    (40, By::Forwarded(1), "10.0.0.1", &["Forwarded: for=\"1.1.1.1"], "10.0.0.1"),
    (
        41,
        By::Forwarded(1),
        "10.0.0.1",
        &["Forwarded: for=\"[::ffff:188.0.2.128]:49428\""],
        "188.0.2.128",
    ),
    (
        42,
        By::Forwarded(2),
        "10.0.0.1",
        &[
            "Forwarded: For=\"::ffff:bc15:0006\"",
            "Forwarded: For=nope",
            "Forwarded: host=what;for=6.6.6.6",
        ],
        "10.0.0.1",
    ),
    (
        43,
        By::Forwarded(1),
        "10.0.0.1",
        &["Forwarded: for=1.2.3.4;by=\"a,b\";host=\"x, for=9.9.9.9\""],
        "1.2.3.4",
    ),
    (44, By::Peer, "[::ffff:172.21.0.6]:4747", &[], "172.21.0.6"),
    (47, TEN, "10.0.0.1", &["Connection: X-Forwarded-For"], "10.0.0.1"),
    (48, By::Nets(&["172.16.0.0/12"]), "172.17.0.1", &["XFF: 1.2.3.4, 172.17.0.1"], "1.2.3.4"),
];

/// Vectors of this file that are no row: what they show is asserted beside.
const BESIDE: [u32; 5] = [20, 30, 45, 46, 49];

#[test]
fn k1_to_k49_the_client_is_the_first_that_no_proxy_has_vouched_for() {
    for &(number, by, peer, lines, client) in ROWS {
        let found = by.client().address(&Head::from(&request(peer, lines)));
        assert_eq!(found, Some(client.parse().unwrap()), "K{number}");
    }
    for number in 1..=49 {
        let is_row = ROWS.iter().any(|row| row.0 == number);
        assert!(is_row != BESIDE.contains(&number), "K{number}");
    }
}

#[test]
fn k20_bytes_that_are_no_text_are_no_address() {
    let mut parts = request("10.0.0.1", &[]);
    let value = HeaderValue::from_bytes(b"\xff\xff").unwrap();
    parts.headers_mut().append("x-forwarded-for", value);
    assert_eq!(TEN.client().address(&Head::from(&parts)), Some([10, 0, 0, 1].into()));
}

#[test]
fn k30_no_proxy_is_no_number_of_proxies() {
    assert_eq!(Trust::hops(0).unwrap_err(), ClientError::Hops);
}

/// K45 is answered by the gate: `behaviour.rs`.
#[test]
fn k45_k46_a_peer_without_an_address() {
    let parts = request("", &["XFF: 3.3.3.3, 10.0.0.1"]);
    assert_eq!(Client::peer().address(&Head::from(&parts)), None);
    assert_eq!(TEN.client().address(&Head::from(&parts)), None);
    let trust = Trust::proxies(nets(&["10.0.0.0/8"])).unix_sockets();
    let client = Client::behind(Forwarding::XForwardedFor, trust);
    assert_eq!(client.address(&Head::from(&parts)), Some([3, 3, 3, 3].into()));
}

#[test]
fn k49_a_list_without_end_is_not_walked() {
    let entry = "10.0.0.7";
    let list = format!("XFF: 1.2.3.4, {}", vec![entry; 10_000].join(", "));
    let found = TEN.client().address(&Head::from(&request("10.0.0.1", &[&list])));
    assert_eq!(found, Some([10, 0, 0, 1].into()));
    let list = format!("Forwarded: {}", vec!["for=10.0.0.7"; 10_000].join(", "));
    let trust = Trust::proxies(nets(&["10.0.0.0/8"]));
    let client = Client::behind(Forwarding::Forwarded, trust);
    assert_eq!(
        client.address(&Head::from(&request("10.0.0.1", &[&list]))),
        Some([10, 0, 0, 1].into())
    );
}

#[test]
fn networks_and_addresses_in_other_forms_are_the_same() {
    let mapped = By::Nets(&["::ffff:10.0.0.0/104"]);
    let found = mapped.client().address(&Head::from(&request("10.0.0.5", &["XFF: 3.3.3.3"])));
    assert_eq!(found, Some([3, 3, 3, 3].into()));
    let header = Forwarding::Header(HeaderName::from_static("cloudfront-viewer-address"));
    let client = Client::behind(header, Trust::hops(1).unwrap());
    for (value, address) in [
        ("198.51.100.10:46532", "198.51.100.10"),
        ("2001:db8:1:2:3:4:5:6:46532", "2001:db8:1:2:3:4:5:6"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
    ] {
        let line = format!("cloudfront-viewer-address: {value}");
        let found = client.address(&Head::from(&request("10.0.0.1", &[&line])));
        assert_eq!(found, Some(address.parse().unwrap()), "{value}");
    }
}

/// The vector, an address, the prefix of IPv6 networks, and the network that it is counted by.
const NETWORKS: [(u32, &str, u8, &str); 11] = [
    (1, "1.2.3.4", 64, "1.2.3.4/32"),
    (2, "::ffff:1.2.3.4", 56, "1.2.3.4/32"),
    (3, "::ffff:102:304", 56, "1.2.3.4/32"),
    (4, "2001:db8:1234:5678::1.2.3.4", 56, "2001:db8:1234:5600::/56"),
    (5, "64:ff9b::1.2.3.4", 56, "64:ff9b::/56"),
    (6, "::1", 64, "::/64"),
    (7, "2001:0DB8:ABCD:0012:0:0:0:1", 64, "2001:db8:abcd:12::/64"),
    (8, "2001:db8:abcd:12::1", 48, "2001:db8:abcd::/48"),
    (10, "123:4567:89ab:cd11::1", 56, "123:4567:89ab:cd00::/56"),
    (12, "2001:db8::1", 128, "2001:db8::1/128"),
    (14, "::1.2.3.4", 64, "::/64"),
];

fn network(address: &str, prefix: u8) -> IpNet {
    let client = Client::peer().ipv6_prefix(prefix).unwrap();
    client.network(&Head::from(&request(address, &[]))).unwrap()
}

#[test]
fn p1_to_p14_clients_are_counted_by_networks() {
    for (number, address, prefix, expected) in NETWORKS {
        assert_eq!(network(address, prefix), expected.parse().unwrap(), "P{number}");
    }
    // P6, the other prefix.
    assert_eq!(network("::1", 56), "::/56".parse().unwrap());
    // P9.
    let keys = ["2001:db8:abcd:12::1", "2001:db8:abcd:12::2", "2001:db8:abcd:13::1"]
        .map(|address| Key::network(network(address, 64)));
    assert!(keys[0] == keys[1] && keys[1] != keys[2]);
    // P10, the other address.
    assert_eq!(network("123:4567:89ab:cd22::1", 56), network("123:4567:89ab:cd11::1", 56));
    // P11: a zone is only in headers.
    let parts = request("10.0.0.1", &["XFF: fe80::1%eth0"]);
    assert_eq!(TEN.client().network(&Head::from(&parts)), Some("fe80::/64".parse().unwrap()));
    // P13.
    for prefix in [0, 129] {
        let error = Client::peer().ipv6_prefix(prefix).unwrap_err();
        assert_eq!(error, ClientError::Ipv6Prefix { prefix });
    }
    let beside = [9, 11, 13];
    for number in 1..=14 {
        let is_row = NETWORKS.iter().any(|row| row.0 == number);
        assert!(is_row != beside.contains(&number), "P{number}");
    }
}

proptest! {
    /// Whatever a client writes, left of what its proxies add, decides nothing.
    #[test]
    fn what_a_client_writes_decides_nothing(
        forged in prop::collection::vec(
            prop::collection::vec(any::<u8>().prop_filter("a line", |byte| *byte >= 32 && *byte != 127), 0..40),
            0..4,
        ),
        client in any::<[u8; 4]>().prop_filter("no proxy", |address| address[0] != 10 && *address != [0; 4]),
        is_standard in any::<bool>(),
    ) {
        let client = IpAddr::from(client);
        let (name, forwarding, own) = match is_standard {
            true => ("forwarded", Forwarding::Forwarded, format!("for={client}")),
            false => ("x-forwarded-for", Forwarding::XForwardedFor, client.to_string()),
        };
        let mut parts = request("10.0.0.1", &[]);
        for line in &forged {
            parts.headers_mut().append(name, HeaderValue::from_bytes(line).unwrap());
        }
        // A proxy adds a line of its own, or to the last one.
        let mut with_line = parts.headers().clone();
        with_line.append(name, own.parse().unwrap());
        let trust = || Trust::proxies(nets(&["10.0.0.0/8"]));
        let told = Client::behind(forwarding.clone(), trust());
        let hops = Client::behind(forwarding, Trust::hops(1).unwrap());
        let mut lined = parts.clone();
        *lined.headers_mut() = with_line;
        prop_assert_eq!(told.address(&Head::from(&lined)), Some(client));
        prop_assert_eq!(hops.address(&Head::from(&lined)), Some(client));
        let mut joined = parts;
        let last = forged.last().cloned().unwrap_or_default();
        let last = [&last[..], b", ", own.as_bytes()].concat();
        joined.headers_mut().remove(name);
        joined.headers_mut().append(name, HeaderValue::from_bytes(&last).unwrap());
        // Quotes that it leaves open can hide it, and then it is counted with its proxy.
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let may_be = if is_standard { vec![client, proxy] } else { vec![client] };
        prop_assert!(may_be.contains(&told.address(&Head::from(&joined)).unwrap()));
        prop_assert!(may_be.contains(&hops.address(&Head::from(&joined)).unwrap()));
    }
}
