//! Many keys in a table that is too small for them: reclaiming changes no answer, overflow does
//! what its policy says, and a clock that goes back gains nothing.
//!
//! While no call comes by a clock behind the moment at which a cell was last taken, every answer is
//! the reference's, and an eviction is found by the one key that answers as one not seen. From the
//! first such call on the engine may be stricter (docs/guarantees.md, "A fresh key and a fast
//! clock"): then nothing is admitted that the reference refuses, but once for each eviction that
//! was counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Algorithm, Clock, Decision, KeyedLimiter, Overflow, Stats};
use tollgate_fuzz::course::Course;
use tollgate_fuzz::crowd::Crowd;
use tollgate_fuzz::reference::{Answer, Reference};
use tollgate_fuzz::script::{Script, Verb};
use tollgate_fuzz::{is_bucket, most, reference};

/// Three times what a bucket holds.
const KEYS: u8 = 96;

/// Cells of a bucket, and the keys of capacity that ask for one.
const CELLS: usize = 31;
const KEYS_PER_BUCKET: usize = 12;

/// Calls of a script: references are slow.
const CALLS: usize = 300;

/// A table and what it is held against.
struct Trial<'a> {
    script: &'a Script,
    limiter: KeyedLimiter<u8>,
    crowd: Crowd,
    course: Course,
    stats: Stats,
    /// The latest time at which a cell may have been taken.
    floor: u64,
    /// The latest time there had been when a refund emptied a window.
    emptied: u64,
    /// Whether no call came by a clock behind these.
    exact: bool,
    /// Evictions, since then, that no key was found for.
    forgiven: u64,
    calls: usize,
}

/// What a check asks for.
#[derive(Clone, Copy)]
struct Ask {
    key: u8,
    cost: u64,
    /// The script's quota that the call brings, if it brings one.
    quota: Option<usize>,
}

