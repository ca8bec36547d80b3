//! How far beyond its burst a call may take a key, and what is owed there.

use crate::algorithm::{Algorithm, Layout, OWED_MAX, leaky_bucket, token_bucket};
use crate::terms::{Reading, Terms};

/// How far beyond its burst a charge may take a key of a bucket algorithm; others never go beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Burst,
    /// By what is earned in so many nanoseconds: a call that waits so long for its turn at the most.
    Nanos(u64),
    /// By a debt of so many tokens, which the answer counts as tokens that are there.
    Debt(u64),
    /// As far as a word can tell: a penalty is not asked for.
    Penalty,
    /// So far that the key is refused until this moment, in nanoseconds of the limiter.
    Ban(u64),
}

impl Terms {
    /// The same terms for a call of `cost` at this moment that may reach so far beyond the burst.
    pub(crate) fn reaching(self, reach: Reach, cost: u64, reading: &Reading) -> Terms {
        let Layout { unit, room, .. } = self.layout;
        let units = cost.saturating_mul(unit);
        let beyond = match reach {
            _ if !self.algorithm.is_bucket() => 0,
            Reach::Burst => 0,
            // What is more than the burst is never due.
            Reach::Nanos(_) if units > room => 0,
            Reach::Nanos(nanos) => {
                let end = self.position(reading.now.saturating_add(nanos));
                let ahead = end.saturating_sub(reading.position).min(OWED_MAX) as i64;
                match self.algorithm {
                    // Its burst is the places in its queue: who waits long still needs one.
                    Algorithm::LeakyBucket => (ahead + units as i64 - room as i64).min(0),
                    _ => ahead,
                }
            }
            Reach::Debt(tokens) => {
                let room = room.saturating_add(tokens.saturating_mul(unit)).min(OWED_MAX);
                return Terms { layout: Layout { room, ..self.layout }, ..self };
            }
            Reach::Penalty => OWED_MAX as i64,
            Reach::Ban(until) => {
                return Terms { at_least: self.refusing_until(until, reading), ..self };
            }
        };
        // What is owed in all stays within the word's range.
        Terms { beyond: beyond.min((OWED_MAX - room) as i64), ..self }
    }

    /// The least time of a key that owes more than its burst up to a moment: at a nanosecond before it
    /// still does.
    fn refusing_until(&self, until: u64, reading: &Reading) -> u64 {
        if until <= reading.now {
            return 0;
        }
        let clock = self.position(until - 1).saturating_add(1);
        let time = clock.saturating_add(self.layout.room);
        time.min(reading.position.saturating_add(OWED_MAX))
    }

    /// Whether a key owes more than its burst: callers wait in line for it, it is in debt, or banned. In
    /// the queue of a leaky bucket all that is owed is a line.
    pub(crate) fn is_beyond(&self, time: u64, reading: &Reading) -> bool {
        let owed = time.saturating_sub(reading.position);
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra => owed > self.layout.room,
            Algorithm::LeakyBucket => owed > 0,
            _ => false,
        }
    }

    /// Nanoseconds until the turn of a charge of `cost` that has left its key at `time`: a bucket's is
    /// when no more than the burst is owed of it, a queue's when all before it has left. `None` for
    /// never.
    pub(crate) fn turn_in(&self, time: u64, reading: &Reading, cost: u64) -> Option<u64> {
        if reading.is_past_end {
            // Another thread is about to renew the range.
            return Some(1);
        }
        let answer = token_bucket::answer(self, time, reading);
        match self.algorithm {
            Algorithm::LeakyBucket => leaky_bucket::departs_in(&answer, cost),
            _ => answer.wait(0),
        }
    }
}
