//! The policy: the quota in force, published so that no decision ever sees half of it.
//!
//! Two slots take turns. A publication writes the slot that is not in use and then moves
//! `sequence`; a reader loads `sequence`, the slot, and `sequence` again, and starts over if it
//! moved. Readers never wait: a stopped publisher leaves the old slot in force.
//!
//! A change that keeps the units (most do: see `lay_out_like`) is one publication, and every word
//! in the table keeps its meaning. A change of units is a new *epoch*: words carry its parity,
//! whoever meets a word of the epoch before translates it first, and the changer walks the table
//! once, so that no such word is left when the next epoch may come. Changers exclude each other;
//! deciders know nothing of the lock.

mod change;
mod history;
mod slot;

use history::History;
use slot::Slot;

use crate::algorithm::sliding_log::Shape;
use crate::algorithm::{Algorithm, Layout, Translation};
use crate::probe::{Site, mutant};
use crate::quota::{Quota, QuotaError};
use crate::slope::Slope;
use crate::sync::{Acquire, Atomic, Counter, IS_MODEL, Mutex, Relaxed, lock};
use crate::terms::{Reading, Terms};

/// How often a decision looks whether another thread has renewed the range: some microseconds,
/// several times what a publication takes.
const PATIENCE: u32 = if IS_MODEL { 1 } else { 1_000 };

/// The quota in force.
#[derive(Debug)]
pub(crate) struct Policy {
    /// `[count:63 | epoch parity:1]`: the publications so far, and the parity of their epoch. The
    /// count's lowest bit names the slot.
    sequence: Atomic<u64>,
    slots: [Slot; 2],
    algorithm: Algorithm,
    /// The limiter's time 0 in nanoseconds since the Unix epoch, to which windows are aligned.
    unix_origin: u64,
    /// 1 once a call has brought its own quota; see [`QuotaError::AskedPerCall`].
    asked_per_call: Counter,
    /// 1 once a charge may have taken a key beyond its burst.
    owed_beyond: Atomic<u64>,
    change: Mutex<Change>,
    /// Held by changers before they publish and by those who have waited through a change, for a moment.
    history: Mutex<History>,
}

/// What changers pass on to each other.
#[derive(Debug)]
struct Change {
    /// Whether no word of the epoch before the current one is left.
    walked: bool,
}

/// What a new epoch leaves to be done to the words of the one before.
pub(crate) trait Walk {
    /// Translates every word that is left of the epoch before.
    fn walk(&self, policy: &Policy);
    /// Starts a walk that others will go on with, a little each. Called when the epoch has changed.
    fn start(&self);
    /// Whether a started walk has come to its end.
    fn is_done(&self) -> bool;
}

impl Policy {
    pub(crate) fn new(
        algorithm: Algorithm,
        quota: &Quota,
        shape: Shape,
        unix_origin: u64,
    ) -> Result<Policy, QuotaError> {
        let layout = algorithm.lay_out(quota, shape)?;
        let terms = Terms::starting(algorithm, layout, 0, unix_origin);
        let policy = Policy {
            sequence: Atomic::new(0),
            slots: [Slot::new(), Slot::new()],
            algorithm,
            unix_origin,
            asked_per_call: Counter::new(0),
            owed_beyond: Atomic::new(0),
            change: Mutex::new(Change { walked: true }),
            history: Mutex::new(History::default()),
        };
        policy.slots[0].write(&terms, &Translation::default(), quota);
        Ok(policy)
    }

    /// The algorithm, which never changes.
    #[inline]
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// A copy of the terms in force.
    #[inline]
    pub(crate) fn load(&self) -> Terms {
        self.consistent(|slot, sequence| slot.read_terms(sequence, self.algorithm))
    }

    /// [`load`](Policy::load) of a bucket whose clock rises by a whole number of units a
    /// nanosecond, which most quotas' does; `None` for other clocks.
    ///
    /// They may be half of a later publication: [`is_current`](Policy::is_current) says of them that
    /// they are not in force, and must be asked before they have any effect.
    #[inline]
    pub(crate) fn load_whole(&self, algorithm: Algorithm) -> Option<Terms> {
        let (slot, sequence) = self.in_force();
        slot.read_whole_terms(sequence, algorithm)
    }

    /// The terms with the way to read a word of the epoch before.
    pub(crate) fn load_with_translation(&self) -> (Terms, Translation) {
        self.consistent(|slot, sequence| {
            (slot.read_terms(sequence, self.algorithm), slot.read_translation())
        })
    }

    /// The quota in force.
    pub(crate) fn quota(&self) -> Quota {
        self.consistent(|slot, _| slot.read_quota())
    }

