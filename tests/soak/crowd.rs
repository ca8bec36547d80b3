//! Keys that all threads call at once, and whose answers are judged by their sum.
//!
//! At one instant the order of the calls does not matter: exactly as many tokens are admitted as
//! the reference admits, and one is refused only if there are none left. By clocks that differ the
//! same holds for a key that is live all the while: what it owes at the end is what it owed and
//! what was admitted, so that it is right that all were admitted if the last could be at the latest
//! time, and it is right that one was refused if one would be at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::{Decision, KeyedLimiter};

use crate::known::Fault;
use crate::watched::{Round, Watched};

/// One key of the crowd, with the sums of a round.
#[derive(Debug)]
pub struct Crowded {
    watched: Mutex<Watched>,
    key: AtomicU64,
    /// The instant of all calls of the round; 0 if each thread goes by its own clock.
    instant: AtomicU64,
    admitted: AtomicU64,
    admitted_at: AtomicU64,
    /// 0 if none was.
    refused_at: AtomicU64,
}

impl Crowded {
    pub fn new(watched: Watched) -> Crowded {
        Crowded {
            key: AtomicU64::new(watched.key),
            watched: Mutex::new(watched),
            instant: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            admitted_at: AtomicU64::new(0),
            refused_at: AtomicU64::new(0),
        }
    }

    /// The key's past; only its owner of the round asks for it, between the calls.
    pub fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another key in its place.
    pub fn replace(&self, watched: Watched) {
        self.key.store(watched.key, Ordering::Relaxed);
        *self.watched() = watched;
    }

    /// Before the calls of a round, which a barrier holds back.
    pub fn prepare(&self, instant: Option<u64>) {
        self.instant.store(instant.unwrap_or(0), Ordering::Relaxed);
        self.admitted.store(0, Ordering::Relaxed);
        self.admitted_at.store(0, Ordering::Relaxed);
        self.refused_at.store(0, Ordering::Relaxed);
    }

    /// A call by a thread whose clock shows `now`.
    pub fn call(&self, limiter: &KeyedLimiter<u64>, now: u64) -> Decision {
        let now = match self.instant.load(Ordering::Relaxed) {
            0 => now,
            instant => instant,
        };
        let decision = limiter.check_at(&self.key.load(Ordering::Relaxed), 1, now);
        if decision.is_allowed() {
            self.admitted.fetch_add(1, Ordering::Relaxed);
            self.admitted_at.fetch_max(now, Ordering::Relaxed);
        } else {
            self.refused_at.fetch_max(now, Ordering::Relaxed);
        }
        decision
    }

    /// What the calls of a round came to, after a barrier.
    pub fn round(&self) -> Round {
        Round {
            admitted: self.admitted.load(Ordering::Relaxed),
            admitted_at: self.admitted_at.load(Ordering::Relaxed),
            refused_at: Some(self.refused_at.load(Ordering::Relaxed)).filter(|&at| at > 0),
        }
    }

    /// Judges the round.
    pub fn settle(
        &self,
        latest: u64,
        change: Option<(&[crate::known::Change], usize)>,
    ) -> Result<(), Fault> {
        self.watched().hear_round(&self.round(), latest, change)
    }
}
