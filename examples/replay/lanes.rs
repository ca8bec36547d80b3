//! The algorithms side by side: each decides every request, with a limiter of its own.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tollgate::{Algorithm, BuildError, Clock, Decision, KeyedLimiter, Quota};

use crate::access_log::Record;
use crate::verify::{Difference, KEPT_DIFFERENCES, Verifier};

/// The algorithms that take part, under the names they are printed with.
const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("token bucket", Algorithm::TokenBucket),
    ("gcra", Algorithm::Gcra),
    ("leaky bucket", Algorithm::LeakyBucket),
    ("fixed window", Algorithm::FixedWindow),
    ("sliding counter", Algorithm::SlidingWindowCounter),
    ("sliding log", Algorithm::SlidingWindowLog),
];

/// How far before the first request the limiters' time begins, in nanoseconds: one day, so that
/// lines out of order, which may lie before the first one, have a time too.
const BEFORE_FIRST: i64 = 86_400_000_000_000;

/// One algorithm at work.
pub struct Lane {
    /// Its name.
    pub name: &'static str,
    /// How many requests it let through.
    pub admitted: u64,
    /// How many requests it turned away.
    pub refused: u64,
    /// Time spent in the limiter, and nowhere else.
    pub spent: Duration,
    limiter: KeyedLimiter<str>,
    decisions: Vec<Decision>,
    verifier: Option<Verifier>,
}

/// What is known of one client.
pub struct Client {
    /// How many requests it made.
    pub requests: u64,
    /// How many of them each lane refused.
    pub refused: Vec<u64>,
}

/// The lanes, and what there is to tell of the log that they decide.
pub struct Replay {
    /// The lanes, in the order in which they are printed.
    pub lanes: Vec<Lane>,
    /// Every client that was seen.
    pub clients: HashMap<String, Client>,
    /// The earliest and the latest time of a request.
    pub span: Option<(i64, i64)>,
    /// How many requests were earlier than the one before them.
    pub out_of_order: u64,
    /// How many requests the log's own server answered with "too many requests".
    pub refused_by_server: u64,
    /// Time of the first request less [`BEFORE_FIRST`].
    origin: Option<i64>,
    previous: i64,
    /// When the requests of a chunk are decided, in the limiters' own time.
    nows: Vec<u64>,
}

impl Replay {
    /// Sets up one limiter for each algorithm, and the reference beside it if asked to.
    pub fn new(quota: Quota, capacity: usize, verify: bool) -> Result<Self, BuildError> {
        let lane = |&(name, algorithm)| {
            let (clock, _) = Clock::manual();
            let limiter = KeyedLimiter::builder(quota)
                .algorithm(algorithm)
                .capacity(capacity)
                .clock(clock)
                .build()?;
            let verifier = verify.then(|| Verifier::new(algorithm, quota));
            Ok(Lane {
                name,
                admitted: 0,
                refused: 0,
                spent: Duration::ZERO,
                limiter,
                decisions: Vec::new(),
                verifier,
            })
        };
        Ok(Self {
            lanes: ALGORITHMS.iter().map(lane).collect::<Result<_, BuildError>>()?,
            clients: HashMap::new(),
            span: None,
            out_of_order: 0,
            refused_by_server: 0,
            origin: None,
            previous: i64::MIN,
            nows: Vec::new(),
        })
    }

    /// Decides a chunk of requests with one lane after another, which keeps the clock readings few.
    pub fn decide(&mut self, source: &str, chunk: &[Record]) {
        self.look_at(chunk);
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            lane.decide(chunk, &self.nows);
            for (record, decision) in chunk.iter().zip(&lane.decisions) {
                if !decision.is_allowed()
                    && let Some(client) = self.clients.get_mut(&record.client)
                {
                    client.refused[index] += 1;
                }
            }
            if let Some(verifier) = &mut lane.verifier {
                verifier.compare(source, chunk, &self.nows, &lane.decisions);
            }
        }
    }

    /// The first differences from the reference over all lanes, in the log's order, and how many
    /// there are altogether; `None` if nobody looked.
    pub fn differences(&self) -> Option<(Vec<(&'static str, &Difference)>, u64)> {
        let mut first = Vec::new();
        let mut total = 0;
        for lane in &self.lanes {
            let verifier = lane.verifier.as_ref()?;
            total += verifier.total();
            first.extend(verifier.first().iter().map(|difference| (lane.name, difference)));
        }
        first.sort_by_key(|(_, difference)| difference.position);
        first.truncate(KEPT_DIFFERENCES);
        Some((first, total))
    }

    /// Takes note of the requests themselves, and sets when each is decided.
    fn look_at(&mut self, chunk: &[Record]) {
        self.nows.clear();
        for record in chunk {
            let time = record.time;
            let origin = *self.origin.get_or_insert(time.saturating_sub(BEFORE_FIRST));
            self.nows.push(u64::try_from(time.saturating_sub(origin)).unwrap_or(0));

            let (earliest, latest) = self.span.unwrap_or((time, time));
            self.span = Some((earliest.min(time), latest.max(time)));
            self.out_of_order += u64::from(time < self.previous);
            self.previous = time;
            self.refused_by_server += u64::from(record.status == Some(429));

            if !self.clients.contains_key(&record.client) {
                let refused = vec![0; self.lanes.len()];
                self.clients.insert(record.client.clone(), Client { requests: 0, refused });
            }
            if let Some(client) = self.clients.get_mut(&record.client) {
                client.requests += 1;
            }
        }
    }
}

impl Lane {
    /// Decides a chunk, timing nothing but the decisions.
    fn decide(&mut self, chunk: &[Record], nows: &[u64]) {
        self.decisions.clear();
        self.decisions.reserve(chunk.len());
        let start = Instant::now();
        for (record, &now) in chunk.iter().zip(nows) {
            self.decisions.push(self.limiter.check_at(&record.client, 1, now));
        }
        self.spent += start.elapsed();
        let admitted = self.decisions.iter().filter(|decision| decision.is_allowed()).count();
        self.admitted += admitted as u64;
        self.refused += (chunk.len() - admitted) as u64;
    }
}