impl Trial<'_> {
    fn theirs(&self, reference: &mut Reference, ask: Ask) -> Answer {
        match ask.quota {
            Some(index) => {
                reference.check_with(ask.cost, self.script.quotas[index], self.course.now)
            }
            None => reference.check(ask.cost, self.course.now),
        }
    }

    /// Before a call that may change something: what it means for all keys.
    fn begin(&mut self) {
        self.crowd.renew(self.course.now);
        self.exact &= !self.is_behind();
    }

    /// Whether a key that is not in the table may be judged by a later time than this call's, or find
    /// fewer cells. A
    /// log's cell leaves the time of its last stamp behind, even if it is not taken in the end.
    fn is_behind(&self) -> bool {
        let is_log = self.script.algorithm == Algorithm::SlidingWindowLog;
        let may_take = self.crowd.seen() >= CELLS;
        self.course.now < self.floor.max(self.emptied)
            || (is_log && may_take && self.course.is_back())
    }

    fn check(&mut self, ask: Ask) {
        if self.calls == CALLS {
            return;
        }
        self.calls += 1;
        let (key, now) = (ask.key, self.course.now);
        let made = match ask.quota {
            Some(index) => {
                let quota = self.script.quotas[index];
                match self.limiter.check_with_at(&key, ask.cost, quota, now) {
                    Ok(made) => made,
                    Err(_) => return,
                }
            }
            None => self.limiter.check_at(&key, ask.cost, now),
        };
        // Not before: a quota that cannot be counted is refused without a look at the table.
        self.begin();
        let ours = self.course.note(&made);
        let evicted = self.count(&made, ask);
        if made.is_full() {
            self.full(&made, ask);
        } else if self.exact {
            self.must_be_full(&made, ask);
            if evicted > 0 {
                self.find_evicted(key);
            }
            let mut reference = self.crowd.key(key).clone();
            let theirs = self.theirs(&mut reference, ask);
            assert_eq!(ours, self.course.told(ours, theirs), "check {} of {key}", ask.cost);
            *self.crowd.key(key) = reference;
        } else {
            self.forgiven += evicted;
            if ours.allowed && ask.cost > 0 {
                self.admit(ask);
            }
        }
    }

    /// Compares the counts; returns how many keys were evicted.
    fn count(&mut self, made: &Decision, ask: Ask) -> u64 {
        let (before, after) = (self.stats, self.limiter.stats());
        let mut expected = before;
        if ask.cost > 0 {
            *match (made.is_allowed(), made.is_full()) {
                (true, false) => &mut expected.admitted,
                (false, false) => &mut expected.refused,
                (true, true) => &mut expected.admitted_full,
                (false, true) => &mut expected.refused_full,
            } += 1;
        }
        let evicted = after.evicted - before.evicted;
        let taken = evicted + after.reclaimed - before.reclaimed;
        assert!(taken <= 1);
        assert!(taken == 0 || (made.is_allowed() && ask.cost > 0), "taken for nothing");
        assert!(evicted == 0 || self.script.overflow == Overflow::EvictNearest);
        (expected.evicted, expected.reclaimed) = (after.evicted, after.reclaimed);
        // A log is judged again where a cell's last stamp is in its future.
        expected.retries = after.retries;
        assert_eq!(after, expected);
        self.stats = after;
        if taken > 0 {
            self.floor = self.floor.max(self.course.now);
        }
        evicted
    }

    /// Of the other keys exactly one has been evicted: it answers as one not seen, and it was the
    /// nearest to idle.
    fn find_evicted(&mut self, but: u8) {
        let now = self.course.now;
        let live = self.crowd.live(but, now);
        assert!(live.len() >= CELLS, "evicted with room for {} more", CELLS - live.len());
        let mut is_gone = |&&(key, _): &&(u8, Option<u64>)| {
            let ours = Answer::from(&self.limiter.peek_at(&key, 1, now));
            ours != self.course.told(ours, self.crowd.key(key).peek(1, now))
        };
        let gone: Vec<_> = live.iter().filter(&mut is_gone).copied().collect();
        let [(key, wait)] = gone[..] else { panic!("evicted: {gone:?}") };
        let ours = Answer::from(&self.limiter.peek_at(&key, 1, now));
        let theirs = self.course.told(ours, self.crowd.unseen().peek(1, now));
        assert_eq!(ours, theirs, "{key} is not forgotten");
        if self.script.buckets == 1 && is_bucket(self.script.algorithm) {
            let nearest = live.iter().filter_map(|&(_, wait)| wait).min();
            assert_eq!(wait, nearest, "{key} is not the nearest");
        }
        self.crowd.forget(key);
    }

    /// What the overflow policy answers, it answers only if it must, and changes nothing.
    fn full(&mut self, made: &Decision, ask: Ask) {
        let (overflow, now) = (self.script.overflow, self.course.now);
        assert_ne!(overflow, Overflow::EvictNearest);
        assert_eq!(made.is_allowed(), overflow == Overflow::Admit);
        assert_eq!(made.remaining(), 0);
        if !self.exact || self.is_behind() {
            return;
        }
        assert_eq!(self.crowd.key(ask.key).peek(0, now).reset_after, Some(0), "{} lives", ask.key);
        let admitted = self.theirs(&mut self.crowd.unseen(), ask).allowed;
        assert!(admitted && ask.cost > 0, "the quota refuses before the table does");
        let live = self.crowd.live(ask.key, now);
        assert!(live.len() >= CELLS, "full with room for {} more", CELLS - live.len());
        let wait = Answer::from(made).retry_after;
        if overflow == Overflow::Refuse && self.script.buckets == 1 {
            let told = |theirs| self.course.told_wait(wait, theirs);
            let mut waits = live.iter().map(|&(_, wait)| wait);
            if is_bucket(self.script.algorithm) {
                assert_eq!(wait, told(waits.flatten().min()), "until a cell falls idle");
            } else {
                // A window's nearest is the one with the smallest word.
                assert!(waits.any(|one| told(one) == wait), "until some cell falls idle");
            }
        }
    }

    /// A key that owes nothing, and for which there is no cell, is not answered by its quota.
    fn must_be_full(&mut self, made: &Decision, ask: Ask) {
        let (now, policy) = (self.course.now, self.script.overflow);
        let may_be_full = self.script.buckets == 1 && policy != Overflow::EvictNearest;
        if may_be_full && made.is_allowed() && ask.cost > 0 {
            let is_idle = self.crowd.key(ask.key).peek(0, now).reset_after == Some(0);
            if is_idle {
                let live = self.crowd.live(ask.key, now).len();
                assert!(live < CELLS, "admitted beyond {live} live keys");
            }
        }
    }

    /// What was admitted by a clock that had gone back, the reference admits, or the key has been
    /// evicted.
    fn admit(&mut self, ask: Ask) {
        let mut reference = self.crowd.key(ask.key).clone();
        if !self.theirs(&mut reference, ask).allowed {
            let Ask { key, cost, .. } = ask;
            assert!(self.forgiven > 0, "minted: {cost} of {key} at {}", self.course.now);
            self.forgiven -= 1;
            reference = self.crowd.unseen();
            assert!(self.theirs(&mut reference, ask).allowed, "minted, even of a fresh key");
        }
        *self.crowd.key(ask.key) = reference;
    }

    fn peek(&mut self, key: u8, cost: u64) {
        let now = self.course.now;
        self.crowd.renew(now);
        let made = self.limiter.peek_at(&key, cost, now);
        let theirs = self.crowd.key(key).peek(cost, now);
        assert_eq!(self.limiter.stats(), self.stats, "a peek is not counted");
        if made.is_full() {
            self.full(&made, Ask { key, cost, quota: None });
        } else if self.exact && !self.is_behind() {
            let ours = Answer::from(&made);
            let theirs = self.course.told(ours, theirs);
            assert_eq!(ours, theirs, "peek {cost} of {key} at {now}");
        } else if made.is_allowed() && cost > 0 {
            let is_known = theirs.allowed || self.forgiven > 0;
            assert!(is_known, "foreseen: {cost} of {key} at {now}");
        }
    }

    /// A window that counts nothing any more keeps its cell from clocks behind it, or what the key had
    /// spent in the windows before would be spent again: for them there are fewer cells than the
    /// reference knows of.
    fn refund(&mut self, key: u8, cost: u64) {
        self.begin();
        let now = self.course.now;
        let is_new = |key: &mut Reference| key.peek(0, now).reset_after == Some(0);
        self.limiter.refund_at(&key, cost, now);
        let reference = self.crowd.key(key);
        let was_new = is_new(reference);
        reference.refund(cost, now);
        let is_emptied = !was_new && is_new(reference);
        if is_emptied && !is_bucket(self.script.algorithm) {
            self.emptied = self.emptied.max(self.course.latest);
            self.exact &= !self.is_behind();
        }
    }

    fn set_quota(&mut self, index: usize) {
        let (quota, now) = (self.script.quotas[index], self.course.now);
        // Dated before a cell was taken, a change may forgive the key that was in it:
        // docs/guarantees.md, "A fresh key and a fast clock".
        if self.is_behind() || !self.course.follows(quota) {
            return;
        }
        if self.limiter.set_quota_at(quota, now).is_ok() {
            self.crowd.set_quota(quota, now);
            self.course.change(quota);
        }
    }

    fn step(&mut self, verb: Verb, key: u8, cost: u64) {
        let now = self.course.now;
        let quota = match verb {
            // Under a limit of 0 time stands still for the key, but not for the calls.
            Verb::CheckWith(index) if self.course.quota.limit() > 0 => Some(index),
            _ => None,
        };
        let quota = quota.filter(|_| self.script.algorithm == Algorithm::Gcra);
        match verb {
            Verb::Check | Verb::CheckWith(_) => self.check(Ask { key, cost, quota }),
            Verb::Peek => self.peek(key, cost),
            Verb::Refund => self.refund(key, cost),
            Verb::Reset => {
                self.begin();
                self.limiter.reset_at(&key, now);
                self.crowd.key(key).reset();
            }
            Verb::SetQuota(index) => self.set_quota(index),
            Verb::CheckMany => {
                let count = (cost % 40) as u8;
                let keys = (0..count).map(|step| (key + step) % KEYS);
                keys.for_each(|key| self.check(Ask { key, cost: 1, quota: None }));
            }
        }
    }

    /// Every key that was seen, as it stands at the end.
    fn end(&mut self) {
        self.crowd.others(u8::MAX).into_iter().for_each(|key| self.peek(key, 1));
        let most = most(self.script.algorithm, self.course.quota);
        self.peek(0, most);
    }
}

