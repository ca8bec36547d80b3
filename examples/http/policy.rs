//! The limits of both servers: a few for strangers, more for who has an API key, and few failures at the
//! log-in.

use std::error::Error;

use ipnet::IpNet;
use tollgate::tower::{Client, Forwarding, GateLayer, Head, HeaderStyle, Key, Pick, Rule, Trust};
use tollgate::{KeyedLimiter, Permits, Quota};

/// Who has been given an API key. A real server would ask its database, in a layer outside of the gate.
const API_KEYS: [&str; 2] = ["alice-1f9d", "bob-77c0"];

/// The API key of a request, if it is one that was given out. Counting by any other would give whoever makes
/// them up a fresh limit with each.
fn api_key<'a>(head: &Head<'a>) -> Option<&'a str> {
    let sent = head.header("x-api-key")?;
    API_KEYS.into_iter().find(|&known| known == sent)
}

/// The gate, in front of which these proxies stand; without any, a client is its peer.
pub(crate) fn gate(proxies: Vec<IpNet>) -> Result<GateLayer, Box<dyn Error>> {
    let client = match proxies.is_empty() {
        true => Client::peer(),
        false => Client::behind(Forwarding::XForwardedFor, Trust::proxies(proxies)),
    };
    let by_address = client.clone();
    let anonymous = Rule::new("anonymous", KeyedLimiter::new(Quota::per_second(5))?)?
        .by(move |head| api_key(head).map_or_else(|| by_address.pick(head), |_| Pick::Pass));
    let authenticated = Rule::new("authenticated", KeyedLimiter::new(Quota::per_second(50))?)?
        .by(|head| api_key(head).map_or(Pick::Pass, |key| Pick::Count(Key::secret(key))));
    let failures = KeyedLimiter::builder(Quota::per_minute(5)).permits(Permits::new()).build()?;
    let log_in = Rule::new("log-in", failures)?
        .only(|head| head.uri.path() == "/login")
        .by_client(client)
        .count_failures()
        .hide_quota();
    let gate = GateLayer::builder()
        .rule(anonymous)
        .rule(authenticated)
        .rule(log_in)
        .skip(|head| head.uri.path() == "/health")
        .headers(HeaderStyle::Draft10)
        .tell_admitted()
        .build()?;
    Ok(gate)
}

/// What to try, for a server at this address.
pub(crate) fn print_what_to_try(address: std::net::SocketAddr) {
    println!("listening on http://{address}; try:\n");
    println!("  # five a second for whoever has no API key; the sixth is told to wait");
    println!("  for i in 1 2 3 4 5 6; do curl -i http://{address}/; done\n");
    println!("  # fifty a second with one");
    println!("  curl -i -H 'x-api-key: {}' http://{address}/\n", API_KEYS[0]);
    println!("  # five wrong passwords a minute; right ones are not counted");
    println!("  curl -i -d wrong http://{address}/login");
    println!("  curl -i -d secret http://{address}/login");
}