    /// Reads the slot in force, and again if it was replaced meanwhile.
    #[inline]
    fn consistent<T>(&self, read: impl Fn(&Slot, u64) -> T) -> T {
        loop {
            let (slot, sequence) = self.in_force();
            let value = read(slot, sequence);
            // A field of a later publication into this slot brings the sequence of the one
            // between with it (the fields are stored with Release and loaded with Acquire), so
            // Relaxed sees that it moved.
            let unmoved = self.sequence.load(Relaxed.at("policy/unmoved")) == sequence;
            if unmoved || mutant("policy: torn") {
                return value;
            }
        }
    }

    /// The slot in force, and the sequence that names it.
    #[inline]
    fn in_force(&self) -> (&Slot, u64) {
        // Acquire: pairs with the Release store in `publish`, so that the slot's fields are at least
        // as new as the sequence that names it.
        let sequence = self.sequence.load(Acquire.at("policy/sequence"));
        (&self.slots[(sequence >> 1 & 1) as usize], sequence)
    }

    /// Whether `terms` were in force at a moment after every load that came before this call.
    #[inline]
    pub(crate) fn is_current(&self, terms: &Terms) -> bool {
        self.is_in_force(terms.sequence)
    }

    /// [`is_current`](Policy::is_current) of the terms of this sequence.
    #[inline]
    pub(crate) fn is_in_force(&self, sequence: u64) -> bool {
        // Relaxed: the word loaded before was loaded with Acquire, which keeps this load behind
        // it; and a word of a later epoch was written by a thread that had seen its sequence. So were
        // the fields of the terms, and one of a later publication brought the sequence, as above.
        self.sequence.load(Relaxed.at("policy/is_in_force")) == sequence
    }

    /// The terms in force, with the layout of the quota that the call brings if it brings one, and
    /// the moment `now` on their line; renews the range first if it runs low.
    #[inline]
    pub(crate) fn read(
        &self,
        now: u64,
        own: Option<&Layout>,
        walk: &impl Walk,
    ) -> (Terms, Reading) {
        let terms = self.load().with_layout(own);
        match terms.read(now) {
            Some(reading) => (terms, reading),
            None => self.renew(now, own, walk),
        }
    }

    /// The layout of a quota that a call brings; marks the limiter as one that is asked so.
    pub(crate) fn lay_out_per_call(&self, quota: &Quota) -> Result<Layout, QuotaError> {
        if self.algorithm != Algorithm::Gcra {
            return Err(QuotaError::PerCall { algorithm: self.algorithm });
        }
        let layout = self.algorithm.lay_out(quota, Shape::default())?;
        if !self.is_asked_per_call() {
            // Relaxed: a flag for the changers, who read it under their lock. A change that is under
            // way at the very first such call may miss it; docs/guarantees.md says what follows.
            self.asked_per_call.store(1, Relaxed.at("policy/asked"));
        }
        // Time does not stand still for one call alone, so a limit of 0 has no room instead.
        let room = if layout.slope.is_zero() { 0 } else { layout.room };
        Ok(Layout { slope: Slope::ONE, room, ..layout })
    }

    fn is_asked_per_call(&self) -> bool {
        // Relaxed: as in `lay_out_per_call`.
        self.asked_per_call.load(Relaxed.at("policy/is_asked")) != 0
    }

    /// Bytes that are not in the policy itself.
    pub(crate) const BYTES_APART: usize = History::BYTES;

    /// Marks the limiter as one whose keys may owe more than their burst; before a word is so.
    pub(crate) fn let_owe_beyond(&self) {
        if !self.may_owe_beyond() {
            // Relaxed: whoever sees a word beyond its burst has loaded it with Acquire, and so sees this.
            self.owed_beyond.store(1, Relaxed.at("policy/beyond"));
        }
    }

    /// Whether a key may owe more than its burst. Then what is beyond it is a line of callers who wait,
    /// a debt or a ban, and nothing but its own end takes from it. Asked after the word was loaded.
    pub(crate) fn may_owe_beyond(&self) -> bool {
        // Relaxed: as in `let_owe_beyond`.
        self.owed_beyond.load(Relaxed.at("policy/may_be_beyond")) != 0
    }

    /// A time that a charge under the publication `since` has left, in the units of `terms`, which were
    /// loaded later; `None` if that is too many changes ago.
    pub(crate) fn bring_up(&self, time: u64, since: u64, terms: &Terms) -> Option<u64> {
        if since == terms.sequence {
            return Some(time);
        }
        lock(&self.history).translate(time, since, terms.sequence)
    }
}
