//! A made-up log, for those who have none at hand.
//!
//! It is that of a plausible site: a few clients make most of the requests (a Zipf distribution);
//! visitors come in bursts, a page with all that belongs to it; every few minutes a handful of
//! clients flood the site; and some lines are late, since servers write them when a request ends.
//! The same seed gives the same log.

use std::net::{Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

use crate::access_log::Record;

/// One second, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// Time of the first request: the start of the year 2026.
const START: i64 = 1_767_225_600 * SECOND;

/// There is one client to so many requests, up to [`MAX_CLIENTS`].
const REQUESTS_PER_CLIENT: u64 = 20;

/// The most clients there are, the flooding ones aside.
const MAX_CLIENTS: u64 = 100_000;

/// How many visitors are on the site at a time.
const VISITS: usize = 16;

/// Seconds from the start of one flood to that of the next.
const FLOOD_EVERY: i64 = 300;

/// Seconds that a flood lasts; it comes at the end of each [`FLOOD_EVERY`].
const FLOOD_LASTS: i64 = 10;

/// The clients that flood the site.
const FLOODERS: [&str; 3] = ["203.0.113.66", "203.0.113.67", "2001:db8:bad::1"];

/// What is asked for, with the status that it gives.
const PAGES: [(&str, &str, u16); 8] = [
    ("GET", "/", 200),
    ("GET", "/style.css", 304),
    ("GET", "/logo.svg", 304),
    ("GET", "/articles?page=2", 200),
    ("GET", "/articles/rate-limits", 200),
    ("GET", "/api/search?q=token+bucket", 200),
    ("POST", "/api/login", 401),
    ("GET", "/favicon.ico", 404),
];

/// A visitor's stay on the site.
#[derive(Clone, Copy, Default)]
struct Visit {
    /// Which of the clients it is.
    client: usize,
    /// How many requests it is still going to make.
    left: u32,
}

/// An iterator over the requests of the made-up log.
pub struct Sample {
    rng: Rng,
    clients: Vec<String>,
    /// For each client, the Zipf weights of it and all before it, added up.
    weights: Vec<f64>,
    visits: [Visit; VISITS],
    time: i64,
    line: u64,
    requests: u64,
}

impl Sample {
    /// A log of so many requests.
    pub fn new(seed: u64, requests: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = (requests / REQUESTS_PER_CLIENT).clamp(1, MAX_CLIENTS);
        let clients = (0..count).map(|_| address(&mut rng)).collect();
        let weights = (1..=count)
            .scan((0.0, 0.0), |(rank, sum), _| {
                *rank += 1.0;
                *sum += 1.0 / *rank;
                Some(*sum)
            })
            .collect();
        let visits = [Visit::default(); VISITS];
        Self { rng, clients, weights, visits, time: START, line: 0, requests }
    }

    /// The client that makes the next request, where there is no flood.
    fn visitor(&mut self) -> String {
        let visit = &mut self.visits[self.rng.usize(..VISITS)];
        if visit.left == 0 {
            let total = self.weights.last().copied().unwrap_or_default();
            let drawn = self.rng.f64() * total;
            let last = self.clients.len() - 1;
            let client = self.weights.partition_point(|&weight| weight <= drawn).min(last);
            *visit = Visit { client, left: self.rng.u32(1..16) };
        }
        visit.left -= 1;
        self.clients[visit.client].clone()
    }
}

impl Iterator for Sample {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.line == self.requests {
            return None;
        }
        self.line += 1;

        let flood = (self.time - START) / SECOND % FLOOD_EVERY >= FLOOD_EVERY - FLOOD_LASTS;
        // On average 100 requests a second, and 1000 in a flood.
        let longest_step = if flood { SECOND / 500 } else { SECOND / 50 };
        self.time += self.rng.i64(0..longest_step);
        let late = if self.rng.u32(..50) == 0 { self.rng.i64(0..5 * SECOND) } else { 0 };

        let client = if flood && self.rng.u32(..10) < 9 {
            FLOODERS[self.rng.usize(..FLOODERS.len())].to_owned()
        } else {
            self.visitor()
        };
        let (method, path, status) = PAGES[self.rng.usize(..PAGES.len())];
        Some(Record {
            line: self.line,
            time: self.time - late,
            client,
            method: method.to_owned(),
            path: path.to_owned(),
            status: Some(status),
        })
    }
}

/// An address of a private or documentation range; one in eight is of IPv6.
fn address(rng: &mut Rng) -> String {
    if rng.u8(..8) == 0 {
        Ipv6Addr::from(0x2001_0db8_u128 << 96 | rng.u128(..1 << 64)).to_string()
    } else {
        Ipv4Addr::from(0x0a00_0000 | rng.u32(..1 << 24)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn is_the_same_for_the_same_seed_only() {
        let sample = |seed| Sample::new(seed, 1000).collect::<Vec<_>>();
        assert_eq!(sample(1), sample(1));
        assert_ne!(sample(1), sample(2));
        assert_eq!(Sample::new(1, 0).count(), 0);
        assert_eq!(Sample::new(1, 1).count(), 1);
    }

    #[test]
    fn looks_like_a_site() {
        let records: Vec<_> = Sample::new(1, 100_000).collect();
        let back = records.windows(2).filter(|pair| pair[1].time < pair[0].time).count();
        assert!((1000..3000).contains(&back), "{back} lines go back in time");
        let mut clients = HashMap::<&str, usize>::new();
        for record in &records {
            *clients.entry(&record.client).or_default() += 1;
        }
        assert!(clients.len() > 1000);
        assert!(clients.keys().any(|client| client.contains(':')));
        assert!(clients[FLOODERS[0]] > 1000);
    }
}
