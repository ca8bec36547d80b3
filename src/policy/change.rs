//! Changes of the quota, and of the range of the word. Changers exclude each other.

use super::{PATIENCE, Policy, Walk};
use crate::algorithm::sliding_log::expired_at;
use crate::algorithm::{Algorithm, Layout, Translation, token_bucket};
use crate::policy::Change;
use crate::probe::{Site, mutant, step};
use crate::quota::{Quota, QuotaError};
use crate::sync::{Relaxed, Release, lock, try_lock};
use crate::terms::{Reading, Terms};

impl Policy {
    /// Puts `quota` in force from `now` on.
    pub(crate) fn set_quota(
        &self,
        quota: &Quota,
        now: u64,
        walk: &impl Walk,
    ) -> Result<(), QuotaError> {
        let mut change = lock(&self.change);
        let current = self.load();
        // Whether it can be counted at all.
        self.algorithm.lay_out(quota, current.layout.shape)?;
        let now = now.max(current.origin);
        let same_units = self.algorithm.lay_out_like(&current.layout, quota);
        if same_units.is_none() && self.is_asked_per_call() {
            return Err(QuotaError::AskedPerCall);
        }
        if let Some(layout) = same_units.filter(|_| current.read(now).is_some()) {
            self.continue_line(&current, layout, quota, now);
        } else {
            let layout = self.algorithm.lay_out_anew(&current.layout, quota)?;
            self.begin_epoch(&mut change, &current, layout, quota, now, walk);
            step("published");
            walk.walk(self);
            change.walked = true;
        }
        Ok(())
    }

    /// Moves the range of the word up to `now`. Few decisions come here: one in years, or in the
    /// minutes after a quota was made much faster.
    #[cold]
    pub(super) fn renew(
        &self,
        now: u64,
        own: Option<&Layout>,
        walk: &impl Walk,
    ) -> (Terms, Reading) {
        if let Some(mut change) = try_lock(&self.change) {
            let current = self.load().with_layout(own);
            let quota = self.quota();
            let layout = self.algorithm.lay_out(&quota, current.layout.shape);
            if let (None, Ok(layout)) = (current.read(now), layout) {
                let is_early = mutant("renewal: walk started early");
                if is_early {
                    walk.start();
                }
                self.begin_epoch(&mut change, &current, layout, &quota, now, walk);
                step("published");
                // After the publication, or a helper would find nothing to do and be counted.
                if !is_early {
                    walk.start();
                }
            }
        }
        // Whoever finds the lock taken does not wait for it, but looks a few times whether the new
        // epoch is out. Until then it goes on in the old range while that lasts, and past its end
        // refuses.
        for _ in 0..PATIENCE {
            let terms = self.load().with_layout(own);
            if let Some(reading) = terms.read(now) {
                return (terms, reading);
            }
            core::hint::spin_loop();
        }
        let terms = self.load().with_layout(own);
        (terms, terms.read_to_the_end(now))
    }

    /// The same units from now on: the clock goes on from where it is, with another slope.
    fn continue_line(&self, current: &Terms, layout: Layout, quota: &Quota, now: u64) {
        let mut terms = Terms { layout, ..*current };
        if self.algorithm == Algorithm::SlidingWindowLog {
            if layout.unit != current.layout.unit {
                terms.phase = expired_at(current, now);
            }
        } else if layout.slope != current.layout.slope {
            (terms.base, terms.phase) = current.position_and_phase(now);
            terms.origin = now;
        }
        let translation = self.load_with_translation().1;
        self.publish(terms, current.epoch(), &translation, quota);
    }

    /// Other units from now on. The walk of the epoch before must be over: one parity bit tells
    /// two epochs apart, not three.
    fn begin_epoch(
        &self,
        change: &mut Change,
        current: &Terms,
        layout: Layout,
        quota: &Quota,
        now: u64,
        walk: &impl Walk,
    ) {
        if !change.walked && !walk.is_done() {
            walk.walk(self);
        }
        let mut terms = Terms::starting(self.algorithm, layout, now, self.unix_origin);
        if self.algorithm == Algorithm::SlidingWindowLog {
            terms.phase = expired_at(current, now);
        }
        let mut translation = Translation { from: current.side(now), to: terms.side(now) };
        if self.is_asked_per_call() {
            // Debts are times, whatever the limiter's own quota makes of a token.
            translation.to.unit = translation.from.unit;
        } else if self.algorithm.is_bucket() {
            // The fraction of a unit that has passed passes on, so that debts stay exact.
            let phase = current.position_and_phase(now).1;
            let (from, to) = (current.layout.unit, layout.unit);
            let (units, parts) = token_bucket::translate_phase(phase, from, to);
            (terms.base, terms.phase) = (terms.base + units, parts);
        }
        change.walked = false;
        let epoch = current.epoch() ^ 1;
        let remember = || {
            let sequence = next_sequence(current.sequence, epoch);
            lock(&self.history).remember(sequence, translation);
        };
        // Before it is published, so that whoever sees the epoch finds it there.
        let is_late = mutant("history: kept late");
        if self.algorithm.is_bucket() && !is_late && !mutant("history: not kept") {
            remember();
        }
        self.publish(terms, epoch, &translation, quota);
        if is_late {
            remember();
        }
    }

    /// Only under the changers' lock.
    fn publish(&self, terms: Terms, epoch: u64, translation: &Translation, quota: &Quota) {
        // Relaxed: only changers write it, one after the other.
        let sequence = next_sequence(self.sequence.load(Relaxed.at("policy/count")), epoch);
        self.slots[(sequence >> 1 & 1) as usize].write(&terms, translation, quota);
        step("written");
        // Release: publishes the slot. Pairs with the Acquire load in `consistent`.
        self.sequence.store(sequence, Release.at("policy/publish"));
    }
}

/// The publication after `sequence`, of an epoch of this parity.
fn next_sequence(sequence: u64, epoch: u64) -> u64 {
    ((sequence >> 1) + 1) << 1 | epoch
}
