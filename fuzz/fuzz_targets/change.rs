//! Quotas that change at any moment, for one state and for a few keys: the answers stay the
//! reference's, and nothing is minted, which fractions of a token tell without the reference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Algorithm, Clock, Decision, KeyedLimiter, Limiter, Quota, QuotaError};
use tollgate_fuzz::course::Course;
use tollgate_fuzz::crowd::Crowd;
use tollgate_fuzz::fractions::Fractions;
use tollgate_fuzz::reference::Answer;
use tollgate_fuzz::script::{Script, Verb};
use tollgate_fuzz::{builder, is_bucket, most, reference};

/// Few enough keys for a bucket: none is forgotten, and every change finds them all.
const KEYS: u8 = 4;

/// Either limiter.
enum Subject {
    One(Limiter),
    Keyed(KeyedLimiter<u8>),
}

impl Subject {
    /// Which of the two it is, the script says; `None` if it cannot be built.
    fn new(script: &Script) -> Option<Subject> {
        if script.buckets == 1 {
            return builder(script).build().ok().map(Subject::One);
        }
        let built = KeyedLimiter::builder(script.quotas[0])
            .algorithm(script.algorithm)
            .log_limit(script.ring)
            .log_cost(script.cost_max)
            .capacity(1)
            .seed(script.seed)
            .clock(Clock::manual().0)
            .build();
        built.ok().map(Subject::Keyed)
    }

    fn keys(&self) -> u8 {
        if matches!(self, Subject::One(_)) { 1 } else { KEYS }
    }

    fn check(&self, key: u8, cost: u64, now: u64) -> Decision {
        match self {
            Subject::One(limiter) => limiter.check_at(cost, now),
            Subject::Keyed(limiter) => limiter.check_at(&key, cost, now),
        }
    }

    fn peek(&self, key: u8, cost: u64, now: u64) -> Decision {
        match self {
            Subject::One(limiter) => limiter.peek_at(cost, now),
            Subject::Keyed(limiter) => limiter.peek_at(&key, cost, now),
        }
    }

    fn refund(&self, key: u8, tokens: u64, now: u64) {
        match self {
            Subject::One(limiter) => limiter.refund_at(tokens, now),
            Subject::Keyed(limiter) => limiter.refund_at(&key, tokens, now),
        }
    }

    fn reset(&self, key: u8, now: u64) {
        match self {
            Subject::One(limiter) => limiter.reset_at(now),
            Subject::Keyed(limiter) => limiter.reset_at(&key, now),
        }
    }

    fn set_quota(&self, quota: Quota, now: u64) -> Result<(), QuotaError> {
        match self {
            Subject::One(limiter) => limiter.set_quota_at(quota, now),
            Subject::Keyed(limiter) => limiter.set_quota_at(quota, now),
        }
    }
}

/// A subject and what it is held against.
struct Trial {
    algorithm: Algorithm,
    subject: Subject,
    crowd: Crowd,
    /// For buckets, one for each key.
    fractions: Vec<Fractions>,
    course: Course,
}

impl Trial {
    fn check(&mut self, key: u8, cost: u64) {
        let now = self.course.now;
        self.crowd.renew(now);
        let made = self.subject.check(key, cost, now);
        let ours = self.course.note(&made);
        let theirs = self.course.told(ours, self.crowd.key(key).check(cost, now));
        assert_eq!(ours, theirs, "check {cost} of {key} at {now}");
        assert_eq!(made.limit(), most(self.algorithm, self.course.quota));
        if let Some(fractions) = self.fractions.get_mut(usize::from(key))
            && ours.allowed
            && cost > 0
        {
            assert!(fractions.takes(cost, now), "minted: {cost} of {key} at {now}, {fractions:?}");
        }
    }

    fn peek(&mut self, key: u8, cost: u64) {
        let now = self.course.now;
        self.crowd.renew(now);
        let ours = Answer::from(&self.subject.peek(key, cost, now));
        let theirs = self.crowd.key(key).peek(cost, now);
        assert_eq!(ours, self.course.told(ours, theirs), "peek {cost} of {key} at {now}");
    }

    fn set_quota(&mut self, quota: Quota) {
        let now = self.course.now;
        if !self.course.follows(quota) {
            return;
        }
        if self.subject.set_quota(quota, now).is_ok() {
            self.crowd.set_quota(quota, now);
            self.fractions.iter_mut().for_each(|fractions| fractions.set_quota(quota, now));
            self.course.change(quota);
        }
    }

    fn step(&mut self, verb: Verb, key: u8, cost: u64, quotas: &[Quota]) {
        let now = self.course.now;
        self.fractions.iter_mut().for_each(|fractions| fractions.see(now));
        match verb {
            Verb::Check => self.check(key, cost),
            Verb::Peek => self.peek(key, cost),
            Verb::Refund => {
                self.crowd.renew(now);
                self.subject.refund(key, cost, now);
                self.crowd.key(key).refund(cost, now);
                let fractions = self.fractions.get_mut(usize::from(key));
                fractions.into_iter().for_each(|fractions| fractions.refund(cost, now));
            }
            Verb::Reset => {
                self.crowd.renew(now);
                self.subject.reset(key, now);
                self.crowd.key(key).reset();
                self.fractions.get_mut(usize::from(key)).into_iter().for_each(Fractions::reset);
            }
            Verb::SetQuota(index) => self.set_quota(quotas[index]),
            // There and back, in force for no time at all.
            Verb::CheckWith(index) => {
                let before = self.course.quota;
                self.set_quota(quotas[index]);
                self.set_quota(before);
            }
            Verb::CheckMany => (0..self.subject.keys()).for_each(|key| self.check(key, 1)),
        }
        self.peek(key, 1);
    }
}

fuzz_target!(|script: Script| {
    let Some(subject) = Subject::new(&script) else { return };
    let (algorithm, quota) = (script.algorithm, script.quotas[0]);
    let counted = if is_bucket(algorithm) { subject.keys() } else { 0 };
    let mut trial = Trial {
        algorithm,
        subject,
        crowd: Crowd::new(reference(&script)),
        fractions: vec![Fractions::new(quota); counted.into()],
        course: Course::new(algorithm, quota),
    };
    for step in &script.steps {
        let cost = trial.course.take(step);
        let key = step.key % trial.subject.keys();
        trial.step(step.verb, key, cost, &script.quotas);
    }
});