fuzz_target!(|script: Script| {
    let built = KeyedLimiter::builder(script.quotas[0])
        .algorithm(script.algorithm)
        .log_limit(script.ring)
        .log_cost(script.cost_max)
        .capacity(script.buckets * KEYS_PER_BUCKET)
        .overflow(script.overflow)
        .seed(script.seed)
        .clock(Clock::manual().0)
        .build();
    let Ok(limiter) = built else { return };
    // A log's stamps are rounded up to ticks, and a cell that is taken says so to the keys that
    // follow. By a clock in ticks there is nothing to round.
    let tick_bits = match script.algorithm {
        Algorithm::SlidingWindowLog => {
            (2 * script.ring).ilog2() + script.cost_max.next_power_of_two().ilog2()
        }
        _ => 0,
    };
    let mut trial = Trial {
        script: &script,
        limiter,
        crowd: Crowd::new(reference(&script)),
        course: Course::new(script.algorithm, script.quotas[0]).in_ticks(tick_bits),
        stats: Stats::default(),
        floor: 0,
        emptied: 0,
        exact: true,
        forgiven: 0,
        calls: 0,
    };
    for step in &script.steps {
        let cost = trial.course.take(step);
        trial.step(step.verb, step.key % KEYS, cost);
    }
    trial.end();
});
