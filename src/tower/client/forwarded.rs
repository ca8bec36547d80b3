//! Forwarding headers, walked from the right: the client is the first that no proxy has vouched for.

use core::net::IpAddr;
use std::borrow::Cow;
use std::collections::VecDeque;

use http::header::{FORWARDED, HeaderMap, HeaderName};

use crate::tower::client::address::{parse, parse_single};
use crate::tower::client::trust::Trust;

/// The most entries of a list that are looked at.
const ENTRIES: usize = 64;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The one header that the proxies in front of a server write. Others are not looked at: a client may have
/// written them.
///
/// ```
/// use http::HeaderName;
/// use tollgate::tower::Forwarding;
///
/// let cloudflare = Forwarding::Header(HeaderName::from_static("cf-connecting-ip"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forwarding {
    /// `X-Forwarded-For`: a list, to whose right end each proxy adds who was connected to it.
    XForwardedFor,
    /// `Forwarded` of RFC 7239: the same, by the parameter `for`. Obfuscated and unknown nodes are no
    /// addresses.
    Forwarded,
    /// `X-Real-IP`: one address, which the last proxy writes in place of what was there.
    XRealIp,
    /// Another header of one address, such as a CDN's.
    Header(HeaderName),
}

/// The client of a request with these headers from this peer.
pub(super) fn client(
    forwarding: &Forwarding,
    trust: &Trust,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
) -> Option<IpAddr> {
    if !trust.believes(peer) {
        return peer;
    }
    match forwarding {
        Forwarding::XForwardedFor => {
            let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
            let entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
            let entries = entries.map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty());
            walk(trust, peer, entries.map(|entry| parse(core::str::from_utf8(entry).ok()?)))
        }
        Forwarding::Forwarded => {
            let lines = headers.get_all(FORWARDED).iter().rev();
            let entries = lines.flat_map(|line| {
                let elements = elements(line.as_bytes());
                elements.into_iter().rev().map(|element| node(element?))
            });
            walk(trust, peer, entries)
        }
        Forwarding::XRealIp => single(headers, &X_REAL_IP).or(peer),
        Forwarding::Header(name) => single(headers, name).or(peer),
    }
}

/// The address of a header that has one. Of several lines the last is the last proxy's.
fn single(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let last = headers.get_all(name).iter().next_back()?;
    parse_single(core::str::from_utf8(last.as_bytes()).ok()?.trim_matches([' ', '\t']))
}

/// Walks entries from the right; those that are no address are `None`.
fn walk(
    trust: &Trust,
    peer: Option<IpAddr>,
    mut entries: impl Iterator<Item = Option<IpAddr>>,
) -> Option<IpAddr> {
    if let Some(hops) = trust.hops {
        // Too few, or no address: somebody else has written it.
        let client = if hops <= ENTRIES { entries.nth(hops - 1).flatten() } else { None };
        return client.or(peer);
    }
    let mut last = peer;
    for entry in entries.by_ref().take(ENTRIES) {
        match entry {
            Some(address) if trust.covers(address) => last = Some(address),
            Some(address) => return Some(address),
            // What stands left of it was vouched for by nobody.
            None => return last,
        }
    }
    // All are proxies: the first of them is the client. Or there are too many to believe any.
    if entries.next().is_none() { last } else { peer }
}

/// The last elements of a `Forwarded` line, each as its pairs; `None` for those that are not well formed. Commas
/// and semicolons within quotes do not part them, so that they are found from the left.
fn elements(line: &[u8]) -> VecDeque<Option<Vec<&[u8]>>> {
    let mut elements = VecDeque::new();
    let (mut pairs, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' | b';' if !is_quoted => {
                pairs.push(&line[start..at]);
                start = at + 1;
                if byte == b',' {
                    add(&mut elements, core::mem::take(&mut pairs));
                }
            }
            _ => {}
        }
    }
    pairs.push(&line[start..]);
    add(&mut elements, pairs);
    if is_quoted {
        // Where a quote is not closed nobody can say what belongs to whom.
        return VecDeque::from([None]);
    }
    elements
}

fn add<'a>(elements: &mut VecDeque<Option<Vec<&'a [u8]>>>, pairs: Vec<&'a [u8]>) {
    if pairs.iter().all(|pair| pair.trim_ascii().is_empty()) {
        return;
    }
    elements.push_back(Some(pairs));
    // One more than is looked at, to tell that there are more.
    if elements.len() > ENTRIES + 1 {
        elements.pop_front();
    }
}

/// The address of the node that an element names by `for`, if it is one, and named once.
fn node(pairs: Vec<&[u8]>) -> Option<IpAddr> {
    let mut found = None;
    for pair in pairs {
        let pair = core::str::from_utf8(pair.trim_ascii()).ok()?;
        let Some((name, value)) = pair.split_once('=') else { continue };
        if name.eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
    }
    parse(&unquoted(found?)?)
}

fn unquoted(value: &str) -> Option<Cow<'_, str>> {
    let Some(inside) = value.strip_prefix('"') else { return Some(value.into()) };
    let inside = inside.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(inside.into());
    }
    let mut plain = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        plain.push(if character == '\\' { characters.next()? } else { character });
    }
    Some(plain.into())
}
